/* Logging goes to one callback, set by the program; the library never prints.  A line is an event:
 * a component, a sentence, then key=value pairs.  log_limited() lets at most ten lines a second of one reason
 * through and says afterwards how many it held back, so that a hostile peer cannot fill a disk. */
#pragma once
#include <stdarg.h>
#include <stdint.h>

#include "vwire/types.h"

/* The least severe level that is passed on, and where to.  Before any thread starts. */
void log_setup(enum vw_log_level least, vw_log_fn *fn, void *ctx);

void log_line(enum vw_log_level level, const char *component, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#define log_error(component, ...) log_line(VW_LOG_ERROR, component, __VA_ARGS__)
#define log_warn(component, ...)  log_line(VW_LOG_WARN, component, __VA_ARGS__)
#define log_info(component, ...)  log_line(VW_LOG_INFO, component, __VA_ARGS__)
#define log_debug(component, ...) log_line(VW_LOG_DEBUG, component, __VA_ARGS__)

/* One per reason, zeroed; owned by one thread. */
struct log_limit {
        uint64_t window;     /* second in which `lines` were let through */
        uint64_t suppressed; /* since the last line that went out */
        unsigned lines;
        enum vw_log_level level; /* of what was held back */
        const char *component;
};

#define LOG_LINES_PER_SECOND 10 /* of one reason; enough to see a pattern, too few to fill a disk */

void log_limited(struct log_limit *limit, uint64_t now, enum vw_log_level level, const char *component,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Says how many lines were held back, if there are any and their second is over, for a reason that has not come again.  Returns when to
 * ask again, NEVER if there is nothing to say.  `now` of NEVER: at once, since `limit` goes. */
uint64_t log_settle(struct log_limit *limit, uint64_t now);
