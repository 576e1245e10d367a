/* Small helpers over struct iovec arrays. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

static inline size_t iov_length(const struct iovec *iov, unsigned n)
{
        size_t len = 0;

        for (unsigned i = 0; i < n; i++)
                len += iov[i].iov_len;
        return len;
}

/* Copies at most `len` bytes out of the pieces, from byte `off` on; returns how many there were. */
size_t iov_to_buf(const struct iovec *iov, unsigned n, size_t off, void *buf, size_t len);

/* Copies at most `len` bytes into the pieces, from byte `off` on; returns how many fitted. */
size_t iov_from_buf(const struct iovec *iov, unsigned n, size_t off, const void *buf, size_t len);

/* Removes the first `len` bytes in place.  Returns the index of the first piece that is left. */
unsigned iov_skip(struct iovec *iov, unsigned n, size_t len);
