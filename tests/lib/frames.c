#include "frames.h"

#include <string.h>

static void put16(uint8_t *p, uint32_t v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
        put16(p, v >> 16);
        put16(p + 2, v & 0xffff);
}

static uint32_t get16(const uint8_t *p)
{
        return p[0] * 256u + p[1];
}

static uint32_t get32(const uint8_t *p)
{
        return get16(p) * 65536u + get16(p + 2);
}

uint16_t frame_sum(const uint8_t *bytes, uint32_t len, uint32_t start)
{
        uint32_t sum = start;

        for (uint32_t i = 0; i < len; i += 2) {
                sum += bytes[i] * 256u + (i + 1 < len ? bytes[i + 1] : 0);
                sum = sum % 65536 + sum / 65536;
        }
        return (uint16_t)sum;
}

static uint16_t pseudo_sum(const uint8_t *frame, uint32_t l3, bool v6, uint8_t proto, uint32_t l4_len)
{
        uint8_t pseudo[40] = { 0 };
        uint32_t addresses = v6 ? 32 : 8;

        memcpy(pseudo, frame + l3 + (v6 ? 8 : 12), addresses);
        put32(pseudo + addresses, l4_len);
        pseudo[addresses + 7] = proto;
        return frame_sum(pseudo, addresses + 8, 0);
}

uint8_t frame_payload_byte(const struct frame_spec *spec, uint32_t i)
{
        return (uint8_t)((i * 7 + i / 251 + spec->seed) ^ (i >> 8));
}

static uint32_t build_ethernet(const struct frame_spec *spec, uint8_t *out)
{
        uint32_t off = 12;

        memcpy(out, "\x52\x54\x00\x01\x02\x03\x52\x54\x00\x0a\x0b\x0c", 12);
        for (unsigned i = 0; i < spec->vlans; i++, off += 4) {
                put16(out + off, spec->vlans == 2 && i == 0 ? 0x88a8 : 0x8100);
                put16(out + off + 2, 0x6000 + 100 + i);
        }
        put16(out + off, spec->v6 ? 0x86dd : 0x0800);
        return off + 2;
}

static uint32_t build_ipv4(const struct frame_spec *spec, uint8_t *ip, uint32_t l4_len)
{
        uint32_t header = 20 + 4 * spec->ip_words;

        memset(ip, 1, header); /* options: no operation */
        ip[0] = (uint8_t)(0x40 + header / 4);
        ip[1] = 0;
        put16(ip + 2, header + l4_len);
        put16(ip + 4, spec->id);
        put16(ip + 6, spec->fragment);
        ip[8] = 64;
        ip[9] = spec->proto;
        put16(ip + 10, 0);
        memcpy(ip + 12, "\xc0\xa8\x01\x02\x0a\xff\xfe\x07", 8);
        put16(ip + 10, 0xffffu - frame_sum(ip, header, 0));
        return header;
}

static uint32_t build_ipv6(const struct frame_spec *spec, uint8_t *ip, uint32_t l4_len)
{
        uint32_t header = 40 + 8 * spec->ip_words;

        memset(ip, 0, header);
        ip[0] = 0x60;
        put16(ip + 4, header - 40 + l4_len);
        ip[6] = spec->ip_words ? IPPROTO_DSTOPTS : spec->proto;
        ip[7] = 64;
        memcpy(ip + 8, "\xfe\x80\0\0\0\0\0\0\x50\x54\0\xff\xfe\x12\x34\x56", 16);
        memcpy(ip + 24, "\x20\x01\x0d\xb8\xff\xff\xff\xff\0\0\0\0\0\0\xff\xfe", 16);
        for (uint8_t *ext = ip + 40; ext < ip + header; ext += 8) {
                ext[0] = ext + 8 < ip + header ? IPPROTO_DSTOPTS : spec->proto;
                ext[2] = 1; /* PadN of 4 */
                ext[3] = 4;
        }
        return header;
}

static uint32_t transport_len(const struct frame_spec *spec)
{
        if (spec->proto == IPPROTO_TCP)
                return 20 + 4 * spec->tcp_words;
        return spec->proto == IPPROTO_UDP ? 8 : 0;
}

/* Returns where the checksum is in the header, 0 for none. */
static uint32_t build_transport(const struct frame_spec *spec, uint8_t *th, uint32_t l4_len)
{
        uint32_t header = transport_len(spec);

        memset(th, 1, header); /* TCP options: no operation */
        put16(th, 40000);
        put16(th + 2, 5001);
        if (spec->proto == IPPROTO_UDP) {
                put16(th + 4, l4_len);
                return 6;
        }
        put32(th + 4, spec->seq);
        put32(th + 8, 0x01020304);
        th[12] = (uint8_t)(header / 4 << 4);
        th[13] = spec->flags;
        put16(th + 14, 1000);
        put16(th + 18, 0);
        return 16;
}

