/* The driver's control queue and configuration against a scripted device. */
#include <errno.h>
#include <string.h>

#include "drv_rig.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static void start(struct rig *r)
{
        rig_init(r);
        r->config.ctrl_timeout_ms = 10000; /* of a thread on a busy machine */
        rig_start(r);
}

static void silent(struct rig *r)
{
        sd_ctrl(&r->dev, SD_SILENT);
        r->drv->ctrl.timeout_ms = 20;
}

static void answering(struct rig *r)
{
        sd_ctrl(&r->dev, SD_ACK);
        r->drv->ctrl.timeout_ms = 10000;
}

/* The bytes of the last command. */
static void expect_command(struct rig *r, const void *bytes, uint32_t len)
{
        struct sd_command c;

        EXPECT(sd_last_command(&r->dev, &c));
        EXPECT_EQ(c.len, len);
        EXPECT_MEM(c.bytes, bytes, len);
}

static unsigned commands(struct rig *r)
{
        struct sd_command c;

        return sd_last_command(&r->dev, &c);
}

/* ---- what goes over the wire ---- */

/* T-RSS-04, in spirit: golden bytes */
TEST(driver_ctrl, commands_are_the_standards_bytes)
{
        static const uint8_t macs[3][6] = {
                {2,  0, 0, 0, 0, 1},
                { 3, 0, 0, 0, 0, 2},
                { 3, 0, 0, 0, 0, 3}
        };
        struct rig r;

        start(&r);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), 0);
        expect_command(&r, "\0\0\1", 3);
        EXPECT_EQ(vw_driver_set_allmulti(r.drv, false), 0);
        expect_command(&r, "\0\1\0", 3);
        EXPECT_EQ(vw_driver_set_mac(r.drv, macs[0]), 0);
        expect_command(&r, "\1\1\2\0\0\0\0\1", 8);
        EXPECT_EQ(vw_driver_set_vlan(r.drv, 0x123, true), 0);
        expect_command(&r, "\2\0\x23\1", 4);
        EXPECT_EQ(vw_driver_set_vlan(r.drv, 0x123, false), 0);
        expect_command(&r, "\2\1\x23\1", 4);
        EXPECT_EQ(vw_driver_set_vlan(r.drv, 4096, true), -EINVAL);
        rig_end(&r);
}

/* T-CVQ-06 */
TEST(driver_ctrl, either_list_of_addresses_may_be_empty)
{
        static const uint8_t macs[2][6] = {
                {2,  0, 0, 0, 0, 1},
                { 3, 0, 0, 0, 0, 2}
        };
        static const uint8_t zero[1][6];
        struct rig r;

        start(&r);
        EXPECT_EQ(vw_driver_set_macs(r.drv, NULL, 0, NULL, 0), 0);
        expect_command(&r, "\1\0\0\0\0\0\0\0\0\0", 10);
        EXPECT_EQ(vw_driver_set_macs(r.drv, macs, 1, NULL, 0), 0);
        expect_command(&r, "\1\0\1\0\0\0\2\0\0\0\0\1\0\0\0\0", 16);
        EXPECT_EQ(vw_driver_set_macs(r.drv, NULL, 0, macs, 2), 0);
        expect_command(&r, "\1\0\0\0\0\0\2\0\0\0\2\0\0\0\0\1\3\0\0\0\0\2", 22);
        EXPECT_EQ(vw_driver_set_macs(r.drv, zero, 1, NULL, 0), -EINVAL);
        rig_end(&r);
}

/* T-CVQ-04 */
TEST(driver_ctrl, what_was_not_negotiated_is_not_sent)
{
        struct rig r;
        uint32_t a, b;

        rig_init(&r);
        r.dev.features &=
                ~(F(ctrl_rx) | F(ctrl_vlan) | F(ctrl_guest_offloads) | F(notf_coal) | F(vq_notf_coal));
        rig_start(&r);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ENOTSUP);
        EXPECT_EQ(vw_driver_set_vlan(r.drv, 1, true), -ENOTSUP);
        EXPECT_EQ(vw_driver_set_offloads(r.drv, 0), -ENOTSUP);
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_TX, 1, 1), -ENOTSUP);
        EXPECT_EQ(vw_driver_set_coalesce_queue(r.drv, 0, 1, 1), -ENOTSUP);
        EXPECT_EQ(vw_driver_get_coalesce_queue(r.drv, 0, &a, &b), -ENOTSUP);
        EXPECT_EQ(commands(&r), 0);
        EXPECT_EQ(rig_count(&r, 2, VW_C_commands), 0);
        rig_end(&r);
}

