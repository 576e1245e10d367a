#include "bench/anchors.h"

#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "bench/published.h"

static bool found(double low, double high, double *ret_low, double *ret_high)
{
        if (isnan(low) || isnan(high))
                return false;
        *ret_low = low;
        *ret_high = high;
        return true;
}

static bool is_headline(const struct cell *cell, enum metric metric)
{
        return metric == workload_info[cell->work].headline;
}

bool anchor_busypoll(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                     double *ret_high)
{
        static const char *const tables[WORK_COUNT] = { [WORK_TCP_RR] = "busypoll_testA_tcp_rr",
                                                        [WORK_GUEST_TX] = "busypoll_testA_guest_tx",
                                                        [WORK_GUEST_RX] = "busypoll_testA_guest_rx" };
        static const char *const columns[METRIC_COUNT] = { [METRIC_PER_CPU] = "normalized_pct",
                                                           [METRIC_TX_PACKETS] = "tx_packets_pct",
                                                           [METRIC_RX_PACKETS] = "rx_packets_pct",
                                                           [METRIC_KICKS] = "ioexits_pct" };
        const char *column = is_headline(cell, metric) ? "throughput_pct" : columns[metric];
        char size[16], sessions[16];
        double change;

        if (!variant || !tables[cell->work] || !column)
                return false;
        snprintf(size, sizeof(size), "%u", cell->size);
        snprintf(sessions, sizeof(sessions), "%u", cell->sessions);
        change = published_number(tables[cell->work], KEYS("msg_size_bytes", size, "sessions", sessions),
                                  column);
        return found(change, change, ret_low, ret_high);
}

bool anchor_contention(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                       double *ret_high)
{
        char size[16];
        double change;

        if (!variant || !is_headline(cell, metric))
                return false;
        snprintf(size, sizeof(size), "%u", cell->size);
        change = published_number("busypoll_testB",
                                  KEYS("workload", workload_info[cell->work].name, "msg_size_bytes", size),
                                  "delta_pct");
        return found(change, change, ret_low, ret_high);
}

static const char *const txnapi_names[TXNAPI_COUNT] = { [TXNAPI_ORPHAN] = "upstream",
                                                        [TXNAPI_NAPI] = "napi",
                                                        [TXNAPI_COALESCE] = "+vhost",
                                                        [TXNAPI_AT_RX] = "+at-rx",
                                                        [TXNAPI_BOTH] = "+v+at-rx" };

/* Bytes a packet were printed for two variants only, and one of them under another name. */
static double txnapi_length(const struct cell *cell, unsigned variant)
{
        const char *name = variant == TXNAPI_AT_RX ? "at_rx" : txnapi_names[variant];
        char streams[16];

        snprintf(streams, sizeof(streams), "%u", cell->sessions);
        return published_number("tx_napi_2017_bytes_per_pkt", KEYS("variant", name, "streams", streams),
                                "bytes_per_pkt");
}

static double txnapi_value(const struct cell *cell, unsigned variant, const char *metric)
{
        const char *test = cell->work == WORK_TCP_RR ? "TCP_RR" : "TCP_STREAM";
        char concurrency[16];

        snprintf(concurrency, sizeof(concurrency), "%u", cell->sessions);
        return published_number("tx_napi_2017",
                                KEYS("test", test, "concurrency", concurrency, "metric", metric, "variant",
                                     txnapi_names[variant]),
                                "value");
}

