/* Is it faster with or without?
 *
 * Some costs cannot be estimated from where they are caused.  A worker that polls takes packets one by one where a sleeper
 * would find a batch; each then wakes the receiver of the frame, perhaps from a CPU that the sender needs, and all of the load is slower by
 * half, though every poll finds work.  So the load is asked: it is served both ways in turn, and if one gets
 * more work done that way stays.  What stands in the queues, and on which CPU somebody woke, outlasts a change, so of each way
 * the first span is not judged: without that a flood which polling slowed down to a third seemed to lose a sixth.
 *
 * How many spans that takes depends on how steady the load is: round trips differ by a hundredth from span to span, a flood whose ends
 * share a CPU by a third.  So the measure is the spread of the answers themselves.  With x what the other way gained in each pair
 * of judged spans, and n pairs,
 *
 *      better      sum(x) > sqrt(CONVINCED * sum(x^2)), and more than LEAST on average
 *      not better  sum(x) + sqrt(DOUBTFUL * sum(x^2)) < n * LEAST
 *
 * Where the difference is plain that is 3 pairs, or 2.  Loads that nothing can be said of are asked for PAIRS_MOST.  The next
 * question is after 4 spans, then 16, up to 256 while nothing speaks for a change: what is plainly worse by x costs x for four
 * spans in 262. */
#include "device/duel.h"

#include "base/check.h"
#include "base/clock.h"

#define SPAN        (8 * NSEC_PER_MSEC) /* eighty round trips and more; some slices of the scheduler */
#define SPAN_MOST   (3 * SPAN)          /* it slept: there is no load to be asked */
#define WORK_LEAST  64                  /* in a span of a load that is asked */
#define REST_LEAST  4                   /* spans */
#define REST_MOST   256
#define REST_GROWS  4
#define PAIRS_MOST  64
#define ONE         1024
#define LEAST       (ONE * 3 / 100) /* smaller gains are not worth a change */
#define CONVINCED   3 /* at first; after each change twice as much, since it may have been chance */
#define DOUBTS_MOST 2
#define DOUBTFUL    2

static void begin_rest(struct duel *d, unsigned spans)
{
        d->asking = d->trial = false;
        d->kept = 0;
        d->rest = MIN(MAX(spans, (unsigned)REST_LEAST), (unsigned)REST_MOST);
}

/* Each of the others has its turn before they are asked more seldom. */
static void refuse(struct duel *d)
{
        d->refused++;
        begin_rest(d, d->refused % (DUEL_WAYS - 1) == 0 ? REST_GROWS * d->rest : d->rest);
}

static void ask(struct duel *d)
{
        do
                d->other = (d->other + 1) % DUEL_WAYS;
        while (d->other == d->way);
        d->asking = d->trial = true;
        d->pairs = 0;
        d->sum = d->squares = 0;
}

static bool better(const struct duel *d)
{
        return d->sum > d->pairs * (int64_t)LEAST &&
               d->sum * d->sum >= ((int64_t)CONVINCED << d->doubts) * d->squares;
}

/* Two pairs are the least from which a spread can be known. */
static bool not_better(const struct duel *d)
{
        int64_t short_of = d->pairs * (int64_t)LEAST - d->sum;

        return d->pairs > 1 && short_of > 0 && short_of * short_of >= DOUBTFUL * d->squares;
}

static void answer(struct duel *d, uint64_t rate)
{
        int64_t gain = 2 * ONE * ((int64_t)rate - (int64_t)d->rate) / (int64_t)(rate + d->rate);

        d->trial = false;
        d->pairs++;
        d->sum += gain;
        d->squares += gain * gain;
        if (better(d)) {
                d->way = d->other;
                d->refused = 0;
                d->doubts = MIN(d->doubts + 1, (unsigned)DOUBTS_MOST);
                begin_rest(d, REST_LEAST);
        } else if (not_better(d) || d->pairs == PAIRS_MOST) {
                refuse(d);
        }
}

/* A span without work proves nothing, but is no reason to ask again soon. */
static void end_span(struct duel *d, uint64_t rate, bool enough)
{
        if (d->asking && rate == 0) {
                refuse(d);
        } else if (d->settling) {
                d->settling = false;
        } else if (d->trial) {
                answer(d, rate);
        } else {
                d->rate = rate;
                d->kept++;
                if (d->asking)
                        d->trial = true;
                else if (enough && d->kept >= d->rest)
                        ask(d);
        }
}

static enum duel_way way_now(const struct duel *d)
{
        return d->trial ? d->other : d->way;
}

static void record(struct duel *d, enum duel_step step, uint64_t work, uint64_t now)
{
        struct duel_trace *t = d->trace;

        if (t && t->n < t->max)
                t->events[t->n++] =
                        (struct duel_event){ .now = now, .work = work, .step = step, .way = way_now(d) };
}

enum duel_way duel_way(struct duel *d, uint64_t work, uint64_t now)
{
        uint64_t took = now - d->began, done = work - d->work;
        enum duel_way before = way_now(d);
        bool asleep = took >= SPAN_MOST;

        if (took >= SPAN) {
                end_span(d, asleep ? 0 : (done << 20) / took, !asleep && done >= WORK_LEAST);
                d->settling |= way_now(d) != before;
                d->began = now;
                d->work = work;
                record(d, DUEL_SPAN, work, now);
        }
        return way_now(d);
}

void duel_forget(struct duel *d, uint64_t now)
{
        *d = (struct duel){ .trace = d->trace };
        record(d, DUEL_FORGET, 0, now);
}

/* ---- traces ---- */

void duel_trace_begin(struct duel *d, struct duel_trace *t, struct duel_event *events, unsigned max)
{
        *t = (struct duel_trace){ .events = events, .max = max };
        *d = (struct duel){ .trace = t };
}

void duel_trace_end(struct duel *d)
{
        d->trace = NULL;
}

bool duel_repeat(struct duel *d, const struct duel_event *e)
{
        if (e->step == DUEL_FORGET)
                duel_forget(d, e->now);
        else
                duel_way(d, e->work, e->now);
        return way_now(d) == e->way;
}
