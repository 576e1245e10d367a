/* What people and Prometheus read. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/render.h"
#include "ctl/stats_json.h"
#include "ctl_script.h"

static json_t *stats_of(const struct vw_stats *stats)
{
        struct text t = { 0 };
        json_t *value;

        stats_json(&t, stats);
        value = json_loads(t.data, 0, NULL);
        EXPECT(value);
        text_done(&t);
        return value;
}

static char *text;
static size_t text_len;
static FILE *out;

static FILE *begin(void)
{
        out = open_memstream(&text, &text_len);
        return out;
}

/* What was written; valid until the next. */
static const char *end(void)
{
        static char copy[65536];

        fclose(out);
        snprintf(copy, sizeof(copy), "%s", text);
        free(text);
        return copy;
}

static unsigned count(const char *words, const char *part)
{
        unsigned n = 0;

        for (; (words = strstr(words, part)); words++)
                n++;
        return n;
}

TEST(ctl_render, a_drivers_json_has_the_histogram_of_its_receive_buffers)
{
        struct ctl_script s;
        json_t *stats, *sizes;

        ctl_script_init(&s);
        s.stats.driver = true;
        s.stats.n_queues = 2;
        s.stats.queues[0].kind = VW_RX;
        s.stats.queues[0].buffer_sizes[24] = 256;
        s.stats.queues[0].buffer_sizes[VW_BUFFER_SIZES - 1] = 3;
        s.stats.queues[1].kind = VW_TX;
        stats = stats_of(&s.stats);
        sizes = json_object_get(json_array_get(json_object_get(stats, "queues"), 0), "buffer_sizes");
        EXPECT_EQ(json_object_size(sizes), 2);
        EXPECT_EQ(json_integer_value(json_object_get(sizes, "1536")), 256);
        EXPECT_EQ(json_integer_value(json_object_get(sizes, "4096")), 3);
        EXPECT(!json_object_get(json_array_get(json_object_get(stats, "queues"), 1), "buffer_sizes"));
        json_decref(stats);
        ctl_script_done(&s);
}

TEST(ctl_render, the_table_says_which_layers_the_sandbox_lacks)
{
        static const struct {
                uint32_t on;
                const char *line;
        } rows[] = {
                {VW_SANDBOX_ALL,                                                    "sandbox   all layers\n"},
                { 0,                                                                "sandbox   off\n"       },
                { VW_SANDBOX_ALL & ~(1u << VW_SANDBOX_IPC | 1u << VW_SANDBOX_USER),
                 "sandbox   without user ipc\n"                                                             },
        };
        struct ctl_script s;

        ctl_script_init(&s);
        for (unsigned i = 0; i < 3; i++) {
                json_t *stats;

                s.stats.has_sandbox = true;
                s.stats.sandbox_on = rows[i].on;
                stats = stats_of(&s.stats);
                render_stats(begin(), stats, 80);
                EXPECT(strstr(end(), rows[i].line));
                json_decref(stats);
        }
        s.stats.has_sandbox = false;
        json_t *stats = stats_of(&s.stats);
        render_stats(begin(), stats, 80);
        EXPECT(!strstr(end(), "sandbox"));
        json_decref(stats);
}

TEST(ctl_render, the_table_has_a_column_for_each_queue)
{
        struct ctl_script s;
        json_t *stats;
        const char *words;

        ctl_script_init(&s);
        stats = stats_of(&s.stats);
        render_stats(begin(), stats, 100);
        words = end();
        EXPECT(strstr(words, "device  pid "));
        EXPECT(strstr(words, "  running  up 01:02:03\nport      tap tap0, link up, 3 lost by the kernel, "
                             "4 lost to the capture\n"));
        EXPECT(strstr(words, "features  mrg_rxbuf version_1\n"));
        EXPECT(strstr(words, "                                 q0 rx           q1 tx\n"));
        EXPECT(strstr(words, "packets                           1000            2000\n"));
        EXPECT(strstr(words, "dropped bad-gso                      0               1\n"));
        EXPECT(!strstr(words, "dropped mtu"));
        json_decref(stats);
}

TEST(ctl_render, many_queues_go_into_blocks_that_fit)
{
        struct ctl_script s;
        json_t *stats;
        char *line;
        static char words[65536];

        ctl_script_init(&s);
        s.stats.n_queues = 7;
        for (unsigned i = 2; i < 7; i++) {
                s.stats.queues[i] = s.stats.queues[i % 2];
                s.stats.queues[i].index = i;
        }
        stats = stats_of(&s.stats);
        render_stats(begin(), stats, 80);
        strcpy(words, end());
        EXPECT_EQ(count(words, "\nring "), 3);
        for (line = strtok(words, "\n"); line; line = strtok(NULL, "\n"))
                EXPECT(strlen(line) <= 80);
        json_decref(stats);
}

