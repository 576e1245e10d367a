#include "bench/report.h"

#include "bench/table.h"

static void print_experiment(FILE *out, const struct record_experiment *re)
{
        const struct experiment *e = re->experiment;
        char bases[256];
        struct table t;

        fprintf(out, "\n%s (after %s): %s\n", e->name, e->after, e->line);
        table_bases(e, bases, sizeof(bases));
        if (*bases)
                fprintf(out, "Changes in per cent: %s.\n", bases);
        for (unsigned work = 0; work < WORK_COUNT; work++) {
                table_of(re, work, &t);
                if (t.n_rows) {
                        fprintf(out, "\n%s: %s\n", workload_info[work].name, workload_info[work].what);
                        table_print(out, &t);
                }
                table_done(&t);
        }
        table_of_sizes(re, &t);
        if (t.n_rows) {
                fprintf(out, "\n");
                table_print(out, &t);
        }
        table_done(&t);
}

void report_text(FILE *out, const struct record *r)
{
        fprintf(out, "vwire %s on %s, %u CPUs (%s), guest %s; %u rounds of %u ms, %.0f s in all%s\n",
                r->version, r->kernel, r->n_cpus, r->cpu, r->guest, r->repeat, r->window_ms, r->seconds,
                r->complete ? "" : "; not complete");
        for (unsigned i = 0; i < r->n_experiments; i++)
                print_experiment(out, &r->experiments[i]);
}
