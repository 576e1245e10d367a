/* All that a run of `vwire bench` has measured, and what follows from it.  As JSON it is complete: reports are made from it. */
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/experiment.h"
#include "bench/summary.h"
#include "vwire/stats.h"

#define RECORD_SIZES VW_BUFFER_SIZES /* bins of the histogram of receive buffers */

struct record_cell {
        struct cell cell;
        unsigned n_rounds;
        struct sample *samples; /* n_variants of a round, then the next round */
        uint64_t *sizes; /* RECORD_SIZES of each variant: buffers used of that size; NULL: not counted */
};

struct record_experiment {
        const struct experiment *experiment;
        unsigned n_cells;
        struct record_cell *cells;
};

struct record {
        char version[32], started[32]; /* UTC, ISO 8601 */
        char kernel[160], cpu[128], guest[16];
        unsigned n_cpus, memory_mb;
        bool quick, complete;
        unsigned repeat, window_ms;
        double seconds;
        unsigned n_experiments;
        struct record_experiment *experiments;
};

/* Fills in time and machine. */
void record_init(struct record *r);
void record_done(struct record *r);

/* NULL: out of memory.  Pointers to earlier ones may change. */
struct record_experiment *record_add_experiment(struct record *r, const struct experiment *e);
struct record_cell *record_add_cell(struct record_experiment *re, const struct cell *cell);
/* A round: a sample of each variant, NAN where it could not be had.  False: out of memory. */
bool record_add_round(struct record_experiment *re, struct record_cell *rc, const struct sample *samples);

/* Buffers of each size that a variant has used in another round.  False: out of memory. */
bool record_add_sizes(struct record_experiment *re, struct record_cell *rc, unsigned variant,
                      const uint64_t sizes[RECORD_SIZES]);
/* Moves the experiments of another run over, and empties it.  0, or -1 with a sentence about why they cannot be one. */
int record_join(struct record *r, struct record *other, char *why, size_t len);

json_t *record_to_json(const struct record *r);
/* 0, or -1 with a sentence about what is wrong; then *ret_record is empty. */
int record_from_json(const json_t *json, struct record *ret_record, char *why, size_t len);
int record_load(const char *path, struct record *ret_record, char *why, size_t len);
/* 0 or -errno. */
int record_save(const struct record *r, FILE *out);

/* ---- what follows ---- */

enum verdict { VERDICT_NONE, VERDICT_BEHIND, VERDICT_ALIKE, VERDICT_AHEAD, VERDICT_COUNT };

struct finding {
        struct summary value;
        /* per cent against the base variant, from the ratios of the rounds; n = 0: there is no base */
        struct summary change;
        bool published;
        double low, high;     /* published change, per cent */
        enum verdict verdict; /* of the interval of the change against these */
};

/* Whether this is the first cell of its workload: where that one's table stands. */
bool record_opens_workload(const struct record_experiment *re, unsigned cell);
/* How many headline figures got each verdict. */
void record_count_verdicts(const struct record_experiment *re, unsigned ret_counts[VERDICT_COUNT]);

struct finding record_find(const struct record_experiment *re, const struct record_cell *rc, unsigned variant,
                           enum metric metric);
