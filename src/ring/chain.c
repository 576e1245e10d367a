#include "ring/chain.h"

/* The first fault stays: what a packet is dropped for does not depend on what follows. */
static void fault(struct vq_chain *c, int error)
{
        if (!c->fault)
                c->fault = (int16_t)error;
}

void chain_add_slow(struct vq_chain *c, struct iov_pool *pool, struct chain_map *map, uint64_t addr,
                    uint32_t len)
{
        uint32_t *sum = c->in ? &c->len_in : &c->len_out;
        uint16_t *count = c->in ? &c->n_in : &c->n_out;
        const struct mem_region *r;
        int n;

        if (c->fault)
                return;
        if (len > UINT32_MAX - *sum) {
                fault(c, -E2BIG);
                return;
        }
        n = mem_map_iov(map->map, addr, len, &pool->iov[pool->used], (int)(pool->size - pool->used));
        if (n < 0) {
                fault(c, n == -ENOBUFS ? -E2BIG : n);
                return;
        }
        r = mem_map_region(map->map, addr);
        if (r)
                map->near = r;
        pool->used += (unsigned)n;
        *sum += len;
        *count = (uint16_t)(*count + n);
}
