#include "bench/published.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct published_table *find_table(const char *name)
{
        for (unsigned i = 0; i < n_published_tables; i++)
                if (!strcmp(published_tables[i].name, name))
                        return &published_tables[i];
        return NULL;
}

/* NULL if there is no such column. */
static const char *value_at(const struct published_table *t, unsigned row, const char *column)
{
        for (unsigned i = 0; i < t->n_columns; i++)
                if (!strcmp(t->columns[i], column))
                        return t->values[row * t->n_columns + i];
        return NULL;
}

static bool row_has(const struct published_table *t, unsigned row, const char *const *keys)
{
        for (; *keys; keys += 2) {
                const char *value = value_at(t, row, keys[0]);

                if (!value || strcmp(value, keys[1]) != 0)
                        return false;
        }
        return true;
}

double published_number(const char *table, const char *const *keys, const char *column)
{
        const struct published_table *t = find_table(table);

        for (unsigned row = 0; t && row < t->n_rows; row++) {
                const char *text;
                char *end;
                double number;

                if (!row_has(t, row, keys))
                        continue;
                text = value_at(t, row, column);
                if (!text || !*text)
                        return NAN;
                number = strtod(text, &end);
                return *end ? NAN : number;
        }
        return NAN;
}
