/* The switch between layouts: what holds for any of them. */
#include "ring/vq.h"

#include <string.h>

#include "test.h"
#include "wire.h"

/* What the contract promises of a broken queue. */
TEST(vq, is_silent_when_the_device_half_is_broken)
{
        struct wire w = wire_new(8, 0);
        uint8_t before[4096];
        char text[256];

        EXPECT_EQ(vq_device_break(&w.dev, "memory-gone", 1), -EPROTO);
        wire_raw_avail_idx(&w, 3);
        memcpy(before, w.drv_va, sizeof(before));
        EXPECT_EQ(wire_pop(&w, 8), -EPROTO);
        vq_device_push(&w.dev, w.chains, 1);
        vq_device_publish(&w.dev);
        vq_device_rewind(&w.dev, w.chains, 1);
        vq_device_kick_disable(&w.dev);
        EXPECT(!vq_device_call_needed(&w.dev));
        EXPECT(!vq_device_kick_enable(&w.dev));
        EXPECT(!vq_device_avail_pending(&w.dev));
        EXPECT_EQ(vq_device_base(&w.dev), 0);
        EXPECT_MEM(before, w.drv_va, sizeof(before));
        EXPECT(vq_device_dump(&w.dev, text, sizeof(text)) > 0);
        EXPECT(strstr(text, "broken=memory-gone"));
        wire_free(&w);
}

TEST(vq, is_silent_when_the_driver_half_is_broken)
{
        struct wire w = wire_new(8, 0);
        uint8_t before[4096];
        struct vq_used used[8];
        int cookie;

        EXPECT_EQ(vq_driver_add(&w.drv, &(struct vq_piece){ 0, 1 }, 1, 0, &cookie), 0);
        EXPECT_EQ(vq_driver_break(&w.drv, "bad-id", 1), -EPROTO);
        wire_raw_used_idx(&w, 1);
        memcpy(before, w.drv_va, sizeof(before));
        EXPECT_EQ(vq_driver_add(&w.drv, &(struct vq_piece){ 0, 1 }, 1, 0, &cookie), -EPROTO);
        vq_driver_publish(&w.drv);
        vq_driver_call_disable(&w.drv);
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 8), -EPROTO);
        EXPECT(!vq_driver_kick_needed(&w.drv));
        EXPECT(!vq_driver_call_enable(&w.drv));
        EXPECT(!vq_driver_call_enable_delayed(&w.drv));
        EXPECT(!vq_driver_used_pending(&w.drv));
        EXPECT_MEM(before, w.drv_va, sizeof(before));
        EXPECT(vq_driver_drain(&w.drv) == &cookie);
        EXPECT(!vq_driver_drain(&w.drv));
        wire_free(&w);
}

TEST(vq, is_off_when_zero)
{
        struct vq_device dev = { 0 };
        struct vq_driver drv = { 0 };
        char text[64];

        vq_device_done(&dev);
        vq_driver_done(&drv);
        EXPECT_EQ(vq_device_dump(&dev, text, sizeof(text)), (int)strlen("device off"));
        EXPECT_STR(text, "device off");
        vq_driver_dump(&drv, text, sizeof(text));
        EXPECT_STR(text, "driver off");
}
