#include "base/iov.h"

#include "base/check.h"

/* Copies between the pieces, from byte `off` of them on, and `buf`. */
static inline size_t copy(const struct iovec *iov, unsigned n, size_t off, char *buf, size_t len, bool out)
{
        size_t done = 0;

        for (unsigned i = 0; i < n && done < len; i++) {
                if (off >= iov[i].iov_len) {
                        off -= iov[i].iov_len;
                        continue;
                }
                size_t part = MIN(iov[i].iov_len - off, len - done);
                char *piece = (char *)iov[i].iov_base + off;

                if (out)
                        memcpy(buf + done, piece, part);
                else
                        memcpy(piece, buf + done, part);
                done += part;
                off = 0;
        }
        return done;
}

size_t iov_to_buf(const struct iovec *iov, unsigned n, size_t off, void *buf, size_t len)
{
        return copy(iov, n, off, buf, len, true);
}

size_t iov_from_buf(const struct iovec *iov, unsigned n, size_t off, const void *buf, size_t len)
{
        return copy(iov, n, off, (void *)(uintptr_t)buf, len, false);
}

unsigned iov_skip(struct iovec *iov, unsigned n, size_t len)
{
        unsigned i = 0;

        for (; i < n && len >= iov[i].iov_len; i++)
                len -= iov[i].iov_len;
        if (i < n) {
                iov[i].iov_base = (char *)iov[i].iov_base + len;
                iov[i].iov_len -= len;
        }
        return i;
}
