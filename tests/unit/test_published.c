/* The published tables arrive as they were written down. */
#include <math.h>

#include "test.h"

#include "bench/published.h"

TEST(published, a_number_is_found_by_its_keys)
{
        EXPECT(published_number("busypoll_testA_tcp_rr", KEYS("msg_size_bytes", "64", "sessions", "50"),
                                "throughput_pct") == 17);
        EXPECT(published_number("busypoll_testB", KEYS("workload", "GUEST_TX", "msg_size_bytes", "1"),
                                "delta_pct") == -5.55);
        EXPECT(published_number("tx_napi_2017",
                                KEYS("test", "TCP_STREAM", "concurrency", "1", "metric", "throughput_mbps",
                                     "variant", "napi"),
                                "value") == 38782);
}

TEST(published, what_is_not_there_is_no_number)
{
        EXPECT(isnan(
                published_number("busypoll_testA_tcp_rr", KEYS("msg_size_bytes", "65"), "throughput_pct")));
        EXPECT(isnan(published_number("busypoll_testA_tcp_rr", KEYS("size", "64"), "throughput_pct")));
        EXPECT(isnan(published_number("busypoll_testA_tcp_rr", KEYS("msg_size_bytes", "64"), "throughput")));
        EXPECT(isnan(published_number("no_such_table", KEYS("msg_size_bytes", "64"), "throughput_pct")));
        EXPECT(isnan(published_number("tx_interrupts_2014", KEYS("source", "cover_letter_tx_intr_vs_orphan"),
                                      "low")));
        EXPECT(isnan(published_number("tx_interrupts_2014", KEYS("source", "coalescing_reply"), "unit")));
}
