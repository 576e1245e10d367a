/* How long to poll.
 *
 * Polling is a bet.  Work that comes within the budget b is taken at once and saves GAIN: the driver's kick and a wake-up.
 * If none comes, b is lost.  With F(b) the share of idle periods not longer than b, a poll is worth
 *
 *      F(b) * GAIN  -  (1 - F(b)) * b
 *
 * and the budget is the b, within the setting, that is worth most; where none is worth more than nothing there is no poll.
 * F comes from the idle periods of late, slept through or not, so that learning needs no polling.  There are two such
 * histories, of what followed a long and what followed a short period: a load that comes in runs keeps its budget during
 * the runs and has none between them, and knows it at the second packet of a run.
 *
 * What was slept through looks longer than it was, by a wake-up whose time varies.  So a poll is also made when the last
 * such period was a hit, and, as a probe, ever more seldom, when the history advises against it.
 *
 * Two accounts bound what bad luck and bad faith can cost, whatever the estimate says.  A poll may be made only as
 * long as both have enough in them:
 *
 *      missing   grows by 1/10 of the time, shrinks by each miss: at most a tenth of all time is missed
 *      loss      grows by 1/40 of the time and by the gain of each hit, shrinks by each miss: polling costs at most 2.5 %
 *
 * Both hold no more than `allowance`, so that quiet times do not pay for a storm.  A poll during which another thread ran
 * on this CPU is charged STOLEN_COST besides: neighbours on one CPU stop polling against each other. */
#include "device/polling.h"

#include "base/check.h"
#include "base/clock.h"

/* a wake-up across CPUs, 8 us, a kick and the system calls around a sleep */
#define GAIN           (10 * NSEC_PER_USEC)
#define GAIN_AWAKE     (2 * NSEC_PER_USEC) /* of work that the look after re-arming would have found: the kick */
#define AWAKE          (1 * NSEC_PER_USEC) /* from the decision to sleep until asleep */
#define WAKE           (8 * NSEC_PER_USEC) /* what an idle period that was slept through looks longer than it was */

#define MISSING_SHARE  10 /* of the time, at most, is spent in misses */
#define LOSS_SHARE     40 /* of the time, at most, is lost on balance */
#define ALLOWANCE      NSEC_PER_MSEC
#define STOLEN_COST    (200 * NSEC_PER_USEC) /* twenty hits: one poll in twenty that disturbs is too many */

#define PROBE_SHARE    100 /* a probe costs 1 % of the time since the last one, at first */
#define PROBE_WAIT_MAX NSEC_PER_SEC

#define SAMPLE         256u          /* weight of one idle period in a history */
#define TOTAL_MAX      (64 * SAMPLE) /* then all weights are halved: it knows the last 32 to 64 */
#define FIRST_OCTAVE   9             /* 512 ns */

/* ---- history ---- */

static unsigned gap_class(uint64_t gap)
{
        unsigned octave = 63 - (unsigned)__builtin_clzll(gap | 1);

        if (octave < FIRST_OCTAVE)
                return 0;
        return MIN((octave - FIRST_OCTAVE) * 4 + (unsigned)(gap >> (octave - 2) & 3), POLLING_GAPS - 1u);
}

/* The class holds idle periods up to here, exclusive. */
static uint64_t class_end(unsigned class)
{
        return (uint64_t)(5 + class % 4) << (FIRST_OCTAVE - 2 + class / 4);
}

static uint64_t gain_of(uint64_t gap)
{
        return gap < AWAKE ? GAIN_AWAKE : GAIN;
}

static void learn(struct polling_history *h, uint64_t gap, bool hit)
{
        h->hit = hit;
        h->weight[gap_class(gap)] += SAMPLE;
        h->total += SAMPLE;
        if (h->total < TOTAL_MAX)
                return;
        h->total = 0;
        for (unsigned i = 0; i < POLLING_GAPS; i++) {
                h->weight[i] /= 2;
                h->total += h->weight[i];
        }
}

