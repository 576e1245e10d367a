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

void log_say(enum vw_log_level level, const char *component, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
