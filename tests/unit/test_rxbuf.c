/* Receive buffers: how they are cut off a fragment, and how their size follows the packets. */
#include "driver/rxbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "scale.h"
#include "test.h"

#define HDR 12u

/* A queue with its slab, and the rules that hold whatever happens. */
struct queue {
        struct rxbuf_slab slab;
        struct rxbuf rx;
        struct rxbuf_page pages[512];
        uint8_t *mem;
};

static struct rxbuf_config config(enum vw_rx_buffers mode)
{
        return (struct rxbuf_config){ .mode = mode, .hdr_len = HDR, .frame = 1518 };
}

static void queue_init(struct queue *q, size_t size, struct rxbuf_config c)
{
        q->mem = aligned_alloc(RXBUF_PAGE, size);
        EXPECT(q->mem != NULL && size / RXBUF_PAGE <= ARRAY_SIZE(q->pages));
        memset(q->mem, 0, size);
        rxbuf_slab_init(&q->slab, q->mem, size, q->pages);
        EXPECT_EQ(rxbuf_init(&q->rx, &c, &q->slab), 0);
}

static void expect_exact(const struct queue *q)
{
        EXPECT_EQ(q->rx.opened, q->rx.taken + q->rx.wasted + q->rx.end - q->rx.pos);
}

/* Every buffer is back: so is every page. */
static void queue_done(struct queue *q)
{
        EXPECT_EQ(q->rx.taken, q->rx.returned);
        rxbuf_done(&q->rx);
        expect_exact(q);
        EXPECT_EQ(q->slab.free_pages, q->slab.n_pages);
        for (uint32_t i = 0; i < q->slab.n_pages; i++)
                EXPECT(q->pages[i].refs == 0 && q->pages[i].in_use == 0);
        free(q->mem);
}

static uint64_t next_random(uint64_t *rng)
{
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        return *rng >> 33;
}

/* T-RX-10 */
TEST(rxbuf, the_rest_of_a_fragment_joins_the_last_of_21_buffers)
{
        struct rx_buffer b[21];
        struct queue q;

        queue_init(&q, 2 * RXBUF_FRAGMENT, config(VW_BUFFERS_MTU));
        EXPECT_EQ(rxbuf_size(&q.rx), 1536);
        for (unsigned i = 0; i < 21; i++) {
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
                EXPECT_EQ(b[i].len, i < 20 ? 1536 : 2048);
                EXPECT_EQ(b[i].truesize, b[i].len);
                EXPECT(b[i].ptr == q.mem + i * 1536);
        }
        EXPECT_EQ(q.rx.holes, 512);
        EXPECT_EQ(q.rx.taken, RXBUF_FRAGMENT);
        EXPECT_EQ(q.rx.sizes[1536 / 64], 21);
        for (unsigned i = 0; i < 21; i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
}

/* T-RX-11 */
TEST(rxbuf, with_headroom_the_rest_is_counted_as_waste)
{
        struct rxbuf_config c = config(VW_BUFFERS_MTU);
        struct rx_buffer b[19];
        struct queue q;

        c.headroom = 128;
        queue_init(&q, 2 * RXBUF_FRAGMENT, c);
        for (unsigned i = 0; i < 19; i++) {
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
                EXPECT_EQ(b[i].len, 1536);
                EXPECT_EQ(b[i].truesize, 1664);
                EXPECT(b[i].ptr == q.mem + i * 1664 + 128);
        }
        rxbuf_put(&q.rx, &b[0]);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[0]), 0);
        EXPECT(b[0].ptr == q.mem + 19 * 1664 + 128 || b[0].ptr == q.mem + RXBUF_FRAGMENT + 128);
        EXPECT_EQ(q.rx.holes, 0);
        expect_exact(&q);
        for (unsigned i = 0; i < 19; i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
        EXPECT_EQ(q.rx.wasted, q.rx.opened - q.rx.taken);
}

