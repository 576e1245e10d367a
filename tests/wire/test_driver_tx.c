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
                { 3000, { .gso_type = VW_GSO_TCPV4, .gso_size = 1440 },                        VW_DROP_BAD_GSO},
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

/* ---- orphan mode ---- */

/* T-TX-10 */
TEST(driver_tx, orphan_mode_leaves_the_tx_ring_alone_unless_told)
{
        struct rig r;
        struct vw_setting on = { .queue = -1, .key = VW_KEY_CLEAN_TX_FROM_RX, .value = 1 };
        const char *why;
        int64_t v;

        rig_init(&r);
        r.config.tx_mode = VW_TX_ORPHAN;
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(r.done, 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_packets), 0);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_MODE, &v), 0);
        EXPECT_EQ(v, VW_TX_ORPHAN);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_CLEAN_TX_FROM_RX, &v), 0);
        EXPECT_EQ(v, 0);
        EXPECT_EQ(vw_driver_set(r.drv, &on, 1, &why), 0);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        EXPECT_EQ(rig_count(&r, 1, VW_C_packets), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_reaped_by_rx), 1);
        rig_end(&r);
}

TEST(driver_tx, orphaned_packets_are_reaped_within_ten_milliseconds)
{
        struct rig r;
        uint64_t at;

        rig_init(&r);
        r.dev.features &= ~F(event_idx); /* with it the first interrupt of a lap is always on */
        r.config.tx_mode = VW_TX_ORPHAN;
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        sd_consume(&r.dev, 0);
        EXPECT(!sd_call(&r.dev, 1)); /* no interrupt is wanted */
        drv_claim(rig_pair(&r));
        EXPECT(!drv_napi_arm(rig_pair(&r), SEC));
        at = drv_napi_deadline(rig_pair(&r));
        EXPECT_EQ(at, SEC + 10 * NSEC_PER_MSEC);
        drv_napi_disarm(rig_pair(&r));
        rig_poll(&r, 64, at - 1);
        EXPECT_EQ(rig_pair(&r)->tx.inflight, 1);
        rig_poll(&r, 64, at);
        EXPECT_EQ(rig_pair(&r)->tx.inflight, 0);
        rig_end(&r);
}

TEST(driver_tx, an_orphaned_buffer_is_not_handed_out_while_the_device_reads_it)
{
        struct rig r;
        void *first, *second;

        rig_init(&r);
        r.config.tx_mode = VW_TX_ORPHAN;
        r.config.tx_bufs = 2;
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1); /* done, and put back, at once */
        EXPECT_EQ(r.done, 1);
        first = vw_driver_buf_get(r.drv, 0);
        second = vw_driver_buf_get(r.drv, 0);
        EXPECT(first);
        EXPECT_EQ(second, NULL);
        sd_consume(&r.dev, 0);
        vw_driver_buf_put(r.drv, 0, first);
        EXPECT_EQ(rig_send(&r, 60), 1); /* reaps the first */
        second = vw_driver_buf_get(r.drv, 0);
        EXPECT(second);
        vw_driver_buf_put(r.drv, 0, second);
        rig_end(&r);
}

TEST(driver_tx, orphan_mode_asks_for_interrupts_when_the_ring_is_full)
{
        struct rig r;

        rig_init(&r);
        r.config.tx_mode = VW_TX_ORPHAN;
        rig_start(&r);
        while (rig_send(&r, 60) == 1) {
        }
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_consume(&r.dev, 0), 256);
        EXPECT(sd_call(&r.dev, 1));
        EXPECT(vw_driver_woken(r.drv, 0) & VW_WAIT_QUEUE);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.wakes, 1);
        rig_end(&r);
}

static void set_mode(struct rig *r, enum vw_tx_mode mode)
{
        struct vw_setting s = { .queue = -1, .key = VW_KEY_TX_MODE, .value = mode };
        const char *why = "";

        EXPECT_EQ(vw_driver_set(r->drv, &s, 1, &why), 0);
}

