/* src/bench/summary as a filter, for test_summary.py: each line of numbers becomes one of results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/latency.h"
#include "bench/summary.h"

#define VALUES_MAX 4096

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

int main(void)
{
        static double values[VALUES_MAX], ratios[VALUES_MAX];
        static struct latency latency;
        char *line = NULL;
        size_t room = 0;

        while (getline(&line, &room, stdin) > 0) {
                struct summary s, r;
                unsigned n = 0;

                latency = (struct latency){ 0 };
                for (char *word = strtok(line, " \n"); word && n < VALUES_MAX; word = strtok(NULL, " \n"))
                        values[n++] = strtod(word, NULL);
                for (unsigned i = 0; i < n; i++)
                        latency_add(&latency, (uint64_t)(fabs(values[i]) * 1e6));
                summary_ratios(values, values + n / 2, n / 2, ratios); /* the first half against the second */
                s = summary_of(values, n);
                r = summary_of(ratios, n / 2);
                qsort(values, n, sizeof(*values), by_value);
                printf("%u %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", s.n,
                       s.median, s.min, s.max, s.low, s.high, s.confidence, summary_percentile(values, n, 10),
                       summary_percentile(values, n, 99), r.median, latency_percentile(&latency, 50),
                       latency_percentile(&latency, 99));
        }
        free(line);
        return 0;
}
