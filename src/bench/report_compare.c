/* Two runs.  They were not interleaved, so the machine may have been another each time: what compares best are the changes between
 * variants, which each run has formed from pairs.  Values count too, but a machine that has moved moves them all. */
#include "bench/report.h"

#include <math.h>

#define LEAST 5 /* per cent: less than that is no change worth a line */

struct tally_of_lines {
        unsigned looked_at, better, worse, other;
};

static const struct record_cell *find_cell(const struct record *r, const struct experiment *e,
                                           const struct cell *cell,
                                           const struct record_experiment **ret_experiment)
{
        for (unsigned i = 0; i < r->n_experiments; i++)
                for (unsigned c = 0; r->experiments[i].experiment == e && c < r->experiments[i].n_cells; c++)
                        if (cell_equal(&r->experiments[i].cells[c].cell, cell)) {
                                *ret_experiment = &r->experiments[i];
                                return &r->experiments[i].cells[c];
                        }
        return NULL;
}

static void count(struct tally_of_lines *lines, double change, int better)
{
        if (!better)
                lines->other++;
        else if ((change > 0) == (better > 0))
                lines->better++;
        else
                lines->worse++;
}

static const char *word(double change, int better)
{
        return !better ? "" : (change > 0) == (better > 0) ? "  better" : "  worse";
}

static void compare_values(FILE *out, const char *label, const char *variant, enum metric m,
                           const struct finding *a, const struct finding *b, struct tally_of_lines *lines)
{
        double change = (b->value.median / a->value.median - 1) * 100;
        int better = metric_info[m].better, decimals = metric_info[m].decimals;

        if (!a->value.n || !b->value.n)
                return;
        lines->looked_at++;
        if (!summary_apart(&a->value, &b->value) || !isfinite(change) || fabs(change) < LEAST)
                return;
        count(lines, change, better);
        fprintf(out, "  %-34s %-16s %-18s %12.*f -> %12.*f  %+6.1f %%%s\n", label, variant,
                metric_info[m].heading, decimals, a->value.median, decimals, b->value.median, change,
                word(change, better));
}

static void compare_changes(FILE *out, const char *label, const char *variant, enum metric m,
                            const struct finding *a, const struct finding *b, struct tally_of_lines *lines)
{
        double points = b->change.median - a->change.median;

        if (!a->change.n || !b->change.n)
                return;
        lines->looked_at++;
        if (!summary_apart(&a->change, &b->change) || fabs(points) < LEAST)
                return;
        count(lines, points, metric_info[m].better);
        fprintf(out, "  %-34s %-16s %-18s %+11.1f %% -> %+10.1f %%%s\n", label, variant,
                metric_info[m].heading, a->change.median, b->change.median,
                word(points, metric_info[m].better));
}

/* One experiment, either its changes or its values. */
static void compare(FILE *out, const struct record_experiment *rb, const struct record *a, bool changes,
                    struct tally_of_lines *lines)
{
        const struct experiment *e = rb->experiment;

        for (unsigned c = 0; c < rb->n_cells; c++) {
                const struct record_experiment *ra = NULL;
                const struct record_cell *before = find_cell(a, e, &rb->cells[c].cell, &ra),
                                         *after = &rb->cells[c];
                char label[64];

                cell_label(&after->cell, label, sizeof(label));
                for (unsigned v = 0; before && v < e->n_variants; v++)
                        for (unsigned i = 0; i < e->n_columns; i++) {
                                enum metric m = column_metric(&e->columns[i], &after->cell);
                                struct finding fa = record_find(ra, before, v, m),
                                               fb = record_find(rb, after, v, m);

                                if (changes)
                                        compare_changes(out, label, e->variants[v].name, m, &fa, &fb, lines);
                                else
                                        compare_values(out, label, e->variants[v].name, m, &fa, &fb, lines);
                        }
        }
}

static void put_run(FILE *out, const char *name, const struct record *r)
{
        fprintf(out, "%s: vwire %s, %s, %s, %u CPUs (%s), guest %s, %u rounds of %u ms\n", name, r->version,
                r->started, r->kernel, r->n_cpus, r->cpu, r->guest, r->repeat, r->window_ms);
}

void report_compare(FILE *out, const struct record *a, const struct record *b)
{
        static const char *const titles[] = {
                "Changes between variants, which each run has formed from pairs:",
                "Values, which move with the machine as well:"
        };

        put_run(out, "A", a);
        put_run(out, "B", b);
        fprintf(out, "Listed is what differs by %d per cent or more and with intervals that do not meet.\n",
                LEAST);
        for (unsigned values = 0; values < 2; values++) {
                struct tally_of_lines lines = { 0 };

                fprintf(out, "\n%s\n", titles[values]);
                for (unsigned i = 0; i < b->n_experiments; i++)
                        compare(out, &b->experiments[i], a, !values, &lines);
                fprintf(out, "  of %u: %u better, %u worse, %u otherwise, %u within the noise\n",
                        lines.looked_at, lines.better, lines.worse, lines.other,
                        lines.looked_at - lines.better - lines.worse - lines.other);
        }
}
