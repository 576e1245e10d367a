/* The busy-poll budget against loads in figures. */
#include "device/polling.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "scale.h"
#include "test.h"

#define US    NSEC_PER_USEC
#define WORK  (2 * US) /* what a packet takes */
#define LOOK  500      /* ns */
#define LIMIT 50       /* us */

/* ---- a worker and its load, in simulated time ---- */

struct sim;
typedef uint64_t gap_fn(struct sim *s);

struct sim {
        struct polling p;
        gap_fn *gap;      /* ns from the end of work to the next */
        uint64_t mean, n; /* for gap_fn */
        uint64_t wake;    /* what a wake-up takes */
        bool shared;      /* another thread takes 30 us out of every poll */
        uint64_t rng, now, start;
        uint64_t periods, polls;
        uint64_t saved; /* wake-ups that were not, in ns */
};

static double uniform(struct sim *s)
{
        s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
        return (double)((s->rng >> 11) + 1) / 9007199254740993.0;
}

static uint64_t constant(struct sim *s)
{
        return s->mean;
}

static uint64_t jittered(struct sim *s)
{
        return (uint64_t)((double)s->mean * (0.75 + uniform(s) / 2));
}

static uint64_t poisson(struct sim *s)
{
        return (uint64_t)(-log(uniform(s)) * (double)s->mean);
}

/* Twenty exchanges, then a pause of 5 ms. */
static uint64_t in_runs(struct sim *s)
{
        return s->n++ % 20 == 19 ? 5 * NSEC_PER_MSEC : jittered(s);
}

/* A short period after each long one. */
static uint64_t in_turn(struct sim *s)
{
        return s->n++ % 2 ? NSEC_PER_MSEC : s->mean;
}

/* 10 ms idle with a packet each millisecond, 10 ms flood. */
static uint64_t idle_and_flood(struct sim *s)
{
        return s->now / (10 * NSEC_PER_MSEC) % 2 ? NSEC_PER_MSEC : 3 * US;
}

/* Heavy-tailed. */
static uint64_t pareto(struct sim *s)
{
        return MIN((uint64_t)((double)s->mean / 3 / pow(uniform(s), 1 / 1.5)), NSEC_PER_SEC);
}

/* One who knows what has been decided: comes just after a poll, and lures where there is none. */
static uint64_t spiteful(struct sim *s)
{
        return s->p.deadline ? s->p.deadline - s->now + US : 20 * US;
}

static struct sim sim(gap_fn *gap, uint64_t mean, uint64_t wake)
{
        struct sim s = { .gap = gap, .mean = mean, .wake = wake, .rng = 7, .now = NSEC_PER_SEC };

        s.start = s.now;
        polling_set(&s.p, LIMIT, s.now);
        return s;
}

static void period(struct sim *s)
{
        uint64_t deadline, next;

        s->now += WORK;
        deadline = polling_begin(&s->p, s->now);
        next = s->now + s->gap(s);
        s->periods++;
        s->polls += deadline != 0;
        if (deadline && s->shared) {
                s->now += 30 * US;
                next += 30 * US; /* of this thread's time */
        }
        while (deadline && polling_lasts(&s->p, s->now) && s->now < next)
                s->now += LOOK;
        if (deadline && next <= s->now) {
                polling_hit(&s->p, s->now);
                s->saved += s->wake;
                return;
        }
        if (deadline)
                polling_miss(&s->p, s->now);
        s->now = MAX(s->now, next) + s->wake;
        polling_woke(&s->p, s->now);
}

static void run(struct sim *s, uint64_t time)
{
        uint64_t until = s->now + time;

        while (s->now < until)
                period(s);
}

/* What the two accounts promise, whatever the load. */
static void expect_bounded(const struct sim *s)
{
        uint64_t time = s->now - s->start;

        EXPECT(s->p.miss_ns <= time / 10 + NSEC_PER_MSEC + LIMIT * US);
        EXPECT(s->p.miss_ns <= s->saved * 10 / 8 + time / 40 + NSEC_PER_MSEC + LIMIT * US);
}

static struct sim ran(gap_fn *gap, uint64_t mean, uint64_t wake, uint64_t time)
{
        struct sim s = sim(gap, mean, wake);

        run(&s, time);
        expect_bounded(&s);
        return s;
}

/* ---- what a deadline is ---- */

/* T-VH-12 */
TEST(polling, fifty_microseconds_are_fifty)
{
        struct polling p = { 0 };

        polling_set(&p, 50, 1000);
        EXPECT_EQ(polling_begin(&p, 5000), 55000);
        EXPECT(polling_lasts(&p, 54999));
        EXPECT(!polling_lasts(&p, 55000));
}

/* T-VH-12 */
TEST(polling, every_setting_is_itself_at_first)
{
        for (uint32_t us = 1; us <= 100000; us = us * 3 / 2 + 1) {
                struct polling p = { 0 };

                polling_set(&p, us, NSEC_PER_SEC);
                EXPECT_EQ(polling_begin(&p, NSEC_PER_SEC), NSEC_PER_SEC + us * US);
        }
}

