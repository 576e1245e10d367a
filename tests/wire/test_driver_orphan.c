/* The driver's orphan mode: packets are let go at transmission; and going over into it and back. */
#include "drv_rig.h"
#include "test.h"

#define SEC NSEC_PER_SEC

/* T-TX-10 */
TEST(driver_orphan, leaves_the_tx_ring_alone_unless_told)
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

TEST(driver_orphan, packets_are_reaped_within_ten_milliseconds)
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

TEST(driver_orphan, a_buffer_is_not_handed_out_while_the_device_reads_it)
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

TEST(driver_orphan, asks_for_interrupts_when_the_ring_is_full)
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
TEST(driver_orphan, the_mode_may_change_under_traffic)
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
TEST(driver_orphan, the_byte_account_is_even_after_mode_switches)
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
