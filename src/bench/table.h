/* A table of short texts before anyone knows how it will be shown; and the tables that show an experiment. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "bench/record.h"

#define TABLE_COLUMNS 40
#define TABLE_TEXT    40

enum table_mark {
        MARK_PLAIN,
        MARK_KEY,       /* what tells rows apart */
        MARK_MEASURED,  /* a change whose sign is beyond doubt */
        MARK_PUBLISHED, /* not ours */
        MARK_BEHIND,
        MARK_AHEAD,
};

struct table_cell {
        char text[TABLE_TEXT];
        enum table_mark mark;
};

struct table_column {
        char group[TABLE_TEXT], heading[TABLE_TEXT];
        bool left; /* aligned; else right */
        bool used; /* something stands in it */
};

struct table {
        unsigned n_columns, n_rows;
        struct table_column columns[TABLE_COLUMNS];
        struct table_cell *cells; /* row by row, TABLE_COLUMNS each */
};

/* What was measured under one workload, NULL-safe in that a table without rows comes back if there is nothing (or no memory). */
void table_of(const struct record_experiment *re, enum workload work, struct table *ret_table);
/* Receive buffers of each size, if they were counted. */
void table_of_sizes(const struct record_experiment *re, struct table *ret_table);
void table_done(struct table *t);

/* Aligned, for a terminal. */
void table_print(FILE *out, const struct table *t);

/* The next cell that falls behind what was published, in words; `*at` begins with 0.  False: there are no more. */
bool table_next_behind(const struct record_experiment *re, unsigned *at, char *buf, size_t len);

/* What the changes are against, in words. */
void table_bases(const struct experiment *e, char *buf, size_t len);
