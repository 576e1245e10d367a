/* What the control socket answers, apart from any socket: a line comes in, a line goes out.  The program says by
 * callbacks what its end can do, so this knows neither device nor driver. */
#pragma once
#include "ctl/text.h"
#include "vwire/stats.h"

/* All on the thread that dispatches the server.  0 or -errno; a callback that is NULL makes its command `unsupported`.
 * -EINVAL, -ERANGE, -ENOENT, -EOPNOTSUPP and those of a wrong state (-ENOTCONN, -EBUSY, ...) become the error class of that name. */
struct ctl_ops {
        bool driver;
        void (*stats)(void *ctx, struct vw_stats *ret_stats);
        int (*get)(void *ctx, int queue, enum vw_key key, int64_t *ret_value);
        int (*set)(void *ctx, const struct vw_setting *settings, unsigned n, const char **ret_why);
        /* as snprintf; of a queue that is in the stats */
        int (*why)(void *ctx, unsigned index, char *buf, size_t len);
        int (*link)(void *ctx, bool up);
        int (*pcap)(void *ctx, int fd);  /* takes the fd on success; -1 ends the capture */
        int (*trace)(void *ctx, int fd); /* the same for a recording; a device's */
        void (*stop)(void *ctx);
};

/* Adds the answer to a line (without its newline), newline included.  `*fd` is a file that came along, or -1; if the command
 * takes it, it becomes -1. */
void ctl_answer(const struct ctl_ops *ops, void *ctx, const char *line, size_t len, int *fd,
                struct text *out);