TEST(driver_ctrl, a_connection_sends_no_command_that_is_not_needed)
{
        struct rig r;

        start(&r);
        EXPECT_EQ(commands(&r), 0);
        rig_end(&r);
}

/* ---- answers ---- */

TEST(driver_ctrl, a_refusal_is_an_error_and_counted)
{
        struct rig r;

        start(&r);
        sd_ctrl(&r.dev, SD_NACK);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -EIO);
        EXPECT_EQ(rig_count(&r, 2, VW_C_nacks), 1);
        sd_ctrl(&r.dev, SD_ACK);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), 0);
        EXPECT_EQ(rig_count(&r, 2, VW_C_commands), 2);
        rig_end(&r);
}

/* T-CVQ-05 */
TEST(driver_ctrl, an_answer_that_was_not_written_is_no_success)
{
        struct rig r;

        start(&r);
        sd_ctrl(&r.dev, SD_EMPTY);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -EIO);
        rig_end(&r);
}

/* T-CVQ-01 */
TEST(driver_ctrl, a_silent_device_costs_one_time_limit)
{
        struct rig r;
        uint64_t begin;

        start(&r);
        silent(&r);
        begin = clock_now();
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ETIMEDOUT);
        EXPECT(clock_now() - begin >= 20 * NSEC_PER_MSEC);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ETIMEDOUT);
        EXPECT_EQ(rig_count(&r, 2, VW_C_commands), 1);
        EXPECT(rig_arrive(&r, 100, 0)); /* the data path does not care */
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_end(&r);
}

/* T-CVQ-01 */
TEST(driver_ctrl, a_late_answer_is_harmless_and_opens_the_queue_again)
{
        struct rig r;

        start(&r);
        silent(&r);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ETIMEDOUT);
        sd_answer(&r.dev, 0);
        answering(&r);
        EXPECT_EQ(vw_driver_dispatch(r.drv), 0);
        EXPECT_EQ(r.drv->ctrl.late, 0);
        EXPECT_EQ(vw_driver_set_allmulti(r.drv, true), 0);
        expect_command(&r, "\0\1\1", 3);
        rig_end(&r);
}

TEST(driver_ctrl, a_device_that_leaves_ends_the_wait)
{
        struct rig r;
        uint64_t begin = clock_now();

        rig_init(&r);
        r.config.ctrl_timeout_ms = 60000;
        rig_start(&r);
        sd_ctrl(&r.dev, SD_SILENT);
        sd_leave_later(&r.dev, 20);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ENOTCONN);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -ENETDOWN); /* it is known that nobody is there */
        EXPECT(clock_now() - begin < 30 * SEC);
        EXPECT_EQ(vw_driver_dispatch(r.drv), -ENOTCONN);
        rig_end(&r);
}

TEST(driver_ctrl, a_device_that_serves_no_control_queue_is_used_all_the_same)
{
        struct rig r;

        rig_init(&r);
        r.dev.ctrl = SD_SILENT;
        r.config.ctrl_timeout_ms = 20;
        r.config.promisc = true;
        r.config.pairs = 2;
        rig_start(&r);
        EXPECT_EQ(r.drv->net.active, 2);
        for (r.pair = 0; r.pair < 2; r.pair++) {
                EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT(rig_arrive(&r, 100, 0));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        }
        EXPECT_EQ(rig_count(&r, 8, VW_C_commands), 1);
        r.pair = 0;
        rig_end(&r);
}

/* ---- coalescing ---- */

