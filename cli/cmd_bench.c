/* `vwire bench`: the published experiments with vwire in the place of virtio-net and vhost-net. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report.h"
#include "bench_run.h"
#include "cli.h"
#include "netns.h"
#include "opts.h"
#include "stop.h"

#define COMMAND      "vwire bench"

#define REPEAT_QUICK 5
#define REPEAT_FULL  9

static struct bench_options {
        bool quick;
        unsigned repeat; /* 0: as quick says */
        const char *json, *html;
} options;

static const struct opt rows[] = {
        ROW_FLAG(struct bench_options, quick, "quick",
                 "fewer cells and shorter windows: all of it in under ten minutes"),
        ROW_NUMBER(struct bench_options, repeat, "repeat", 1, 99, "9, or 5 with --quick",
                   "rounds of each cell"),
        ROW_TEXT(struct bench_options, json, "json", "FILE", NULL,
                 "every sample, the machine and the settings, as JSON"),
        ROW_TEXT(struct bench_options, html, "html", "FILE", NULL,
                 "tables and charts as one page; needs gnuplot"),
};

static const struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options };
static const struct opt_group *const groups[] = { &group };

static const struct opt_page page = {
        .command = COMMAND,
        .usage = "list | run NAME...|all | report A.json | compare A.json B.json [options]",
        .about = "",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
        .args_max = 16,
};

static int fail(const char *fmt, const char *detail)
{
        opts_refuse(COMMAND, fmt, detail);
        return STATUS_FAILED;
}

static int run_list(const char *const *words)
{
        (void)words;
        for (unsigned i = 0; i < n_experiments; i++)
                printf("%-12s%s\n", experiments[i].name, experiments[i].line);
        return STATUS_OK;
}

static int run_run(const char *const *words)
{
        const struct experiment *chosen[16];
        struct bench_plan plan = { .experiments = chosen, .quick = options.quick };
        struct record record;
        const char *why;
        int status;

        plan.repeat = options.repeat ? options.repeat : options.quick ? REPEAT_QUICK : REPEAT_FULL;
        for (; *words; words++) {
                if (!strcmp(*words, "all"))
                        for (unsigned i = 0; i < n_experiments; i++)
                                chosen[plan.n_experiments++] = &experiments[i];
                else if (experiment_find(*words))
                        chosen[plan.n_experiments++] = experiment_find(*words);
                else
                        return fail("unknown %s", *words);
        }
        if (stop_start(STATUS_FAILED) < 0)
                return fail("no pipe: %s", strerror(errno));
        stop_unhurried();
        if (netns_isolate(&why) < 0)
                return fail("%s", why);
        record_init(&record);
        fprintf(stderr, "%.0f s\n", bench_seconds(&plan));
        status = bench_run(&plan, &record);
        report_text(stdout, &record);
        record_done(&record);
        return status;
}

static const struct word {
        const char *name;
        unsigned least, most;
        int (*run)(const char *const *words);
} words[] = {
        {"list", 0, 0,  run_list},
        { "run", 1, 16, run_run },
};

int cmd_bench(int argc, char **argv)
{
        struct opts *opts;
        int status = opts_start(&page, argc, argv, &opts);

        if (status < 0) {
                const char *const *args = opts_args(opts);

                for (unsigned i = 0; i < ARRAY_LEN(words); i++)
                        if (args[0] && !strcmp(args[0], words[i].name))
                                status = words[i].run(args + 1);
        }
        opts_free(opts);
        return status;
}
