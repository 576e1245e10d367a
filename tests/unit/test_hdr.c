/* The virtio-net header: bytes, where the frame's headers are, and what each end refuses. */
#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "frames.h"
#include "net/hdr.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "virtio/features.h"

#define HOST  (F(csum) | F(host_tso4) | F(host_tso6) | F(host_ecn) | F(host_uso))
#define GUEST (F(guest_csum) | F(guest_tso4) | F(guest_tso6) | F(guest_ecn) | F(guest_uso4) | F(guest_uso6))

static const struct frame_spec tcp4 = { .proto = IPPROTO_TCP, .payload = 3000, .partial = true };
static const struct frame_spec tcp6 = { .v6 = true, .proto = IPPROTO_TCP, .payload = 3000, .partial = true };
static const struct frame_spec udp4 = { .proto = IPPROTO_UDP, .payload = 3000, .partial = true };
static const struct frame_spec udp6 = { .v6 = true, .proto = IPPROTO_UDP, .payload = 3000, .partial = true };

/* A frame, and the header that goes with it. */
struct sample {
        uint8_t frame[4096];
        uint32_t len;
        struct vw_net_hdr hdr;
};

static struct sample make(struct frame_spec spec, unsigned gso_type)
{
        struct sample s = { .len = 0 };

        s.len = frame_build(&spec, s.frame, &s.hdr);
        s.hdr.gso_type = (uint8_t)gso_type;
        s.hdr.gso_size = gso_type ? 1000 : 0;
        return s;
}

static enum vw_drop tx(struct sample s, uint64_t features)
{
        return net_tx_check(&s.hdr, s.frame, s.len, features);
}

static enum vw_drop rx(struct sample s, uint64_t features)
{
        return net_rx_check(&s.hdr, s.frame, s.len, features);
}

/* ---- bytes ---- */

TEST(hdr, bytes_are_little_endian)
{
        static const uint8_t bytes[12] = {
                1, 0x84, 0x42, 0x00, 0xb4, 0x05, 0x36, 0x00, 0x10, 0x00, 0x02, 0x01
        };
        uint8_t out[12] = { 0 };
        struct vw_net_hdr h;

        net_hdr_decode(bytes, 12, &h);
        EXPECT_EQ(h.flags, 1);
        EXPECT_EQ(h.gso_type, VW_GSO_TCPV6 | VW_GSO_ECN);
        EXPECT_EQ(h.hdr_len, 66);
        EXPECT_EQ(h.gso_size, 1460);
        EXPECT_EQ(h.csum_start, 54);
        EXPECT_EQ(h.csum_offset, 16);
        EXPECT_EQ(h.num_buffers, 0x102);
        net_hdr_encode(&h, 12, out);
        EXPECT_MEM(out, bytes, 12);
}

/* T-TX-26 */
TEST(hdr, ten_byte_form_has_no_number_of_buffers)
{
        uint8_t bytes[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xee, 0xee };
        struct vw_net_hdr h;

        net_hdr_decode(bytes, 10, &h);
        EXPECT_EQ(h.num_buffers, 0);
        h.num_buffers = 7;
        net_hdr_encode(&h, 10, bytes);
        EXPECT_EQ(bytes[10], 0xee);
        EXPECT_EQ(bytes[11], 0xee);
        EXPECT_EQ(features_hdr_len(0), 10);
        EXPECT_EQ(features_hdr_len(F(mrg_rxbuf)), 12);
        EXPECT_EQ(features_hdr_len(F(version_1)), 12);
}

/* ---- where the headers are ---- */

TEST(hdr, parse_finds_what_the_builder_built)
{
        uint64_t rng = 9;
        uint8_t frame[4096];

        for (uint64_t i = 0; i < test_scale(20000, 2000000); i++) {
                struct frame_spec spec = {
                        .vlans = rng_below(&rng, 3),
                        .v6 = rng_below(&rng, 2),
                        .proto = rng_below(&rng, 2) ? IPPROTO_TCP : IPPROTO_UDP,
                        .ip_words = rng_below(&rng, 11),
                        .tcp_words = rng_below(&rng, 11),
                        .payload = rng_below(&rng, 3000),
                        .pad = rng_below(&rng, 20),
                };
                uint32_t len = frame_build(&spec, frame, NULL);
                struct frame_view v;
                struct net_layout at;

                EXPECT(!frame_wrong(frame, len, &v));
                EXPECT(net_parse(frame, len, len, &at));
                EXPECT_EQ(at.ethertype, spec.v6 ? 0x86dd : 0x0800);
                EXPECT_EQ(at.l3, v.l3);
                EXPECT_EQ(at.l4, v.l4);
                EXPECT_EQ(at.end, v.payload);
                EXPECT_EQ(at.ip_end, v.end);
                EXPECT_EQ(at.l4_proto, v.proto);
                EXPECT(!at.fragment && !at.routed);
        }
}

