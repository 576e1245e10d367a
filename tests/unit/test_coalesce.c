/* When a call is due: by packets, by time, at once. */
#include "device/coalesce.h"

#include "base/check.h"
#include "base/clock.h"
#include "scale.h"
#include "test.h"
#include "vwire/stats.h"

#define US NSEC_PER_USEC

static struct coalesce with(uint32_t usecs, uint32_t frames)
{
        struct coalesce c = { 0 };

        EXPECT(!coalesce_set(&c, usecs, frames, 0));
        return c;
}

/* T-COAL-01 */
TEST(coalesce, calls_at_the_fifteenth_packet)
{
        struct coalesce c = with(10, 15);

        for (unsigned i = 1; i <= 14; i++)
                EXPECT(!coalesce_note(&c, 1, i * US / 2));
        EXPECT(coalesce_note(&c, 1, 15 * US / 2));
        EXPECT_EQ(c.released[COALESCE_FRAMES], 1);
        EXPECT_EQ(c.released[COALESCE_TIMER], 0);
        EXPECT_EQ(c.held, 14);
        EXPECT_EQ(coalesce_deadline(&c), NEVER);
}

/* T-COAL-01 */
TEST(coalesce, calls_ten_microseconds_after_the_first_of_three)
{
        struct coalesce c = with(10, 15);

        EXPECT(!coalesce_note(&c, 1, 100 * US));
        EXPECT(!coalesce_note(&c, 1, 104 * US));
        EXPECT(!coalesce_note(&c, 1, 109 * US));
        EXPECT_EQ(coalesce_deadline(&c), 110 * US);
        EXPECT(!coalesce_expire(&c, 110 * US - 1));
        EXPECT(coalesce_expire(&c, 110 * US));
        EXPECT(!coalesce_expire(&c, 111 * US));
        EXPECT_EQ(c.released[COALESCE_TIMER], 1);
}

/* T-COAL-01 */
TEST(coalesce, count_and_timer_start_afresh_at_the_next_packet)
{
        struct coalesce c = with(10, 15);

        EXPECT(!coalesce_note(&c, 3, 100 * US));
        EXPECT(coalesce_expire(&c, 110 * US));
        EXPECT_EQ(coalesce_deadline(&c), NEVER);
        EXPECT(!coalesce_note(&c, 14, 500 * US));
        EXPECT_EQ(coalesce_deadline(&c), 510 * US);
        EXPECT(coalesce_note(&c, 1, 505 * US));
        EXPECT(!coalesce_note(&c, 14, 506 * US));
        EXPECT_EQ(coalesce_deadline(&c), 516 * US);
}

/* T-COAL-02 */
TEST(coalesce, calls_after_every_publication_when_either_is_zero)
{
        static const uint32_t pairs[][2] = {
                {0,   0 },
                { 0,  15},
                { 10, 0 }
        };

        for (unsigned i = 0; i < ARRAY_SIZE(pairs); i++) {
                struct coalesce c = with(pairs[i][0], pairs[i][1]);

                for (unsigned k = 0; k < 100; k++) {
                        EXPECT(coalesce_note(&c, 1 + k % 3, k));
                        EXPECT_EQ(coalesce_deadline(&c), NEVER);
                }
                EXPECT(!coalesce_flush(&c));
                EXPECT_EQ(c.held, 0);
        }
}

TEST(coalesce, a_publication_of_nothing_is_none)
{
        struct coalesce c = { 0 };

        EXPECT(!coalesce_note(&c, 0, 5));
        coalesce_set(&c, 10, 15, 5);
        EXPECT(!coalesce_note(&c, 0, 5));
        EXPECT_EQ(coalesce_deadline(&c), NEVER);
}

/* A run notes publications; the deadline is read once, at its end, and means nothing once the next run has begun.
 * T-COAL-10 */
TEST(coalesce, arms_at_most_once_a_run_and_fires_in_none_at_full_load)
{
        struct coalesce c = with(64, 64);
        uint64_t packets = 0, arms = 0, runs = 0, calls = 0, now = 0;

        while (packets < test_scale(100000, 1000000)) {
                for (unsigned burst = 0; burst < 4; burst++) { /* a run: 256 packets, one each 200 ns */
                        now += 64 * 200;
                        calls += coalesce_note(&c, 61, now);
                        packets += 61;
                }
                runs++;
                EXPECT(!coalesce_expire(&c, now));
                arms += coalesce_deadline(&c) != NEVER;
        }
        EXPECT(arms <= runs);
        EXPECT_EQ(c.released[COALESCE_TIMER], 0);
        EXPECT_EQ(calls, c.released[COALESCE_FRAMES]);
        EXPECT_EQ(calls, packets / 122);
}

/* T-COAL-10 */
TEST(coalesce, an_idle_queue_has_no_deadline)
{
        struct coalesce c = with(10, 15);

        EXPECT_EQ(coalesce_deadline(&c), NEVER);
        EXPECT(!coalesce_due(&c, NEVER));
        EXPECT(!coalesce_expire(&c, NEVER));
}

