#include "device/coalesce.h"

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "vwire/stats.h"

void coalesce_clamp(uint32_t *usecs, uint32_t *frames)
{
        *usecs = MIN(*usecs, (uint32_t)VW_USECS_MAX);
        *frames = MIN(*frames, (uint32_t)VW_FRAMES_MAX);
}

static bool off(const struct coalesce *c)
{
        return c->usecs == 0 || c->frames == 0;
}

static bool let_go(struct coalesce *c, enum coalesce_cause cause)
{
        c->pending = 0;
        counter_add(&c->released[cause], 1);
        return true;
}

/* The condition of the standard (5.1.6.5.9): enough packets, or long enough since the first. */
static bool release_if_met(struct coalesce *c, uint64_t now)
{
        if (c->pending >= c->frames)
                return let_go(c, COALESCE_FRAMES);
        if (coalesce_due(c, now))
                return let_go(c, COALESCE_TIMER);
        return false;
}

bool coalesce_set(struct coalesce *c, uint32_t usecs, uint32_t frames, uint64_t now)
{
        c->usecs = usecs;
        c->frames = frames;
        if (c->pending == 0)
                return false;
        return off(c) ? coalesce_flush(c) : release_if_met(c, now);
}

bool coalesce_note(struct coalesce *c, uint32_t n, uint64_t now)
{
        if (n == 0)
                return false;
        if (off(c))
                return true;
        if (c->pending == 0)
                c->since = now;
        c->pending += n;
        if (release_if_met(c, now))
                return true;
        counter_add(&c->held, 1);
        return false;
}

uint64_t coalesce_deadline(const struct coalesce *c)
{
        uint64_t hold = c->usecs * NSEC_PER_USEC;

        if (c->pending == 0)
                return NEVER;
        return c->since < NEVER - hold ? c->since + hold : NEVER - 1;
}

bool coalesce_due(const struct coalesce *c, uint64_t now)
{
        return c->pending > 0 && now >= coalesce_deadline(c);
}

bool coalesce_expire(struct coalesce *c, uint64_t now)
{
        return coalesce_due(c, now) && let_go(c, COALESCE_TIMER);
}

bool coalesce_flush(struct coalesce *c)
{
        return c->pending > 0 && let_go(c, COALESCE_FLUSH);
}