TEST(hdr, parse_needs_all_of_the_headers_and_nothing_after_them)
{
        static const struct frame_spec specs[] = {
                {.proto = IPPROTO_TCP, .payload = 500, .tcp_words = 10,                       .ip_words = 10, .vlans = 2 },
                { .proto = IPPROTO_UDP,          .payload = 500                      },
                { .v6 = true,                   .proto = IPPROTO_TCP,  .payload = 500,                                        .ip_words = 3, .vlans = 1 },
                { .v6 = true,       .proto = IPPROTO_UDP,           .payload = 500},
        };

        for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
                struct sample s = make(specs[i], 0);
                struct frame_view v;
                struct net_layout at;

                EXPECT(!frame_wrong(s.frame, s.len, &v));
                for (uint32_t have = 0; have <= s.len; have++) {
                        uint8_t tail[sizeof(s.frame)], *bytes = tail + sizeof(tail) - have;

                        memcpy(bytes, s.frame, have);
                        EXPECT_EQ(net_parse(bytes, have, s.len, &at), have >= v.payload);
                }
        }
}

TEST(hdr, parse_reads_headers_that_fill_the_frame)
{
        struct frame_spec spec = { .proto = IPPROTO_IPIP };
        struct net_layout at;
        struct sample s = make(spec, 0);

        EXPECT(!net_parse(s.frame, s.len, s.len, &at)); /* IPv4 and nothing more */
        EXPECT_EQ(at.l4, 34);
        EXPECT_EQ(at.ip_end, 34);
        spec.ip_words = 10;
        s = make(spec, 0);
        net_parse(s.frame, s.len, s.len, &at);
        EXPECT_EQ(at.l4, 74);
        spec = (struct frame_spec){ .v6 = true, .proto = IPPROTO_NONE };
        s = make(spec, 0);
        net_parse(s.frame, s.len, s.len, &at);
        EXPECT_EQ(at.l4, 54);
        spec.ip_words = 1;
        s = make(spec, 0);
        net_parse(s.frame, s.len, s.len, &at);
        EXPECT_EQ(at.l4, 62);
        EXPECT_EQ(at.l4_proto, IPPROTO_NONE);
        net_parse(s.frame, 14, 14, &at); /* Ethernet and nothing more */
        EXPECT_EQ(at.l3, 14);
        spec.vlans = 2;
        s = make(spec, 0);
        net_parse(s.frame, 22, 22, &at);
        EXPECT_EQ(at.l3, 22);
        EXPECT_EQ(at.ethertype, 0x86dd);
}

TEST(hdr, parse_stops_at_what_is_not_as_it_should_be)
{
        struct sample s = make(tcp4, 0);
        struct net_layout at;

        s.frame[14] = 0x65; /* IPv4 of version 6 */
        EXPECT(!net_parse(s.frame, s.len, s.len, &at));
        EXPECT_EQ(at.l4, 0);
        s = make(tcp6, 0);
        s.frame[14] = 0x40; /* IPv6 of version 4 */
        EXPECT(!net_parse(s.frame, s.len, s.len, &at));
        EXPECT_EQ(at.l4, 0);
        s = make(tcp4, 0);
        s.frame[16] = 0; /* a length below the header's */
        s.frame[17] = 19;
        EXPECT(!net_parse(s.frame, s.len, s.len, &at));
        EXPECT_EQ(at.l4, 0);
        s = make((struct frame_spec){ .proto = IPPROTO_TCP, .vlans = 2 }, 0);
        memmove(s.frame + 16, s.frame + 12, s.len - 12); /* a third tag */
        net_parse(s.frame, s.len + 4, s.len + 4, &at);
        EXPECT_EQ(at.ethertype, 0x8100);
        EXPECT_EQ(at.l3, 22);
}

