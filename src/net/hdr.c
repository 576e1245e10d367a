/* A header is checked against the frame that it travels with.  What may be offloaded is what the frame's own headers bear out:
 * one TCP or UDP packet under GSO; a checksum of the packet's transport, or of something further in (a tunnel's inner packet),
 * but never one that sums cannot make right: a fragment's, SCTP's, one outside the packet. */
#include "net/hdr.h"

#include <netinet/in.h>

#include "base/check.h"
#include "virtio/features.h"

static uint16_t be16(const uint8_t *p)
{
        return (uint16_t)(p[0] << 8 | p[1]);
}

/* ---- where the headers are ---- */

enum { TYPE_VLAN = 0x8100, TYPE_QINQ = 0x88a8 };

static bool parse_ethernet(const uint8_t *bytes, uint32_t have, struct net_layout *at)
{
        uint32_t off = NET_ETH_LEN;

        if (have < off)
                return false;
        at->ethertype = be16(bytes + off - 2);
        for (int i = 0; i < NET_VLAN_TAGS && (at->ethertype == TYPE_VLAN || at->ethertype == TYPE_QINQ);
             i++) {
                off += NET_VLAN_LEN;
                if (have < off)
                        return false;
                at->ethertype = be16(bytes + off - 2);
        }
        at->l3 = (uint16_t)off;
        return true;
}

static bool parse_ipv4(const uint8_t *bytes, uint32_t have, uint32_t len, struct net_layout *at)
{
        const uint8_t *ip = bytes + at->l3;
        uint32_t header, total, frag;

        if (have < at->l3 + 20u || ip[0] >> 4 != 4)
                return false;
        header = (ip[0] & 15) * 4;
        total = be16(ip + 2) ? be16(ip + 2) : len - at->l3;
        if (header < 20 || have < at->l3 + header || total < header || total > len - at->l3)
                return false;
        frag = be16(ip + 6);
        at->fragment = frag & 0x3fff; /* more follow, or not the first */
        at->l4_proto = frag & 0x1fff ? IPPROTO_NONE : ip[9];
        at->l4 = (uint16_t)(at->l3 + header);
        at->ip_end = at->l3 + total;
        return true;
}

/* IPv6 headers that may stand before the transport's; behind others (AH, ESP) nothing can be offloaded. */
static bool is_extension(uint8_t proto)
{
        return proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_DSTOPTS ||
               proto == IPPROTO_FRAGMENT;
}

static bool parse_ipv6(const uint8_t *bytes, uint32_t have, uint32_t len, struct net_layout *at)
{
        const uint8_t *ip = bytes + at->l3;
        uint32_t off = at->l3 + 40u, total, room;
        uint8_t next;

        if (have < off || ip[0] >> 4 != 6)
                return false;
        total = be16(ip + 4) ? 40u + be16(ip + 4) : len - at->l3;
        if (total > len - at->l3)
                return false;
        room = MIN(have, at->l3 + total);
        next = ip[6];
        while (is_extension(next)) {
                const uint8_t *ext = bytes + off;
                bool fragment = next == IPPROTO_FRAGMENT;

                if (room < off + 8)
                        return false;
                at->fragment |= fragment;
                at->routed |= next == IPPROTO_ROUTING && ext[3];
                off += fragment ? 8 : 8 + ext[1] * 8u;
                next = fragment && be16(ext + 2) & 0xfff8 ? IPPROTO_NONE : ext[0];
        }
        if (room < off)
                return false;
        at->l4_proto = next;
        at->l4 = (uint16_t)off;
        at->ip_end = at->l3 + total;
        return true;
}

static bool parse_transport(const uint8_t *bytes, uint32_t have, struct net_layout *at)
{
        bool tcp = at->l4_proto == IPPROTO_TCP;
        uint32_t room = MIN(have, at->ip_end) - at->l4, least = tcp ? 20 : 8, header;

        if ((!tcp && at->l4_proto != IPPROTO_UDP) || room < least)
                return false;
        header = tcp ? (bytes[at->l4 + 12] >> 4) * 4u : 8;
        if (header < least || header > room)
                return false;
        at->end = (uint16_t)(at->l4 + header);
        return true;
}

