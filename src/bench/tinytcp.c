#include "bench/tinytcp.h"

#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

#define ETH      14
#define IP       20
#define TCP      20
#define WINDOW   65535 /* ours: nothing comes but acknowledgements */
#define PATIENCE (200 * NSEC_PER_MSEC)
#define REPEATS  3 /* acknowledgements of nothing new that mean a loss */

enum { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = TINYTCP_RST, FLAG_ACK = 16 };

static void put16(uint8_t *at, uint32_t value)
{
        at[0] = (uint8_t)(value >> 8);
        at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
        put16(at, value >> 16);
        put16(at + 2, value);
}

static uint32_t get16(const uint8_t *at)
{
        return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
        return get16(at) << 16 | get16(at + 2);
}

static uint32_t fold(uint32_t sum)
{
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return sum;
}

static void put_ethernet(const struct tinytcp_path *path, uint32_t type, uint8_t *frame)
{
        memcpy(frame, path->peer_mac, 6);
        memcpy(frame + 6, path->own_mac, 6);
        put16(frame + 12, type);
}

/* ---- who has? ---- */

#define ARP_REQUEST 1
#define ARP_REPLY   2

void tinytcp_arp(const struct tinytcp_path *path, const uint8_t *request, uint8_t *frame)
{
        static const uint8_t head[] = { 0, 1, 8, 0, 6, 4, 0 };
        uint8_t *arp = frame + ETH;

        put_ethernet(path, 0x0806, frame);
        memset(frame, 0xff, 6);
        memcpy(arp, head, sizeof(head));
        arp[7] = request ? ARP_REPLY : ARP_REQUEST;
        memcpy(arp + 8, path->own_mac, 6);
        put32(arp + 14, path->own_ip);
        memset(arp + 18, 0, 6);
        put32(arp + 24, path->peer_ip);
        if (request) {
                memcpy(frame, request + ETH + 8, 6);
                memcpy(arp + 18, request + ETH + 8, 10);
        }
}

bool tinytcp_arp_input(struct tinytcp_path *path, const uint8_t *frame, size_t len)
{
        const uint8_t *arp = frame + ETH;

        if (len < TINYTCP_ARP || get16(frame + 12) != 0x0806)
                return false;
        if (get32(arp + 14) == path->peer_ip) {
                memcpy(path->peer_mac, arp + 8, 6);
                path->resolved = true;
        }
        return arp[7] == ARP_REQUEST && get32(arp + 24) == path->own_ip;
}

/* ---- out ---- */

void tinytcp_open(struct tinytcp *t, uint16_t own_port, uint16_t peer_port, uint32_t first, uint64_t now)
{
        *t = (struct tinytcp){ .own_port = own_port,
                               .peer_port = peer_port,
                               .una = first,
                               .nxt = first + 1,
                               .top = first + 1,
                               .progress_at = now };
}

/* Everything but the checksum of the segment, which whoever sends it adds to that of the pseudo header. */
static void put_headers(const struct tinytcp *t, const struct tinytcp_path *path, uint32_t seq, uint8_t flags,
                        uint32_t options, uint32_t payload, uint8_t *frame, struct vw_net_hdr *ret_hdr)
{
        uint8_t *ip = frame + ETH, *tcp = ip + IP;
        uint32_t length = TCP + options + payload, sum = 0;

        put_ethernet(path, 0x0800, frame);
        memset(ip, 0, IP + TCP);
        ip[0] = 0x45;
        put16(ip + 2, IP + length);
        ip[6] = 0x40; /* do not fragment */
        ip[8] = 64;
        ip[9] = IPPROTO_TCP;
        put32(ip + 12, path->own_ip);
        put32(ip + 16, path->peer_ip);
        for (unsigned i = 0; i < IP; i += 2)
                sum += get16(ip + i);
        put16(ip + 10, ~fold(sum));

        put16(tcp, t->own_port);
        put16(tcp + 2, t->peer_port);
        put32(tcp + 4, seq);
        put32(tcp + 8, flags & FLAG_SYN ? 0 : t->rcv_nxt);
        tcp[12] = (uint8_t)((TCP + options) / 4 << 4);
        tcp[13] = flags;
        put16(tcp + 14, WINDOW);
        put16(tcp + 16,
              fold(get16(ip + 12) + get16(ip + 14) + get16(ip + 16) + get16(ip + 18) + IPPROTO_TCP + length));

        *ret_hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM,
                                        .csum_start = ETH + IP,
                                        .csum_offset = 16 };
        if (payload > TINYTCP_MSS) {
                ret_hdr->gso_type = VW_GSO_TCPV4;
                ret_hdr->gso_size = TINYTCP_MSS;
                ret_hdr->hdr_len = (uint16_t)(ETH + IP + TCP + options);
        }
}