TEST(driver_ctrl, coalescing_has_packets_first)
{
        struct rig r;
        uint32_t usecs, frames;

        start(&r);
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_TX, 9, 0x1234), 0);
        expect_command(&r, "\6\0\x34\x12\0\0\x9\0\0\0", 10);
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_RX, 1, 2), 0);
        expect_command(&r, "\6\1\2\0\0\0\1\0\0\0", 10);
        EXPECT_EQ(vw_driver_set_coalesce_queue(r.drv, 1, 3, 4), 0);
        expect_command(&r, "\6\2\1\0\0\0\4\0\0\0\3\0\0\0", 14);
        sd_lock(&r.dev);
        memcpy(r.dev.answer, "\x7\0\0\0\x8\0\0\0", 8);
        sd_unlock(&r.dev);
        EXPECT_EQ(vw_driver_get_coalesce_queue(r.drv, 1, &usecs, &frames), 0);
        EXPECT_EQ(frames, 7);
        EXPECT_EQ(usecs, 8);
        sd_ctrl(&r.dev, SD_NACK); /* T-COAL-07: the values of a refusal mean nothing */
        EXPECT_EQ(vw_driver_get_coalesce_queue(r.drv, 1, &usecs, &frames), -EIO);
        EXPECT_EQ(frames, 7);
        EXPECT_EQ(vw_driver_set_coalesce_queue(r.drv, 2, 3, 4), -EINVAL);
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_CTRL, 3, 4), -EINVAL);
        rig_end(&r);
}

TEST(driver_ctrl, settings_of_a_pair_of_numbers_are_one_command)
{
        struct rig r;
        struct vw_setting s[2] = {
                {-1,  VW_KEY_TX_USECS,  64},
                { -1, VW_KEY_TX_FRAMES, 16}
        };
        const char *why = "";
        int64_t v;

        start(&r);
        EXPECT_EQ(vw_driver_set(r.drv, s, 2, &why), 0);
        EXPECT_EQ(commands(&r), 1);
        expect_command(&r, "\6\0\x10\0\0\0\x40\0\0\0", 10);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 64);
        sd_ctrl(&r.dev, SD_NACK);
        s[0].value = 65;
        EXPECT_EQ(vw_driver_set(r.drv, s, 2, &why), -EIO);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 64); /* a refusal changes nothing */
        rig_end(&r);
}

TEST(driver_ctrl, a_direction_that_is_left_to_the_device_is_told_nothing)
{
        struct rig r;
        struct vw_setting s[2] = {
                {-1,  VW_KEY_ADAPTIVE, VW_ADAPTIVE_OFF},
                { -1, VW_KEY_RX_USECS, 9              }
        };
        const char *why = "";
        int64_t v;

        rig_init(&r);
        r.config.adaptive = VW_ADAPTIVE_RX;
        r.config.tx_usecs = r.config.tx_frames = 8;
        rig_start(&r);
        EXPECT_EQ(commands(&r), 1);
        expect_command(&r, "\6\0\x8\0\0\0\x8\0\0\0", 10);
        EXPECT_EQ(vw_driver_get(r.drv, -1, VW_KEY_ADAPTIVE, &v), 0);
        EXPECT_EQ(v, VW_ADAPTIVE_RX);
        EXPECT_EQ(vw_driver_set(r.drv, s, 1, &why), 0); /* not any more: told what holds */
        EXPECT_EQ(commands(&r), 2);
        expect_command(&r, "\6\1\0\0\0\0\0\0\0\0", 10);
        EXPECT_EQ(vw_driver_set(r.drv, s, 1, &why), 0);
        EXPECT_EQ(commands(&r), 2);
        s[0].value = VW_ADAPTIVE_RX;
        EXPECT_EQ(vw_driver_set(r.drv, s, 1, &why), -EBUSY);  /* it was told */
        EXPECT_EQ(vw_driver_set(r.drv, s, 2, &why), -EINVAL); /* numbers and none */
        EXPECT_EQ(vw_driver_get(r.drv, 0, VW_KEY_ADAPTIVE, &v), 0);
        EXPECT_EQ(v, VW_ADAPTIVE_OFF);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(vw_driver_set(r.drv, s, 1, &why), 0);
        rig_start(&r);
        EXPECT_EQ(commands(&r), 3); /* tx alone */
        EXPECT_EQ(vw_driver_set(r.drv, &s[1], 1, &why), 0);
        EXPECT_EQ(commands(&r), 4);
        expect_command(&r, "\6\1\0\0\0\0\x9\0\0\0", 10);
        EXPECT_EQ(vw_driver_get(r.drv, 0, VW_KEY_ADAPTIVE, &v), 0);
        EXPECT_EQ(v, VW_ADAPTIVE_OFF);
        s[0].queue = 1;
        EXPECT_EQ(vw_driver_set(r.drv, s, 1, &why), -EINVAL); /* rx of a tx queue */
        rig_end(&r);
}

