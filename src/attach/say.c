#include "attach/say.h"

#include <stdarg.h>
#include <stdio.h>

void attach_say(const struct attach_config *config, enum vw_log_level level, const char *fmt, ...)
{
        char text[256];
        va_list ap;

        if (!config->log)
                return;
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        config->log(config->log_ctx, level, "driver", text);
}
