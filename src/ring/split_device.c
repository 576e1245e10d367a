/* The split ring's device half (2.7): takes what the driver offers, believes nothing of it, gives it back.
 *
 * The driver's table and ring may change under our hands.  So a burst is: the index once, which bounds everything that follows;
 * then the heads once, into a local array, with their descriptors fetched ahead; then each chain, every descriptor once.
 * A chain can be no longer than the ring, and that bound is what ends a loop. */
#include "base/atomics.h"
#include "base/check.h"
#include "ring/event.h"
#include "ring/vq.h"
#include "virtio/features.h"

/* ---- set-up ---- */

static int refuse(const char **ret_why, const char *why, int error)
{
        *ret_why = why;
        return error;
}

static bool misaligned(const void *p, uint64_t addr, uint64_t align)
{
        return ((uintptr_t)p | addr) & (align - 1);
}

int split_device_map(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why)
{
        const struct mem_map *map = vq->mem.map;
        struct vring_split ring = {
                .desc = mem_map_uva(map, cfg->desc, split_desc_bytes(vq->size)),
                .avail = mem_map_uva(map, cfg->avail, split_avail_bytes(vq->size)),
                .used = mem_map_uva(map, cfg->used, split_used_bytes(vq->size)),
                .mask = (uint16_t)(vq->size - 1),
        };

        if (!ring.desc || !ring.avail || !ring.used)
                return refuse(ret_why, "ring: outside the memory that was shared", -EFAULT);
        /* 2.7: the driver's addresses; ours too, for a region may begin anywhere in a page */
        if (misaligned(ring.desc, cfg->desc, 16) || misaligned(ring.avail, cfg->avail, 2) ||
            misaligned(ring.used, cfg->used, 4))
                return refuse(ret_why, "ring: not aligned", -EINVAL);
        vq->split.ring = ring;
        return 0;
}

int split_device_init(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why)
{
        struct split_device *half = &vq->split;
        int r;

        if (cfg->size & (cfg->size - 1))
                return refuse(ret_why, "ring: its size is no power of two", -EINVAL);
        r = split_device_map(vq, cfg, ret_why);
        if (r < 0)
                return r;

        /* The driver goes on from its own used index.  What lies between that and `base` was out when an earlier device stopped;
         * more than the ring holds cannot be. */
        half->used = le16_to_cpu(peer_load(&half->ring.used->idx));
        if (cfg->base > UINT16_MAX || (uint16_t)(cfg->base - half->used) > vq->size)
                return refuse(ret_why, "ring: its base is further from its used index than it is long",
                              -EPROTO);
        half->published = half->used;
        half->last_avail = half->avail_seen = (uint16_t)cfg->base;
        half->event_idx = cfg->features & F(event_idx);

        half->kick_event = half->last_avail;
        if (half->event_idx)
                store_relaxed(split_avail_event(&half->ring), cpu_to_le16(half->kick_event));
        store_relaxed(&half->ring.used->flags, 0);
        return 0;
}

uint32_t split_device_base(const struct vq_device *vq)
{
        return vq->split.last_avail;
}

/* ---- taking ---- */

/* What is wrong with a chain, until it is known whether to break for it. */
struct lie {
        const char *reason;
        uint32_t number;
};

static int lie(struct lie *ret_lie, const char *reason, uint32_t number)
{
        *ret_lie = (struct lie){ reason, number };
        return -EPROTO;
}

/* How many chains can be popped, up to `max`; -EPROTO if the index is impossible.  The driver never has more chains out than
 * the ring has entries, and its index never moves backwards (2.7.13.3). */
static int look(struct vq_device *vq, unsigned max)
{
        struct split_device *half = &vq->split;
        uint16_t known = (uint16_t)(half->avail_seen - half->last_avail);
        uint16_t out = (uint16_t)(half->last_avail - half->published);
        uint16_t idx, n;

        if (known >= max)
                return (int)max;
        idx = le16_to_cpu(peer_load_acquire(&half->ring.avail->idx)); /* pair A */
        n = (uint16_t)(idx - half->last_avail);
        if (unlikely(n < known || (unsigned)n + out > vq->size))
                return vq_device_break(vq, "bad-avail-idx", idx);
        half->avail_seen = idx;
        return (int)MIN(n, max);
}

