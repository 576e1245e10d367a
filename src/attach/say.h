/* What an attachment has to say goes to the log function of its configuration, if there is one.  Any thread. */
#pragma once
#include "attach/attach.h"

void attach_say(const struct attach_config *config, enum vw_log_level level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
