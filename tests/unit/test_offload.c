/* What a header asks for is done in software, and what it may not ask for is not. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "net/offload.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "virtio/features.h"

#define HOST (F(csum) | F(host_tso4) | F(host_tso6) | F(host_ecn) | F(host_uso))
#define ALL  (VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6 | VW_OFFLOAD_ECN | VW_OFFLOAD_USO)

TEST(offload, features_give_offloads_by_direction)
{
        EXPECT_EQ(net_offloads_tx(HOST), ALL);
        EXPECT_EQ(net_offloads_rx(HOST), 0);
        EXPECT_EQ(net_offloads_tx(F(csum) | F(host_tso6)), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO6);
        EXPECT_EQ(net_offloads_rx(F(guest_csum) | F(guest_tso4) | F(guest_ecn)),
                  VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_ECN);
        EXPECT_EQ(net_offloads_rx(F(guest_csum) | F(guest_uso4)), VW_OFFLOAD_CSUM);
        EXPECT_EQ(net_offloads_rx(F(guest_csum) | F(guest_uso4) | F(guest_uso6)),
                  VW_OFFLOAD_CSUM | VW_OFFLOAD_USO);
        EXPECT_EQ(net_offloads_rx(net_offloads_rx_features(ALL)), ALL);
        EXPECT_EQ(net_offloads_rx_features(VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO6), F(guest_csum) | F(guest_tso6));
}

/* A guest may switch its checksum offload off and leave the others on. */
TEST(offload, without_its_prerequisite_does_not_count)
{
        EXPECT_EQ(net_offloads_rx(F(guest_tso4) | F(guest_tso6)), 0);
        EXPECT_EQ(net_offloads_rx(F(guest_csum) | F(guest_ecn)), VW_OFFLOAD_CSUM);
        EXPECT_EQ(net_offloads_tx(F(host_tso4) | F(host_uso)), 0);
}

TEST(offload, headers_ask_for_what_they_need)
{
        struct vw_net_hdr hdr = { 0 };

        EXPECT_EQ(net_offloads_asked(&hdr), 0);
        hdr.flags = VW_HDR_F_DATA_VALID;
        EXPECT_EQ(net_offloads_asked(&hdr), 0);
        hdr.flags = VW_HDR_F_NEEDS_CSUM;
        EXPECT_EQ(net_offloads_asked(&hdr), VW_OFFLOAD_CSUM);
        hdr.gso_type = VW_GSO_TCPV4;
        EXPECT_EQ(net_offloads_asked(&hdr), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4);
        hdr.gso_type = VW_GSO_TCPV6 | VW_GSO_ECN;
        EXPECT_EQ(net_offloads_asked(&hdr), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO6 | VW_OFFLOAD_ECN);
        hdr.gso_type = VW_GSO_UDP_L4;
        EXPECT_EQ(net_offloads_asked(&hdr), VW_OFFLOAD_CSUM | VW_OFFLOAD_USO);
        for (unsigned type = 6; type < 128; type++) { /* nobody's */
                hdr.gso_type = (uint8_t)type;
                EXPECT_EQ(net_offloads_asked(&hdr), VW_OFFLOAD_CSUM);
        }
}

TEST(offload, plain_frames_come_out_as_they_are)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 100 };
        uint8_t frame[300], before[300], out[300];
        uint32_t len = frame_build(&spec, frame, NULL);
        struct net_offload o;

        memcpy(before, frame, len);
        EXPECT_EQ(net_offload_begin(&o, &(struct vw_net_hdr){ 0 }, frame, len), 0);
        EXPECT_EQ(net_offload_next(&o, out, len), len);
        EXPECT_MEM(out, before, len);
        EXPECT_EQ(net_offload_next(&o, out, sizeof(out)), 0);
}

/* hostile E18: what pads a short frame is no part of its packet */
TEST(offload, padding_is_not_summed)
{
        for (unsigned udp = 0; udp < 2; udp++) {
                for (unsigned payload = 0; payload < 20; payload++) {
                        struct frame_spec spec = { .proto = udp ? IPPROTO_UDP : IPPROTO_TCP,
                                                   .partial = true };
                        uint8_t frame[100], out[100];
                        struct vw_net_hdr hdr;
                        struct frame_view view;
                        struct net_offload o;
                        uint32_t len;

                        spec.payload = payload;
                        spec.pad = 20 - payload;
                        len = frame_build(&spec, frame, &hdr);
                        EXPECT_EQ(net_offload_begin(&o, &hdr, frame, len), 0);
                        EXPECT_EQ(net_offload_next(&o, out, sizeof(out)), len);
                        EXPECT(!frame_wrong(out, len, &view));
                        EXPECT_EQ(out[len - 1], 0xa5);
                }
        }
}