TEST(driver_ctrl, coalescing_is_asked_for_again_at_the_next_connection)
{
        struct rig r;
        struct vw_setting s = { 3, VW_KEY_TX_USECS, 64 };
        const char *why = "";
        int64_t v;

        rig_init(&r);
        r.config.pairs = 2;
        r.config.tx_usecs = r.config.tx_frames = 8;
        rig_start(&r);
        EXPECT_EQ(commands(&r), 2);
        expect_command(&r, "\6\0\x8\0\0\0\x8\0\0\0", 10);
        EXPECT_EQ(vw_driver_set(r.drv, &s, 1, &why), 0); /* one queue of two: a command of its own */
        EXPECT_EQ(commands(&r), 3);
        expect_command(&r, "\6\2\3\0\0\0\x8\0\0\0\x40\0\0\0", 14);
        vw_driver_disconnect(r.drv);
        rig_start(&r);
        EXPECT_EQ(commands(&r), 6); /* the pairs, and each tx queue */
        expect_command(&r, "\6\2\3\0\0\0\x8\0\0\0\x40\0\0\0", 14);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 8);
        EXPECT_EQ(vw_driver_get(r.drv, 3, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 64);
        rig_end(&r);
}

/* ---- queue pairs ---- */

TEST(driver_ctrl, several_pairs_are_announced_once)
{
        struct rig r;

        rig_init(&r);
        r.config.pairs = 3;
        rig_start(&r);
        EXPECT_EQ(commands(&r), 1);
        expect_command(&r, "\4\0\3\0", 4);
        /* the control queue comes after the pairs that the device has */
        EXPECT_EQ(r.dev.ring[8].running, true);
        EXPECT_EQ(r.dev.ring[5].running, true);
        EXPECT_EQ(r.dev.ring[6].running, false);
        rig_end(&r);
}

/* T-MQ-03 */
TEST(driver_ctrl, shrinking_queues_nothing_more_on_pairs_that_go)
{
        struct rig r;
        struct vw_driver_info info;

        rig_init(&r);
        r.config.pairs = 2;
        rig_start(&r);
        r.pair = 1;
        for (unsigned i = 0; i < 10; i++)
                EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(vw_driver_set_pairs(r.drv, 1), 0);
        expect_command(&r, "\4\0\1\0", 4);
        EXPECT_EQ(rig_send(&r, 60), -ENETDOWN);
        EXPECT(!vw_driver_tx_ready(r.drv, 1));
        EXPECT_EQ(sd_consume(&r.dev, 1), 10); /* what was queued is completed */
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 10);
        vw_driver_info(r.drv, &info);
        EXPECT_EQ(info.pairs, 1);
        EXPECT_EQ(info.pairs_max, SD_PAIRS);
        EXPECT_EQ(vw_driver_set_pairs(r.drv, 3), -EINVAL);
        vw_driver_disconnect(r.drv);
        rig_start(&r);
        EXPECT_EQ(r.drv->net.active, 1); /* it outlives the connection */
        EXPECT_EQ(vw_driver_set_pairs(r.drv, 2), 0);
        EXPECT_EQ(rig_send(&r, 60), 1);
        r.pair = 0;
        rig_end(&r);
}

TEST(driver_ctrl, a_refused_number_of_pairs_changes_nothing)
{
        struct rig r;
        struct vw_setting s = { -1, VW_KEY_QUEUES, 1 };
        const char *why = "";
        int64_t v;

        rig_init(&r);
        r.config.pairs = 2;
        rig_start(&r);
        sd_ctrl(&r.dev, SD_NACK);
        EXPECT_EQ(vw_driver_set(r.drv, &s, 1, &why), -EIO);
        EXPECT_EQ(vw_driver_get(r.drv, -1, VW_KEY_QUEUES, &v), 0);
        EXPECT_EQ(v, 2);
        r.pair = 1;
        EXPECT_EQ(rig_send(&r, 60), 1);
        r.pair = 0;
        rig_end(&r);
}

