/* Transmit through a whole device: what becomes of each frame, in order, and every one counted once. */
#include <string.h>

#include "frames.h"
#include "front.h"
#include "net/hdr.h"
#include "rng.h"
#include "scale.h"
#include "sport.h"
#include "test.h"

#define OFFLOADS (F(csum) | F(host_tso4) | F(host_tso6) | F(host_ecn))

static struct front f;
static struct sport port;

static void begin_on(uint32_t port_offloads, uint64_t features, unsigned size)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        port.tx_offloads = port_offloads;
        config.port = port.port;
        config.nice = 0;
        config.mtu = 1500;
        front_open(&f, &config);
        front_connect(&f, features, size);
}

static void begin(uint64_t features, unsigned size)
{
        begin_on(VW_OFFLOAD_ALL, features, size);
}

static void end(void)
{
        front_close(&f);
        sport_free(&port);
}

static uint32_t plain(uint8_t *frame, uint32_t len)
{
        memset(frame, 0x11, len);
        if (len >= 14)
                memcpy(frame + 12, "\x88\xb5", 2);
        return len;
}

/* Sends one frame and waits until the device is done with it. */
static void send_one(const void *frame, uint32_t len, const struct vw_net_hdr *hdr)
{
        struct vq_used used;

        EXPECT(front_send(&f, 0, frame, len, hdr));
        front_kick(&f, 1);
        EXPECT_SOON(front_reap(&f, 1, &used, 1) == 1);
        EXPECT_EQ(used.len, 0);
}

static void send_pieces(const struct vq_piece *pieces, unsigned n_out, unsigned n_in)
{
        struct vq_used used;

        EXPECT(front_add(&f, 1, pieces, n_out, n_in, 0));
        front_kick(&f, 1);
        EXPECT_SOON(front_reap(&f, 1, &used, 1) == 1);
        EXPECT_EQ(used.len, 0);
}

static void expect_dropped(enum vw_drop drop, uint64_t n)
{
        struct vw_queue_stats s = front_stats(&f, 1);

        for (enum vw_drop d = 0; d < VW_DROP_COUNT; d++)
                if (s.drops[d] != (d == drop ? n : 0))
                        print_error("%s: %llu\n", d ? vw_drop_name(d) : "none",
                                    (unsigned long long)s.drops[d]);
        EXPECT_EQ(s.drops[drop], n);
        EXPECT_EQ(front_drops(&s), n);
}

/* hostile E01 */
TEST(device_tx, drops_chains_that_are_too_short)
{
        static const uint32_t lens[] = { 1, 9, 10, 11, 12, 25 };
        struct vq_piece piece = { 0 };
        uint8_t frame[14];

        begin(0, 8);
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
                piece = (struct vq_piece){ front_gpa(&f, 1, 0), lens[i] };
                send_pieces(&piece, 1, 0);
        }
        piece.len = 0;
        send_pieces(&piece, 1, 0);
        expect_dropped(VW_DROP_SHORT, ARRAY_SIZE(lens) + 1);
        /* hostile E13: the shortest that is one */
        send_one(frame, plain(frame, 14), NULL);
        EXPECT_EQ(sport_get(&port, 0, frame, sizeof(frame), NULL), 14);
        expect_dropped(VW_DROP_SHORT, ARRAY_SIZE(lens) + 1);
        end();
}

/* hostile E02 */
TEST(device_tx, reads_a_header_in_any_pieces)
{
        uint8_t frame[100], got[200];

        begin(OFFLOADS, 32);
        for (unsigned step = 1; step <= 13; step++) {
                struct vq_piece pieces[16];
                unsigned n = 0, at = 0;
                uint8_t *slot = front_slot(&f, 1, 0);
                struct vw_net_hdr hdr = { .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 40, .csum_offset = 10 },
                                  seen;

                net_hdr_encode(&hdr, 12, slot);
                memcpy(slot + 12, frame, plain(frame, sizeof(frame)));
                for (; at < 12; at += step)
                        pieces[n++] = (struct vq_piece){ front_gpa(&f, 1, 0) + at, step };
                pieces[n++] = (struct vq_piece){ front_gpa(&f, 1, 0) + at, 112 - at };
                send_pieces(pieces, n, 0);
                EXPECT_EQ(sport_get(&port, 0, got, sizeof(got), &seen), 100);
                EXPECT_MEM(got, frame, 100);
                EXPECT_EQ(seen.csum_start, 40);
        }
        expect_dropped(VW_DROP_NONE, 0);
        end();
}

