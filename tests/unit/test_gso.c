/* Segments against a reader that shares nothing with what cuts them. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "frames.h"
#include "net/gso.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

/* A large frame and a place for its segments. */
struct rig {
        struct frame_spec spec;
        struct vw_net_hdr hdr;
        uint32_t len;
        uint8_t frame[VW_FRAME_MAX + 64], out[NET_GSO_ROOM];
};

static struct rig *rig_new(struct frame_spec spec, uint16_t gso_size)
{
        struct rig *rig = calloc(1, sizeof(*rig));

        spec.partial = true;
        rig->spec = spec;
        rig->len = frame_build(&spec, rig->frame, &rig->hdr);
        rig->hdr.gso_size = gso_size;
        rig->hdr.gso_type = spec.proto == IPPROTO_UDP ? VW_GSO_UDP_L4 : spec.v6 ? VW_GSO_TCPV6 : VW_GSO_TCPV4;
        return rig;
}

static void expect_payload(const struct rig *rig, const uint8_t *bytes, uint32_t from, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                if (bytes[i] != frame_payload_byte(&rig->spec, from + i))
                        fail_msg("payload byte %u", from + i);
}

/* Cuts the frame and checks every segment against what the large one said.  Returns their number. */
static unsigned expect_cut(struct rig *rig)
{
        const struct frame_spec *spec = &rig->spec;
        uint32_t done = 0, len;
        struct net_gso gso;
        unsigned n = 0;

        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), 0);
        while ((len = net_gso_next(&gso, rig->out, sizeof(rig->out)))) {
                struct frame_view v;
                const char *wrong = frame_wrong(rig->out, len, &v);
                uint32_t part = len - v.payload;
                bool last = done + part == spec->payload;

                if (wrong)
                        fail_msg("segment %u: %s", n, wrong);
                EXPECT_EQ(v.end, len);
                EXPECT_EQ(v.vlans, spec->vlans);
                EXPECT_EQ(v.proto, spec->proto);
                EXPECT_EQ(part, last ? spec->payload - done : rig->hdr.gso_size);
                EXPECT_MEM(rig->out, rig->frame, v.l3);
                expect_payload(rig, rig->out + v.payload, done, part);
                if (!spec->v6)
                        EXPECT_EQ(v.id, (uint16_t)(spec->id + n));
                if (spec->proto == IPPROTO_TCP) {
                        EXPECT_EQ(v.seq, (uint32_t)(spec->seq + done));
                        EXPECT_EQ(v.flags, spec->flags & ~(n ? TH_CWR : 0) & ~(last ? 0 : TH_FIN | TH_PSH));
                }
                done += part;
                n++;
        }
        EXPECT_EQ(done, spec->payload);
        EXPECT_EQ(net_gso_next(&gso, rig->out, sizeof(rig->out)), 0);
        return n;
}

static unsigned cut(struct frame_spec spec, uint16_t gso_size)
{
        struct rig *rig = rig_new(spec, gso_size);
        unsigned n = expect_cut(rig);

        free(rig);
        return n;
}

TEST(gso, cuts_tcp_over_ipv4)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .tcp_words = 3, .payload = 65000, .seq = 1000 };

        EXPECT_EQ(cut(spec, 1448), 45);
        spec.payload = 1448 * 3;
        EXPECT_EQ(cut(spec, 1448), 3);
        spec.payload++;
        EXPECT_EQ(cut(spec, 1448), 4);
}

TEST(gso, cuts_tcp_over_ipv6_and_its_extension_headers)
{
        struct frame_spec spec = { .v6 = true, .proto = IPPROTO_TCP, .payload = 20000, .tcp_words = 10 };

        EXPECT_EQ(cut(spec, 1428), 15);
        spec.ip_words = 2;
        EXPECT_EQ(cut(spec, 1412), 15);
}

TEST(gso, cuts_udp)
{
        EXPECT_EQ(cut((struct frame_spec){ .proto = IPPROTO_UDP, .payload = 10000, .id = 0xffff }, 1472), 7);
        EXPECT_EQ(cut((struct frame_spec){ .v6 = true, .proto = IPPROTO_UDP, .payload = 10000 }, 1452), 7);
}

TEST(gso, congestion_flag_goes_with_the_first_end_flags_with_the_last)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 3000 };

        spec.flags = TH_CWR | TH_ACK | TH_PSH | TH_FIN;
        EXPECT_EQ(cut(spec, 1000), 3);
        EXPECT_EQ(cut(spec, 3000), 1);
}

TEST(gso, sequence_numbers_and_ids_wrap)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 60000 };

        spec.seq = UINT32_MAX - 2000;
        spec.id = UINT16_MAX - 3;
        EXPECT_EQ(cut(spec, 1460), 42);
}

TEST(gso, vlan_tags_stay)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 4000, .vlans = 1 };

        EXPECT_EQ(cut(spec, 1460), 3);
        spec.vlans = 2;
        EXPECT_EQ(cut(spec, 1460), 3);
}

/* T-RX-28 */
TEST(gso, less_payload_than_a_segment_is_one_segment)
{
        EXPECT_EQ(cut((struct frame_spec){ .proto = IPPROTO_TCP, .payload = 10 }, 1460), 1);
        EXPECT_EQ(cut((struct frame_spec){ .proto = IPPROTO_TCP, .payload = 0 }, 1460), 1);
        EXPECT_EQ(cut((struct frame_spec){ .proto = IPPROTO_UDP, .payload = 1 }, UINT16_MAX), 1);
}

