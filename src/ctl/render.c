#include "ctl/render.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "vwire/stats.h"

/* ---- looking into an answer; what is missing reads as nothing ---- */

static uint64_t number(const json_t *object, const char *name)
{
        const json_t *value = json_object_get(object, name);

        return json_is_real(value) ? (uint64_t)json_real_value(value) : (uint64_t)json_integer_value(value);
}

static const char *string(const json_t *object, const char *name)
{
        const char *value = json_string_value(json_object_get(object, name));

        return value ? value : "-";
}

static bool is_true(const json_t *object, const char *name)
{
        return json_is_true(json_object_get(object, name));
}

static bool is_driver(const json_t *stats)
{
        return !strcmp(string(stats, "role"), "driver");
}

static uint64_t counter(const json_t *queue, enum vw_counter c)
{
        return number(json_object_get(queue, "counters"), vw_counter_name(c));
}

static uint64_t all_drops(const json_t *queue)
{
        const json_t *drops = json_object_get(queue, "drops");
        uint64_t sum = 0;

        for (enum vw_drop d = VW_DROP_NONE + 1; d < VW_DROP_COUNT; d++)
                sum += number(drops, vw_drop_name(d));
        return sum;
}

/* In a word: may frames cross this queue? */
static const char *condition(const json_t *queue)
{
        const char *broken = json_string_value(json_object_get(queue, "broken"));

        return broken ? broken : is_true(queue, "enabled") ? "ok" : "disabled";
}

/* ---- the first lines ---- */

