/* What other programs print, read. */
#include "test.h"

#include "measure.h"

TEST(measure, iperf3_throughput_is_what_the_receiver_saw)
{
        double gbps = 0;
        char why[100];

        EXPECT_EQ(
                measure_iperf(
                        "{\"end\":{\"sum_sent\":{\"bits_per_second\":9e9},\"sum_received\":{\"bits_per_second\":12345000000.5}}}",
                        &gbps, why, sizeof(why)),
                0);
        EXPECT(gbps > 12.344 && gbps < 12.346);
}

TEST(measure, iperf3_errors_are_told)
{
        double gbps = 7;
        char why[100];

        EXPECT_EQ(measure_iperf("{\"start\":{},\"end\":{},\"error\":\"unable to connect\"}", &gbps, why,
                                sizeof(why)),
                  -1);
        EXPECT_STR(why, "iperf3: unable to connect");
        EXPECT_EQ(measure_iperf("", &gbps, why, sizeof(why)), -1);
        EXPECT_STR(why, "iperf3: no report");
        EXPECT_EQ(measure_iperf("{\"end\":{\"sum_received\":{}}}", &gbps, why, sizeof(why)), -1);
        EXPECT(gbps == 7);
}

TEST(measure, sockperf_percentiles)
{
        static const char text[] =
                "sockperf: Summary: Round trip is 57.1 usec\n"
                "sockperf: Total 1000 observations; each percentile contains 10.00 observations\n"
                "sockperf: ---> <MAX> observation =  304.121\n"
                "sockperf: ---> percentile 99.900 =  120.222\n"
                "sockperf: ---> percentile 99.000 =   93.812\n"
                "sockperf: ---> percentile 50.000 =   55.310\n";
        double p50 = 0, p99 = 0;
        char why[100];

        EXPECT_EQ(measure_sockperf(text, &p50, &p99, why, sizeof(why)), 0);
        EXPECT(p50 == 55.310);
        EXPECT(p99 == 93.812);
}

TEST(measure, sockperf_errors_are_told)
{
        double p50 = 7, p99 = 7;
        char why[100];

        EXPECT_EQ(measure_sockperf("sockperf: ERROR: Can`t connect socket\nmore\n", &p50, &p99, why,
                                   sizeof(why)),
                  -1);
        EXPECT_STR(why, "sockperf: ERROR: Can`t connect socket");
        EXPECT_EQ(measure_sockperf("", &p50, &p99, why, sizeof(why)), -1);
        EXPECT_STR(why, "sockperf: no summary; it ended with \"\"");
        EXPECT_EQ(measure_sockperf("sockperf: Warmup\nsockperf: Starting\n\n", &p50, &p99, why, sizeof(why)),
                  -1);
        EXPECT_STR(why, "sockperf: no summary; it ended with \"sockperf: Starting\"");
        EXPECT_EQ(measure_sockperf("sockperf: ---> percentile 50.000 = x\n", &p50, &p99, why, sizeof(why)),
                  -1);
        EXPECT(p50 == 7 && p99 == 7);
}