TEST(hdr, parse_knows_fragments)
{
        static const struct {
                uint16_t field;
                bool fragment, transport;
        } cases[] = {
                {0,       false, true },
                { 0x4000, false, true },
                { 0x2000, true,  true },
                { 0x0001, true,  false},
                { 0x3fff, true,  false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct frame_spec spec = tcp4;
                struct net_layout at;
                struct sample s;

                spec.fragment = cases[i].field;
                s = make(spec, 0);
                EXPECT_EQ(net_parse(s.frame, s.len, s.len, &at), cases[i].transport);
                EXPECT_EQ(at.fragment, cases[i].fragment);
                EXPECT_EQ(at.l4_proto, cases[i].transport ? IPPROTO_TCP : IPPROTO_NONE);
        }
}

static struct sample make_ext(uint8_t type, uint8_t b2, uint8_t b3)
{
        struct frame_spec spec = {
                .v6 = true, .proto = IPPROTO_TCP, .payload = 100, .ip_words = 1, .partial = true
        };
        struct sample s = make(spec, 0);

        s.frame[14 + 6] = type;
        s.frame[54 + 2] = b2;
        s.frame[54 + 3] = b3;
        return s;
}

TEST(hdr, parse_walks_ipv6_extension_headers)
{
        static const struct {
                uint8_t type, b2, b3;
                bool transport, fragment, routed;
        } cases[] = {
                {IPPROTO_HOPOPTS,   1, 4, true,  false, false},
                { IPPROTO_ROUTING,  4, 0, true,  false, false},
                { IPPROTO_ROUTING,  4, 1, true,  false, true },
                { IPPROTO_FRAGMENT, 0, 0, true,  true,  false},
                { IPPROTO_FRAGMENT, 0, 1, true,  true,  false}, /* more follow */
                { IPPROTO_FRAGMENT, 0, 8, false, true,  false}, /* not the first */
                { IPPROTO_FRAGMENT, 1, 0, false, true,  false},
                { IPPROTO_AH,       0, 0, false, false, false},
                { IPPROTO_NONE,     0, 0, false, false, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct sample s = make_ext(cases[i].type, cases[i].b2, cases[i].b3);
                struct net_layout at;

                EXPECT_EQ(net_parse(s.frame, s.len, s.len, &at), cases[i].transport);
                EXPECT_EQ(at.fragment, cases[i].fragment);
                EXPECT_EQ(at.routed, cases[i].routed);
                EXPECT_EQ(at.ip_end, s.len);
        }
}

TEST(hdr, parse_of_noise_stays_inside_the_bytes)
{
        uint64_t rng = 77;

        for (uint64_t i = 0; i < test_scale(100000, 10000000); i++) {
                struct frame_spec spec = { .v6 = rng_below(&rng, 2), .proto = IPPROTO_TCP, .payload = 250 };
                struct sample s = make(spec, 0);
                uint8_t tail[NET_HEADERS_MAX];
                uint32_t have = rng_below(&rng, sizeof(tail) + 1), len = have + rng_below(&rng, 3000);
                uint8_t *bytes = tail + sizeof(tail) - have;
                struct net_layout at;

                memcpy(bytes, s.frame, have);
                for (unsigned n = rng_below(&rng, 6); n && have; n--)
                        bytes[rng_below(&rng, have)] = (uint8_t)rng_next(&rng);
                if (net_parse(bytes, have, len, &at)) {
                        EXPECT(at.l3 >= 14 && at.l3 < at.l4 && at.l4 < at.end);
                        EXPECT(at.end <= have && at.end <= at.ip_end && at.ip_end <= len);
                } else {
                        EXPECT_EQ(at.end, 0);
                        EXPECT(at.l4 <= have && at.ip_end <= len);
                }
        }
}

/* ---- checks ---- */

TEST(hdr, honest_frames_pass)
{
        static const struct {
                const struct frame_spec *spec;
                unsigned type;
        } good[] = {
                {&tcp4,  VW_GSO_NONE              },
                { &tcp6, VW_GSO_NONE              },
                { &udp4, VW_GSO_NONE              },
                { &udp6, VW_GSO_NONE              },
                { &tcp4, VW_GSO_TCPV4             },
                { &tcp4, VW_GSO_TCPV4 | VW_GSO_ECN},
                { &tcp6, VW_GSO_TCPV6             },
                { &tcp6, VW_GSO_TCPV6 | VW_GSO_ECN},
                { &udp4, VW_GSO_UDP_L4            },
                { &udp6, VW_GSO_UDP_L4            },
        };

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                for (unsigned vlans = 0; vlans < 3; vlans++) {
                        struct frame_spec spec = *good[i].spec;
                        struct sample s;

                        spec.vlans = vlans;
                        s = make(spec, good[i].type);
                        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
                        EXPECT_EQ(rx(s, GUEST), VW_DROP_NONE);
                        s.len = frame_build(&spec, s.frame, NULL);
                        s.hdr = (struct vw_net_hdr){ 0 };
                        EXPECT_EQ(tx(s, 0), VW_DROP_NONE);
                        EXPECT_EQ(rx(s, 0), VW_DROP_NONE);
                }
        }
}

/* hostile E01, E13: the frame's part */
TEST(hdr, frames_below_an_ethernet_header_are_short)
{
        struct sample s = { .len = 0 };

        for (; s.len < 14; s.len++) {
                EXPECT_EQ(tx(s, HOST), VW_DROP_SHORT);
                EXPECT_EQ(rx(s, GUEST), VW_DROP_SHORT);
        }
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        EXPECT_EQ(rx(s, GUEST), VW_DROP_NONE);
}

/* hostile E03, T-RX-28 */
TEST(hdr, gso_without_a_size_is_bad)
{
        static const uint8_t types[] = { VW_GSO_TCPV4, VW_GSO_TCPV6, VW_GSO_UDP, VW_GSO_UDP_L4 };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                struct sample s = make(types[i] == VW_GSO_TCPV6   ? tcp6
                                       : types[i] == VW_GSO_TCPV4 ? tcp4
                                                                  : udp4,
                                       types[i]);

                s.hdr.gso_size = 0;
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
                EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_GSO);
        }
}

