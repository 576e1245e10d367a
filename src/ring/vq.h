/* Virtqueues: the contract that both halves and both layouts keep, and the only place where layouts are told apart.
 *
 *      driver half               device half               meaning
 *      vq_driver_add             vq_device_pop             put / take a chain
 *      vq_driver_publish         vq_device_publish         make everything since last time visible (one release)
 *      vq_driver_kick_needed     vq_device_call_needed     does the peer want waking for what I published?
 *      vq_driver_reap            vq_device_push            take back / give back a chain
 *      vq_driver_call_enable     vq_device_kick_enable     ask for wake-ups; true: work arrived meanwhile, look again
 *      vq_driver_call_disable    vq_device_kick_disable    don't wake me, I am polling
 *      vq_driver_used_pending    vq_device_avail_pending   one cheap look, for busy polling
 *      vq_driver_drain           vq_device_rewind          take everything back at reset / un-pop the last n
 *
 * One thread owns a half.  Every word that the peer writes is loaded once into a local and checked before use.
 * A peer that breaks the ring's rules breaks this queue and no more: `broken` then says which rule ("bad-head", ...), every
 * call returns -EPROTO or false, and the shared memory is not touched again.  What came before the lie in the same
 * burst is still handed out; the lie is met again, and breaks, at the head of the next one.
 * Sections: 2.7 split, 2.8 packed. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/check.h"
#include "mem/map.h"
#include "ring/chain.h"
#include "ring/split.h"
#include "virtio/vq_config.h"

enum vq_layout { VQ_SPLIT };

/* chains that one pop takes at most: enough to hide the memory's latency, few enough for a stack */
#define VQ_BURST 64

/* descriptors of an indirect table that our driver makes: header, 17 fragments, slack */
#define VQ_INDIRECT_MAX 32

/* ---- the device half ---- */
struct vq_device {
        enum vq_layout layout;
        union {
                struct split_device split;
        };
        struct chain_map mem;
        uint16_t size;
        bool indirect;      /* INDIRECT_DESC was negotiated */
        const char *broken; /* NULL, or the contract's broken reason */
        uint32_t broken_at; /* the number that was wrong, for the log */
};

/* Checks and adopts `cfg`.  Takes a reference of `map`.  -EINVAL: size, alignment; -EFAULT: a part of the ring is not in one
 * mapped piece; -EPROTO: base impossible.  On failure *vq is zero and *ret_why names the rule. */
int vq_device_init(struct vq_device *vq, const struct vq_config *cfg, struct mem_map *map,
                   const char **ret_why);
void vq_device_done(struct vq_device *vq); /* a zeroed one too */

/* Swaps the memory table of a live queue: the ring is looked up again at the same addresses.  No chain may be out.  On
 * failure the queue is broken and holds no memory. */
int vq_device_remap(struct vq_device *vq, const struct vq_config *cfg, struct mem_map *map,
                    const char **ret_why);

/* What GET_VRING_BASE answers; everything pushed must have been published. */
uint32_t vq_device_base(const struct vq_device *vq);

/* Breaks the queue (once): returns -EPROTO. */
int vq_device_break(struct vq_device *vq, const char *reason, uint32_t number);

/* Takes up to `max` chains, and up to VQ_BURST, whose pieces are laid into `pool` (the caller empties it).  Returns how many, 0
 * when there is nothing or the next chain needs an emptier pool, -EPROTO. */
static inline int vq_device_pop(struct vq_device *vq, struct iov_pool *pool, struct vq_chain *chains,
                                unsigned max)
{
        if (unlikely(vq->broken))
                return -EPROTO;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_pop(vq, pool, chains, max);
        }
        unreachable();
}

/* pair B */
static inline void vq_device_publish(struct vq_device *vq)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_device_publish(vq);
                return;
        }
        unreachable();
}

/* pair D; of all that was published since the last look */
static inline bool vq_device_call_needed(struct vq_device *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_call_needed(vq);
        }
        unreachable();
}

/* Gives chains back with their `written`; nothing is visible until publish. */
static inline void vq_device_push(struct vq_device *vq, const struct vq_chain *chains, unsigned n)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_device_push(vq, chains, n);
                return;
        }
        unreachable();
}

/* pair C.  Work is what pop has not seen yet: chains that were rewound were found too few, and only more of them are news. */
static inline bool vq_device_kick_enable(struct vq_device *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_kick_enable(vq);
        }
        unreachable();
}

static inline void vq_device_kick_disable(struct vq_device *vq)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_device_kick_disable(vq);
                return;
        }
        unreachable();
}

/* As kick_enable: rewound chains do not count. */
static inline bool vq_device_avail_pending(const struct vq_device *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_avail_pending(vq);
        }
        unreachable();
}

/* Undoes the last n pops (in any number of bursts); none of them may have been pushed. */
static inline void vq_device_rewind(struct vq_device *vq, const struct vq_chain *chains, unsigned n)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_device_rewind(vq, chains, n);
                return;
        }
        unreachable();
}

/* ---- the driver half ---- */
struct vq_driver {
        enum vq_layout layout;
        union {
                struct split_driver split;
        };
        uint16_t size;
        bool indirect;
        const char *broken;
        uint32_t broken_at;
};

