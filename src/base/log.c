#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static struct {
        enum vw_log_level least;
        vw_log_fn *fn;
        void *ctx;
} sink = { .least = VW_LOG_INFO };

void log_setup(enum vw_log_level least, vw_log_fn *fn, void *ctx)
{
        sink.least = least;
        sink.fn = fn;
        sink.ctx = ctx;
}

void vw_set_log(enum vw_log_level least, vw_log_fn *fn, void *ctx)
{
        log_setup(least, fn, ctx);
}

VW_API const char *vw_log_value(const char *value, char *buf, size_t len)
{
        size_t n = 0;

        if (*value && !strpbrk(value, " \t\n\"\\"))
                return value;
        buf[n++] = '"';
        for (; *value && n + 3 < len; value++) {
                if (strchr("\"\\", *value))
                        buf[n++] = '\\';
                buf[n++] = *value;
        }
        buf[n++] = '"';
        buf[n] = '\0';
        return buf;
}

static void emit(enum vw_log_level level, const char *component, const char *fmt, va_list ap,
                 uint64_t suppressed)
{
        char text[512], tail[40] = "";
        size_t room, len;

        if (suppressed)
                snprintf(tail, sizeof(tail), " suppressed=%" PRIu64, suppressed);
        room = sizeof(text) - strlen(tail);
        vsnprintf(text, room, fmt, ap);
        len = strnlen(text, room - 1);
        memcpy(text + len, tail, strlen(tail) + 1);
        sink.fn(sink.ctx, level, component, text);
}

void log_line(enum vw_log_level level, const char *component, const char *fmt, ...)
{
        va_list ap;

        if (!sink.fn || level > sink.least)
                return;
        va_start(ap, fmt);
        emit(level, component, fmt, ap, 0);
        va_end(ap);
}

void log_limited(struct log_limit *limit, uint64_t now, enum vw_log_level level, const char *component,
                 const char *fmt, ...)
{
        uint64_t window = now / NSEC_PER_SEC + 1; /* never 0, so that a zeroed limit is a fresh one */
        va_list ap;

        if (!sink.fn || level > sink.least)
                return;
        if (limit->window != window) {
                limit->window = window;
                limit->lines = 0;
        }
        if (limit->lines == LOG_LINES_PER_SECOND) {
                limit->suppressed++;
                limit->level = level;
                limit->component = component;
                return;
        }
        limit->lines++;
        va_start(ap, fmt);
        emit(level, component, fmt, ap, limit->suppressed);
        va_end(ap);
        limit->suppressed = 0;
}

uint64_t log_settle(struct log_limit *limit, uint64_t now)
{
        uint64_t over = limit->window * NSEC_PER_SEC; /* its second */

        if (!limit->suppressed)
                return NEVER;
        if (now < over)
                return over;
        log_line(limit->level, limit->component, "lines like the last were held back suppressed=%" PRIu64,
                 limit->suppressed);
        limit->suppressed = 0;
        return NEVER;
}
