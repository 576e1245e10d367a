/* A guest that lies in the frames it transmits: each lie costs its own frame, under its reason, and nothing wrong leaves the port. */
#include <string.h>

#include "frames.h"
#include "invariants.h"
#include "net/hdr.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

#define OFFLOADS (F(csum) | F(host_tso4) | F(host_tso6) | F(host_ecn) | F(host_uso))
#define MTU      1500

static struct siege s;
static uint8_t frame[70000], got[70000];

static void begin_with_mtu(unsigned mtu, uint64_t features, uint32_t port_offloads)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        config.mtu = mtu;
        siege_begin(&s, &config);
        __atomic_store_n(&s.port.tx_offloads, port_offloads, __ATOMIC_RELAXED);
        siege_connect(&s, features | (mtu ? F(mtu) : 0), 64);
}

static void begin(uint64_t features, uint32_t port_offloads)
{
        begin_with_mtu(MTU, features, port_offloads);
}

static void end(void)
{
        siege_end(&s, SIEGE_LIVES);
}

/* ---- one chain at a time ---- */

/* How many chains the device has been given, and what became of them. */
static uint64_t accounted(void)
{
        struct vw_queue_stats q = front_stats(&s.f, 1);

        return q.counters[VW_C_packets] + front_drops(&q);
}

static uint64_t dropped(enum vw_drop drop)
{
        return drop == VW_DROP_NONE ? 0 : front_stats(&s.f, 1).drops[drop];
}

/* The chain that was just offered comes back with nothing written, and is dropped for this reason or (NONE) sent: returns the length. */
static int outcome(enum vw_drop drop, uint64_t accounted_before, uint64_t dropped_before,
                   struct vw_net_hdr *ret_hdr)
{
        struct vq_used used;
        int len;

        front_kick(&s.f, 1);
        EXPECT_SOON(front_reap(&s.f, 1, &used, 1) == 1);
        EXPECT_EQ(used.len, 0);
        EXPECT_EQ(accounted(), accounted_before + 1);
        len = sport_get(&s.port, 0, got, sizeof(got), ret_hdr);
        if (drop == VW_DROP_NONE)
                return len;
        if (dropped(drop) != dropped_before + 1)
                print_error("not dropped as %s\n", vw_drop_name(drop));
        EXPECT_EQ(dropped(drop), dropped_before + 1);
        EXPECT_EQ(len, -1);
        return len;
}

static int send_frame(uint32_t len, const struct vw_net_hdr *hdr, enum vw_drop drop,
                      struct vw_net_hdr *ret_hdr)
{
        uint64_t n = accounted(), d = dropped(drop);

        EXPECT(front_send(&s.f, 0, frame, len, hdr));
        return outcome(drop, n, d, ret_hdr);
}

static int send_pieces(const struct vq_piece *pieces, unsigned n_out, unsigned n_in, enum vw_drop drop,
                       struct vw_net_hdr *ret_hdr)
{
        uint64_t n = accounted(), d = dropped(drop);

        EXPECT(front_add(&s.f, 1, pieces, n_out, n_in, 0));
        return outcome(drop, n, d, ret_hdr);
}

/* ---- chains ---- */

/* hostile E01, E13, C14, C16, C17, B24 */
TEST(hostile_tx, chains_that_hold_no_frame_are_dropped_by_reason)
{
        const uint64_t slot = FRONT_GPA;
        struct vq_piece at = { 0 }, two[2];

        begin(0, VW_OFFLOAD_ALL);
        at.gpa = front_gpa(&s.f, 1, 0);
        static const uint32_t lens[] = { 0, 1, 9, 10, 11, 12, 13, 25 };
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
                at.len = lens[i];
                send_pieces(&at, 1, 0, VW_DROP_SHORT, NULL);
        }
        at.len = 100;
        two[0] = (struct vq_piece){ at.gpa, 0 };
        two[1] = (struct vq_piece){ at.gpa, 0 };
        send_pieces(two, 2, 0, VW_DROP_SHORT, NULL);
        two[0].len = 100;
        two[1] = (struct vq_piece){ front_gpa(&s.f, 1, 1), 100 };
        send_pieces(two, 1, 1, VW_DROP_DIRECTION, NULL);
        send_pieces(two, 0, 2, VW_DROP_DIRECTION, NULL);
        static const struct vq_piece holes[] = {
                {0,           100       },
                { UINT64_MAX, 1         },
                { slot - 1,   100       },
                { slot,       UINT32_MAX},
        };
        for (unsigned i = 0; i < ARRAY_SIZE(holes); i++) {
                two[1] = holes[i];
                send_pieces(two, 2, 0, VW_DROP_UNMAPPED, NULL);
        }
        two[1] = (struct vq_piece){ FRONT_GPA + s.f.bytes - 50, 51 };
        send_pieces(two, 2, 0, VW_DROP_UNMAPPED, NULL);
        at.len = FRONT_HDR + VW_FRAME_MAX + 1;
        send_pieces(&at, 1, 0, VW_DROP_TOO_LONG, NULL);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], 0);
        end();
}

