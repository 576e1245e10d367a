/* The split ring's driver half (2.7): offers chains, takes them back, and never reads its own table again.
 *
 * What a chain is made of is remembered in private slots, one a descriptor; the shared table is written only.  So whatever the
 * device does to it, freeing a chain follows our own links.  Free descriptors wait in a queue, oldest first: with a
 * device that keeps order the table is walked forwards, and an avail entry mostly says what it said a lap before.  Such an
 * entry is not written again, and its cache line stays with the device. */
#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"
#include "ring/event.h"
#include "ring/vq.h"
#include "virtio/features.h"
#include "vwire/types.h"

/* ---- set-up ---- */

/* Offsets of the parts in the ring's memory; avail and used are written by different threads, so no line holds both. */
struct parts {
        size_t avail, used, tables, end;
};

static struct parts lay_out(unsigned size, uint64_t features)
{
        struct parts p;

        p.avail = ALIGN_UP(split_desc_bytes(size), CACHE_LINE);
        p.used = ALIGN_UP(p.avail + split_avail_bytes(size), CACHE_LINE);
        p.tables = ALIGN_UP(p.used + split_used_bytes(size), CACHE_LINE);
        p.end = p.tables;
        if (features & F(indirect_desc))
                p.end += (size_t)size * VQ_INDIRECT_MAX * sizeof(struct vring_desc);
        return p;
}

size_t split_driver_bytes(unsigned size, uint64_t features)
{
        return lay_out(size, features).end;
}

int split_driver_init(struct vq_driver *vq, struct vq_config *cfg, void *ring_mem, uint64_t gpa)
{
        struct split_driver *half = &vq->split;
        struct parts p = lay_out(cfg->size, cfg->features);
        uint8_t *mem = ring_mem;

        if (cfg->size & (cfg->size - 1))
                return -EINVAL;
        half->slot = calloc(cfg->size, sizeof(*half->slot));
        if (!half->slot)
                return -ENOMEM;
        for (unsigned i = 0; i < cfg->size; i++)
                half->slot[i].next = (uint16_t)(i + 1);

        half->ring = (struct vring_split){
                .desc = (struct vring_desc *)mem,
                .avail = (struct vring_avail *)(mem + p.avail),
                .used = (struct vring_used *)(mem + p.used),
                .mask = (uint16_t)(cfg->size - 1),
        };
        if (vq->indirect) {
                half->tables = (struct vring_desc *)(mem + p.tables);
                half->tables_gpa = gpa + p.tables;
        }
        half->free_tail = half->ring.mask;
        half->n_free = (uint16_t)cfg->size;
        half->event_idx = cfg->features & F(event_idx);

        cfg->desc = gpa;
        cfg->avail = gpa + p.avail;
        cfg->used = gpa + p.used;
        cfg->base = 0;
        return 0;
}

void split_driver_done(struct vq_driver *vq)
{
        free(vq->split.slot);
}

/* ---- offering ---- */

static uint16_t piece_flags(unsigned i, unsigned n_out, unsigned n)
{
        return (uint16_t)((i >= n_out ? VRING_DESC_F_WRITE : 0) | (i + 1 < n ? VRING_DESC_F_NEXT : 0));
}

/* Takes n descriptors from the free queue for the pieces; returns the last one's number. */
static uint16_t fill_chain(struct split_driver *half, const struct vq_piece *pieces, unsigned n_out,
                           unsigned n)
{
        uint16_t i = half->free_head, tail = i;

        for (unsigned k = 0; k < n; k++) {
                uint16_t next = half->slot[i].next;

                split_desc_store(&half->ring.desc[i], pieces[k].gpa, pieces[k].len, piece_flags(k, n_out, n),
                                 k + 1 < n ? next : 0);
                tail = i;
                i = next;
        }
        half->free_head = i;
        return tail;
}

/* Takes one descriptor and lays the pieces into its table (2.7.5.3); returns its number. */
static uint16_t fill_table(struct split_driver *half, const struct vq_piece *pieces, unsigned n_out,
                           unsigned n)
{
        uint16_t head = half->free_head;
        size_t first = (size_t)head * VQ_INDIRECT_MAX;
        struct vring_desc *table = &half->tables[first];

        for (unsigned k = 0; k < n; k++)
                split_desc_store(&table[k], pieces[k].gpa, pieces[k].len, piece_flags(k, n_out, n),
                                 (uint16_t)(k + 1 < n ? k + 1 : 0));
        split_desc_store(&half->ring.desc[head], half->tables_gpa + first * sizeof(*table),
                         n * (uint32_t)sizeof(*table), VRING_DESC_F_INDIRECT, 0);
        half->free_head = half->slot[head].next;
        return head;
}

/* A chain of several pieces. */
int split_driver_add(struct vq_driver *vq, const struct vq_piece *pieces, unsigned n_out, unsigned n_in,
                     void *cookie)
{
        struct split_driver *half = &vq->split;
        unsigned n = n_out + n_in;
        uint16_t head = half->free_head, tail, ndesc = (uint16_t)(half->tables ? 1 : n);

        if (unlikely(n > vq_driver_chain_max(vq)))
                return -E2BIG;
        if (unlikely(ndesc > half->n_free))
                return -ENOSPC;
        tail = half->tables ? fill_table(half, pieces, n_out, n) : fill_chain(half, pieces, n_out, n);
        split_driver_offer(half, head, tail, ndesc, cookie);
        return 0;
}

void split_driver_publish(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;

        if (half->avail == half->published)
                return;
        half->unkicked += (uint16_t)(half->avail - half->published);
        half->published = half->avail;
        store_release(&half->ring.avail->idx, cpu_to_le16(half->avail)); /* pair A */
}

