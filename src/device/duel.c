/* Is it faster with or without?
 *
 * Some costs cannot be estimated from where they are caused.  A worker that polls takes packets one by one where a sleeper
 * would find a batch; each then wakes the receiver of the frame, perhaps from a CPU that the sender needs, and all of the load is slower by
 * half, though every poll finds work.  So the load is asked: for a span it is served the other way, and if more work gets done,
 * three times more often than not, that way stays.  The next trial is after 4 spans, then 16, up to 128 while nothing speaks for
 * a change: what is worse by x costs x for one span in 129. */
#include "device/duel.h"

#include "base/check.h"
#include "base/clock.h"

#define SPAN         (8 * NSEC_PER_MSEC) /* eighty round trips and more; slices of the scheduler even out */
#define SPAN_MOST    (3 * SPAN)          /* it slept: there is no load to be asked */
#define WORK_LEAST   64                  /* in a span of a load that is asked */
#define REST_LEAST   4                   /* spans */
#define REST_MOST    128
#define REST_GROWS   4
#define CONVINCED    3 /* at first; after each change twice as much, since it may have been chance */
#define DOUBTS_MOST  2
#define OLD_RATE     3 /* parts of the rate until now to one of the last span */
#define BETTER(a, b) (100 * (a) > 103 * (b))

static void begin_rest(struct duel *d, unsigned spans)
{
        d->trial = false;
        d->kept = 0;
        d->rest = MIN(MAX(spans, (unsigned)REST_LEAST), (unsigned)REST_MOST);
}

/* `rate` 0 proves nothing, but is no reason to ask again soon. */
static void judge(struct duel *d, uint64_t rate)
{
        if (rate > 0)
                d->score = MAX(d->score + (BETTER(rate, d->rate) ? 1 : -1), 0);
        if (d->score == 0 || rate == 0) {
                begin_rest(d, REST_GROWS * d->rest);
                return;
        }
        begin_rest(d, REST_LEAST);
        if (d->score < CONVINCED << d->doubts)
                return;
        d->unusual = !d->unusual;
        d->score = 0;
        d->rate = 0;
        d->doubts = MIN(d->doubts + 1, (unsigned)DOUBTS_MOST);
}

bool duel_unusual(struct duel *d, uint64_t work, uint64_t now)
{
        uint64_t took = now - d->began, done = work - d->work, rate;

        if (took < SPAN)
                return d->unusual != d->trial;
        rate = took < SPAN_MOST ? (done << 20) / took : 0;
        if (d->trial) {
                judge(d, rate);
        } else {
                d->rate = d->rate ? (OLD_RATE * d->rate + rate) / (OLD_RATE + 1) : rate;
                d->kept++;
                d->trial = rate > 0 && done >= WORK_LEAST && d->kept >= d->rest;
        }
        d->began = now;
        d->work = work;
        return d->unusual != d->trial;
}
