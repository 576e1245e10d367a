#include "bench/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void table_done(struct table *t)
{
        free(t->cells);
        *t = (struct table){ 0 };
}

static bool add_row(struct table *t)
{
        struct table_cell *grown =
                realloc(t->cells, (size_t)(t->n_rows + 1) * TABLE_COLUMNS * sizeof(*grown));

        if (!grown)
                return false;
        t->cells = grown;
        memset(&grown[t->n_rows * TABLE_COLUMNS], 0, TABLE_COLUMNS * sizeof(*grown));
        t->n_rows++;
        return true;
}

static unsigned add_column(struct table *t, const char *group, const char *heading, bool left)
{
        struct table_column *c = &t->columns[t->n_columns];

        check(t->n_columns < TABLE_COLUMNS);
        snprintf(c->group, sizeof(c->group), "%s", group);
        snprintf(c->heading, sizeof(c->heading), "%s", heading);
        c->left = left;
        return t->n_columns++;
}

/* Into the last row. */
__attribute__((format(printf, 4, 5))) static void put(struct table *t, unsigned column, enum table_mark mark,
                                                      const char *fmt, ...)
{
        struct table_cell *cell = &t->cells[(t->n_rows - 1) * TABLE_COLUMNS + column];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(cell->text, sizeof(cell->text), fmt, ap);
        va_end(ap);
        cell->mark = mark;
        t->columns[column].used = true;
}

/* ---- an experiment ---- */

static bool is_pair(const struct experiment *e)
{
        return e->n_variants == 2;
}

static bool is_machine(enum workload work)
{
        return work == WORK_LIMIT || work == WORK_RING_TX || work == WORK_RING_RX;
}

/* Where each piece of a column stands. */
struct place {
        unsigned value, other, change, interval, published, verdict;
};

struct layout {
        unsigned label, size, sessions, threads, variant;
        struct place places[TABLE_COLUMNS];
};

static void lay_keys(struct table *t, const struct experiment *e, enum workload work,
                     struct layout *ret_layout)
{
        ret_layout->label = add_column(t, "", "", true);
        ret_layout->size = add_column(t, "", "bytes", false);
        ret_layout->sessions = add_column(t, "", is_machine(work) ? "ring" : "sessions", false);
        ret_layout->threads = add_column(t, "", "threads", false);
        ret_layout->variant = add_column(t, "", is_pair(e) ? "" : "variant", true);
}

/* A pair of variants shares a row, each with a column; several have a row each. */
static void lay_metric(struct table *t, const struct experiment *e, const struct column *column,
                       enum workload work, struct place *ret_place)
{
        const struct cell some = { .work = work };
        enum metric m = column_metric(column, &some);
        const char *group = metric_info[m].heading;
        bool headline = m == workload_info[work].headline;

        if (column->show & SHOW_VALUE) {
                ret_place->value = add_column(t, group, is_pair(e) ? e->variants[0].name : "median", false);
                ret_place->other = is_pair(e) ? add_column(t, group, e->variants[1].name, false) : 0;
        }
        if (column->show & SHOW_CHANGE) {
                ret_place->change = add_column(t, group, "change %", false);
                if (headline)
                        ret_place->interval = add_column(t, group, "from..to", false);
                ret_place->published = add_column(t, group, "published", false);
                if (headline)
                        ret_place->verdict = add_column(t, group, "verdict", true);
        }
}

static void put_keys(struct table *t, const struct layout *l, const struct cell *cell)
{
        char label[TABLE_TEXT];

        if (cell->work == WORK_LIMIT) {
                put(t, l->label, MARK_KEY, "%s", cell_label(cell, label, sizeof(label)));
                return;
        }
        put(t, l->size, MARK_KEY, "%u", cell->size);
        put(t, l->sessions, MARK_KEY, "%u", cell->sessions);
        if (cell->threads > 1)
                put(t, l->threads, MARK_KEY, "%u", cell->threads);
}

static void put_value(struct table *t, unsigned column, enum metric m, const struct finding *f)
{
        if (f->value.n)
                put(t, column, MARK_PLAIN, "%.*f", metric_info[m].decimals, f->value.median);
}

static void format_published(const struct finding *f, char *buf, size_t len)
{
        if (f->low == f->high) /* as it was printed, or what follows from that */
                snprintf(buf, len, "%+.*f", f->low == round(f->low) ? 0 : 1, f->low);
        else
                snprintf(buf, len, "%+.0f..%+.0f", f->low, f->high);
}

