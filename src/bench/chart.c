#include "bench/chart.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/table.h"

#define TOGETHER 24   /* cells of an experiment that share a chart; with more, each workload has one */
#define GAP      0.5  /* between sizes, in widths of a cell; twice as much between workloads */
#define STEP     0.15 /* between the points of a cell's variants */
#define CUT      3    /* times the range of the medians: what an axis shows of the intervals */

struct spot {
        const struct record_cell *rc;
        double x;
};

struct chart {
        const struct record_experiment *re;
        bool values; /* instead of changes */
        unsigned n;
        struct spot spots[CELLS_MAX];
};

/* A variant that has points of its own. */
static bool has_series(const struct chart *c, unsigned variant)
{
        return c->values || c->re->experiment->variants[variant].base != variant;
}

static bool has_point(const struct chart *c, unsigned variant, const struct spot *s)
{
        return has_series(c, variant) && experiment_applies(c->re->experiment, &s->rc->cell, variant);
}

static struct finding look(const struct chart *c, unsigned variant, const struct spot *s)
{
        return record_find(c->re, s->rc, variant, workload_info[s->rc->cell.work].headline);
}

/* ---- places ---- */

static bool same_size(const struct cell *a, const struct cell *b)
{
        return a->work == b->work && a->size == b->size && a->threads == b->threads;
}

static bool same_work(const struct cell *a, const struct cell *b)
{
        return a->work == b->work;
}

static void place_cells(struct chart *c, bool all, enum workload work)
{
        double x = 1;

        for (unsigned i = 0; i < c->re->n_cells; i++) {
                const struct record_cell *rc = &c->re->cells[i];
                const struct cell *before = c->n ? &c->spots[c->n - 1].rc->cell : NULL;

                if (rc->cell.work == WORK_LIMIT || (!all && rc->cell.work != work) || !rc->n_rounds)
                        continue;
                if (before)
                        x += 1 + (same_size(before, &rc->cell)   ? 0
                                  : same_work(before, &rc->cell) ? GAP
                                                                 : 2 * GAP);
                c->spots[c->n++] = (struct spot){ rc, x };
        }
}

static void put_label(FILE *out, const char *text, const char *at, double x, double below, const char *align)
{
        fprintf(out, "set label \"%s\" at %s %g, graph 0 offset character 0, %g %s textcolor rgb '#0000f2'\n",
                text, at, x, below, align);
}

/* One text under all neighbouring spots that are the same in a way. */
static void put_spans(FILE *out, const struct chart *c,
                      bool (*same)(const struct cell *a, const struct cell *b),
                      void (*name)(const struct cell *cell, char *buf, size_t len), double below)
{
        for (unsigned i = 0, end; i < c->n; i = end) {
                const struct cell *cell = &c->spots[i].rc->cell;
                char text[64];

                for (end = i + 1; end < c->n && same(cell, &c->spots[end].rc->cell); end++)
                        continue;
                name(cell, text, sizeof(text));
                put_label(out, text, "first", (c->spots[i].x + c->spots[end - 1].x) / 2, below, "center");
        }
}

static void name_size(const struct cell *cell, char *buf, size_t len)
{
        snprintf(buf, len, "%u%s", cell->size, cell->threads > 1 ? "*" : "");
}

static void name_work(const struct cell *cell, char *buf, size_t len)
{
        snprintf(buf, len, "%s", workload_info[cell->work].name);
        for (; *buf; buf++)
                if (*buf == '_')
                        *buf = ' ';
}

static bool is_ring(const struct chart *c)
{
        enum workload work = c->spots[0].rc->cell.work;

        return work == WORK_RING_TX || work == WORK_RING_RX;
}