bool split_driver_kick_needed(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;
        uint32_t n = half->unkicked;
        uint16_t event;

        if (!n)
                return false;
        half->unkicked = 0;
        fence_full(); /* pair C */
        if (!half->event_idx)
                return !(le16_to_cpu(peer_load(&half->ring.used->flags)) & VRING_USED_F_NO_NOTIFY);
        event = le16_to_cpu(peer_load(split_avail_event(&half->ring)));
        return n > UINT16_MAX || event_wants(event, half->published, (uint16_t)(half->published - n));
}

/* ---- taking back ---- */

/* How many used entries can be reaped, up to `max`; -EPROTO if the index is impossible. */
static int look(struct vq_driver *vq, unsigned max)
{
        struct split_driver *half = &vq->split;
        uint16_t known = (uint16_t)(half->used_seen - half->last_used);
        uint16_t out = (uint16_t)(half->published - half->last_used);
        uint16_t idx, n;

        if (known >= max)
                return (int)max;
        idx = le16_to_cpu(peer_load_acquire(&half->ring.used->idx)); /* pair B */
        n = (uint16_t)(idx - half->last_used);
        if (unlikely(n < known || n > out))
                return vq_driver_break(vq, "bad-used", idx);
        half->used_seen = idx;
        return (int)MIN(n, max);
}

/* Puts a chain's descriptors to the end of the free queue: one step, however long it is. */
static void free_chain(struct split_driver *half, uint16_t head)
{
        struct split_slot *slot = &half->slot[head];

        if (half->n_free)
                half->slot[half->free_tail].next = head;
        else
                half->free_head = head;
        half->free_tail = slot->tail;
        half->n_free = (uint16_t)(half->n_free + slot->ndesc);
        slot->cookie = NULL;
}

int split_driver_reap(struct vq_driver *vq, struct vq_used *used, unsigned max)
{
        struct split_driver *half = &vq->split;
        int n = look(vq, max), i;

        for (i = 0; i < n; i++) {
                struct vring_used_elem e = split_used_load(&half->ring, (uint16_t)(half->last_used + i));
                void *cookie = e.id <= half->ring.mask ? half->slot[e.id].cookie : NULL;

                if (unlikely(!cookie)) {
                        if (i == 0)
                                return vq_driver_break(vq, "bad-id", e.id);
                        break; /* met again at the head of the next burst */
                }
                used[i] = (struct vq_used){ cookie, e.len, (uint16_t)e.id };
                free_chain(half, (uint16_t)e.id);
        }
        if (i > 0)
                half->last_used = (uint16_t)(half->last_used + i);
        return n < 0 ? n : i;
}

/* ---- being woken ---- */

/* Asks for an interrupt when the used entry at `event` is filled, but not earlier than was asked before: as long as that entry is
 * still to come, the request stands.  Returns how many entries the device has used since the last reap. */
static uint16_t ask(struct split_driver *half, uint16_t event)
{
        uint16_t out = (uint16_t)(half->published - half->last_used);
        uint16_t asked = (uint16_t)(half->call_event - half->last_used);

        if (!half->event_idx) {
                half->call_flags = 0;
                store_relaxed(&half->ring.avail->flags, 0);
        } else if (asked >= out || (uint16_t)(event - half->last_used) > asked) {
                half->call_event = event;
                store_relaxed(split_used_event(&half->ring), cpu_to_le16(event));
        }
        fence_full(); /* pair D */
        return (uint16_t)(le16_to_cpu(peer_load(&half->ring.used->idx)) - half->last_used);
}

bool split_driver_call_enable(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;

        return ask(half, half->last_used) > 0;
}

bool split_driver_call_enable_delayed(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;
        uint16_t out = (uint16_t)(half->published - half->last_used);
        uint16_t later = (uint16_t)(out * 3 / 4);

        return ask(half, (uint16_t)(half->last_used + later)) > later;
}

/* With event indices nothing needs doing: the one that was asked for comes, and then no more (2.7.7.1: the flag stays 0). */
void split_driver_call_disable(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;

        if (half->event_idx || half->call_flags)
                return;
        half->call_flags = VRING_AVAIL_F_NO_INTERRUPT;
        store_relaxed(&half->ring.avail->flags, cpu_to_le16(half->call_flags));
}

bool split_driver_used_pending(const struct vq_driver *vq)
{
        const struct split_driver *half = &vq->split;

        return half->used_seen != half->last_used ||
               le16_to_cpu(peer_load(&half->ring.used->idx)) != half->last_used;
}

void *split_driver_drain(struct vq_driver *vq)
{
        struct split_driver *half = &vq->split;

        while (half->drained < vq->size) {
                uint16_t head = half->drained++;
                void *cookie = half->slot[head].cookie;

                if (cookie) {
                        free_chain(half, head);
                        return cookie;
                }
        }
        half->drained = 0;
        return NULL;
}

/* ---- for humans ---- */

void split_driver_state(const struct vq_driver *vq, struct vq_state *ret_state)
{
        const struct split_driver *half = &vq->split;

        *ret_state = (struct vq_state){
                .avail = half->published,
                .event_ours = half->call_event,
                .last_avail = half->avail,
                .last_used = half->last_used,
        };
        if (vq->broken)
                return;
        ret_state->used = le16_to_cpu(load_relaxed(&half->ring.used->idx));
        ret_state->event_peer = le16_to_cpu(load_relaxed(split_avail_event(&half->ring)));
        ret_state->unwanted = !half->event_idx &&
                              le16_to_cpu(load_relaxed(&half->ring.used->flags)) & VRING_USED_F_NO_NOTIFY;
}
