/* The driver's receive side against a scripted device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drv_rig.h"
#include "net/hdr.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

#define SEC NSEC_PER_SEC
#define HDR 12

static const struct vw_net_hdr one = { .num_buffers = 1 };

static void start(struct rig *r)
{
        rig_init(r);
        r->checks = true;
        rig_start(r);
}

/* Uses buffers as told, polls, and returns the packets that the poll reports. */
static int raw(struct rig *r, const struct vw_net_hdr *hdr, const uint32_t *lens, unsigned n)
{
        EXPECT(sd_receive_raw(&r->dev, r->pair, hdr, lens, n));
        return rig_poll(r, 64, SEC);
}

static unsigned buffer_size(struct rig *r)
{
        return (unsigned)rig_count(r, 0, VW_C_buffer_size);
}

/* ---- lengths ---- */

/* T-RX-01, hostile M05 */
TEST(driver_rx, drops_lengths_beyond_the_buffer)
{
        static const uint32_t over[] = { 1, HDR, 20, 1u << 31 };
        struct rig r;
        uint32_t len;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(over); i++) {
                len = r.drv->pairs[0].rx.slots[0].buf.len + over[i];
                raw(&r, &one, &len, 1);
                EXPECT_EQ(rig_drops(&r, 0, VW_DROP_BAD_LEN), i + 1);
        }
        EXPECT_EQ(r.received, 0);
        EXPECT(rig_arrive(&r, 100, 1)); /* and it goes on */
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        rig_end(&r);
}

/* T-RX-01, T-RX-02 */
TEST(driver_rx, accepts_a_buffer_that_is_full_to_the_end)
{
        struct rig r;
        uint32_t len;

        rig_init(&r);
        rig_start(&r);
        len = buffer_size(&r);
        EXPECT_EQ(len, 1536);
        EXPECT_EQ(raw(&r, &one, &len, 1), 1);
        EXPECT_EQ(rig_last(&r)->len, 1536 - HDR); /* the capacity counts the header once */
        EXPECT_EQ(rig_all_drops(&r, 0), 0);
        rig_end(&r);
}

/* T-RX-03, hostile M05 */
TEST(driver_rx, drops_what_is_shorter_than_an_ethernet_header)
{
        static const uint32_t lens[] = { 0, 1, HDR - 1, HDR, HDR + 13 };
        struct rig r;
        uint32_t len = HDR + 14;

        start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(lens); i++)
                EXPECT_EQ(raw(&r, &one, &lens[i], 1), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_BAD_LEN), ARRAY_SIZE(lens));
        EXPECT_EQ(r.received, 0);
        r.checks = false;
        EXPECT_EQ(raw(&r, &one, &len, 1), 1);
        EXPECT_EQ(r.received, 1);
        rig_end(&r);
}

/* hostile M05: what lies in the buffer from before is no header, so it takes no other buffer along */
TEST(driver_rx, believes_no_header_that_was_not_written)
{
        static const struct vw_net_hdr stale[] = { { .num_buffers = 0 }, { .num_buffers = 3 } };
        struct rig r;
        uint32_t len = HDR - 1;

        start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(stale); i++) {
                EXPECT(sd_receive_raw(&r.dev, 0, &stale[i], &len, 1));
                EXPECT(rig_arrive(&r, 500, (uint8_t)i));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 2);
                EXPECT_EQ(rig_drops(&r, 0, VW_DROP_BAD_LEN), i + 1);
                EXPECT_EQ(rig_last(&r)->len, 500);
        }
        EXPECT_EQ(rig_all_drops(&r, 0), ARRAY_SIZE(stale));
        rig_end(&r);
}

TEST(driver_rx, drops_packets_longer_than_any_frame)
{
        struct rig r;
        uint32_t lens[50];
        struct vw_net_hdr hdr = { .num_buffers = 50 };

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 50; i++)
                lens[i] = 1536;
        EXPECT_EQ(raw(&r, &hdr, lens, 50), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_TOO_LONG), 1);
        rig_end(&r);
}

/* ---- the number of buffers ---- */

