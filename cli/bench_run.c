#include "bench_run.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/limits.h"
#include "bench/rings.h"
#include "cli.h"
#include "end.h"
#include "opts.h"
#include "rig.h"
#include "stop.h"

#define WARM_MS    150  /* after connecting, until windows and buffers have found their sizes */
#define SETTLE_MS  40   /* after a change of settings */
#define RIG_MS     600  /* to set one up, */
#define BOOT_MS    4000 /* and where a guest boots */
#define COUNT_MS   3000 /* to count the instructions of a ring */
#define RIGS       (RIG_MACHINE + 1)
#define TOLD_EVERY 10 /* s between lines of progress where no line can be overwritten */

enum { GO_ON = -1, STOPPED = -2 }; /* besides the statuses to exit with */

struct run {
        const struct bench_plan *plan;
        struct rig *rigs[RIGS], *busy; /* busy: the one that has traffic */
        unsigned window_ms, round;
        double done_ms, planned_ms; /* of the plan */
        uint64_t begun, told;       /* ns */
        bool stopped;
};

unsigned bench_window_ms(bool quick)
{
        return quick ? 250 : 1000;
}

/* ---- the plan ---- */

static bool applies(const struct bench_plan *plan, const struct experiment *e, const struct cell *cell,
                    unsigned variant)
{
        return experiment_applies(e, cell, variant) &&
               (!plan->linux_guest || e->variants[variant].linux_does);
}

static unsigned count_variants(const struct bench_plan *plan, const struct experiment *e,
                               const struct cell *cell)
{
        unsigned n = 0;

        for (unsigned v = 0; v < e->n_variants; v++)
                n += applies(plan, e, cell, v);
        return n;
}

/* Whether the variants of a cell share a rig, so that traffic need not be started anew for each. */
static bool shares_rig(const struct experiment *e, const struct cell *cell)
{
        for (unsigned v = 1; v < e->n_variants; v++)
                if (experiment_rig(e, cell, v) != experiment_rig(e, cell, 0))
                        return false;
        return true;
}

/* They are those of the ring alone, so they are counted where nothing is copied. */
static bool counts_instructions(const struct cell *cell)
{
        return (cell->work == WORK_RING_TX || cell->work == WORK_RING_RX) && !cell->size;
}

static double cell_ms(const struct experiment *e, const struct cell *cell, const struct bench_plan *plan)
{
        double window = SETTLE_MS + bench_window_ms(plan->quick), warm = WARM_MS + 0.2 * cell->sessions;
        unsigned samples = plan->repeat * count_variants(plan, e, cell);

        if (cell->work == WORK_LIMIT)
                return samples * bench_window_ms(plan->quick);
        if (counts_instructions(cell))
                return samples * bench_window_ms(plan->quick) + COUNT_MS;
        return shares_rig(e, cell) ? warm + samples * window : samples * (warm + window);
}

static double experiment_ms(const struct experiment *e, const struct bench_plan *plan)
{
        struct cell cells[CELLS_MAX];
        unsigned n = experiment_cells(e, plan->quick, cells);
        double ms = plan->linux_guest ? BOOT_MS : RIG_MS;

        for (unsigned i = 0; i < n; i++)
                ms += cell_ms(e, &cells[i], plan);
        return ms;
}

double bench_seconds(const struct bench_plan *plan)
{
        double ms = 0;

        for (unsigned i = 0; i < plan->n_experiments; i++)
                ms += experiment_ms(plan->experiments[i], plan);
        return ms / 1000;
}

/* ---- progress ---- */

static void tell(struct run *run, const struct experiment *e, const struct cell *cell)
{
        uint64_t now = end_now();
        double elapsed = (double)(now - run->begun) / 1e9, left;
        char label[64];

        /* the plan's own figure until a tenth is done, then at the speed that it has shown */
        left = (run->planned_ms - run->done_ms) / 1000;
        if (run->done_ms > run->planned_ms / 10)
                left *= elapsed / (run->done_ms / 1000);
        cell_label(cell, label, sizeof(label));
        if (isatty(STDERR_FILENO))
                fprintf(stderr, "\r%-11s%-40s %3.0f %%, %u:%02u left\033[K", e->name, label,
                        run->done_ms / run->planned_ms * 100, (unsigned)left / 60, (unsigned)left % 60);
        else if (now - run->told >= TOLD_EVERY * 1000000000ULL || !run->told)
                fprintf(stderr, "%-11s%-40s %3.0f %%, %u:%02u left\n", e->name, label,
                        run->done_ms / run->planned_ms * 100, (unsigned)left / 60, (unsigned)left % 60);
        else
                return;
        run->told = now;
}

/* ---- samples ---- */

static int pause_for(struct run *run, unsigned ms)
{
        struct pollfd stop = { .fd = stop_fd(), .events = POLLIN };

        if (poll(&stop, 1, (int)ms) > 0)
                run->stopped = true;
        return run->stopped ? STOPPED : GO_ON;
}

static int use_rig(struct run *run, enum rig_kind kind, const struct cell *cell)
{
        struct rig **rig = &run->rigs[kind];
        int status = GO_ON;

        if (run->busy && run->busy == *rig)
                return GO_ON;
        if (run->busy)
                rig_end(run->busy);
        run->busy = NULL;
        if (!*rig)
                status = rig_start(kind, run->plan->linux_guest, rig);
        if (status < 0)
                status = rig_begin(*rig, cell);
        run->busy = *rig;
        return status < 0 ? pause_for(run, WARM_MS) : status;
}

static int out_of_memory(void)
{
        opts_refuse("vwire bench", "out of memory");
        return STATUS_FAILED;
}