TEST(ctl_render, rates_are_differences_over_the_time_between)
{
        struct ctl_script s;
        json_t *before, *after;
        const char *words;

        ctl_script_init(&s);
        before = stats_of(&s.stats);
        s.stats.uptime_ns += 2000000000;
        s.stats.queues[1].counters[VW_C_packets] += 2000;
        s.stats.queues[1].counters[VW_C_bytes] += 2500000;
        s.stats.queues[1].counters[VW_C_kicks] += 100;
        s.stats.queues[1].counters[VW_C_calls] += 50;
        s.stats.queues[1].drops[VW_DROP_MTU] += 4;
        s.stats.queues[0].counters[VW_C_packets] += 600;
        s.stats.queues[0].counters[VW_C_calls] += 40;
        s.stats.queues[0].broken = "bad-head";
        after = stats_of(&s.stats);
        render_rates(begin(), before, after);
        words = end();
        EXPECT(strstr(
                words,
                "q0 rx               300        0.0          0           20         15.0          0  bad-head\n"));
        EXPECT(strstr(
                words,
                "q1 tx              1000       10.0         50           25         20.0          2  ok\n"));
        /* a restarted end counts from zero again */
        render_rates(begin(), after, before);
        EXPECT(strstr(
                end(),
                "q1 tx                 0        0.0          0            0            -          0  ok\n"));
        /* the first time: what it has done since it began */
        s.stats.uptime_ns = 4000000000;
        s.stats.queues[1].counters[VW_C_packets] = 8000;
        json_decref(after);
        after = stats_of(&s.stats);
        render_rates(begin(), NULL, after);
        EXPECT(strstr(end(), "q1 tx              2000 "));
        json_decref(before);
        json_decref(after);
}

TEST(ctl_render, prometheus_has_help_and_type_once_and_escapes_labels)
{
        struct ctl_script s;
        json_t *stats;
        const char *words;

        ctl_script_init(&s);
        strcpy(s.stats.port.name, "a\"b\\c\nd");
        stats = stats_of(&s.stats);
        render_prometheus(begin(), stats);
        words = end();
        EXPECT_EQ(count(words, "# TYPE vwire_queue_packets_total counter\n"), 1);
        EXPECT_EQ(count(words, "# HELP vwire_queue_packets_total "), 1);
        EXPECT(strstr(
                words,
                "vwire_queue_packets_total{role=\"device\",port=\"a\\\"b\\\\c\\nd\",queue=\"1\",kind=\"tx\"} 2000\n"));
        EXPECT(strstr(
                words,
                "vwire_queue_drops_total{role=\"device\",port=\"a\\\"b\\\\c\\nd\",queue=\"1\",kind=\"tx\",reason=\"bad-gso\"} 1\n"));
        EXPECT(strstr(words, "vwire_port_link_up{"));
        EXPECT(strstr(words, "vwire_port_capture_lost_total{"));
        EXPECT(!strstr(words, "interrupts"));
        json_decref(stats);
}

TEST(ctl_render, levels_are_gauges)
{
        struct ctl_script s;
        json_t *stats;
        const char *words;

        ctl_script_init(&s);
        s.stats.driver = true;
        stats = stats_of(&s.stats);
        render_prometheus(begin(), stats);
        words = end();
        EXPECT(strstr(words, "# TYPE vwire_queue_bql_limit gauge\n"));
        EXPECT(strstr(words, "# TYPE vwire_queue_buffer_size gauge\n"));
        EXPECT(strstr(words, "# TYPE vwire_queue_interrupts_total counter\n"));
        EXPECT(!strstr(words, "vwire_queue_calls_total"));
        json_decref(stats);
}

/* An answer from elsewhere need not have what we expect. */
TEST(ctl_render, missing_members_read_as_nothing)
{
        json_t *odd = json_loads(
                "{\"queues\":[{},{\"index\":\"x\",\"counters\":[]}],\"features\":[1],\"port\":7}", 0, NULL);
        json_t *none = json_object();

        render_stats(begin(), odd, 10);
        end();
        render_stats(begin(), none, 100);
        end();
        render_rates(begin(), none, odd);
        end();
        render_prometheus(begin(), odd);
        end();
        render_features(begin(), odd);
        end();
        render_why(begin(), odd, 0);
        EXPECT_STR(end(), "q0 -: -\nq0 -: -\n");
        json_decref(odd);
        json_decref(none);
}

TEST(ctl_render, why_is_a_line_a_queue_or_fits_the_terminal)
{
        json_t *why = json_loads(
                "{\"queues\":[{\"index\":0,\"kind\":\"rx\",\"text\":\"running; waits for frames\"},"
                "{\"index\":1,\"kind\":\"tx\",\"text\":\"alongwordthatfitsnowhere ok\"}]}",
                0, NULL);

        render_why(begin(), why, 0);
        EXPECT_STR(end(), "q0 rx: running; waits for frames\nq1 tx: alongwordthatfitsnowhere ok\n");
        render_why(begin(), why, 20);
        EXPECT_STR(end(),
                   "q0 rx: running;\n    waits for frames\nq1 tx:\n    alongwordthatfitsnowhere\n    ok\n");
        json_decref(why);
}

TEST(ctl_render, settings_are_words_for_set)
{
        json_t *settings = json_loads("{\"poll-us\":50,\"adaptive\":\"both\"}", 0, NULL);

        render_settings(begin(), settings);
        EXPECT_STR(end(), "poll-us=50\nadaptive=both\n");
        json_decref(settings);
}

TEST(ctl_render, features_show_what_is_on)
{
        struct ctl_script s;
        json_t *stats;
        const char *words;

        ctl_script_init(&s);
        stats = stats_of(&s.stats);
        render_features(begin(), stats);
        words = end();
        EXPECT(strstr(words, "  15  mrg_rxbuf                on\n"));
        EXPECT(strstr(words, "  29  event_idx                -\n"));
        json_decref(stats);
}
