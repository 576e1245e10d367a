/* The control protocol as lines: what comes in, and exactly what goes out. */
#include "base/check.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "ctl/answer.h"
#include "ctl_script.h"

static void expect_answer_of(const struct ctl_ops *ops, struct ctl_script *s, const char *line,
                             const char *answer)
{
        struct text out = { 0 };
        int fd = -1;

        ctl_answer(ops, s, line, strlen(line), &fd, &out);
        EXPECT_EQ(out.failed, false);
        EXPECT_EQ(out.data[out.len - 1], '\n');
        out.data[out.len - 1] = '\0';
        EXPECT_STR(out.data, answer);
        text_done(&out);
}

static void expect_answer(struct ctl_script *s, const char *line, const char *answer)
{
        expect_answer_of(&ctl_script_ops, s, line, answer);
}

/* One command to a fresh script. */
static void expect(const char *line, const char *answer)
{
        struct ctl_script s;

        ctl_script_init(&s);
        expect_answer(&s, line, answer);
        ctl_script_done(&s);
}

static json_t *ask_stats(struct ctl_script *s, const struct ctl_ops *ops)
{
        struct text out = { 0 };
        json_t *answer, *stats;
        int fd = -1;

        ctl_answer(ops, s, "{\"id\":1,\"command\":\"stats\"}", 26, &fd, &out);
        answer = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
        EXPECT(answer);
        stats = json_incref(json_object_get(answer, "return"));
        EXPECT(stats);
        json_decref(answer);
        text_done(&out);
        return stats;
}

TEST(ctl_answer, gives_the_id_back_as_it_came)
{
        expect("{\"id\":1,\"command\":\"link\",\"arguments\":{\"up\":true}}", "{\"id\":1,\"return\":{}}");
        expect("{\"id\":-7,\"command\":\"stop\"}", "{\"id\":-7,\"return\":{}}");
        expect("{\"id\":\"a\\\"b\",\"command\":\"stop\"}", "{\"id\":\"a\\\"b\",\"return\":{}}");
        expect("{\"command\":\"stop\"}", "{\"id\":null,\"return\":{}}");
        expect("{\"id\":null,\"command\":\"stop\"}", "{\"id\":null,\"return\":{}}");
        expect("{\"id\":[1],\"command\":\"stop\"}",
               "{\"id\":null,\"error\":{\"class\":\"invalid-value\",\"message\":\"id is a "
               "number or a string\"}}");
}

TEST(ctl_answer, refuses_what_is_no_command)
{
        struct ctl_script s;
        struct text out = { 0 };
        int fd = -1;

        ctl_script_init(&s);
        ctl_answer(&ctl_script_ops, &s, "{\"id\":1,", 8, &fd, &out);
        EXPECT(strstr(out.data,
                      "{\"id\":null,\"error\":{\"class\":\"invalid-value\",\"message\":\"this is no JSON: "));
        text_done(&out);
        ctl_answer(&ctl_script_ops, &s, "", 0, &fd, &out);
        EXPECT(strstr(out.data, "\"invalid-value\""));
        text_done(&out);
        ctl_answer(&ctl_script_ops, &s, "{\"a\":1}\0{}", 10, &fd, &out);
        EXPECT(strstr(out.data, "\"invalid-value\""));
        text_done(&out);
        expect("[1]",
               "{\"id\":null,\"error\":{\"class\":\"invalid-value\",\"message\":\"a command is an object: "
               "{\\\"id\\\":1,\\\"command\\\":\\\"stats\\\"}\"}}");
        expect("{\"id\":1}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"command is needed, a string\"}}");
        expect("{\"id\":1,\"command\":3}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"command is needed, a string\"}}");
        expect("{\"id\":1,\"command\":\"stats\",\"arguments\":[]}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"arguments is an object\"}}");
        expect("{\"id\":2,\"command\":\"reboot\"}",
               "{\"id\":2,\"error\":{\"class\":\"unknown-command\",\"message\":\"there is no command reboot\"}}");
        ctl_script_done(&s);
}

TEST(ctl_answer, refuses_a_member_that_comes_twice)
{
        struct ctl_script s;
        struct text out = { 0 };
        int fd = -1;
        const char line[] = "{\"id\":1,\"command\":\"set\",\"arguments\":{\"tx-usecs\":1,\"tx-usecs\":2}}";

        ctl_script_init(&s);
        ctl_answer(&ctl_script_ops, &s, line, strlen(line), &fd, &out);
        EXPECT(strstr(out.data, "\"invalid-value\""));
        EXPECT_EQ(s.n_set, 0);
        text_done(&out);
        ctl_script_done(&s);
}

