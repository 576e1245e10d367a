/* `vwire bench`: the published experiments with vwire in the place of virtio-net and vhost-net. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "bench/report.h"
#include "bench/server.h"
#include "bench/traffic.h"
#include "bench_run.h"
#include "child.h"
#include "cli.h"
#include "guest.h"
#include "netns.h"
#include "opts.h"
#include "stop.h"

#define COMMAND      "vwire bench"

#define REPEAT_QUICK 5
#define REPEAT_FULL  9
#define NAMES_MAX    16

static struct bench_options {
        bool quick;
        unsigned repeat; /* 0: as quick says */
        int guest;
        const char *json, *html;
} options;

enum { GUEST_VWIRE, GUEST_UML };
static const char *const guest_words[] = { "vwire", "uml", NULL };

static const struct opt rows[] = {
        ROW_FLAG(struct bench_options, quick, "quick",
                 "fewer cells and shorter windows: `all` in under ten minutes"),
        ROW_NUMBER(struct bench_options, repeat, "repeat", 1, 99, "9, or 5 with --quick",
                   "rounds of each cell"),
        ROW_WORD(
                struct bench_options, guest, "guest", guest_words, "vwire",
                "what drives the device: vwire's own driver, or Linux as a program (User Mode Linux) where that one's driver can"),
        ROW_TEXT(struct bench_options, json, "json", "FILE", NULL,
                 "every sample, the machine and the settings, as JSON"),
        ROW_TEXT(struct bench_options, html, "html", "FILE", NULL,
                 "tables and charts as one page that needs nothing else; drawn by gnuplot"),
};

static const struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options };
static const struct opt_group *const groups[] = { &group };

static const struct opt_page page = {
        .command = COMMAND,
        .usage = "COMMAND [options]",
        .about =
                "Repeats the published experiments with vwire in the place of vhost-net and virtio-net, and shows the published change "
                "beside the measured one. Variants take turns, so that a machine whose speed changes does not decide. Works as root, or "
                "without where user namespaces are allowed. SIGINT ends it early and keeps what is done.",
        .topics = "commands:\n"
                  "  list                    the experiments, a line each\n"
                  "  run NAME...|all         run them and print their tables\n"
                  "  report FILE...          the tables (and --html) of earlier runs' --json, as one\n"
                  "  compare A.json B.json   what differs between two runs beyond the noise\n"
                  "  serve ADDRESS           the guest's side of the traffic, for a guest that is not ours\n",
        .examples = "  vwire bench run all --quick --html=bench.html\n"
                    "  vwire bench run busypoll contention --json=today.json\n"
                    "  vwire bench compare yesterday.json today.json\n",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
        .args_max = NAMES_MAX + 1,
};

static int fail(const char *fmt, const char *detail)
{
        opts_refuse(COMMAND, fmt, detail);
        return STATUS_FAILED;
}

/* ---- where results go ---- */

/* Opened before the work is done, and before /tmp is another. */
struct outputs {
        FILE *json, *html;
};

static int open_output(const char *path, FILE **ret_file)
{
        int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;

        *ret_file = fd < 0 ? NULL : fdopen(fd, "w");
        if (path && !*ret_file) {
                opts_refuse(COMMAND, "%.200s: %s", path, strerror(errno));
                return STATUS_FAILED;
        }
        return -1;
}

static int open_outputs(struct outputs *o)
{
        int status;

        *o = (struct outputs){ 0 };
        if (options.html && !child_found(REPORT_PLOTTER))
                return fail("%s is not installed: apt-get install gnuplot-nox", REPORT_PLOTTER);
        status = open_output(options.json, &o->json);
        return status < 0 ? open_output(options.html, &o->html) : status;
}

static int write_outputs(const struct outputs *o, const struct record *r)
{
        char why[300];

        if (o->json && (ftruncate(fileno(o->json), 0) < 0 || record_save(r, o->json) < 0))
                return fail("the results could not be written to %s", options.json);
        if (o->html && ftruncate(fileno(o->html), 0) < 0)
                return fail("the page could not be written to %s", options.html);
        if (o->html && report_html(o->html, r, why, sizeof(why)) < 0)
                return fail("no page: %s", why);
        if (o->html && fflush(o->html) == EOF)
                return fail("the page could not be written to %s", options.html);
        return -1;
}

static void close_outputs(struct outputs *o)
{
        if (o->json)
                fclose(o->json);
        if (o->html)
                fclose(o->html);
}

static int publish(const struct outputs *o, const struct record *r)
{
        report_text(stdout, r);
        if (fflush(stdout) == EOF)
                return fail("%s", "the tables could not be written");
        return write_outputs(o, r);
}

/* ---- commands ---- */

static int run_list(const char *const *words)
{
        (void)words;
        for (unsigned i = 0; i < n_experiments; i++)
                printf("%-12s%s\n", experiments[i].name, experiments[i].line);
        return STATUS_OK;
}

static int unknown_experiment(const char *name)
{
        const char *names[NAMES_MAX] = { "all" };
        unsigned n = 1;

        for (unsigned i = 0; i < n_experiments && n < NAMES_MAX; i++)
                names[n++] = experiments[i].name;
        return opts_refuse(COMMAND, "unknown experiment %.100s: did you mean %s?", name,
                           opts_nearest(name, names, n));
}

