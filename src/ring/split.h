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
#include <stdbool.h>
#include <stdint.h>

#include "virtio/spec.h"

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

/* Bytes of each part with its event word (2.7.2); they do not depend on EVENT_IDX here: the word is always reserved. */
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

/* The device half.  Worker only. */
struct split_device {
        struct vring_split ring;
        uint16_t last_avail; /* next avail entry to pop */
        uint16_t avail_seen; /* avail->idx as last loaded; entries before it are known to be there */
        uint16_t used;       /* next used entry to fill */
        uint16_t published;  /* used->idx as the driver sees it */
        uint16_t signalled;  /* `published` when the driver's wish was last looked at */
        bool event_idx;
};

/* What the driver half remembers of a posted descriptor, in private memory: the shared table is never believed. */
struct split_slot {
        void *cookie;    /* at the head: whose chain it is; NULL: not posted */
        uint16_t next;   /* next free, or next of the chain */
        uint16_t ndesc;  /* at the head */
};

/* The driver half.  The queue's owner thread only. */
struct split_driver {
        struct vring_split ring;
        struct split_slot *slot;   /* one a descriptor */
        struct vring_desc *tables; /* INDIRECT: VQ_INDIRECT_MAX entries a head, in shared memory; else NULL */
        uint64_t tables_gpa;
        uint16_t free_head, n_free;
        uint16_t avail;     /* next avail entry to fill */
        uint16_t published; /* avail->idx as the device sees it */
        uint16_t kicked;    /* `published` when the device's wish was last looked at */
        uint16_t last_used; /* next used entry to reap */
        uint16_t call_flags; /* shadow of avail->flags */
        bool event_idx;
};
