/* The driver's transmit side against a scripted device. */
#include <errno.h>
#include <string.h>

#include "drv_rig.h"
#include "net/hdr.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static void start_without_indirect(struct rig *r)
{
        rig_init(r);
        r->dev.features &= ~F(indirect_desc);
        rig_start(r);
}

/* ---- headers and memory ---- */

/* T-TX-25, T-TX-26 */
TEST(driver_tx, header_asks_for_what_is_allowed_and_nothing_else)
{
        struct rig r;
        struct sd_frame f;
        struct iovec iov;
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        uint8_t want[12] = { 1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0, 0, 0 };

        rig_init(&r);
        rig_start(&r);
        iov = (struct iovec){ vw_driver_buf_get(r.drv, 0), 3000 };
        pkt.cookie = iov.iov_base;
        pkt.hdr = (struct vw_net_hdr){
                .flags = 0xff,
                .gso_type = VW_GSO_TCPV4,
                .hdr_len = 54,
                .gso_size = 1460,
                .csum_start = 34,
                .csum_offset = 16,
                .num_buffers = 9,
        };
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 1);
        EXPECT_EQ(f.len, 3000);
        EXPECT_MEM(f.hdr, want, 12);
        rig_end(&r);
}

/* T-TX-26 */
TEST(driver_tx, header_has_ten_bytes_on_a_legacy_device)
{
        struct rig r;
        struct sd_frame f;

        rig_init(&r);
        r.dev.features &= ~(F(version_1) | F(mrg_rxbuf));
        rig_start(&r);
        EXPECT_EQ(rig_pair(&r)->hdr_len, 10);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 1);
        EXPECT_EQ(f.len, 60);
        EXPECT(rig_arrive(&r, 77, 1));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_last(&r)->len, 77);
        rig_end(&r);
}