static void put_places(FILE *out, const struct chart *c)
{
        fprintf(out, "set xrange [0.2:%g]\nset xtics (", c->spots[c->n - 1].x + 0.8);
        for (unsigned i = 0; i < c->n; i++)
                fprintf(out, "%s\"%u\" %g", i ? ", " : "", c->spots[i].rc->cell.sessions, c->spots[i].x);
        fprintf(out, ") nomirror scale 0\n");
        put_label(out, is_ring(c) ? "entries" : "sessions", "graph", 0, -1.05, "right");
        put_label(out, "bytes", "graph", 0, -2.2, "right");
        put_spans(out, c, same_size, name_size, -2.2);
        put_spans(out, c, same_work, name_work, -3.6);
}

/* ---- the axis ---- */

/* Changes are drawn as ratios on a logarithmic axis: twice as much is as far up as half as much is down. */
static double ratio(double per_cent)
{
        return fmax(1 + per_cent / 100, 0.02);
}

/* Of all that must be seen: medians and what was published. */
static void find_range(const struct chart *c, double *ret_low, double *ret_high)
{
        double low = c->values ? 0 : ratio(-10), high = c->values ? 0 : ratio(10);

        for (unsigned v = 0; v < c->re->experiment->n_variants; v++) {
                for (unsigned i = 0; i < c->n; i++) {
                        struct finding f = look(c, v, &c->spots[i]);

                        if (!has_point(c, v, &c->spots[i]))
                                continue;
                        if (c->values && f.value.n)
                                high = fmax(high, f.value.high);
                        if (!c->values && f.change.n) {
                                low = fmin(low, ratio(f.change.median));
                                high = fmax(high, ratio(f.change.median));
                        }
                        if (!c->values && f.published) {
                                low = fmin(low, ratio(f.low));
                                high = fmax(high, ratio(f.high));
                        }
                }
        }
        *ret_low = low;
        *ret_high = high;
}

static void put_changes_axis(FILE *out, double low, double high)
{
        static const int marks[] = { 0,   10,  -10, 20,  -20, 50,  -33,  100,  -50,
                                     200, -67, 300, -75, 700, -90, 1500, 3000, 7000 };
        double shown[ARRAY_SIZE(marks)] = { 0 }, room = pow(high / low, 0.2), least;
        unsigned n = 0;

        low /= room;
        high *= room;
        least = log(high / low) / 14; /* distance of two marks */
        fprintf(out, "set logscale y\nset yrange [%g:%g]\nset ytics (", low, high);
        for (unsigned i = 0; i < ARRAY_SIZE(marks); i++) {
                double at = ratio(marks[i]);
                bool fits = at > low && at < high;

                for (unsigned k = 0; k < n; k++)
                        fits &= fabs(log(at / shown[k])) > least;
                if (!fits)
                        continue;
                fprintf(out, marks[i] ? "%s\"%+d %%%%\" %g" : "%s\"±%d\" %g", n ? ", " : "", marks[i], at);
                shown[n++] = at;
        }
        fprintf(out,
                ") nomirror scale 0\nset arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#0000f2'\n");
}

/* ---- the points ---- */

static unsigned count_series(const struct chart *c)
{
        unsigned n = 0;

        for (unsigned v = 0; v < c->re->experiment->n_variants; v++)
                n += has_series(c, v);
        return n;
}

static void put_points(FILE *out, const struct chart *c, unsigned variant, double offset, double low,
                       double high)
{
        fprintf(out, "$measured%u << END\n", variant);
        for (unsigned i = 0; i < c->n; i++) {
                struct finding f = look(c, variant, &c->spots[i]);
                const struct summary *s = c->values ? &f.value : &f.change;
                double x = c->spots[i].x + offset;

                if (!has_point(c, variant, &c->spots[i]) || !s->n)
                        continue;
                if (c->values)
                        fprintf(out, "%g %g %g %g\n", x, s->median, s->low, s->high);
                else
                        fprintf(out, "%g %g %g %g\n", x, ratio(s->median), fmax(ratio(s->low), low / CUT),
                                fmin(ratio(s->high), high * CUT));
        }
        fprintf(out, "END\n$published%u << END\n", variant);
        for (unsigned i = 0; i < c->n; i++) {
                struct finding f = look(c, variant, &c->spots[i]);

                if (!c->values && has_point(c, variant, &c->spots[i]) && f.published)
                        fprintf(out, "%g %g %g %g\n", c->spots[i].x + offset,
                                sqrt(ratio(f.low) * ratio(f.high)), ratio(f.low), ratio(f.high));
        }
        fprintf(out, "END\n");
}