/* T-RX-11: the numbers of the case, a pitch of 1536 bytes with the headroom in it. */
TEST(rxbuf, with_headroom_21_buffers_of_a_fragment_waste_512)
{
        struct rxbuf_config c = config(VW_BUFFERS_AUTO);
        struct rx_buffer b[22];
        struct queue q;

        c.headroom = 64;
        queue_init(&q, 2 * RXBUF_FRAGMENT, c);
        for (unsigned i = 0; i < 21; i++) {
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_exactly(1472), &b[i]), 0);
                EXPECT_EQ(b[i].len, 1472);
                EXPECT_EQ(b[i].truesize, 1536);
        }
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_exactly(1472), &b[21]), 0);
        EXPECT_EQ(q.rx.wasted, 512);
        EXPECT_EQ(q.rx.holes, 0);
        for (unsigned i = 0; i < 22; i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
}

/* T-RX-12 */
TEST(rxbuf, a_buffer_that_the_ring_refused_leaves_no_trace)
{
        struct rx_buffer b, kept[7];
        struct rxbuf_page pages[512];
        struct rxbuf before;
        struct queue q;

        queue_init(&q, 4 * RXBUF_FRAGMENT, config(VW_BUFFERS_AUTO));
        for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &kept[i]), 0);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b), 0);
        rxbuf_undo(&q.rx, &b);
        before = q.rx;
        memcpy(pages, q.pages, sizeof(pages));
        for (uint64_t i = 0; i < test_scale(10000, 1000000); i++) {
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b), 0);
                rxbuf_undo(&q.rx, &b);
        }
        EXPECT_MEM(&before, &q.rx, sizeof(before));
        EXPECT_MEM(pages, q.pages, q.slab.n_pages * sizeof(pages[0]));
        for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
                rxbuf_put(&q.rx, &kept[i]);
        queue_done(&q);
}

/* T-RX-12: at every place of a fragment, the last buffer with its hole too, and of several at once. */
TEST(rxbuf, undoing_leaves_no_trace_at_any_place_of_a_fragment)
{
        struct rx_buffer kept[64], b[3];
        struct queue q;
        unsigned n = 0;

        queue_init(&q, 8 * RXBUF_FRAGMENT, config(VW_BUFFERS_AUTO));
        for (; n < ARRAY_SIZE(kept); n++) {
                unsigned some = 0;

                if (q.rx.end - q.rx.pos > 0) {
                        uint32_t pos = q.rx.pos;
                        uint64_t taken = q.rx.taken, holes = q.rx.holes;

                        while (some < 3 && q.rx.end - q.rx.pos > 0)
                                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[some++]), 0);
                        while (some > 0)
                                rxbuf_undo(&q.rx, &b[--some]);
                        EXPECT(q.rx.pos == pos && q.rx.taken == taken && q.rx.holes == holes);
                }
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &kept[n]), 0);
                EXPECT_EQ(q.rx.sizes[24], n + 1);
        }
        while (n > 0)
                rxbuf_put(&q.rx, &kept[--n]);
        queue_done(&q);
}

/* Two single pages that happen to lie in a row are two fragments: the second may not grow back into the first. */
TEST(rxbuf, undoing_across_fragments_is_a_plain_return)
{
        struct rx_buffer a = { 0 }, b = { 0 }, c = { 0 };
        struct queue q;

        queue_init(&q, RXBUF_FRAGMENT, config(VW_BUFFERS_PAGE));
        q.slab.single_pages = true;
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &a), 0);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b), 0);
        EXPECT(a.ptr + a.truesize == b.ptr);
        rxbuf_undo(&q.rx, &b);
        rxbuf_undo(&q.rx, &a);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &c), 0);
        EXPECT(c.ptr == b.ptr);
        EXPECT_EQ(q.rx.returned, a.truesize);
        rxbuf_put(&q.rx, &c);
        queue_done(&q);
}