TEST(driver_tx, a_packet_in_a_transmit_buffer_takes_one_descriptor)
{
        struct rig r;

        start_without_indirect(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(vq_driver_outstanding(&rig_pair(&r)->tx.vq), 1);
        rig_end(&r);
}

/* Sends the next transmit buffer, which puts it back, with a header that asks for a checksum or for nothing, and looks at what the device
 * sees.  Returns the buffer. */
static uint8_t *send_asking(struct rig *r, bool csum, const uint8_t want[12])
{
        struct iovec iov = { vw_driver_buf_get(r->drv, 0), 60 };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        struct sd_frame f;

        if (csum)
                pkt.hdr = (struct vw_net_hdr){ .flags = VW_HDR_F_NEEDS_CSUM,
                                               .csum_start = 34,
                                               .csum_offset = 6 };
        EXPECT_EQ(vw_driver_xmit(r->drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(sd_take(&r->dev, 0, 1, &f), 1);
        EXPECT_MEM(f.hdr, want, 12);
        sd_give_back(&r->dev, 1, 1, 0);
        rig_poll(r, 64, SEC);
        return iov.iov_base;
}

/* A device that writes into a header sees whether the driver does. */
TEST(driver_tx, a_header_that_asks_for_nothing_is_not_written_again)
{
        static const uint8_t none[12] = { 0 }, csum[12] = { 1, 0, 0, 0, 0, 0, 34, 0, 6 },
                             ours[12] = { 0, 0, 7 };
        struct rig r;
        uint8_t *buf;

        rig_init(&r);
        rig_start(&r);
        buf = send_asking(&r, false, none);
        memcpy(buf - 12, ours, 12);
        EXPECT(send_asking(&r, false, ours) == buf);
        EXPECT(send_asking(&r, true, csum) == buf);
        EXPECT(send_asking(&r, true, csum) == buf);
        EXPECT(send_asking(&r, false, none) == buf);
        memcpy(buf - 12, ours, 12);
        vw_driver_disconnect(r.drv);
        rig_start(&r);
        EXPECT(send_asking(&r, false, none) == buf); /* the next device begins with headers of our own */
        rig_end(&r);
}

TEST(driver_tx, transmit_buffers_come_several_at_once)
{
        struct rig r;
        void *bufs[5];

        rig_init(&r);
        r.config.tx_bufs = 4;
        rig_start(&r);
        EXPECT_EQ(vw_driver_bufs_get(r.drv, 0, bufs, 3), 3);
        EXPECT_EQ(vw_driver_bufs_get(r.drv, 0, bufs + 3, 2), 1);
        EXPECT_EQ(vw_driver_bufs_get(r.drv, 0, bufs + 4, 1), 0);
        for (unsigned i = 0; i < 4; i++)
                for (unsigned k = 0; k < i; k++)
                        EXPECT(bufs[i] != bufs[k]);
        for (unsigned i = 0; i < 4; i++)
                vw_driver_buf_put(r.drv, 0, bufs[i]);
        EXPECT_EQ(vw_driver_bufs_get(r.drv, 0, bufs, 5), 4);
        rig_end(&r);
}

TEST(driver_tx, gathers_pieces_from_anywhere_in_the_drivers_memory)
{
        struct rig r;
        struct sd_frame f;
        struct iovec iov[VW_TX_FRAGS_MAX];
        struct vw_tx_pkt pkt = { .iov = iov, .n_iov = VW_TX_FRAGS_MAX };
        uint8_t want[VW_TX_FRAGS_MAX * 3];
        uint8_t *memory;

        rig_init(&r);
        r.config.tx_memory = 4096;
        rig_start(&r);
        memory = vw_driver_alloc(r.drv, 0, 4000, 64);
        EXPECT(memory);
        EXPECT_EQ(vw_driver_alloc(r.drv, 0, 4000, 64), NULL);
        for (unsigned i = 0; i < VW_TX_FRAGS_MAX; i++) {
                iov[i] = (struct iovec){ memory + 200 * i, i == 5 ? 0 : 3 };
                memset(iov[i].iov_base, (int)i, 3);
                memset(want + 3 * i, (int)i, 3);
        }
        memmove(want + 15, want + 18, sizeof(want) - 18);
        pkt.cookie = vw_driver_buf_get(r.drv, 0);
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 1);
        EXPECT_EQ(f.len, 48);
        EXPECT_MEM(f.bytes, want, 48);
        rig_end(&r);
}

TEST(driver_tx, refuses_what_the_device_cannot_see)
{
        struct rig r;
        uint8_t outside[64];
        struct iovec iov = { outside, 64 };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1, .cookie = &r };

        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        iov.iov_base = r.drv->arena.va + r.drv->arena.size - 63;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        iov.iov_len = SIZE_MAX;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        pkt.n_iov = VW_TX_FRAGS_MAX + 1;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        pkt.n_iov = 0;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        rig_end(&r);
}

TEST(driver_tx, counts_what_the_features_forbid_and_is_done_with_it)
{
        static const struct {
                uint32_t len;
                struct vw_net_hdr hdr;
                enum vw_drop drop;
        } cases[] = {
                {13,    { 0 },                                                                 VW_DROP_SHORT  },
                { 1515, { 0 },                                                                 VW_DROP_MTU    },
                { 60,
                 { .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 50, .csum_offset = 9 },
                 VW_DROP_BAD_CSUM                                                                             },
                { 3000,
                 { .flags = VW_HDR_F_NEEDS_CSUM, .gso_type = VW_GSO_TCPV6, .gso_size = 1440 },
                 VW_DROP_NOT_NEGOTIATED                                                                       },
                { 3000,
                 { .flags = VW_HDR_F_NEEDS_CSUM, .gso_type = VW_GSO_UDP, .gso_size = 1440 },
                 VW_DROP_BAD_GSO                                                                              },
                { 3000,
                 { .flags = VW_HDR_F_NEEDS_CSUM, .gso_type = 0x7f, .gso_size = 1440 },
                 VW_DROP_BAD_GSO                                                                              },
                { 3000, { .flags = VW_HDR_F_NEEDS_CSUM, .gso_type = VW_GSO_TCPV4 },            VW_DROP_BAD_GSO},
                { 600,  { .gso_type = VW_GSO_TCPV4, .gso_size = 100 },                         VW_DROP_BAD_GSO},
        };
        struct rig r;

        rig_init(&r);
        r.dev.features &= ~F(host_tso6);
        rig_start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct iovec iov = { vw_driver_buf_get(r.drv, 0), cases[i].len };
                struct vw_tx_pkt pkt = {
                        .hdr = cases[i].hdr, .iov = &iov, .n_iov = 1, .cookie = iov.iov_base
                };
                uint64_t before = rig_drops(&r, 1, cases[i].drop);

                memset(iov.iov_base, 0, 64);
                EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
                EXPECT_EQ(rig_drops(&r, 1, cases[i].drop), before + 1);
                EXPECT_EQ(r.done, i + 1);
        }
        EXPECT_EQ(sd_take(&r.dev, 0, 64, NULL), 0);
        rig_end(&r);
}

