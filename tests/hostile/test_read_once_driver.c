/* M09 and T-RX-31: the device changes every word right after the driver has loaded it, the virtio header's too.
 *
 * The ring and the driver's receive side are compiled in with the hook of ring/peer.h. */

#include "drv_rig.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static struct {
        bool armed;
        unsigned n, twice;
        struct {
                uint8_t *at;
                size_t len;
        } load[4096];
} shim;

static void invert(unsigned i)
{
        for (size_t k = 0; k < shim.load[i].len; k++)
                shim.load[i].at[k] ^= 0xff;
}

void peer_loaded(const void *word, size_t len)
{
        uint8_t *at = (uint8_t *)word;

        if (!shim.armed)
                return;
        check(shim.n < ARRAY_SIZE(shim.load));
        for (unsigned i = 0; i < shim.n; i++)
                shim.twice += at < shim.load[i].at + shim.load[i].len && shim.load[i].at < at + len;
        shim.load[shim.n].at = at;
        shim.load[shim.n].len = len;
        invert(shim.n++);
}

/* One poll under the hook; afterwards memory is as the device left it. */
static int poll_hooked(struct rig *r)
{
        int n;

        shim.n = shim.twice = 0;
        shim.armed = true;
        n = rig_poll(r, 1, SEC); /* one: a second look at the index is a look at another one */
        shim.armed = false;
        while (shim.n)
                invert(--shim.n);
        return n;
}

static void receive_all(bool mergeable)
{
        struct rig r;
        uint8_t frame[3000];
        struct vw_net_hdr hdr = { .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16 };

        for (unsigned i = 0; i < sizeof(frame); i++)
                frame[i] = (uint8_t)i;
        rig_init(&r);
        r.checks = true;
        r.config.offloads = VW_OFFLOAD_CSUM;
        if (!mergeable)
                r.dev.features &= ~F(mrg_rxbuf);
        rig_start(&r);
        for (unsigned i = 0; i < 200; i++) {
                uint32_t len = mergeable ? 60 + i * 14 : 60 + i * 7;

                EXPECT(sd_receive(&r.dev, 0, &hdr, frame, len));
                EXPECT_EQ(poll_hooked(&r), 1);
                EXPECT_EQ(shim.twice, 0);
                EXPECT_EQ(r.received, i + 1);
                EXPECT_EQ(rig_last(&r)->len, len);
                EXPECT_EQ(rig_last(&r)->hdr.flags, VW_HDR_F_NEEDS_CSUM);
                EXPECT_EQ(rig_last(&r)->hdr.csum_start, 34);
                rig_poll(&r, 64, SEC);
        }
        rig_end(&r);
}

/* hostile M09, T-RX-31 */
TEST(read_once_driver, receives_by_the_first_value_of_every_word)
{
        receive_all(true);
        receive_all(false);
}

/* hostile M09 */
TEST(read_once_driver, reaps_by_the_first_value_of_every_word)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < 200; i++) {
                EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT_EQ(sd_take(&r.dev, 0, 1, NULL), 1);
                sd_give_back(&r.dev, 1, 1, 0x12345678);
                EXPECT_EQ(poll_hooked(&r), 0);
                EXPECT_EQ(shim.twice, 0);
                EXPECT_EQ(r.done, i + 1);
        }
        rig_end(&r);
}