/* hostile E05, M16 */
TEST(hdr, unknown_gso_types_are_bad)
{
        for (unsigned type = 1; type < 256; type++) {
                unsigned base = type & 0x7f;
                struct sample s = make(tcp4, type);

                if (base == VW_GSO_TCPV4 || base == VW_GSO_TCPV6 || base == VW_GSO_UDP ||
                    base == VW_GSO_UDP_L4)
                        continue;
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
                EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_GSO);
        }
}

/* hostile E06 */
TEST(hdr, gso_types_need_their_feature)
{
        static const struct {
                const struct frame_spec *spec;
                unsigned type;
                uint64_t host, guest;
        } cases[] = {
                {&tcp4,  VW_GSO_TCPV4,              F(host_tso4), F(guest_tso4)},
                { &tcp6, VW_GSO_TCPV6,              F(host_tso6), F(guest_tso6)},
                { &tcp4, VW_GSO_TCPV4 | VW_GSO_ECN, F(host_ecn),  F(guest_ecn) },
                { &udp4, VW_GSO_UDP_L4,             F(host_uso),  F(guest_uso4)},
                { &udp6, VW_GSO_UDP_L4,             F(host_uso),  F(guest_uso6)},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct sample s = make(*cases[i].spec, cases[i].type);

                EXPECT_EQ(tx(s, HOST & ~cases[i].host), VW_DROP_NOT_NEGOTIATED);
                EXPECT_EQ(rx(s, GUEST & ~cases[i].guest), VW_DROP_NOT_NEGOTIATED);
        }
        EXPECT_EQ(tx(make(udp4, VW_GSO_UDP), HOST), VW_DROP_NOT_NEGOTIATED);
        EXPECT_EQ(rx(make(udp4, VW_GSO_UDP), GUEST), VW_DROP_NOT_NEGOTIATED);
}

TEST(hdr, congestion_bit_is_for_tcp)
{
        EXPECT_EQ(tx(make(udp4, VW_GSO_UDP_L4 | VW_GSO_ECN), HOST), VW_DROP_BAD_GSO);
        EXPECT_EQ(rx(make(udp4, VW_GSO_UDP_L4 | VW_GSO_ECN), GUEST), VW_DROP_BAD_GSO);
}