TEST(driver_tx, a_vlan_tag_does_not_count_against_the_mtu)
{
        struct rig r;
        struct iovec iov;
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };

        rig_init(&r);
        rig_start(&r);
        iov = (struct iovec){ vw_driver_buf_get(r.drv, 0), 1518 };
        memset(iov.iov_base, 0, 64);
        ((uint8_t *)iov.iov_base)[12] = 0x81;
        pkt.cookie = iov.iov_base;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(rig_all_drops(&r, 1), 0);
        EXPECT_EQ(sd_take(&r.dev, 0, 64, NULL), 1);
        rig_end(&r);
}

/* ---- stop and wake ---- */

/* T-TX-05 */
TEST(driver_tx, stops_below_nineteen_descriptors_and_wakes_at_nineteen)
{
        struct rig r;
        unsigned n = 0;

        start_without_indirect(&r);
        while (rig_send_pkt(&r, 60, true, NULL) == 1)
                n++;
        EXPECT_EQ(n, 256 - 18);
        EXPECT_EQ(vq_driver_free(&rig_pair(&r)->tx.vq), 18);
        EXPECT(!vw_driver_tx_ready(r.drv, 0));
        rig_poll(&r, 64, SEC);
        EXPECT(!vw_driver_tx_ready(r.drv, 0));
        EXPECT_EQ(r.wakes, 0);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, NULL), 1);
        sd_give_back(&r.dev, 1, 1, 0);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.wakes, 1);
        EXPECT(vw_driver_tx_ready(r.drv, 0));
        EXPECT_EQ(rig_count(&r, 1, VW_C_stops), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_wakes), 1);
        rig_end(&r);
}

/* T-TX-02 */
TEST(driver_tx, a_full_ring_of_more_is_kicked_and_restarts_with_one_interrupt)
{
        struct rig r;
        unsigned n = 0;

        rig_init(&r);
        rig_start(&r);
        sd_kicks(&r.dev, 1);
        while (rig_send_pkt(&r, 60, true, NULL) == 1)
                n++;
        EXPECT_EQ(n, 256);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 1);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_consume(&r.dev, 0), 256);
        EXPECT(sd_call(&r.dev, 1));
        EXPECT(vw_driver_woken(r.drv, 0) & VW_WAIT_QUEUE);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 256);
        EXPECT_EQ(r.wakes, 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_interrupts), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_watchdogs), 0);
        rig_end(&r);
}

TEST(driver_tx, small_rings_carry_traffic)
{
        for (unsigned size = 2; size <= 16; size *= 2) {
                for (unsigned indirect = 0; indirect < 2; indirect++) {
                        struct rig r;

                        rig_init(&r);
                        r.config.queue_size = size;
                        if (!indirect)
                                r.dev.features &= ~F(indirect_desc);
                        rig_start(&r);
                        for (unsigned i = 0; i < 1000; i++) {
                                while (rig_send(&r, 60) == 1) {
                                }
                                EXPECT(sd_consume(&r.dev, 0) > 0);
                                rig_poll(&r, 64, SEC);
                        }
                        EXPECT(r.sent >= 1000 && r.sent == r.done);
                        rig_end(&r);
                }
        }
}

/* T-TX-18 */
TEST(driver_tx, asks_for_the_interrupt_at_three_quarters)
{
        struct rig r;
        struct vq_state s;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 10; i++)
                rig_send(&r, 60);
        sd_consume(&r.dev, 0);
        rig_poll(&r, 64, SEC);
        for (unsigned i = 0; i < 100; i++)
                rig_send(&r, 60);
        EXPECT(!vw_driver_arm(r.drv, 0));
        vq_driver_state(&rig_pair(&r)->tx.vq, &s);
        EXPECT_EQ(s.last_used, 10);
        EXPECT_EQ(s.event_ours, 10 + 75);
        rig_end(&r);
}

