/* A descriptor chain while the device half collects and checks it; both layouts add their descriptors through
 * chain_add() and nowhere else.
 *
 * Two kinds of lie: structural ones (index, loop, order, id) make the walk fail with -EPROTO and break the queue;
 * lies about content (an address outside the memory, too many bytes) are noted in `fault` and cost that packet only. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/check.h"
#include "mem/map.h"

struct vq_chain {
        /* readable pieces first, then writable ones; iov[-1] is a spare slot for the user */
        struct iovec *iov;
        uint16_t n_out; /* readable pieces: the driver wrote them */
        uint16_t n_in;  /* writable pieces */
        uint16_t id;    /* head (split) or buffer id (packed) */
        uint16_t ndesc; /* ring entries it took; the packed half skips by it */
        uint32_t len_out, len_in;
        /* set by the user before vq_device_push(): bytes written, from the first writable on */
        uint32_t written;
        /* 0, -EFAULT: a piece is unmapped, -E2BIG: more bytes or pieces than we take.  The pieces are then not to be touched */
        int16_t fault;
        bool in; /* a writable descriptor was met, be it empty: no readable one may follow */
};

/* Where chains of a burst put their pieces; the user empties it (used = 0) between bursts.  A chain that does not fit
 * into what is left ends the burst; one that does not fit into an empty pool has the fault -E2BIG. */
struct iov_pool {
        struct iovec *iov;
        unsigned size, used; /* at most UINT16_MAX, so that no count of pieces can wrap */
};

/* Where addresses are looked up, with the region that served last: the next piece mostly lies in it, too. */
struct chain_map {
        struct mem_map *map; /* a reference */
        const struct mem_region *near;
};

/* Contiguous bytes at a guest address inside `r`, or NULL. */
static inline void *chain_region_ptr(const struct mem_region *r, uint64_t addr, uint64_t len)
{
        uint64_t off = addr - r->gpa;

        return off < r->size && len <= r->size - off ? r->va + off : NULL;
}

/* Begins a chain at the pool's end, behind the spare slot.  The pool has room for that. */
static inline void chain_begin(struct vq_chain *c, struct iov_pool *pool, uint16_t id)
{
        *c = (struct vq_chain){ .iov = &pool->iov[++pool->used], .id = id };
}

/* What is not the common case of chain_add(): another region, a piece across regions, no room, nothing mapped. */
void chain_add_slow(struct vq_chain *c, struct iov_pool *pool, struct chain_map *map, uint64_t addr,
                    uint32_t len);

/* Adds one descriptor, already loaded into locals; entries of an indirect table are added like direct ones.  An empty
 * one is skipped, but for its direction.  0, or -EPROTO: readable after writable (2.7.4.2), which breaks by "order". */
static inline int chain_add(struct vq_chain *c, struct iov_pool *pool, struct chain_map *map, uint64_t addr,
                            uint32_t len, bool writable)
{
        uint32_t *sum = writable ? &c->len_in : &c->len_out;
        void *va;

        if (unlikely(c->in && !writable))
                return -EPROTO;
        c->in = writable;
        if (unlikely(!len))
                return 0;

        va = chain_region_ptr(map->near, addr, len);
        if (unlikely(!va || pool->used == pool->size || c->fault || len > UINT32_MAX - *sum)) {
                chain_add_slow(c, pool, map, addr, len);
                return 0;
        }
        pool->iov[pool->used++] = (struct iovec){ .iov_base = va, .iov_len = len };
        *sum += len;
        *(writable ? &c->n_in : &c->n_out) += 1;
        return 0;
}
