/* Options: what a table row lets through, and the one line it answers otherwise. */
#include "test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "opts.h"
#include "values.h"
#include "vwire/types.h"

static const char *const words[] = { "off", "rx", "tx", "both", NULL };

struct values {
        bool client;
        const char *path;
        unsigned poll_us, mode, size, watch;
        int nice, adaptive;
        uint8_t mac[6];
        uint64_t features;
        struct cpu_list cpus;
};

static const struct opt rows[] = {
        ROW_FLAG(struct values, client, "client", "connect"),
        ROW_TEXT(struct values, path, "socket-path", "PATH", NULL, "where"),
        ROW_NUMBER(struct values, poll_us, "poll-us", 0, 100000, "0", "microseconds"),
        ROW_SIGNED(struct values, nice, "nice", -20, 19, "-20", "priority"),
        ROW_WORD(struct values, adaptive, "adaptive", words, "off", "moderation"),
        ROW_OTHER(struct values, mac, "mac", "MAC", value_mac, NULL, "address"),
        ROW_OTHER(struct values, features, "features", "LIST", value_features, "all", "mask"),
        ROW_OTHER(struct values, mode, "socket-mode", "MODE", value_mode, "0600", "mode"),
        ROW_OTHER(struct values, cpus, "cpus", "LIST", value_cpus, NULL, "pins"),
        ROW_OTHER(struct values, size, "queue-size", "N", value_ring_size, "256", "entries"),
        ROW(struct values, watch, OPT_UNSIGNED, "watch", "MS", NULL, "again", .optional = "1000",
            .least = 100, .greatest = 5000),
};

/* One call of the program: values, verdict and the error line. */
struct run {
        struct values v;
        enum opt_verdict verdict;
        struct opts *opts;
        char why[OPT_WHY_LEN];
};

static void parse(struct run *run, const char *line)
{
        static char copy[4096];
        char *argv[64] = { (char *)"device" };
        int argc = 1;

        *run = (struct run){
                .v = {.features = ~UINT64_C(0), .nice = 7}
        };
        snprintf(copy, sizeof(copy), "%s", line);
        for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
                argv[argc++] = w;

        struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &run->v };
        const struct opt_group *groups[] = { &group };
        struct opt_page page = { .command = "vwire device", .groups = groups, .n_groups = 1, .args_max = 1 };

        run->verdict = opts_parse(&page, argc, argv, &run->opts, run->why);
}

static void expect_refusal(const char *line, const char *why)
{
        struct run run;

        parse(&run, line);
        EXPECT_EQ(run.verdict, OPTS_WRONG);
        EXPECT_STR(run.why, why);
        opts_free(run.opts);
}

TEST(opts, fill_every_kind)
{
        static const uint8_t mac[] = { 0x02, 0xab, 0xcd, 0xef, 0x01, 0x99 };
        struct run run;

        parse(&run,
              "--client --socket-path=/run/a.sock --poll-us 100000 --nice=-20 --adaptive=both --mac=02:ab:CD:ef:01:99 "
              "--socket-mode=660 --cpus=3,0-1 --queue-size=32768 word");
        EXPECT_EQ(run.verdict, OPTS_RUN);
        EXPECT(run.v.client);
        EXPECT_STR(run.v.path, "/run/a.sock");
        EXPECT_EQ(run.v.poll_us, 100000);
        EXPECT_EQ(run.v.nice, -20);
        EXPECT_EQ(run.v.adaptive, 3);
        EXPECT_MEM(run.v.mac, mac, 6);
        EXPECT_EQ(run.v.mode, 0660);
        EXPECT_EQ(run.v.cpus.n, 3);
        EXPECT_EQ(run.v.cpus.cpu[0], 3);
        EXPECT_EQ(run.v.cpus.cpu[2], 1);
        EXPECT_EQ(run.v.size, 32768);
        EXPECT_STR(opts_args(run.opts)[0], "word");
        EXPECT(opts_args(run.opts)[1] == NULL);
        opts_free(run.opts);
}