bool anchor_txnapi(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                   double *ret_high)
{
        static const char *const names[METRIC_COUNT] = { [METRIC_GBPS] = "throughput_mbps",
                                                         [METRIC_CPU] = "gcycles",
                                                         [METRIC_P50] = "latency_p50_us",
                                                         [METRIC_P99] = "latency_p99_us" };
        bool rr = cell->work == WORK_TCP_RR && cell->size == 1;
        bool stream = cell->work == WORK_GROW_TX || (cell->work == WORK_GUEST_TX && cell->size == 16384);
        double before, after;

        if (variant == TXNAPI_ORPHAN || variant == TXNAPI_LAZY || cell->threads > 1 || (!rr && !stream))
                return false;
        /* this value equals the cycle count printed below it, and is twice its neighbours: a slip */
        if (metric == METRIC_P50 && cell->sessions == 100 && variant == TXNAPI_AT_RX)
                return false;
        if (metric == METRIC_TX_LENGTH && stream) {
                before = txnapi_length(cell, TXNAPI_ORPHAN);
                after = txnapi_length(cell, variant);
        } else if (names[metric]) {
                before = txnapi_value(cell, TXNAPI_ORPHAN, names[metric]);
                after = txnapi_value(cell, variant, names[metric]);
        } else {
                return false;
        }
        return found((after / before - 1) * 100, (after / before - 1) * 100, ret_low, ret_high);
}

/* The cover letter compares interrupts with none, the reply coalesced ones with those at once.  What it removes or saves is a
 * fall, and the larger the number the deeper. */
bool anchor_txintr(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                   double *ret_high)
{
        /* clang-format off */
        static const struct row {
                unsigned variant;
                enum workload work;
                enum metric metric;
                const char *source, *workload, *what;
                int sign;
        } rows[] = {
                { TXINTR_EACH,     WORK_TCP_RR,   METRIC_TPS,           "cover_letter_tx_intr_vs_orphan", "tcp_rr",         "regression",                   -1 },
                { TXINTR_COALESCE, WORK_GUEST_RX, METRIC_CPU,           "coalescing_reply",               "guest_rx",       "cpu_saved",                    -1 },
                { TXINTR_COALESCE, WORK_GUEST_RX, METRIC_TX_INTERRUPTS, "coalescing_reply",               "guest_rx",       "tx_interrupts_removed",        -1 },
                { TXINTR_COALESCE, WORK_GUEST_TX, METRIC_GBPS,          "coalescing_reply",               "guest_tx_small", "throughput_gain",               1 },
                { TXINTR_COALESCE, WORK_GUEST_TX, METRIC_TX_INTERRUPTS, "coalescing_reply",               "guest_tx_small", "tx_interrupts_removed_approx", -1 },
                { TXINTR_COALESCE, WORK_TCP_RR,   METRIC_TPS,           "coalescing_reply",               "tcp_rr",         "transaction_rate_gain",         1 },
                { TXINTR_COALESCE, WORK_TCP_RR,   METRIC_TX_INTERRUPTS, "coalescing_reply",               "tcp_rr",         "tx_interrupts_removed",        -1 },
        };
        /* clang-format on */

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct row *r = &rows[i];
                const char *const *keys =
                        KEYS("source", r->source, "workload", r->workload, "metric", r->what);
                double low, high;

                if (r->variant != variant || r->work != cell->work || r->metric != metric ||
                    (cell->work == WORK_GUEST_TX && cell->size > TXINTR_SMALL))
                        continue;
                low = r->sign * published_number("tx_interrupts_2014", keys, "low");
                high = r->sign * published_number("tx_interrupts_2014", keys, "high");
                return found(fmin(low, high), fmax(low, high), ret_low, ret_high);
        }
        return false;
}

/* One guest's TCP stream with all offloads: packets of up to 64 KiB. */
bool anchor_autotune(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                     double *ret_high)
{
        static const char *const names[AUTOTUNE_COUNT] = { [AUTOTUNE_PAGE] =
                                                                   "page_size_bufs_before_2613af0ed18a",
                                                           [AUTOTUNE_MTU] = "mtu_size_bufs_net_next",
                                                           [AUTOTUNE_AUTO] = "auto_tune" };
        double value[2];

        if (variant == AUTOTUNE_PAGE || cell->work != WORK_GUEST_RX || cell->size < 65535 ||
            metric != METRIC_GBPS)
                return false;
        for (unsigned i = 0; i < 2; i++)
                value[i] =
                        published_number("autotune_2014", KEYS("variant", names[i ? variant : AUTOTUNE_PAGE]),
                                         "netperf_tcp_stream_value");
        return found((value[1] / value[0] - 1) * 100, (value[1] / value[0] - 1) * 100, ret_low, ret_high);
}
