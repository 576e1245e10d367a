/* Flows against a scripted device: a byte account each, whoever is over its limit waits, and is woken once. */
#include "drv_rig.h"
#include "test.h"

#define SEC NSEC_PER_SEC

/* T-TSQ-01, T-TSQ-03 */
TEST(driver_flows, one_over_its_limit_holds_back_itself_alone)
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
TEST(driver_flows, one_that_is_woken_may_fill_the_ring)
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
TEST(driver_flows, a_hundred_go_on_while_one_is_stuck)
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

TEST(driver_flows, hold_nobody_back_in_orphan_mode)
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
TEST(driver_flows, an_account_lets_segments_grow)
{
        EXPECT(growing_segments(VW_TX_NAPI) >= 3 * growing_segments(VW_TX_ORPHAN));
}
