/* Random numbers that are the same in every run: xorshift64*.  The state is a number that is not 0. */
#pragma once
#include <stdint.h>

static inline uint32_t rng_next(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return (uint32_t)(*state * UINT64_C(0x2545f4914f6cdd1d) >> 32);
}

/* 0 .. n - 1 */
static inline uint32_t rng_below(uint64_t *state, uint32_t n)
{
        return rng_next(state) % n;
}
