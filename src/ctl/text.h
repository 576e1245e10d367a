/* A string that grows while it is written, and JSON into it.  Numbers are written here and not by jansson because its integers
 * are signed and counters are not. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
        char *data; /* ends in a zero that `len` does not count */
        size_t len, room;
        bool failed; /* out of memory: what came after is missing */
};

void text_done(struct text *t); /* empties it too */

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void text_add_bytes(struct text *t, const char *bytes, size_t n);

/* "value" with quotes and escapes; NULL becomes null, bytes that are no UTF-8 become '?'. */
void text_add_json(struct text *t, const char *value);

/* A comma unless the last byte opened an object or a list: call it before each member. */
void text_next(struct text *t);
