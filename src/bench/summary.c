#include "bench/summary.h"

#include <math.h>
#include <stdlib.h>

#define INLINE_MAX 256 /* samples that need no heap: a run has a dozen */

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double summary_percentile(const double *sorted, unsigned n, double p)
{
        double at = p / 100 * (n - 1);
        unsigned i = (unsigned)at;

        return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* How many of n samples may be left out at either side so that the rest still encloses the median with enough probability:
 * each sample is below it with probability 1/2, so the number below is binomial. */
static unsigned trimmed(unsigned n, double *ret_confidence)
{
        double chance = pow(0.5, n), tail = 0; /* that exactly k are below; that at most k are */
        unsigned k = 0;

        *ret_confidence = 1 - 2 * chance;
        for (; k < n / 2; k++) {
                tail += chance;
                if (1 - 2 * tail < SUMMARY_CONFIDENCE)
                        break;
                *ret_confidence = 1 - 2 * tail;
                chance *= (double)(n - k) / (k + 1);
        }
        return k ? k - 1 : 0;
}

struct summary summary_of(const double *values, unsigned n)
{
        double room[INLINE_MAX], *sorted = n <= INLINE_MAX ? room : malloc(n * sizeof(*sorted));
        struct summary s = { 0 };
        unsigned cut;

        if (!sorted)
                return s;
        for (unsigned i = 0; i < n; i++)
                if (isfinite(values[i]))
                        sorted[s.n++] = values[i];
        if (s.n) {
                qsort(sorted, s.n, sizeof(*sorted), by_value);
                cut = trimmed(s.n, &s.confidence);
                s.median = summary_percentile(sorted, s.n, 50);
                s.min = sorted[0];
                s.max = sorted[s.n - 1];
                s.low = sorted[cut];
                s.high = sorted[s.n - 1 - cut];
        }
        if (sorted != room)
                free(sorted);
        return s;
}

void summary_ratios(const double *before, const double *after, unsigned n, double *ret_ratios)
{
        for (unsigned i = 0; i < n; i++)
                ret_ratios[i] = isfinite(before[i]) && isfinite(after[i]) && before[i] != 0
                                        ? after[i] / before[i]
                                        : NAN;
}

bool summary_enough(const struct summary *s)
{
        return s->n && s->confidence >= SUMMARY_ENOUGH;
}

bool summary_apart(const struct summary *a, const struct summary *b)
{
        return summary_enough(a) && summary_enough(b) && (a->low > b->high || b->low > a->high);
}