/* T-RX-13 */
TEST(rxbuf, one_buffer_holds_the_packet_once_the_average_has_settled)
{
        for (uint32_t p = 1540; p <= 4083; p += (uint32_t)test_scale(17, 1)) {
                struct rxbuf_config c = config(VW_BUFFERS_AUTO);
                struct rxbuf_slab s;
                struct rxbuf r;

                rxbuf_slab_init(&s, NULL, 0, NULL);
                EXPECT_EQ(rxbuf_init(&r, &c, &s), 0);
                rxbuf_note(&r, 60);
                for (unsigned i = 0; i < 5000; i++)
                        rxbuf_note(&r, p);
                EXPECT(rxbuf_size(&r) >= HDR + p);
                EXPECT(rxbuf_size(&r) < HDR + p + 64);
        }
}

/* T-RX-16 */
TEST(rxbuf, sizes_stay_in_bounds_for_every_average)
{
        static const uint32_t averages[] = { 0, 1, 1518, 4084, 1u << 31 };

        for (unsigned i = 0; i < ARRAY_SIZE(averages); i++) {
                for (uint32_t headroom = 0; headroom <= 256; headroom += 32) {
                        struct rxbuf_config c = config(VW_BUFFERS_AUTO);
                        struct rxbuf_slab s;
                        struct rxbuf r;

                        c.headroom = headroom;
                        rxbuf_slab_init(&s, NULL, 0, NULL);
                        EXPECT_EQ(rxbuf_init(&r, &c, &s), 0);
                        rxbuf_note(&r, averages[i]);
                        EXPECT(rxbuf_size(&r) >= HDR + 1518);
                        EXPECT(rxbuf_size(&r) <= RXBUF_PAGE - headroom);
                        EXPECT_EQ(rxbuf_size(&r) % 64, 0);
                }
        }
}

/* T-RX-17 */
TEST(rxbuf, a_ring_of_32_needs_2049_bytes_a_buffer_and_one_of_16_more_than_a_page)
{
        struct rxbuf_config c = config(VW_BUFFERS_AUTO);
        struct rxbuf_slab s;
        struct rxbuf r;

        rxbuf_slab_init(&s, NULL, 0, NULL);
        EXPECT_EQ(rxbuf_minimum(32, 12 + 14 + 4 + 65535), 2049);
        EXPECT_EQ(rxbuf_minimum(16, 12 + 14 + 4 + 65535), 4098);
        c.minimum = 4098;
        EXPECT_EQ(rxbuf_init(&r, &c, &s), -EINVAL);
        c.minimum = 4096;
        EXPECT_EQ(rxbuf_init(&r, &c, &s), 0);
        EXPECT_EQ(rxbuf_size(&r), 4096);
        c.headroom = 1;
        EXPECT_EQ(rxbuf_init(&r, &c, &s), -EINVAL);
}

/* T-RX-17: whatever the sizes were when the ring was filled, it holds the longest packet. */
TEST(rxbuf, a_full_ring_of_32_holds_the_longest_packet)
{
        struct rxbuf_config c = config(VW_BUFFERS_AUTO);
        struct rx_buffer b[32];
        uint64_t rng = 1;
        struct queue q;

        c.minimum = rxbuf_minimum(32, HDR + VW_FRAME_MAX);
        queue_init(&q, 16 * RXBUF_FRAGMENT, c);
        for (unsigned round = 0; round < 1000; round++) {
                uint32_t room = 0;

                q.slab.single_pages = round & 1;
                for (unsigned i = 0; i < 32; i++) {
                        rxbuf_note(&q.rx, (uint32_t)(next_random(&rng) % 6000));
                        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
                        room += b[i].len;
                }
                EXPECT(room >= HDR + VW_FRAME_MAX);
                for (unsigned i = 0; i < 32; i++)
                        rxbuf_put(&q.rx, &b[i]);
        }
        queue_done(&q);
}

