/* The split layout (2.7): where its three parts lie, each half's private state, and the barriers that both cite.
 *
 *  pair  writer                                     reader
 *   A    driver: entries, then avail->idx           device: avail->idx, then entries             release / acquire
 *   B    device: used elements, then used->idx      driver: used->idx, then elements             release / acquire
 *   C    driver: avail->idx | full | reads avail_event or used->flags
 *                                                   device: avail_event or used->flags | full | re-reads avail->idx
 *   D    device: used->idx | full | reads used_event or avail->flags
 *                                                   driver: used_event or avail->flags | full | re-reads used->idx
 *
 * A and B carry data and are release/acquire on the index itself.  C and D settle who wakes whom: each side writes, then
 * looks, and the full fence between makes it impossible that both look too early. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "ring/peer.h"
#include "virtio/spec.h"

struct iov_pool;
struct vq_chain;
struct vq_config;
struct vq_device;
struct vq_driver;
struct vq_piece;
struct vq_state;
struct vq_used;

/* ---- the layout ---- */
struct vring_split {
        struct vring_desc *desc;
        struct vring_avail *avail;
        struct vring_used *used;
        uint16_t mask; /* size - 1 */
};

static inline uint16_t *split_used_event(const struct vring_split *r)
{
        return &r->avail->ring[r->mask + 1];
}

static inline uint16_t *split_avail_event(const struct vring_split *r)
{
        return (uint16_t *)&r->used->ring[r->mask + 1];
}

/* Bytes of each part with its event word (2.7); they do not depend on EVENT_IDX here: the word is always reserved. */
static inline size_t split_desc_bytes(unsigned size)
{
        return sizeof(struct vring_desc) * size;
}
static inline size_t split_avail_bytes(unsigned size)
{
        return sizeof(struct vring_avail) + sizeof(uint16_t) * (size + 1);
}
static inline size_t split_used_bytes(unsigned size)
{
        return sizeof(struct vring_used) + sizeof(struct vring_used_elem) * size + sizeof(uint16_t);
}

/* A descriptor travels as two words: the address, and length | flags << 32 | next << 48. */
static inline uint64_t split_desc_word(uint32_t len, uint16_t flags, uint16_t next)
{
        return cpu_to_le64(len | (uint64_t)flags << 32 | (uint64_t)next << 48);
}

static inline struct vring_desc split_desc_of(uint64_t addr, uint64_t word)
{
        word = le64_to_cpu(word);
        return (struct vring_desc){
                .addr = le64_to_cpu(addr),
                .len = (uint32_t)word,
                .flags = (uint16_t)(word >> 32),
                .next = (uint16_t)(word >> 48),
        };
}

/* The loaders: the only lines that read entries from shared memory.  What they return is a copy in host byte order. */
static inline struct vring_desc split_desc_load(const struct vring_desc *d)
{
        const uint64_t *word = (const uint64_t *)d;
        uint64_t addr = peer_load(&word[0]);

        return split_desc_of(addr, peer_load(&word[1]));
}

static inline uint16_t split_avail_load(const struct vring_split *r, uint16_t pos)
{
        return le16_to_cpu(peer_load(&r->avail->ring[pos & r->mask]));
}

static inline struct vring_used_elem split_used_load(const struct vring_split *r, uint16_t pos)
{
        const struct vring_used_elem *e = &r->used->ring[pos & r->mask];
        uint32_t id = peer_load(&e->id), len = peer_load(&e->len);

        return (struct vring_used_elem){ .id = le32_to_cpu(id), .len = le32_to_cpu(len) };
}

static inline void split_desc_store(struct vring_desc *d, uint64_t addr, uint32_t len, uint16_t flags,
                                    uint16_t next)
{
        uint64_t *word = (uint64_t *)d;

        store_relaxed(&word[0], cpu_to_le64(addr));
        store_relaxed(&word[1], split_desc_word(len, flags, next));
}

/* ---- the device half.  Worker only ---- */
struct split_device {
        struct vring_split ring;
        uint16_t last_avail; /* next avail entry to pop */
        uint16_t avail_seen; /* avail->idx as last loaded: entries before it are there */
        uint16_t rewound;    /* entries from last_avail on that were popped and put back: they are no news */
        uint16_t used;       /* next used entry to fill */
        uint16_t published;  /* used->idx as the driver sees it */
        /* entries published since the driver's wish was last looked at; may exceed 2^16 */
        uint32_t unsignalled;
        uint16_t kick_event; /* avail_event as the driver sees it */
        uint16_t kick_flags; /* used->flags as the driver sees them */
        bool event_idx;
};