/* hostile E02 */
TEST(hostile_tx, a_header_in_any_number_of_pieces_is_read)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 200, .partial = true };
        struct vw_net_hdr hdr, seen;
        uint32_t len = frame_build(&spec, frame, &hdr);

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        for (unsigned n = 1; n <= FRONT_HDR; n++) {
                struct vq_piece pieces[FRONT_HDR + 1];
                uint8_t *slot = front_slot(&s.f, 1, 0);
                uint64_t gpa = front_gpa(&s.f, 1, 0);

                net_hdr_encode(&hdr, FRONT_HDR, slot);
                memcpy(slot + FRONT_HDR, frame, len);
                front_wrote(&s.f, slot, FRONT_HDR + len);
                for (unsigned i = 0; i < n; i++)
                        pieces[i] = (struct vq_piece){ gpa + i, i + 1 < n ? 1 : FRONT_HDR - i };
                pieces[n] = (struct vq_piece){ gpa + FRONT_HDR, len };
                EXPECT_EQ(send_pieces(pieces, n + 1, 0, VW_DROP_NONE, &seen), len);
                EXPECT_MEM(got, frame, len);
                EXPECT_EQ(seen.csum_start, hdr.csum_start);
        }
        end();
}

/* ---- headers ---- */

static const struct frame_spec tcp4 = { .proto = IPPROTO_TCP, .payload = 3000, .partial = true };
static const struct frame_spec tcp6 = { .proto = IPPROTO_TCP, .payload = 3000, .partial = true, .v6 = true };
static const struct frame_spec udp4 = { .proto = IPPROTO_UDP, .payload = 3000, .partial = true };
static const struct frame_spec udp6 = { .proto = IPPROTO_UDP, .payload = 3000, .partial = true, .v6 = true };
static const struct frame_spec small = { .proto = IPPROTO_TCP, .payload = 300, .partial = true };
static const struct frame_spec datagram = { .proto = IPPROTO_UDP, .payload = 300, .partial = true };

static struct vw_net_hdr hdr;

/* Builds the frame with an honest header of this segmentation. */
static uint32_t honest(const struct frame_spec *spec, uint8_t gso_type)
{
        uint32_t len = frame_build(spec, frame, &hdr);

        hdr.gso_type = gso_type;
        hdr.gso_size = gso_type ? 1400 : 0;
        return len;
}

static void expect_sent(uint32_t len)
{
        struct vw_net_hdr asked = hdr, seen;

        EXPECT_EQ(send_frame(len, &hdr, VW_DROP_NONE, &seen), len);
        EXPECT_MEM(got, frame, len);
        EXPECT_EQ(seen.gso_type, asked.gso_type);
        EXPECT_EQ(seen.gso_size, asked.gso_size);
}

/* hostile E03, E05 */
TEST(hostile_tx, segmentation_without_sense_is_bad)
{
        static const struct {
                const struct frame_spec *spec;
                uint8_t type;
        } of[] = {
                {&tcp4,  VW_GSO_TCPV4 },
                { &tcp6, VW_GSO_TCPV6 },
                { &udp4, VW_GSO_UDP_L4},
                { &udp6, VW_GSO_UDP_L4},
                { &udp4, VW_GSO_UDP   },
        };
        static const uint8_t types[] = { 2, 6, 0x7f, VW_GSO_ECN, VW_GSO_ECN | VW_GSO_UDP_L4 };
        uint32_t len;

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(of); i++) {
                len = honest(of[i].spec, of[i].type);
                if (of[i].type != VW_GSO_UDP)
                        expect_sent(len);
                hdr.gso_size = 0;
                send_frame(len, &hdr, VW_DROP_BAD_GSO, NULL);
                hdr.gso_size = 1400;
                hdr.flags = 0;
                send_frame(len, &hdr, VW_DROP_BAD_GSO, NULL);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
                send_frame(honest(&tcp4, types[i]), &hdr, VW_DROP_BAD_GSO, NULL);
        end();
}