/* T-RX-28 */
TEST(hdr, gso_needs_the_checksum_flag)
{
        struct sample s = make(tcp4, VW_GSO_TCPV4);

        s.hdr.flags = 0;
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_GSO);
        s.hdr.flags = VW_HDR_F_DATA_VALID;
        EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_GSO);
}

/* T-RX-28 */
TEST(hdr, small_gso_packets_pass)
{
        struct frame_spec spec = tcp4;

        spec.payload = 1;
        EXPECT_EQ(tx(make(spec, VW_GSO_TCPV4), HOST), VW_DROP_NONE);
        EXPECT_EQ(rx(make(spec, VW_GSO_TCPV4), GUEST), VW_DROP_NONE);
}

TEST(hdr, needs_csum_without_the_feature_is_not_negotiated)
{
        EXPECT_EQ(tx(make(tcp4, 0), HOST & ~F(csum)), VW_DROP_NOT_NEGOTIATED);
        EXPECT_EQ(rx(make(tcp4, 0), GUEST & ~F(guest_csum)), VW_DROP_NOT_NEGOTIATED);
}

/* hostile E08, M16, T-RX-28 */
TEST(hdr, checksum_outside_the_frame_is_bad)
{
        for (unsigned gso = 0; gso < 2; gso++) {
                struct sample s = make(tcp4, gso ? VW_GSO_TCPV4 : VW_GSO_NONE);
                const struct vw_net_hdr honest = s.hdr;
                const uint32_t starts[] = { s.len, s.len - 1, 0xffff };

                for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
                        s.hdr.csum_start = (uint16_t)starts[i];
                        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
                        EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_CSUM);
                }
                s.hdr = honest;
                s.hdr.csum_offset = (uint16_t)(s.len - s.hdr.csum_start - 1);
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
                s.hdr.csum_offset = 0xffff;
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
                EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_CSUM);
        }
}

TEST(hdr, checksum_must_be_the_transports)
{
        struct sample s = make(tcp4, 0);

        for (uint32_t start = 0; start < 200; start++) {
                for (uint32_t offset = 0; offset < 40; offset++) {
                        s.hdr.csum_start = (uint16_t)start;
                        s.hdr.csum_offset = (uint16_t)offset;
                        EXPECT_EQ(tx(s, HOST), start == 34 && offset == 16 ? VW_DROP_NONE : VW_DROP_BAD_CSUM);
                }
        }
        s = make(udp4, 0);
        for (uint32_t start = 0; start < 42; start++) {
                for (uint32_t offset = 0; offset < 40; offset++) {
                        s.hdr.csum_start = (uint16_t)start;
                        s.hdr.csum_offset = (uint16_t)offset;
                        EXPECT_EQ(tx(s, HOST), start == 34 && offset == 6 ? VW_DROP_NONE : VW_DROP_BAD_CSUM);
                }
        }
}

/* A tunnel's checksum is the inner packet's: VXLAN in UDP, IP in IP, PPPoE. */
TEST(hdr, checksum_may_lie_inside_a_tunnel)
{
        struct sample s = make(udp4, 0);

        s.hdr.csum_start = 42 + 8 + 14 + 20;
        s.hdr.csum_offset = 16;
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        s = make((struct frame_spec){ .proto = IPPROTO_IPIP, .payload = 500 }, 0);
        s.hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 54, .csum_offset = 16 };
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        s.hdr.csum_start = (uint16_t)(s.len - 18); /* the last two bytes */
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        s.frame[17] = (uint8_t)(s.frame[17] - 1); /* of which one is padding */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
        s.hdr.csum_start = 20; /* in the IP header */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
        s.frame[12] = 0x88;
        s.frame[13] = 0x64;
        s.hdr.csum_start = 14;
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        s.hdr.csum_start = 13;
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
        s = make(udp4, 0);
        s.hdr.csum_start = 42; /* where the tunnel begins */
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
        s.hdr.csum_start = (uint16_t)(s.len - 8); /* the end of the frame */
        EXPECT_EQ(tx(s, HOST), VW_DROP_NONE);
}

