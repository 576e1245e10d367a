/* What iperf3 and sockperf print, as numbers. */
#pragma once
#include <stddef.h>

/* iperf3 -J: bits per second at the receiver, in Gbit/s.  0, or -1 with iperf3's own error in `why`. */
int measure_iperf(const char *text, double *ret_gbps, char *why, size_t len);

/* sockperf's summary: percentiles in microseconds.  0 or -1. */
int measure_sockperf(const char *text, double *ret_p50, double *ret_p99, char *why, size_t len);
