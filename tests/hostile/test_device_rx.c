/* A guest that lies in the buffers it offers for receiving: a faulty buffer costs the frame that meets it, too little room makes
 * frames wait in the port while the worker sleeps, and what is written is what the used length says. */
#include <string.h>

#include "invariants.h"
#include "net/hdr.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

static struct siege s;
static uint8_t frame[70000];

static void begin(uint64_t features, unsigned size, uint32_t longest)
{
        siege_begin(&s, NULL);
        __atomic_store_n(&s.port.rx_max, longest, __ATOMIC_RELAXED);
        siege_connect(&s, features, size);
}

static void end(void)
{
        siege_end(&s, SIEGE_LIVES);
}

/* A frame whose bytes count from `seed`. */
static const uint8_t *make(uint32_t len, uint8_t seed)
{
        for (uint32_t i = 0; i < len; i++)
                frame[i] = (uint8_t)(seed + i);
        memcpy(frame + 12, "\x88\xb5", 2);
        return frame;
}

static void arrive(uint32_t len, uint8_t seed)
{
        EXPECT_SOON(sport_put(&s.port, 0, make(len, seed), len, NULL));
}

static uint64_t packets(void)
{
        return front_stats(&s.f, 0).counters[VW_C_packets];
}

static uint64_t dropped(enum vw_drop drop)
{
        return front_stats(&s.f, 0).drops[drop];
}

static void offer(const struct vq_piece *pieces, unsigned n_out, unsigned n_in, unsigned slot)
{
        EXPECT(front_add(&s.f, 0, pieces, n_out, n_in, slot));
        front_kick(&s.f, 0);
}

/* One chain comes back, with `len` bytes written. */
static void expect_used(uint32_t len)
{
        struct vq_used used;

        EXPECT_SOON(front_reap(&s.f, 0, &used, 1) == 1);
        EXPECT_EQ(used.len, len);
}

/* ---- buffers that will not do ---- */

/* hostile F01 */
TEST(hostile_rx, buffers_too_small_cost_a_frame_each_and_the_ring_goes_on)
{
        static const uint32_t lens[] = { 0, 1, 11, 12, 13, 25, 71 };

        begin(0, 16, 1518);
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
                struct vq_piece piece = { front_gpa(&s.f, 0, i), lens[i] };

                arrive(60, 1);
                offer(&piece, 0, 1, i);
                expect_used(0);
        }
        EXPECT_EQ(dropped(VW_DROP_NO_BUFFERS), 6); /* those that hold no frame at all */
        EXPECT_EQ(dropped(VW_DROP_TOO_LONG), 1);
        EXPECT_EQ(packets(), 0);
        offer(&(struct vq_piece){ front_gpa(&s.f, 0, 9), 72 }, 0, 1, 9);
        arrive(60, 2);
        expect_used(72);
        EXPECT_MEM(front_slot(&s.f, 0, 9) + FRONT_HDR, make(60, 2), 60);
        end();
}

/* hostile F02, B24, C17 */
TEST(hostile_rx, buffers_that_may_not_be_written_are_not)
{
        const uint64_t gpa = FRONT_GPA;
        struct vq_piece pieces[2];

        begin(0, 16, 1518);
        pieces[0] = (struct vq_piece){ front_gpa(&s.f, 0, 0), 2000 };
        pieces[1] = (struct vq_piece){ front_gpa(&s.f, 0, 1), 2000 };
        arrive(60, 1);
        offer(pieces, 1, 0, 0);
        expect_used(0);
        arrive(60, 1);
        /* the second is writable, but not to be written */
        EXPECT(vq_driver_add(&s.f.q[0].vq, pieces, 1, 1, &s) == 0);
        front_kick(&s.f, 0);
        expect_used(0);
        EXPECT_EQ(dropped(VW_DROP_DIRECTION), 2);
        const struct vq_piece holes[] = {
                {gpa - 1000,         2000      },
                { 0,                 2000      },
                { gpa,               UINT32_MAX},
                { UINT64_MAX - 1999, 2000      },
        };
        for (unsigned i = 0; i < ARRAY_SIZE(holes); i++) {
                arrive(60, 1);
                EXPECT(vq_driver_add(&s.f.q[0].vq, &holes[i], 0, 1, &s) == 0);
                front_kick(&s.f, 0);
                expect_used(0);
                EXPECT_EQ(dropped(VW_DROP_UNMAPPED), i + 1);
        }
        EXPECT_EQ(packets(), 0);
        end();
}

