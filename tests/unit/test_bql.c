/* The byte limit against devices in figures: where it settles, and what late completions do to it. */
#include "driver/bql.h"

#include "base/check.h"
#include "base/clock.h"
#include "scale.h"
#include "test.h"

#define PKT   1514u
#define ROUND (100 * NSEC_PER_USEC)

/* A sender that fills the queue whenever it may, and a device that does `rate` bytes a round, in whole packets and in
 * order.  `carry`: what a round leaves over of its rate goes into the next. */
struct line {
        struct bql bql;
        struct bql_ticket out[4096];
        unsigned head, tail;
        uint64_t now, rate, credit, underfilled;
        bool carry;
};

static struct line line_new(uint64_t rate, bool carry)
{
        struct line l = { .rate = rate, .carry = carry };

        bql_enable(&l.bql, true);
        return l;
}

static void send(struct line *l, uint32_t bytes)
{
        l->out[l->head++ % 4096] = bql_charge(&l->bql, bytes);
        EXPECT(l->head - l->tail <= 4096);
}

static void round_of(struct line *l)
{
        uint64_t sent_before = l->bql.queued;

        while (bql_room(&l->bql))
                send(l, PKT);
        EXPECT(l->bql.queued <= MAX(l->bql.allowed, sent_before) + PKT);
        l->now += ROUND;
        l->credit = (l->carry ? l->credit : 0) + l->rate;
        while (l->tail != l->head && l->credit >= l->out[l->tail % 4096].bytes) {
                l->credit -= l->out[l->tail % 4096].bytes;
                bql_uncharge(&l->bql, l->out[l->tail++ % 4096]);
        }
        if (l->tail == l->head && l->credit >= PKT) {
                l->underfilled++;
                l->credit = 0;
        }
        bql_update(&l->bql, l->now);
}

/* T-BQL-01 */
TEST(bql, starved_limit_doubles_each_round_and_settles_at_two_rounds)
{
        static const uint32_t limits[] = { 1514, 4542, 10598, 22710, 46934, 95382, 192278, 192278, 248296 };
        struct line l = line_new(125000, false);

        for (unsigned i = 0; i < 9; i++) {
                round_of(&l);
                EXPECT_EQ(l.bql.limit, limits[i]);
        }
        EXPECT_EQ(l.underfilled, 7);
        for (unsigned i = 0; i < 100000; i++) { /* after a second it tries one packet less */
                round_of(&l);
                EXPECT(l.bql.limit == 248296 || (i > 9000 && l.bql.limit == 248296 - PKT));
        }
        EXPECT_EQ(l.underfilled, 7);
}

/* T-BQL-01 */
TEST(bql, settles_near_two_rounds_when_remainders_carry_over)
{
        struct line l = line_new(125000, true);

        for (unsigned i = 0; i < 100000; i++) {
                round_of(&l);
                if (i >= 8)
                        EXPECT(l.bql.limit >= 248296 && l.bql.limit <= 252000);
        }
        EXPECT_EQ(l.underfilled, 7);
}

TEST(bql, a_slower_device_brings_the_limit_down_within_seconds)
{
        struct line l = line_new(125000, true);

        for (unsigned i = 0; i < 100; i++)
                round_of(&l);
        l.rate = 12500;
        for (unsigned i = 0; i < 40000; i++) /* 4 s */
                round_of(&l);
        EXPECT(l.bql.limit >= 12500 && l.bql.limit <= 30000);
        l.underfilled = 0;
        for (unsigned i = 0; i < 40000; i++)
                round_of(&l);
        EXPECT_EQ(l.underfilled, 0);
}

TEST(bql, never_goes_below_its_minimum)
{
        struct line l = line_new(125000, true);

        l.bql.limit_min = 60000;
        bql_reset(&l.bql, 0);
        EXPECT_EQ(l.bql.limit, 60000);
        for (unsigned i = 0; i < 100; i++)
                round_of(&l);
        l.rate = PKT;
        for (unsigned i = 0; i < 100000; i++)
                round_of(&l);
        EXPECT_EQ(l.bql.limit, 60000);
}