/* hostile C17, C16, B24 */
TEST(device_tx, drops_wrong_directions_holes_and_giants)
{
        struct vq_piece pieces[2];

        begin(0, 8);
        pieces[0] = (struct vq_piece){ front_gpa(&f, 1, 0), 100 };
        pieces[1] = (struct vq_piece){ front_gpa(&f, 1, 1), 100 };
        send_pieces(pieces, 1, 1);
        expect_dropped(VW_DROP_DIRECTION, 1);
        end();

        begin(0, 8);
        pieces[0] = (struct vq_piece){ 0x1000, 100 };
        send_pieces(pieces, 1, 0);
        pieces[0] = (struct vq_piece){ FRONT_GPA + f.bytes - 10, 100 };
        send_pieces(pieces, 1, 0);
        pieces[0] = (struct vq_piece){ front_gpa(&f, 1, 0), 0xffffffff };
        send_pieces(pieces, 1, 0);
        pieces[0] = (struct vq_piece){ UINT64_MAX - 10, 100 };
        send_pieces(pieces, 1, 0);
        expect_dropped(VW_DROP_UNMAPPED, 4);
        end();

        begin(0, 8);
        pieces[0] = (struct vq_piece){ front_gpa(&f, 1, 0), 12 + VW_FRAME_MAX + 1 };
        send_pieces(pieces, 1, 0);
        expect_dropped(VW_DROP_TOO_LONG, 1);
        end();
}

/* hostile E13; J07 is in test_device_port.c */
TEST(device_tx, holds_frames_to_the_mtu)
{
        uint8_t frame[1600];
        unsigned sent;

        begin(F(mtu), 8);
        send_one(frame, plain(frame, 1514), NULL);
        EXPECT_EQ(sport_get(&port, 0, frame, sizeof(frame), NULL), 1514);
        send_one(frame, plain(frame, 1515), NULL);
        expect_dropped(VW_DROP_MTU, 1);
        sent = plain(frame, 1518);
        memcpy(frame + 12, "\x81\x00\x00\x05\x88\xb5", 6); /* room for a tag */
        send_one(frame, sent, NULL);
        EXPECT_EQ(sport_get(&port, 0, frame, sizeof(frame), NULL), 1518);
        send_one(frame, sent + 1, NULL);
        expect_dropped(VW_DROP_MTU, 2);
        end();
}

/* hostile E03, E05, E06, E08, E14 */
TEST(device_tx, drops_headers_that_lie_and_forwards_no_reserved_bits)
{
        struct frame_spec spec = { .proto = IPPROTO_TCP, .payload = 3000, .partial = true };
        static uint8_t frame[4000], got[4000];
        struct vw_net_hdr good, hdr, seen;
        uint32_t len = frame_build(&spec, frame, &good);

        begin(OFFLOADS, 8);
        good.gso_type = VW_GSO_TCPV4;
        good.gso_size = 1400;
        send_one(frame, len, &good);
        EXPECT_EQ(sport_get(&port, 0, got, sizeof(got), &seen), len);
        EXPECT_EQ(seen.gso_size, 1400);
        EXPECT_EQ(seen.hdr_len, 54);

        hdr = good;
        hdr.gso_size = 0;
        send_one(frame, len, &hdr);
        hdr = good;
        hdr.gso_type = 2;
        send_one(frame, len, &hdr);
        hdr.gso_type = VW_GSO_ECN;
        send_one(frame, len, &hdr);
        expect_dropped(VW_DROP_BAD_GSO, 3);
        end();

        begin(F(csum) | F(host_tso4), 8);
        hdr = good;
        hdr.gso_type = VW_GSO_TCPV4 | VW_GSO_ECN;
        send_one(frame, len, &hdr);
        expect_dropped(VW_DROP_NOT_NEGOTIATED, 1);
        hdr = (struct vw_net_hdr){ .flags = 0xfe, .hdr_len = 9, .num_buffers = 7, .csum_start = 5 };
        send_one(frame, plain(frame, 100), &hdr);
        EXPECT_EQ(sport_get(&port, 0, got, sizeof(got), &seen), 100);
        EXPECT_EQ(seen.flags | seen.hdr_len | seen.num_buffers | seen.csum_start, 0);
        end();

        begin(OFFLOADS, 8);
        hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 99, .csum_offset = 0 };
        send_one(frame, plain(frame, 100), &hdr);
        hdr.csum_start = 0xffff;
        send_one(frame, 100, &hdr);
        expect_dropped(VW_DROP_BAD_CSUM, 2);
        end();
}