/* T-RX-06 */
TEST(driver_rx, drops_several_buffers_without_mergeable_ones)
{
        struct rig r;
        struct vw_net_hdr two = { .num_buffers = 2 }, none = { 0 };
        uint32_t len = 100;

        rig_init(&r);
        r.dev.features &= ~F(mrg_rxbuf);
        rig_start(&r);
        EXPECT_EQ(raw(&r, &two, &len, 1), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_BAD_HDR), 1);
        EXPECT_EQ(raw(&r, &one, &len, 1), 1);
        EXPECT_EQ(raw(&r, &none, &len, 1), 1); /* what older devices leave there */
        EXPECT_EQ(r.received, 2);
        rig_end(&r);
}

/* T-RX-07, hostile M07 */
TEST(driver_rx, drops_a_packet_whose_continuation_is_missing)
{
        struct rig r;
        struct vw_net_hdr three = { .num_buffers = 3 }, many = { .num_buffers = UINT16_MAX }, zero = { 0 };
        uint32_t lens[2] = { 1536, 1536 }, len = 100;

        start(&r);
        r.checks = false;
        EXPECT_EQ(raw(&r, &three, lens, 2), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_MISSING_BUFFERS), 1);
        EXPECT_EQ(raw(&r, &many, lens, 1), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_MISSING_BUFFERS), 2);
        EXPECT_EQ(raw(&r, &zero, &len, 1), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_BAD_HDR), 1);
        EXPECT_EQ(r.received, 0);
        r.checks = true;
        EXPECT(rig_arrive(&r, 1000, 7)); /* later ones are whole */
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_last(&r)->bytes[0], 7);
        EXPECT_EQ(rig_all_drops(&r, 0), 3);
        rig_end(&r);
}

/* hostile M07: what is visible with the lie is taken as its packet's, what comes later is not */
TEST(driver_rx, never_mixes_packets)
{
        struct rig r;
        struct vw_net_hdr lie = { .num_buffers = 4 };
        uint32_t len = 1536;

        start(&r);
        EXPECT(sd_receive_raw(&r.dev, 0, &lie, &len, 1));
        EXPECT(rig_arrive(&r, 500, 1));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_MISSING_BUFFERS), 1);
        EXPECT_EQ(r.received, 0);
        EXPECT(rig_arrive(&r, 600, 2));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_last(&r)->len, 600);
        rig_end(&r);
}

TEST(driver_rx, merges_packets_across_batches_of_used_entries)
{
        struct rig r;

        start(&r);
        for (unsigned i = 0; i < 40; i++)
                EXPECT(rig_arrive(&r, 7000, (uint8_t)i)); /* 5 buffers each: some lie across the 64th */
        EXPECT_EQ(rig_poll(&r, 64, SEC), 40);
        EXPECT_EQ(r.received, 40);
        EXPECT_EQ(rig_count(&r, 0, VW_C_merged_packets), 40);
        EXPECT_EQ(rig_count(&r, 0, VW_C_packets), 40);
        EXPECT_EQ(rig_count(&r, 0, VW_C_bytes), 40 * 7000);
        EXPECT_EQ(rig_all_drops(&r, 0), 0);
        rig_end(&r);
}

/* ---- headers ---- */

/* T-RX-28, hostile M16 */
TEST(driver_rx, drops_headers_that_do_not_fit_the_frame)
{
        static const struct {
                struct vw_net_hdr hdr;
                enum vw_drop drop;
        } cases[] = {
                {{ .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 90, .csum_offset = 9, .num_buffers = 1 },
                 VW_DROP_BAD_CSUM                                                                                       },
                { { .flags = VW_HDR_F_NEEDS_CSUM,
                    .csum_start = 0xffff,
                    .csum_offset = 0xffff,
                    .num_buffers = 1 },
                 VW_DROP_BAD_CSUM                                                                                       },
                { { .flags = 1,
                    .gso_type = VW_GSO_TCPV4,
                    .csum_start = 34,
                    .csum_offset = 16,
                    .num_buffers = 1 },
                 VW_DROP_BAD_GSO                                                                                        },
                { { .flags = 1,
                    .gso_type = 0x7f,
                    .gso_size = 100,
                    .csum_start = 34,
                    .csum_offset = 16,
                    .num_buffers = 1 },
                 VW_DROP_BAD_GSO                                                                                        },
                { { .gso_type = VW_GSO_TCPV4, .gso_size = 100, .num_buffers = 1 },                       VW_DROP_BAD_GSO},
        };
        struct rig r;
        uint32_t len = HDR + 100;

        rig_init(&r);
        r.config.offloads = VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6;
        rig_start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t before = rig_drops(&r, 0, cases[i].drop);

                EXPECT_EQ(raw(&r, &cases[i].hdr, &len, 1), 1);
                EXPECT_EQ(rig_drops(&r, 0, cases[i].drop), before + 1);
        }
        EXPECT_EQ(r.received, 0);
        EXPECT_EQ(rig_all_drops(&r, 0), ARRAY_SIZE(cases));
        rig_end(&r);
}