/* The budget up to `most` that is worth most, or 0.  An eighth is added, since a load that was seen at the end of a class
 * will be seen beyond it. */
static uint64_t best_budget(const struct polling_history *h, uint64_t most)
{
        int64_t best_worth = 0, gain = 0;
        uint64_t best = 0, start = 0, inside = 0;

        for (unsigned i = 0; i < POLLING_GAPS && start < most; i++) {
                uint64_t end = class_end(i), part = h->weight[i];
                int64_t worth;

                if (end > most) {
                        part = part * (most - start) / (end - start);
                        end = most;
                }
                inside += part;
                gain += (int64_t)(part * gain_of(start));
                worth = gain - (int64_t)((h->total - inside) * end);
                if (part > 0 && worth > best_worth) {
                        best_worth = worth;
                        best = end;
                }
                start = end;
        }
        return MIN(best + best / 8, most);
}

/* ---- accounts: times their share, so that nothing is rounded ---- */

static void settle(struct polling *p, uint64_t now)
{
        int64_t elapsed = (int64_t)MIN(now - p->settled, LOSS_SHARE * p->allowance);

        p->loss = MIN(p->loss + elapsed, (int64_t)(LOSS_SHARE * p->allowance));
        p->missing = MIN(p->missing + elapsed, (int64_t)(MISSING_SHARE * p->allowance));
        p->settled = now;
}

static void credit(struct polling *p, uint64_t gain)
{
        p->loss = MIN(p->loss + (int64_t)(LOSS_SHARE * gain), (int64_t)(LOSS_SHARE * p->allowance));
}

static void charge(struct polling *p, uint64_t missed, uint64_t disturbed)
{
        p->loss -= (int64_t)(LOSS_SHARE * (missed + disturbed));
        p->missing -= (int64_t)(MISSING_SHARE * missed);
}

static uint64_t affordable(const struct polling *p)
{
        if (p->loss <= 0 || p->missing <= 0)
                return 0;
        return MIN((uint64_t)p->loss / LOSS_SHARE, (uint64_t)p->missing / MISSING_SHARE);
}

/* ---- decisions ---- */

static bool probe(struct polling *p, uint64_t now)
{
        if (now < p->probe_at)
                return false;
        p->probe_wait = MIN(MAX(2 * p->probe_wait, PROBE_SHARE * p->limit), PROBE_WAIT_MAX);
        p->probe_at = now + p->probe_wait;
        return true;
}

static uint64_t decide(struct polling *p, uint64_t now)
{
        const struct polling_history *h = &p->after[p->was_short];
        uint64_t most = MIN(p->limit, affordable(p));
        uint64_t budget = best_budget(h, most);

        if (budget > 0 || most < p->limit || p->limit == 0)
                return budget;
        return h->total == 0 || h->hit || probe(p, now) ? p->limit : 0;
}

static void record(struct polling *p, enum polling_step step, uint64_t now, uint64_t value)
{
        struct polling_trace *t = p->trace;

        if (t && t->n < t->max)
                t->events[t->n++] = (struct polling_event){ now, value, p->stolen, step };
}

void polling_set(struct polling *p, uint32_t poll_us, uint64_t now)
{
        uint64_t allowance;

        record(p, POLLING_SET, now, poll_us);
        settle(p, now);
        p->limit = poll_us * NSEC_PER_USEC;
        allowance = MAX(MAX(ALLOWANCE, p->limit), p->allowance);
        p->loss += (int64_t)(LOSS_SHARE * (allowance - p->allowance));
        p->missing += (int64_t)(MISSING_SHARE * (allowance - p->allowance));
        p->allowance = allowance;
        p->probe_wait = 0;
        p->probe_at = now;
}

void polling_forget(struct polling *p, uint64_t now)
{
        uint32_t poll_us = (uint32_t)(p->limit / NSEC_PER_USEC);

        *p = (struct polling){
                .hits = p->hits,
                .misses = p->misses,
                .poll_ns = p->poll_ns,
                .miss_ns = p->miss_ns,
                .trace = p->trace,
        };
        polling_set(p, poll_us, now);
}

