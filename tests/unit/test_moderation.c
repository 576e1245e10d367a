/* Adaptive coalescing against loads in figures: what is held, and what that costs. */
#include "device/moderation.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "scale.h"
#include "test.h"
#include "vwire/stats.h"

#define US          NSEC_PER_USEC
#define SOURCES_MAX 64
#define WAKE        (8 * US)
#define HELD_MAX    4096

/* ---- a device with one queue, in simulated time ----
 *
 * Sources put packets into a backlog.  The worker sleeps (8 us to wake up) or spins, takes up to 64 at a time, and
 * publishes them.  Source 0 is an open loop; the others are closed: they go on `think` after the call that tells of all
 * their packets. */

struct source {
        uint64_t due;   /* next packets, or NEVER */
        uint64_t think; /* closed loop; 0: open loop */
        uint32_t burst; /* packets at a time */
        uint32_t owed;  /* closed loop: packets not called for yet */
};

enum mode { AT_ONCE, ADAPTIVE };

struct sim {
        enum mode mode;
        bool spins;
        bool random; /* exponential gaps, or thinking times within a quarter; else constant */
        double gap;  /* open loop: ns between bursts */
        struct source src[SOURCES_MAX];
        unsigned n;
        uint64_t rng, now;
        uint32_t wire;                          /* what a packet is on the wire, if it is a GSO frame */
        uint32_t backlog[HELD_MAX], head, tail; /* source of each packet */
        struct {
                uint32_t source;
                uint64_t at;
        } held[HELD_MAX];
        unsigned n_held;
        struct coalesce coalesce;
        struct moderation mod;
        uint64_t packets, calls, delay;
        uint64_t delayed; /* calls that packets of a closed loop waited for */
        uint64_t settled; /* packets up to the last change */
};

static double uniform(struct sim *s)
{
        s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
        return (double)((s->rng >> 11) + 1) / 9007199254740993.0;
}

static struct sim *sim_new(enum mode mode, bool spins)
{
        struct sim *s = calloc(1, sizeof(*s));

        EXPECT(s != NULL);
        s->mode = mode;
        s->spins = spins;
        s->rng = 42;
        s->wire = 1;
        s->now = NSEC_PER_SEC;
        moderation_init(&s->mod, VW_USECS_MAX, VW_FRAMES_MAX);
        return s;
}

static void open_loop(struct sim *s, double gap, uint32_t burst, bool random)
{
        s->n = 1;
        s->gap = gap;
        s->random = random;
        s->src[0] = (struct source){ .due = s->now, .burst = burst };
}

static void closed_loop(struct sim *s, unsigned n, uint64_t think, uint32_t burst, bool random)
{
        s->n = n + 1;
        s->random = random;
        s->src[0].due = NEVER;
        for (unsigned i = 1; i <= n; i++)
                s->src[i] = (struct source){ .due = s->now + i * 100, .think = think, .burst = burst };
}

static void arrive(struct sim *s)
{
        for (unsigned i = 0; i < s->n; i++) {
                struct source *src = &s->src[i];

                while (src->due <= s->now && s->head - s->tail < HELD_MAX / 2) {
                        for (uint32_t k = 0; k < src->burst; k++)
                                s->backlog[s->head++ % HELD_MAX] = i;
                        src->owed = src->think ? src->burst : 0;
                        if (src->think)
                                src->due = NEVER;
                        else
                                src->due += (uint64_t)(s->random ? -log(uniform(s)) * s->gap : s->gap);
                }
        }
}

static uint64_t next_arrival(const struct sim *s)
{
        uint64_t t = NEVER;

        for (unsigned i = 0; i < s->n; i++)
                t = MIN(t, s->src[i].due);
        return t;
}

static void call(struct sim *s)
{
        bool delayed = false;

        for (unsigned i = 0; i < s->n_held; i++) {
                struct source *src = &s->src[s->held[i].source];
                double stretch = s->random ? 0.75 + uniform(s) / 2 : 1;

                s->delay += s->now - s->held[i].at;
                delayed = delayed || (s->held[i].source > 0 && s->now > s->held[i].at);
                if (s->held[i].source > 0 && src->due == NEVER && --src->owed == 0)
                        src->due = s->now + (uint64_t)((double)src->think * stretch);
        }
        s->calls++;
        s->delayed += delayed;
        s->n_held = 0;
}

