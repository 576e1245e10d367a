/* Receive buffers that size themselves, cut from page fragments of the queue's own shared memory.
 *
 * Two value types.  The slab hands out fragments: 32 KiB where eight pages in a row are free, else single pages.  Each
 * page is counted by the buffers that touch it, so a buffer held for long pins its pages, not its fragment.
 * The rxbuf of a queue cuts buffers off the current fragment, each as long as the next packet is expected to be.  When
 * the rest of the fragment could not hold another, it joins the last buffer and its truesize: nothing is unaccounted.
 *
 * What a buffer costs: a fragment that is being cut holds each of its pages once, and nearly every buffer touches one page or two.  Which
 * of the two, and whether a page is free now, is reckoned without branches: sizes that do not divide a page would have them mispredicted.
 * No allocation: memory and page records are the caller's.  Owner: the queue's thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "driver/ewma.h"
#include "vwire/stats.h"

#define RXBUF_PAGE     4096u
#define RXBUF_FRAGMENT 32768u
#define RXBUF_BLOCK    (RXBUF_FRAGMENT / RXBUF_PAGE) /* pages */
#define RXBUF_DATA_MIN 1518u           /* bytes after the header: an Ethernet frame with VLAN tag */
#define RXBUF_SIZES    VW_BUFFER_SIZES /* bins of the histogram: by cache lines */

/* ---- slab ---- */

struct rxbuf_page {
        uint16_t refs;   /* buffers that touch it, and the fragment that is being cut; 0: free */
        uint16_t in_use; /* of the first page of a block: how many of its pages are not free */
};

struct rxbuf_slab {
        uint8_t *base;            /* page-aligned shared memory */
        struct rxbuf_page *pages; /* one a page */
        uint32_t n_pages, free_pages;
        uint32_t next;     /* block where the next search begins */
        bool single_pages; /* give no 32 KiB: for comparison */
};

/* `size` is cut down to whole pages; `pages` has size / RXBUF_PAGE records. */
void rxbuf_slab_init(struct rxbuf_slab *s, void *base, size_t size, struct rxbuf_page *pages);

/* One more for each page from `first` to `last`. */
static inline void rxbuf_slab_hold(struct rxbuf_slab *s, uint32_t first, uint32_t last)
{
        unsigned two = last != first;

        s->pages[first].refs++;
        s->pages[last].refs = (uint16_t)(s->pages[last].refs + two);
        for (uint32_t page = first + 1; page < last; page++)
                s->pages[page].refs++;
}

/* One less for each page from `first` to `last`, which are of one block. */
static inline void rxbuf_slab_drop(struct rxbuf_slab *s, uint32_t first, uint32_t last)
{
        uint32_t block = first / RXBUF_BLOCK;
        struct rxbuf_page *a = &s->pages[first], *b = &s->pages[last], *head = &s->pages[block * RXBUF_BLOCK];
        unsigned two = last != first, freed;

        check(a->refs > 0 && b->refs > 0);
        a->refs--;
        b->refs = (uint16_t)(b->refs - two);
        freed = (a->refs == 0) + (two & (b->refs == 0));
        for (uint32_t page = first + 1; page < last; page++) {
                check(s->pages[page].refs > 0);
                freed += --s->pages[page].refs == 0;
        }
        s->free_pages += freed;
        head->in_use = (uint16_t)(head->in_use - freed);
        if (unlikely(head->in_use == 0))
                s->next = MIN(s->next, block); /* the lowest first: what is used stays in the caches */
}

/* ---- buffers ---- */

struct rx_buffer {
        uint8_t *ptr;      /* where the device writes */
        uint32_t len;      /* what it may write */
        uint32_t truesize; /* bytes of the fragment that go with it: len, headroom and hole */
};

struct rxbuf_config {
        enum vw_rx_buffers mode;
        uint32_t hdr_len;  /* of the virtio header */
        uint32_t minimum;  /* of a whole buffer, from rxbuf_minimum(); 0: RXBUF_DATA_MIN rules */
        uint32_t frame;    /* longest frame without GSO, MTU + 18: the size in `mtu` mode */
        uint32_t headroom; /* kept free before each buffer; then rests are wasted, not joined */
};

