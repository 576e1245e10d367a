/* The clock that the deadlines of vwire/driver.h and vwire/port.h are on: ns, monotonic. */
#pragma once
#include <stdint.h>
#include <time.h>

#define NEVER UINT64_MAX /* a deadline that does not come */

static inline uint64_t clock_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