TEST(opts, leave_defaults_alone)
{
        struct run run;

        parse(&run, "");
        EXPECT_EQ(run.verdict, OPTS_RUN);
        EXPECT_EQ(run.v.nice, 7);
        EXPECT(run.v.path == NULL);
        EXPECT(opts_args(run.opts)[0] == NULL);
        opts_free(run.opts);
}

TEST(opts, last_of_several_wins)
{
        struct run run;

        parse(&run, "--socket-path=/a --poll-us=1 --socket-path=/b --poll-us=2");
        EXPECT_STR(run.v.path, "/b");
        EXPECT_EQ(run.v.poll_us, 2);
        opts_free(run.opts);
}

TEST(opts, optional_value_has_a_value_of_its_own)
{
        struct run run;

        parse(&run, "--watch");
        EXPECT_EQ(run.v.watch, 1000);
        opts_free(run.opts);
        parse(&run, "--watch=250");
        EXPECT_EQ(run.v.watch, 250);
        opts_free(run.opts);
        expect_refusal("--watch=99", "vwire device: --watch=99 is under the limit 100");
}

TEST(opts, features_are_masked_by_name)
{
        uint64_t mrg = UINT64_C(1) << vw_feature_bit("mrg_rxbuf"), event = UINT64_C(1)
                                                                           << vw_feature_bit("event_idx");
        struct run run;

        parse(&run, "--features=-mrg_rxbuf,-event_idx --features=+event_idx");
        EXPECT_EQ(run.verdict, OPTS_RUN);
        EXPECT_EQ(run.v.features & (mrg | event), event);
        opts_free(run.opts);
        expect_refusal(
                "--features=-mrg_rxbuff",
                "vwire device: --features=-mrg_rxbuff has no feature mrg_rxbuff: did you mean mrg_rxbuf?");
        expect_refusal("--features=mrg_rxbuf",
                       "vwire device: --features=mrg_rxbuf is not a list of +NAME and -NAME, as in "
                       "-mrg_rxbuf,-event_idx");
        expect_refusal("--features=-mrg_rxbuf,",
                       "vwire device: --features=-mrg_rxbuf, is not a list of +NAME and -NAME, as in "
                       "-mrg_rxbuf,-event_idx");
}

TEST(opts, refusals_name_option_value_and_limit)
{
        expect_refusal("--poll-us=200000", "vwire device: --poll-us=200000 is over the limit 100000");
        expect_refusal("--poll-us=-1", "vwire device: --poll-us=-1 is under the limit 0");
        expect_refusal("--poll-us=99999999999999999999999",
                       "vwire device: --poll-us=99999999999999999999999 is over the limit 100000");
        expect_refusal("--poll-us=18446744073709551617",
                       "vwire device: --poll-us=18446744073709551617 is over the limit 100000");
        expect_refusal("--poll-us=50us", "vwire device: --poll-us=50us is not a number of 0..100000");
        expect_refusal("--poll-us=0x10", "vwire device: --poll-us=0x10 is not a number of 0..100000");
        expect_refusal("--poll-us=+5", "vwire device: --poll-us=+5 is not a number of 0..100000");
        expect_refusal("--poll-us=", "vwire device: --poll-us= is not a number of 0..100000");
        expect_refusal("--nice=-21", "vwire device: --nice=-21 is under the limit -20");
        expect_refusal("--nice=20", "vwire device: --nice=20 is over the limit 19");
        expect_refusal("--nice=-", "vwire device: --nice=- is not a number of -20..19");
        expect_refusal("--adaptive=on", "vwire device: --adaptive=on is not one of off, rx, tx, both");
        expect_refusal("--socket-path=", "vwire device: --socket-path= is empty: PATH is needed");
        expect_refusal("--queue-size=100",
                       "vwire device: --queue-size=100 is not a power of two of 2..32768");
        expect_refusal("--queue-size=65536",
                       "vwire device: --queue-size=65536 is not a power of two of 2..32768");
        expect_refusal("--socket-mode=888",
                       "vwire device: --socket-mode=888 is not a mode of 0..0777, in octal");
        expect_refusal("--socket-mode=1777",
                       "vwire device: --socket-mode=1777 is not a mode of 0..0777, in octal");
        expect_refusal("--cpus=0,x", "vwire device: --cpus=0,x is not a list of CPUs, as in 0,2-3");
        expect_refusal("--cpus=3-1", "vwire device: --cpus=3-1 is not a list of CPUs, as in 0,2-3");
        expect_refusal("--cpus=1024", "vwire device: --cpus=1024 has a CPU over the limit 1023");
}