static void turn(struct sim *s)
{
        uint32_t n = MIN(s->head - s->tail, 64u);
        uint64_t changes = s->mod.changes;
        bool due;

        s->now += 500 + 300 * n;
        for (uint32_t i = 0; i < n; i++) {
                s->held[s->n_held].source = s->backlog[s->tail++ % HELD_MAX];
                s->held[s->n_held++].at = s->now;
        }
        arrive(s);
        due = s->mode == AT_ONCE ||
              moderation_publish(&s->mod, &s->coalesce, n, n * s->wire + s->head - s->tail, s->now);
        s->packets += n;
        if (s->mod.changes != changes)
                s->settled = s->packets;
        if (due || coalesce_expire(&s->coalesce, s->now))
                call(s);
        EXPECT(s->coalesce.usecs <= 64 && s->coalesce.frames <= 64);
}

static void run(struct sim *s, uint64_t time)
{
        uint64_t until = s->now + time;

        while (s->now < until) {
                uint64_t next, deadline = coalesce_deadline(&s->coalesce);

                arrive(s);
                next = next_arrival(s);
                if (s->head != s->tail) {
                        turn(s);
                } else if (deadline <= next) {
                        s->now = MAX(s->now, deadline);
                        if (coalesce_expire(&s->coalesce, s->now))
                                call(s);
                } else {
                        s->now = MAX(s->now, next) + (s->spins ? 100 : WAKE);
                }
        }
}

/* ---- request and response ---- */

TEST(moderation, a_single_request_is_never_held)
{
        for (unsigned think = 1; think <= 1000; think = think * 5 / 2 + 1) {
                for (unsigned k = 0; k < 4; k++) {
                        struct sim *s = sim_new(ADAPTIVE, k & 1);

                        closed_loop(s, 1, think * US, 1, k & 2);
                        run(s, 200 * NSEC_PER_MSEC);
                        EXPECT(s->packets > 100);
                        EXPECT_EQ(s->delay, 0);
                        EXPECT_EQ(s->mod.changes, 0);
                        free(s);
                }
        }
}

/* A phase of each kind in turn.  In the stream the calls are fewer, and a request that follows is not held. */
static void steps(uint32_t request, uint64_t think, uint64_t held_most)
{
        struct sim *s = sim_new(ADAPTIVE, false);

        for (unsigned i = 0; i < 5; i++) {
                uint64_t delayed = s->delayed, packets, calls;

                closed_loop(s, 1, think, request, false);
                run(s, 50 * NSEC_PER_MSEC);
                EXPECT(s->delayed - delayed <= held_most);
                delayed = s->delayed;
                run(s, 50 * NSEC_PER_MSEC);
                EXPECT_EQ(s->delayed, delayed);

                packets = s->packets, calls = s->calls;
                open_loop(s, 2000, 1, true);
                run(s, 100 * NSEC_PER_MSEC);
                EXPECT((s->packets - packets) / (s->calls - calls) >= 20);
                EXPECT(moderation_phase_holds(s->mod.phase));
        }
        free(s);
}

/* T-DIM-03 */
TEST(moderation, request_response_after_a_stream_is_held_once_at_most)
{
        steps(1, 10 * US, 1);
        steps(1, 30 * US, 1);
        steps(1, 300 * US, 1);
}

/* T-DIM-03 */
TEST(moderation, requests_of_several_packets_are_held_twice_after_the_hold_under_way)
{
        steps(3, 30 * US, 3);
        steps(3, 100 * US, 3);
        steps(10, 300 * US, 3);
}

/* ---- streams ---- */