TEST(gso, one_byte_a_segment)
{
        EXPECT_EQ(cut((struct frame_spec){ .proto = IPPROTO_TCP, .payload = 500 }, 1), 500);
}

TEST(gso, random_packets_come_out_right)
{
        uint64_t rng = 5;

        for (uint64_t i = 0; i < test_scale(1000, 100000); i++) {
                struct frame_spec spec = {
                        .vlans = rng_below(&rng, 3),
                        .v6 = rng_below(&rng, 2),
                        .proto = rng_below(&rng, 3) ? IPPROTO_TCP : IPPROTO_UDP,
                        .ip_words = rng_below(&rng, 3) ? 0 : rng_below(&rng, 11),
                        .tcp_words = rng_below(&rng, 11),
                        .payload = rng_below(&rng, rng_below(&rng, 8) ? 4000 : 65000),
                        .id = (uint16_t)rng_next(&rng),
                        .seq = rng_next(&rng),
                        .flags = (uint8_t)rng_next(&rng),
                        .seed = (uint8_t)rng_next(&rng),
                };

                cut(spec, (uint16_t)(1 + rng_below(&rng, rng_below(&rng, 2) ? 200 : UINT16_MAX)));
        }
}

/* hostile E11 */
TEST(gso, refuses_a_frame_that_is_not_what_the_header_says)
{
        struct rig *rig = rig_new((struct frame_spec){ .proto = IPPROTO_TCP, .payload = 4000 }, 1000);
        const struct vw_net_hdr good = rig->hdr;
        static const uint8_t types[] = { VW_GSO_NONE, VW_GSO_UDP, VW_GSO_TCPV6, VW_GSO_UDP_L4,
                                         2,           6,          0x7f,         VW_GSO_ECN };
        struct net_gso gso;

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                rig->hdr.gso_type = types[i];
                EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), -EINVAL);
        }
        rig->hdr = good;
        rig->hdr.gso_type = VW_GSO_TCPV4;
        rig->frame[14 + 9] = IPPROTO_UDP;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), -EINVAL);
        rig->frame[14 + 9] = IPPROTO_TCP;
        rig->hdr = good;
        rig->hdr.gso_size = 0;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), -EINVAL);
        rig->hdr = good;
        rig->hdr.gso_type |= VW_GSO_ECN;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), 0);
        for (uint32_t len = 0; len < rig->len; len++) /* cut short: the IP length is more than there is */
                EXPECT_EQ(net_gso_begin(&gso, &good, rig->frame, len), -EINVAL);
        EXPECT_EQ(net_gso_begin(&gso, &good, rig->frame, rig->len + 1), -EINVAL); /* bytes after the packet */
        rig->frame[14 + 6] |= 0x20;                                               /* more fragments */
        EXPECT_EQ(net_gso_begin(&gso, &good, rig->frame, rig->len), -EINVAL);
        free(rig);
}

TEST(gso, refuses_udp_that_calls_itself_tcp_over_ipv6)
{
        struct rig *rig =
                rig_new((struct frame_spec){ .v6 = true, .proto = IPPROTO_UDP, .payload = 4000 }, 1000);
        struct net_gso gso;

        rig->hdr.gso_type = VW_GSO_TCPV6;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), -EINVAL);
        free(rig);
}

TEST(gso, a_segment_needs_no_more_room_than_it_has_bytes)
{
        struct rig *rig = rig_new((struct frame_spec){ .proto = IPPROTO_TCP, .payload = 2000 }, 1000);
        struct net_gso gso;

        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), 0);
        EXPECT_EQ(net_gso_next(&gso, rig->out, 1054), 1054);
        EXPECT_EQ(net_gso_next(&gso, rig->out, 1054), 1054);
        EXPECT_EQ(net_gso_next(&gso, rig->out, 0), 0);
        free(rig);
}

/* The address in the checksum is then another than the header's. */
TEST(gso, refuses_what_travels_by_a_routing_header)
{
        struct rig *rig = rig_new(
                (struct frame_spec){ .v6 = true, .proto = IPPROTO_TCP, .ip_words = 3, .payload = 4000 },
                1000);
        struct net_gso gso;

        rig->frame[14 + 6] = IPPROTO_ROUTING;
        rig->frame[14 + 40 + 1] = 2;
        rig->frame[14 + 40 + 3] = 0; /* segments left */
        rig->frame[14 + 40] = IPPROTO_TCP;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), 0);
        rig->frame[14 + 40 + 3] = 1;
        EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), -EINVAL);
        free(rig);
}

/* Length 0 stands for "too long to say": the packet may be cut, but no segment may need it. */
TEST(gso, ip_length_of_zero_means_all_of_the_frame)
{
        for (unsigned v6 = 0; v6 < 2; v6++) {
                struct rig *rig = rig_new(
                        (struct frame_spec){ .v6 = v6, .proto = IPPROTO_TCP, .payload = 65000 }, 1000);
                uint8_t *length = rig->frame + 14 + (v6 ? 4 : 2);
                struct net_gso gso;

                length[0] = length[1] = 0;
                EXPECT_EQ(expect_cut(rig), 65);
                rig->len = 14 + (v6 ? 40 : 0) + 65535; /* the most that IP can say */
                rig->hdr.gso_size = 65535;
                EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len), 0);
                EXPECT_EQ(net_gso_begin(&gso, &rig->hdr, rig->frame, rig->len + 1), -EINVAL);
                free(rig);
        }
}
