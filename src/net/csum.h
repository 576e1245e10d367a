/* Internet checksum (RFC 1071).  Sums are kept unfolded in 64 bits, in memory byte order. */
#pragma once
#include <stdint.h>
#include <sys/uio.h>

/* Adds `len` bytes; all calls but the last of one sum must have even length, or give their offset's parity. */
uint64_t net_csum_add(uint64_t sum, const void *data, size_t len);

/* Over the pieces from byte `off`, `len` bytes; pieces may have any length. */
uint64_t net_csum_iov(uint64_t sum, const struct iovec *iov, unsigned n, size_t off, size_t len);

/* Folds and complements.  In memory byte order: store it as it is. */
uint16_t net_csum_fold(uint64_t sum);

/* Completes a NEEDS_CSUM frame in place: what a port without checksum offload needs.  `buf` is private memory with the whole frame.
 * UDP's zero becomes 0xffff.  Returns 0, or -EINVAL when start and offset do not fit. */
int net_csum_complete(uint8_t *buf, uint32_t len, uint16_t start, uint16_t offset);
