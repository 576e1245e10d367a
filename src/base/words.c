#include "base/words.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

void words_say(struct words *w, const char *fmt, ...)
{
        size_t at = MIN((size_t)w->n, w->len);
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(w->len ? w->buf + at : NULL, w->len - at, fmt, ap);
        va_end(ap);
        if (n > 0)
                w->n += n;
}
