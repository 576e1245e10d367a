/* When to hold calls back.
 *
 * A hold pays when other publications join it: then one call does the work of several.  When nothing can come until the
 * call has gone out, as with request and response, it costs its whole length.  So
 *
 *      hold a publication     when more than one packet is outstanding, or it joins a hold that is under way
 *      be on                  when publications follow each other at a small fraction of the hold, on the average of a
 *                             window, and packets have company
 *      be off                 when they come too slowly for that, or three holds in a row ended with nothing joined
 *
 * A single request has no company: it is never held, whatever the state.  A request of several packets is held three
 * times at most.  Many requests in a closed loop do join each other's holds, yet each round takes longer by the hold.  That
 * shows in the pace: going on is a trial, and one that slows the packets down is taken back.
 *
 * Trials that fail, and holds that turn out fruitless though the load still looks as if they should not be, bar the way
 * for a time that grows from 50 ms to 2 minutes, and a load whose pace has become another is measured anew, first after a
 * second, then ever more seldom: a constant load sees ten changes in a minute at most. */
#include "device/moderation.h"

#include "base/check.h"
#include "base/clock.h"

#define HOLD_USECS  64 /* gathers what would be four calls or more, and is not felt by bulk */
#define HOLD_FRAMES 64 /* a burst of the device, and a poll of the driver */

/* A window is full at one of these, so that a load settles within 200 packets: two windows and what is between. */
#define WINDOW_EVENTS  16
#define WINDOW_PACKETS 64
#define WINDOW_LEAST   4  /* events, whatever the packets */
#define TRIAL_EVENTS   64 /* enough to tell a pace from another half as fast */

/* Mean time between publications, in sixteenths of the hold, to go on and to stay on: five join a hold, or three. */
#define GO_ON          3
#define STAY_ON        5
#define CROWDED        8 /* one event in so many must have company */

#define FRUITLESS_MAX  3
#define PENALTY_LEAST  (50 * NSEC_PER_MSEC)
#define PENALTY_MOST   (120 * NSEC_PER_SEC)
#define PENALTY_STEP   16
#define PROVEN_LONG    (10 * NSEC_PER_SEC) /* after this long no grudge is left */
#define REMEASURE      NSEC_PER_SEC
#define REMEASURE_MOST (64 * NSEC_PER_SEC)

#define PACE_SHIFT     8
#define PAUSE_MAX      4 /* holds: a pause counts as no more than this */

static uint64_t hold_time(const struct moderation *m)
{
        return m->profile.usecs * NSEC_PER_USEC;
}

void moderation_init(struct moderation *m, uint32_t usecs_max, uint32_t frames_max)
{
        *m = (struct moderation){
                .profile = {MIN(usecs_max, (uint32_t)HOLD_USECS), MIN(frames_max, (uint32_t)HOLD_FRAMES)},
                .penalty = PENALTY_LEAST,
                .remeasure = REMEASURE,
        };
}

/* ---- windows ---- */

static void window_add(struct moderation_window *w, uint32_t n, bool crowded, uint64_t gap)
{
        w->events++;
        w->packets += n;
        w->crowded += crowded;
        w->span += gap;
}

static bool window_full(const struct moderation_window *w)
{
        return w->events >= WINDOW_EVENTS || (w->packets >= WINDOW_PACKETS && w->events >= WINDOW_LEAST);
}

static uint64_t window_pace(const struct moderation_window *w)
{
        return (w->span << PACE_SHIFT) / w->packets;
}

static bool window_pays(const struct moderation_window *w, uint64_t hold, unsigned sixteenths)
{
        return w->span * 16 <= w->events * hold * sixteenths && w->crowded * CROWDED >= w->events;
}

/* ---- holds ---- */

/* Keeps the same account of the hold under way as the coalescing does. */
static void follow_hold(struct moderation *m, uint32_t n, bool crowded, uint64_t now)
{
        if (m->held && now >= m->hold_began + hold_time(m)) {
                m->fruitless = m->joined ? 0 : m->fruitless + 1;
                m->held = 0;
        }
        m->holds = m->on && (crowded || m->held);
        if (!m->holds)
                return;
        if (m->held) {
                m->joined = true;
                m->fruitless = 0;
        } else {
                m->hold_began = now;
                m->joined = false;
        }
        m->held = n < m->profile.frames - MIN(m->held, m->profile.frames) ? m->held + n : 0;
}

/* ---- decisions ---- */

static void bar(struct moderation *m, uint64_t now)
{
        m->barred = now + m->penalty;
        m->penalty = MIN(m->penalty * PENALTY_STEP, PENALTY_MOST);
}

