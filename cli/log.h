/* Log lines on stderr, `LEVEL COMPONENT: text key=value ...` or a JSON object each; the library's and our own. */
#pragma once
#include "opts.h"
#include "vwire/types.h"

/* --log-level and --log-format, for any command's page. */
extern const struct opt_group log_options;

/* Takes the library's events too.  After the options are parsed, before anything else. */
void log_start(void);

/* One event, as the library hands it over. */
void log_event(void *ctx, enum vw_log_level level, const char *component, const char *text);

/* A value as it may stand in a pair of log_say(): itself, if it is one plain word, else in quotes, in buf; a quote or a backslash in
 * it has a backslash before it. */
#define LOG_VALUE_SIZE 256 /* holds any path of a socket */
const char *log_value(const char *value, char *buf, size_t len);

void log_say(enum vw_log_level level, const char *component, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
