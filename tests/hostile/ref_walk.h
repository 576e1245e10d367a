/* A reference for what a device must make of one split-ring descriptor chain, written from the standard (2.7.5, 2.7.5.3) and
 * from nothing else: it shares no line, type or constant with the product.  It is slow and takes two steps: first the
 * chain is unrolled into a list, then the list is judged. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct ref_region {
        uint64_t first, last; /* addresses, both inside */
        const uint8_t *bytes;
};

struct ref_memory {
        const struct ref_region *region;
        unsigned n;
};

struct ref_piece {
        const uint8_t *bytes;
        uint32_t len;
        bool writable;
};

#define REF_PIECES 256

struct ref_verdict {
        const char *broken; /* NULL, or the rule that the chain's structure violates first */
        bool unmapped;      /* some byte is not there; the pieces do not matter then */
        unsigned n;
        struct ref_piece piece[REF_PIECES];
};

/* The chain that begins at `head` in the descriptor table at address `table` of `size` entries. */
void ref_walk(const struct ref_memory *mem, uint64_t table, unsigned size, bool indirect_allowed,
              unsigned head, struct ref_verdict *ret);