static void put_change(struct table *t, const struct place *p, const struct finding *f)
{
        static const char *const words[] = {
                [VERDICT_BEHIND] = "behind", [VERDICT_ALIKE] = "alike", [VERDICT_AHEAD] = "ahead"
        };
        const struct summary *c = &f->change;
        bool sure = summary_enough(c) && (c->low > 0 || c->high < 0);
        char published[TABLE_TEXT];

        if (c->n)
                put(t, p->change, sure ? MARK_MEASURED : MARK_PLAIN, "%+.1f", c->median);
        if (c->n && p->interval)
                put(t, p->interval, MARK_PLAIN, "%+.0f..%+.0f", c->low, c->high);
        if (f->published) {
                format_published(f, published, sizeof(published));
                put(t, p->published, MARK_PUBLISHED, "%s", published);
        }
        if (f->verdict != VERDICT_NONE && p->verdict)
                put(t, p->verdict,
                    f->verdict == VERDICT_BEHIND  ? MARK_BEHIND
                    : f->verdict == VERDICT_AHEAD ? MARK_AHEAD
                                                  : MARK_PLAIN,
                    "%s", words[f->verdict]);
}

static void put_metrics(struct table *t, const struct layout *l, const struct record_experiment *re,
                        const struct record_cell *rc, unsigned variant)
{
        const struct experiment *e = re->experiment;

        for (unsigned i = 0; i < e->n_columns; i++) {
                enum metric m = column_metric(&e->columns[i], &rc->cell);
                struct finding f = record_find(re, rc, variant, m);
                const struct place *p = &l->places[i];

                if (p->other) {
                        struct finding before = record_find(re, rc, 0, m);

                        put_value(t, p->value, m, &before);
                        put_value(t, p->other, m, &f);
                } else if (p->value) {
                        put_value(t, p->value, m, &f);
                }
                if (p->change)
                        put_change(t, p, &f);
        }
}

void table_of(const struct record_experiment *re, enum workload work, struct table *ret_table)
{
        const struct experiment *e = re->experiment;
        struct layout layout = { 0 };

        *ret_table = (struct table){ 0 };
        lay_keys(ret_table, e, work, &layout);
        for (unsigned i = 0; i < e->n_columns; i++)
                lay_metric(ret_table, e, &e->columns[i], work, &layout.places[i]);
        for (unsigned c = 0; c < re->n_cells; c++) {
                const struct record_cell *rc = &re->cells[c];

                for (unsigned v = is_pair(e); v < e->n_variants && rc->cell.work == work; v++) {
                        if (!record_find(re, rc, v, workload_info[work].headline).value.n ||
                            !add_row(ret_table))
                                continue;
                        put_keys(ret_table, &layout, &rc->cell);
                        if (!is_pair(e) && e->n_variants > 1 && work != WORK_LIMIT)
                                put(ret_table, layout.variant, MARK_KEY, "%s", e->variants[v].name);
                        put_metrics(ret_table, &layout, re, rc, v);
                }
        }
}

static uint64_t sum_of(const uint64_t sizes[RECORD_SIZES])
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < RECORD_SIZES; i++)
                sum += sizes[i];
        return sum;
}

static const uint64_t *sizes_of(const struct record_cell *rc, unsigned variant)
{
        return rc->sizes + (size_t)variant * RECORD_SIZES;
}

/* Sizes that make up a fiftieth of a row somewhere. */
static bool worth_a_column(const struct record_experiment *re, unsigned bin)
{
        for (unsigned c = 0; c < re->n_cells; c++)
                for (unsigned v = 0; v < re->experiment->n_variants && re->cells[c].sizes; v++) {
                        const uint64_t *sizes = sizes_of(&re->cells[c], v);

                        if (sizes[bin] && sizes[bin] * 50 >= sum_of(sizes))
                                return true;
                }
        return false;
}

/* The last column is for all that have none. */
static void put_sizes(struct table *t, unsigned first, const unsigned *bins, unsigned n,
                      const uint64_t *sizes)
{
        uint64_t total = sum_of(sizes), rest = total;

        for (unsigned i = 0; i < n; i++) {
                uint64_t count = sizes[bins[i]];

                rest -= count;
                if (count)
                        put(t, first + i, MARK_PLAIN, "%.1f", 100 * (double)count / (double)total);
        }
        if (rest)
                put(t, first + n, MARK_PLAIN, "%.1f", 100 * (double)rest / (double)total);
}