static void go_off(struct moderation *m)
{
        m->wanted = false;
        m->window = (struct moderation_window){ 0 };
}

/* On: has the load left, or was it a mistake? */
static void reconsider(struct moderation *m, uint64_t now)
{
        struct moderation_window *t = &m->trial, *w = &m->window;

        if (m->fruitless >= FRUITLESS_MAX) {
                if (m->proven)
                        m->left = true;
                else
                        bar(m, now);
                go_off(m);
                return;
        }
        if (!m->proven && t->events >= TRIAL_EVENTS) {
                if (2 * window_pace(t) > 3 * m->pace) {
                        bar(m, now);
                        go_off(m);
                        return;
                }
                m->proven = true;
                m->pace = m->mean = window_pace(t);
        }
        if (!window_full(w))
                return;
        if (!window_pays(w, hold_time(m), STAY_ON)) {
                go_off(m);
                return;
        }
        m->mean += window_pace(w) / 16 - m->mean / 16;
        *w = (struct moderation_window){ 0 };
        if (m->proven && now - m->entered > PROVEN_LONG)
                m->penalty = PENALTY_LEAST;
        if (m->proven && now - m->entered > m->remeasure &&
            (m->mean > 2 * m->pace || 2 * m->mean < m->pace)) {
                m->remeasure = MIN(4 * m->remeasure, REMEASURE_MOST);
                go_off(m);
        }
}

/* Off: would holding pay? */
static void consider(struct moderation *m, uint64_t now)
{
        struct moderation_window *w = &m->window;

        if (m->wanted || !window_full(w))
                return;
        if (!window_pays(w, hold_time(m), GO_ON)) {
                m->left = false;
                m->remeasure = REMEASURE;
        } else if (m->left) {
                m->left = false;
                bar(m, now);
        } else if (now >= m->barred) {
                m->wanted = true;
                m->pace = window_pace(w);
        }
        *w = (struct moderation_window){ 0 };
}

static void record(struct moderation *m, struct moderation_event e)
{
        struct moderation_trace *t = m->trace;

        e.wanted = m->wanted;
        e.holds = m->holds;
        if (t && t->n < t->max)
                t->events[t->n++] = e;
}

bool moderation_note(struct moderation *m, uint32_t n, uint32_t outstanding, uint64_t now)
{
        uint64_t gap = MIN(now - m->last, PAUSE_MAX * hold_time(m));
        bool crowded = outstanding > 1;

        m->holds = false;
        if (n == 0 || m->profile.usecs == 0 || m->profile.frames == 0)
                return false;
        m->last = now;
        follow_hold(m, n, crowded, now);
        window_add(&m->window, n, crowded, gap);
        if (m->on) {
                window_add(&m->trial, n, crowded, gap);
                reconsider(m, now);
        } else {
                consider(m, now);
        }
        record(m, (struct moderation_event){ .now = now, .n = n, .outstanding = outstanding });
        return m->wanted != m->on;
}

void moderation_apply(struct moderation *m, uint64_t now)
{
        m->on = m->wanted;
        m->changes++;
        m->entered = now;
        m->window = m->trial = (struct moderation_window){ 0 };
        m->proven = false;
        m->mean = m->pace;
        m->held = m->fruitless = 0;
        record(m, (struct moderation_event){ .now = now, .step = MODERATION_APPLY });
}

bool moderation_publish(struct moderation *m, struct coalesce *c, uint32_t n, uint32_t outstanding,
                        uint64_t now)
{
        struct moderation_profile p;
        bool due = false;

        if (moderation_note(m, n, outstanding, now)) {
                p = moderation_wanted(m);
                moderation_apply(m, now);
                due = coalesce_set(c, p.usecs, p.frames, now);
        }
        due |= coalesce_note(c, n, now);
        return due || (!moderation_holds(m) && coalesce_flush(c));
}

/* ---- traces ---- */

void moderation_trace_begin(struct moderation *m, struct moderation_trace *t, struct moderation_event *events,
                            unsigned max)
{
        m->trace = NULL;
        *t = (struct moderation_trace){ .start = *m, .events = events, .max = max };
        m->trace = t;
}

void moderation_trace_end(struct moderation *m)
{
        m->trace = NULL;
}

static bool same(struct moderation *m, const struct moderation_event *e)
{
        if (e->step == MODERATION_APPLY)
                moderation_apply(m, e->now);
        else
                moderation_note(m, e->n, e->outstanding, e->now);
        return m->wanted == e->wanted && m->holds == e->holds;
}

unsigned moderation_replay(const struct moderation_trace *t)
{
        struct moderation m = t->start;
        unsigned i = 0;

        while (i < t->n && same(&m, &t->events[i]))
                i++;
        return i;
}