TEST(moderation, a_stream_settles_within_200_packets)
{
        static const unsigned bursts[] = { 1, 2, 4, 8 };

        for (unsigned i = 0; i < ARRAY_SIZE(bursts); i++) {
                struct sim *s = sim_new(ADAPTIVE, true);

                closed_loop(s, 1, 30 * US, 1, false);
                run(s, 10 * NSEC_PER_MSEC);
                s->packets = 0;
                open_loop(s, 6000, bursts[i], false);
                if (bursts[i] == 1)
                        open_loop(s, 700, 1, false);
                run(s, 20 * NSEC_PER_MSEC);
                EXPECT_EQ(s->mod.changes, 1);
                EXPECT(s->settled <= 200);
                free(s);
        }
}

TEST(moderation, a_stream_of_single_packets_gets_a_quarter_of_the_calls_or_less)
{
        for (unsigned gap = 500; gap <= 6000; gap += 500) {
                struct sim *once = sim_new(AT_ONCE, false), *s = sim_new(ADAPTIVE, false);

                open_loop(once, gap, 1, true);
                open_loop(s, gap, 1, true);
                run(once, NSEC_PER_SEC);
                run(s, NSEC_PER_SEC);
                EXPECT(s->calls * 4 <= once->calls);
                EXPECT(s->delay / s->packets <= 64 * US);
                free(once);
                free(s);
        }
}

TEST(moderation, a_stream_of_gso_frames_is_held_where_single_packets_are_not)
{
        for (unsigned gap = 15000; gap <= 25000; gap += 5000) {
                struct sim *once = sim_new(AT_ONCE, true), *s = sim_new(ADAPTIVE, true);

                s->wire = 44;
                open_loop(once, gap, 1, true);
                open_loop(s, gap, 1, true);
                run(once, NSEC_PER_SEC);
                run(s, NSEC_PER_SEC);
                EXPECT(s->calls * 5 <= once->calls * 3);
                EXPECT(s->delay / s->packets <= 64 * US);
                free(once);
                free(s);
        }
}

/* ---- the pair's other queue ---- */

enum { EVENTS_MAX = 1 << 16 };

/* How many of the publications `from`.. of a trace may be held. */
static unsigned held_in(const struct moderation_trace *t, unsigned from, unsigned n)
{
        unsigned held = 0;

        for (unsigned i = from; i < t->n && n > 0; i++) {
                if (t->events[i].step != MODERATION_NOTE)
                        continue;
                held += t->events[i].holds;
                n--;
        }
        EXPECT_EQ(n, 0);
        return held;
}

/* A stream that turns into requests of `request` packets each, on the record. */
static void turn_to_requests(uint32_t wire, uint32_t request, uint64_t think, bool spins)
{
        struct moderation_event *events = calloc(EVENTS_MAX, sizeof(*events));
        struct sim *s = sim_new(ADAPTIVE, spins);
        struct moderation_trace t;
        unsigned turned;

        EXPECT(events != NULL);
        s->wire = wire;
        moderation_trace_begin(&s->mod, &t, events, EVENTS_MAX);
        open_loop(s, wire > 1 ? 20000 : 3000, 1, true);
        run(s, 100 * NSEC_PER_MSEC);
        EXPECT(moderation_phase_holds(s->mod.phase));
        turned = t.n;
        closed_loop(s, 1, think, request, false);
        run(s, 500 * (think + 100 * US));
        EXPECT(held_in(&t, turned, 3 + 60) <= 3);
        EXPECT(held_in(&t, turned, 3 + 300) <= 5);
        EXPECT(!moderation_phase_holds(events[turned + 400].next));
        EXPECT_EQ(moderation_replay(&t), t.n);
        moderation_trace_end(&s->mod);
        free(events);
        free(s);
}

/* T-DIM-03 */
TEST(moderation, is_off_within_three_round_trips_and_asks_ever_more_seldom)
{
        static const unsigned thinks[] = { 10, 30, 100, 300 };

        for (unsigned i = 0; i < ARRAY_SIZE(thinks); i++) {
                turn_to_requests(44, 1, thinks[i] * US, true);
                turn_to_requests(44, 1, thinks[i] * US, false);
                turn_to_requests(1, 3, thinks[i] * US, true);
                turn_to_requests(1, 20, thinks[i] * US, false);
        }
}