TEST(driver_ctrl, a_set_that_is_refused_half_way_changes_nothing)
{
        struct rig r;
        struct vw_setting s[] = {
                {-1,  VW_KEY_TX_USECS,         64},
                { -1, VW_KEY_TX_FRAMES,        16},
                { -1, VW_KEY_SHARED_INTERRUPT, 1 },
                { -1, VW_KEY_KICK,             1 },
                { -1, VW_KEY_QUEUES,           1 },
        };
        static const int64_t before[] = { 0, 0, 0, 0, 2 };
        const char *why = "";
        int64_t v;

        rig_init(&r);
        r.config.pairs = 2;
        rig_start(&r);
        sd_lock(&r.dev);
        r.dev.refused_classes = BIT(VIRTIO_NET_CTRL_MQ);
        sd_unlock(&r.dev);
        EXPECT_EQ(vw_driver_set(r.drv, s, ARRAY_SIZE(s), &why), -EIO);
        EXPECT_STR(why, "the device refused the number of queues");
        for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
                EXPECT_EQ(vw_driver_get(r.drv, -1, s[i].key, &v), 0);
                EXPECT_EQ(v, before[i]);
        }
        expect_command(&r, "\6\0\0\0\0\0\0\0\0\0", 10); /* it was told, and is told again */
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 0);
        rig_end(&r);
}

TEST(driver_ctrl, why_a_device_did_not_agree_is_told)
{
        struct rig r;
        struct vw_setting all = { -1, VW_KEY_TX_USECS, 64 }, one = { 1, VW_KEY_TX_USECS, 32 },
                          queues = { -1, VW_KEY_QUEUES, 1 };
        const char *why = "";
        int64_t v;

        rig_init(&r);
        r.config.pairs = 2;
        r.dev.features &= ~F(vq_notf_coal);
        rig_start(&r);
        EXPECT_EQ(vw_driver_set(r.drv, &one, 1, &why), -ENOTSUP);
        EXPECT_STR(why, "the device has not negotiated vq_notf_coal");
        sd_ctrl(&r.dev, SD_NACK);
        EXPECT_EQ(vw_driver_set(r.drv, &all, 1, &why), -EIO);
        EXPECT_STR(why, "the device refused the coalescing");
        silent(&r);
        EXPECT_EQ(vw_driver_set(r.drv, &all, 1, &why), -ETIMEDOUT);
        EXPECT_STR(why, "the device does not answer");
        EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_USECS, &v), 0);
        EXPECT_EQ(v, 0);
        EXPECT_EQ(vw_driver_set(r.drv, &queues, 1, &why), -ETIMEDOUT);
        EXPECT_STR(why, "the device does not answer; queues=1 holds all the same");
        EXPECT_EQ(vw_driver_get(r.drv, -1, VW_KEY_QUEUES, &v), 0);
        EXPECT_EQ(v, 1);
        rig_end(&r);

        rig_init(&r);
        r.dev.features &= ~(F(notf_coal) | F(vq_notf_coal));
        rig_start(&r);
        EXPECT_EQ(vw_driver_set(r.drv, &all, 1, &why), -ENOTSUP);
        EXPECT_STR(why, "the device has not negotiated notf_coal");
        rig_end(&r);
}

TEST(driver_ctrl, a_device_without_notf_coal_is_told_queue_by_queue)
{
        struct rig r;
        struct vw_setting s[2] = {
                {-1,  VW_KEY_TX_USECS,  64},
                { -1, VW_KEY_TX_FRAMES, 16}
        };
        const char *why = "";

        rig_init(&r);
        r.config.pairs = 2;
        r.dev.features &= ~F(notf_coal);
        rig_start(&r);
        EXPECT_EQ(vw_driver_set(r.drv, s, 2, &why), 0);
        EXPECT_EQ(commands(&r), 3); /* the number of pairs, and two queues */
        expect_command(&r, "\6\2\3\0\0\0\x10\0\0\0\x40\0\0\0", 14);
        rig_end(&r);
}

/* ---- what cannot be ---- */