/* hostile M16: hdr_len is no word to believe, NEEDS_CSUM wins over DATA_VALID */
TEST(driver_rx, clears_what_a_header_may_not_say)
{
        struct rig r;
        struct vw_net_hdr hdr = {
                .flags = 0xff, .hdr_len = 0xffff, .csum_start = 34, .csum_offset = 16, .num_buffers = 1
        };
        uint32_t len = HDR + 100;

        rig_init(&r);
        r.config.offloads = VW_OFFLOAD_CSUM;
        rig_start(&r);
        EXPECT_EQ(raw(&r, &hdr, &len, 1), 1);
        EXPECT_EQ(r.received, 1);
        EXPECT_EQ(rig_last(&r)->hdr.flags, VW_HDR_F_NEEDS_CSUM);
        EXPECT(rig_last(&r)->hdr.hdr_len <= 100);
        rig_end(&r);
}

TEST(driver_rx, takes_no_offload_that_was_not_negotiated)
{
        struct rig r;
        struct vw_net_hdr hdr = {
                .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16, .num_buffers = 1
        };
        uint32_t len = HDR + 100;

        rig_init(&r);
        rig_start(&r); /* offloads 0 */
        EXPECT_EQ(raw(&r, &hdr, &len, 1), 1);
        EXPECT_EQ(r.received, 0);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_NOT_NEGOTIATED), 1);
        rig_end(&r);
}

/* ---- buffers: size, truesize, holes ---- */

/* T-RX-10 */
TEST(driver_rx, the_last_buffer_of_a_fragment_takes_the_rest)
{
        struct rig r;
        const struct rx_slot *s;

        start(&r);
        s = rig_pair(&r)->rx.slots;
        EXPECT_EQ(s[0].buf.len, 1536);
        EXPECT_EQ(s[19].buf.len, 1536);
        EXPECT_EQ(s[20].buf.len, 2048);
        EXPECT_EQ(s[20].buf.truesize, 2048);
        EXPECT_EQ(s[21].buf.len, 1536);
        EXPECT_EQ(rig_count(&r, 0, VW_C_holes), 256 / 21 * 512);
        rig_end(&r);
}

/* T-RX-08, T-RX-09 */
TEST(driver_rx, truesize_is_exact_when_buffers_are_used_in_any_order)
{
        struct rig r;
        struct drv_rxq *q;
        uint64_t rng = 8;

        rig_init(&r);
        rig_start(&r);
        q = &rig_pair(&r)->rx;
        for (uint64_t n = 0; n < test_scale(20000, 1000000);) {
                struct sd_ring *ring = &r.dev.ring[0];
                unsigned k;

                sd_lock(&r.dev);
                ring->pool.used = 0;
                ring->n_held = 0;
                for (int got;
                     (got = vq_device_pop(&ring->vq, &ring->pool, ring->held + ring->n_held, 64)) > 0;)
                        ring->n_held += (unsigned)got;
                for (k = ring->n_held; k > 1; k--) { /* a random order */
                        unsigned other = rng_below(&rng, k);
                        struct vq_chain c = ring->held[k - 1];

                        ring->held[k - 1] = ring->held[other];
                        ring->held[other] = c;
                }
                for (k = 0; k < ring->n_held; k++) {
                        uint8_t bytes[HDR];

                        net_hdr_encode(&one, HDR, bytes);
                        memcpy(ring->held[k].iov[0].iov_base, bytes, HDR);
                        ring->held[k].written = HDR + 14 + rng_below(&rng, ring->held[k].len_in - HDR - 13);
                }
                vq_device_push(&ring->vq, ring->held, ring->n_held);
                vq_device_publish(&ring->vq);
                n += ring->n_held;
                ring->n_held = 0;
                sd_unlock(&r.dev);
                while (rig_poll(&r, 64, SEC) == 64) {
                }
        }
        EXPECT_EQ(rig_all_drops(&r, 0), 0);
        EXPECT_EQ(q->buf.returned, r.rx_truesize);
        EXPECT_EQ(rig_count(&r, 0, VW_C_truesize), r.rx_truesize);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(q->buf.taken, q->buf.returned); /* what was posted at the end was the difference */
        rig_end(&r);
}