/* T-DIM-03: a request that is published in parts does not join itself */
TEST(moderation, requests_in_several_parts_are_held_twice)
{
        struct moderation m;
        uint64_t now = NSEC_PER_SEC;
        unsigned held = 0;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        for (unsigned i = 0; i < 2000; i++)
                if (moderation_note(&m, 4, 8, now += 4 * US))
                        moderation_apply(&m, now);
        EXPECT(moderation_phase_holds(m.phase));
        for (unsigned i = 0; i < 20; i++) {
                for (unsigned part = 0; part < 3; part++)
                        if (moderation_note(&m, 4, 8, now += 2 * US))
                                moderation_apply(&m, now);
                held += moderation_holds(&m);
                now += moderation_holds(&m) ? 90 * US : 30 * US;
        }
        EXPECT(held >= 2 && held <= 3);
}

/* Single packets 40 us apart, and `n` packets on the other queue 5 us after each. */
static void answers(struct moderation *m, uint32_t n, unsigned rounds, uint64_t *now)
{
        for (unsigned i = 0; i < rounds; i++) {
                if (moderation_note(m, 1, 1, *now += 35 * US))
                        moderation_apply(m, *now);
                moderation_beside(m, n, *now += 5 * US);
        }
}

TEST(moderation, what_answers_a_stream_is_held_and_what_answers_single_packets_is_not)
{
        for (unsigned packets = 1; packets <= 44; packets++) {
                struct moderation m;
                uint64_t now = NSEC_PER_SEC;

                moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
                answers(&m, packets, 200, &now);
                EXPECT_EQ(moderation_phase_holds(m.phase), packets >= 8);
                EXPECT_EQ(m.fruitless, 0);
        }
}

/* T-DIM-03: a large request and a small answer, which the next request waits for */
TEST(moderation, answers_to_large_requests_are_held_twice)
{
        struct moderation m;
        uint64_t now = NSEC_PER_SEC;
        unsigned held = 0;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        answers(&m, 44, 2000, &now);
        EXPECT(moderation_phase_holds(m.phase));
        for (unsigned i = 0; i < 60; i++) {
                if (moderation_note(&m, 1, 1, now))
                        moderation_apply(&m, now);
                held += moderation_holds(&m);
                now += moderation_holds(&m) ? 64 * US : 0;
                moderation_beside(&m, 44, now += 20 * US);
                now += 10 * US;
        }
        EXPECT(held >= 2 && held <= 3);
}

TEST(moderation, packets_far_apart_are_not_held)
{
        for (unsigned gap = 30000; gap <= 1000000; gap *= 2) {
                struct sim *s = sim_new(ADAPTIVE, false);

                open_loop(s, gap, 1, true);
                run(s, 2 * NSEC_PER_SEC);
                EXPECT(s->delay / s->packets <= US / 10);
                free(s);
        }
}

/* ---- many requests ---- */

TEST(moderation, a_closed_loop_is_not_slowed_down)
{
        static const unsigned loops[] = { 2, 4, 10 }, thinks[] = { 10, 30, 100, 300 };

        for (unsigned i = 0; i < ARRAY_SIZE(loops) * ARRAY_SIZE(thinks) * 2; i++) {
                unsigned n = loops[i % 3], think = thinks[i / 3 % 4];
                struct sim *once = sim_new(AT_ONCE, i >= 12), *s = sim_new(ADAPTIVE, i >= 12);

                closed_loop(once, n, think * US, 1, true);
                closed_loop(s, n, think * US, 1, true);
                run(once, test_scale(2, 30) * NSEC_PER_SEC);
                run(s, test_scale(2, 30) * NSEC_PER_SEC);
                EXPECT(s->packets * 100 >= once->packets * 97);
                free(once);
                free(s);
        }
}

/* ---- stability ---- */