TEST(bql, a_sender_that_is_not_held_back_does_not_raise_the_limit)
{
        struct bql b = { .limit_min = 10 * PKT };

        bql_enable(&b, true);
        bql_reset(&b, 0);
        for (unsigned i = 1; i < 1000; i++) {
                struct bql_ticket t = bql_charge(&b, PKT);

                EXPECT(bql_room(&b));
                bql_uncharge(&b, t);
                bql_update(&b, i * ROUND);
                EXPECT_EQ(b.limit, 10 * PKT);
        }
}

/* T-BQL-04 */
TEST(bql, drops_fifty_late_completions_of_an_older_epoch)
{
        struct bql b = { .limit_min = 100 * PKT };
        struct bql_ticket old[50], t;

        bql_enable(&b, true);
        bql_reset(&b, 0);
        for (unsigned i = 0; i < 50; i++)
                old[i] = bql_charge(&b, PKT);
        bql_reset(&b, ROUND);
        EXPECT_EQ(bql_inflight(&b), 0);
        t = bql_charge(&b, PKT);
        for (unsigned i = 0; i < 50; i++) {
                bql_uncharge(&b, old[i]);
                bql_update(&b, 2 * ROUND + i);
                EXPECT(b.completed + b.done <= b.queued);
                EXPECT_EQ(bql_inflight(&b), PKT);
        }
        bql_uncharge(&b, t);
        bql_update(&b, 3 * ROUND);
        EXPECT_EQ(bql_inflight(&b), 0);
        EXPECT_EQ(b.late, 50);
}

/* T-BQL-05 */
TEST(bql, charges_nothing_in_orphan_mode)
{
        struct bql b = { 0 };

        for (unsigned i = 0; i < 100; i++) {
                EXPECT(bql_room(&b));
                EXPECT_EQ(bql_charge(&b, PKT).bytes, 0);
        }
        EXPECT_EQ(bql_inflight(&b), 0);
}

/* T-BQL-05 */
TEST(bql, what_was_charged_before_a_mode_switch_is_uncharged_after_it)
{
        struct bql b = { 0 };
        struct bql_ticket t[300];
        uint64_t rng = 7;
        unsigned out = 0;

        for (uint64_t i = 0; i < test_scale(100000, 10000000); i++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                if (rng >> 60 == 0)
                        bql_enable(&b, rng >> 59 & 1);
                if (rng >> 40 & 1 && out < 300 && bql_room(&b)) {
                        t[out++] = bql_charge(&b, 60 + (uint32_t)(rng >> 30) % 65000);
                } else if (out > 0) {
                        unsigned k = (unsigned)(rng >> 20) % out;

                        bql_uncharge(&b, t[k]);
                        t[k] = t[--out];
                        if (rng >> 50 & 1)
                                bql_update(&b, i * 1000);
                }
        }
        while (out > 0)
                bql_uncharge(&b, t[--out]);
        bql_update(&b, UINT64_MAX / 2);
        EXPECT_EQ(bql_inflight(&b), 0);
        EXPECT_EQ(b.queued, b.completed);
        EXPECT_EQ(b.late, 0);
}

/* Room is promised at charge time only: with every packet done there is always room again, so nobody waits for ever. */
TEST(bql, an_empty_queue_has_room)
{
        uint64_t rng = 3, now = 0;
        struct bql b = { 0 };
        struct bql_ticket t[512];

        bql_enable(&b, true);
        for (uint64_t i = 0; i < test_scale(20000, 2000000); i++) {
                unsigned n = 0;

                while (bql_room(&b) && n < 512) {
                        rng = rng * 6364136223846793005u + 1442695040888963407u;
                        t[n++] = bql_charge(&b, 60 + (uint32_t)(rng >> 40) % 65533);
                }
                EXPECT(n > 0);
                now += rng >> 44;
                while (n > 0) {
                        bql_uncharge(&b, t[--n]);
                        if (rng >> n % 60 & 1)
                                bql_update(&b, now);
                }
                bql_update(&b, now);
                EXPECT_EQ(bql_inflight(&b), 0);
                EXPECT(b.limit <= BQL_LIMIT_MAX);
        }
}