/* T-RX-12 */
TEST(driver_rx, a_buffer_that_the_ring_does_not_take_is_as_if_never_cut)
{
        struct rig r;
        struct drv_rxq *q;
        struct rxbuf before;
        uint32_t free_pages;

        start(&r);
        q = &rig_pair(&r)->rx;
        before = q->buf;
        free_pages = q->slab.free_pages;
        q->target = 300; /* more than the ring has */
        for (uint64_t i = 0; i < test_scale(10000, 1000000); i++)
                drv_rx_refill(rig_pair(&r), 0);
        EXPECT_EQ(q->buf.pos, before.pos);
        EXPECT_EQ(q->buf.taken, before.taken);
        EXPECT_EQ(q->slab.free_pages, free_pages);
        EXPECT_EQ(q->posted, 256);
        q->target = 256;
        rig_end(&r);
}

/* T-RX-15 */
TEST(driver_rx, the_average_is_of_whole_packets)
{
        struct rig r;

        start(&r);
        for (unsigned i = 0; i < 2000; i++) {
                EXPECT(rig_arrive(&r, 9000, (uint8_t)i));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        }
        EXPECT(rig_count(&r, 0, VW_C_average_length) >= 8999);
        EXPECT(rig_count(&r, 0, VW_C_average_length) <= 9001);
        EXPECT_EQ(buffer_size(&r), 4096);
        rig_end(&r);
}

/* T-RX-17 */
TEST(driver_rx, small_rings_hold_one_longest_packet_or_refuse_guest_gso)
{
        for (unsigned size = 16; size <= 32; size *= 2) {
                struct vw_driver_info info;
                struct rig r;

                rig_init(&r);
                r.checks = true;
                r.config.queue_size = size;
                r.config.offloads = VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6 | VW_OFFLOAD_ECN;
                rig_start(&r);
                vw_driver_info(r.drv, &info);
                if (size == 16) {
                        EXPECT(!(info.features & DRV_GUEST_GSO));
                        EXPECT(info.features & F(guest_csum));
                } else {
                        EXPECT(info.features & F(guest_tso4));
                        EXPECT(buffer_size(&r) >= 2049);
                        EXPECT(rig_arrive(&r, VW_FRAME_MAX, 3));
                        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                        EXPECT_EQ(rig_last(&r)->len, VW_FRAME_MAX);
                }
                rig_end(&r);
        }
}

/* T-RX-18 */
TEST(driver_rx, single_pages_do_where_no_fragment_is_free)
{
        struct rig r;
        const char *why;

        rig_init(&r);
        r.checks = true;
        r.config.ops = &r.ops;
        r.config.ctx = &r;
        EXPECT_EQ(vw_driver_new(&r.config, &r.drv, &why), 0);
        rig_pair(&r)->rx.slab.single_pages = true;
        rig_start(&r);
        for (unsigned i = 0; i < 3000; i++) {
                EXPECT(rig_arrive(&r, 4000, (uint8_t)i));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        }
        for (unsigned i = 0; i < 256; i++) {
                const struct rx_buffer *b = &rig_pair(&r)->rx.slots[i].buf;

                EXPECT_EQ((uintptr_t)b->ptr / RXBUF_PAGE, ((uintptr_t)b->ptr + b->len - 1) / RXBUF_PAGE);
        }
        rig_end(&r);
}

/* T-RX-23 */
TEST(driver_rx, adjacent_buffers_are_one_piece)
{
        struct rig r;

        start(&r);
        EXPECT(rig_arrive(&r, 4 * 1536 - HDR, 9));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_last(&r)->n_iov, 1);
        EXPECT_EQ(rig_last(&r)->truesize, 4 * 1536);
        EXPECT_EQ(rig_count(&r, 0, VW_C_coalesced_frags), 3);
        rig_end(&r);
}