/* A tunnel made by Linux: the outer UDP checksum already counts on what the inner one will be. */
TEST(offload, completes_the_inner_packet_of_a_tunnel)
{
        enum { VXLAN = 8, PAD = 7 };
        struct frame_spec inner = { .proto = IPPROTO_TCP, .payload = 700, .partial = true };
        struct frame_spec outer = { .proto = IPPROTO_UDP };
        uint8_t inside[1000], frame[1100], out[1100], *outer_csum, *seed;
        struct vw_net_hdr hdr;
        struct frame_view view;
        struct net_offload o;
        uint32_t inner_len = frame_build(&inner, inside, &hdr), len, sum;

        outer.payload = VXLAN + inner_len;
        len = frame_build(&outer, frame, NULL);
        memset(frame + 42, 0, VXLAN);
        memcpy(frame + 42 + VXLAN, inside, inner_len);
        hdr.csum_start = (uint16_t)(hdr.csum_start + 42 + VXLAN);
        seed = frame + hdr.csum_start + hdr.csum_offset;
        /* after completion everything from csum_start on sums to the complement of the seed */
        outer_csum = frame + 40;
        outer_csum[0] = outer_csum[1] = 0;
        sum = 0xffffu - (seed[0] * 256u + seed[1]);
        sum += frame_sum(frame + 34, hdr.csum_start - 34u, frame_sum(frame + 26, 8, IPPROTO_UDP + len - 34));
        sum = 0xffff - (sum % 65536 + sum / 65536);
        outer_csum[0] = (uint8_t)(sum / 256);
        outer_csum[1] = (uint8_t)sum;

        memset(frame + len, 0xa5, PAD);
        EXPECT_EQ(net_tx_check(&hdr, frame, len + PAD, HOST), VW_DROP_NONE);
        EXPECT_EQ(net_offload_begin(&o, &hdr, frame, len + PAD), 0);
        EXPECT_EQ(net_offload_next(&o, out, sizeof(out)), len + PAD);
        EXPECT(!frame_wrong(out, len + PAD, &view));
        EXPECT(!frame_wrong(out + 42 + VXLAN, inner_len, &view));
}

TEST(offload, refuses_a_copy_that_is_not_what_was_checked)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 500, .partial = true };
        uint8_t frame[600];
        struct vw_net_hdr hdr;
        struct net_offload o;
        uint32_t len = frame_build(&spec, frame, &hdr);

        hdr.gso_type = VW_GSO_TCPV4;
        hdr.gso_size = 100;
        frame[23] = IPPROTO_UDP;
        EXPECT_EQ(net_offload_begin(&o, &hdr, frame, len), -EINVAL);
        hdr.gso_type = VW_GSO_NONE;
        hdr.csum_start = (uint16_t)(len - 10);
        EXPECT_EQ(net_offload_begin(&o, &hdr, frame, len), -EINVAL);
}

/* ---- any header over any frame ---- */

struct storm {
        uint64_t rng;
        uint8_t frame[VW_FRAME_MAX + 64], out[VW_FRAME_MAX + 64];
        uint64_t passed, refused;
};

static struct frame_spec random_spec(struct storm *t)
{
        static const uint8_t protos[] = { IPPROTO_TCP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, IPPROTO_ICMP };
        uint32_t long_one = rng_below(&t->rng, 50) == 0;

        return (struct frame_spec){
                .vlans = rng_below(&t->rng, 3),
                .v6 = rng_below(&t->rng, 2),
                .proto = protos[rng_below(&t->rng, sizeof(protos))],
                .ip_words = rng_below(&t->rng, 4) ? 0 : rng_below(&t->rng, 11),
                .tcp_words = rng_below(&t->rng, 4) ? 3 : rng_below(&t->rng, 11),
                .payload = rng_below(&t->rng, long_one ? 60000 : 2000),
                .pad = rng_below(&t->rng, 8) ? 0 : rng_below(&t->rng, 30),
                .fragment = rng_below(&t->rng, 16) ? 0 : (uint16_t)rng_next(&t->rng),
                .flags = (uint8_t)rng_next(&t->rng),
                .partial = rng_below(&t->rng, 4),
        };
}