static uint64_t begin(struct polling *p, uint64_t now)
{
        uint64_t budget;

        if (p->idle)
                return !p->missed && now < p->deadline ? p->deadline : 0;
        settle(p, now);
        budget = decide(p, now);
        p->idle = true;
        p->missed = false;
        p->began = now;
        p->deadline = budget ? now + budget : 0;
        return p->deadline;
}

uint64_t polling_begin(struct polling *p, uint64_t now)
{
        uint64_t deadline = begin(p, now);

        p->polling = deadline != 0;
        p->resumed = p->looked = now;
        p->stolen = 0;
        record(p, POLLING_BEGIN, now, deadline);
        return deadline;
}

/* The poll under way is over.  Returns what of it was ours. */
static uint64_t stop(struct polling *p, uint64_t now)
{
        uint64_t spent = now - p->resumed;

        spent -= MIN(p->stolen, spent);
        settle(p, now);
        charge(p, 0, p->stolen ? STOLEN_COST : 0);
        p->polling = false;
        p->poll_ns += spent;
        return spent;
}

/* Work has come `gap` after the last. */
static void end_idle(struct polling *p, uint64_t gap, bool hit)
{
        learn(&p->after[p->was_short], gap, hit);
        p->was_short = gap <= (p->limit ? p->limit : GAIN);
        p->idle = false;
}

void polling_hit(struct polling *p, uint64_t now)
{
        bool polled = p->polling;

        record(p, POLLING_HIT, now, 0);
        if (!p->idle)
                return;
        if (polled) {
                stop(p, now);
                credit(p, gain_of(now - p->began));
                p->hits++;
                p->probe_wait = 0;
        }
        end_idle(p, now - p->began, polled);
}

void polling_miss(struct polling *p, uint64_t now)
{
        uint64_t spent;

        record(p, POLLING_MISS, now, 0);
        if (!p->polling)
                return;
        spent = stop(p, now);
        charge(p, spent, 0);
        p->missed = true;
        p->misses++;
        p->miss_ns += spent;
}

void polling_yield(struct polling *p, uint64_t now)
{
        record(p, POLLING_YIELD, now, 0);
        if (p->polling)
                stop(p, now);
}

void polling_woke(struct polling *p, uint64_t now)
{
        record(p, POLLING_WOKE, now, 0);
        if (!p->idle)
                return;
        if (p->polling)
                stop(p, now);
        end_idle(p, now - p->began - MIN(WAKE, now - p->began), false);
}

/* ---- traces ---- */

void polling_trace_begin(struct polling *p, struct polling_trace *t, struct polling_event *events,
                         unsigned max)
{
        p->trace = NULL;
        *t = (struct polling_trace){ .start = *p, .events = events, .max = max };
        p->trace = t;
}

void polling_trace_end(struct polling *p)
{
        p->trace = NULL;
}

bool polling_repeat(struct polling *p, const struct polling_event *e)
{
        if (e->step != POLLING_BEGIN)
                p->stolen = e->stolen;
        switch (e->step) {
        case POLLING_SET:
                polling_set(p, (uint32_t)e->value, e->now);
                return true;
        case POLLING_BEGIN:
                return polling_begin(p, e->now) == e->value;
        case POLLING_HIT:
                polling_hit(p, e->now);
                return true;
        case POLLING_MISS:
                polling_miss(p, e->now);
                return true;
        case POLLING_YIELD:
                polling_yield(p, e->now);
                return true;
        case POLLING_WOKE:
                polling_woke(p, e->now);
                return true;
        }
        return false;
}

unsigned polling_replay(const struct polling_trace *t)
{
        struct polling p = t->start;
        unsigned i = 0;

        while (i < t->n && polling_repeat(&p, &t->events[i]))
                i++;
        return i;
}
