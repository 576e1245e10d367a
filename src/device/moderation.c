/* When to hold calls back.
 *
 * A hold pays when other publications join it: one call then does the work of several.  When nothing can come until the
 * call has gone out, as with request and response, it costs its whole length.  Three judges, from quick to slow:
 *
 *      the gate      holds a publication only if more than one packet is outstanding or a hold is under way.  A single
 *                    request has no company: it is never held, whatever the phase.  A hold is fruitless if nothing more
 *                    happened on the pair until its end: then somebody waited for the call.  Two of these in a row shut
 *                    the gate, so a request of several packets is held twice.  It is opened for one hold to see whether
 *                    that has changed, ever more seldom, and at last the holding is given up.
 *      the score     a publication soon after the last one speaks for holding, a late one against; 24 in favour begin it.
 *                    Against it, in the same manner, only gaps that are long.  So a load must be well inside the bounds to
 *                    get in and well outside to get out, and chance takes it neither way.  Small packets must come four to
 *                    a hold.  Of a stream, which is GSO frames or what answers them, the hold should see the next more
 *                    often than not.
 *      the trial     many requests in a closed loop do join each other's holds, yet each round takes longer by the hold.
 *                    That shows in the pace.  If packets come more slowly than before, holding is stopped to see whether
 *                    they come faster without, and given up if they do.
 *
 * What is given up though the load still asks for it bars the way for a time that grows from 50 ms to 2 minutes, and a
 * pace that has become another is questioned first after a second, then ever more seldom: a constant load sees ten changes
 * in a minute at most. */
#include "device/moderation.h"

#include "base/check.h"
#include "base/clock.h"

#define HOLD_USECS    64 /* gathers what would be four calls or more, and is not felt by bulk */
#define HOLD_FRAMES   64 /* a burst of the device, and a poll of the driver */

#define JOIN_SHARE    8  /* of the hold: small packets that come sooner are the rest of the same request */
#define FRUITLESS_MAX 2  /* holds in a row: then the gate is shut */
#define SHUT_EVENTS   64 /* publications, at first; each fruitless hold in a row makes it four times as long */
#define HOPELESS      4  /* holds in a row: then holding is given up */

/* packets outstanding for each that was published, or beside it: GSO frames, or a long queue */
#define STREAM          8
#define SOON_SHARE      4  /* of the hold: four more would join; of a stream one more */
#define LATE_SHARE      2  /* one more would; of a stream one in two holds */
#define SCORE_IN        24 /* 24 publications of 8 packets settle within 200 */
#define SCORE_OUT       32
#define SOON            1 /* what a gap is worth: toward going in */
#define NOT_SOON        (-3)
#define STREAM_NOT_SOON (-1)
#define LATE            2 /* and toward going out */
#define NOT_LATE        (-1)

/* Publications that make a pace: with Poisson arrivals two of them differ by 4 % (one standard deviation). */
#define PACE_EVENTS      1024
#define RUN_MAX          (32 * PACE_EVENTS) /* of up to a ring of packets each: fits into 32 bits */
#define HASTY_EVENTS     128                /* enough to see a pace halved */
#define HALVED(on, off)  (2 * (on) > 3 * (off))
#define SUSPECT(on, off) (100 * (on) > 108 * (off))
#define SLOWER(on, off)  (100 * (on) > 115 * (off))
#define ANOTHER(a, b)    ((a) > 2 * (b) || (b) > 2 * (a))
#define LEFT_EVENTS      256 /* wanting back in sooner means that leaving was wrong */

#define PENALTY_LEAST    (50 * NSEC_PER_MSEC)
#define PENALTY_MOST     (120 * NSEC_PER_SEC)
#define PENALTY_STEP     16
#define FORGIVEN         (10 * NSEC_PER_SEC) /* on for so long: no grudge is left */
#define TRUST_LEAST      NSEC_PER_SEC
#define TRUST_MOST       (64 * NSEC_PER_SEC)
#define TRUST_STEP       4

#define PACE_SHIFT       8
#define PAUSE_MAX        4 /* holds: a pause counts as no more than this */

static uint64_t hold_time(const struct moderation *m)
{
        return m->profile.usecs * NSEC_PER_USEC;
}

void moderation_init(struct moderation *m, uint32_t usecs_max, uint32_t frames_max)
{
        *m = (struct moderation){
                .profile = {MIN(usecs_max, (uint32_t)HOLD_USECS), MIN(frames_max, (uint32_t)HOLD_FRAMES)},
                .since_left = LEFT_EVENTS,
                .penalty = PENALTY_LEAST,
                .trusted = TRUST_LEAST,
        };
}

/* ---- the gate ---- */