static uint16_t random_field(struct storm *t, uint16_t honest, uint32_t len)
{
        switch (rng_below(&t->rng, 24)) {
        case 0:
                return (uint16_t)rng_next(&t->rng);
        case 1:
                return (uint16_t)rng_below(&t->rng, 100);
        case 2:
                return (uint16_t)(len - rng_below(&t->rng, 3));
        case 3:
                return (uint16_t)(honest + rng_below(&t->rng, 5) - 2);
        case 4:
                return 0;
        default:
                return honest;
        }
}

static struct vw_net_hdr random_hdr(struct storm *t, struct vw_net_hdr honest, uint32_t len)
{
        static const uint8_t types[] = {
                VW_GSO_NONE,   VW_GSO_TCPV4, VW_GSO_TCPV6, VW_GSO_TCPV4 | VW_GSO_ECN,
                VW_GSO_UDP_L4, VW_GSO_NONE,  VW_GSO_NONE,  VW_GSO_TCPV6 | VW_GSO_ECN
        };
        uint16_t size = (uint16_t)(1 + rng_below(&t->rng, rng_below(&t->rng, 8) ? 1500 : 30));

        return (struct vw_net_hdr){
                .flags = (uint8_t)(rng_below(&t->rng, 10) ? honest.flags : rng_next(&t->rng)),
                .gso_type =
                        (uint8_t)(rng_below(&t->rng, 20) ? types[rng_below(&t->rng, 8)] : rng_next(&t->rng)),
                .hdr_len = (uint16_t)rng_next(&t->rng),
                .gso_size = random_field(t, size, len),
                .csum_start = random_field(t, honest.csum_start, len),
                .csum_offset = random_field(t, honest.csum_offset, len),
                .num_buffers = (uint16_t)rng_next(&t->rng),
        };
}

/* A frame that left must have a right checksum where the header asked for one.  Not ours to answer for: a checksum that the
 * driver left open without asking, and what surrounds a sum that it wanted somewhere further in. */
static bool answerable(const struct frame_spec *spec, const struct vw_net_hdr *hdr,
                       const struct vw_net_hdr *honest)
{
        if (!(hdr->flags & VW_HDR_F_NEEDS_CSUM))
                return !spec->partial;
        return hdr->csum_start == honest->csum_start && honest->flags;
}

static void expect_plain(struct storm *t, struct vw_net_hdr hdr, uint32_t len, bool strict)
{
        uint32_t most = hdr.gso_type ? (uint32_t)hdr.hdr_len + hdr.gso_size : len, n;
        struct net_offload o;

        if (net_offload_begin(&o, &hdr, t->frame, len) < 0)
                fail_msg("refused what the check had passed");
        while ((n = net_offload_next(&o, t->out, sizeof(t->out)))) {
                struct frame_view view;
                const char *wrong = strict ? frame_wrong(t->out, n, &view) : NULL;

                if (wrong)
                        fail_msg("type %u size %u start %u: %s", hdr.gso_type, hdr.gso_size, hdr.csum_start,
                                 wrong);
                EXPECT(n <= most);
        }
}

/* hostile E16 */
TEST(offload, no_frame_leaves_with_a_wrong_checksum_or_too_long)
{
        struct storm *t = calloc(1, sizeof(*t));
        uint64_t rounds = test_scale(100000, 10000000);

        t->rng = 16;
        for (uint64_t i = 0; i < rounds; i++) {
                struct frame_spec spec = random_spec(t);
                struct vw_net_hdr honest, hdr;
                uint32_t len = frame_build(&spec, t->frame, &honest);

                hdr = random_hdr(t, honest, len);
                if (net_tx_check(&hdr, t->frame, len, HOST) == VW_DROP_NONE) {
                        expect_plain(t, hdr, len, answerable(&spec, &hdr, &honest));
                        t->passed++;
                } else {
                        t->refused++;
                }
        }
        EXPECT(t->passed > rounds / 8 && t->refused > rounds / 8);
        free(t);
}