/* What a port lacks is made up: each frame that comes out is whole, and one in the ring is one packet. */
static void made_up(const struct frame_spec *spec, uint8_t gso_type, uint16_t gso_size)
{
        static uint8_t frame[66000], got[66000];
        struct vw_net_hdr hdr, seen;
        uint32_t len = frame_build(spec, frame, &hdr), bytes = 0;
        struct vw_queue_stats s;
        struct frame_view view;
        int n;

        begin_on(0, OFFLOADS | F(host_uso), 64);
        hdr.gso_type = gso_type;
        hdr.gso_size = gso_size;
        EXPECT(front_send(&f, 0, frame, len, &hdr));
        front_kick(&f, 1);
        while (bytes < spec->payload) {
                EXPECT_SOON((n = sport_get(&port, 0, got, sizeof(got), &seen)) > 0);
                EXPECT_EQ(seen.flags | seen.gso_type, 0);
                EXPECT(!frame_wrong(got, (uint32_t)n, &view));
                if (gso_type == VW_GSO_TCPV4 || gso_type == VW_GSO_TCPV6)
                        EXPECT_EQ(view.seq, spec->seq + bytes);
                for (uint32_t k = view.payload; k < view.end; k++)
                        EXPECT_EQ(got[k], frame_payload_byte(spec, bytes++));
        }
        EXPECT_SOON(front_reap(&f, 1, NULL, 1) == 1);
        s = front_stats(&f, 1);
        EXPECT_EQ(s.counters[VW_C_packets], 1);
        EXPECT_EQ(s.counters[VW_C_bytes], len);
        EXPECT_EQ(front_drops(&s), 0);
        end();
}

TEST(device_tx, makes_up_in_software_what_the_port_lacks)
{
        made_up(&(struct frame_spec){ .proto = IPPROTO_TCP, .payload = 60000, .partial = true, .seed = 3 },
                VW_GSO_TCPV4, 1400);
        made_up(&(struct frame_spec){ .proto = IPPROTO_TCP, .v6 = true, .payload = 30000, .partial = true },
                VW_GSO_TCPV6, 1400);
        made_up(&(struct frame_spec){ .proto = IPPROTO_UDP, .payload = 10000, .partial = true },
                VW_GSO_UDP_L4, 1400);
        made_up(&(struct frame_spec){ .proto = IPPROTO_UDP, .v6 = true, .payload = 900, .partial = true },
                VW_GSO_NONE, 0);
}

/* hostile E06, N01: thousands of segments are the work of many turns */
TEST(device_tx, goes_on_in_the_next_turn_with_a_frame_that_is_cut_very_fine)
{
        made_up(&(struct frame_spec){ .proto = IPPROTO_TCP, .payload = 60000, .partial = true, .seed = 3 },
                VW_GSO_TCPV4, 8);
}

/* T-VH-05, hostile J04 */
TEST(device_tx, waits_for_a_full_port_and_keeps_the_order)
{
        static uint8_t frame[1514], got[1514];
        unsigned n = (unsigned)test_scale(3000, 100000), sent = 0, back = 0, seen = 0;
        struct vw_queue_stats s;

        begin(F(event_idx), 256);
        while (seen < n) {
                /* fill the ring and the port; nobody reads */
                while (sent < n) {
                        plain(frame, sizeof(frame));
                        memcpy(frame + 14, &sent, sizeof(sent));
                        if (!front_send(&f, 0, frame, sizeof(frame), NULL))
                                break;
                        sent++;
                }
                front_kick(&f, 1);
                back += front_reap(&f, 1, NULL, 64);
                if (seen == 0 && sent < n && front_stats(&f, 1).counters[VW_C_port_full] == 0)
                        continue;
                for (unsigned i = 0; i < 10 && sport_get(&port, 0, got, sizeof(got), NULL) >= 0; i++) {
                        EXPECT_MEM(got + 14, &seen, sizeof(seen));
                        seen++;
                }
        }
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == n);
        s = front_stats(&f, 1);
        EXPECT_EQ(s.counters[VW_C_packets], n);
        EXPECT_EQ(front_drops(&s), 0);
        EXPECT(s.counters[VW_C_port_full] > 0);
        end();
}

