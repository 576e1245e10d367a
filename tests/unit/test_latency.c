/* The histogram of times. */
#include <math.h>

#include "test.h"

#include "bench/latency.h"

TEST(latency, percentiles_are_right_to_a_per_cent_at_any_scale)
{
        for (uint64_t scale = 1; scale < UINT64_C(10000000); scale *= 10) {
                static struct latency l;

                l = (struct latency){ 0 };
                for (uint64_t i = 1; i <= 1000; i++)
                        latency_add(&l, i * scale);
                EXPECT_EQ(latency_total(&l), 1000);
                EXPECT(fabs(latency_percentile(&l, 50) / (500.0 * (double)scale) - 1) < 0.01);
                EXPECT(fabs(latency_percentile(&l, 99) / (990.0 * (double)scale) - 1) < 0.01);
        }
}

TEST(latency, a_window_is_the_difference_of_two_copies)
{
        static struct latency l, before, window;

        latency_add(&l, 1000000);
        before = l;
        for (unsigned i = 0; i < 100; i++)
                latency_add(&l, 5000);
        latency_merge(&window, &l);
        latency_subtract(&window, &before);
        EXPECT_EQ(latency_total(&window), 100);
        EXPECT(fabs(latency_percentile(&window, 50) / 5000 - 1) < 0.01);
}

TEST(latency, what_is_longer_than_all_buckets_counts_as_the_longest)
{
        static struct latency l;

        latency_add(&l, UINT64_MAX);
        latency_add(&l, 0);
        EXPECT_EQ(latency_total(&l), 2);
        EXPECT(latency_percentile(&l, 99) > 30e9);
        EXPECT(latency_percentile(&l, 10) <= 1);
}
