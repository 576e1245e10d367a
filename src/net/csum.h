/* Internet checksum (RFC 1071).  Sums are ones' complement numbers of 64 bits, unfolded, in memory byte order: so there is nothing to
 * swap, only bytes that start at an odd place of what is summed.  Any sum is right modulo 0xffff. */
#pragma once
#include <stddef.h>
#include <stdint.h>

static inline uint64_t net_csum_join(uint64_t a, uint64_t b)
{
        a += b;
        return a + (a < b);
}

/* Adds `len` bytes that start at an even place. */
uint64_t net_csum_add(uint64_t sum, const void *data, size_t len);

/* Folds and complements.  In memory byte order: store it as it is. */
uint16_t net_csum_fold(uint64_t sum);

/* Completes a NEEDS_CSUM packet in place: what a port without checksum offload needs.  `buf` is private memory with the frame up to
 * the packet's end; the field holds the sum of the pseudo header.  UDP's zero, which would mean "none", becomes 0xffff.
 * Returns 0, or -EINVAL when start and offset do not fit. */
int net_csum_complete(uint8_t *buf, uint32_t len, uint16_t start, uint16_t offset);