/* hostile E05: a frame may not become 65,000 of them */
TEST(hostile_tx, segments_finer_than_anybody_honest_cuts_are_bad)
{
        static const struct {
                const struct frame_spec *spec;
                uint8_t type;
                uint16_t size; /* the finest */
        } of[] = {
                {&tcp4,  VW_GSO_TCPV4,  8             },
                { &tcp6, VW_GSO_TCPV6,  8             },
                { &udp4, VW_GSO_UDP_L4, 3000 / 128 + 1},
        };

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(of); i++) {
                uint32_t len = honest(of[i].spec, of[i].type);

                hdr.gso_size = 1;
                send_frame(len, &hdr, VW_DROP_BAD_GSO, NULL);
                hdr.gso_size = of[i].size - 1;
                send_frame(len, &hdr, VW_DROP_BAD_GSO, NULL);
                hdr.gso_size = of[i].size;
                expect_sent(len);
        }
        end();
}

/* hostile E06 */
TEST(hostile_tx, what_was_not_negotiated_is_not_done)
{
        begin(F(csum) | F(host_tso4), VW_OFFLOAD_ALL);
        send_frame(honest(&tcp6, VW_GSO_TCPV6), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        send_frame(honest(&udp4, VW_GSO_UDP_L4), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        send_frame(honest(&udp6, VW_GSO_UDP_L4), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        send_frame(honest(&udp4, VW_GSO_UDP), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        send_frame(honest(&tcp4, VW_GSO_TCPV4 | VW_GSO_ECN), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        expect_sent(honest(&tcp4, VW_GSO_TCPV4));
        siege_disconnect(&s);

        siege_connect(&s, 0, 64);
        send_frame(honest(&small, VW_GSO_NONE), &hdr, VW_DROP_NOT_NEGOTIATED, NULL);
        end();
}

/* hostile E07, E14 */
TEST(hostile_tx, what_a_driver_may_not_say_is_not_believed)
{
        static const uint16_t lengths[] = { 0, 1, 13, 100, 3055, UINT16_MAX };
        struct vw_net_hdr seen;
        uint32_t len;

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
                len = honest(&tcp4, VW_GSO_TCPV4);
                hdr.hdr_len = lengths[i];
                EXPECT_EQ(send_frame(len, &hdr, VW_DROP_NONE, &seen), len);
                EXPECT_EQ(seen.hdr_len, 54);
        }
        len = honest(&small, VW_GSO_NONE);
        hdr.flags |= (uint8_t)~VW_HDR_F_NEEDS_CSUM;
        hdr.num_buffers = 9;
        EXPECT_EQ(send_frame(len, &hdr, VW_DROP_NONE, &seen), len);
        EXPECT_EQ(seen.flags, VW_HDR_F_NEEDS_CSUM);
        EXPECT_EQ(seen.num_buffers, 0);
        hdr = (struct vw_net_hdr){
                .flags = 0xfe, .gso_size = 9, .hdr_len = 9, .csum_start = 9, .csum_offset = 9
        };
        EXPECT_EQ(send_frame(len, &hdr, VW_DROP_NONE, &seen), len);
        EXPECT_MEM(&seen, &(struct vw_net_hdr){ 0 }, sizeof(seen));
        end();
}

/* hostile E08, E18 */
TEST(hostile_tx, checksums_that_cannot_be_are_bad)
{
        struct frame_spec spec = small;
        uint32_t len;

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        len = honest(&small, VW_GSO_NONE);
        const uint16_t starts[] = { (uint16_t)len, (uint16_t)(len - 1), UINT16_MAX, 0, 33, 35 };
        for (unsigned i = 0; i < ARRAY_SIZE(starts); i++) {
                honest(&small, VW_GSO_NONE);
                hdr.csum_start = starts[i];
                send_frame(len, &hdr, VW_DROP_BAD_CSUM, NULL);
        }
        const uint16_t offsets[] = { UINT16_MAX, (uint16_t)(len - 34), (uint16_t)(len - 35), 0, 15, 18 };
        for (unsigned i = 0; i < ARRAY_SIZE(offsets); i++) {
                honest(&small, VW_GSO_NONE);
                hdr.csum_offset = offsets[i];
                send_frame(len, &hdr, VW_DROP_BAD_CSUM, NULL);
        }
        spec.fragment = 0x2000; /* more follow */
        send_frame(honest(&spec, VW_GSO_NONE), &hdr, VW_DROP_BAD_CSUM, NULL);
        spec.fragment = 0x0010; /* not the first */
        send_frame(honest(&spec, VW_GSO_NONE), &hdr, VW_DROP_BAD_CSUM, NULL);
        spec = (struct frame_spec){ .proto = IPPROTO_SCTP, .payload = 100 };
        len = honest(&spec, VW_GSO_NONE);
        hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 8 };
        send_frame(len, &hdr, VW_DROP_BAD_CSUM, NULL);
        len = honest(&datagram, VW_GSO_NONE);
        frame[34 + 5] = 4; /* a datagram that says it is shorter than its header */
        frame[34 + 4] = 0;
        send_frame(len, &hdr, VW_DROP_BAD_CSUM, NULL);
        expect_sent(honest(&datagram, VW_GSO_NONE));
        end();
}

/* hostile E11 */
TEST(hostile_tx, segmentation_of_another_packet_is_bad)
{
        static const struct {
                const struct frame_spec *spec;
                uint8_t type;
                uint8_t at, value; /* a byte of the frame, if not 0 */
        } of[] = {
                {&tcp6,  VW_GSO_TCPV4,  0,       0   },
                { &udp4, VW_GSO_TCPV4,  0,       0   },
                { &tcp4, VW_GSO_TCPV6,  0,       0   },
                { &udp6, VW_GSO_TCPV6,  0,       0   },
                { &tcp4, VW_GSO_UDP_L4, 0,       0   },
                { &tcp4, VW_GSO_TCPV4,  13,      0x06}, /* ARP */
                { &tcp4, VW_GSO_TCPV4,  14,      0x40}, /* an IP header of no length */
                { &tcp4, VW_GSO_TCPV4,  14,      0x4f}, /* of 60 bytes */
                { &tcp4, VW_GSO_TCPV4,  14,      0x65}, /* of another version */
                { &tcp4, VW_GSO_TCPV4,  34 + 12, 0x00}, /* a TCP header of no length */
                { &tcp4, VW_GSO_TCPV4,  34 + 12, 0x40},
                { &tcp4, VW_GSO_TCPV4,  20,      0x20}, /* a fragment */
                { &tcp4, VW_GSO_TCPV4,  16,      0x01}, /* shorter than its headers say */
        };

        begin(OFFLOADS, VW_OFFLOAD_ALL);
        for (unsigned i = 0; i < ARRAY_SIZE(of); i++) {
                uint32_t len = honest(of[i].spec, of[i].type);

                if (of[i].at)
                        frame[of[i].at] = of[i].value;
                send_frame(len, &hdr, VW_DROP_BAD_GSO, NULL);
        }
        end();
}

/* hostile E13 */
TEST(hostile_tx, no_frame_is_longer_than_the_largest_mtu_where_nobody_sets_one)
{
        begin_with_mtu(0, 0, VW_OFFLOAD_ALL);
        memset(frame, 2, sizeof(frame));
        memcpy(frame + 12, "\x88\xb5", 2);
        hdr = (struct vw_net_hdr){ 0 };
        expect_sent(65535 + 14);
        send_frame(65535 + 15, &hdr, VW_DROP_MTU, NULL);
        memcpy(frame + 12, "\x81\x00", 2);
        expect_sent(65535 + 18);
        send_frame(65535 + 19, &hdr, VW_DROP_MTU, NULL);
        end();
}

/* hostile E13 */
TEST(hostile_tx, lengths_at_both_ends_are_exact)
{
        begin(OFFLOADS, VW_OFFLOAD_ALL);
        memset(frame, 2, sizeof(frame));
        memcpy(frame + 12, "\x88\xb5", 2);
        hdr = (struct vw_net_hdr){ 0 };
        expect_sent(14);
        expect_sent(MTU + 14);
        send_frame(MTU + 15, &hdr, VW_DROP_MTU, NULL);
        send_frame(65550, &hdr, VW_DROP_MTU, NULL);
        send_frame(VW_FRAME_MAX, &hdr, VW_DROP_MTU, NULL);
        send_frame(VW_FRAME_MAX + 1, &hdr, VW_DROP_TOO_LONG, NULL);
        struct frame_spec longest = tcp4;
        longest.payload = 65535 - 40;
        expect_sent(honest(&longest, VW_GSO_TCPV4));
        uint32_t len = honest(&tcp4, VW_GSO_TCPV4);
        hdr.gso_size = MTU; /* and then the headers */
        send_frame(len, &hdr, VW_DROP_MTU, NULL);
        end();
}

/* ---- any header ---- */

static uint16_t odd_number(uint64_t *rng, uint16_t honest_one)
{
        static const uint16_t edges[] = {
                0, 1, 13, 14, 33, 34, 53, 54, 1460, 1514, 0x7fff, 0x8000, UINT16_MAX
        };

        switch (rng_below(rng, 4)) {
        case 0:
                return (uint16_t)rng_next(rng);
        case 1:
                return edges[rng_below(rng, ARRAY_SIZE(edges))];
        default:
                return honest_one;
        }
}

/* A right frame behind a header with random fields; half of the fields are right, so that much gets through. */
static uint32_t random_frame(uint64_t *rng)
{
        static const uint8_t types[] = { VW_GSO_TCPV4, VW_GSO_TCPV6, VW_GSO_UDP_L4, VW_GSO_UDP, VW_GSO_ECN };
        struct frame_spec spec = { .v6 = rng_below(rng, 2),
                                   .proto = rng_below(rng, 3) ? IPPROTO_TCP : IPPROTO_UDP,
                                   .vlans = rng_below(rng, 4) == 0,
                                   .payload =
                                           rng_below(rng, 8) ? rng_below(rng, 1440) : rng_below(rng, 20000),
                                   .partial = rng_below(rng, 4) != 0 };
        uint32_t len = frame_build(&spec, frame, &hdr);

        if (rng_below(rng, 3) == 0)
                hdr.gso_type = (uint8_t)(types[rng_below(rng, ARRAY_SIZE(types))] |
                                         (rng_below(rng, 4) ? 0 : VW_GSO_ECN));
        else if (spec.payload > 1400)
                hdr.gso_type = spec.proto == IPPROTO_UDP ? VW_GSO_UDP_L4
                               : spec.v6                 ? VW_GSO_TCPV6
                                                         : VW_GSO_TCPV4;
        hdr.gso_size = odd_number(rng, 1000);
        hdr.hdr_len = odd_number(rng, hdr.hdr_len);
        if (hdr.flags &&
            spec.proto == IPPROTO_TCP) { /* within a datagram there may be another packet with a checksum */
                hdr.csum_start = odd_number(rng, hdr.csum_start);
                hdr.csum_offset = odd_number(rng, hdr.csum_offset);
        }
        hdr.flags |= (uint8_t)(rng_next(rng) & 0xfe);
        return len;
}

/* hostile E16 */
TEST(hostile_tx, nothing_wrong_leaves_whatever_the_header_says)
{
        const unsigned n = (unsigned)test_scale(5000, 10000000);
        unsigned back = 0, left = 0, sent = 0;
        struct frame_view view;
        uint64_t rng = 16;
        int len;

        begin(OFFLOADS, 0); /* a port that can do nothing: what leaves is whole */
        while (back < n) {
                if (sent < n) {
                        uint32_t size = random_frame(&rng);

                        sent += front_send(&s.f, 0, frame, size, &hdr);
                        front_kick(&s.f, 1);
                }
                if (sent - back > 8 || sent == n) /* their buffers are not used again before that */
                        back += front_reap(&s.f, 1, NULL, 64);
                while ((len = sport_get(&s.port, 0, got, sizeof(got), NULL)) >= 0) {
                        const char *wrong = frame_wrong(got, (uint32_t)len, &view);

                        if (wrong)
                                print_error("%s in frame %u of %d bytes\n", wrong, left, len);
                        EXPECT(!wrong);
                        EXPECT(len <= MTU + 14 + 4);
                        left++;
                }
        }
        EXPECT_EQ(accounted(), n);
        EXPECT(left > n / 4);
        EXPECT(front_stats(&s.f, 1).drops[VW_DROP_BAD_GSO] > 0 &&
               front_stats(&s.f, 1).drops[VW_DROP_BAD_CSUM] > 0);
        end();
}
