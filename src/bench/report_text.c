/* A report as text: tables for a terminal. */
#include "bench/report.h"

#include "bench/table.h"

static void print_verdicts(FILE *out, const struct record_experiment *re)
{
        unsigned n[VERDICT_COUNT], at = 0;
        char text[200];

        record_count_verdicts(re, n);
        if (n[VERDICT_AHEAD] + n[VERDICT_ALIKE] + n[VERDICT_BEHIND])
                fprintf(out, "\nAgainst what was published: %u ahead, %u alike, %u behind.\n",
                        n[VERDICT_AHEAD], n[VERDICT_ALIKE], n[VERDICT_BEHIND]);
        while (table_next_behind(re, &at, text, sizeof(text)))
                fprintf(out, "  behind: %s\n", text);
}

static void print_experiment(FILE *out, const struct record_experiment *re)
{
        const struct experiment *e = re->experiment;
        char bases[256];
        struct table t;

        fprintf(out, "\n%s%s%s%s: %s\n", e->name, e->after ? " (after " : "", e->after ? e->after : "",
                e->after ? ")" : "", e->line);
        table_bases(e, bases, sizeof(bases));
        if (*bases)
                fprintf(out, "Changes in per cent: %s.\n", bases);
        for (unsigned c = 0; c < re->n_cells; c++) {
                enum workload work = re->cells[c].cell.work;

                if (!record_opens_workload(re, c))
                        continue;
                fprintf(out, "\n%s: %s\n", workload_info[work].name, workload_info[work].what);
                table_of(re, work, &t);
                table_print(out, &t);
                table_done(&t);
        }
        table_of_sizes(re, &t);
        if (t.n_rows) {
                fprintf(out, "\n");
                table_print(out, &t);
        }
        table_done(&t);
        print_verdicts(out, re);
}

void report_text(FILE *out, const struct record *r)
{
        fprintf(out, "vwire %s on %s, %u CPUs (%s), guest %s; %u rounds of %u ms, %.0f s in all%s\n",
                r->version, r->kernel, r->n_cpus, r->cpu, r->guest, r->repeat, r->window_ms, r->seconds,
                r->complete ? "" : "; not complete");
        for (unsigned i = 0; i < r->n_experiments; i++)
                print_experiment(out, &r->experiments[i]);
}