TEST(driver_rx, mode_mtu_and_page_fix_the_size)
{
        static const struct {
                enum vw_rx_buffers mode;
                unsigned size;
        } cases[] = {
                {VW_BUFFERS_MTU,   1536},
                { VW_BUFFERS_PAGE, 4096},
                { VW_BUFFERS_AUTO, 1536},
        };
        struct rig r;

        start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct vw_setting s = { .queue = 0, .key = VW_KEY_RX_BUFFERS, .value = cases[i].mode };
                const char *why = "";

                EXPECT_EQ(vw_driver_set(r.drv, &s, 1, &why), 0);
                EXPECT_EQ(buffer_size(&r), cases[i].size);
                for (unsigned k = 0; k < 300; k++) {
                        EXPECT(rig_arrive(&r, 60 + k, (uint8_t)k));
                        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                }
        }
        EXPECT_EQ(r.received, 900);
        rig_end(&r);
}

/* ---- layouts without mergeable buffers ---- */

TEST(driver_rx, small_buffers_hold_a_frame_each)
{
        struct rig r;

        rig_init(&r);
        r.checks = true;
        r.dev.features &= ~F(mrg_rxbuf);
        rig_start(&r);
        EXPECT_EQ(buffer_size(&r), 1536);
        for (unsigned i = 0; i < 1000; i++) {
                EXPECT(rig_arrive(&r, 14 + i, (uint8_t)i));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        }
        EXPECT(!rig_arrive(&r, 1525, 0));
        EXPECT_EQ(r.received, 1000);
        rig_end(&r);
}

static void big(bool indirect, unsigned posted)
{
        struct rig r;

        rig_init(&r);
        r.checks = true;
        r.config.offloads = VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4;
        r.dev.features &= ~F(mrg_rxbuf);
        if (!indirect)
                r.dev.features &= ~F(indirect_desc);
        rig_start(&r);
        EXPECT_EQ(rig_pair(&r)->rx.posted, posted);
        for (unsigned i = 0; i < 300; i++) {
                EXPECT(rig_arrive(&r, i % 2 ? 60 : VW_FRAME_MAX, (uint8_t)i));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                EXPECT_EQ(rig_last(&r)->truesize, i % 2 ? 4096 : 17 * 4096); /* empty pages went back */
                if (i % 2 == 0)
                        EXPECT(rig_last(&r)->n_iov < 17);
        }
        EXPECT_EQ(r.received, 300);
        rig_end(&r);
}

TEST(driver_rx, chains_of_pages_hold_the_longest_packet_and_give_back_what_is_empty)
{
        big(true, 256);
        big(false, 15);
}

/* ---- refill ---- */

/* T-RX-22 */
TEST(driver_rx, refills_when_more_than_half_a_budget_is_free_with_one_kick)
{
        struct rig r;

        start(&r);
        sd_kicks(&r.dev, 0);
        for (unsigned i = 0; i < 32; i++)
                EXPECT(rig_arrive(&r, 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 32);
        EXPECT_EQ(sd_offered(&r.dev, 0), 224);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(sd_offered(&r.dev, 0), 256);
        EXPECT_EQ(rig_count(&r, 0, VW_C_refills), 2);
        EXPECT(sd_kicks(&r.dev, 0) <= 1);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        EXPECT_EQ(rig_count(&r, 0, VW_C_refills), 2);
        rig_end(&r);
}

TEST(driver_rx, short_memory_asks_for_another_poll)
{
        struct rig r;
        struct rxbuf_config c = { .mode = VW_BUFFERS_PAGE, .hdr_len = HDR };
        struct rxbuf eater;
        struct rx_buffer eaten[8192];
        struct drv_rxq *q;
        unsigned n = 0;

        rig_init(&r);
        r.keeps = true;
        rig_start(&r);
        q = &rig_pair(&r)->rx;
        EXPECT_EQ(rxbuf_init(&eater, &c, &q->slab), 0);
        while (n < ARRAY_SIZE(eaten) && rxbuf_get(&eater, rxbuf_exactly(RXBUF_PAGE), &eaten[n]) == 0)
                n++;
        while (n < ARRAY_SIZE(eaten) && rxbuf_get(&q->buf, rxbuf_lengths(&q->buf), &eaten[n]) == 0)
                n++;
        for (unsigned i = 0; i < 100; i++)
                EXPECT(rig_arrive(&r, 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 64);
        EXPECT(rig_count(&r, 0, VW_C_refill_failures) > 0);
        EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), SEC + NSEC_PER_MSEC);
        while (n-- > 0)
                rxbuf_put(&q->buf, &eaten[n]);
        rxbuf_done(&eater);
        EXPECT_EQ(rig_poll(&r, 64, SEC + NSEC_PER_MSEC), 36);
        EXPECT_EQ(q->posted, 256);
        EXPECT_EQ(q->refill_at, NEVER);
        sd_consume(&r.dev, 0);
        rig_poll(&r, 64, 2 * SEC);
        rig_end(&r);
}

