#include "driver/rxbuf.h"

#include <errno.h>

#include "base/check.h"

static_assert(RXBUF_PAGE / CACHE_LINE == VW_BUFFER_SIZES - 1 && CACHE_LINE == VW_BUFFER_STEP,
              "bins of the histogram");
static_assert(RXBUF_FRAGMENT % RXBUF_PAGE == 0 && RXBUF_PAGE % CACHE_LINE == 0,
              "fragments are pages, of lines");

/* ---- slab ---- */

void rxbuf_slab_init(struct rxbuf_slab *s, void *base, size_t size, struct rxbuf_page *pages)
{
        check(size / RXBUF_PAGE <= UINT32_MAX / RXBUF_PAGE);
        *s = (struct rxbuf_slab){
                .base = base,
                .pages = pages,
                .n_pages = (uint32_t)(size / RXBUF_PAGE),
                .free_pages = (uint32_t)(size / RXBUF_PAGE),
        };
        for (uint32_t i = 0; i < s->n_pages; i++)
                pages[i] = (struct rxbuf_page){ 0 };
}

/* The fragment that is to be cut holds them. */
static void open_pages(struct rxbuf_slab *s, uint32_t page, uint32_t n)
{
        s->pages[page / RXBUF_BLOCK * RXBUF_BLOCK].in_use += (uint16_t)n;
        s->free_pages -= n;
        rxbuf_slab_hold(s, page, page + n - 1);
}

/* Eight free pages of one block, else a page of a block that is in use anyway, else any page.  Returns how many pages from
 * *ret_page on are free for a fragment; 0: none. */
static uint32_t find_pages(struct rxbuf_slab *s, uint32_t *ret_page)
{
        uint32_t blocks = (s->n_pages + RXBUF_BLOCK - 1) / RXBUF_BLOCK;
        uint32_t found = blocks, page;

        for (uint32_t i = 0; i < blocks && s->free_pages > 0; i++) {
                uint32_t block = (s->next + i) % blocks, first = block * RXBUF_BLOCK;
                uint32_t n = MIN(RXBUF_BLOCK, s->n_pages - first);

                if (n == RXBUF_BLOCK && s->pages[first].in_use == 0) {
                        s->next = block;
                        if (!s->single_pages) {
                                *ret_page = first;
                                return RXBUF_BLOCK;
                        }
                }
                if (s->pages[first].in_use < n && (found == blocks || s->pages[first].in_use > 0)) {
                        found = block;
                        if (s->single_pages)
                                break;
                }
        }
        if (found == blocks)
                return 0;
        for (page = found * RXBUF_BLOCK; s->pages[page].refs > 0;)
                page++;
        *ret_page = page;
        return 1;
}

/* ---- sizes ---- */

uint32_t rxbuf_minimum(uint32_t ring, uint32_t longest)
{
        return (longest + ring - 1) / ring;
}

static uint32_t line_up(uint32_t len)
{
        return ALIGN_UP(len, (uint32_t)CACHE_LINE);
}

static uint32_t data_minimum(const struct rxbuf_config *c)
{
        return MAX(RXBUF_DATA_MIN, c->minimum > c->hdr_len ? c->minimum - c->hdr_len : 0);
}

uint32_t rxbuf_size(const struct rxbuf *r)
{
        const struct rxbuf_config *c = &r->config;
        uint32_t data = ewma_read(&r->average);

        if (c->mode == VW_BUFFERS_PAGE)
                data = RXBUF_PAGE;
        else if (c->mode == VW_BUFFERS_MTU)
                data = c->frame;
        data = MIN(MAX(data, data_minimum(c)), RXBUF_PAGE - c->hdr_len - c->headroom);
        return line_up(c->hdr_len + data);
}

/* ---- the current fragment ---- */

int rxbuf_init(struct rxbuf *r, const struct rxbuf_config *config, struct rxbuf_slab *slab)
{
        uint32_t headroom = line_up(config->headroom);

        if (headroom >= RXBUF_PAGE || config->hdr_len + data_minimum(config) > RXBUF_PAGE - headroom)
                return -EINVAL;
        *r = (struct rxbuf){ .config = *config, .slab = slab };
        r->config.headroom = headroom;
        return 0;
}

void rxbuf_set_mode(struct rxbuf *r, enum vw_rx_buffers mode)
{
        r->config.mode = mode;
}

static void close_fragment(struct rxbuf *r)
{
        if (r->begin < r->end)
                rxbuf_slab_drop(r->slab, r->begin / RXBUF_PAGE, (r->end - 1) / RXBUF_PAGE);
        r->wasted += r->end - r->pos;
        r->begin = r->pos = r->end;
}

int rxbuf_open(struct rxbuf *r, uint32_t need)
{
        uint32_t page = 0, n;

        close_fragment(r); /* first: its pages may be those that are free */
        n = find_pages(r->slab, &page);
        if (n * RXBUF_PAGE < need)
                return -ENOMEM;
        open_pages(r->slab, page, n);
        r->begin = r->pos = page * RXBUF_PAGE;
        r->end = (page + n) * RXBUF_PAGE;
        r->opened += n * RXBUF_PAGE;
        return 0;
}

void rxbuf_done(struct rxbuf *r)
{
        if (r->slab)
                close_fragment(r);
}

struct rxbuf_lengths rxbuf_lengths(const struct rxbuf *r)
{
        return (struct rxbuf_lengths){ rxbuf_size(r), line_up(r->config.hdr_len + data_minimum(&r->config)) };
}

struct rxbuf_lengths rxbuf_exactly(uint32_t len)
{
        return (struct rxbuf_lengths){ line_up(len), line_up(len) };
}

void rxbuf_undo(struct rxbuf *r, const struct rx_buffer *buf)
{
        uint32_t start = (uint32_t)(buf->ptr - r->slab->base) - r->config.headroom;
        uint32_t hole = r->pos == r->end ? r->hole : 0;

        if (start < r->begin || start + buf->truesize != r->pos) {
                rxbuf_put(r, buf);
                return;
        }
        /* its pages stay the fragment's */
        rxbuf_slab_drop(r->slab, start / RXBUF_PAGE, (r->pos - 1) / RXBUF_PAGE);
        r->pos = start;
        r->taken -= buf->truesize;
        r->holes -= hole;
        r->sizes[MIN((buf->len - hole) / CACHE_LINE, RXBUF_SIZES - 1)]--;
}

bool rxbuf_adjacent(const struct rxbuf *r, const struct rx_buffer *a, uint32_t len, const struct rx_buffer *b)
{
        uint32_t pa = (uint32_t)(a->ptr - r->slab->base), pb = (uint32_t)(b->ptr - r->slab->base);

        return a->ptr + len == b->ptr && pa / RXBUF_FRAGMENT == pb / RXBUF_FRAGMENT;
}
