/* Time is nanoseconds of the monotonic clock, in a uint64_t.  It is read once a loop turn and handed down as
 * `now`; nothing below a worker's or a poll's loop reads the clock, so every policy can be tested without sleeping. */
#pragma once
#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC  UINT64_C(1000000000)
#define NEVER         UINT64_MAX /* a deadline that does not come */

static inline uint64_t clock_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* How long from `now` until `deadline`; 0 when it has come. */
static inline uint64_t clock_until(uint64_t deadline, uint64_t now)
{
        return deadline > now ? deadline - now : 0;
}