/* T-VH-04, hostile J01, J05 */
TEST(device_tx, counts_what_the_port_refuses_by_its_error)
{
        static uint8_t frame[100];
        struct vw_queue_stats s;
        unsigned back = 0;

        begin(0, 256);
        __atomic_store_n(&port.tx_errno, 5 /* EIO */, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < 64; i++)
                EXPECT(front_send(&f, 0, frame, plain(frame, 100), NULL));
        front_kick(&f, 1);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 64);
        expect_dropped(VW_DROP_PORT_ERROR, 64);
        __atomic_store_n(&port.tx_errno, 100 /* ENETDOWN */, __ATOMIC_RELAXED);
        send_one(frame, 100, NULL);
        __atomic_store_n(&port.tx_errno, 0, __ATOMIC_RELAXED);
        send_one(frame, 100, NULL);
        s = front_stats(&f, 1);
        EXPECT_EQ(s.drops[VW_DROP_PORT_ERROR], 64);
        EXPECT_EQ(s.drops[VW_DROP_PORT_DOWN], 1);
        EXPECT_EQ(s.counters[VW_C_packets], 1);
        end();
}

/* hostile C31 */
TEST(device_tx, discards_on_a_ring_that_was_disabled_and_keeps_kicks_before_the_first_enable)
{
        static uint8_t frame[100];
        unsigned back = 0;

        begin(0, 64);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, false), 0);
        for (unsigned i = 0; i < 10; i++)
                EXPECT(front_send(&f, 0, frame, plain(frame, 100), NULL));
        front_kick(&f, 1);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 10);
        expect_dropped(VW_DROP_DISABLED, 10);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, true), 0);
        send_one(frame, 100, NULL);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 1);
        front_close(&f);

        front_open(&f, &(struct vw_device_config){ .port = port.port, .pairs = 1, .features = ~(uint64_t)0 });
        front_hello(&f, 0, 64);
        front_ring(&f, 1);
        for (unsigned i = 0; i < 10; i++)
                EXPECT(front_send(&f, 0, frame, 100, NULL));
        front_start(&f, 1);
        front_kick(&f, 1);
        front_kick_raw(&f, 1);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 0);
        EXPECT_EQ(front_reap(&f, 1, NULL, 64), 0);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, true), 0);
        back = 0;
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 10);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 10);
        front_ring(&f, 0); /* for the tidying up */
        end();
}

/* Any mixture of frames: each is delivered or counted, and nothing leaves that is longer than it may be */
TEST(device_tx, accounts_for_every_frame_of_a_random_mixture)
{
        static uint8_t frame[70000], got[70000];
        unsigned n = (unsigned)test_scale(20000, 1000000), sent = 0, back = 0, seen = 0;
        uint64_t rng = 17;
        struct vw_queue_stats s;
        uint64_t bytes = 0;
        int len;

        begin(OFFLOADS | F(event_idx) | F(indirect_desc), 256);
        while (back < n) {
                while (sent < n) {
                        struct frame_spec spec = { .v6 = rng_below(&rng, 2),
                                                   .proto = rng_below(&rng, 3) ? IPPROTO_TCP : IPPROTO_UDP,
                                                   .payload = rng_below(&rng, 4) ? rng_below(&rng, 1400)
                                                                                 : rng_below(&rng, 60000),
                                                   .partial = true };
                        struct vw_net_hdr hdr;
                        uint32_t size = frame_build(&spec, frame, &hdr);

                        if (rng_below(&rng, 2)) {
                                hdr.gso_type = spec.v6 ? VW_GSO_TCPV6 : VW_GSO_TCPV4;
                                hdr.gso_size = 1 + (uint16_t)rng_below(&rng, 1460);
                        }
                        if (rng_below(&rng, 8) == 0)
                                ((uint8_t *)&hdr)[rng_below(&rng, sizeof(hdr))] ^=
                                        (uint8_t)(1u << rng_below(&rng, 8));
                        if (!front_send(&f, 0, frame, size, &hdr))
                                break;
                        sent++;
                        bytes += size;
                        if (f.q[1].next_slot < 33)
                                break; /* slots are used again: let the device catch up */
                }
                front_kick(&f, 1);
                while (back < sent) {
                        back += front_reap(&f, 1, NULL, 64);
                        while ((len = sport_get(&port, 0, got, sizeof(got), NULL)) >= 0)
                                seen++;
                }
        }
        while ((len = sport_get(&port, 0, got, sizeof(got), NULL)) >= 0)
                seen++;
        s = front_stats(&f, 1);
        EXPECT_EQ(s.counters[VW_C_packets] + front_drops(&s), n);
        EXPECT_EQ(s.counters[VW_C_packets], seen);
        EXPECT(front_drops(&s) > 0 && s.counters[VW_C_bytes] < bytes);
        end();
}
