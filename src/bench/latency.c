#include "bench/latency.h"

#include "base/atomics.h"
#include "base/check.h"

/* Times below 128 ns are their own buckets; from there on the octave and its seven highest bits tell. */
static unsigned bucket_of(uint64_t ns)
{
        unsigned octave, i;

        if (ns < BIT(LATENCY_SHIFT))
                return (unsigned)ns;
        octave = 63u - (unsigned)__builtin_clzll(ns) - LATENCY_SHIFT;
        i = ((octave + 1) << LATENCY_SHIFT) + (unsigned)((ns >> octave) - BIT(LATENCY_SHIFT));
        return MIN(i, LATENCY_BUCKETS - 1u);
}

/* The least time of a bucket. */
static double start_of(unsigned bucket)
{
        unsigned octave = bucket >> LATENCY_SHIFT;
        uint64_t rest = bucket & (BIT(LATENCY_SHIFT) - 1);

        return octave ? (double)((BIT(LATENCY_SHIFT) + rest) << (octave - 1)) : (double)rest;
}

void latency_add(struct latency *l, uint64_t ns)
{
        uint32_t *count = &l->count[bucket_of(ns)];

        store_relaxed(count, *count + 1);
}

void latency_merge(struct latency *ret, const struct latency *from)
{
        for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
                ret->count[i] += load_relaxed(&from->count[i]);
}

void latency_subtract(struct latency *ret, const struct latency *before)
{
        for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
                ret->count[i] -= before->count[i];
}

uint64_t latency_total(const struct latency *l)
{
        uint64_t total = 0;

        for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
                total += l->count[i];
        return total;
}

double latency_percentile(const struct latency *l, double p)
{
        double wanted = p / 100 * (double)latency_total(l), below = 0;

        for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
                double here = l->count[i];

                if (here > 0 && below + here >= wanted) {
                        double start = start_of(i), width = start_of(i + 1) - start;

                        return start + width * (wanted - below) / here;
                }
                below += here;
        }
        return 0;
}
