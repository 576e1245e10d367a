/* Both halves against each other: what goes in comes out, once and whole, whatever was negotiated. */
#include "test.h"
#include "wire.h"

#include "base/iov.h"
#include "scale.h"

static void one_round(struct wire *w)
{
        struct vq_piece pieces[] = {
                {wire_gpa(w,  0),    100},
                { wire_gpa(w, 4096), 50 }
        };
        struct vq_used used[1];
        int cookie;

        EXPECT_EQ(vq_driver_add(&w->drv, pieces, 1, 1, &cookie), 0);
        EXPECT_EQ(wire_pop(w, 1), 0);
        vq_driver_publish(&w->drv);
        EXPECT_EQ(wire_pop(w, VQ_BURST), 1);
        EXPECT_EQ(w->chains[0].n_out, 1);
        EXPECT_EQ(w->chains[0].n_in, 1);
        EXPECT_EQ(w->chains[0].iov[0].iov_len, 100);
        EXPECT_EQ(w->chains[0].iov[1].iov_base == wire_dev_ptr(w, wire_gpa(w, 4096)), 1);
        w->chains[0].written = 17;
        vq_device_push(&w->dev, w->chains, 1);
        EXPECT_EQ(vq_driver_reap(&w->drv, used, 1), 0);
        vq_device_publish(&w->dev);
        EXPECT_EQ(vq_driver_reap(&w->drv, used, 1), 1);
        EXPECT(used[0].cookie == &cookie);
        EXPECT_EQ(used[0].len, 17);
        EXPECT_EQ(vq_driver_outstanding(&w->drv), 0);
}

TEST(traffic, a_chain_goes_out_and_comes_back)
{
        static const uint64_t features[] = { 0, F(event_idx), F(indirect_desc),
                                             F(event_idx) | F(indirect_desc) };

        for (unsigned i = 0; i < ARRAY_SIZE(features); i++) {
                struct wire w = wire_new(8, features[i]);

                for (unsigned k = 0; k < 70000; k++)
                        one_round(&w);
                wire_free(&w);
        }
}