/* T-COAL-12 */
TEST(coalesce, a_thousand_microseconds_are_a_millisecond)
{
        struct coalesce c = with(1000, 15);

        EXPECT(!coalesce_note(&c, 1, 7));
        EXPECT_EQ(coalesce_deadline(&c), 7 + NSEC_PER_MSEC);
}

/* T-COAL-12 */
TEST(coalesce, the_longest_hold_does_not_overflow)
{
        struct coalesce c = with(UINT32_MAX, UINT32_MAX);

        EXPECT(!coalesce_note(&c, 1, NSEC_PER_SEC));
        EXPECT_EQ(coalesce_deadline(&c), NSEC_PER_SEC + UINT32_MAX * US);
        EXPECT(!coalesce_due(&c, 4000 * NSEC_PER_SEC));
        EXPECT(coalesce_note(&c, UINT32_MAX, NSEC_PER_SEC));
        EXPECT(!coalesce_note(&c, 1, NEVER - 5));
        EXPECT_EQ(coalesce_deadline(&c), NEVER - 1);
}

TEST(coalesce, clamps_what_the_guest_asks_for)
{
        uint32_t usecs = UINT32_MAX, frames = UINT32_MAX;

        coalesce_clamp(&usecs, &frames);
        EXPECT_EQ(usecs, 10000);
        EXPECT_EQ(frames, 1024);
        usecs = 9999, frames = 0;
        coalesce_clamp(&usecs, &frames);
        EXPECT_EQ(usecs, 9999);
        EXPECT_EQ(frames, 0);
}

TEST(coalesce, a_lower_frame_limit_makes_ten_packets_due_now)
{
        struct coalesce c = with(100, 15);

        EXPECT(!coalesce_note(&c, 10, 50));
        EXPECT(!coalesce_set(&c, 100, 11, 60));
        EXPECT(coalesce_set(&c, 100, 8, 60));
        EXPECT_EQ(c.released[COALESCE_FRAMES], 1);
        EXPECT(!coalesce_set(&c, 100, 8, 61));
}

TEST(coalesce, a_shorter_hold_counts_from_the_first_packet)
{
        struct coalesce c = with(100, 15);

        EXPECT(!coalesce_note(&c, 1, 0));
        EXPECT(!coalesce_set(&c, 60, 15, 50 * US));
        EXPECT_EQ(coalesce_deadline(&c), 60 * US);
        EXPECT(coalesce_set(&c, 50, 15, 50 * US));
        EXPECT_EQ(c.released[COALESCE_TIMER], 1);
}

TEST(coalesce, switching_off_lets_go_what_is_held)
{
        struct coalesce c = with(100, 15);

        EXPECT(!coalesce_note(&c, 1, 0));
        EXPECT(coalesce_set(&c, 0, 15, 1));
        EXPECT_EQ(c.released[COALESCE_FLUSH], 1);
        EXPECT(coalesce_note(&c, 1, 2));
}

TEST(coalesce, a_flush_lets_go_once)
{
        struct coalesce c = with(100, 15);

        EXPECT(!coalesce_flush(&c));
        EXPECT(!coalesce_note(&c, 1, 0));
        EXPECT(coalesce_flush(&c));
        EXPECT(!coalesce_flush(&c));
        EXPECT_EQ(c.released[COALESCE_FLUSH], 1);
}

/* A late look: the burst that follows the deadline goes out with what it found waiting. */
TEST(coalesce, a_publication_after_the_deadline_calls)
{
        struct coalesce c = with(10, 15);

        EXPECT(!coalesce_note(&c, 1, 0));
        EXPECT(coalesce_note(&c, 1, 10 * US));
        EXPECT_EQ(c.released[COALESCE_TIMER], 1);
}

/* Any schedule of publications, looks, changes and flushes: after each step nothing is held that is due, and at the
 * end nothing is held at all, so no publication was forgotten. */
TEST(coalesce, loses_no_call_in_any_schedule)
{
        uint64_t rng = 1, now = 0, owed = 0, first = 0;
        struct coalesce c = { 0 };

        for (uint64_t i = 0; i < test_scale(200000, 20000000); i++) {
                bool call = false;

                rng = rng * 6364136223846793005u + 1442695040888963407u;
                now += (rng >> 40) % 8000;
                switch ((rng >> 33) % 8) {
                case 0:
                        call = coalesce_set(&c, (uint32_t)(rng >> 20) % 3 * 20, (uint32_t)(rng >> 24) % 4 * 8,
                                            now);
                        break;
                case 1:
                        call = coalesce_flush(&c);
                        EXPECT_EQ(call, owed > 0);
                        break;
                case 2:
                case 3:
                        call = coalesce_expire(&c, now);
                        break;
                default:
                        if (owed == 0)
                                first = now;
                        owed += 1 + rng % 5;
                        call = coalesce_note(&c, (uint32_t)(1 + rng % 5), now);
                }
                if (call)
                        owed = 0;
                EXPECT_EQ(c.pending, owed);
                EXPECT_EQ(coalesce_deadline(&c), owed ? first + c.usecs * US : NEVER);
                EXPECT(owed == 0 || (c.usecs && owed < c.frames));
        }
        EXPECT_EQ(coalesce_flush(&c), owed > 0);
}