TEST(ctl_answer, sets_all_or_nothing)
{
        struct ctl_script s;

        ctl_script_init(&s);
        expect_answer(
                &s,
                "{\"id\":1,\"command\":\"set\",\"arguments\":{\"tx-usecs\":64,\"q3.tx-frames\":\"32\",\"adaptive\":\"both\"}}",
                "{\"id\":1,\"return\":{}}");
        EXPECT_EQ(s.n_set, 3);
        EXPECT_EQ(s.set[0].key, VW_KEY_TX_USECS);
        EXPECT_EQ(s.set[0].queue, -1);
        EXPECT_EQ(s.set[0].value, 64);
        EXPECT_EQ(s.set[1].key, VW_KEY_TX_FRAMES);
        EXPECT_EQ(s.set[1].queue, 3);
        EXPECT_EQ(s.set[2].value, VW_ADAPTIVE_BOTH);

        s.n_set = 0;
        expect_answer(
                &s, "{\"id\":1,\"command\":\"set\",\"arguments\":{\"tx-usecs\":64,\"rx-usecs\":10001}}",
                "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"rx-usecs=10001 is over the limit 10000\"}}");
        expect_answer(
                &s, "{\"id\":1,\"command\":\"set\",\"arguments\":{\"tx-usecs\":64,\"rx-usec\":1}}",
                "{\"id\":1,\"error\":{\"class\":\"unknown-key\",\"message\":\"there is no setting rx-usec\"}}");
        expect_answer(
                &s, "{\"id\":1,\"command\":\"set\",\"arguments\":{\"tx-usecs\":1.5}}",
                "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"tx-usecs=1.5 is not a number of 0..10000\"}}");
        expect_answer(
                &s, "{\"id\":1,\"command\":\"set\"}",
                "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"nothing to set: give KEY and value\"}}");
        expect_answer(
                &s, "{\"id\":1,\"command\":\"set\",\"arguments\":{\"bql\":true}}",
                "{\"id\":1,\"error\":{\"class\":\"unknown-key\",\"message\":\"this end has no setting bql\"}}");
        EXPECT_EQ(s.n_set, 0);
        expect_answer_of(&ctl_script_driver_ops, &s,
                         "{\"id\":1,\"command\":\"set\",\"arguments\":{\"bql\":true}}",
                         "{\"id\":1,\"return\":{}}");
        EXPECT_EQ(s.set[0].value, 1);
        ctl_script_done(&s);
}

TEST(ctl_answer, names_the_class_of_an_error)
{
        static const struct {
                int error;
                const char *class_name;
        } rows[] = {
                {-EINVAL,      "invalid-value"},
                { -ERANGE,     "invalid-value"},
                { -ENOENT,     "unknown-key"  },
                { -EOPNOTSUPP, "unsupported"  },
                { -EBUSY,      "wrong-state"  },
                { -ENOTCONN,   "wrong-state"  },
                { -EIO,        "io-error"     },
                { -ENOMEM,     "io-error"     },
        };
        struct ctl_script s;

        ctl_script_init(&s);
        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char answer[200];

                s.error = rows[i].error;
                snprintf(answer, sizeof(answer),
                         "{\"id\":1,\"error\":{\"class\":\"%s\",\"message\":\"the script says no\"}}",
                         rows[i].class_name);
                expect_answer(&s, "{\"id\":1,\"command\":\"set\",\"arguments\":{\"poll-us\":1}}", answer);
        }
        EXPECT_EQ(s.n_set, 0);
        ctl_script_done(&s);
}

TEST(ctl_answer, gets_what_is_asked_for_or_all_that_this_end_has)
{
        expect("{\"id\":1,\"command\":\"get\"}",
               "{\"id\":1,\"return\":{\"poll-us\":10,\"tx-usecs\":20,\"tx-frames\":30,\"rx-usecs\":40,\"rx-frames\":50,"
               "\"adaptive\":\"both\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"keys\":[\"q1.tx-usecs\",\"adaptive\",\"q1.tx-usecs\"]}}",
               "{\"id\":1,\"return\":{\"q1.tx-usecs\":22,\"adaptive\":\"both\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"keys\":[\"poll-us\",\"nope\"]}}",
               "{\"id\":1,\"error\":{\"class\":\"unknown-key\",\"message\":\"there is no setting nope\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"keys\":[\"q9.tx-usecs\"]}}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"q9.tx-usecs: this queue has no such setting\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"keys\":[\"tx-mode\"]}}",
               "{\"id\":1,\"error\":{\"class\":\"unknown-key\",\"message\":\"this end has no setting tx-mode\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"keys\":\"poll-us\"}}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"keys is a list of strings\"}}");
        expect("{\"id\":1,\"command\":\"get\",\"arguments\":{\"key\":\"poll-us\"}}",
               "{\"id\":1,\"error\":{\"class\":\"unknown-key\",\"message\":\"there is no argument key here\"}}");
}

