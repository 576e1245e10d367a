#include "measure.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

int measure_iperf(const char *text, double *ret_gbps, char *why, size_t len)
{
        json_t *report = json_loads(text, 0, NULL);
        const json_t *sum = json_object_get(json_object_get(report, "end"), "sum_received");
        const json_t *bits = json_object_get(sum, "bits_per_second");
        const char *error = json_string_value(json_object_get(report, "error"));
        bool good = json_is_number(bits) && !error;

        if (good)
                *ret_gbps = json_number_value(bits) / 1e9;
        else
                snprintf(why, len, "iperf3: %s", error ? error : "no report");
        json_decref(report);
        return good ? 0 : -1;
}

/* "sockperf: ---> percentile 99.000 =   93.812" */
static bool find_percentile(const char *text, const char *name, double *ret_value)
{
        const char *at = strstr(text, name);

        return at && sscanf(at + strlen(name), " = %lf", ret_value) == 1;
}

/* The last line that has anything in it. */
static const char *last_line(const char *text)
{
        const char *last = text, *next;

        while ((next = strchr(text, '\n'))) {
                last = next > text ? text : last;
                text = next + 1;
        }
        return *text ? text : last;
}

int measure_sockperf(const char *text, double *ret_p50, double *ret_p99, char *why, size_t len)
{
        double p50, p99;

        if (!find_percentile(text, "percentile 50.000", &p50) ||
            !find_percentile(text, "percentile 99.000", &p99)) {
                const char *error = strstr(text, "ERROR:"), *last = last_line(text);

                if (error)
                        snprintf(why, len, "sockperf: %.*s", (int)strcspn(error, "\n"), error);
                else
                        snprintf(why, len, "sockperf: no summary; it ended with \"%.*s\"",
                                 (int)strcspn(last, "\n"), last);
                return -1;
        }
        *ret_p50 = p50;
        *ret_p99 = p99;
        return 0;
}
