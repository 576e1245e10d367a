#include "net/gso.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "net/csum.h"

enum { TCP_FIN = 0x01, TCP_PSH = 0x08, TCP_CWR = 0x80 };

static void put_be16(uint8_t *p, uint32_t value)
{
        p[0] = (uint8_t)(value >> 8);
        p[1] = (uint8_t)value;
}

static void add_be32(uint8_t *p, uint32_t more)
{
        uint32_t value;

        memcpy(&value, p, sizeof(value));
        value = htonl(ntohl(value) + more);
        memcpy(p, &value, sizeof(value));
}

static bool type_matches(uint8_t gso_type, const struct net_layout *at)
{
        switch (gso_type & ~VW_GSO_ECN) {
        case VW_GSO_TCPV4:
                return at->ethertype == NET_TYPE_IPV4 && at->l4_proto == IPPROTO_TCP;
        case VW_GSO_TCPV6:
                return at->ethertype == NET_TYPE_IPV6 && at->l4_proto == IPPROTO_TCP;
        case VW_GSO_UDP_L4:
                return at->l4_proto == IPPROTO_UDP;
        default:
                return false;
        }
}

int net_gso_begin(struct net_gso *g, const struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len)
{
        struct net_layout at;
        uint32_t payload, longest;

        if (!net_parse(frame, len, len, &at) || !type_matches(hdr->gso_type, &at) || !hdr->gso_size ||
            at.fragment || at.routed || at.ip_end != len)
                return -EINVAL;
        payload = len - at.end;
        longest = at.end - at.l3 + MIN(payload, hdr->gso_size);
        if (longest > (at.ethertype == NET_TYPE_IPV4 ? 0u : 40u) + UINT16_MAX)
                return -EINVAL;
        *g = (struct net_gso){ .frame = frame, .at = at, .payload = payload, .size = hdr->gso_size };
        return 0;
}

static void finish_ipv4(uint8_t *ip, uint32_t header, uint32_t total, unsigned index)
{
        uint16_t csum;

        put_be16(ip + 2, total);
        put_be16(ip + 4, (uint32_t)(ip[4] << 8 | ip[5]) + index);
        put_be16(ip + 10, 0);
        csum = net_csum_fold(net_csum_add(0, ip, header));
        memcpy(ip + 10, &csum, sizeof(csum));
}

static void finish_tcp(uint8_t *th, uint32_t done, bool first, bool last)
{
        add_be32(th + 4, done);
        if (!first)
                th[13] &= (uint8_t)~TCP_CWR;
        if (!last)
                th[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
}

/* The pseudo header's sum (RFC 793, RFC 8200 8.1) of a transport packet of `len` bytes. */
static uint64_t pseudo_sum(const uint8_t *frame, const struct net_layout *at, uint32_t len)
{
        bool v4 = at->ethertype == NET_TYPE_IPV4;
        uint64_t sum = (uint64_t)htonl(len) + htons(at->l4_proto);

        return net_csum_add(sum, frame + at->l3 + (v4 ? 12 : 8), v4 ? 8 : 32);
}

uint32_t net_gso_next(struct net_gso *g, uint8_t *out, uint32_t room)
{
        const struct net_layout *at = &g->at;
        uint32_t part = MIN(g->size, g->payload - g->done), len = at->end + part;
        bool tcp = at->l4_proto == IPPROTO_TCP;
        uint16_t seed, field = tcp ? NET_TCP_CSUM_OFF : NET_UDP_CSUM_OFF;

        if (g->index && g->done == g->payload)
                return 0;
        check(len <= room);
        memcpy(out, g->frame, at->end);
        memcpy(out + at->end, g->frame + at->end + g->done, part);
        if (at->ethertype == NET_TYPE_IPV4)
                finish_ipv4(out + at->l3, at->l4 - at->l3, len - at->l3, g->index);
        else
                put_be16(out + at->l3 + 4, len - at->l3 - 40);
        if (tcp)
                finish_tcp(out + at->l4, g->done, g->index == 0, g->done + part == g->payload);
        else
                put_be16(out + at->l4 + 4, len - at->l4);
        seed = (uint16_t)~net_csum_fold(pseudo_sum(out, at, len - at->l4));
        memcpy(out + at->l4 + field, &seed, sizeof(seed));
        check(net_csum_complete(out, len, at->l4, field) == 0);
        g->done += part;
        g->index++;
        return len;
}