int split_device_init(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why);
int split_device_map(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why);
uint32_t split_device_base(const struct vq_device *vq);
int split_device_pop(struct vq_device *vq, struct iov_pool *pool, struct vq_chain *chains, unsigned max);
void split_device_publish(struct vq_device *vq);
bool split_device_call_needed(struct vq_device *vq);
void split_device_push(struct vq_device *vq, const struct vq_chain *chains, unsigned n);
bool split_device_kick_enable(struct vq_device *vq);
void split_device_kick_disable(struct vq_device *vq);
bool split_device_avail_pending(const struct vq_device *vq);
void split_device_rewind(struct vq_device *vq, const struct vq_chain *chains, unsigned n);
void split_device_state(const struct vq_device *vq, struct vq_state *ret_state);

/* ---- the driver half.  The queue's owner thread only ---- */

/* What the driver half remembers in private memory: the shared table is never believed. */
struct split_slot {
        void *cookie;     /* of the chain that has its head here; NULL: none */
        uint16_t next;    /* descriptor after this one: of the chain, or free */
        uint16_t ndesc;   /* at the head */
        uint16_t tail;    /* at the head */
        uint16_t offered; /* what the avail entry at this position says */
};

struct split_driver {
        struct vring_split ring;
        struct split_slot *slot;   /* one a descriptor */
        struct vring_desc *tables; /* INDIRECT: VQ_INDIRECT_MAX entries a head, in shared memory; else NULL */
        uint64_t tables_gpa;
        /* oldest first, so that a device that keeps order walks the table forwards */
        uint16_t free_head, free_tail, n_free;
        uint16_t avail;     /* next avail entry to fill */
        uint16_t published; /* avail->idx as the device sees it */
        /* entries published since the device's wish was last looked at; may exceed 2^16 */
        uint32_t unkicked;
        uint16_t last_used;  /* next used entry to reap */
        uint16_t used_seen;  /* used->idx as last loaded */
        uint16_t call_event; /* used_event as the device sees it */
        uint16_t call_flags; /* avail->flags as the device sees them */
        uint16_t drained;    /* descriptors that vq_driver_drain() has been through */
        bool event_idx;
};

/* A chain's descriptors, `head` to `tail`, have been filled and taken from the free queue: notes whose it is, and offers it. */
static inline void split_driver_offer(struct split_driver *half, uint16_t head, uint16_t tail, uint16_t ndesc,
                                      void *cookie)
{
        struct split_slot *slot = &half->slot[head];
        uint16_t pos = half->avail & half->ring.mask;

        slot->cookie = cookie;
        slot->ndesc = ndesc;
        slot->tail = tail;
        half->n_free = (uint16_t)(half->n_free - ndesc);
        half->avail++;
        if (half->slot[pos].offered == head)
                return;
        half->slot[pos].offered = head;
        store_relaxed(&half->ring.avail->ring[pos], cpu_to_le16(head));
}

/* entries, four lines: the table is walked forwards, and the device's CPU has read it */
#define SPLIT_DESC_AHEAD 16

/* A chain of one piece, which is what most packets are.  It is here to become part of its caller's loop. */
static inline int split_driver_add_one(struct split_driver *half, uint64_t gpa, uint32_t len, uint16_t flags,
                                       void *cookie)
{
        uint16_t head = half->free_head;

        if (unlikely(!half->n_free))
                return -ENOSPC;
        fetch_for_write(&half->ring.desc[(head + SPLIT_DESC_AHEAD) & half->ring.mask]);
        split_desc_store(&half->ring.desc[head], gpa, len, flags, 0);
        half->free_head = half->slot[head].next;
        split_driver_offer(half, head, head, 1, cookie);
        return 0;
}

size_t split_driver_bytes(unsigned size, uint64_t features);
int split_driver_init(struct vq_driver *vq, struct vq_config *cfg, void *ring_mem, uint64_t gpa);
void split_driver_done(struct vq_driver *vq);
int split_driver_add(struct vq_driver *vq, const struct vq_piece *pieces, unsigned n_out, unsigned n_in,
                     void *cookie);
void split_driver_publish(struct vq_driver *vq);
bool split_driver_kick_needed(struct vq_driver *vq);
int split_driver_reap(struct vq_driver *vq, struct vq_used *used, unsigned max);
bool split_driver_call_enable(struct vq_driver *vq);
bool split_driver_call_enable_delayed(struct vq_driver *vq);
void split_driver_call_disable(struct vq_driver *vq);
bool split_driver_used_pending(const struct vq_driver *vq);
void *split_driver_drain(struct vq_driver *vq);
void split_driver_state(const struct vq_driver *vq, struct vq_state *ret_state);
