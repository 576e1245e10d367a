/* Which of two ways is the better, found out under way: loads in figures, and what the trials cost them. */
#include "device/duel.h"

#include "base/check.h"
#include "base/clock.h"
#include "rng.h"
#include "test.h"

#define MS NSEC_PER_MSEC

/* A load that gets `usual` or `unusual` packets done in a millisecond, by chance up to `noise` per cent more or less, and for 8 ms each
 * up to `slices` per cent more or less, as where it shares a CPU. */
struct load {
        struct duel duel;
        double usual, unusual;
        unsigned noise, slices;
        uint64_t rng, now;
        double work, lost; /* lost: against the better way all the time */
        unsigned changes;
        uint64_t in_unusual; /* ns */
};

static struct load load_of(double usual, double unusual, unsigned noise)
{
        return (struct load){
                .usual = usual, .unusual = unusual, .noise = noise, .rng = 7, .now = NSEC_PER_SEC
        };
}

static double by_chance(struct load *l, unsigned percent)
{
        return 1 + (rng_below(&l->rng, 2 * percent + 1) - (double)percent) / 100;
}

static void run(struct load *l, uint64_t time)
{
        const uint64_t step = MS / 8;
        double slice = 1;

        for (uint64_t end = l->now + time; l->now < end; l->now += step) {
                bool before = l->duel.unusual, unusual = duel_unusual(&l->duel, (uint64_t)l->work, l->now);
                double rate = unusual ? l->unusual : l->usual,
                       best = l->usual > l->unusual ? l->usual : l->unusual;

                if (l->now % (8 * MS) == 0)
                        slice = by_chance(l, l->slices);
                l->changes += before != l->duel.unusual;
                l->work += rate * slice * by_chance(l, l->noise) / 8;
                l->lost += (best - rate) / 8;
                l->in_unusual += unusual ? step : 0;
        }
}

TEST(duel, the_usual_way_stays_where_neither_is_better)
{
        struct load l = load_of(50, 50, 0);

        run(&l, 10 * NSEC_PER_SEC);
        EXPECT_EQ(l.changes, 0);
        EXPECT(l.in_unusual > 0);
        EXPECT(l.in_unusual * 100 <= 3 * 10 * NSEC_PER_SEC);
}

/* Section 5: no load loses more than 3 % by polling, whatever polling does to it */
TEST(duel, costs_no_load_more_than_three_per_cent)
{
        for (int percent = 10; percent <= 400; percent += 2) {
                struct load l = load_of(100, percent, 90);

                run(&l, 10 * NSEC_PER_SEC);
                EXPECT(l.lost * 100 <= 3 * (l.lost + l.work));
        }
}

TEST(duel, the_better_way_is_found_in_a_fifth_of_a_second)
{
        struct load l = load_of(56, 130, 20);

        run(&l, 200 * MS);
        EXPECT(l.duel.unusual);
        EXPECT_EQ(l.changes, 1);
        l.usual = 200;
        run(&l, 2 * NSEC_PER_SEC);
        EXPECT(!l.duel.unusual);
        EXPECT_EQ(l.changes, 2);
}

/* From one span to the next such a load differs by half: a hundred questions of each kind, most of which must be answered right */
TEST(duel, a_fifth_more_is_found_in_a_load_whose_ends_share_a_cpu)
{
        unsigned right = 0, wrong = 0;

        for (unsigned i = 0; i < 100; i++) {
                struct load more = load_of(100, 125, 20), less = load_of(125, 100, 20);

                more.slices = less.slices = 60;
                more.rng = less.rng = 1 + i;
                run(&more, 3 * NSEC_PER_SEC);
                run(&less, 3 * NSEC_PER_SEC);
                right += more.duel.unusual;
                wrong += less.duel.unusual;
        }
        EXPECT(right >= 95);
        EXPECT(wrong <= 2);
}

TEST(duel, what_makes_no_difference_is_left_as_it_is)
{
        unsigned changes = 0;

        for (unsigned i = 0; i < 100; i++) {
                struct load l = load_of(100, 100, i % 20);

                l.rng = 1 + i;
                run(&l, 10 * NSEC_PER_SEC);
                changes += l.changes;
        }
        EXPECT(changes <= 2);
}

TEST(duel, a_load_that_is_too_little_or_pauses_is_not_asked)
{
        struct load little = load_of(5, 1000, 0), pauses = load_of(1000, 2000, 0);

        run(&little, NSEC_PER_SEC);
        EXPECT_EQ(little.in_unusual, 0);
        for (unsigned i = 0; i < 1000; i++) {
                run(&pauses, 3 * MS);
                pauses.now += 30 * MS;
        }
        EXPECT_EQ(pauses.in_unusual, 0);
        EXPECT_EQ(pauses.changes, 0);
}

TEST(duel, a_trial_in_which_the_load_stops_proves_nothing)
{
        struct load l = load_of(100, 1000, 0);

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
        struct load l = load_of(56, 130, 20);
        struct duel again = { 0 };
        struct duel_trace t;

        run(&l, 200 * MS); /* learned before: it must not matter */
        duel_trace_begin(&l.duel, &t, events, ARRAY_SIZE(events));
        run(&l, NSEC_PER_SEC);
        duel_forget(&l.duel, l.now);
        l.usual = 200;
        run(&l, NSEC_PER_SEC);
        duel_trace_end(&l.duel);
        run(&l, NSEC_PER_SEC);
        EXPECT(t.n > 200);
        EXPECT(t.n <= 2 * 125 + 1);
        for (unsigned i = 0; i < t.n; i++)
                EXPECT(duel_repeat(&again, &events[i]));
        again = (struct duel){ 0 };
        events[100].unusual = !events[100].unusual;
        for (unsigned i = 0; i < 100; i++)
                EXPECT(duel_repeat(&again, &events[i]));
        EXPECT(!duel_repeat(&again, &events[100]));
}
