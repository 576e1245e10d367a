/* The driver against a scripted device: it connects, sends and receives. */
#include <string.h>

#include "script_device.h"
#include "test.h"

struct rig {
        struct sd dev;
        struct vw_driver *drv;
        unsigned received, done, wakes;
        uint32_t last_len;
        uint8_t last[2048];
};

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct rig *t = ctx;

        (void)pair;
        t->received += n;
        t->last_len = pkts[n - 1].len;
        memcpy(t->last, pkts[n - 1].iov[0].iov_base, pkts[n - 1].iov[0].iov_len);
        return n;
}

static void on_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        struct rig *t = ctx;

        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(t->drv, pair, cookies[i]);
        t->done += n;
}

TEST(driver, sends_and_receives)
{
        static const struct vw_driver_ops ops = { .rx = on_rx, .tx_done = on_done };
        struct rig t = { 0 };
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;
        const char *why = "";
        uint8_t frame[1000];
        struct iovec iov = { 0 };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        struct sd_frame f;

        sd_init(&t.dev);
        c.ops = &ops;
        c.ctx = &t;
        c.tx_bufs = 16;
        EXPECT_EQ(vw_driver_new(&c, &t.drv, &why), 0);
        EXPECT_EQ(sd_connect(&t.dev, t.drv, &why), 0);
        for (unsigned i = 0; i < sizeof(frame); i++)
                frame[i] = (uint8_t)i;
        EXPECT(sd_receive(&t.dev, 0, NULL, frame, sizeof(frame)));
        EXPECT(sd_call(&t.dev, 0));
        EXPECT_EQ(vw_driver_wait(t.drv, 0, UINT64_MAX), VW_WAIT_QUEUE);
        EXPECT_EQ(vw_driver_poll(t.drv, 0, 64), 1);
        EXPECT_EQ(t.last_len, sizeof(frame));
        EXPECT_MEM(t.last, frame, sizeof(frame));

        iov.iov_base = vw_driver_buf_get(t.drv, 0);
        iov.iov_len = 100;
        memcpy(iov.iov_base, frame, 100);
        pkt.cookie = iov.iov_base;
        EXPECT_EQ(vw_driver_xmit(t.drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(sd_kicks(&t.dev, 1), 1);
        EXPECT_EQ(sd_take(&t.dev, 0, 8, &f), 1);
        EXPECT_EQ(f.len, 100);
        EXPECT_MEM(f.bytes, frame, 100);
        EXPECT_EQ(t.done, 0);
        sd_give_back(&t.dev, 1, 1, 0);
        EXPECT_EQ(vw_driver_poll(t.drv, 0, 64), 0);
        EXPECT_EQ(t.done, 1);
        vw_driver_free(t.drv);
        sd_done(&t.dev);
}