/* T-DIM-03 */
TEST(moderation, constant_loads_see_ten_changes_at_most)
{
        static const unsigned gaps[] = { 1000, 4000, 8000, 10000, 12000, 16000, 20000, 24000, 30000, 50000 };
        static const unsigned bursts[] = { 1, 3, 10 };

        for (unsigned i = 0; i < ARRAY_SIZE(gaps) * ARRAY_SIZE(bursts) * 2; i++) {
                struct sim *s = sim_new(ADAPTIVE, i & 1);

                open_loop(s, gaps[i / 6], bursts[i / 2 % 3], true);
                run(s, test_scale(2, 60) * NSEC_PER_SEC);
                EXPECT(s->mod.changes <= 10);
                free(s);
        }
}

/* T-DIM-03 */
TEST(moderation, constant_closed_loops_see_ten_changes_at_most)
{
        static const unsigned loops[] = { 2, 10, 50 }, thinks[] = { 10, 100, 300 };

        for (unsigned i = 0; i < 18; i++) {
                struct sim *s = sim_new(ADAPTIVE, i & 1);

                closed_loop(s, loops[i / 2 % 3], thinks[i / 6] * US, 1 + i % 3, i % 4 < 2);
                run(s, test_scale(2, 60) * NSEC_PER_SEC);
                EXPECT(s->mod.changes <= 10);
                free(s);
        }
}

/* hostile H09 */
TEST(moderation, idle_and_flood_in_turn_stay_in_bounds_without_oscillating)
{
        struct sim *s = sim_new(ADAPTIVE, false);
        uint64_t start = s->now;

        for (unsigned i = 0; i < test_scale(60, 600); i++) {
                open_loop(s, 600 + 100 * (i % 20), 1 + i % 2, true);
                run(s, 20 * NSEC_PER_MSEC);
                s->src[0].due = s->now + (20 + i) * NSEC_PER_MSEC;
                run(s, (20 + i) * NSEC_PER_MSEC);
        }
        EXPECT(s->mod.changes <= 10 + 10 * (s->now - start) / (60 * NSEC_PER_SEC));
        free(s);
}

/* hostile H09: a load made to be misjudged, changing as soon as it has been judged. */
TEST(moderation, a_load_that_turns_with_each_decision_tires_it)
{
        struct sim *s = sim_new(ADAPTIVE, false);
        uint64_t end = s->now + test_scale(5, 60) * NSEC_PER_SEC;

        while (s->now < end) {
                if (moderation_phase_holds(s->mod.phase))
                        closed_loop(s, 1, 30 * US, 3, false);
                else
                        open_loop(s, 2000, 1, true);
                run(s, 100 * US);
        }
        EXPECT(s->delay / s->packets <= 64 * US);
        EXPECT(s->mod.changes <= 2 * test_scale(5, 60) * 1000 / 3);
        free(s);
}

/* ---- bounds, refusals, wrap ---- */

TEST(moderation, stays_within_the_bounds_it_is_given)
{
        static const uint32_t bounds[][2] = {
                {0,   0 },
                { 0,  64},
                { 64, 0 },
                { 10, 5 },
                { 64, 64}
        };

        for (unsigned i = 0; i < ARRAY_SIZE(bounds); i++) {
                struct sim *s = sim_new(ADAPTIVE, true);

                moderation_init(&s->mod, bounds[i][0], bounds[i][1]);
                open_loop(s, 800, 1, true);
                run(s, 50 * NSEC_PER_MSEC);
                EXPECT(s->coalesce.usecs <= bounds[i][0]);
                EXPECT(s->coalesce.frames <= bounds[i][1]);
                EXPECT_EQ(s->mod.changes > 0, i >= 3);
                free(s);
        }
}

/* T-DIM-01 */
TEST(moderation, goes_on_after_a_thousand_refusals)
{
        struct moderation m;
        unsigned refusals = 0;
        uint64_t now = 0;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        while (refusals < 1000) {
                now += 2 * US;
                refusals += moderation_note(&m, 1, 2, now);
                EXPECT(now < NSEC_PER_SEC);
        }
        EXPECT_EQ(m.phase, MODERATION_OFF);
        EXPECT_EQ(m.changes, 0);
        for (unsigned i = 0; i < 200; i++) /* no change wanted while nothing else is */
                EXPECT(!moderation_note(&m, 1, 1, now += NSEC_PER_MSEC));
        while (!moderation_note(&m, 1, 2, now += 2 * US))
                ;
        EXPECT_EQ(moderation_wanted(&m).usecs, 64);
        moderation_apply(&m, now);
        EXPECT_EQ(m.phase, MODERATION_TRIAL);
        for (unsigned i = 0; i < 2000; i++)
                EXPECT(!moderation_note(&m, 1, 2, now += 2 * US));
        EXPECT_EQ(m.phase, MODERATION_ON);
}