/* ---- waiting ---- */

/* hostile F03, T-VH-23 */
TEST(hostile_rx, without_buffers_frames_wait_and_the_worker_sleeps)
{
        begin(0, 16, 1518);
        for (unsigned i = 0; i < 20; i++)
                arrive(60, (uint8_t)i);
        EXPECT_SOON(front_stats(&s.f, 0).counters[VW_C_no_buffers] == 1);
        EXPECT(siege_idle(&s, 10));
        for (unsigned i = 0; i < 20; i++) { /* the first buffers bring the first frames */
                offer(&(struct vq_piece){ front_gpa(&s.f, 0, i), 100 }, 0, 1, i);
                expect_used(72);
                EXPECT_MEM(front_slot(&s.f, 0, i) + FRONT_HDR, make(60, (uint8_t)i), 60);
        }
        EXPECT_EQ(packets(), 20);
        end();
}

/* hostile F09 */
TEST(hostile_rx, a_frame_waits_asleep_for_the_last_of_its_buffers)
{
        begin(F(mrg_rxbuf), 64, 9000);
        for (unsigned k = 0; k < 3; k++) {
                struct vq_used used[4];
                unsigned got = 0;

                arrive(4000, (uint8_t)k);
                for (unsigned i = 0; i < 4; i++) {
                        EXPECT(siege_idle(&s, 10));
                        EXPECT_EQ(front_reap(&s.f, 0, NULL, 1), 0);
                        offer(&(struct vq_piece){ front_gpa(&s.f, 0, i), 1200 }, 0, 1, i);
                }
                EXPECT_SOON((got += front_reap(&s.f, 0, used + got, 4 - got)) == 4);
                for (unsigned i = 0; i < 4; i++)
                        EXPECT_EQ(used[i].len, i < 3 ? 1200 : 4012 - 3 * 1200);
                EXPECT_MEM(front_slot(&s.f, 0, 0) + FRONT_HDR, make(4000, (uint8_t)k), 1188);
                EXPECT_EQ(packets(), k + 1);
                front_renew(&s.f, 0);
        }
        end();
}

/* hostile F04 */
TEST(hostile_rx, one_buffer_at_a_time_loses_nothing)
{
        const unsigned n = (unsigned)test_scale(2000, 1000000);

        begin(F(event_idx), 4, 1518);
        for (unsigned i = 0; i < n; i++) {
                arrive(60 + i % 1000, (uint8_t)i);
                offer(&(struct vq_piece){ front_gpa(&s.f, 0, 0), 1600 }, 0, 1, 0);
                expect_used(72 + i % 1000);
        }
        EXPECT_EQ(packets(), n);
        end();
}

/* ---- what is written ---- */

static uint16_t num_buffers(unsigned slot)
{
        const uint8_t *at = front_slot(&s.f, 0, slot);

        return (uint16_t)(at[10] | at[11] << 8);
}