TEST(ctl_answer, tells_why)
{
        expect("{\"id\":1,\"command\":\"why\"}",
               "{\"id\":1,\"return\":{\"queues\":[{\"index\":0,\"kind\":\"rx\",\"text\":\"queue 0 waits for a \\\"kick\\\"\"},"
               "{\"index\":1,\"kind\":\"tx\",\"text\":\"queue 1 waits for a \\\"kick\\\"\"}]}}");
        expect("{\"id\":1,\"command\":\"why\",\"arguments\":{\"queue\":1}}",
               "{\"id\":1,\"return\":{\"queues\":[{\"index\":1,\"kind\":\"tx\",\"text\":\"queue 1 waits for a \\\"kick\\\"\"}]}}");
        expect("{\"id\":1,\"command\":\"why\",\"arguments\":{\"queue\":2}}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"queue is a number under 2\"}}");
        expect("{\"id\":1,\"command\":\"why\",\"arguments\":{\"queue\":-1}}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"queue is a number under 2\"}}");
}

TEST(ctl_answer, takes_a_file_that_is_open_for_writing)
{
        const char *on = "{\"id\":1,\"command\":\"pcap\",\"arguments\":{\"on\":true}}";
        const char *off = "{\"id\":1,\"command\":\"pcap\",\"arguments\":{\"on\":false}}";
        int writable = open("/dev/null", O_WRONLY), readable = open("/dev/null", O_RDONLY), none = -1,
            fd = readable;
        struct ctl_script s;
        struct text out = { 0 };

        ctl_script_init(&s);
        ctl_answer(&ctl_script_ops, &s, on, strlen(on), &fd, &out);
        EXPECT(strstr(out.data, "\"the file is not open for writing\""));
        EXPECT_EQ(fd, readable);
        EXPECT_EQ(s.file, -1);
        text_done(&out);

        fd = writable;
        s.error = -ENOSPC;
        ctl_answer(&ctl_script_ops, &s, on, strlen(on), &fd, &out);
        EXPECT(strstr(out.data, "\"io-error\""));
        EXPECT_EQ(fd, writable);
        text_done(&out);

        s.error = 0;
        ctl_answer(&ctl_script_ops, &s, on, strlen(on), &fd, &out);
        EXPECT_STR(out.data, "{\"id\":1,\"return\":{}}\n");
        EXPECT_EQ(fd, -1);
        EXPECT_EQ(s.file, writable);
        text_done(&out);

        ctl_answer(&ctl_script_ops, &s, off, strlen(off), &none, &out);
        EXPECT(s.capture_ended);
        text_done(&out);
        expect(on,
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"no file came along with the command\"}}");
        close(readable);
        ctl_script_done(&s);
}

TEST(ctl_answer, says_what_an_end_cannot_do)
{
        struct ctl_script s;

        ctl_script_init(&s);
        expect_answer_of(
                &ctl_script_driver_ops, &s, "{\"id\":1,\"command\":\"link\",\"arguments\":{\"up\":true}}",
                "{\"id\":1,\"error\":{\"class\":\"unsupported\",\"message\":\"this end cannot link\"}}");
        expect("{\"id\":1,\"command\":\"link\",\"arguments\":{\"up\":1}}",
               "{\"id\":1,\"error\":{\"class\":\"invalid-value\",\"message\":\"up is needed, true or false\"}}");
        ctl_script_done(&s);
}

