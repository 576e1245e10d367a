#include "ring/chain.h"

void chain_add_slow(struct vq_chain *c, struct iov_pool *pool, struct chain_map *map, uint64_t addr,
                    uint32_t len)
{
        uint32_t *sum = c->in ? &c->len_in : &c->len_out;
        uint16_t *count = c->in ? &c->n_in : &c->n_out;
        int n;

        if (c->fault) /* the first stays: what a packet is dropped for does not depend on what follows */
                return;
        n = mem_map_iov(map->map, addr, len, &pool->iov[pool->used], (int)(pool->size - pool->used));
        if (n == -ENOBUFS || (n > 0 && len > UINT32_MAX - *sum)) {
                c->fault = -E2BIG;
                return;
        }
        if (n < 0) {
                c->fault = (int16_t)n;
                return;
        }
        map->near = mem_map_region(map->map, addr);
        pool->used += (unsigned)n;
        *sum += len;
        *count = (uint16_t)(*count + n);
}
