/* What the four patch series published, as tables of words.  The files are in bench/published/; to_c.py makes C of them. */
#pragma once
#include <stdbool.h>

struct published_table {
        const char *name; /* of the file, without .csv */
        const char *const *columns, *const *values;
        unsigned n_columns, n_rows;
};

extern const struct published_table published_tables[];
extern const unsigned n_published_tables;

/* A column and what stands in it; a list of them ends in an empty one. */
struct published_key {
        const char *column, *value;
};

/* The number in `column` of the first row of `table` that has all keys; NAN where there is no such row or no number in it. */
double published_number(const char *table, const struct published_key *keys, const char *column);