TEST(ctl_answer, stats_have_the_shape_of_the_contract)
{
        static const char *const members[] = { "role",  "pid",        "uptime_us",
                                               "state", "features",   "protocol_features",
                                               "port",  "last_close", "sandbox",
                                               "queues" };
        static const char *const queue_members[] = { "index",    "kind",    "pair",      "ring",
                                                     "size",     "enabled", "broken",    "settings",
                                                     "counters", "drops",   "ring_state" };
        struct ctl_script s;
        json_t *stats, *q;

        ctl_script_init(&s);
        stats = ask_stats(&s, &ctl_script_ops);
        EXPECT_EQ(json_object_size(stats), ARRAY_SIZE(members));
        for (unsigned i = 0; i < ARRAY_SIZE(members); i++)
                EXPECT(json_object_get(stats, members[i]));
        EXPECT_STR(json_string_value(json_object_get(stats, "role")), "device");
        EXPECT_STR(json_string_value(json_object_get(stats, "state")), "running");
        EXPECT_EQ(json_integer_value(json_object_get(stats, "uptime_us")), 3723000001);
        EXPECT_EQ(json_integer_value(json_object_get(stats, "pid")), getpid());
        EXPECT_STR(json_string_value(json_array_get(json_object_get(stats, "features"), 0)), "mrg_rxbuf");
        EXPECT_STR(json_string_value(json_array_get(json_object_get(stats, "features"), 1)), "version_1");
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(stats, "port"), "dropped")), 3);
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(stats, "port"), "capture_lost")), 4);
        EXPECT_STR(json_string_value(json_object_get(json_object_get(stats, "port"), "link")), "up");

        EXPECT_EQ(json_array_size(json_object_get(stats, "queues")), 2);
        q = json_array_get(json_object_get(stats, "queues"), 1);
        EXPECT_EQ(json_object_size(q), 11);
        for (unsigned i = 0; i < 11; i++)
                EXPECT(json_object_get(q, queue_members[i]));
        EXPECT(json_is_null(json_object_get(q, "broken")));
        EXPECT(json_is_true(json_object_get(q, "enabled")));
        EXPECT(json_is_false(json_object_get(json_object_get(q, "settings"), "adaptive")));
        EXPECT_STR(json_string_value(json_object_get(q, "kind")), "tx");
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(q, "counters"), "packets")),
                  2000 + VW_C_packets);
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(q, "counters"), "calls")),
                  2000 + VW_C_calls);
        EXPECT(!json_object_get(json_object_get(q, "counters"), "interrupts"));
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(q, "drops"), "bad-gso")), 1);
        EXPECT(!json_object_get(json_object_get(q, "drops"), "none"));
        EXPECT_EQ(json_integer_value(json_object_get(json_object_get(q, "ring_state"), "avail")), 7);
        json_decref(stats);

        s.stats.driver = true;
        s.stats.state = VW_LISTENING;
        s.stats.has_port = false;
        s.stats.queues[0].broken = "bad-used";
        stats = ask_stats(&s, &ctl_script_driver_ops);
        EXPECT_STR(json_string_value(json_object_get(stats, "role")), "driver");
        EXPECT(json_is_null(json_object_get(stats, "port")));
        q = json_array_get(json_object_get(stats, "queues"), 0);
        EXPECT_STR(json_string_value(json_object_get(q, "broken")), "bad-used");
        EXPECT(json_object_get(json_object_get(q, "counters"), "interrupts"));
        EXPECT(!json_object_get(json_object_get(q, "counters"), "reaped_by_rx"));
        json_decref(stats);
        ctl_script_done(&s);
}

/* hostile N08 */
TEST(ctl_answer, counters_are_unsigned_to_the_last_bit)
{
        struct ctl_script s;
        struct text out = { 0 };
        int fd = -1;

        ctl_script_init(&s);
        s.stats.queues[0].counters[VW_C_packets] = UINT64_MAX;
        s.stats.queues[0].counters[VW_C_bytes] = UINT64_C(1) << 32;
        ctl_answer(&ctl_script_ops, &s, "{\"id\":1,\"command\":\"stats\"}", 26, &fd, &out);
        EXPECT(strstr(out.data, "\"packets\":18446744073709551615,\"bytes\":4294967296,"));
        text_done(&out);
        ctl_script_done(&s);
}

TEST(ctl_answer, strings_that_are_no_utf8_or_hold_quotes_stay_json)
{
        struct ctl_script s;
        json_t *stats;

        ctl_script_init(&s);
        strcpy(s.stats.port.name, "a\"b\\\xff\n");
        stats = ask_stats(&s, &ctl_script_ops);
        EXPECT_STR(json_string_value(json_object_get(json_object_get(stats, "port"), "name")), "a\"b\\?\n");
        json_decref(stats);
        ctl_script_done(&s);
}

TEST(ctl_answer, the_largest_device_has_129_queues)
{
        struct ctl_script s;
        json_t *stats;

        ctl_script_init(&s);
        s.stats.n_queues = 129;
        for (unsigned i = 2; i < 129; i++) {
                s.stats.queues[i] = s.stats.queues[i % 2];
                s.stats.queues[i].index = i;
        }
        s.stats.queues[128].kind = VW_CTRL;
        stats = ask_stats(&s, &ctl_script_ops);
        EXPECT_EQ(json_array_size(json_object_get(stats, "queues")), 129);
        EXPECT_STR(json_string_value(
                           json_object_get(json_array_get(json_object_get(stats, "queues"), 128), "kind")),
                   "ctrl");
        json_decref(stats);
        ctl_script_done(&s);
}