/* One entry of a table that is spread over regions or crooked, byte by byte from where its pieces are.  -EFAULT: not mapped. */
static int gather(const struct mem_map *map, uint64_t addr, struct vring_desc *ret_desc)
{
        struct iovec piece[sizeof(struct vring_desc)];
        uint64_t word[2] = { 0 };
        uint8_t *to = (uint8_t *)word;
        int n = mem_map_iov(map, addr, sizeof(word), piece, ARRAY_SIZE(piece));

        if (n < 0)
                return n;
        for (int i = 0; i < n; i++)
                for (size_t k = 0; k < piece[i].iov_len; k++)
                        *to++ = peer_load((const uint8_t *)piece[i].iov_base + k);
        *ret_desc = split_desc_of(word[0], word[1]);
        return 0;
}

/* Follows an indirect table (2.7.5.3), linked like the ring's own.  `left` descriptors may still be taken. */
static int walk_table(struct vq_device *vq, struct iov_pool *pool, struct vq_chain *c,
                      const struct vring_desc *indirect, unsigned left, struct lie *ret_lie)
{
        unsigned n = indirect->len / sizeof(struct vring_desc);
        const struct vring_desc *table;
        struct vring_desc d;
        unsigned i = 0;

        if (!vq->indirect || indirect->flags & VRING_DESC_F_NEXT)
                return lie(ret_lie, "bad-indirect", indirect->flags);
        if (!n || indirect->len % sizeof(struct vring_desc) || n > vq->size)
                return lie(ret_lie, "bad-indirect", indirect->len);
        table = mem_map_ptr(vq->mem.map, indirect->addr, indirect->len);
        if (misaligned(table, 0, sizeof(uint64_t)))
                table = NULL;
        left = MIN(left, n);

        for (;;) {
                if (likely(table)) {
                        d = split_desc_load(&table[i]);
                } else if (gather(vq->mem.map, indirect->addr + i * sizeof(d), &d) < 0) {
                        c->fault = -EFAULT; /* a hole is a lie about content, here as in a payload */
                        return 0;
                }
                if (unlikely(d.flags & VRING_DESC_F_INDIRECT))
                        return lie(ret_lie, "bad-indirect", d.flags);
                if (unlikely(!left--))
                        return lie(ret_lie, "chain-loop", c->id);
                if (unlikely(chain_add(c, pool, &vq->mem, d.addr, d.len, d.flags & VRING_DESC_F_WRITE) < 0))
                        return lie(ret_lie, "order", c->id);
                if (!(d.flags & VRING_DESC_F_NEXT))
                        return 0;
                i = d.next;
                if (unlikely(i >= n))
                        return lie(ret_lie, "bad-next", i);
        }
}

/* Follows the chain that begins at `head`. */
static int walk(struct vq_device *vq, struct iov_pool *pool, struct vq_chain *c, uint16_t head,
                struct lie *ret_lie)
{
        const struct vring_split *ring = &vq->split.ring;
        unsigned left = vq->size;
        struct vring_desc d;
        uint16_t i = head;

        if (unlikely(head > ring->mask))
                return lie(ret_lie, "bad-head", head);
        chain_begin(c, pool, head);
        for (;;) {
                d = split_desc_load(&ring->desc[i]);
                c->ndesc++;
                if (d.flags & VRING_DESC_F_INDIRECT)
                        return walk_table(vq, pool, c, &d, left, ret_lie);
                if (unlikely(!left--))
                        return lie(ret_lie, "chain-loop", head);
                if (unlikely(chain_add(c, pool, &vq->mem, d.addr, d.len, d.flags & VRING_DESC_F_WRITE) < 0))
                        return lie(ret_lie, "order", head);
                if (!(d.flags & VRING_DESC_F_NEXT))
                        return 0;
                i = d.next;
                if (unlikely(i > ring->mask))
                        return lie(ret_lie, "bad-next", i);
        }
}

/* Loads the next n heads, each once, and fetches what they point to. */
static void load_heads(const struct split_device *half, uint16_t *heads, unsigned n)
{
        const struct vring_split *ring = &half->ring;

        for (unsigned i = 0; i < n; i++) {
                heads[i] = split_avail_load(ring, (uint16_t)(half->last_avail + i));
                __builtin_prefetch(&ring->desc[heads[i] & ring->mask]);
        }
}

static void pop_done(struct split_device *half, unsigned n)
{
        half->last_avail = (uint16_t)(half->last_avail + n);
        half->rewound = (uint16_t)(half->rewound - MIN(half->rewound, n));
}