static bool has_published(const struct chart *c, unsigned variant)
{
        for (unsigned i = 0; i < c->n; i++)
                if (has_point(c, variant, &c->spots[i]) && look(c, variant, &c->spots[i]).published)
                        return true;
        return false;
}

static bool has_measured(const struct chart *c, unsigned variant)
{
        for (unsigned i = 0; i < c->n; i++) {
                struct finding f = look(c, variant, &c->spots[i]);

                if (has_point(c, variant, &c->spots[i]) && (c->values ? f.value.n : f.change.n))
                        return true;
        }
        return false;
}

/* Published ones are hollow, in their variant's colour, and lie below.  One entry of the legend stands for all of them. */
static void put_published(FILE *out, const struct chart *c, unsigned variant, unsigned color)
{
        if (!c->values && has_published(c, variant))
                fprintf(out, "$published%u with yerrorbars lc rgb '#0000%02x' lw 1.2 pt 12 ps 1.2 notitle, ",
                        variant, color);
}

static void put_plot(FILE *out, const struct chart *c)
{
        const struct experiment *e = c->re->experiment;
        bool alone = count_series(c) == 1, published = false;

        fprintf(out, "plot ");
        for (unsigned v = 0, series = 1; v < e->n_variants; v++)
                if (has_series(c, v)) {
                        put_published(out, c, v, alone ? 2 : series++);
                        published |= !c->values && has_published(c, v);
                }
        for (unsigned v = 0, series = 1; v < e->n_variants; v++) {
                if (!has_series(c, v))
                        continue;
                if (has_measured(c, v))
                        fprintf(out,
                                "$measured%u with yerrorbars lc rgb '#0000%02x' lw 1.8 pt 7 ps 0.75 title '%s', ",
                                v, series, alone && !c->values ? "measured" : e->variants[v].name);
                series++;
        }
        if (published)
                fprintf(out, "keyentry with points lc rgb '#0000%02x' lw 1.2 pt 12 ps 1.2 title 'published'",
                        alone ? 2 : 0xf2);
        fprintf(out, "\n");
}

static void put_chart(FILE *out, const struct chart *c, unsigned number)
{
        unsigned n = count_series(c), series = 0;
        double low, high;

        find_range(c, &low, &high);
        fprintf(out,
                "set term svg size 1200,340 dynamic font 'system-ui,sans-serif,13' name 'chart%u'\n"
                "set encoding utf8\nset border 0\nset bars 0\nset pointintervalbox 0\nset bmargin 5\nset lmargin 10\n"
                "set rmargin 1\nset grid y lt 1 lc rgb '#0000f1' lw 0.6\nset tics textcolor rgb '#0000f2'\n"
                "set key outside above left horizontal reverse Left samplen 1.5 textcolor rgb '#0000f2'\n",
                number);
        put_places(out, c);
        if (c->values)
                fprintf(out, "set yrange [0:%g]\nset ytics nomirror scale 0\n", high * 1.08);
        else
                put_changes_axis(out, low, high);
        for (unsigned v = 0; v < c->re->experiment->n_variants; v++)
                if (has_series(c, v)) {
                        put_points(out, c, v, STEP * (series - (n - 1) / 2.0), low, high);
                        series++;
                }
        put_plot(out, c);
}

/* ---- gnuplot ---- */

