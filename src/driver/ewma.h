/* Exponentially weighted mean of packet lengths: each new one counts 1/64.  Slow, because one refill serves a whole
 * ring.  The fraction is kept and reading rounds to the nearest: without that a mean settles up to 63 below a constant
 * input, and a buffer of that size is one cache line short for nearly every packet. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define EWMA_WEIGHT   64
#define EWMA_FRACTION 16 /* bits; 6 are needed for a weight of 64, the others make the settled error nil */

struct ewma {
        uint64_t value; /* << EWMA_FRACTION */
        bool primed;    /* the first sample is taken whole */
};

static inline void ewma_add(struct ewma *e, uint32_t sample)
{
        uint64_t s = (uint64_t)sample << EWMA_FRACTION;

        e->value = e->primed ? e->value - e->value / EWMA_WEIGHT + s / EWMA_WEIGHT : s;
        e->primed = true;
}

static inline uint32_t ewma_read(const struct ewma *e)
{
        return (uint32_t)((e->value + (1u << (EWMA_FRACTION - 1))) >> EWMA_FRACTION);
}