void tinytcp_syn(const struct tinytcp *t, const struct tinytcp_path *path, uint8_t *frame,
                 struct vw_net_hdr *ret_hdr)
{
        static const uint8_t options[] = { 2, 4, TINYTCP_MSS >> 8, TINYTCP_MSS & 0xff, 3, 3, 0, 0 };

        put_headers(t, path, t->una, FLAG_SYN, sizeof(options), 0, frame, ret_hdr);
        memcpy(frame + TINYTCP_HEADERS, options, sizeof(options));
}

void tinytcp_headers(const struct tinytcp *t, const struct tinytcp_path *path, uint32_t payload,
                     uint8_t flags, uint8_t *frame, struct vw_net_hdr *ret_hdr)
{
        put_headers(t, path, t->nxt, flags | FLAG_ACK, 0, payload, frame, ret_hdr);
}

void tinytcp_sent(struct tinytcp *t, uint32_t payload, uint64_t now)
{
        if (t->nxt == t->una)
                t->progress_at = now;
        t->nxt += payload;
        if (t->nxt - t->una > t->top - t->una)
                t->top = t->nxt;
}

uint32_t tinytcp_room(const struct tinytcp *t)
{
        uint32_t out = t->nxt - t->una;

        return t->established && out < t->window ? t->window - out : 0;
}

/* ---- in ---- */

/* The TCP header in a frame for us, and the bytes from it on; NULL: none. */
static const uint8_t *find_tcp(const uint8_t *frame, size_t len, uint32_t *ret_length)
{
        const uint8_t *ip = frame + ETH;
        uint32_t head, total;

        if (len < ETH + IP || get16(frame + 12) != 0x0800 || ip[0] >> 4 != 4 || ip[9] != IPPROTO_TCP)
                return NULL;
        head = (ip[0] & 15u) * 4;
        total = get16(ip + 2);
        if (head < IP || total < head + TCP || len < ETH + head + TCP)
                return NULL;
        *ret_length = total - head;
        return ip + head;
}

bool tinytcp_ports(const struct tinytcp_path *path, const uint8_t *frame, size_t len, uint16_t *ret_own,
                   uint16_t *ret_peer)
{
        uint32_t length;
        const uint8_t *tcp = find_tcp(frame, len, &length);

        if (!tcp || get32(frame + ETH + 16) != path->own_ip || get32(frame + ETH + 12) != path->peer_ip)
                return false;
        *ret_own = (uint16_t)get16(tcp + 2);
        *ret_peer = (uint16_t)get16(tcp);
        return true;
}

/* The window scale among the options of a SYN; `end` is where what we have of the frame ends. */
static uint8_t find_scale(const uint8_t *at, const uint8_t *end)
{
        while (at + 2 < end && *at) {
                if (*at == 1) {
                        at++;
                        continue;
                }
                if (at[0] == 3 && at[1] == 3)
                        return at[2] <= 14 ? at[2] : 14;
                if (at[1] < 2)
                        break;
                at += at[1];
        }
        return 0;
}

static void acknowledge(struct tinytcp *t, uint32_t ack, uint32_t window, bool pure, uint64_t now)
{
        uint32_t news = ack - t->una;

        if (news > t->top - t->una)
                return; /* old, or of what was never sent */
        if (news) {
                if (news > t->nxt - t->una)
                        t->nxt = ack; /* gone back too far: the peer had more */
                t->una = ack;
                t->acked += news;
                t->repeats = 0;
                t->progress_at = now;
        } else if (pure && window == t->window && t->nxt != t->una && ++t->repeats == REPEATS) {
                t->nxt = t->una;
        }
        t->window = window;
}

void tinytcp_input(struct tinytcp *t, const uint8_t *frame, size_t len, uint64_t now)
{
        uint32_t length, head;
        const uint8_t *tcp = find_tcp(frame, len, &length);

        if (!tcp)
                return;
        head = (tcp[12] >> 4) * 4u;
        if (head < TCP || head > length)
                return;
        if (tcp[13] & FLAG_RST) {
                t->reset = true;
                return;
        }
        if (tcp[13] & FLAG_SYN) {
                if (t->established || !(tcp[13] & FLAG_ACK) || get32(tcp + 8) != t->nxt)
                        return;
                t->established = true;
                t->una = t->nxt;
                t->rcv_nxt = get32(tcp + 4) + 1;
                t->window = get16(tcp + 14);
                t->window_scale = find_scale(tcp + TCP, frame + MIN(len, (size_t)(tcp - frame) + head));
                t->progress_at = now;
                return;
        }
        if (t->established && tcp[13] & FLAG_ACK)
                acknowledge(t, get32(tcp + 8), get16(tcp + 14) << t->window_scale, length == head, now);
}

bool tinytcp_timeout(struct tinytcp *t, uint64_t now)
{
        if (t->reset || now < t->progress_at + PATIENCE || (t->established && t->nxt == t->una))
                return false;
        t->progress_at = now;
        t->repeats = 0;
        if (t->established)
                t->nxt = t->una;
        return true;
}