/* Builds a ring of cfg->size in memory that the caller laid out: `ring_mem` holds desc, avail and used one after the
 * other (vq_driver_bytes()), zeroed and on a cache line's start, `gpa` is what the device calls it.  Fills
 * cfg->desc/avail/used with device-side addresses and clears cfg->base.  -EINVAL, -ENOMEM. */
size_t vq_driver_bytes(enum vq_layout layout, unsigned size, uint64_t features);
int vq_driver_init(struct vq_driver *vq, enum vq_layout layout, struct vq_config *cfg, void *ring_mem,
                   uint64_t gpa);
void vq_driver_done(struct vq_driver *vq); /* a zeroed one too */

/* Breaks the queue (once): returns -EPROTO. */
int vq_driver_break(struct vq_driver *vq, const char *reason, uint32_t number);

/* One piece of a chain as the device will see it. */
struct vq_piece {
        uint64_t gpa;
        uint32_t len;
};

struct vq_used {
        void *cookie;
        uint32_t len; /* as the device said; not checked against the buffer */
        uint16_t id;  /* descriptor id, for metadata by id */
};

/* The most pieces that one chain may have in this ring (2.7.4.1, 2.7.5.3.1): the ring's size, and a table's with indirect. */
static inline unsigned vq_driver_chain_max(const struct vq_driver *vq)
{
        return vq->indirect ? MIN(vq->size, VQ_INDIRECT_MAX) : vq->size;
}

/* Offers a chain: n_out readable pieces, then n_in writable ones.  `cookie` must not be NULL; it comes back from reap.
 * 0, -ENOSPC (nothing changed), -E2BIG: more than vq_driver_chain_max(), -EPROTO. */
static inline int vq_driver_add(struct vq_driver *vq, const struct vq_piece *pieces, unsigned n_out,
                                unsigned n_in, void *cookie)
{
        check(n_out + n_in && cookie);
        if (unlikely(vq->broken))
                return -EPROTO;
        switch (vq->layout) {
        case VQ_SPLIT:
                if (likely(n_out + n_in == 1))
                        return split_driver_add_one(&vq->split, pieces->gpa, pieces->len,
                                                    n_in ? VRING_DESC_F_WRITE : 0, cookie);
                return split_driver_add(vq, pieces, n_out, n_in, cookie);
        }
        unreachable();
}

/* pair A */
static inline void vq_driver_publish(struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_driver_publish(vq);
                return;
        }
        unreachable();
}

/* pair C; of all that was published since the last look */
static inline bool vq_driver_kick_needed(struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_kick_needed(vq);
        }
        unreachable();
}

/* Takes back up to `max`.  Returns how many or -EPROTO.  Ids that are not out, repeated or beyond the ring break the queue. */
static inline int vq_driver_reap(struct vq_driver *vq, struct vq_used *used, unsigned max)
{
        if (unlikely(vq->broken))
                return -EPROTO;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_reap(vq, used, max);
        }
        unreachable();
}

/* pair D.  Asks for an interrupt at the next used entry.  True: there is one already, reap again.  The event index never moves
 * backwards: after a delayed request that point stays, and the entry that it names is out. */
static inline bool vq_driver_call_enable(struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_call_enable(vq);
        }
        unreachable();
}

/* pair D.  Asks for it when 3/4 of what is outstanding has been used.  True: that point has passed already, reap again. */
static inline bool vq_driver_call_enable_delayed(struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_call_enable_delayed(vq);
        }
        unreachable();
}

static inline void vq_driver_call_disable(struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return;
        switch (vq->layout) {
        case VQ_SPLIT:
                split_driver_call_disable(vq);
                return;
        }
        unreachable();
}

static inline bool vq_driver_used_pending(const struct vq_driver *vq)
{
        if (unlikely(vq->broken))
                return false;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_used_pending(vq);
        }
        unreachable();
}

/* At reset, when the device has stopped: the cookies of all chains that are still out, one a call; NULL at the end.  A broken
 * queue gives them back, too. */
static inline void *vq_driver_drain(struct vq_driver *vq)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_drain(vq);
        }
        unreachable();
}

/* The id that the next chain will have, as vq_used tells it; there must be room for one. */
static inline uint16_t vq_driver_next_id(const struct vq_driver *vq)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                return vq->split.free_head;
        }
        unreachable();
}

/* Descriptors that are free. */
static inline unsigned vq_driver_free(const struct vq_driver *vq)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                return vq->split.n_free;
        }
        unreachable();
}

/* Descriptors that are out, or chains when indirect. */
static inline unsigned vq_driver_outstanding(const struct vq_driver *vq)
{
        return vq->size - vq_driver_free(vq);
}

/* One line for humans with every index, for failing tests and `ctl why`. */
int vq_device_dump(const struct vq_device *vq, char *buf, size_t len);
int vq_driver_dump(const struct vq_driver *vq, char *buf, size_t len);

/* Indices as statistics show them; the peer's words as they are at this moment, for humans only, and 0 when broken. */
struct vq_state {
        uint32_t avail, used, event_ours, event_peer, last_avail, last_used;
        bool unwanted; /* without event indices: the peer's flag says that it wants no notification */
};
void vq_device_state(const struct vq_device *vq, struct vq_state *ret_state);
void vq_driver_state(const struct vq_driver *vq, struct vq_state *ret_state);
