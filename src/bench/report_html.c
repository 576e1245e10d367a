/* One page that needs nothing but itself: no scripts, no fonts, no network. */
#include <string.h>

#include "bench/chart.h"
#include "bench/report.h"
#include "bench/table.h"
#include "page_css.h"

static void put_text(FILE *out, const char *text)
{
        for (; *text; text++)
                switch (*text) {
                case '<':
                        fputs("&lt;", out);
                        break;
                case '>':
                        fputs("&gt;", out);
                        break;
                case '&':
                        fputs("&amp;", out);
                        break;
                case '"':
                        fputs("&quot;", out);
                        break;
                default:
                        fputc(*text, out);
                }
}

static void put_element(FILE *out, const char *name, const char *text)
{
        fprintf(out, "<%s>", name);
        put_text(out, text);
        fprintf(out, "</%s>\n", name);
}

/* ---- tables ---- */

/* Number of used columns from `c` on that belong to its group; *ret_end is the first after it. */
static unsigned group_span(const struct table *t, unsigned c, unsigned *ret_end)
{
        unsigned used = 0, end = c;

        for (; end < t->n_columns && !strcmp(t->columns[end].group, t->columns[c].group); end++)
                used += t->columns[end].used;
        *ret_end = end;
        return used;
}

/* The first used column of its group, if it is one of numbers. */
static bool opens_group(const struct table *t, unsigned column)
{
        if (!*t->columns[column].group)
                return false;
        for (unsigned c = column; c-- > 0 && !strcmp(t->columns[c].group, t->columns[column].group);)
                if (t->columns[c].used)
                        return false;
        return true;
}

static void put_head(FILE *out, const struct table *t)
{
        fputs("<thead><tr>", out);
        for (unsigned c = 0, end; c < t->n_columns; c = end) {
                unsigned span = group_span(t, c, &end);

                if (!span)
                        continue;
                fprintf(out, "<th colspan=\"%u\" class=\"g%s\">", span, *t->columns[c].group ? " f" : "");
                put_text(out, t->columns[c].group);
                fputs("</th>", out);
        }
        fputs("</tr>\n<tr>", out);
        for (unsigned c = 0; c < t->n_columns; c++) {
                if (!t->columns[c].used)
                        continue;
                fprintf(out, "<th class=\"%s%s\">", t->columns[c].left ? "l" : "",
                        opens_group(t, c) ? " f" : "");
                put_text(out, t->columns[c].heading);
                fputs("</th>", out);
        }
        fputs("</tr></thead>\n", out);
}

/* Rows that differ in their variant only belong together. */
static bool opens_cell(const struct table *t, unsigned row)
{
        const struct table_cell *now = &t->cells[row * TABLE_COLUMNS], *before = now - TABLE_COLUMNS;

        for (unsigned c = 0; row && c < t->n_columns && !*t->columns[c].group; c++)
                if (now[c].mark == MARK_KEY && strcmp(t->columns[c].heading, "variant") != 0 &&
                    strcmp(now[c].text, before[c].text) != 0)
                        return true;
        return false;
}

static void put_table(FILE *out, const struct table *t)
{
        static const char *const classes[] = {
                [MARK_PLAIN] = "",      [MARK_KEY] = "k",         [MARK_MEASURED] = "m",
                [MARK_PUBLISHED] = "p", [MARK_BEHIND] = "behind", [MARK_AHEAD] = "ahead"
        };

        fputs("<div class=\"scroll\"><table>\n", out);
        put_head(out, t);
        fputs("<tbody>\n", out);
        for (unsigned r = 0; r < t->n_rows; r++) {
                fprintf(out, "<tr%s>", opens_cell(t, r) ? " class=\"n\"" : "");
                for (unsigned c = 0; c < t->n_columns; c++) {
                        const struct table_cell *cell = &t->cells[r * TABLE_COLUMNS + c];

                        if (!t->columns[c].used)
                                continue;
                        fprintf(out, "<td class=\"%s%s%s\">", classes[cell->mark],
                                t->columns[c].left ? " l" : "", opens_group(t, c) ? " f" : "");
                        put_text(out, cell->text);
                        fputs("</td>", out);
                }
                fputs("</tr>\n", out);
        }
        fputs("</tbody></table></div>\n", out);
}

/* ---- the page ---- */

static void put_verdicts(FILE *out, const struct record_experiment *re)
{
        unsigned n[VERDICT_COUNT], at = 0;
        char text[200];

        record_count_verdicts(re, n);
        if (!(n[VERDICT_AHEAD] + n[VERDICT_ALIKE] + n[VERDICT_BEHIND]))
                return;
        fprintf(out,
                "<p>Against what was published: <b>%u</b> ahead, <b>%u</b> alike (the interval contains it), <b>%u</b> "
                "behind%s</p>\n",
                n[VERDICT_AHEAD], n[VERDICT_ALIKE], n[VERDICT_BEHIND], n[VERDICT_BEHIND] ? ":" : ".");
        if (!n[VERDICT_BEHIND])
                return;
        fputs("<ul class=\"verdicts\">\n", out);
        while (table_next_behind(re, &at, text, sizeof(text)))
                put_element(out, "li", text);
        fputs("</ul>\n", out);
}