/* T-TX-11 */
TEST(driver_tx, the_mode_may_change_under_traffic)
{
        struct rig r;
        uint64_t begin;

        rig_init(&r);
        r.config.bql = true;
        rig_start(&r);
        for (unsigned i = 0; i < 1000; i++) {
                for (unsigned k = 0; k < 5; k++)
                        rig_send(&r, 60);
                set_mode(&r, i % 2 ? VW_TX_NAPI : VW_TX_ORPHAN);
                sd_take(&r.dev, 0, 3, NULL);
                sd_give_back(&r.dev, 1, r.dev.ring[1].n_held, 0);
                rig_poll(&r, 64, SEC + i * NSEC_PER_MSEC);
        }
        sd_consume(&r.dev, 0);
        set_mode(&r, VW_TX_NAPI);
        rig_poll(&r, 64, 10 * SEC);
        EXPECT_EQ(r.sent, r.done);
        EXPECT_EQ(rig_count(&r, 1, VW_C_packets), r.sent);
        EXPECT_EQ(rig_pair(&r)->tx.inflight, 0);
        begin = clock_now();
        rig_end(&r);
        EXPECT(clock_now() - begin < SEC);
}

/* T-BQL-05 */
TEST(driver_tx, the_byte_account_is_even_after_mode_switches)
{
        struct rig r;

        rig_init(&r);
        r.config.bql = true;
        rig_start(&r);
        rig_pair(&r)->tx.bql.allowed = UINT32_MAX;
        for (unsigned i = 0; i < 10; i++)
                rig_send(&r, 1000);
        EXPECT_EQ(bql_inflight(&rig_pair(&r)->tx.bql), 10000);
        set_mode(&r, VW_TX_ORPHAN);
        for (unsigned i = 0; i < 10; i++)
                rig_send(&r, 1000);
        EXPECT_EQ(bql_inflight(&rig_pair(&r)->tx.bql), 10000);
        set_mode(&r, VW_TX_NAPI);
        EXPECT_EQ(sd_consume(&r.dev, 0), 20);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(bql_inflight(&rig_pair(&r)->tx.bql), 0);
        EXPECT_EQ(rig_count(&r, 1, VW_C_bql_inflight), 0);
        rig_end(&r);
}

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

/* ---- flows ---- */

/* T-TSQ-01, T-TSQ-03 */
TEST(driver_tx, a_flow_over_its_limit_holds_back_itself_alone)
{
        struct rig r;
        struct vw_flow *a, *b;
        unsigned n = 0;

        rig_init(&r);
        rig_start(&r);
        a = vw_flow_open(r.drv, 0, 0, NULL);
        b = vw_flow_open(r.drv, 0, 0, NULL);
        while (rig_send_pkt(&r, 1500, false, a) == 1)
                n++;
        EXPECT_EQ(n, (128 * 1024 + 1499) / 1500);
        EXPECT(vw_flow_inflight(a) <= 128 * 1024 + 1500);
        EXPECT(vw_driver_tx_ready(r.drv, 0));
        EXPECT_EQ(rig_send_pkt(&r, 1500, false, b), 1);
        EXPECT_EQ(rig_send_pkt(&r, 1500, false, a), 0);
        EXPECT_EQ(r.flow_wakes, 0);
        EXPECT_EQ(sd_consume(&r.dev, 0), n + 1);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.flow_wakes, 1); /* for two refusals of one period */
        EXPECT_EQ(vw_flow_inflight(a), 0);
        EXPECT_EQ(rig_send_pkt(&r, 1500, false, a), 1);
        vw_flow_close(a); /* lives until its packet is back */
        vw_flow_close(b);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        rig_poll(&r, 64, SEC);
        rig_end(&r);
}

static void fill_the_ring(void *ctx, unsigned pair, struct vw_flow *flow)
{
        (void)pair, (void)flow;
        while (rig_send(ctx, 70) == 1)
                ;
}