int split_device_pop(struct vq_device *vq, struct iov_pool *pool, struct vq_chain *chains, unsigned max)
{
        struct split_device *half = &vq->split;
        uint16_t heads[VQ_BURST];
        struct lie lie;
        int n, i;

        check(pool->size <= UINT16_MAX);
        n = look(vq, MIN(max, VQ_BURST));
        if (n <= 0)
                return n;
        load_heads(half, heads, (unsigned)n);
        for (i = 0; i < n && pool->used < pool->size; i++) {
                unsigned mark = pool->used;
                int r = walk(vq, pool, &chains[i], heads[i], &lie);

                if (unlikely(r < 0 && i == 0))
                        return vq_device_break(vq, lie.reason, lie.number);
                if (unlikely(r < 0 || (chains[i].fault == -E2BIG && mark))) {
                        pool->used = mark; /* met again at the head of the next burst */
                        break;
                }
        }
        pop_done(half, (unsigned)i);
        return i;
}

/* ---- giving back ---- */

void split_device_publish(struct vq_device *vq)
{
        struct split_device *half = &vq->split;

        if (half->used == half->published)
                return;
        half->unsignalled += (uint16_t)(half->used - half->published);
        half->published = half->used;
        store_release(&half->ring.used->idx, cpu_to_le16(half->used)); /* pair B */
}

bool split_device_call_needed(struct vq_device *vq)
{
        struct split_device *half = &vq->split;
        uint32_t n = half->unsignalled;
        uint16_t event;

        if (!n)
                return false;
        half->unsignalled = 0;
        fence_full(); /* pair D */
        if (!half->event_idx)
                return !(le16_to_cpu(peer_load(&half->ring.avail->flags)) & VRING_AVAIL_F_NO_INTERRUPT);
        event = le16_to_cpu(peer_load(split_used_event(&half->ring)));
        return n > UINT16_MAX || event_wants(event, half->published, (uint16_t)(half->published - n));
}

void split_device_push(struct vq_device *vq, const struct vq_chain *chains, unsigned n)
{
        struct split_device *half = &vq->split;
        struct vring_split *ring = &half->ring;

        for (unsigned i = 0; i < n; i++) {
                struct vring_used_elem *e = &ring->used->ring[half->used++ & ring->mask];

                store_relaxed(&e->id, cpu_to_le32(chains[i].id));
                store_relaxed(&e->len, cpu_to_le32(chains[i].written));
        }
}

/* ---- being woken ---- */

/* The first entry that was never popped. */
static uint16_t news(const struct split_device *half)
{
        return (uint16_t)(half->last_avail + half->rewound);
}

bool split_device_kick_enable(struct vq_device *vq)
{
        struct split_device *half = &vq->split;

        if (half->event_idx) {
                half->kick_event = news(half);
                store_relaxed(split_avail_event(&half->ring), cpu_to_le16(half->kick_event));
        } else {
                half->kick_flags = 0;
                store_relaxed(&half->ring.used->flags, 0);
        }
        fence_full(); /* pair C */
        return split_device_avail_pending(vq);
}

/* With event indices nothing needs doing: the one that was asked for comes, and then no more (2.7.10: the flag stays 0). */
void split_device_kick_disable(struct vq_device *vq)
{
        struct split_device *half = &vq->split;

        if (half->event_idx || half->kick_flags)
                return;
        half->kick_flags = VRING_USED_F_NO_NOTIFY;
        store_relaxed(&half->ring.used->flags, cpu_to_le16(half->kick_flags));
}

bool split_device_avail_pending(const struct vq_device *vq)
{
        const struct split_device *half = &vq->split;

        return le16_to_cpu(peer_load(&half->ring.avail->idx)) != news(half);
}

void split_device_rewind(struct vq_device *vq, const struct vq_chain *chains, unsigned n)
{
        struct split_device *half = &vq->split;

        (void)chains; /* the ring still holds them */
        check(n <= (uint16_t)(half->last_avail - half->used));
        half->last_avail = (uint16_t)(half->last_avail - n);
        half->rewound = (uint16_t)(half->rewound + n);
}

/* ---- for humans ---- */

void split_device_state(const struct vq_device *vq, struct vq_state *ret_state)
{
        const struct split_device *half = &vq->split;

        *ret_state = (struct vq_state){
                .used = half->published,
                .event_ours = half->kick_event,
                .last_avail = half->last_avail,
                .last_used = half->used,
        };
        if (vq->broken)
                return;
        ret_state->avail = le16_to_cpu(load_relaxed(&half->ring.avail->idx));
        ret_state->event_peer = le16_to_cpu(load_relaxed(split_used_event(&half->ring)));
        ret_state->unwanted = !half->event_idx && le16_to_cpu(load_relaxed(&half->ring.avail->flags)) &
                                                          VRING_AVAIL_F_NO_INTERRUPT;
}
