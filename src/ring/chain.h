/* A descriptor chain while the device half collects and checks it; both layouts add their descriptors through
 * chain_add() and nowhere else.
 *
 * Two kinds of lie: structural ones (index, loop, order, id) make the walk fail with -EPROTO and break the queue;
 * lies about content (an address outside the memory, too many bytes) are noted in `fault` and cost that packet only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "mem/map.h"

struct vq_chain {
        struct iovec *iov; /* readable pieces first, then writable ones; iov[-1] is a spare slot for the user */
        uint16_t n_out;    /* readable pieces: the driver wrote them */
        uint16_t n_in;     /* writable pieces */
        uint16_t id;       /* head (split) or buffer id (packed) */
        uint16_t ndesc;    /* ring entries it took; the packed half skips by it */
        uint32_t len_out, len_in;
        uint32_t written; /* set by the user before vq_device_push(): bytes written, from the first writable on */
        int fault;        /* 0, -EFAULT: a piece is unmapped, -E2BIG: more bytes or pieces than we take.  The
                           * pieces are then not to be touched */
};

/* Where chains of a burst put their pieces.  Sized at set-up for the longest chain of the ring. */
struct iov_pool {
        struct iovec *iov;
        unsigned size, used;
};

/* One descriptor, already loaded into locals.  `indirect` entries are added like direct ones.
 * Returns 0 or -EPROTO with *ret_why set to a broken reason ("order"). */
int chain_add(struct vq_chain *c, struct iov_pool *pool, const struct mem_map *map, uint64_t addr, uint32_t len,
              bool writable, const char **ret_why);

/* Begins a chain at the pool's end. */
static inline void chain_begin(struct vq_chain *c, struct iov_pool *pool)
{
        *c = (struct vq_chain){ .iov = pool->iov + pool->used + 1 };
        pool->used++;
}