TEST(driver_tx, a_device_that_completes_nothing_is_not_polled_but_waited_for)
{
        static const enum vw_tx_mode modes[] = { VW_TX_NAPI, VW_TX_ORPHAN };

        for (unsigned m = 0; m < 2; m++) {
                struct rig r;
                uint64_t now = SEC, delay = modes[m] == VW_TX_NAPI ? NSEC_PER_MSEC : 10 * NSEC_PER_MSEC;

                rig_init(&r);
                r.config.tx_lazy_us = 1000;
                r.config.tx_mode = modes[m];
                rig_start(&r);
                rig_poll(&r, 64, now);
                EXPECT_EQ(rig_send(&r, 60), 1);
                rig_poll(&r, 64, now);
                EXPECT(!drv_napi_arm(rig_pair(&r), now));
                EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), now + delay);
                rig_poll(&r, 64, now += delay);
                EXPECT(!drv_napi_arm(rig_pair(&r), now));
                EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), SEC + 5 * SEC); /* the watchdog's */
                EXPECT_EQ(sd_consume(&r.dev, 0), 1);
                EXPECT(sd_call(&r.dev, 1)); /* the interrupt that was not asked for at first */
                vw_driver_woken(r.drv, 0);
                rig_poll(&r, 64, now);
                EXPECT_EQ(r.done, 1);
                EXPECT_EQ(rig_send(&r, 60), 1); /* and all is as before */
                EXPECT(!drv_napi_arm(rig_pair(&r), now));
                EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), now + delay);
                rig_end(&r);
        }
}

TEST(driver_tx, eager_interrupts_come_with_the_next_completion)
{
        static const struct vw_setting lazy = { -1, VW_KEY_TX_INTERRUPTS, 0 };
        struct rig r;
        const char *why;
        int64_t v;

        rig_init(&r);
        r.config.tx_lazy_us = 1000;
        r.config.tx_eager = true;
        rig_start(&r);
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = 0; i < 8; i++)
                        EXPECT_EQ(rig_send(&r, 60), 1);
                rig_poll(&r, 64, SEC);
                EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
                EXPECT_EQ(sd_take(&r.dev, 0, 1, NULL), 1);
                sd_give_back(&r.dev, 1, 1, 0);
                EXPECT(sd_call(&r.dev, 1)); /* one of eight */
                vw_driver_woken(r.drv, 0);
                rig_poll(&r, 64, SEC);
                EXPECT_EQ(r.done, 8 * round + 1);
                EXPECT_EQ(sd_consume(&r.dev, 0), 7);
                rig_poll(&r, 64, SEC);
                EXPECT_EQ(r.done, 8 * round + 8);
        }
        EXPECT_EQ(vw_driver_set(r.drv, &lazy, 1, &why), 0);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_INTERRUPTS, &v), 0);
        EXPECT_EQ(v, 0);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_poll(&r, 64, SEC);
        EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
        EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), SEC + NSEC_PER_MSEC);
        rig_end(&r);
}

TEST(driver_tx, completions_that_nobody_waits_for_cost_no_interrupt)
{
        struct rig r;
        struct vw_flow *f;

        rig_init(&r);
        r.config.tx_lazy_us = 1000;
        r.dev.features &= ~F(event_idx);
        rig_start(&r);
        f = vw_flow_open(r.drv, 0, 0, NULL);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        drv_claim(rig_pair(&r));
        EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
        EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), SEC + NSEC_PER_MSEC);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(!sd_call(&r.dev, 1));
        vw_driver_woken(r.drv, 0);
        rig_poll(&r, 64, SEC + NSEC_PER_MSEC);
        EXPECT_EQ(r.done, 1);

        EXPECT_EQ(rig_send_pkt(&r, 60, false, f), 1); /* a flow waits */
        EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(sd_call(&r.dev, 1));
        vw_driver_woken(r.drv, 0);
        rig_poll(&r, 64, SEC);
        for (unsigned i = 0; i < 129; i++) /* more than half a ring: so does the queue, soon */
                EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
        EXPECT_EQ(sd_consume(&r.dev, 0), 129);
        EXPECT(sd_call(&r.dev, 1));
        vw_driver_woken(r.drv, 0);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, r.sent);
        vw_flow_close(f);
        rig_end(&r);
}

/* ---- kicks ---- */

/* T-TX-22 */
TEST(driver_tx, kicks_once_a_burst)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        sd_kicks(&r.dev, 1);
        for (unsigned i = 0; i < 64; i++)
                EXPECT_EQ(rig_send_pkt(&r, 60, i < 63, NULL), 1);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_kicks), 1);
        rig_end(&r);
}

