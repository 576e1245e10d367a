/* A histogram of times: 128 buckets an octave, so that a percentile is right to less than a per cent and adding costs two
 * shifts.  Counts only grow; what happened between two moments is the difference of two copies. */
#pragma once
#include <stdint.h>

#define LATENCY_SHIFT   7  /* log2 of the buckets of an octave */
#define LATENCY_OCTAVES 28 /* from 128 ns to 34 s: longer ones count as that */
#define LATENCY_BUCKETS ((LATENCY_OCTAVES + 1) << LATENCY_SHIFT)

struct latency {
        uint32_t count[LATENCY_BUCKETS];
};

/* One thread adds; others may read meanwhile. */
void latency_add(struct latency *l, uint64_t ns);
/* ret += from; in the form of ret += after - before for a window: add `after`, then subtract `before`. */
void latency_merge(struct latency *ret, const struct latency *from);
void latency_subtract(struct latency *ret, const struct latency *before);
uint64_t latency_total(const struct latency *l);
/* Nanoseconds below which p per cent lie; 0 of an empty histogram. */
double latency_percentile(const struct latency *l, double p);