bool net_parse(const uint8_t *bytes, uint32_t have, uint32_t len, struct net_layout *ret_layout)
{
        struct net_layout at = { 0 };
        bool known;

        have = MIN(MIN(have, len), NET_HEADERS_MAX);
        known = parse_ethernet(bytes, have, &at) &&
                ((at.ethertype == NET_TYPE_IPV4 && parse_ipv4(bytes, have, len, &at)) ||
                 (at.ethertype == NET_TYPE_IPV6 && parse_ipv6(bytes, have, len, &at))) &&
                parse_transport(bytes, have, &at);
        *ret_layout = at;
        return known;
}

/* ---- whether the header holds ---- */

/* The feature bits that give the right to each offload, by direction. */
struct rights {
        uint64_t csum, tso4, tso6, ecn, ufo, uso4, uso6;
};

static const struct rights tx_rights = {
        .csum = F(csum),
        .tso4 = F(host_tso4),
        .tso6 = F(host_tso6),
        .ecn = F(host_ecn),
        .ufo = F(host_ufo),
        .uso4 = F(host_uso),
        .uso6 = F(host_uso),
};

static const struct rights rx_rights = {
        .csum = F(guest_csum),
        .tso4 = F(guest_tso4),
        .tso6 = F(guest_tso6),
        .ecn = F(guest_ecn),
        .ufo = F(guest_ufo),
        .uso4 = F(guest_uso4),
        .uso6 = F(guest_uso6),
};

/* True if summing from csum_start and storing at csum_offset makes a checksum that somebody will check, and not nonsense.  The
 * field lies in the frame. */
static bool csum_makes_sense(const struct vw_net_hdr *hdr, const uint8_t *bytes, const struct net_layout *at)
{
        uint32_t start = hdr->csum_start, field = start + hdr->csum_offset;

        if (!at->l3 || start < at->l3 || hdr->csum_offset % 2)
                return false;
        if (at->ethertype != NET_TYPE_IPV4 && at->ethertype != NET_TYPE_IPV6)
                return true; /* PPPoE, MPLS, ...: the packet is further in */
        if (start < at->l4 || field + 2 > at->ip_end || at->fragment) /* not a whole IP packet: ip_end is 0 */
                return false;
        switch (at->l4_proto) {
        case IPPROTO_TCP:
                return at->end && start == at->l4 && hdr->csum_offset == NET_TCP_CSUM_OFF;
        case IPPROTO_UDP:
                if (at->end && start >= at->end)
                        return true; /* VXLAN, Geneve, ...: the checksum is the inner packet's */
                return at->end && start == at->l4 && hdr->csum_offset == NET_UDP_CSUM_OFF &&
                       be16(bytes + at->l4 + 4) == at->ip_end - at->l4;
        case IPPROTO_SCTP:
                return false; /* a CRC32c */
        default:
                return true;
        }
}

static uint64_t gso_right(unsigned type, const struct net_layout *at, const struct rights *rights)
{
        switch (type) {
        case VW_GSO_TCPV4:
                return rights->tso4;
        case VW_GSO_TCPV6:
                return rights->tso6;
        case VW_GSO_UDP:
                return rights->ufo;
        case VW_GSO_UDP_L4:
                return at->ethertype == NET_TYPE_IPV6 ? rights->uso6 : rights->uso4;
        default:
                return 0;
        }
}

/* True if the packet's headers are those of its type and the checksum is the transport's. */
static bool gso_matches(const struct vw_net_hdr *hdr, unsigned type, const struct net_layout *at,
                        uint32_t len)
{
        bool tcp = type == VW_GSO_TCPV4 || type == VW_GSO_TCPV6;

        if (!at->end || at->fragment || at->ip_end != len ||
            at->l4_proto != (tcp ? IPPROTO_TCP : IPPROTO_UDP))
                return false;
        if (tcp && at->ethertype != (type == VW_GSO_TCPV4 ? NET_TYPE_IPV4 : NET_TYPE_IPV6))
                return false;
        return hdr->csum_start == at->l4 && hdr->csum_offset == (tcp ? NET_TCP_CSUM_OFF : NET_UDP_CSUM_OFF);
}