uint32_t frame_build(const struct frame_spec *spec, uint8_t *out, struct vw_net_hdr *ret_hdr)
{
        uint32_t l3 = build_ethernet(spec, out), l4_len = transport_len(spec) + spec->payload;
        uint32_t l4 =
                l3 + (spec->v6 ? build_ipv6(spec, out + l3, l4_len) : build_ipv4(spec, out + l3, l4_len));
        uint32_t data = l4 + transport_len(spec), len = l4 + l4_len;
        struct vw_net_hdr hdr = { 0 };

        for (uint32_t i = 0; i < spec->payload; i++)
                out[data + i] = frame_payload_byte(spec, i);
        if (data > l4) {
                uint32_t field = build_transport(spec, out + l4, l4_len);
                uint16_t seed = pseudo_sum(out, l3, spec->v6, spec->proto, l4_len), csum;

                put16(out + l4 + field, 0);
                csum = (uint16_t)(0xffff - frame_sum(out + l4, l4_len, seed));
                if (!csum && spec->proto == IPPROTO_UDP)
                        csum = 0xffff;
                put16(out + l4 + field, spec->partial ? seed : csum);
                if (spec->partial)
                        hdr = (struct vw_net_hdr){
                                .flags = VW_HDR_F_NEEDS_CSUM,
                                .hdr_len = (uint16_t)data,
                                .csum_start = (uint16_t)l4,
                                .csum_offset = (uint16_t)field,
                        };
        }
        memset(out + len, 0xa5, spec->pad);
        if (ret_hdr)
                *ret_hdr = hdr;
        return len + spec->pad;
}

static const char *read_ipv4(const uint8_t *frame, uint32_t len, struct frame_view *v)
{
        const uint8_t *ip = frame + v->l3;
        uint32_t header;

        if (len < v->l3 + 20)
                return "IPv4 header cut off";
        header = (ip[0] % 16u) * 4;
        if (ip[0] / 16 != 4 || header < 20 || len < v->l3 + header)
                return "no IPv4 header";
        v->end = v->l3 + get16(ip + 2);
        if (v->end > len || v->end < v->l3 + header)
                return "IPv4 length outside the frame";
        if (frame_sum(ip, header, 0) != 0xffff)
                return "IPv4 header checksum";
        v->id = (uint16_t)get16(ip + 4);
        v->fragment = get16(ip + 6) & 0x3fff;
        v->proto = ip[9];
        v->l4 = v->l3 + header;
        return NULL;
}

static const char *read_ipv6(const uint8_t *frame, uint32_t len, struct frame_view *v)
{
        const uint8_t *ip = frame + v->l3;

        if (len < v->l3 + 40 || ip[0] / 16 != 6)
                return "no IPv6 header";
        v->end = v->l3 + 40 + get16(ip + 4);
        if (v->end > len)
                return "IPv6 length outside the frame";
        v->proto = ip[6];
        v->l4 = v->l3 + 40;
        while (v->proto == IPPROTO_DSTOPTS) {
                if (v->l4 + 8 > v->end)
                        return "IPv6 options cut off";
                v->proto = frame[v->l4];
                v->l4 += 8 + frame[v->l4 + 1] * 8u;
        }
        return v->l4 > v->end ? "IPv6 options cut off" : NULL;
}

static const char *read_transport(const uint8_t *frame, struct frame_view *v)
{
        const uint8_t *th = frame + v->l4;
        uint32_t l4_len = v->end - v->l4, header = 8;

        if (v->proto == IPPROTO_TCP) {
                if (l4_len < 20)
                        return "TCP header cut off";
                header = th[12] / 16u * 4;
                if (header < 20 || header > l4_len)
                        return "TCP header length";
                v->seq = get32(th + 4);
                v->flags = th[13];
                v->urgent = (uint16_t)get16(th + 18);
        } else if (l4_len < 8 || get16(th + 4) != l4_len) {
                return "UDP length";
        }
        v->payload = v->l4 + header;
        if (v->proto == IPPROTO_UDP && !get16(th + 6))
                return v->v6 ? "UDP without checksum over IPv6" : NULL;
        if (frame_sum(th, l4_len, pseudo_sum(frame, v->l3, v->v6, v->proto, l4_len)) != 0xffff)
                return "transport checksum";
        return NULL;
}

const char *frame_wrong(const uint8_t *frame, uint32_t len, struct frame_view *ret_view)
{
        struct frame_view *v = ret_view;
        uint32_t off = 12;
        const char *wrong;

        *v = (struct frame_view){ 0 };
        if (len < 14)
                return "no Ethernet header";
        while (v->vlans < 2 && (get16(frame + off) == 0x8100 || get16(frame + off) == 0x88a8)) {
                off += 4;
                v->vlans++;
                if (len < off + 2)
                        return "VLAN tag cut off";
        }
        v->l3 = off + 2;
        v->v6 = get16(frame + off) == 0x86dd;
        if (!v->v6 && get16(frame + off) != 0x0800)
                return NULL;
        wrong = v->v6 ? read_ipv6(frame, len, v) : read_ipv4(frame, len, v);
        if (wrong || v->fragment || (v->proto != IPPROTO_TCP && v->proto != IPPROTO_UDP))
                return wrong;
        return read_transport(frame, v);
}