static void hold_ended(struct moderation *m)
{
        m->held = 0;
        m->fruitless = m->joined ? 0 : MIN(m->fruitless + 1, (uint32_t)HOPELESS);
        if (m->fruitless >= FRUITLESS_MAX)
                m->shut = SHUT_EVENTS << 2 * (m->fruitless - FRUITLESS_MAX);
}

static void join(struct moderation *m, bool stream, uint64_t now)
{
        if (stream || now - m->hold_began >= hold_time(m) / JOIN_SHARE)
                m->joined = true;
}

/* Keeps the same account of the hold under way as the coalescing does. */
static void pass_gate(struct moderation *m, uint32_t n, bool crowded, bool stream, uint64_t now)
{
        if (m->held && now - m->hold_began >= hold_time(m))
                hold_ended(m);
        m->shut -= m->shut > 0;
        m->holds = moderation_phase_holds(m->phase) && !m->shut && (crowded || m->held);
        if (!m->holds)
                return;
        if (m->held == 0) {
                m->hold_began = now;
                m->joined = false;
        } else {
                join(m, stream, now);
        }
        m->held += n;
        if (m->held < m->profile.frames)
                return;
        m->held = 0; /* the call goes out.  Of a burst that is enough by itself nothing was held */
        m->fruitless = m->joined ? 0 : m->fruitless;
}

/* ---- the phase ---- */

static uint64_t pace(const struct moderation_run *r)
{
        return (r->span << PACE_SHIFT) / r->packets;
}

static void measure_anew(struct moderation *m)
{
        m->run = (struct moderation_run){ 0 };
}

static void bar(struct moderation *m, uint64_t now)
{
        m->barred = now + m->penalty;
        m->penalty = MIN(m->penalty * PENALTY_STEP, PENALTY_MOST);
        m->score = 0;
        measure_anew(m);
}

/* Evidence as it adds up; what speaks against it takes it down to nothing at most. */
static bool convinced(struct moderation *m, int worth, int enough)
{
        m->score = MIN(MAX(m->score + worth, 0), enough);
        return m->score == enough;
}

static bool soon_enough(struct moderation *m, uint64_t gap, bool stream)
{
        uint64_t soon = hold_time(m) / (stream ? 1 : SOON_SHARE);

        if (gap <= soon)
                return convinced(m, SOON, SCORE_IN);
        return convinced(m, stream ? STREAM_NOT_SOON : NOT_SOON, SCORE_IN);
}

static bool too_slow(struct moderation *m, uint64_t gap, bool stream)
{
        uint64_t late = stream ? 2 * hold_time(m) : hold_time(m) / LATE_SHARE;

        return convinced(m, gap > late ? LATE : NOT_LATE, SCORE_OUT);
}

/* A measurement without end keeps its rates and stays small. */
static void halve(struct moderation_run *r)
{
        r->events /= 2;
        r->packets /= 2;
        r->crowded /= 2;
        r->span /= 2;
}

static enum moderation_phase while_off(struct moderation *m, uint64_t gap, bool stream, uint64_t now)
{
        bool pays = soon_enough(m, gap, stream);

        m->since_left += m->since_left < LEFT_EVENTS;
        if (m->since_left == LEFT_EVENTS)
                m->trusted = TRUST_LEAST;
        if (m->score == 0)
                measure_anew(m);
        else if (m->run.events >= RUN_MAX)
                halve(&m->run);
        if (!pays || m->run.crowded == 0 || now < m->barred)
                return MODERATION_OFF;
        if (m->since_left < LEFT_EVENTS) {
                m->since_left = LEFT_EVENTS;
                bar(m, now);
                return MODERATION_OFF;
        }
        m->pace_off = pace(&m->run);
        return MODERATION_TRIAL;
}

static enum moderation_phase while_trial(struct moderation *m, uint64_t gap, bool stream, uint64_t now)
{
        if (m->fruitless >= HOPELESS || too_slow(m, gap, stream)) {
                bar(m, now);
                return MODERATION_OFF;
        }
        m->pace_on = pace(&m->run);
        if (m->run.events >= HASTY_EVENTS && HALVED(m->pace_on, m->pace_off))
                return MODERATION_CHECK;
        if (m->run.events < PACE_EVENTS)
                return MODERATION_TRIAL;
        return SUSPECT(m->pace_on, m->pace_off) ? MODERATION_CHECK : MODERATION_ON;
}

static enum moderation_phase while_check(struct moderation *m, uint64_t gap, bool stream, uint64_t now)
{
        if (too_slow(m, gap, stream))
                return MODERATION_OFF;
        if (m->run.events < PACE_EVENTS)
                return MODERATION_CHECK;
        if (!SLOWER(m->pace_on, pace(&m->run)))
                return MODERATION_ON;
        bar(m, now);
        return MODERATION_OFF;
}

