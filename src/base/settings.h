/* Settings by key: what both ends say when they refuse one.  Their names and limits are in vwire/stats.h. */
#pragma once
#include "vwire/stats.h"

/* Returns `error`; the sentence lies in thread-local storage.  It goes to logs and into JSON, and may quote what a client sent: what is
 * not printable ASCII becomes a '?'. */
int setting_refuse(int error, const char **ret_why, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* 0, -ENOENT: the role ("driver": true) has no such setting, -ERANGE: the value is beyond its limits. */
int setting_check(const struct vw_setting *setting, bool driver, const char **ret_why);