/* T-TX-22, T-BQL-06 */
TEST(driver_tx, kicks_when_the_byte_limit_stops_the_queue)
{
        struct rig r;
        unsigned i;

        rig_init(&r);
        r.config.bql = true;
        rig_start(&r);
        sd_kicks(&r.dev, 1);
        rig_pair(&r)->tx.bql.limit = rig_pair(&r)->tx.bql.allowed = 19 * 60; /* reached by the 20th packet */
        for (i = 0; i < 64 && rig_send_pkt(&r, 60, true, NULL) == 1; i++) {
        }
        EXPECT_EQ(i, 20);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 20);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.wakes, 1);
        rig_pair(&r)->tx.bql.allowed = UINT32_MAX;
        for (; i < 64; i++)
                EXPECT_EQ(rig_send_pkt(&r, 60, i < 63, NULL), 1);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_kicks), 2);
        rig_end(&r);
}

TEST(driver_tx, kicks_each_packet_when_told_to)
{
        struct rig r;

        rig_init(&r);
        r.dev.features &= ~F(event_idx); /* whose index would hold the later kicks back */
        r.config.kick = VW_KICK_EACH;
        rig_start(&r);
        sd_kicks(&r.dev, 1);
        for (unsigned i = 0; i < 10; i++)
                EXPECT_EQ(rig_send_pkt(&r, 60, true, NULL), 1);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 10);
        rig_end(&r);
}

TEST(driver_tx, a_forgotten_kick_goes_out_before_the_sleep)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        sd_kicks(&r.dev, 1);
        EXPECT_EQ(rig_send_pkt(&r, 60, true, NULL), 1);
        EXPECT_EQ(sd_kicks(&r.dev, 1), 0);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_kicks(&r.dev, 1), 1);
        rig_end(&r);
}

/* ---- completion ---- */

/* T-TX-06 */
TEST(driver_tx, a_poll_reaps_all_completions_whatever_its_budget)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 256; i++)
                EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 256);
        EXPECT_EQ(rig_poll(&r, 1, SEC), 0);
        EXPECT_EQ(r.done, 256);
        EXPECT_EQ(rig_count(&r, 1, VW_C_packets), 256);
        EXPECT_EQ(rig_count(&r, 1, VW_C_bytes), 256 * 60);
        rig_end(&r);
}

/* T-TX-07 */
TEST(driver_tx, a_poll_without_budget_reaps_and_receives_nothing)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 0, SEC), 0);
        EXPECT_EQ(r.done, 1);
        EXPECT_EQ(r.received, 0);
        EXPECT(vw_driver_arm(r.drv, 0)); /* not complete: there is work */
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        rig_end(&r);
}

/* T-TX-08 */
TEST(driver_tx, is_reaped_before_rx_so_that_the_refill_has_the_memory)
{
        struct rig r;
        struct drv_rxq *q;
        struct rxbuf_config c = { .mode = VW_BUFFERS_PAGE, .hdr_len = 12 };
        struct rxbuf eater = { 0 };
        struct rx_buffer eaten[8192];
        unsigned n = 0;

        rig_init(&r);
        r.config.queue_size = 8;
        r.config.rx_buffers = VW_BUFFERS_PAGE;
        r.keeps = true;
        rig_start(&r);
        q = &rig_pair(&r)->rx;
        EXPECT_EQ(q->posted, 8);
        EXPECT_EQ(rxbuf_init(&eater, &c, &q->slab), 0);
        while (n < ARRAY_SIZE(eaten) && rxbuf_get(&eater, rxbuf_exactly(RXBUF_PAGE), &eaten[n]) == 0)
                n++;
        while (n < ARRAY_SIZE(eaten) && rxbuf_get(&q->buf, rxbuf_lengths(&q->buf), &eaten[n]) == 0)
                n++;
        for (unsigned i = 0; i < 8; i++)
                EXPECT(rig_arrive(&r, 100, (uint8_t)i));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 8);
        EXPECT_EQ(q->posted, 0);
        EXPECT(rig_count(&r, 0, VW_C_refill_failures) > 0);
        EXPECT_EQ(sd_consume(&r.dev, 0), 8);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        EXPECT_EQ(r.done, 8);
        EXPECT_EQ(q->posted, 8);
        while (n-- > 0)
                rxbuf_put(&q->buf, &eaten[n]);
        rxbuf_done(&eater);
        rig_end(&r);
}