/* Runs it with commands in one memfd and the drawing in another. */
static int run_gnuplot(int commands, int drawing, char *why, size_t len)
{
        char *const argv[] = { (char *)"gnuplot", (char *)"-", NULL };
        posix_spawn_file_actions_t actions;
        int status = -1, r;
        pid_t pid;

        lseek(commands, 0, SEEK_SET);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, commands, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, drawing, STDOUT_FILENO);
        r = posix_spawnp(&pid, "gnuplot", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (r) {
                snprintf(why, len, "gnuplot cannot be started: %s", strerror(r));
                return -1;
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                continue;
        if (status) {
                snprintf(why, len, "gnuplot failed with status %d",
                         WIFEXITED(status) ? WEXITSTATUS(status) : status);
                return -1;
        }
        return 0;
}

/* The <svg> element; what it defines and draws by reference is the same in each and stays in the first only. */
static void copy_svg(FILE *out, FILE *svg, bool first)
{
        bool inside = false, skipping = false;
        char *line = NULL;
        size_t room = 0;

        while (getline(&line, &room, svg) > 0) {
                inside |= !strncmp(line, "<svg", 4);
                skipping |= !first && !strncmp(line, "<defs>", 6);
                if (inside && !skipping && strncmp(line, "<title>", 7) != 0 &&
                    strncmp(line, "<desc>", 6) != 0)
                        fputs(!strncmp(line, "<g id=", 6) ? "<g>\n" : line, out);
                skipping &= strncmp(line, "</defs>", 7) != 0;
        }
        free(line);
}

static int draw(FILE *out, const struct chart *c, unsigned number, char *why, size_t len)
{
        int commands = memfd_create("commands", MFD_CLOEXEC), drawing = memfd_create("svg", MFD_CLOEXEC),
            r = -1;
        FILE *to = commands < 0 ? NULL : fdopen(commands, "w"),
             *from = drawing < 0 ? NULL : fdopen(drawing, "r");

        snprintf(why, len, "no memory for a chart");
        if (to && from) {
                put_chart(to, c, number);
                if (fflush(to) == 0)
                        r = run_gnuplot(commands, drawing, why, len);
        }
        if (r == 0) {
                rewind(from);
                copy_svg(out, from, number == 0);
        }
        if (to)
                fclose(to);
        else if (commands >= 0)
                close(commands);
        if (from)
                fclose(from);
        else if (drawing >= 0)
                close(drawing);
        return r;
}

static bool with_threads(const struct chart *c)
{
        for (unsigned i = 0; i < c->n; i++)
                if (c->spots[i].rc->cell.threads > 1)
                        return true;
        return false;
}

static bool any_published(const struct chart *c)
{
        for (unsigned v = 0; v < c->re->experiment->n_variants; v++)
                if (has_published(c, v))
                        return true;
        return false;
}

static bool any_measured(const struct chart *c)
{
        for (unsigned v = 0; v < c->re->experiment->n_variants; v++)
                if (has_measured(c, v))
                        return true;
        return false;
}

static void put_caption(FILE *out, const struct chart *c, bool all, enum workload work)
{
        char bases[256];

        table_bases(c->re->experiment, bases, sizeof(bases));
        fprintf(out, "<figcaption>");
        if (!all)
                fprintf(out, "%s. ", workload_info[work].name);
        if (c->values)
                fprintf(out, "Medians with their intervals, in %s.",
                        metric_info[workload_info[c->spots[0].rc->cell.work].headline].heading);
        else
                fprintf(out,
                        "Change, %s: measured medians with their intervals%s. What leaves the picture is in the table.",
                        bases, any_published(c) ? "; hollow: published" : "");
        fprintf(out, "%s</figcaption></figure>\n", with_threads(c) ? " *: four threads send." : "");
}

int chart_draw(FILE *out, const struct record_experiment *re, unsigned *n_charts, char *why, size_t len)
{
        bool all = re->n_cells <= TOGETHER;
        struct chart *c = malloc(sizeof(*c));
        int r = 0;

        for (unsigned work = 0; c && r == 0 && work < (all ? 1 : WORK_COUNT); work++) {
                *c = (struct chart){ .re = re };
                c->values = count_series(c) == 0;
                place_cells(c, all, work);
                if (!any_measured(c))
                        continue;
                fprintf(out, "<figure>\n");
                r = draw(out, c, (*n_charts)++, why, len);
                put_caption(out, c, all, work);
        }
        free(c);
        return r;
}
