#include "bench/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "vwire/types.h"

static void read_cpu_name(char *buf, size_t len)
{
        FILE *f = fopen("/proc/cpuinfo", "re");
        char line[256];

        snprintf(buf, len, "unknown");
        while (f && fgets(line, sizeof(line), f)) {
                const char *colon = strchr(line, ':');

                if (colon && !strncmp(line, "model name", 10)) {
                        snprintf(buf, len, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
                        break;
                }
        }
        if (f)
                fclose(f);
}

void record_init(struct record *r)
{
        time_t now = time(NULL);
        struct utsname names;
        struct sysinfo info;
        struct tm utc;

        *r = (struct record){ .n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) };
        snprintf(r->version, sizeof(r->version), "%s", vw_version());
        if (gmtime_r(&now, &utc))
                strftime(r->started, sizeof(r->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
        if (uname(&names) == 0)
                snprintf(r->kernel, sizeof(r->kernel), "%s %.90s", names.sysname, names.release);
        if (sysinfo(&info) == 0)
                r->memory_mb = (unsigned)(info.totalram * info.mem_unit >> 20);
        read_cpu_name(r->cpu, sizeof(r->cpu));
}

void record_done(struct record *r)
{
        for (unsigned i = 0; i < r->n_experiments; i++) {
                struct record_experiment *re = &r->experiments[i];

                for (unsigned c = 0; c < re->n_cells; c++) {
                        free(re->cells[c].samples);
                        free(re->cells[c].sizes);
                }
                free(re->cells);
        }
        free(r->experiments);
        *r = (struct record){ 0 };
}

struct record_experiment *record_add_experiment(struct record *r, const struct experiment *e)
{
        struct record_experiment *grown = realloc(r->experiments, (r->n_experiments + 1) * sizeof(*grown));

        if (!grown)
                return NULL;
        r->experiments = grown;
        grown[r->n_experiments] = (struct record_experiment){ .experiment = e };
        return &grown[r->n_experiments++];
}

struct record_cell *record_add_cell(struct record_experiment *re, const struct cell *cell)
{
        struct record_cell *grown = realloc(re->cells, (re->n_cells + 1) * sizeof(*grown));

        if (!grown)
                return NULL;
        re->cells = grown;
        grown[re->n_cells] = (struct record_cell){ .cell = *cell };
        return &grown[re->n_cells++];
}

bool record_add_round(struct record_experiment *re, struct record_cell *rc, const struct sample *samples)
{
        unsigned n = re->experiment->n_variants;
        struct sample *grown = realloc(rc->samples, (rc->n_rounds + 1) * n * sizeof(*grown));

        if (!grown)
                return false;
        rc->samples = grown;
        memcpy(&grown[rc->n_rounds * n], samples, n * sizeof(*samples));
        rc->n_rounds++;
        return true;
}

bool record_add_sizes(struct record_experiment *re, struct record_cell *rc, unsigned variant,
                      const uint64_t sizes[RECORD_SIZES])
{
        if (!rc->sizes)
                rc->sizes = calloc(re->experiment->n_variants, RECORD_SIZES * sizeof(*rc->sizes));
        if (!rc->sizes)
                return false;
        for (unsigned i = 0; i < RECORD_SIZES; i++)
                rc->sizes[variant * RECORD_SIZES + i] += sizes[i];
        return true;
}

static bool has_experiment(const struct record *r, const struct experiment *e)
{
        for (unsigned i = 0; i < r->n_experiments; i++)
                if (r->experiments[i].experiment == e)
                        return true;
        return false;
}

/* As `vwire bench list` has them. */
static int by_order(const void *a, const void *b)
{
        const struct experiment *x = ((const struct record_experiment *)a)->experiment,
                                *y = ((const struct record_experiment *)b)->experiment;

        return (x > y) - (x < y);
}

int record_join(struct record *r, struct record *other, char *why, size_t len)
{
        if (r->quick != other->quick || r->repeat != other->repeat || r->window_ms != other->window_ms ||
            strcmp(r->guest, other->guest) != 0 || strcmp(r->version, other->version) != 0 ||
            strcmp(r->kernel, other->kernel) != 0 || strcmp(r->cpu, other->cpu) != 0) {
                snprintf(why, len, "was measured in another way or on another machine than the first");
                return -1;
        }
        for (unsigned i = 0; i < other->n_experiments; i++) {
                struct record_experiment *moved;

                if (has_experiment(r, other->experiments[i].experiment)) {
                        snprintf(why, len, "has %s, as one before it",
                                 other->experiments[i].experiment->name);
                        return -1;
                }
                moved = record_add_experiment(r, other->experiments[i].experiment);
                if (!moved) {
                        snprintf(why, len, "does not fit into memory");
                        return -1;
                }
                *moved = other->experiments[i];
                other->experiments[i].n_cells = 0;
                other->experiments[i].cells = NULL;
        }
        qsort(r->experiments, r->n_experiments, sizeof(*r->experiments), by_order);
        r->seconds += other->seconds;
        r->complete &= other->complete;
        record_done(other);
        return 0;
}

/* ---- what follows ---- */

#define ROUNDS_MAX 1000

static void take_values(const struct record_experiment *re, const struct record_cell *rc, unsigned variant,
                        enum metric metric, double ret_values[ROUNDS_MAX])
{
        for (unsigned i = 0; i < rc->n_rounds && i < ROUNDS_MAX; i++)
                ret_values[i] = rc->samples[i * re->experiment->n_variants + variant].value[metric];
}

static enum verdict judge(const struct finding *f, int better)
{
        bool below = f->low > f->change.high, above = f->change.low > f->high;

        if (!f->published || !summary_enough(&f->change) || !better)
                return VERDICT_NONE;
        if (!below && !above)
                return VERDICT_ALIKE;
        return above == (better > 0) ? VERDICT_AHEAD : VERDICT_BEHIND;
}

struct finding record_find(const struct record_experiment *re, const struct record_cell *rc, unsigned variant,
                           enum metric metric)
{
        const struct experiment *e = re->experiment;
        unsigned base = e->variants[variant].base, n = MIN(rc->n_rounds, (unsigned)ROUNDS_MAX);
        double values[ROUNDS_MAX], before[ROUNDS_MAX], ratios[ROUNDS_MAX];
        struct finding f = { 0 };

        take_values(re, rc, variant, metric, values);
        f.value = summary_of(values, n);
        if (base != variant) {
                take_values(re, rc, base, metric, before);
                summary_ratios(before, values, n, ratios);
                for (unsigned i = 0; i < n; i++)
                        ratios[i] = (ratios[i] - 1) * 100;
                f.change = summary_of(ratios, n);
        }
        f.published = e->published && e->published(&rc->cell, variant, metric, &f.low, &f.high);
        f.verdict = judge(&f, metric_info[metric].better);
        return f;
}

bool record_opens_workload(const struct record_experiment *re, unsigned cell)
{
        for (unsigned i = 0; i < cell; i++)
                if (re->cells[i].cell.work == re->cells[cell].cell.work)
                        return false;
        return true;
}

void record_count_verdicts(const struct record_experiment *re, unsigned ret_counts[VERDICT_COUNT])
{
        memset(ret_counts, 0, VERDICT_COUNT * sizeof(*ret_counts));
        for (unsigned c = 0; c < re->n_cells; c++)
                for (unsigned v = 0; v < re->experiment->n_variants; v++)
                        ret_counts[record_find(re, &re->cells[c], v,
                                               workload_info[re->cells[c].cell.work].headline)
                                           .verdict]++;
}
