/* A ring of records of any length in one block of bytes: small frames take little of it, and a record lies in one piece.
 * One thread puts records in, one takes them out; they may be the same.  What would not fit before the
 * end of the block starts at its beginning, behind a mark that says so. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"

struct recring {
        uint8_t *bytes;
        uint32_t size; /* power of two; a record takes at most half */
        /* the putter's; positions count up for ever, their low bits are the place */
        uint32_t head __attribute__((aligned(CACHE_LINE)));
        /* the taker's */
        uint32_t tail __attribute__((aligned(CACHE_LINE)));
};

struct recring_mark {
        uint32_t len; /* of the record that follows, or RECRING_SKIP: the next is at the beginning */
        uint32_t pad; /* so that records are aligned to eight bytes */
};
#define RECRING_SKIP UINT32_MAX

static inline uint32_t recring_need(uint32_t len)
{
        return ALIGN_UP(len + (uint32_t)sizeof(struct recring_mark), 8u);
}

static inline struct recring_mark *recring_at(const struct recring *r, uint32_t pos)
{
        return (struct recring_mark *)(r->bytes + (pos & (r->size - 1)));
}

/* Room for a record of `len` bytes, or NULL.  Nobody sees it before recring_put(). */
static inline void *recring_reserve(struct recring *r, uint32_t len)
{
        uint32_t need = recring_need(len), head = load_relaxed(&r->head);
        uint32_t room = r->size - (head - load_acquire(&r->tail));
        uint32_t to_end = r->size - (head & (r->size - 1));

        check(need <= r->size / 2);
        if (to_end < need) {
                if (room < to_end + need)
                        return NULL;
                recring_at(r, head)->len = RECRING_SKIP;
                head += to_end;
                store_release(&r->head, head);
        } else if (room < need) {
                return NULL;
        }
        recring_at(r, head)->len = len;
        return recring_at(r, head) + 1;
}

/* Makes the record that was reserved last visible. */
static inline void recring_put(struct recring *r)
{
        uint32_t head = load_relaxed(&r->head);

        store_release(&r->head, head + recring_need(recring_at(r, head)->len));
}

/* The oldest record, or NULL. */
static inline void *recring_peek(struct recring *r, uint32_t *ret_len)
{
        uint32_t tail = load_relaxed(&r->tail), head = load_acquire(&r->head);

        if (tail != head && recring_at(r, tail)->len == RECRING_SKIP) {
                tail += r->size - (tail & (r->size - 1));
                store_release(&r->tail, tail);
        }
        if (tail == head)
                return NULL;
        *ret_len = recring_at(r, tail)->len;
        return recring_at(r, tail) + 1;
}

/* Gives the place of the record that was peeked at back. */
static inline void recring_take(struct recring *r)
{
        uint32_t tail = load_relaxed(&r->tail);

        store_release(&r->tail, tail + recring_need(recring_at(r, tail)->len));
}

/* The bytes that records and their marks take up; either side's view of it. */
static inline uint32_t recring_used(const struct recring *r)
{
        return load_relaxed(&r->head) - load_relaxed(&r->tail);
}

/* Starts over at the beginning of an empty ring, so that few frames in flight stay in few cache lines.  Only where
 * one thread has both ends. */
static inline void recring_rewind(struct recring *r)
{
        if (r->head == r->tail)
                r->head = r->tail = 0;
}