void table_of_sizes(const struct record_experiment *re, struct table *ret_table)
{
        const struct experiment *e = re->experiment;
        unsigned load, variant, first, bins[TABLE_COLUMNS], n = 0;
        char text[TABLE_TEXT];

        *ret_table = (struct table){ 0 };
        load = add_column(ret_table, "", "load", true);
        variant = add_column(ret_table, "", "variant", true);
        first = ret_table->n_columns;
        for (unsigned i = 0; i < RECORD_SIZES && ret_table->n_columns < TABLE_COLUMNS - 1; i++)
                if (worth_a_column(re, i)) {
                        snprintf(text, sizeof(text), "%u", i * VW_BUFFER_STEP);
                        add_column(ret_table, "bytes of a buffer: share in %", text, false);
                        bins[n++] = i;
                }
        add_column(ret_table, "bytes of a buffer: share in %", "others", false);
        for (unsigned c = 0; c < re->n_cells; c++) {
                const struct record_cell *rc = &re->cells[c];

                for (unsigned v = 0; v < e->n_variants && rc->sizes; v++) {
                        const uint64_t *sizes = sizes_of(rc, v);

                        if (!sum_of(sizes) || !add_row(ret_table))
                                continue;
                        put(ret_table, load, MARK_KEY, "%s", cell_label(&rc->cell, text, sizeof(text)));
                        put(ret_table, variant, MARK_KEY, "%s", e->variants[v].name);
                        put_sizes(ret_table, first, bins, n, sizes);
                }
        }
}

/* ---- in words ---- */

bool table_next_behind(const struct record_experiment *re, unsigned *at, char *buf, size_t len)
{
        const struct experiment *e = re->experiment;

        while (*at < re->n_cells * e->n_variants) {
                const struct record_cell *rc = &re->cells[*at / e->n_variants];
                unsigned variant = (*at)++ % e->n_variants;
                struct finding f = record_find(re, rc, variant, workload_info[rc->cell.work].headline);
                char label[TABLE_TEXT], published[TABLE_TEXT];

                if (f.verdict != VERDICT_BEHIND)
                        continue;
                format_published(&f, published, sizeof(published));
                snprintf(buf, len, "%s, %s: %+.1f %% (%+.0f..%+.0f), published %s %%",
                         cell_label(&rc->cell, label, sizeof(label)), e->variants[variant].name,
                         f.change.median, f.change.low, f.change.high, published);
                return true;
        }
        return false;
}

void table_bases(const struct experiment *e, char *buf, size_t len)
{
        size_t n = 0;

        snprintf(buf, len, "%s", "");
        for (unsigned base = 0; base < e->n_variants; base++) {
                unsigned of = 0;

                for (unsigned v = 0; v < e->n_variants && n < len; v++)
                        if (e->variants[v].base == base && v != base)
                                n += (size_t)snprintf(buf + n, len - n, "%s%s",
                                                      of++ ? ", "
                                                      : n  ? "; "
                                                           : "",
                                                      e->variants[v].name);
                if (of && n < len)
                        n += (size_t)snprintf(buf + n, len - n, " against %s", e->variants[base].name);
        }
}

/* ---- a terminal ---- */

static unsigned width_of(const struct table *t, unsigned column)
{
        size_t width = strlen(t->columns[column].heading);

        for (unsigned r = 0; r < t->n_rows; r++)
                width = MAX(width, strlen(t->cells[r * TABLE_COLUMNS + column].text));
        return (unsigned)width;
}

static void print_line(FILE *out, const struct table *t, const unsigned *widths, const struct table_cell *row)
{
        for (unsigned c = 0; c < t->n_columns; c++) {
                const char *text = row ? row[c].text : t->columns[c].heading;

                if (t->columns[c].used)
                        fprintf(out, "  %*s", t->columns[c].left ? -(int)widths[c] : (int)widths[c], text);
        }
        fputc('\n', out);
}

/* The names of the groups, each over its first column; one that is wider than its columns widens the last. */
static void print_groups(FILE *out, const struct table *t, unsigned *widths)
{
        unsigned c = 0;

        while (c < t->n_columns) {
                unsigned end = c, width = 0, last = c, name = (unsigned)strlen(t->columns[c].group);

                for (; end < t->n_columns && !strcmp(t->columns[end].group, t->columns[c].group); end++)
                        if (t->columns[end].used) {
                                width += widths[end] + 2;
                                last = end;
                        }
                if (width && name + 2 > width) {
                        widths[last] += name + 2 - width;
                        width = name + 2;
                }
                if (width)
                        fprintf(out, "  %-*s", (int)width - 2, t->columns[c].group);
                c = end;
        }
        fputc('\n', out);
}

void table_print(FILE *out, const struct table *t)
{
        unsigned widths[TABLE_COLUMNS] = { 0 };

        for (unsigned c = 0; c < t->n_columns; c++)
                widths[c] = width_of(t, c);
        print_groups(out, t, widths);
        print_line(out, t, widths, NULL);
        for (unsigned r = 0; r < t->n_rows; r++)
                print_line(out, t, widths, &t->cells[r * TABLE_COLUMNS]);
}