static int note_sizes(struct record_experiment *re, struct record_cell *rc, unsigned variant,
                      const struct rig_mark *before, const struct rig_mark *after)
{
        uint64_t sizes[RECORD_SIZES];

        for (unsigned i = 0; i < RECORD_SIZES; i++)
                sizes[i] = after->sizes[i] - before->sizes[i];
        return record_add_sizes(re, rc, variant, sizes) ? GO_ON : out_of_memory();
}

static int measure_link(struct run *run, struct record_experiment *re, struct record_cell *rc,
                        unsigned variant, struct sample *ret_sample)
{
        const struct experiment *e = re->experiment;
        const struct variant *v = &e->variants[variant];
        const struct cell *cell = &rc->cell;
        static struct rig_mark before, after; /* large */
        int status = use_rig(run, experiment_rig(e, cell, variant), cell);

        if (status == GO_ON)
                status = rig_set(run->busy, v->device, v->driver);
        if (status == GO_ON)
                status = pause_for(run, SETTLE_MS);
        if (status == GO_ON)
                status = rig_mark(run->busy, &before);
        if (status == GO_ON)
                status = pause_for(run, run->window_ms);
        if (status == GO_ON)
                status = rig_mark(run->busy, &after);
        if (status != GO_ON)
                return status;
        rig_sample(cell, &before, &after, ret_sample);
        return e->buffer_sizes ? note_sizes(re, rc, variant, &before, &after) : GO_ON;
}

static void measure_ring(const struct run *run, const struct cell *cell, unsigned variant,
                         struct sample *ret_sample)
{
        const struct rings_load load = { .layout = variant,
                                         .rx = cell->work == WORK_RING_RX,
                                         .entries = cell->sessions,
                                         .size = cell->size };
        double *v = ret_sample->value;
        struct rings_speed speed;

        if (rings_speed(&load, 2, UINT64_MAX, run->window_ms * UINT64_C(1000000), &speed))
                v[METRIC_MPPS] = (double)speed.packets * 1e3 / (double)speed.ns;
        if (counts_instructions(cell) && run->round == 0) /* they are the same each time */
                rings_instructions(&load, &v[METRIC_DRIVER_INSTRUCTIONS], &v[METRIC_DEVICE_INSTRUCTIONS]);
}

static int measure(struct run *run, struct record_experiment *re, struct record_cell *rc, unsigned variant,
                   struct sample *ret_sample)
{
        const struct cell *cell = &rc->cell;

        if (experiment_rig(re->experiment, cell, variant) != RIG_MACHINE)
                return measure_link(run, re, rc, variant, ret_sample);
        if (cell->work == WORK_LIMIT)
                ret_sample->value[METRIC_NS] = limits[cell->size].measure(run->window_ms);
        else
                measure_ring(run, cell, variant, ret_sample);
        return pause_for(run, 0);
}

/* One sample of each variant; another begins each time, so that what comes with the order evens out. */
static int measure_round(struct run *run, struct record_experiment *re, unsigned cell)
{
        const struct experiment *e = re->experiment;
        struct record_cell *rc = &re->cells[cell];
        struct sample samples[VARIANTS_MAX];
        int status = GO_ON;

        for (unsigned v = 0; v < e->n_variants; v++)
                for (unsigned m = 0; m < METRIC_COUNT; m++)
                        samples[v].value[m] = NAN;
        for (unsigned i = 0; i < e->n_variants && status == GO_ON; i++) {
                unsigned v = (run->round + i) % e->n_variants;

                if (applies(run->plan, e, &rc->cell, v))
                        status = measure(run, re, rc, v, &samples[v]);
        }
        if (status == GO_ON && !record_add_round(re, rc, samples))
                status = out_of_memory();
        return status;
}

static int run_cell(struct run *run, struct record_experiment *re, const struct cell *cell)
{
        double ms = cell_ms(re->experiment, cell, run->plan);
        unsigned n = re->n_cells;
        int status = GO_ON;

        if (!record_add_cell(re, cell))
                return out_of_memory();
        for (run->round = 0; run->round < run->plan->repeat && status == GO_ON; run->round++) {
                tell(run, re->experiment, cell);
                status = measure_round(run, re, n);
                run->done_ms += ms / run->plan->repeat;
        }
        if (run->busy)
                rig_end(run->busy);
        run->busy = NULL;
        return status;
}

static int run_experiment(struct run *run, const struct experiment *e, struct record *record)
{
        struct record_experiment *re = record_add_experiment(record, e);
        struct cell cells[CELLS_MAX];
        unsigned n = experiment_cells(e, run->plan->quick, cells);
        int status = GO_ON;

        if (!re)
                return out_of_memory();
        for (unsigned i = 0; i < n && status == GO_ON; i++)
                status = run_cell(run, re, &cells[i]);
        for (unsigned i = 0; i < RIGS; i++) {
                rig_stop(run->rigs[i]);
                run->rigs[i] = NULL;
        }
        run->done_ms += run->plan->linux_guest ? BOOT_MS : RIG_MS;
        return status;
}

int bench_run(const struct bench_plan *plan, struct record *record)
{
        struct run run = { .plan = plan,
                           .window_ms = bench_window_ms(plan->quick),
                           .planned_ms = bench_seconds(plan) * 1000,
                           .begun = end_now() };
        int status = GO_ON;

        record->quick = plan->quick;
        record->repeat = plan->repeat;
        record->window_ms = run.window_ms;
        for (unsigned i = 0; i < plan->n_experiments && status == GO_ON; i++)
                status = run_experiment(&run, plan->experiments[i], record);
        if (isatty(STDERR_FILENO))
                fputs("\r\033[K", stderr);
        record->seconds = (double)(end_now() - run.begun) / 1e9;
        record->complete = status == GO_ON;
        return status < 0 || run.stopped ? STATUS_OK : status;
}