TEST(driver_ctrl, what_there_is_not_is_refused_and_not_sent)
{
        static const struct {
                struct vw_setting s;
                int error, get;
                const char *why;
        } cases[] = {
                {{ -1, VW_KEY_COUNT, 1 },                 -ENOENT, -ENOENT, "no such setting"     },
                { { -1, (enum vw_key) - 1, 1 },           -ENOENT, -ENOENT, "no such setting"     },
                { { -1, VW_KEY_TX_USECS, -1 },            -ERANGE, 0,       "under the limit 0"   },
                { { -1, VW_KEY_TX_USECS, 10001 },         -ERANGE, 0,       "over the limit 10000"},
                { { 0, VW_KEY_TX_USECS, 1 },              -EINVAL, -EINVAL, "q0 has no tx-usecs"  },
                { { 4, VW_KEY_POLL_US, 1 },               -EINVAL, -EINVAL, "q4 has no poll-us"   },
                { { 1, VW_KEY_ADAPTIVE, VW_ADAPTIVE_RX }, -EINVAL, 0,       "other direction"     },
                { { -1, VW_KEY_QUEUES, SD_PAIRS + 1 },    -ERANGE, 0,       "over the limit"      },
        };
        struct vw_setting queues = { -1, VW_KEY_QUEUES, 1 };
        uint32_t usecs, frames;
        const char *why = "";
        int64_t value;
        struct rig r;

        rig_init(&r);
        r.config.pairs = 2;
        rig_start(&r);
        EXPECT_EQ(commands(&r), 1); /* the number of pairs */
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                EXPECT_EQ(vw_driver_set(r.drv, &cases[i].s, 1, &why), cases[i].error);
                if (!strstr(why, cases[i].why))
                        fail_msg("\"%s\" does not say \"%s\"", why, cases[i].why);
                EXPECT_EQ(vw_driver_get(r.drv, cases[i].s.queue, cases[i].s.key, &value), cases[i].get);
        }
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_CTRL, 1, 1), -EINVAL);
        EXPECT_EQ(vw_driver_set_coalesce_queue(r.drv, 4, 1, 1), -EINVAL);
        EXPECT_EQ(vw_driver_get_coalesce_queue(r.drv, 4, &usecs, &frames), -EINVAL);
        EXPECT_EQ(vw_driver_set_pairs(r.drv, 0), -EINVAL);
        EXPECT_EQ(vw_driver_set_pairs(r.drv, SD_PAIRS + 1), -EINVAL);
        EXPECT_EQ(commands(&r), 1);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(vw_driver_set_pairs(r.drv, 1), -ENETDOWN);
        EXPECT_EQ(vw_driver_set_offloads(r.drv, 0), -ENETDOWN);
        EXPECT_EQ(vw_driver_set_coalesce(r.drv, VW_TX, 1, 1), -ENETDOWN);
        EXPECT_EQ(vw_driver_set(r.drv, &queues, 1, &why), -ENETDOWN);
        EXPECT(strstr(why, "only while connected"));
        rig_end(&r);
}

/* ---- offloads ---- */

TEST(driver_ctrl, offloads_follow_the_command)
{
        struct rig r;
        struct vw_net_hdr hdr = {
                .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16, .num_buffers = 1
        };
        uint32_t len = 112;

        rig_init(&r);
        r.config.offloads = VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4;
        rig_start(&r);
        EXPECT(sd_receive_raw(&r.dev, 0, &hdr, &len, 1)); /* made under the old rules */
        EXPECT_EQ(vw_driver_set_offloads(r.drv, 0), 0);
        expect_command(&r, "\5\0\0\0\0\0\0\0\0\0", 10);
        EXPECT_EQ(r.received, 1);
        EXPECT(sd_receive_raw(&r.dev, 0, &hdr, &len, 1));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_drops(&r, 0, VW_DROP_NOT_NEGOTIATED), 1);
        EXPECT_EQ(vw_driver_set_offloads(r.drv, VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6), 0);
        expect_command(&r, "\5\0\x82\0\0\0\0\0\0\0", 10); /* only what was negotiated */
        EXPECT(sd_receive_raw(&r.dev, 0, &hdr, &len, 1));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(r.received, 2);
        rig_end(&r);
}

/* ---- configuration ---- */

TEST(driver_config, is_what_the_device_says)
{
        struct rig r;
        struct vw_driver_info info;

        rig_init(&r);
        r.dev.config.speed = cpu_to_le32(10000);
        r.dev.config.duplex = 1;
        rig_start(&r);
        vw_driver_info(r.drv, &info);
        EXPECT(info.connected && info.link_up && info.has_ctrl);
        EXPECT_MEM(info.mac, r.dev.config.mac, 6);
        EXPECT_EQ(info.mtu, 1500);
        EXPECT_EQ(info.speed, 10000);
        EXPECT_EQ(info.duplex, 1);
        EXPECT_EQ(info.pairs, 1);
        rig_end(&r);
}