TEST(polling, zero_never_polls)
{
        struct polling p = { 0 };
        uint64_t now = 0;

        for (unsigned i = 0; i < 1000; i++) {
                EXPECT_EQ(polling_begin(&p, now += 5 * US), 0);
                polling_woke(&p, now += 10 * US);
        }
        polling_set(&p, 50, now);
        EXPECT_NE(polling_begin(&p, now), 0);
        polling_hit(&p, now += US);
        polling_set(&p, 0, now);
        for (unsigned i = 0; i < 1000; i++) {
                EXPECT_EQ(polling_begin(&p, now += 5 * US), 0);
                polling_woke(&p, now += 10 * US);
        }
        EXPECT_EQ(p.hits, 1);
        EXPECT_EQ(p.misses, 0);
}

TEST(polling, a_wake_up_without_work_does_not_poll)
{
        struct polling p = { 0 };

        polling_set(&p, 50, 0);
        EXPECT_EQ(polling_begin(&p, 0), 50000);
        polling_miss(&p, 50000);
        for (unsigned i = 1; i < 100; i++)
                EXPECT_EQ(polling_begin(&p, 50000 + i * NSEC_PER_MSEC), 0);
        EXPECT_EQ(p.misses, 1);
        EXPECT_EQ(p.poll_ns, 50000);
}

TEST(polling, other_work_does_not_prolong_a_poll)
{
        struct polling p = { 0 };

        polling_set(&p, 50, 0);
        EXPECT_EQ(polling_begin(&p, 0), 50000);
        polling_yield(&p, 20000);
        EXPECT_EQ(polling_begin(&p, 40000), 50000);
        polling_yield(&p, 45000);
        EXPECT_EQ(polling_begin(&p, 50000), 0);
        EXPECT_EQ(p.poll_ns, 25000);
        EXPECT_EQ(p.hits + p.misses, 0);
        polling_woke(&p, 70000);
        EXPECT_NE(polling_begin(&p, 80000), 0);
}

/* ---- what it chooses ---- */

TEST(polling, finds_what_comes_within_the_setting)
{
        static const uint64_t us[] = { 1, 2, 5, 10, 20, 30, 40, 45, 49 };

        for (unsigned i = 0; i < ARRAY_SIZE(us); i++) {
                struct sim s = ran(constant, us[i] * US, 8 * US, 200 * NSEC_PER_MSEC);

                EXPECT(s.p.hits * 100 >= s.periods * 99);
        }
        for (unsigned mean = 2; mean <= 38; mean += 4) {
                struct sim s = ran(jittered, mean * US, 8 * US, 200 * NSEC_PER_MSEC);

                EXPECT(s.p.hits * 100 >= s.periods * 95);
        }
}

TEST(polling, does_not_wait_for_what_comes_later)
{
        static const uint64_t us[] = { 70, 100, 300, 1000, 10000, 100000 };

        for (unsigned i = 0; i < ARRAY_SIZE(us); i++) {
                struct sim s = ran(jittered, us[i] * US, 8 * US, 20 * NSEC_PER_SEC);

                EXPECT(s.p.miss_ns * 1000 <= (s.now - s.start) * 2); /* 0.2 % */
        }
}

/* The poll itself tells how long it really takes: what was slept through looked longer than the setting. */
TEST(polling, finds_out_about_slow_wake_ups)
{
        struct sim s = ran(jittered, 35 * US, 60 * US, NSEC_PER_SEC);

        run(&s, NSEC_PER_SEC);
        EXPECT(s.p.hits * 100 >= s.periods * 90);
}

TEST(polling, knows_a_run_at_its_second_packet)
{
        struct sim s = sim(in_runs, 20 * US, 8 * US);

        run(&s, NSEC_PER_SEC);
        expect_bounded(&s);
        EXPECT(s.p.hits * 20 >= s.periods * 18);
}

TEST(polling, tells_what_follows_a_long_period_from_what_follows_a_short_one)
{
        struct sim s = ran(in_turn, 20 * US, 8 * US, NSEC_PER_SEC);

        EXPECT(s.p.hits * 2 * 10 >= s.periods * 9);
        EXPECT(s.p.miss_ns * 100 <= s.now - s.start);
}

TEST(polling, goes_with_idle_and_flood_in_turn)
{
        struct sim s = ran(idle_and_flood, 0, 8 * US, 4 * NSEC_PER_SEC);

        EXPECT(s.p.hits * 100 >= s.periods * 98);
        EXPECT(s.p.miss_ns * 100 <= s.now - s.start);
}

/* ---- what it may cost ---- */

