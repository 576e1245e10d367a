/* Dynamic queue limits.  Updates cut time into intervals; at each we know what was in flight before and what is done.
 *
 * Starved: the queue had been held back by its limit, and now the device has nothing left, or has done all that it had
 * been given by the previous update.  The device could have done more, so the limit was too small: raise it by what was
 * done beyond the previous interval's queue, and by how far that interval was over its limit.  A limit of 0 doubles at
 * each round and stops at two rounds' worth: one being done, one being queued.
 *
 * Busy: packets were in flight all the time.  Whatever the limit had above twice the bytes done was not needed; nor was
 * the part of the last packet that did not fit.  The least such slack of a whole second is taken off, so a burst once a
 * second keeps its limit. */
#include "driver/bql.h"

#include "base/check.h"
#include "base/clock.h"

#define SLACK_TIME NSEC_PER_SEC /* how long a slack must have been there before the limit gives it up */

static uint32_t excess(uint64_t a, uint64_t b)
{
        return a > b ? (uint32_t)MIN(a - b, (uint64_t)UINT32_MAX) : 0;
}

void bql_enable(struct bql *b, bool on)
{
        b->on = on;
}

static void forget_slack(struct bql *b, uint64_t now)
{
        b->slack = UINT32_MAX;
        b->slack_since = now;
}

void bql_reset(struct bql *b, uint64_t now)
{
        *b = (struct bql){
                .on = b->on,
                .epoch = b->epoch + 1,
                .limit = b->limit_min,
                .limit_min = b->limit_min,
                .allowed = b->limit_min,
                .late = b->late,
        };
        forget_slack(b, now);
}

/* The limit that the interval just ended asks for. */
static uint32_t next_limit(struct bql *b, uint64_t completed, uint32_t over, uint64_t now)
{
        bool prev_done = completed >= b->prev_queued;
        bool empty = completed == b->queued;
        uint32_t slack, last_slack, limit = b->limit;

        if ((over && empty) || (b->prev_over && prev_done)) {
                forget_slack(b, now);
                limit += MIN(excess(completed, b->prev_queued), BQL_LIMIT_MAX);
                limit += MIN(b->prev_over, BQL_LIMIT_MAX);
        } else if (!empty && !prev_done && b->prev_queued > b->completed) {
                slack = excess((uint64_t)b->limit + b->prev_over, 2 * b->done);
                last_slack = b->prev_over ? excess(b->prev_last, b->prev_over) : 0;
                b->slack = MIN(b->slack, MAX(slack, last_slack));
                if (now - b->slack_since > SLACK_TIME) {
                        limit = excess(limit, b->slack);
                        forget_slack(b, now);
                }
        }
        return MIN(MAX(limit, b->limit_min), BQL_LIMIT_MAX);
}

void bql_update(struct bql *b, uint64_t now)
{
        uint64_t completed = b->completed + b->done;
        uint32_t over = excess(b->queued - b->completed, b->limit);
        uint32_t limit;

        check(completed <= b->queued);
        if (b->done == 0)
                return;
        limit = next_limit(b, completed, over, now);
        b->prev_over = limit == b->limit ? over : 0; /* measured against a limit that is no more */
        b->limit = limit;
        b->prev_last = b->last;
        b->prev_queued = b->queued;
        b->completed = completed;
        b->done = 0;
        b->allowed = completed + limit;
}