/* T-RX-18 */
TEST(rxbuf, single_pages_hold_packets_of_4000_and_are_not_overrun)
{
        struct rx_buffer b[60];
        struct queue q;

        queue_init(&q, 8 * RXBUF_FRAGMENT, config(VW_BUFFERS_AUTO));
        q.slab.single_pages = true;
        for (unsigned i = 0; i < 1000; i++)
                rxbuf_note(&q.rx, i < 500 ? 300 : 4000);
        for (unsigned i = 0; i < ARRAY_SIZE(b); i++) {
                size_t in_page;

                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
                in_page = (size_t)(b[i].ptr - q.mem) % RXBUF_PAGE;
                EXPECT(in_page + b[i].len <= RXBUF_PAGE);
                EXPECT(b[i].len >= HDR + 4000);
                memset(b[i].ptr, 0xff, b[i].len);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(b); i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
}

/* T-RX-18: what a fragment has left is used when it is shorter than the size of the moment. */
TEST(rxbuf, a_buffer_is_shortened_when_the_size_has_outgrown_the_rest)
{
        struct rx_buffer a = { 0 }, b = { 0 };
        struct queue q;

        queue_init(&q, RXBUF_FRAGMENT, config(VW_BUFFERS_MTU));
        q.slab.single_pages = true;
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &a), 0);
        rxbuf_set_mode(&q.rx, VW_BUFFERS_PAGE);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b), 0);
        EXPECT(b.ptr == a.ptr + 1536);
        EXPECT_EQ(b.len, 4096 - 1536);
        rxbuf_put(&q.rx, &a);
        rxbuf_put(&q.rx, &b);
        queue_done(&q);
}

/* Fragmented memory: each block has a buffer left in it, so there is no 32 KiB anywhere. */
TEST(rxbuf, falls_back_to_single_pages_when_every_block_is_in_use)
{
        struct rx_buffer b[16], more[60];
        unsigned n = 0;
        struct queue q;

        queue_init(&q, 2 * RXBUF_FRAGMENT, config(VW_BUFFERS_PAGE));
        for (unsigned i = 0; i < 16; i++)
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &more[0]), -ENOMEM);
        for (unsigned i = 0; i < 16; i++)
                if (i % 8 != 3)
                        rxbuf_put(&q.rx, &b[i]);
        while (rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &more[n]) == 0)
                n++;
        EXPECT_EQ(n, 14);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_exactly(9000), &more[n]), -ENOMEM);
        while (n > 0)
                rxbuf_put(&q.rx, &more[--n]);
        rxbuf_put(&q.rx, &b[3]);
        rxbuf_put(&q.rx, &b[11]);
        EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_exactly(9000), &more[0]), 0);
        EXPECT_EQ(more[0].len, 9024);
        rxbuf_put(&q.rx, &more[0]);
        queue_done(&q);
}

