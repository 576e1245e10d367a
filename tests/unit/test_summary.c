/* Statistics of samples; test_summary.py compares them with Python's on random ones. */
#include <math.h>
#include <stdbool.h>

#include "test.h"

#include "bench/summary.h"

static bool near(double a, double b)
{
        return fabs(a - b) < 1e-9 * fmax(1, fabs(b));
}

#define NEAR(a, b) EXPECT(near(a, b))

TEST(summary, median_of_odd_and_even_counts)
{
        NEAR(summary_of((double[]){ 3, 1, 2 }, 3).median, 2);
        NEAR(summary_of((double[]){ 4, 1, 3, 2 }, 4).median, 2.5);
        NEAR(summary_of((double[]){ 7 }, 1).median, 7);
}

TEST(summary, nothing_is_said_of_no_samples)
{
        EXPECT_EQ(summary_of(NULL, 0).n, 0);
        EXPECT_EQ(summary_of((double[]){ NAN, INFINITY }, 2).n, 0);
}

TEST(summary, missing_values_do_not_count)
{
        struct summary s = summary_of((double[]){ NAN, 5, 1, NAN, 3 }, 5);

        EXPECT_EQ(s.n, 3);
        NEAR(s.median, 3);
        NEAR(s.min, 1);
        NEAR(s.max, 5);
}

TEST(summary, few_samples_give_an_interval_from_end_to_end_and_say_how_sure_it_is)
{
        struct summary s = summary_of((double[]){ 1, 2, 3, 4, 5 }, 5);

        NEAR(s.low, 1);
        NEAR(s.high, 5);
        NEAR(s.confidence, 1 - 2 / 32.0);
}

TEST(summary, more_samples_leave_the_outermost_out)
{
        struct summary s = summary_of((double[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 9);

        NEAR(s.low, 2);
        NEAR(s.high, 8);
        NEAR(s.confidence, 1 - 2 * (1 + 9) / 512.0);
}

TEST(summary, percentiles_lie_between_the_samples)
{
        const double sorted[] = { 10, 20, 30, 40 };

        NEAR(summary_percentile(sorted, 4, 0), 10);
        NEAR(summary_percentile(sorted, 4, 50), 25);
        NEAR(summary_percentile(sorted, 4, 90), 37);
        NEAR(summary_percentile(sorted, 4, 100), 40);
}

TEST(summary, ratios_are_formed_pair_by_pair)
{
        double r[4];

        summary_ratios((double[]){ 2, 4, 0, NAN }, (double[]){ 3, 2, 1, 1 }, 4, r);
        NEAR(r[0], 1.5);
        NEAR(r[1], 0.5);
        EXPECT(isnan(r[2]) && isnan(r[3]));
}

TEST(summary, pairs_see_through_a_machine_that_changes_its_speed)
{
        const double a[] = { 100, 50, 100, 20, 90 }, b[] = { 110, 55, 110, 22, 99 };
        double r[5];
        struct summary ratio, of_a = summary_of(a, 5), of_b = summary_of(b, 5);

        summary_ratios(a, b, 5, r);
        ratio = summary_of(r, 5);
        NEAR(ratio.low, 1.1);
        NEAR(ratio.high, 1.1);
        EXPECT(!summary_apart(&of_a, &of_b)); /* though alone they say nothing */
}

TEST(summary, intervals_that_touch_are_not_apart)
{
        struct summary a = summary_of((double[]){ 1, 2, 2, 2, 3 }, 5),
                       b = summary_of((double[]){ 3, 4, 4, 4, 5 }, 5),
                       c = summary_of((double[]){ 4, 5, 5, 5, 6 }, 5), none = summary_of(NULL, 0);

        EXPECT(!summary_apart(&a, &b));
        EXPECT(summary_apart(&a, &c) && summary_apart(&c, &a));
        EXPECT(!summary_apart(&a, &none));
}

TEST(summary, four_samples_are_too_few_to_conclude_from)
{
        struct summary a = summary_of((double[]){ 1, 1, 1, 1 }, 4),
                       b = summary_of((double[]){ 9, 9, 9, 9 }, 4);

        EXPECT(!summary_apart(&a, &b));
        EXPECT(!summary_enough(&a));
}
