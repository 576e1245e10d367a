#include "bench/report.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

void report_text(FILE *out, const struct record *r)
{
        for (unsigned i = 0; i < r->n_experiments; i++) {
                const struct record_experiment *re = &r->experiments[i];

                fprintf(out, "%s\n", re->experiment->name);
                for (unsigned c = 0; c < re->n_cells; c++)
                        for (unsigned v = 0; v < re->experiment->n_variants; v++) {
                                char label[64];
                                enum metric m = workload_info[re->cells[c].cell.work].headline;
                                struct finding f = record_find(re, &re->cells[c], v, m);

                                fprintf(out, "%-40s %-12s %12.3f %8.1f [%.1f %.1f] %g\n",
                                        cell_label(&re->cells[c].cell, label, sizeof(label)),
                                        re->experiment->variants[v].name, f.value.median, f.change.median,
                                        f.change.low, f.change.high, f.low);
                        }
        }
}