/* The flow's first packet is one of a batch; its wake sends as many as there is room for, into the places of the others. */
TEST(driver_tx, a_flow_that_is_woken_may_fill_the_ring)
{
        struct rig r;
        struct vw_flow *f;

        rig_init(&r);
        r.config.queue_size = 8;
        r.ops.flow_wake = fill_the_ring;
        rig_start(&r);
        f = vw_flow_open(r.drv, 0, 100, NULL);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(rig_send_pkt(&r, 60, false, f), i < 2);
        for (unsigned i = 0; i < 4; i++)
                EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 6);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.sent, 6 + 8);
        EXPECT_EQ(r.done, 6);
        EXPECT_EQ(rig_count(&r, 1, VW_C_bytes), 6 * 60);
        EXPECT_EQ(rig_pair(&r)->tx.inflight_flows, 0);
        vw_flow_close(f);
        EXPECT_EQ(sd_consume(&r.dev, 0), 8);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 6 + 8);
        EXPECT_EQ(rig_count(&r, 1, VW_C_bytes), 6 * 60 + 8 * 70);
        rig_end(&r);
}

/* T-TSQ-03 */
TEST(driver_tx, a_hundred_flows_go_on_while_one_is_stuck)
{
        struct rig r;
        struct vw_flow *f[100];

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 100; i++)
                f[i] = vw_flow_open(r.drv, 0, 3000, NULL);
        while (rig_send_pkt(&r, 1500, false, f[0]) == 1) {
        }
        EXPECT_EQ(sd_take(&r.dev, 0, 64, NULL), 2); /* and never given back */
        for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 1; i < 100; i++)
                        EXPECT_EQ(rig_send_pkt(&r, 1500, i < 99, f[i]), 1);
                EXPECT_EQ(sd_take(&r.dev, 0, 256, NULL), 99);
                sd_lock(&r.dev); /* gives back all but the two oldest */
                vq_device_push(&r.dev.ring[1].vq, r.dev.ring[1].held + 2, 99);
                vq_device_publish(&r.dev.ring[1].vq);
                r.dev.ring[1].n_held = 2;
                sd_unlock(&r.dev);
                rig_poll(&r, 64, SEC);
                EXPECT_EQ(rig_send_pkt(&r, 1500, false, f[0]), 0);
        }
        EXPECT_EQ(r.flow_wakes, 0);
        for (unsigned i = 0; i < 100; i++)
                vw_flow_close(f[i]);
        rig_end(&r);
}

TEST(driver_tx, flows_hold_nobody_back_in_orphan_mode)
{
        struct rig r;
        struct vw_flow *f;

        rig_init(&r);
        r.config.tx_mode = VW_TX_ORPHAN;
        rig_start(&r);
        f = vw_flow_open(r.drv, 0, 1000, NULL);
        for (unsigned i = 0; i < 100; i++)
                EXPECT_EQ(rig_send_pkt(&r, 1500, false, f), 1);
        EXPECT_EQ(vw_flow_inflight(f), 0);
        vw_flow_close(f);
        rig_end(&r);
}

/* A program makes 4 KiB a tick and sends all that it has, up to 64 KiB, when it may; the device finishes a packet every twelfth
 * tick, whatever its length.  Returns the mean length of a packet. */
static uint64_t growing_segments(enum vw_tx_mode mode)
{
        struct rig r;
        struct vw_flow *f;
        uint64_t waiting = 0, bytes = 0;

        rig_init(&r);
        r.config.tx_mode = mode;
        r.config.queue_size = 4096; /* so that the ring alone holds nobody back */
        r.config.tx_bufs = 4096;
        r.config.tx_lazy_us = 0;
        r.dev.features &= ~F(mtu);
        rig_start(&r);
        f = vw_flow_open(r.drv, 0, 0, NULL);
        for (unsigned tick = 0; tick < 4000; tick++) {
                uint32_t len = (uint32_t)MIN(waiting += 4096, UINT64_C(65536));

                if (rig_send_pkt(&r, len, false, f) == 1) {
                        waiting -= len;
                        bytes += len;
                }
                if (tick % 12 == 0 && sd_take(&r.dev, 0, 1, NULL) == 1)
                        sd_give_back(&r.dev, 1, 1, 0);
                rig_poll(&r, 64, SEC + tick);
        }
        bytes /= r.sent;
        vw_flow_close(f);
        rig_end(&r);
        return bytes;
}

/* T-TSQ-05 */
TEST(driver_tx, a_flows_account_lets_its_segments_grow)
{
        EXPECT(growing_segments(VW_TX_NAPI) >= 3 * growing_segments(VW_TX_ORPHAN));
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