/* ---- what the program does not take ---- */

TEST(driver_rx, offers_again_what_was_not_taken_before_anything_newer)
{
        struct rig r;

        start(&r);
        r.takes = 3;
        for (unsigned i = 0; i < 10; i++)
                EXPECT(rig_arrive(&r, 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 3);
        EXPECT(!vw_driver_arm(r.drv, 0)); /* the ring may wait: they come first */
        vw_driver_woken(r.drv, 0);
        EXPECT(rig_arrive(&r, 100, 10));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 3);
        r.takes = 0;
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        r.takes = UINT32_MAX;
        EXPECT_EQ(rig_poll(&r, 64, SEC), 5);
        for (unsigned i = 0; i < 11; i++)
                EXPECT_EQ(r.pkts[i].bytes[0], i);
        rig_end(&r);
}

TEST(driver_rx, what_was_not_taken_is_counted_when_the_device_leaves)
{
        struct rig r;

        start(&r);
        r.takes = 3;
        for (unsigned i = 0; i < 10; i++)
                EXPECT(rig_arrive(&r, 2000, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 3);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_DISABLED), 7);
        rig_end(&r);
}

TEST(driver_rx, kept_packets_outlive_the_connection)
{
        struct rig r;

        start(&r);
        r.keeps = true;
        for (unsigned i = 0; i < 10; i++)
                EXPECT(rig_arrive(&r, 3000 % 1500 + 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 10);
        EXPECT_EQ(r.kept, 10);
        vw_driver_disconnect(r.drv); /* the packets that were sent come back, and are put */
        EXPECT_EQ(r.kept, 0);
        EXPECT_EQ(r.done, 10);
        rig_start(&r);
        rig_end(&r);
}

/* ---- polls ---- */

/* T-RX-27 */
TEST(driver_rx, a_poll_that_used_its_budget_is_polled_again)
{
        struct rig r;

        start(&r);
        for (unsigned i = 0; i < 64; i++)
                EXPECT(rig_arrive(&r, 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 64);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(rig_count(&r, 0, VW_C_polls), 2);
        EXPECT_EQ(rig_count(&r, 0, VW_C_poll_rearms), 1);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(sd_call(&r.dev, 0)); /* the interrupt is on */
        rig_end(&r);
}

/* T-RX-21 */
TEST(driver_rx, connections_come_and_go_while_memory_is_short)
{
        struct rig r;
        struct rxbuf_config c = { .mode = VW_BUFFERS_PAGE, .hdr_len = HDR };
        struct rxbuf eater;
        struct rx_buffer *eaten = calloc(8192, sizeof(*eaten));
        unsigned n = 0;
        uint64_t begin;

        start(&r);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(rxbuf_init(&eater, &c, &rig_pair(&r)->rx.slab), 0);
        while (n < 8192 && rxbuf_get(&eater, rxbuf_exactly(RXBUF_PAGE), &eaten[n]) == 0)
                n++;
        rxbuf_put(&eater, &eaten[--n]);
        rxbuf_put(&eater, &eaten[--n]);
        for (uint64_t i = 0; i < test_scale(50, 10000); i++) {
                rig_start(&r);
                EXPECT(rig_count(&r, 0, VW_C_refill_failures) > i);
                EXPECT(rig_arrive(&r, 60, 0));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                vw_driver_disconnect(r.drv);
        }
        while (n-- > 0)
                rxbuf_put(&eater, &eaten[n]);
        rxbuf_done(&eater);
        free(eaten);
        begin = clock_now();
        rig_end(&r);
        EXPECT(clock_now() - begin < SEC);
}
