/* Which way of waiting is the best, found out under way: loads in figures, and what the trials cost them. */
#include "device/duel.h"

#include "base/check.h"
#include "base/clock.h"
#include "rng.h"
#include "test.h"

#define MS NSEC_PER_MSEC

/* A load that gets so many packets done in a millisecond by way, by chance up to `noise` per cent more or less, and for 8 ms each
 * up to `slices` per cent more or less, as where it shares a CPU. */
struct load {
        struct duel duel;
        double rate[DUEL_WAYS];
        unsigned noise, slices;
        uint64_t rng, now;
        double work, lost; /* lost: against the best way all the time */
        unsigned changes;
        uint64_t in[DUEL_WAYS]; /* ns */
};

static struct load load_of(double poll, double nap, double sleep, unsigned noise)
{
        return (struct load){
                .rate = {poll, nap, sleep},
                  .noise = noise, .rng = 7, .now = NSEC_PER_SEC
        };
}

static double by_chance(struct load *l, unsigned percent)
{
        return 1 + (rng_below(&l->rng, 2 * percent + 1) - (double)percent) / 100;
}

static double best_rate(const struct load *l)
{
        double best = 0;

        for (unsigned i = 0; i < DUEL_WAYS; i++)
                best = MAX(best, l->rate[i]);
        return best;
}

static void run(struct load *l, uint64_t time)
{
        const uint64_t step = MS / 8;
        double slice = 1;

        for (uint64_t end = l->now + time; l->now < end; l->now += step) {
                enum duel_way before = l->duel.way, way = duel_way(&l->duel, (uint64_t)l->work, l->now);

                if (l->now % (8 * MS) == 0)
                        slice = by_chance(l, l->slices);
                l->changes += before != l->duel.way;
                l->work += l->rate[way] * slice * by_chance(l, l->noise) / 8;
                l->lost += (best_rate(l) - l->rate[way]) / 8;
                l->in[way] += step;
        }
}

TEST(duel, polling_stays_where_nothing_is_better)
{
        struct load l = load_of(50, 50, 50, 0);

        run(&l, 10 * NSEC_PER_SEC);
        EXPECT_EQ(l.changes, 0);
        EXPECT(l.in[DUEL_NAP] > 0 && l.in[DUEL_SLEEP] > 0);
        EXPECT((l.in[DUEL_NAP] + l.in[DUEL_SLEEP]) * 100 <= 4 * 10 * NSEC_PER_SEC);
}

/* Section 5: no load loses more than 3 % by polling, whatever polling does to it */
TEST(duel, costs_no_load_more_than_three_per_cent)
{
        for (int percent = 10; percent <= 400; percent += 2) {
                struct load l = load_of(100, percent, percent, 90);

                run(&l, 10 * NSEC_PER_SEC);
                EXPECT(l.lost * 100 <= 3 * (l.lost + l.work));
        }
}

TEST(duel, a_way_that_is_far_better_is_found_in_a_third_of_a_second)
{
        static const double best[] = { 130, 56, 40 };

        for (unsigned at = 0; at < DUEL_WAYS; at++) {
                struct load l = load_of(best[at], best[(at + 1) % 3], best[(at + 2) % 3], 20);

                run(&l, 330 * MS);
                EXPECT_EQ(l.duel.way, (3 - at) % 3);
                EXPECT(l.changes <= 1);
        }
}

TEST(duel, another_load_is_found_out_in_a_few_seconds)
{
        struct load l = load_of(56, 130, 120, 20);

        run(&l, 10 * NSEC_PER_SEC);
        EXPECT_EQ(l.duel.way, DUEL_NAP);
        l.rate[DUEL_POLL] = 200;
        run(&l, 6 * NSEC_PER_SEC);
        EXPECT_EQ(l.duel.way, DUEL_POLL);
}

/* From one span to the next such a load differs by half: a hundred questions of each kind, most of which must be answered right */
TEST(duel, a_fifth_more_is_found_in_a_load_whose_ends_share_a_cpu)
{
        unsigned right = 0, wrong = 0;

        for (unsigned i = 0; i < 100; i++) {
                struct load more = load_of(100, 125, 100, 20), less = load_of(125, 100, 100, 20);

                more.slices = less.slices = 60;
                more.rng = less.rng = 1 + i;
                run(&more, 3 * NSEC_PER_SEC);
                run(&less, 3 * NSEC_PER_SEC);
                right += more.duel.way == DUEL_NAP;
                wrong += less.duel.way != DUEL_POLL;
        }
        EXPECT(right >= 90);
        EXPECT(wrong <= 5);
}

TEST(duel, what_makes_no_difference_is_left_as_it_is)
{
        unsigned changes = 0;

        for (unsigned i = 0; i < 100; i++) {
                struct load l = load_of(100, 100, 100, i % 20);

                l.rng = 1 + i;
                run(&l, 10 * NSEC_PER_SEC);
                changes += l.changes;
        }
        EXPECT(changes <= 5);
}

TEST(duel, a_load_that_is_too_little_or_pauses_is_not_asked)
{
        struct load little = load_of(5, 1000, 1000, 0), pauses = load_of(1000, 2000, 2000, 0);

        run(&little, NSEC_PER_SEC);
        EXPECT_EQ(little.in[DUEL_POLL], NSEC_PER_SEC);
        for (unsigned i = 0; i < 1000; i++) {
                run(&pauses, 3 * MS);
                pauses.now += 30 * MS;
        }
        EXPECT_EQ(pauses.in[DUEL_POLL], 3000 * MS);
        EXPECT_EQ(pauses.changes, 0);
}

TEST(duel, a_trial_in_which_the_load_stops_proves_nothing)
{
        struct load l = load_of(100, 1000, 1000, 0);

        for (unsigned i = 0; i < 100; i++) {
                while (!l.duel.trial)
                        run(&l, MS / 8);
                l.now += 100 * MS;
        }
        EXPECT_EQ(l.changes, 0);
        EXPECT_EQ(l.duel.pairs, 0);
}

TEST(duel, a_trace_replays_and_a_forged_one_does_not)
{
        static struct duel_event events[2000];
        struct load l = load_of(56, 130, 110, 20);
        struct duel again = { 0 };
        struct duel_trace t;

        run(&l, 200 * MS); /* learned before: it must not matter */
        duel_trace_begin(&l.duel, &t, events, ARRAY_SIZE(events));
        run(&l, NSEC_PER_SEC);
        duel_forget(&l.duel, l.now);
        l.rate[DUEL_POLL] = 200;
        run(&l, NSEC_PER_SEC);
        duel_trace_end(&l.duel);
        run(&l, NSEC_PER_SEC);
        EXPECT(t.n > 200);
        EXPECT(t.n <= 2 * 125 + 1);
        for (unsigned i = 0; i < t.n; i++)
                EXPECT(duel_repeat(&again, &events[i]));
        again = (struct duel){ 0 };
        events[100].way = (events[100].way + 1) % DUEL_WAYS;
        for (unsigned i = 0; i < 100; i++)
                EXPECT(duel_repeat(&again, &events[i]));
        EXPECT(!duel_repeat(&again, &events[100]));
}