/* hostile E18 */
TEST(hdr, checksums_that_no_sum_can_make_are_bad)
{
        struct frame_spec spec = tcp4;
        struct sample s;

        spec.fragment = 0x2000;
        EXPECT_EQ(tx(make(spec, 0), HOST), VW_DROP_BAD_CSUM);
        spec.fragment = 0x0004;
        EXPECT_EQ(tx(make(spec, 0), HOST), VW_DROP_BAD_CSUM);
        EXPECT_EQ(tx(make_ext(IPPROTO_FRAGMENT, 0, 1), HOST), VW_DROP_BAD_CSUM);

        s = make((struct frame_spec){ .proto = IPPROTO_SCTP, .payload = 100 }, 0);
        s.hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 8 };
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);

        s = make(udp4, 0);
        s.frame[34 + 4] = 0; /* UDP length less than its header */
        s.frame[34 + 5] = 7;
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
        s.frame[34 + 5] = 100; /* less than the IP packet */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);

        s = make(udp4, 0);
        s.len = 41; /* a UDP header cut short */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
        s = make(tcp4, 0);
        s.len -= 1; /* IP says more than there is */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
}

/* Nobody knows what is in a frame whose VLAN tag is cut. */
TEST(hdr, checksum_behind_a_tag_that_is_cut_short_is_bad)
{
        for (unsigned tags = 1; tags <= 2; tags++) {
                struct frame_spec spec = { .proto = IPPROTO_UDP, .vlans = tags };
                struct sample s = make(spec, 0);

                s.hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 14 };
                for (s.len = 16; s.len < NET_ETH_LEN + tags * NET_VLAN_LEN; s.len++) {
                        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_CSUM);
                        EXPECT_EQ(rx(s, GUEST), VW_DROP_BAD_CSUM);
                }
        }
}

/* hostile E11 */
TEST(hdr, gso_headers_must_be_what_the_type_says)
{
        static const struct {
                const struct frame_spec *spec;
                unsigned type;
        } wrong[] = {
                {&tcp6,  VW_GSO_TCPV4 },
                { &udp4, VW_GSO_TCPV4 },
                { &tcp4, VW_GSO_TCPV6 },
                { &udp6, VW_GSO_TCPV6 },
                { &tcp4, VW_GSO_UDP_L4},
                { &tcp6, VW_GSO_UDP_L4},
        };
        struct sample s;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                EXPECT_EQ(tx(make(*wrong[i].spec, wrong[i].type), HOST), VW_DROP_BAD_GSO);
                EXPECT_EQ(rx(make(*wrong[i].spec, wrong[i].type), GUEST), VW_DROP_BAD_GSO);
        }
        s = make(tcp4, VW_GSO_TCPV4);
        s.frame[12] = 8;
        s.frame[13] = 6; /* ARP */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
}

/* hostile E11 */
TEST(hdr, gso_header_lengths_must_be_possible)
{
        struct sample s = make(tcp4, VW_GSO_TCPV4);
        struct frame_spec spec = tcp4;

        for (unsigned words = 0; words < 5; words++) {
                s.frame[14] = (uint8_t)(0x40 | words); /* IP header */
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        }
        s.frame[14] = 0x4f; /* then TCP is elsewhere */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        s = make(tcp4, VW_GSO_TCPV4);
        for (unsigned words = 0; words < 5; words++) {
                s.frame[34 + 12] = (uint8_t)(words << 4); /* TCP header */
                EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        }
        spec.payload = 39;
        s = make(spec, VW_GSO_TCPV4);
        s.frame[34 + 12] = 0xf0; /* 60 bytes, of which one is missing */
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        spec.pad = 1; /* bytes after the packet that would become payload */
        EXPECT_EQ(tx(make(spec, VW_GSO_TCPV4), HOST), VW_DROP_BAD_GSO);
        spec.pad = 0;
        spec.fragment = 0x2000;
        EXPECT_EQ(tx(make(spec, VW_GSO_TCPV4), HOST), VW_DROP_BAD_GSO);
}

TEST(hdr, gso_checksum_must_be_the_transports)
{
        struct sample s = make(tcp4, VW_GSO_TCPV4);

        s.hdr.csum_offset = 6;
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
        s.hdr.csum_offset = 16;
        s.hdr.csum_start = 36;
        EXPECT_EQ(tx(s, HOST), VW_DROP_BAD_GSO);
}