/* Nobody honest cuts finer: a TCP segment is 48 bytes of options and payload at the least, where 40 may be options, and UDP senders are
 * allowed 128 datagrams at once (both are Linux's limits, wider than others').  Without a limit one frame is 65,000 segments. */
static bool gso_too_fine(unsigned type, uint16_t gso_size, uint32_t payload)
{
        return type == VW_GSO_TCPV4 || type == VW_GSO_TCPV6 ? gso_size < NET_TCP_GSO_LEAST
                                                            : payload > NET_UDP_GSO_MOST * gso_size;
}

static enum vw_drop check_gso(const struct vw_net_hdr *hdr, uint32_t len, const struct net_layout *at,
                              uint64_t features, const struct rights *rights)
{
        unsigned type = hdr->gso_type & ~VW_GSO_ECN;
        bool ecn = hdr->gso_type & VW_GSO_ECN;
        uint64_t right = gso_right(type, at, rights);

        if (!right || !hdr->gso_size || !(hdr->flags & VW_HDR_F_NEEDS_CSUM))
                return VW_DROP_BAD_GSO;
        if (ecn && type != VW_GSO_TCPV4 && type != VW_GSO_TCPV6)
                return VW_DROP_BAD_GSO;
        if (!(features & right) || (ecn && !(features & rights->ecn)))
                return VW_DROP_NOT_NEGOTIATED;
        if (!gso_matches(hdr, type, at, len) || gso_too_fine(type, hdr->gso_size, len - at->end))
                return VW_DROP_BAD_GSO;
        return VW_DROP_NONE;
}

static enum vw_drop check_offloads(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len,
                                   uint64_t features, const struct rights *rights)
{
        struct net_layout at;
        uint32_t field_end;
        enum vw_drop drop;

        if (hdr->flags & VW_HDR_F_NEEDS_CSUM) {
                if (!(features & rights->csum))
                        return VW_DROP_NOT_NEGOTIATED;
        } else {
                hdr->csum_start = hdr->csum_offset = 0;
        }
        hdr->hdr_len = 0;
        if (hdr->gso_type == VW_GSO_NONE) {
                hdr->gso_size = 0;
                if (!(hdr->flags & VW_HDR_F_NEEDS_CSUM))
                        return VW_DROP_NONE;
        }
        field_end = (uint32_t)hdr->csum_start + hdr->csum_offset + 2;
        if (field_end > len)
                return VW_DROP_BAD_CSUM;
        net_parse(bytes, len, len, &at);
        if (hdr->gso_type == VW_GSO_NONE)
                drop = csum_makes_sense(hdr, bytes, &at) ? VW_DROP_NONE : VW_DROP_BAD_CSUM;
        else
                drop = check_gso(hdr, len, &at, features, rights);
        if (drop == VW_DROP_NONE)
                hdr->hdr_len =
                        hdr->csum_start == at.l4 && at.end ? at.end : (uint16_t)MIN(field_end, UINT16_MAX);
        return drop;
}

enum vw_drop net_tx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features)
{
        hdr->flags &= VW_HDR_F_NEEDS_CSUM;
        hdr->num_buffers = 0;
        if (len < NET_ETH_LEN)
                return VW_DROP_SHORT;
        return check_offloads(hdr, bytes, len, features, &tx_rights);
}

enum vw_drop net_rx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features)
{
        if (hdr->flags & VW_HDR_F_NEEDS_CSUM)
                hdr->flags = VW_HDR_F_NEEDS_CSUM;
        else
                hdr->flags &= features & F(guest_csum) ? VW_HDR_F_DATA_VALID : 0;
        if (len < NET_ETH_LEN)
                return VW_DROP_SHORT;
        return check_offloads(hdr, bytes, len, features, &rx_rights);
}

bool net_over_mtu(const struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint32_t mtu)
{
        struct net_layout at = { 0 };

        if (hdr->gso_type != VW_GSO_NONE)
                len = MIN(len, (uint32_t)hdr->hdr_len + hdr->gso_size);
        parse_ethernet(bytes, len, &at);
        return len > at.l3 + mtu;
}