/* hostile F06, F11 */
TEST(hostile_rx, the_longest_frame_over_two_to_all_buffers_of_the_ring)
{
        const uint32_t len = 65000, total = FRONT_HDR + len;

        begin(F(mrg_rxbuf), 64, len);
        for (unsigned n = 2; n <= 64; n = n < 8 ? n + 1 : 2 * n) {
                uint32_t each = (total + n - 1) / n, at = 0;
                struct vq_used used[64];
                unsigned got = 0;

                front_renew(&s.f, 0);
                arrive(len, (uint8_t)n);
                for (unsigned i = 0; i < n; i++) {
                        unsigned slot = i * 33; /* 33 slots hold the longest buffer */
                        struct vq_piece piece = { front_gpa(&s.f, 0, slot % 990), each };

                        if (n > 30)
                                piece.gpa = front_gpa(&s.f, 0, i * 2);
                        EXPECT(front_add(&s.f, 0, &piece, 0, 1, i));
                }
                front_kick(&s.f, 0);
                EXPECT_SOON((got += front_reap(&s.f, 0, used + got, 64 - got)) == n);
                EXPECT_EQ(num_buffers(0), n);
                for (unsigned i = 0; i < n; i++) {
                        uint32_t written = MIN(each, total - at);
                        const uint8_t *bytes = front_slot(&s.f, 0, n > 30 ? i * 2 : i * 33 % 990);

                        EXPECT_EQ(used[i].len, written);
                        if (i == 0)
                                EXPECT_MEM(bytes + FRONT_HDR, make(len, (uint8_t)n), written - FRONT_HDR);
                        else
                                EXPECT_MEM(bytes, frame + at - FRONT_HDR, written);
                        at += written;
                }
        }
        end();
}

/* hostile F07, T-VH-18 */
TEST(hostile_rx, without_mergeable_buffers_there_is_one)
{
        begin(0, 16, 1518);
        for (unsigned i = 0; i < 10; i++) {
                offer(&(struct vq_piece){ front_gpa(&s.f, 0, i), 1600 }, 0, 1, i);
                arrive(60 + 100 * i, 3);
                expect_used(72 + 100 * i);
                EXPECT_EQ(num_buffers(i), 1);
        }
        end();
}

/* hostile F11, B25 */
TEST(hostile_rx, the_used_length_is_what_was_written_in_any_pieces)
{
        const unsigned n = (unsigned)test_scale(1500, 200000);
        uint64_t rng = 11;

        begin(F(mrg_rxbuf) | F(indirect_desc), 64, 1518);
        for (unsigned i = 0; i < n; i++) {
                unsigned n_pieces = 1 + rng_below(&rng, 8);
                uint32_t len = 14 + rng_below(&rng, 1505), at = 0, k = 0;
                struct vq_piece pieces[9];

                if (i % 512 == 0)
                        front_renew(&s.f, 0);
                for (; k < n_pieces; k++) { /* pieces of any length, lying apart */
                        pieces[k] = (struct vq_piece){ front_gpa(&s.f, 0, 2 * k), rng_below(&rng, 300) };
                        at += pieces[k].len;
                }
                pieces[k++] = (struct vq_piece){ front_gpa(&s.f, 0, 20), 2000 };
                arrive(len, (uint8_t)i);
                offer(pieces, 0, k, 0);
                expect_used(FRONT_HDR + len);
                at = 0;
                make(len, (uint8_t)i);
                for (unsigned j = 0; j < k && at < FRONT_HDR + len; j++)
                        for (uint32_t b = 0; b < pieces[j].len && at < FRONT_HDR + len; b++, at++)
                                if (at >= FRONT_HDR)
                                        EXPECT_EQ(front_slot(&s.f, 0, j + 1 < k ? 2 * j : 20)[b],
                                                  frame[at - FRONT_HDR]);
        }
        EXPECT_EQ(packets(), n);
        end();
}

/* ---- disabled ---- */

/* hostile F13 */
TEST(hostile_rx, a_disabled_queue_gets_nothing_and_each_frame_is_counted)
{
        uint64_t n = 0;

        begin(F(event_idx), 16, 1518);
        front_post(&s.f, 0, 16, 1600);
        front_kick(&s.f, 0);
        for (unsigned round = 0; round < 20; round++) {
                EXPECT_EQ(vu_frontend_vring_enable(&s.f.fe, 0, false), 0);
                for (unsigned i = 0; i < 10; i++)
                        arrive(60, 1);
                n += 10;
                EXPECT_SOON(dropped(VW_DROP_DISABLED) == n);
                EXPECT_EQ(front_reap(&s.f, 0, NULL, 16), 0);
                EXPECT_EQ(vu_frontend_vring_enable(&s.f.fe, 0, true), 0);
                arrive(60, 2);
                expect_used(72);
                front_post(&s.f, 0, 1, 1600);
                front_kick(&s.f, 0);
        }
        EXPECT_EQ(packets(), 20);
        end();
}
