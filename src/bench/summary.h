/* What a handful of samples says: the median, an interval for it without any assumption about how the samples are
 * distributed, percentiles, and ratios formed pair by pair, since only neighbours in time compare. */
#pragma once
#include <stdbool.h>

struct summary {
        unsigned n; /* samples that were there; 0: nothing else is set */
        double median, min, max;
        double low, high; /* where the true median lies ... */
        double confidence; /* ... with this probability: at least SUMMARY_CONFIDENCE, or what min..max gives where n is too small */
};

#define SUMMARY_CONFIDENCE 0.95
#define SUMMARY_ENOUGH     0.9 /* what an interval must have before anything is concluded from it: five samples */

/* There are enough samples for conclusions. */
bool summary_enough(const struct summary *s);

/* Values that are not finite count as missing. */
struct summary summary_of(const double *values, unsigned n);

/* The p-th percentile (0..100) of sorted values, n >= 1, by linear interpolation between them. */
double summary_percentile(const double *sorted, unsigned n, double p);

/* after[i] / before[i] for each i; NAN where either is missing or nothing can be divided by. */
void summary_ratios(const double *before, const double *after, unsigned n, double *ret_ratios);

/* There are enough of both, and their intervals do not meet. */
bool summary_apart(const struct summary *a, const struct summary *b);