static enum moderation_phase while_on(struct moderation *m, uint64_t gap, bool stream, uint64_t now)
{
        uint64_t pace_now;

        if (m->fruitless >= HOPELESS) {
                bar(m, now);
                return MODERATION_OFF;
        }
        if (too_slow(m, gap, stream)) {
                m->since_left = 0;
                return MODERATION_OFF;
        }
        if (now - m->entered > FORGIVEN)
                m->penalty = PENALTY_LEAST;
        if (m->run.events < PACE_EVENTS)
                return MODERATION_ON;
        pace_now = pace(&m->run);
        measure_anew(m);
        if (now - m->entered < m->trusted || !ANOTHER(pace_now, m->pace_on))
                return MODERATION_ON;
        m->trusted = MIN(m->trusted * TRUST_STEP, TRUST_MOST);
        m->pace_on = pace_now;
        return MODERATION_CHECK;
}

static enum moderation_phase judge(struct moderation *m, uint64_t gap, bool stream, uint64_t now)
{
        switch (m->phase) {
        case MODERATION_OFF:
                return while_off(m, gap, stream, now);
        case MODERATION_TRIAL:
                return while_trial(m, gap, stream, now);
        case MODERATION_CHECK:
                return while_check(m, gap, stream, now);
        case MODERATION_ON:
                return while_on(m, gap, stream, now);
        case MODERATION_PHASES:
                break;
        }
        unreachable();
}

static void enter(struct moderation *m, enum moderation_phase phase, uint64_t now)
{
        m->changes += moderation_phase_holds(phase) != moderation_phase_holds(m->phase);
        m->phase = phase;
        m->entered = now;
        m->score = 0;
        measure_anew(m);
}

static void record(struct moderation *m, struct moderation_event e)
{
        struct moderation_trace *t = m->trace;

        e.next = m->next;
        e.holds = m->holds;
        if (t && t->n < t->max)
                t->events[t->n++] = e;
}

void moderation_reset(struct moderation *m, uint32_t usecs_max, uint32_t frames_max, uint64_t now)
{
        struct moderation_trace *trace = m->trace;

        moderation_init(m, usecs_max, frames_max);
        m->trace = trace;
        record(m, (struct moderation_event){
                          .now = now, .n = usecs_max, .outstanding = frames_max, .step = MODERATION_INIT });
}

static bool never(const struct moderation *m)
{
        return m->profile.usecs == 0 || m->profile.frames == 0;
}

void moderation_beside(struct moderation *m, uint32_t n, uint64_t now)
{
        if (n == 0 || never(m))
                return;
        if (n >= STREAM)
                m->beside = now;
        if (m->held && now - m->hold_began < hold_time(m))
                join(m, n >= STREAM, now);
        record(m, (struct moderation_event){ .now = now, .n = n, .step = MODERATION_BESIDE });
}

bool moderation_note(struct moderation *m, uint32_t n, uint32_t outstanding, uint64_t now)
{
        uint64_t gap = MIN(now - m->last, PAUSE_MAX * hold_time(m));
        bool stream, crowded;

        m->holds = false;
        if (n == 0 || never(m))
                return false;
        stream = outstanding >= STREAM * n || (m->beside && now - m->beside <= hold_time(m));
        crowded = outstanding > 1 || stream;
        m->last = now;
        pass_gate(m, n, crowded, stream, now);
        m->run.events++;
        m->run.packets += n;
        m->run.crowded += crowded;
        m->run.span += gap;
        m->next = judge(m, gap, stream, now);
        record(m, (struct moderation_event){
                          .now = now, .n = n, .outstanding = outstanding, .step = MODERATION_NOTE });
        if (moderation_phase_holds(m->next) != moderation_phase_holds(m->phase))
                return true;
        if (m->next != m->phase)
                enter(m, m->next, now);
        return false;
}

void moderation_apply(struct moderation *m, uint64_t now)
{
        enter(m, m->next, now);
        m->held = m->fruitless = m->shut = 0;
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

bool moderation_repeat(struct moderation *m, const struct moderation_event *e)
{
        switch (e->step) {
        case MODERATION_INIT:
                moderation_reset(m, e->n, e->outstanding, e->now);
                break;
        case MODERATION_NOTE:
                moderation_note(m, e->n, e->outstanding, e->now);
                break;
        case MODERATION_APPLY:
                moderation_apply(m, e->now);
                break;
        case MODERATION_BESIDE:
                moderation_beside(m, e->n, e->now);
                break;
        }
        return m->next == e->next && m->holds == e->holds;
}

unsigned moderation_replay(const struct moderation_trace *t)
{
        struct moderation m = t->start;
        unsigned i = 0;

        while (i < t->n && moderation_repeat(&m, &t->events[i]))
                i++;
        return i;
}
