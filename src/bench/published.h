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

/* A column and what stands in it, then another. */
#define KEYS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* The number in `column` of the first row of `table` that has all keys; NAN where there is no such row or no number in it. */
double published_number(const char *table, const char *const *keys, const char *column);