/* T-RX-23 */
TEST(rxbuf, four_buffers_in_a_row_are_one_piece)
{
        struct rx_buffer b[4];
        unsigned pieces = 1;
        uint32_t truesize = 0;
        struct queue q;

        queue_init(&q, 2 * RXBUF_FRAGMENT, config(VW_BUFFERS_MTU));
        for (unsigned i = 0; i < 4; i++) {
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
                truesize += b[i].truesize;
        }
        for (unsigned i = 1; i < 4; i++)
                pieces += !rxbuf_adjacent(&q.rx, &b[i - 1], b[i - 1].len, &b[i]);
        EXPECT_EQ(pieces, 1);
        EXPECT_EQ(truesize, 4 * 1536);
        EXPECT(!rxbuf_adjacent(&q.rx, &b[0], 1535, &b[1]));
        EXPECT(!rxbuf_adjacent(&q.rx, &b[0], 1536, &b[2]));
        EXPECT(!rxbuf_adjacent(&q.rx, &b[1], 1536, &b[0]));
        for (unsigned i = 0; i < 4; i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
}

/* T-RX-23 */
TEST(rxbuf, buffers_of_two_fragments_are_two_pieces)
{
        struct rx_buffer b[9];
        struct queue q;

        queue_init(&q, 2 * RXBUF_FRAGMENT, config(VW_BUFFERS_PAGE));
        for (unsigned i = 0; i < 9; i++)
                EXPECT_EQ(rxbuf_get(&q.rx, rxbuf_lengths(&q.rx), &b[i]), 0);
        EXPECT(b[7].ptr + 4096 == b[8].ptr);
        EXPECT(rxbuf_adjacent(&q.rx, &b[6], 4096, &b[7]));
        EXPECT(!rxbuf_adjacent(&q.rx, &b[7], 4096, &b[8]));
        for (unsigned i = 0; i < 9; i++)
                rxbuf_put(&q.rx, &b[i]);
        queue_done(&q);
}

/* A ring that is used out of order, with modes, averages and page sizes changing and additions failing.  `owner` says for
 * every cache line of the slab which buffer has it: no two may have the same. */
struct churn {
        struct queue q;
        struct rx_buffer ring[128];
        unsigned n;
        uint8_t owner[512 * RXBUF_PAGE / 64];
        uint64_t rng, packets_truesize;
};

static void mark(struct churn *c, const struct rx_buffer *b, uint8_t from, uint8_t to)
{
        size_t first = (size_t)(b->ptr - c->q.mem) / 64 - c->q.rx.config.headroom / 64;

        EXPECT_EQ(b->truesize % 64, 0);
        for (size_t i = first; i < first + b->truesize / 64; i++) {
                EXPECT_EQ(c->owner[i], from);
                c->owner[i] = to;
        }
}

static void churn_step(struct churn *c)
{
        struct rx_buffer b;

        if (c->n < ARRAY_SIZE(c->ring) && next_random(&c->rng) % 16 < 9) {
                int err = next_random(&c->rng) % 64 ? rxbuf_get(&c->q.rx, rxbuf_lengths(&c->q.rx), &b)
                                                    : rxbuf_get(&c->q.rx, rxbuf_exactly(14000), &b);
                if (err < 0)
                        return;
                if (next_random(&c->rng) % 16 == 0) {
                        rxbuf_undo(&c->q.rx, &b);
                        return;
                }
                mark(c, &b, 0, 1);
                c->ring[c->n++] = b;
        } else if (c->n > 0) {
                unsigned k = (unsigned)(next_random(&c->rng) % c->n);

                rxbuf_note(&c->q.rx, (uint32_t)(next_random(&c->rng) % 9000));
                mark(c, &c->ring[k], 1, 0);
                c->packets_truesize += c->ring[k].truesize;
                rxbuf_put(&c->q.rx, &c->ring[k]);
                c->ring[k] = c->ring[--c->n];
        }
        if (next_random(&c->rng) % 512 == 0)
                rxbuf_set_mode(&c->q.rx, (enum vw_rx_buffers)(next_random(&c->rng) % 3));
        if (next_random(&c->rng) % 4096 == 0)
                c->q.slab.single_pages = !c->q.slab.single_pages;
}

static void churn(uint32_t headroom, size_t size)
{
        struct rxbuf_config cfg = config(VW_BUFFERS_AUTO);
        struct churn *c = calloc(1, sizeof(*c));

        EXPECT(c != NULL);
        cfg.headroom = headroom;
        c->rng = headroom + size;
        queue_init(&c->q, size, cfg);
        for (uint64_t i = 0; i < test_scale(100000, 5000000); i++) {
                uint64_t posted = 0;

                churn_step(c);
                expect_exact(&c->q);
                if (i % 64)
                        continue;
                for (unsigned k = 0; k < c->n; k++)
                        posted += c->ring[k].truesize;
                EXPECT_EQ(c->packets_truesize, c->q.rx.taken - posted);
        }
        while (c->n > 0)
                rxbuf_put(&c->q.rx, &c->ring[--c->n]);
        queue_done(&c->q);
        free(c);
}

/* T-RX-09 */
TEST(rxbuf, truesize_is_exact_through_any_schedule)
{
        churn(0, 512 * RXBUF_PAGE);
}

/* T-RX-09 */
TEST(rxbuf, truesize_is_exact_when_memory_is_short)
{
        churn(0, 37 * RXBUF_PAGE);
}

/* T-RX-09 */
TEST(rxbuf, truesize_is_exact_with_headroom)
{
        churn(192, 300 * RXBUF_PAGE);
}