/* T-TX-15, hostile M06 */
TEST(driver_tx, believes_no_used_length)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 3; i++) {
                EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT_EQ(sd_take(&r.dev, 0, 1, NULL), 1);
                sd_give_back(&r.dev, 1, 1, i == 0 ? 72 : i == 1 ? UINT32_MAX : 0);
                rig_poll(&r, 64, SEC);
        }
        EXPECT_EQ(r.done, 3);
        EXPECT_EQ(rig_pair(&r)->tx.vq.broken, NULL);
        EXPECT_EQ(rig_all_drops(&r, 1), 0);
        rig_end(&r);
}

TEST(driver_tx, the_program_may_send_from_within_tx_done)
{
        struct rig r;

        rig_init(&r);
        r.config.queue_size = 16;
        r.config.tx_mode = VW_TX_ORPHAN;
        r.config.tx_bufs = 64;
        r.resends = true;
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        for (unsigned i = 0; i < 100; i++) {
                sd_consume(&r.dev, 0);
                rig_poll(&r, 64, SEC + i * 10 * NSEC_PER_MSEC);
                if (!r.drv->pairs[0].tx.inflight)
                        rig_send(&r, 60);
        }
        r.resends = false;
        EXPECT(r.sent >= 100);
        EXPECT_EQ(r.sent, r.done);
        rig_end(&r);
}

/* ---- the watchdog ---- */

/* hostile M12 */
TEST(driver_tx, watchdog_tells_senders_of_a_device_that_completes_nothing)
{
        struct rig r;

        rig_init(&r);
        r.config.watchdog_ms = 5000;
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_poll(&r, 64, 10 * SEC);
        EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), 15 * SEC);
        rig_poll(&r, 64, 15 * SEC - 1);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_poll(&r, 64, 15 * SEC);
        EXPECT_EQ(rig_send(&r, 60), -ETIMEDOUT);
        EXPECT(!vw_driver_tx_ready(r.drv, 0));
        EXPECT_EQ(rig_count(&r, 1, VW_C_watchdogs), 1);
        EXPECT_EQ(r.done, 0); /* the buffers are still the device's */
        rig_poll(&r, 64, 100 * SEC);
        EXPECT_EQ(rig_count(&r, 1, VW_C_watchdogs), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 2);
        rig_poll(&r, 64, 101 * SEC);
        EXPECT_EQ(r.done, 2);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_end(&r);
}

TEST(driver_tx, watchdog_counts_from_the_first_packet_of_a_busy_period)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1); /* after an hour of silence */
        drv_claim(rig_pair(&r));
        EXPECT(!drv_napi_arm(rig_pair(&r), 3600 * SEC));
        drv_napi_disarm(rig_pair(&r));
        EXPECT_EQ(drv_napi_deadline(rig_pair(&r)), 3605 * SEC);
        rig_poll(&r, 64, 3601 * SEC);
        EXPECT_EQ(rig_count(&r, 1, VW_C_watchdogs), 0);
        rig_end(&r);
}

/* ---- the end of a connection ---- */

/* T-BQL-04 */
TEST(driver_tx, late_completions_do_not_follow_into_the_next_connection)
{
        struct rig r;

        rig_init(&r);
        r.config.bql = true;
        rig_start(&r);
        rig_pair(&r)->tx.bql.allowed = UINT32_MAX;
        for (unsigned i = 0; i < 50; i++)
                EXPECT_EQ(rig_send(&r, 60), 1);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(r.done, 50);
        EXPECT_EQ(rig_drops(&r, 1, VW_DROP_DISABLED), 50);
        rig_start(&r);
        EXPECT_EQ(bql_inflight(&rig_pair(&r)->tx.bql), 0);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 51);
        EXPECT_EQ(bql_inflight(&rig_pair(&r)->tx.bql), 0);
        rig_end(&r);
}

/* T-TX-12, T-MQ-04 */
TEST(driver_tx, every_packet_of_every_pair_comes_back_when_the_device_leaves)
{
        struct rig r;

        rig_init(&r);
        r.config.pairs = SD_PAIRS;
        rig_start(&r);
        for (r.pair = 0; r.pair < SD_PAIRS; r.pair++)
                for (unsigned i = 0; i < 100; i++)
                        EXPECT_EQ(rig_send(&r, 60), 1);
        r.pair = 0;
        sd_leave(&r.dev);
        EXPECT_EQ(vw_driver_dispatch(r.drv), -ENOTCONN);
        EXPECT_EQ(vw_driver_dispatch(r.drv), 0);
        EXPECT_EQ(r.done, r.sent);
        EXPECT_EQ(rig_send(&r, 60), -ENETDOWN);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        rig_end(&r);
}