struct rxbuf {
        struct rxbuf_config config;
        struct rxbuf_slab *slab;
        struct ewma average; /* of whole packets */
        /* the current fragment, in bytes from the slab's base */
        uint32_t begin, pos, end;
        uint32_t hole; /* of the buffer that ended it, if one did */
        /* counters, bytes: opened == taken + wasted + what the current fragment has left */
        uint64_t opened;             /* fragments taken from the slab */
        uint64_t taken;              /* the sum of truesize of all buffers cut */
        uint64_t returned;           /* the sum of truesize of those put back */
        uint64_t holes;              /* joined a buffer; part of `taken` */
        uint64_t wasted;             /* rests that joined none */
        uint64_t sizes[RXBUF_SIZES]; /* buffers by len in cache lines, before holes */
};

/* The least whole buffer so that a ring of `ring` buffers holds a packet of `longest` bytes, header included.
 * More than RXBUF_PAGE: this ring cannot; refuse guest GSO or the ring size. */
uint32_t rxbuf_minimum(uint32_t ring, uint32_t longest);

/* 0, or -EINVAL when the minimum does not fit a page. */
int rxbuf_init(struct rxbuf *r, const struct rxbuf_config *config, struct rxbuf_slab *slab);
/* Gives the current fragment back; buffers that are out stay valid and come back through rxbuf_put(). */
void rxbuf_done(struct rxbuf *r);
void rxbuf_set_mode(struct rxbuf *r, enum vw_rx_buffers mode);

/* A packet of `len` bytes (its whole length, without the virtio header) has arrived. */
static inline void rxbuf_note(struct rxbuf *r, uint32_t len)
{
        ewma_add(&r->average, len);
}

/* How long the next buffer will be: the statistic `buffer_size`. */
uint32_t rxbuf_size(const struct rxbuf *r);

/* What a buffer is to be: `want` bytes, or as much as the current fragment has left where that is `least` or more. */
struct rxbuf_lengths {
        uint32_t want, least;
};

/* By the average, asked once for a whole refill: rxbuf_size(), and not less than the minimum. */
struct rxbuf_lengths rxbuf_lengths(const struct rxbuf *r);
/* For layouts that need all of a packet in one buffer: `len` (up to RXBUF_FRAGMENT), rounded up to a cache line. */
struct rxbuf_lengths rxbuf_exactly(uint32_t len);

/* The slow part of the next one: another fragment, of `need` bytes at the least.  0 or -ENOMEM. */
int rxbuf_open(struct rxbuf *r, uint32_t need);

/* The next buffer.  0 or -ENOMEM.  It is longer than wanted where a hole joins it. */
static inline int rxbuf_get(struct rxbuf *r, struct rxbuf_lengths lengths, struct rx_buffer *ret_buf)
{
        uint32_t headroom = r->config.headroom, left = r->end - r->pos, need, hole;

        if (unlikely(left < headroom + lengths.least)) {
                int err = rxbuf_open(r, headroom + lengths.want);

                if (err < 0)
                        return err;
                left = r->end - r->pos;
        }
        need = MIN(headroom + lengths.want, left);
        hole = left - need < need && !headroom ? left - need : 0;
        *ret_buf = (struct rx_buffer){
                .ptr = r->slab->base + r->pos + headroom,
                .len = need - headroom + hole,
                .truesize = need + hole,
        };
        r->sizes[MIN((need - headroom) / CACHE_LINE, RXBUF_SIZES - 1)]++;
        r->hole = hole;
        r->holes += hole;
        r->taken += need + hole;
        rxbuf_slab_hold(r->slab, r->pos / RXBUF_PAGE, (r->pos + need + hole - 1) / RXBUF_PAGE);
        r->pos += need + hole;
        return 0;
}

/* Puts back a buffer that the ring had no place for: the last one as if it had not been cut, so that failures leave
 * no holes; of several take the latest first. */
void rxbuf_undo(struct rxbuf *r, const struct rx_buffer *buf);

/* The buffer is no longer used, in any order. */
static inline void rxbuf_put(struct rxbuf *r, const struct rx_buffer *buf)
{
        uint32_t start = (uint32_t)(buf->ptr - r->slab->base) - r->config.headroom;
        uint32_t last = (start + buf->truesize - 1) / RXBUF_PAGE;

        check(last < r->slab->n_pages);
        r->returned += buf->truesize;
        rxbuf_slab_drop(r->slab, start / RXBUF_PAGE, last);
}

/* Whether `b` goes on where the first `len` bytes of `a` end, in one fragment: then the two are one piece. */
bool rxbuf_adjacent(const struct rxbuf *r, const struct rx_buffer *a, uint32_t len,
                    const struct rx_buffer *b);