/* A status, or -1 with the plan's experiments, each once. */
static int choose(const char *const *words, const struct experiment **chosen, unsigned *ret_n)
{
        bool wanted[NAMES_MAX] = { false };

        for (; *words; words++) {
                const struct experiment *e = experiment_find(*words);

                if (!e && strcmp(*words, "all") != 0)
                        return unknown_experiment(*words);
                if (e && options.guest == GUEST_UML && !experiment_has_linux(e))
                        return opts_refuse(COMMAND,
                                           "--guest=uml: %s needs settings that only vwire's own driver has",
                                           e->name);
                for (unsigned i = 0; i < n_experiments; i++)
                        wanted[i] |= e ? e == &experiments[i]
                                       : options.guest != GUEST_UML || experiment_has_linux(&experiments[i]);
        }
        *ret_n = 0;
        for (unsigned i = 0; i < n_experiments; i++)
                if (wanted[i])
                        chosen[(*ret_n)++] = &experiments[i];
        return -1;
}

static void announce(const struct bench_plan *plan)
{
        double seconds = bench_seconds(plan);

        fprintf(stderr,
                "%u experiment%s, %u rounds of %u ms for each variant of each cell: ", plan->n_experiments,
                plan->n_experiments == 1 ? "" : "s", plan->repeat, bench_window_ms(plan->quick));
        if (seconds < 120)
                fprintf(stderr, "about %.0f seconds\n", seconds);
        else
                fprintf(stderr, "about %.0f minutes\n", seconds / 60);
}

static int run_plan(const struct bench_plan *plan, const struct outputs *outputs)
{
        struct record record;
        const char *why;
        int status, published;

        if (stop_start(STATUS_FAILED) < 0)
                return fail("no pipe: %s", strerror(errno));
        stop_unhurried();
        if (netns_isolate(&why) < 0)
                return fail("%s", why);
        announce(plan);
        record_init(&record);
        snprintf(record.guest, sizeof(record.guest), "%s", guest_words[options.guest]);
        status = bench_run(plan, &record);
        published = publish(outputs, &record);
        record_done(&record);
        return published >= 0 ? published : status;
}

static int run_run(const char *const *words)
{
        const struct experiment *chosen[NAMES_MAX];
        struct bench_plan plan = { .experiments = chosen,
                                   .quick = options.quick,
                                   .linux_guest = options.guest == GUEST_UML };
        struct outputs outputs;
        int status = choose(words, chosen, &plan.n_experiments);

        if (status >= 0)
                return status;
        if (plan.linux_guest && guest_lacks())
                return fail("--guest=uml needs %s: apt-get install user-mode-linux kmod iproute2",
                            guest_lacks());
        plan.repeat = options.repeat ? options.repeat : options.quick ? REPEAT_QUICK : REPEAT_FULL;
        status = open_outputs(&outputs);
        if (status < 0)
                status = run_plan(&plan, &outputs);
        close_outputs(&outputs);
        return status;
}

static int load(const char *path, struct record *ret_record)
{
        char why[300];

        if (record_load(path, ret_record, why, sizeof(why)) == 0)
                return -1;
        opts_refuse(COMMAND, "%.100s: %s", path, why);
        return STATUS_FAILED;
}

static int load_more(const char *path, struct record *record)
{
        struct record more;
        char why[100];
        int status = load(path, &more);

        if (status < 0 && record_join(record, &more, why, sizeof(why)) < 0) {
                opts_refuse(COMMAND, "%.100s %s", path, why);
                status = STATUS_FAILED;
        }
        record_done(&more);
        return status;
}

static int run_report(const char *const *words)
{
        struct outputs outputs = { 0 };
        struct record record;
        int status = load(words[0], &record);

        for (unsigned i = 1; status < 0 && words[i]; i++)
                status = load_more(words[i], &record);
        if (status < 0)
                status = open_outputs(&outputs);
        if (status < 0)
                status = publish(&outputs, &record);
        close_outputs(&outputs);
        record_done(&record);
        return status < 0 ? STATUS_OK : status;
}

static int run_compare(const char *const *words)
{
        struct record a, b = { 0 };
        int status = load(words[0], &a);

        if (status < 0)
                status = load(words[1], &b);
        if (status < 0) {
                report_compare(stdout, &a, &b);
                status = STATUS_OK;
        }
        record_done(&a);
        record_done(&b);
        return status;
}

static int run_serve(const char *const *words)
{
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(TRAFFIC_PORT) };
        struct pollfd stop;
        struct server *server;
        const char *why;

        if (inet_pton(AF_INET, words[0], &address.sin_addr) != 1)
                return opts_refuse(COMMAND, "serve %.100s: not an IPv4 address", words[0]);
        if (stop_start(STATUS_OK) < 0)
                return fail("no pipe: %s", strerror(errno));
        if (server_new(&address, &server, &why) < 0)
                return fail("no server: %s", why);
        fprintf(stderr, "%s: " GUEST_SERVES "\n", COMMAND);
        stop = (struct pollfd){ .fd = stop_fd(), .events = POLLIN };
        while (poll(&stop, 1, -1) < 0)
                continue;
        server_free(server);
        return STATUS_OK;
}

static const struct opt_command commands[] = {
        {"list",     0, 0,         run_list   },
        { "run",     1, NAMES_MAX, run_run    },
        { "report",  1, NAMES_MAX, run_report },
        { "compare", 2, 2,         run_compare},
        { "serve",   1, 1,         run_serve  },
};

static int run(const char *const *words)
{
        const struct opt_command *command;

        if (!words[0])
                return opts_refuse(COMMAND, "a COMMAND is missing: see vwire bench --help");
        command = opts_command(COMMAND, commands, ARRAY_LEN(commands), words);
        return command ? command->run(words + 1) : STATUS_USAGE;
}

int cmd_bench(int argc, char **argv)
{
        return opts_run(&page, argc, argv, run);
}