/* All experiments with their verdicts, as the way to each. */
static void put_overview(FILE *out, const struct record *r)
{
        fputs("<table class=\"overview\"><thead><tr><th class=\"l\">experiment</th><th class=\"l\">after</th>"
              "<th class=\"l\">what it asks</th><th>cells</th><th>ahead</th><th>alike</th><th>behind</th></tr></thead>\n<tbody>\n",
              out);
        for (unsigned i = 0; i < r->n_experiments; i++) {
                const struct record_experiment *re = &r->experiments[i];
                const struct experiment *e = re->experiment;
                unsigned n[VERDICT_COUNT];

                record_count_verdicts(re, n);
                fprintf(out, "<tr><td class=\"l\"><a href=\"#%s\">%s</a></td><td class=\"l k\">", e->name,
                        e->name);
                put_text(out, e->after ? e->after : "");
                fputs("</td><td class=\"l w\">", out);
                put_text(out, e->line);
                fprintf(out, "</td><td>%u</td>", re->n_cells);
                if (n[VERDICT_AHEAD] + n[VERDICT_ALIKE] + n[VERDICT_BEHIND])
                        fprintf(out, "<td class=\"%s\">%u</td><td>%u</td><td class=\"%s\">%u</td></tr>\n",
                                n[VERDICT_AHEAD] ? "ahead" : "", n[VERDICT_AHEAD], n[VERDICT_ALIKE],
                                n[VERDICT_BEHIND] ? "behind" : "", n[VERDICT_BEHIND]);
                else
                        fputs("<td colspan=\"3\" class=\"k\">nothing published</td></tr>\n", out);
        }
        fputs("</tbody></table>\n", out);
}

static int put_experiment(FILE *out, const struct record_experiment *re, unsigned *n_charts, char *why,
                          size_t len)
{
        const struct experiment *e = re->experiment;
        struct table t;
        int r;

        fprintf(out, "<section id=\"%s\">\n<h2>%s <small>%s%s</small></h2>\n", e->name, e->name,
                e->after ? "after " : "", e->after ? e->after : "");
        fputs("<p>", out);
        put_text(out, e->line);
        fputs(".</p>\n<p class=\"quiet\">", out);
        put_text(out, e->about);
        fputs("</p>\n", out);
        put_verdicts(out, re);
        r = chart_draw(out, re, n_charts, why, len);
        for (unsigned c = 0; c < re->n_cells; c++) {
                enum workload work = re->cells[c].cell.work;

                if (!record_opens_workload(re, c))
                        continue;
                fprintf(out, "<h3>%s <small>", workload_info[work].name);
                put_text(out, workload_info[work].what);
                fputs("</small></h3>\n", out);
                table_of(re, work, &t);
                put_table(out, &t);
                table_done(&t);
        }
        table_of_sizes(re, &t);
        if (t.n_rows) {
                put_element(out, "h3", "Buffers");
                put_table(out, &t);
        }
        table_done(&t);
        fputs("</section>\n", out);
        return r;
}

static void put_header(FILE *out, const struct record *r)
{
        fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>vwire bench</title>\n<style>\n",
              out);
        fputs(page_css, out);
        fputs("</style></head>\n<body><main>\n<header>\n<h1>vwire bench</h1>\n<p class=\"quiet\">", out);
        fprintf(out, "vwire %s, ", r->version);
        put_text(out, r->kernel);
        fprintf(out, ", %u CPUs (", r->n_cpus);
        put_text(out, r->cpu);
        fprintf(out, "), %u MB; guest: ", r->memory_mb);
        put_text(out, r->guest);
        fputs(". ", out);
        put_text(out, r->started);
        fprintf(out, ", %.0f s: %u rounds of %u ms for each variant of each cell%s%s.</p>\n", r->seconds,
                r->repeat, r->window_ms, r->quick ? ", fewer cells (quick)" : "",
                r->complete ? "" : ", <b>not complete</b>");
        fputs("<p>Each experiment repeats a published one with vwire in the place of vhost-net and virtio-net. The variants of a cell "
              "take turns, and a change is the median of the ratios of neighbours in time. Its interval encloses the true median "
              "with 95 per cent, or goes from end to end where there are fewer than six rounds; a change is bold where its interval "
              "leaves out zero (and there are five rounds or more). <b>Behind</b> and <b>ahead</b> mean that the published change lies outside the interval. Rates are "
              "per second, directions are the driver's, CPU is that of the guest's program, driver and device.</p>\n",
              out);
        put_overview(out, r);
        fputs("</header>\n", out);
}

int report_html(FILE *out, const struct record *r, char *why, size_t len)
{
        unsigned n_charts = 0;
        int result = 0;

        put_header(out, r);
        for (unsigned i = 0; i < r->n_experiments && result == 0; i++)
                result = put_experiment(out, &r->experiments[i], &n_charts, why, len);
        fputs("</main></body></html>\n", out);
        return result;
}