TEST(polling, loses_no_more_than_three_in_a_hundred_with_any_load)
{
        static gap_fn *const gaps[] = { constant, jittered, poisson, pareto, in_runs, in_turn };

        for (unsigned i = 0; i < ARRAY_SIZE(gaps); i++) {
                for (uint64_t mean = 1; mean <= 3000; mean = mean * 4 / 3 + 1) {
                        struct sim s = ran(gaps[i], mean * US, 8 * US, test_scale(1, 10) * NSEC_PER_SEC);
                        uint64_t time = s.now - s.start;

                        EXPECT(s.p.miss_ns <= s.saved + time * 3 / 100);
                        EXPECT(s.p.miss_ns * 10 <= time + 11 * NSEC_PER_MSEC);
                }
        }
}

TEST(polling, spite_costs_a_fortieth)
{
        struct sim s = ran(spiteful, 0, 8 * US, test_scale(2, 60) * NSEC_PER_SEC);

        EXPECT_EQ(s.p.hits, 0);
        EXPECT(s.p.miss_ns * 40 <= s.now - s.start + 80 * NSEC_PER_MSEC);
}

/* Two devices on one CPU: each poll keeps the other waiting, and sees it by the clock. */
TEST(polling, gives_way_to_another_thread_on_its_cpu)
{
        struct sim s = sim(jittered, 20 * US, 8 * US);

        run(&s, NSEC_PER_SEC);
        EXPECT(s.p.hits * 100 >= s.periods * 95);
        s.shared = true;
        run(&s, 100 * NSEC_PER_MSEC);
        s.polls = s.periods = 0;
        run(&s, 10 * NSEC_PER_SEC);
        EXPECT(s.polls * 100 <= s.periods);
        s.shared = false;
        run(&s, 200 * NSEC_PER_MSEC);
        s.polls = s.periods = 0;
        run(&s, NSEC_PER_SEC);
        EXPECT(s.polls * 100 >= s.periods * 95);
}

/* The host takes the CPU away for 2 ms fifty times a second: no reason to give up. */
TEST(polling, is_not_put_off_by_a_host_that_pauses_it)
{
        struct sim s = sim(jittered, 20 * US, 8 * US);

        for (unsigned i = 0; i < 200; i++) {
                s.shared = true;
                period(&s);
                s.shared = false;
                run(&s, 18 * NSEC_PER_MSEC);
        }
        EXPECT(s.polls * 100 >= s.periods * 95);
}

/* ---- settings under way, any schedule ---- */

TEST(polling, a_new_setting_holds_from_the_next_period_on)
{
        struct polling p = { 0 };

        polling_set(&p, 50, 0);
        EXPECT_EQ(polling_begin(&p, 0), 50000);
        polling_set(&p, 10, 5000);
        EXPECT(polling_lasts(&p, 49999));
        polling_hit(&p, 50000);
        EXPECT(polling_begin(&p, 60000) <= 70000);
}

TEST(polling, keeps_its_bounds_in_any_schedule)
{
        struct polling p = { 0 };
        uint64_t rng = 3, now = 0, deadline = 0, limit = 0;

        for (uint64_t i = 0; i < test_scale(300000, 30000000); i++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                now += (rng >> 40) % (rng >> 63 ? 100 : 30000);
                switch ((rng >> 33) % 8) {
                case 0:
                        limit = (rng >> 20) % 4 * 30;
                        polling_set(&p, (uint32_t)limit, now);
                        break;
                case 1:
                        polling_hit(&p, now);
                        break;
                case 2:
                        polling_miss(&p, now);
                        break;
                case 3:
                        polling_yield(&p, now);
                        break;
                case 4:
                        polling_woke(&p, now);
                        break;
                default:
                        deadline = polling_begin(&p, now);
                        EXPECT(deadline == 0 || deadline > now);
                        EXPECT(deadline <= now + 90 * US);
                }
                EXPECT(p.miss_ns <= p.poll_ns);
                EXPECT(p.poll_ns <= now);
                EXPECT(p.miss_ns <= now / 10 + NSEC_PER_MSEC + 200 * US);
        }
}

/* ---- traces ---- */

TEST(polling, a_trace_replays_and_a_forged_one_does_not)
{
        enum { EVENTS = 20000 };
        struct polling_event *events = calloc(EVENTS, sizeof(*events));
        struct sim s = sim(pareto, 30 * US, 8 * US);
        struct polling_trace t;
        unsigned at;

        EXPECT(events != NULL);
        run(&s, 10 * NSEC_PER_MSEC);
        polling_trace_begin(&s.p, &t, events, EVENTS);
        run(&s, 50 * NSEC_PER_MSEC);
        s.shared = true;
        run(&s, 50 * NSEC_PER_MSEC);
        polling_set(&s.p, 80, s.now);
        run(&s, 500 * NSEC_PER_MSEC);
        EXPECT(t.n > 1000 && s.p.misses > 10 && s.p.hits > 10);
        EXPECT_EQ(polling_replay(&t), t.n);
        polling_trace_end(&s.p);
        for (at = 500; events[at].step != POLLING_BEGIN || events[at].value == 0;)
                at++;
        events[at].value++;
        EXPECT_EQ(polling_replay(&t), at);
        free(events);
}