/* T-CFG-04 */
TEST(driver_config, impossible_speed_and_duplex_are_unknown)
{
        struct rig r;
        struct vw_driver_info info;

        rig_init(&r);
        r.dev.config.speed = cpu_to_le32(0x80000000);
        r.dev.config.duplex = 7;
        rig_start(&r);
        vw_driver_info(r.drv, &info);
        EXPECT_EQ(info.speed, UINT32_MAX);
        EXPECT_EQ(info.duplex, 0xff);
        rig_end(&r);
}

/* hostile M18 */
TEST(driver_config, impossible_values_get_safe_defaults)
{
        static const struct {
                uint8_t mac[6];
                uint16_t pairs, mtu;
        } cases[] = {
                {{ 2, 0, 0, 0, 0, 1 },  0,      1500},
                { { 2, 0, 0, 0, 0, 1 }, 0x8001, 1500},
                { { 2, 0, 0, 0, 0, 1 }, 1,      0   },
                { { 2, 0, 0, 0, 0, 1 }, 1,      67  },
                { { 3, 0, 0, 0, 0, 1 }, 1,      68  },
                { { 0 },                1,      68  },
        };

        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct vw_driver_info info;
                struct rig r;

                rig_init(&r);
                r.config.pairs = 2;
                memcpy(r.dev.config.mac, cases[i].mac, 6);
                r.dev.config.max_virtqueue_pairs = cpu_to_le16(cases[i].pairs);
                r.dev.config.mtu = cpu_to_le16(cases[i].mtu);
                rig_start(&r);
                vw_driver_info(r.drv, &info);
                EXPECT_EQ(info.pairs, 1);
                EXPECT(info.mtu == 0 || info.mtu >= 68);
                EXPECT_EQ(info.mac[0] & 1, 0);
                EXPECT(info.mac[0] || info.mac[5]);
                if (cases[i].mac[0] == 2)
                        EXPECT_MEM(info.mac, cases[i].mac, 6);
                EXPECT_EQ(rig_send(&r, 60), 1);
                rig_end(&r);
        }
}

/* T-CFG-01, hostile M19 */
TEST(driver_config, that_never_stands_still_is_an_error)
{
        struct rig r;
        const char *why = "";

        rig_init(&r);
        r.config.ops = &r.ops;
        r.config.ctx = &r;
        r.dev.config_restless = true;
        EXPECT_EQ(vw_driver_new(&r.config, &r.drv, &why), 0);
        EXPECT_EQ(sd_connect(&r.dev, r.drv, &why), -EPROTO);
        EXPECT(strstr(why, "stands still"));
        r.dev.config_restless = false;
        rig_start(&r);
        rig_end(&r);
}

TEST(driver_config, may_be_shorter_or_absent)
{
        for (unsigned size = 0; size <= 24; size += 6) {
                struct vw_driver_info info;
                struct rig r;

                rig_init(&r);
                r.dev.config_size = size;
                if (size == 18)
                        r.dev.protocol_features &= ~BIT(VHOST_USER_PROTOCOL_F_CONFIG);
                rig_start(&r);
                vw_driver_info(r.drv, &info);
                EXPECT(info.link_up);
                EXPECT_EQ(info.mac[0] & 1, 0);
                EXPECT_EQ(rig_send(&r, 60), 1);
                rig_end(&r);
        }
}

TEST(driver_config, link_and_announcements_arrive_while_running)
{
        struct rig r;
        struct vw_driver_info info;

        start(&r);
        sd_lock(&r.dev);
        r.dev.config.status = 0;
        sd_unlock(&r.dev);
        sd_config_changed(&r.dev);
        EXPECT_EQ(vw_driver_dispatch(r.drv), 0);
        vw_driver_info(r.drv, &info);
        EXPECT(!info.link_up);
        EXPECT_EQ(r.changes, 2);
        sd_lock(&r.dev);
        r.dev.config.status = cpu_to_le16(VIRTIO_NET_S_LINK_UP | VIRTIO_NET_S_ANNOUNCE);
        sd_unlock(&r.dev);
        sd_config_changed(&r.dev);
        EXPECT_EQ(vw_driver_dispatch(r.drv), 0);
        vw_driver_info(r.drv, &info);
        EXPECT(info.link_up);
        expect_command(&r, "\3\0", 2);
        rig_end(&r);
}