/* T-DIM-02 */
TEST(moderation, the_pace_is_right_across_2_to_the_16_events)
{
        struct moderation m;
        uint64_t now = 0;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        for (unsigned i = 0; i < 200000; i++) {
                if (moderation_note(&m, 3, 4, now += 6 * US))
                        moderation_apply(&m, now);
                if (i > 2000)
                        EXPECT(m.phase == MODERATION_ON && m.pace_on >> 8 == 2000);
        }
        EXPECT_EQ(m.changes, 1);
}

/* ---- traces ---- */

TEST(moderation, a_trace_replays_and_a_forged_one_does_not)
{
        enum { EVENTS = 20000 };
        struct moderation_event *events = calloc(EVENTS, sizeof(*events));
        struct sim *s = sim_new(ADAPTIVE, false);
        struct moderation_trace t;

        EXPECT(events != NULL);
        open_loop(s, 3000, 1, true);
        run(s, 3 * NSEC_PER_MSEC);
        moderation_trace_begin(&s->mod, &t, events, EVENTS);
        for (unsigned i = 0; i < 6; i++) {
                if (i & 1)
                        closed_loop(s, 10, 20 * US, 2, true);
                else
                        open_loop(s, 2000 + 5000 * i, 1, true);
                run(s, 10 * NSEC_PER_MSEC);
        }
        EXPECT(t.n > 1000 && s->mod.changes > 1);
        EXPECT_EQ(moderation_replay(&t), t.n);
        moderation_trace_end(&s->mod);
        events[700].holds = !events[700].holds;
        EXPECT_EQ(moderation_replay(&t), 700);
        free(events);
        free(s);
}

TEST(moderation, recording_ends_when_the_events_are_used_up)
{
        struct moderation_event events[10];
        struct moderation_trace t;
        struct moderation m;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        moderation_trace_begin(&m, &t, events, 10);
        for (unsigned i = 0; i < 100; i++)
                moderation_note(&m, 1, 1, i);
        EXPECT_EQ(t.n, 10);
        EXPECT_EQ(moderation_replay(&t), 10);
}

TEST(moderation, a_reset_is_a_part_of_the_trace)
{
        static struct moderation_event events[1000];
        struct moderation_trace t;
        struct moderation m;
        uint64_t now = 1;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        moderation_trace_begin(&m, &t, events, 1000);
        for (unsigned i = 0; i < 1000; i++, now += 1000) {
                if (i % 300 == 100)
                        moderation_reset(&m, 10 + i, 5, now);
                if (moderation_note(&m, 8, 16, now))
                        moderation_apply(&m, now);
        }
        EXPECT_EQ(t.n, 1000);
        EXPECT_EQ(events[100 + (events[100].step != MODERATION_INIT)].step, MODERATION_INIT);
        EXPECT_EQ(moderation_replay(&t), 1000);
}

/* T-DIM-02: a load that is never crowded is measured for as long as it lasts, and no count wraps */
TEST(moderation, a_measurement_without_end_keeps_its_rates)
{
        struct moderation m;
        uint64_t now = 1;

        moderation_init(&m, VW_USECS_MAX, VW_FRAMES_MAX);
        for (unsigned i = 0; i < 3000000; i++, now += 5000)
                EXPECT(!moderation_note(&m, 1, 1, now));
        EXPECT(m.run.events < 1 << 16);
        EXPECT_EQ(m.run.packets, m.run.events);
        EXPECT(m.run.span / m.run.packets >= 4950 && m.run.span / m.run.packets <= 5050);
}
