/* A run as JSON, and back:
 *
 *      {"format":1, "vwire":"0.1.0", "started":"...", "seconds":300.5, "complete":true,
 *       "machine":{"kernel":"Linux 6.1","cpu":"...","cpus":2,"memory_mb":4096},
 *       "settings":{"guest":"vwire","quick":true,"repeat":5,"window_ms":250},
 *       "experiments":[{"name":"busypoll", "variants":["poll 0","poll 50 us"],
 *                       "cells":[{"workload":"TCP_RR","size":1,"sessions":1,"threads":1,
 *                                 "rounds":[{"poll 0":{"transactions":15123.0,...},"poll 50 us":{...}},...],
 *                                 "buffer_sizes":{"auto":{"1536":100}}}]}]} */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record.h"

#define FORMAT 1

/* ---- out ---- */

static json_t *sample_json(const struct sample *s)
{
        json_t *json = json_object();

        for (unsigned m = 0; m < METRIC_COUNT; m++)
                if (isfinite(s->value[m]))
                        json_object_set_new(json, metric_info[m].key, json_real(s->value[m]));
        return json;
}

static json_t *sizes_json(const struct record_experiment *re, const struct record_cell *rc)
{
        json_t *json = json_object();

        for (unsigned v = 0; v < re->experiment->n_variants; v++) {
                json_t *bins = json_object();

                for (unsigned i = 0; i < RECORD_SIZES; i++) {
                        uint64_t count = rc->sizes[v * RECORD_SIZES + i];
                        char size[16];

                        snprintf(size, sizeof(size), "%u", i * VW_BUFFER_STEP);
                        if (count)
                                json_object_set_new(bins, size, json_integer((json_int_t)count));
                }
                json_object_set_new(json, re->experiment->variants[v].name, bins);
        }
        return json;
}

static json_t *cell_json(const struct record_experiment *re, const struct record_cell *rc)
{
        unsigned n = re->experiment->n_variants;
        json_t *rounds = json_array(), *json;

        for (unsigned i = 0; i < rc->n_rounds; i++) {
                json_t *round = json_object();

                for (unsigned v = 0; v < n; v++) {
                        json_t *sample = sample_json(&rc->samples[i * n + v]);

                        if (json_object_size(sample)) /* else this variant was not measured */
                                json_object_set(round, re->experiment->variants[v].name, sample);
                        json_decref(sample);
                }
                json_array_append_new(rounds, round);
        }
        json = json_pack("{s:s, s:i, s:i, s:i, s:o}", "workload", workload_info[rc->cell.work].name, "size",
                         (int)rc->cell.size, "sessions", (int)rc->cell.sessions, "threads",
                         (int)rc->cell.threads, "rounds", rounds);
        if (rc->sizes)
                json_object_set_new(json, "buffer_sizes", sizes_json(re, rc));
        return json;
}

static json_t *experiment_json(const struct record_experiment *re)
{
        json_t *variants = json_array(), *cells = json_array();

        for (unsigned v = 0; v < re->experiment->n_variants; v++)
                json_array_append_new(variants, json_string(re->experiment->variants[v].name));
        for (unsigned c = 0; c < re->n_cells; c++)
                json_array_append_new(cells, cell_json(re, &re->cells[c]));
        return json_pack("{s:s, s:o, s:o}", "name", re->experiment->name, "variants", variants, "cells",
                         cells);
}

json_t *record_to_json(const struct record *r)
{
        json_t *all = json_array();

        for (unsigned i = 0; i < r->n_experiments; i++)
                json_array_append_new(all, experiment_json(&r->experiments[i]));
        return json_pack("{s:i, s:s, s:s, s:f, s:b, s:{s:s, s:s, s:i, s:i}, s:{s:s, s:b, s:i, s:i}, s:o}",
                         "format", FORMAT, "vwire", r->version, "started", r->started, "seconds", r->seconds,
                         "complete", r->complete, "machine", "kernel", r->kernel, "cpu", r->cpu, "cpus",
                         (int)r->n_cpus, "memory_mb", (int)r->memory_mb, "settings", "guest", r->guest,
                         "quick", r->quick, "repeat", (int)r->repeat, "window_ms", (int)r->window_ms,
                         "experiments", all);
}