static void print_uptime(FILE *out, uint64_t us)
{
        uint64_t s = us / 1000000;

        if (s >= 86400)
                fprintf(out, "%" PRIu64 "d ", s / 86400);
        fprintf(out, "%02d:%02d:%02d", (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
}

static void print_head(FILE *out, const json_t *stats)
{
        const json_t *port = json_object_get(stats, "port");
        const char *name = string(port, "name");

        fprintf(out, "%s  pid %" PRIu64 "  %s  up ", string(stats, "role"), number(stats, "pid"),
                string(stats, "state"));
        print_uptime(out, number(stats, "uptime_us"));
        if (json_is_object(port)) {
                fprintf(out, "\nport      %s%s%s, link %s", string(port, "kind"), *name ? " " : "", name,
                        string(port, "link"));
                if (number(port, "dropped"))
                        fprintf(out, ", %" PRIu64 " lost by the kernel", number(port, "dropped"));
                if (number(port, "capture_lost"))
                        fprintf(out, ", %" PRIu64 " lost to the capture", number(port, "capture_lost"));
        }
        fputc('\n', out);
}

static void print_words(FILE *out, const char *label, const json_t *words, unsigned width)
{
        unsigned at = (unsigned)fprintf(out, "%-10s", label), indent = at;
        const json_t *word;
        size_t i;

        json_array_foreach (words, i, word) {
                const char *text = json_string_value(word);

                if (at > indent && at + strlen(text) + 1 > width)
                        at = (unsigned)fprintf(out, "\n%*s", (int)indent, "") - 1;
                at += (unsigned)fprintf(out, "%s%s", at > indent ? " " : "", text);
        }
        fputs(json_array_size(words) ? "\n" : "-\n", out);
}

/* ---- the table: a column for each queue, as many beside each other as fit ---- */

#define LABEL  22 /* columns of a row's name: the longest counter's and a space */
#define COLUMN 16 /* columns of a value: petabytes in bytes */

struct block {
        FILE *out;
        const json_t *queues;
        size_t first, end; /* the queues in it */
};

typedef void cell_fn(const json_t *queue, const void *arg, char *buf, size_t len);

static void print_row(const struct block *b, const char *label, cell_fn *cell, const void *arg)
{
        fprintf(b->out, "%-*s", LABEL, label);
        for (size_t i = b->first; i < b->end; i++) {
                char value[32];

                cell(json_array_get(b->queues, i), arg, value, sizeof(value));
                fprintf(b->out, "%*s", COLUMN, value);
        }
        fputc('\n', b->out);
}

static void cell_name(const json_t *queue, const void *arg, char *buf, size_t len)
{
        (void)arg;
        snprintf(buf, len, "q%" PRIu64 " %s", number(queue, "index"), string(queue, "kind"));
}

static void cell_ring(const json_t *queue, const void *arg, char *buf, size_t len)
{
        (void)arg;
        if (number(queue, "size"))
                snprintf(buf, len, "%s %" PRIu64, string(queue, "ring"), number(queue, "size"));
        else
                snprintf(buf, len, "-"); /* not set up yet */
}

static void cell_condition(const json_t *queue, const void *arg, char *buf, size_t len)
{
        (void)arg;
        snprintf(buf, len, "%s", condition(queue));
}

static void cell_setting(const json_t *queue, const void *arg, char *buf, size_t len)
{
        const json_t *settings = json_object_get(queue, "settings");

        if (json_is_boolean(json_object_get(settings, arg)))
                snprintf(buf, len, "%s", is_true(settings, arg) ? "on" : "off");
        else
                snprintf(buf, len, "%" PRIu64, number(settings, arg));
}

static void cell_counter(const json_t *queue, const void *arg, char *buf, size_t len)
{
        const json_t *value = json_object_get(json_object_get(queue, "counters"), arg);

        if (value)
                snprintf(buf, len, "%" PRIu64, number(json_object_get(queue, "counters"), arg));
        else
                snprintf(buf, len, "-");
}

static void cell_drop(const json_t *queue, const void *arg, char *buf, size_t len)
{
        snprintf(buf, len, "%" PRIu64, number(json_object_get(queue, "drops"), arg));
}

static bool any(const struct block *b, const char *object, const char *name)
{
        for (size_t i = b->first; i < b->end; i++)
                if (number(json_object_get(json_array_get(b->queues, i), object), name))
                        return true;
        return false;
}

static void print_block(const struct block *b)
{
        static const char *const settings[] = { "poll_us", "usecs", "frames", "adaptive" };

        fputc('\n', b->out);
        print_row(b, "", cell_name, NULL);
        print_row(b, "ring", cell_ring, NULL);
        print_row(b, "state", cell_condition, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
                print_row(b, settings[i], cell_setting, settings[i]);
        for (enum vw_counter c = 0; c < VW_C_COUNT; c++)
                if (c == VW_C_packets || c == VW_C_bytes || any(b, "counters", vw_counter_name(c)))
                        print_row(b, vw_counter_name(c), cell_counter, vw_counter_name(c));
        for (enum vw_drop d = VW_DROP_NONE + 1; d < VW_DROP_COUNT; d++) {
                char label[32];

                snprintf(label, sizeof(label), "dropped %s", vw_drop_name(d));
                if (any(b, "drops", vw_drop_name(d)))
                        print_row(b, label, cell_drop, vw_drop_name(d));
        }
}

/* What is missing matters more than the list of what is there. */
static void print_sandbox(FILE *out, const json_t *sandbox, unsigned width)
{
        const json_t *off = json_object_get(sandbox, "off");

        if (!json_is_object(sandbox))
                return;
        if (!json_array_size(off))
                fprintf(out, "%-10s%s\n", "sandbox", "all layers");
        else if (!json_array_size(json_object_get(sandbox, "on")))
                fprintf(out, "%-10s%s\n", "sandbox", "off");
        else
                print_words(out, "sandbox   without ", off, width);
}

void render_stats(FILE *out, const json_t *stats, unsigned width)
{
        struct block b = { .out = out, .queues = json_object_get(stats, "queues") };
        size_t n = json_array_size(b.queues), fit = width > LABEL + COLUMN ? (width - LABEL) / COLUMN : 1;

        print_head(out, stats);
        print_words(out, "features", json_object_get(stats, "features"), width);
        print_words(out, "protocol", json_object_get(stats, "protocol_features"), width);
        print_sandbox(out, json_object_get(stats, "sandbox"), width);
        if (json_is_string(json_object_get(stats, "last_close")))
                fprintf(out, "%-10s%s\n", "last close", string(stats, "last_close"));
        for (; b.first < n; b.first = b.end) {
                b.end = MIN(b.first + fit, n);
                print_block(&b);
        }
}

/* ---- rates ---- */

static double rate(uint64_t before, uint64_t after, double seconds)
{
        return after > before && seconds > 0 ? (double)(after - before) / seconds : 0;
}

static const json_t *queue_of_index(const json_t *stats, uint64_t index)
{
        const json_t *queues = json_object_get(stats, "queues"), *queue;
        size_t i;

        json_array_foreach (queues, i, queue)
                if (number(queue, "index") == index)
                        return queue;
        return NULL;
}

/* Packets for each time that who takes them was woken: the device by a kick for tx, the driver by a call for rx. */
static void cell_per_wake(const json_t *queue, double packets, double kicks, double calls, char *buf,
                          size_t len)
{
        double wakes = strcmp(string(queue, "kind"), "rx") ? kicks : calls;

        if (wakes > 0)
                snprintf(buf, len, "%.1f", packets / wakes);
        else
                snprintf(buf, len, "-");
}

void render_rates(FILE *out, const json_t *before, const json_t *after)
{
        const json_t *queues = json_object_get(after, "queues"), *q;
        double s = rate(number(before, "uptime_us"), number(after, "uptime_us"), 1e6);
        enum vw_counter wake = is_driver(after) ? VW_C_interrupts : VW_C_calls;
        size_t i;

        print_head(out, after);
        fprintf(out, "%-10s %12s %10s %10s %12s %12s %10s  %s\n", "queue", "packets/s", "Mbit/s", "kicks/s",
                is_driver(after) ? "interrupts/s" : "calls/s", "packets/wake", "drops/s", "state");
        json_array_foreach (queues, i, q) {
                const json_t *old = queue_of_index(before, number(q, "index"));
                double packets = rate(counter(old, VW_C_packets), counter(q, VW_C_packets), s);
                double kicks = rate(counter(old, VW_C_kicks), counter(q, VW_C_kicks), s);
                double calls = rate(counter(old, wake), counter(q, wake), s);
                char name[32], per_wake[32];

                cell_name(q, NULL, name, sizeof(name));
                cell_per_wake(q, packets, kicks, calls, per_wake, sizeof(per_wake));
                fprintf(out, "%-10s %12.0f %10.1f %10.0f %12.0f %12s %10.0f  %s\n", name, packets,
                        rate(counter(old, VW_C_bytes), counter(q, VW_C_bytes), s) * 8 / 1e6, kicks, calls,
                        per_wake, rate(all_drops(old), all_drops(q), s), condition(q));
        }
}

/* ---- Prometheus' text format ---- */

static void print_label(FILE *out, const char *name, const char *value)
{
        fprintf(out, "%s=\"", name);
        for (; *value; value++) {
                if (*value == '\\' || *value == '"')
                        fputc('\\', out);
                if (*value == '\n')
                        fputs("\\n", out);
                else
                        fputc(*value, out);
        }
        fputc('"', out);
}

static void print_family(FILE *out, const char *name, const char *type, const char *help)
{
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The labels that every sample has; a queue's samples have two more. */
static void print_sample(FILE *out, const char *name, const json_t *stats, const json_t *queue)
{
        fprintf(out, "%s{", name);
        print_label(out, "role", string(stats, "role"));
        fputc(',', out);
        print_label(out, "port", string(json_object_get(stats, "port"), "name"));
        if (queue) {
                fprintf(out, ",queue=\"%" PRIu64 "\",", number(queue, "index"));
                print_label(out, "kind", string(queue, "kind"));
        }
}

static void print_gauge(FILE *out, const json_t *stats, const char *name, const char *help, double value)
{
        print_family(out, name, "gauge", help);
        print_sample(out, name, stats, NULL);
        fprintf(out, "} %.15g\n", value);
}

static void print_counter_family(FILE *out, const json_t *stats, enum vw_counter c)
{
        bool level = c == VW_C_bql_limit || c == VW_C_bql_inflight || c == VW_C_buffer_size ||
                     c == VW_C_average_length;
        const json_t *queues = json_object_get(stats, "queues"), *q;
        bool begun = false;
        char name[64];
        size_t i;

        snprintf(name, sizeof(name), "vwire_queue_%s%s", vw_counter_name(c), level ? "" : "_total");
        json_array_foreach (queues, i, q) {
                if (!json_object_get(json_object_get(q, "counters"), vw_counter_name(c)))
                        continue;
                if (!begun)
                        print_family(out, name, level ? "gauge" : "counter",
                                     "of a virtqueue; see vwire-ctl(1)");
                begun = true;
                print_sample(out, name, stats, q);
                fprintf(out, "} %" PRIu64 "\n", counter(q, c));
        }
}

static void print_drops(FILE *out, const json_t *stats)
{
        const json_t *queues = json_object_get(stats, "queues"), *q;
        size_t i;

        if (!json_array_size(queues))
                return;
        print_family(out, "vwire_queue_drops_total", "counter", "packets dropped, by reason");
        json_array_foreach (queues, i, q)
                for (enum vw_drop d = VW_DROP_NONE + 1; d < VW_DROP_COUNT; d++) {
                        print_sample(out, "vwire_queue_drops_total", stats, q);
                        fputc(',', out);
                        print_label(out, "reason", vw_drop_name(d));
                        fprintf(out, "} %" PRIu64 "\n", number(json_object_get(q, "drops"), vw_drop_name(d)));
                }
}

static void print_conditions(FILE *out, const json_t *stats, const char *name, const char *help,
                             const char *wanted)
{
        const json_t *queues = json_object_get(stats, "queues"), *q;
        size_t i;

        if (!json_array_size(queues))
                return;
        print_family(out, name, "gauge", help);
        json_array_foreach (queues, i, q) {
                bool is =
                        wanted ? !strcmp(condition(q), wanted) : json_is_string(json_object_get(q, "broken"));

                print_sample(out, name, stats, q);
                fprintf(out, "} %d\n", is);
        }
}

void render_prometheus(FILE *out, const json_t *stats)
{
        const json_t *port = json_object_get(stats, "port");

        print_gauge(out, stats, "vwire_uptime_seconds", "since this end started",
                    (double)number(stats, "uptime_us") / 1e6);
        print_gauge(out, stats, "vwire_running", "1 while rings run",
                    !strcmp(string(stats, "state"), "running"));
        if (json_is_object(port)) {
                print_gauge(out, stats, "vwire_port_link_up", "1 while the port has a carrier",
                            !strcmp(string(port, "link"), "up"));
                print_family(out, "vwire_port_dropped_total", "counter",
                             "frames that the kernel lost before they were read");
                print_sample(out, "vwire_port_dropped_total", stats, NULL);
                fprintf(out, "} %" PRIu64 "\n", number(port, "dropped"));
                print_family(out, "vwire_port_capture_lost_total", "counter",
                             "frames that a capture had no room for");
                print_sample(out, "vwire_port_capture_lost_total", stats, NULL);
                fprintf(out, "} %" PRIu64 "\n", number(port, "capture_lost"));
        }
        print_conditions(out, stats, "vwire_queue_enabled", "1 while frames may cross the queue", "ok");
        print_conditions(out, stats, "vwire_queue_broken", "1 when the peer broke the rules of the ring",
                         NULL);
        for (enum vw_counter c = 0; c < VW_C_COUNT; c++)
                print_counter_family(out, stats, c);
        print_drops(out, stats);
}

/* ---- the small ones ---- */

static bool contains(const json_t *list, const char *word)
{
        const json_t *value;
        size_t i;

        json_array_foreach (list, i, value)
                if (!strcmp(json_string_value(value) ? json_string_value(value) : "", word))
                        return true;
        return false;
}

static void print_bits(FILE *out, const json_t *negotiated, const char *(*name)(unsigned bit))
{
        for (unsigned bit = 0; bit < 64; bit++)
                if (name(bit))
                        fprintf(out, "%4u  %-24s %s\n", bit, name(bit),
                                contains(negotiated, name(bit)) ? "on" : "-");
}

void render_features(FILE *out, const json_t *stats)
{
        fputs(" bit  feature\n", out);
        print_bits(out, json_object_get(stats, "features"), vw_feature_name);
        fputs("\n bit  protocol feature\n", out);
        print_bits(out, json_object_get(stats, "protocol_features"), vw_protocol_feature_name);
}

void render_settings(FILE *out, const json_t *settings)
{
        const char *key;
        const json_t *value;

        json_object_foreach ((json_t *)settings, key, value) {
                if (json_is_string(value))
                        fprintf(out, "%s=%s\n", key, json_string_value(value));
                else
                        fprintf(out, "%s=%" PRIu64 "\n", key, number(settings, key));
        }
}

#define WHY_INDENT 4

void render_why(FILE *out, const json_t *why, unsigned width)
{
        const json_t *queues = json_object_get(why, "queues"), *q;
        size_t i;

        json_array_foreach (queues, i, q) {
                const char *text = string(q, "text");
                size_t at = (size_t)fprintf(out, "q%" PRIu64 " %s:", number(q, "index"), string(q, "kind"));

                while (*text) {
                        size_t len = strcspn(text, " ");

                        if (width && at + 1 + len > width)
                                at = (size_t)fprintf(out, "\n%*s", WHY_INDENT - 1, "") - 1;
                        at += (size_t)fprintf(out, " %.*s", (int)len, text);
                        text += len + (text[len] == ' ');
                }
                fputc('\n', out);
        }
}
