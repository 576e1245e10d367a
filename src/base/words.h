/* A text for people, put together piece by piece in a buffer of the caller's.  `n` counts as snprintf() does: what would not fit, too. */
#pragma once
#include <stddef.h>

struct words {
        char *buf;
        size_t len;
        int n;
};

/* Adds to it. */
void words_say(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