TEST(opts, macs_that_no_interface_can_have_are_refused)
{
        expect_refusal("--mac=01:00:00:00:00:01",
                       "vwire device: --mac=01:00:00:00:00:01 is a multicast address: an interface "
                       "cannot have it");
        expect_refusal("--mac=00:00:00:00:00:00",
                       "vwire device: --mac=00:00:00:00:00:00 is the zero address: an interface "
                       "cannot have it");
        expect_refusal("--mac=02:00:00:00:00",
                       "vwire device: --mac=02:00:00:00:00 is not a MAC address, six pairs of hexadecimal "
                       "digits with colons");
        expect_refusal("--mac=02:00:00:00:00:0g",
                       "vwire device: --mac=02:00:00:00:00:0g is not a MAC address, six pairs of "
                       "hexadecimal digits with colons");
}

TEST(opts, unknown_ones_name_the_nearest)
{
        expect_refusal("--pol-us=5", "vwire device: unknown option --pol-us: did you mean --poll-us?");
        expect_refusal("--socket=/a", "vwire device: unknown option --socket: did you mean --socket-path?");
        expect_refusal("--clinet", "vwire device: unknown option --clinet: did you mean --client?");
        expect_refusal("--hlep", "vwire device: unknown option --hlep: did you mean --help?");
}

TEST(opts, values_where_none_belong_and_the_other_way_round)
{
        expect_refusal("--client=yes", "vwire device: --client=yes: --client takes no value");
        expect_refusal("--socket-path", "vwire device: --socket-path needs a value");
        expect_refusal("one two", "vwire device: two is a word too many");
}

TEST(opts, errors_are_one_printable_line_of_bounded_length)
{
        char line[2000] = "--poll-us=";
        struct run run;

        memset(line + 10, 'x', sizeof(line) - 11);
        line[20] = '\n';
        parse(&run, line);
        EXPECT_EQ(run.verdict, OPTS_WRONG);
        EXPECT(strlen(run.why) < 200);
        EXPECT(!strchr(run.why, '\n'));
        opts_free(run.opts);
}

TEST(opts, help_is_asked_for_by_two_spellings)
{
        struct run run;

        parse(&run, "--help");
        EXPECT_EQ(run.verdict, OPTS_HELP);
        opts_free(run.opts);
        parse(&run, "--client -h");
        EXPECT_EQ(run.verdict, OPTS_HELP);
        opts_free(run.opts);
}

TEST(opts, help_names_every_option_with_limits_and_default_in_100_columns)
{
        struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows) };
        const struct opt_group *groups[] = { &group };
        struct opt_page page = { .command = "vwire device",
                                 .usage = "[options]",
                                 .about = "Serves.",
                                 .groups = groups,
                                 .n_groups = 1,
                                 .examples = "  vwire device\n" };
        char *text;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        opts_help(&page, out);
        fclose(out);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                EXPECT(strstr(text, rows[i].name));
        EXPECT(strstr(text, "--poll-us=N"));
        EXPECT(strstr(text, "microseconds, 0..100000 [0]"));
        EXPECT(strstr(text, "--adaptive=off|rx|tx|both"));
        EXPECT(strstr(text, "--watch[=MS]"));
        for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n"))
                EXPECT(strlen(l) <= 100);
        free(text);
}