int record_save(const struct record *r, FILE *out)
{
        json_t *json = record_to_json(r);
        bool good = json && json_dumpf(json, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0 &&
                    fputc('\n', out) != EOF;

        json_decref(json);
        return good && fflush(out) == 0 ? 0 : -EIO;
}

/* ---- in ---- */

static bool read_sample(const json_t *json, struct sample *ret_sample)
{
        for (unsigned m = 0; m < METRIC_COUNT; m++) {
                const json_t *value = json_object_get(json, metric_info[m].key);

                if (value && !json_is_number(value))
                        return false;
                ret_sample->value[m] = value ? json_number_value(value) : NAN;
        }
        return !json || json_is_object(json);
}

static bool read_cell_name(const json_t *json, struct cell *ret_cell)
{
        const char *name;
        int size, sessions, threads;

        if (json_unpack((json_t *)json, "{s:s, s:i, s:i, s:i}", "workload", &name, "size", &size, "sessions",
                        &sessions, "threads", &threads) < 0 ||
            size < 0 || sessions < 0 || threads < 0)
                return false;
        for (unsigned w = 0; w < WORK_COUNT; w++)
                if (!strcmp(workload_info[w].name, name)) {
                        *ret_cell = (struct cell){ w, (unsigned)size, (unsigned)sessions, (unsigned)threads };
                        return true;
                }
        return false;
}

static bool read_sizes(const json_t *json, const struct experiment *e, struct record_cell *rc)
{
        rc->sizes = calloc((size_t)e->n_variants * RECORD_SIZES, sizeof(*rc->sizes));
        if (!rc->sizes)
                return false;
        for (unsigned v = 0; v < e->n_variants; v++) {
                const char *key;
                json_t *value;

                json_object_foreach (json_object_get(json, e->variants[v].name), key, value) {
                        unsigned long bin = strtoul(key, NULL, 10) / VW_BUFFER_STEP;

                        if (bin >= RECORD_SIZES || !json_is_integer(value))
                                return false;
                        rc->sizes[v * RECORD_SIZES + bin] = (uint64_t)json_integer_value(value);
                }
        }
        return true;
}

static bool read_cell(const json_t *json, struct record_experiment *re)
{
        const struct experiment *e = re->experiment;
        const json_t *rounds = json_object_get(json, "rounds"),
                     *sizes = json_object_get(json, "buffer_sizes");
        struct record_cell *rc;
        struct cell cell;
        json_t *round;
        size_t i;

        if (!read_cell_name(json, &cell) || !json_is_array(rounds))
                return false;
        rc = record_add_cell(re, &cell);
        if (!rc || (sizes && !read_sizes(sizes, e, rc)))
                return false;
        json_array_foreach (rounds, i, round) {
                struct sample samples[VARIANTS_MAX];

                for (unsigned v = 0; v < e->n_variants; v++)
                        if (!read_sample(json_object_get(round, e->variants[v].name), &samples[v]))
                                return false;
                if (!json_is_object(round) || !record_add_round(re, rc, samples))
                        return false;
        }
        return true;
}

static int read_experiment(const json_t *json, struct record *r, char *why, size_t len)
{
        const char *name = json_string_value(json_object_get(json, "name"));
        const struct experiment *e = name ? experiment_find(name) : NULL;
        const json_t *cells = json_object_get(json, "cells");
        struct record_experiment *re;
        json_t *cell;
        size_t i;

        if (!e) {
                snprintf(why, len, "has an experiment %.40s that this version does not know",
                         name ? name : "without a name");
                return -1;
        }
        re = record_add_experiment(r, e);
        json_array_foreach (cells, i, cell)
                if (!re || !read_cell(cell, re)) {
                        snprintf(why, len, "cell %zu of %s is not as it should be", i, name);
                        return -1;
                }
        return 0;
}

static void copy_text(char *into, size_t len, const json_t *object, const char *name)
{
        const char *value = json_string_value(json_object_get(object, name));

        snprintf(into, len, "%s", value ? value : "");
}

static unsigned read_number(const json_t *object, const char *name)
{
        json_int_t value = json_integer_value(json_object_get(object, name));

        return value < 0 || value > 1000000000 ? 0 : (unsigned)value;
}

int record_from_json(const json_t *json, struct record *ret_record, char *why, size_t len)
{
        const json_t *machine = json_object_get(json, "machine"),
                     *settings = json_object_get(json, "settings");
        struct record r = { .n_cpus = read_number(machine, "cpus"),
                            .memory_mb = read_number(machine, "memory_mb"),
                            .repeat = read_number(settings, "repeat"),
                            .window_ms = read_number(settings, "window_ms"),
                            .quick = json_is_true(json_object_get(settings, "quick")),
                            .complete = json_is_true(json_object_get(json, "complete")),
                            .seconds = json_number_value(json_object_get(json, "seconds")) };
        json_t *experiment;
        int result = 0;
        size_t i;

        *ret_record = (struct record){ 0 };
        if (read_number(json, "format") != FORMAT) {
                snprintf(why, len, "is no result of vwire bench in format %d", FORMAT);
                return -1;
        }
        copy_text(r.version, sizeof(r.version), json, "vwire");
        copy_text(r.started, sizeof(r.started), json, "started");
        copy_text(r.kernel, sizeof(r.kernel), machine, "kernel");
        copy_text(r.cpu, sizeof(r.cpu), machine, "cpu");
        copy_text(r.guest, sizeof(r.guest), settings, "guest");
        json_array_foreach (json_object_get(json, "experiments"), i, experiment)
                if (result == 0)
                        result = read_experiment(experiment, &r, why, len);
        if (result < 0)
                record_done(&r);
        else
                *ret_record = r;
        return result;
}

int record_load(const char *path, struct record *ret_record, char *why, size_t len)
{
        json_error_t error;
        json_t *json = json_load_file(path, 0, &error);
        int r = -1;

        *ret_record = (struct record){ 0 };
        if (json)
                r = record_from_json(json, ret_record, why, len);
        else
                snprintf(why, len, "%.200s", error.text);
        json_decref(json);
        return r;
}