/* hostile E07, M16 */
TEST(hdr, header_length_is_recomputed)
{
        static const uint16_t lies[] = { 0, 1, 13, 54, 2000, 0xffff };

        for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
                struct sample s = make(tcp4, VW_GSO_TCPV4);

                s.hdr.hdr_len = lies[i];
                EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
                EXPECT_EQ(s.hdr.hdr_len, 54);
                s = make(tcp4, 0);
                s.hdr.hdr_len = lies[i];
                EXPECT_EQ(net_rx_check(&s.hdr, s.frame, s.len, GUEST), VW_DROP_NONE);
                EXPECT_EQ(s.hdr.hdr_len, 54);
                s = make((struct frame_spec){ .proto = IPPROTO_ICMP, .payload = 100 }, 0);
                s.hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM,
                                             .csum_start = 34,
                                             .csum_offset = 2 };
                s.hdr.hdr_len = lies[i];
                EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
                EXPECT_EQ(s.hdr.hdr_len, 38);
                s.hdr = (struct vw_net_hdr){ .hdr_len = lies[i] };
                EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
                EXPECT_EQ(s.hdr.hdr_len, 0);
        }
}

/* hostile E14, T-TX-25 */
TEST(hdr, what_a_driver_may_not_say_is_not_passed_on)
{
        struct sample s = make(tcp4, 0);

        s.hdr = (struct vw_net_hdr){
                .flags = 0xfe, .gso_size = 9, .csum_start = 9, .csum_offset = 9, .num_buffers = 9
        };
        EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
        EXPECT_MEM(&s.hdr, &(struct vw_net_hdr){ 0 }, sizeof(s.hdr));
        s = make(tcp4, 0);
        s.hdr.flags = 0xff;
        EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
        EXPECT_EQ(s.hdr.flags, VW_HDR_F_NEEDS_CSUM);
}

/* hostile M16 */
TEST(hdr, a_device_that_needs_a_checksum_has_not_validated_it)
{
        struct sample s = make(tcp4, 0);

        s.hdr.flags = 0xff;
        EXPECT_EQ(net_rx_check(&s.hdr, s.frame, s.len, GUEST), VW_DROP_NONE);
        EXPECT_EQ(s.hdr.flags, VW_HDR_F_NEEDS_CSUM);
        s.hdr = (struct vw_net_hdr){ .flags = 0xfe, .csum_start = 0xffff, .num_buffers = 3 };
        EXPECT_EQ(net_rx_check(&s.hdr, s.frame, s.len, GUEST), VW_DROP_NONE);
        EXPECT_EQ(s.hdr.flags, VW_HDR_F_DATA_VALID);
        EXPECT_EQ(s.hdr.csum_start, 0);
        EXPECT_EQ(s.hdr.num_buffers, 3);
        EXPECT_EQ(net_rx_check(&s.hdr, s.frame, s.len, 0), VW_DROP_NONE);
        EXPECT_EQ(s.hdr.flags, 0);
}

/* hostile E13 */
TEST(hdr, mtu_counts_what_follows_the_ethernet_header_and_its_tags)
{
        for (unsigned vlans = 0; vlans < 3; vlans++) {
                struct frame_spec spec = { .proto = IPPROTO_UDP, .payload = 1472, .vlans = vlans };
                struct sample s = make(spec, 0);

                EXPECT(!net_over_mtu(&s.hdr, s.frame, s.len, 1500));
                EXPECT(net_over_mtu(&s.hdr, s.frame, s.len, 1499));
                spec.payload++;
                s = make(spec, 0);
                EXPECT(net_over_mtu(&s.hdr, s.frame, s.len, 1500));
        }
}

TEST(hdr, mtu_counts_segments_under_gso)
{
        struct sample s = make(tcp4, VW_GSO_TCPV4);

        s.hdr.gso_size = 1460;
        EXPECT_EQ(net_tx_check(&s.hdr, s.frame, s.len, HOST), VW_DROP_NONE);
        EXPECT(!net_over_mtu(&s.hdr, s.frame, s.len, 1500));
        s.hdr.gso_size = 1461;
        EXPECT(net_over_mtu(&s.hdr, s.frame, s.len, 1500));
        s.hdr.gso_size = 0xffff; /* one segment, as long as the frame */
        EXPECT(net_over_mtu(&s.hdr, s.frame, s.len, 3039));
        EXPECT(!net_over_mtu(&s.hdr, s.frame, s.len, 3040));
}
