/* What a device offers and shows. */
#include <errno.h>
#include <string.h>

#include "device/queue.h"
#include "test.h"

static struct vw_port *port;
static struct vw_device *dev;

static void begin(struct vw_device_config config)
{
        const char *why = NULL;

        EXPECT_EQ(vw_port_open("null", &(struct vw_port_config){ .pairs = 8 }, &port, &why), 0);
        config.port = port;
        why = "nothing is wrong";
        EXPECT_EQ(vw_device_new(&config, &dev, &why), 0);
        EXPECT_STR(why, "nothing is wrong");
}

static void end(void)
{
        vw_device_free(dev);
        vw_port_close(port);
}

static struct vw_device_config defaults(void)
{
        return (struct vw_device_config)VW_DEVICE_CONFIG_INIT;
}

TEST(device_config, offers_only_what_is_possible)
{
        struct vw_device_config config = defaults();

        begin(config);
        EXPECT(!(dev->offered & (F(mq) | F(mtu))));
        EXPECT(dev->offered & F(version_1) && dev->offered & F(mrg_rxbuf) && dev->offered & F(ctrl_vq));
        EXPECT_EQ(features_closed(dev->offered), dev->offered);
        EXPECT(!(dev->offered & ~features_device()));
        end();
        config.pairs = 2;
        config.mtu = 9000;
        begin(config);
        EXPECT(dev->offered & F(mq) && dev->offered & F(mtu));
        end();
}

TEST(device_config, masks_a_bit_with_all_that_need_it)
{
        struct vw_device_config config = defaults();

        config.pairs = 2;
        config.features = ~(F(ctrl_vq) | F(csum));
        begin(config);
        EXPECT(!(dev->offered &
                 (F(ctrl_vq) | F(mq) | F(ctrl_rx) | F(notf_coal) | F(csum) | F(host_tso4) | F(host_ecn))));
        EXPECT(dev->offered & F(guest_tso4));
        end();
}

TEST(device_config, shows_its_space_in_parts_and_not_beyond)
{
        struct vw_device_config config = defaults();
        struct virtio_net_config space = { 0 };
        uint8_t byte = 0xee;

        config.pairs = 4;
        config.mtu = 1400;
        memcpy(config.mac, "\x02\x11\x22\x33\x44\x55", 6);
        begin(config);
        EXPECT_EQ(dev_config_read(dev, (uint8_t *)&space, 0, sizeof(space)), sizeof(space));
        EXPECT_MEM(space.mac, config.mac, 6);
        EXPECT_EQ(le16_to_cpu(space.status), VIRTIO_NET_S_LINK_UP);
        EXPECT_EQ(le16_to_cpu(space.max_virtqueue_pairs), 4);
        EXPECT_EQ(le16_to_cpu(space.mtu), 1400);
        EXPECT_EQ(space.duplex, 1);
        EXPECT_EQ(dev_config_read(dev, &byte, 5, 1), 1);
        EXPECT_EQ(byte, 0x55);
        EXPECT_EQ(dev_config_read(dev, (uint8_t *)&space, 20, sizeof(space)), 4);
        EXPECT_EQ(dev_config_read(dev, &byte, sizeof(space), 1), 0);
        EXPECT_EQ(dev_config_read(dev, &byte, UINT32_MAX, 1), 0);
        EXPECT_EQ(vw_device_link(dev, false), 0);
        dev_config_read(dev, (uint8_t *)&space, 0, sizeof(space));
        EXPECT_EQ(le16_to_cpu(space.status), 0);
        end();
}

TEST(device_config, places_the_control_queue_by_the_features)
{
        struct vw_device_config config = defaults();
        enum vw_queue_kind kind;

        config.pairs = 4;
        begin(config);
        EXPECT(dev_queue_kind(dev, F(ctrl_vq), 2, &kind) && kind == VW_CTRL);
        EXPECT(!dev_queue_kind(dev, F(ctrl_vq), 3, &kind) && !dev_queue_kind(dev, 0, 2, &kind));
        EXPECT(dev_queue_kind(dev, F(ctrl_vq) | F(mq), 2, &kind) && kind == VW_RX);
        EXPECT(dev_queue_kind(dev, F(ctrl_vq) | F(mq), 7, &kind) && kind == VW_TX);
        EXPECT(dev_queue_kind(dev, F(ctrl_vq) | F(mq), 8, &kind) && kind == VW_CTRL);
        EXPECT(!dev_queue_kind(dev, F(ctrl_vq) | F(mq), 9, &kind));
        end();
}

TEST(device_config, refuses_impossible_configurations_by_name)
{
        static const int no_cpu[] = { -1 };
        static const struct {
                struct vw_device_config config;
                const char *why;
        } cases[] = {
                {{ .pairs = 0 },                                  "pairs"  },
                { { .pairs = 65 },                                "pairs"  },
                { { .pairs = 1, .mtu = 67 },                      "mtu"    },
                { { .pairs = 1, .mac = { 1 } },                   "mac"    },
                { { .pairs = 1, .poll_us = VW_POLL_US_MAX + 1 },  "poll_us"},
                { { .pairs = 1, .rx_usecs = VW_USECS_MAX + 1 },   "usecs"  },
                { { .pairs = 1, .tx_frames = VW_FRAMES_MAX + 1 }, "frames" },
                { { .pairs = 1, .cpus = no_cpu, .n_cpus = 1 },    "cpus"   },
        };

        begin(defaults());
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct vw_device_config config = cases[i].config;
                struct vw_device *none = NULL;
                const char *why = NULL;

                config.port = port;
                EXPECT_EQ(vw_device_new(&config, &none, &why), -EINVAL);
                EXPECT_STR(why, cases[i].why);
                EXPECT(!none);
        }
        end();
}

TEST(device_settings, a_set_is_all_or_nothing_and_readable)
{
        const char *why = NULL;
        int64_t value;
        struct vw_setting both[] = {
                {-1,  VW_KEY_TX_USECS,  64},
                { -1, VW_KEY_TX_FRAMES, 16}
        };
        struct vw_setting bad[] = {
                {-1,  VW_KEY_POLL_US,  10              },
                { -1, VW_KEY_TX_USECS, VW_USECS_MAX + 1}
        };
        struct vw_setting wrong = { 0, VW_KEY_TX_USECS, 5 }, beyond = { 3, VW_KEY_POLL_US, 5 };
        struct vw_setting ctrl = { 2, VW_KEY_POLL_US, 5 }, foreign = { -1, VW_KEY_BQL, 1 };

        begin(defaults());
        EXPECT_EQ(vw_device_set(dev, both, 2, &why), 0);
        EXPECT_EQ(vw_device_get(dev, -1, VW_KEY_TX_USECS, &value), 0);
        EXPECT_EQ(value, 64);
        EXPECT_EQ(vw_device_get(dev, 1, VW_KEY_TX_FRAMES, &value), 0);
        EXPECT_EQ(value, 16);
        EXPECT_EQ(vw_device_get(dev, -1, VW_KEY_RX_USECS, &value), 0);
        EXPECT_EQ(value, 0);
        EXPECT_EQ(vw_device_set(dev, bad, 2, &why), -ERANGE);
        EXPECT_STR(why, "tx-usecs=10001 is over the limit 10000");
        EXPECT_EQ(vw_device_get(dev, -1, VW_KEY_POLL_US, &value), 0);
        EXPECT_EQ(value, 0);
        EXPECT_EQ(vw_device_set(dev, &wrong, 1, &why), -EINVAL);
        EXPECT_EQ(vw_device_set(dev, &beyond, 1, &why), -EINVAL);
        EXPECT_EQ(vw_device_set(dev, &ctrl, 1, &why), -EINVAL);
        EXPECT_EQ(vw_device_set(dev, &foreign, 1, &why), -ENOENT);
        EXPECT_EQ(vw_device_get(dev, 0, VW_KEY_TX_USECS, &value), -EINVAL);
        end();
}

TEST(device_settings, what_there_is_not_can_be_neither_set_nor_got)
{
        static const struct {
                struct vw_setting s;
                int error;
                const char *why;
        } cases[] = {
                {{ -1, VW_KEY_COUNT, 1 },       -ENOENT, "a device has no such setting"        },
                { { -1, (enum vw_key) - 1, 1 }, -ENOENT, "a device has no such setting"        },
                { { -1, VW_KEY_QUEUES, 1 },     -ENOENT, "a device has no such setting"        },
                { { 3, VW_KEY_POLL_US, 1 },     -EINVAL, "q3: there are 3 queues"              },
                { { 2, VW_KEY_POLL_US, 1 },     -EINVAL, "poll-us is not a setting of queue 2" },
                { { 0, VW_KEY_TX_USECS, 1 },    -EINVAL, "tx-usecs is not a setting of queue 0"},
        };
        const char *why = NULL;
        int64_t value = 77;

        begin(defaults());
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                EXPECT_EQ(vw_device_set(dev, &cases[i].s, 1, &why), cases[i].error);
                EXPECT_STR(why, cases[i].why);
                EXPECT_EQ(vw_device_get(dev, cases[i].s.queue, cases[i].s.key, &value), cases[i].error);
                EXPECT_EQ(value, 77);
        }
        EXPECT_EQ(vw_device_set(dev, &(struct vw_setting){ -1, VW_KEY_POLL_US, -1 }, 1, &why), -ERANGE);
        EXPECT_STR(why, "poll-us=-1 is under the limit 0");
        end();
}

TEST(device_settings, adaptive_is_a_word_for_both_directions)
{
        const char *why = NULL;
        int64_t value;

        begin(defaults());
        EXPECT_EQ(vw_device_set(dev, &(struct vw_setting){ -1, VW_KEY_ADAPTIVE, VW_ADAPTIVE_BOTH }, 1, &why),
                  0);
        EXPECT_EQ(vw_device_get(dev, -1, VW_KEY_ADAPTIVE, &value), 0);
        EXPECT_EQ(value, VW_ADAPTIVE_BOTH);
        EXPECT_EQ(vw_device_set(dev, &(struct vw_setting){ 1, VW_KEY_ADAPTIVE, VW_ADAPTIVE_OFF }, 1, &why),
                  0);
        EXPECT_EQ(vw_device_get(dev, -1, VW_KEY_ADAPTIVE, &value), 0);
        EXPECT_EQ(value, VW_ADAPTIVE_RX);
        EXPECT_EQ(vw_device_get(dev, 1, VW_KEY_ADAPTIVE, &value), 0);
        EXPECT_EQ(value, VW_ADAPTIVE_OFF);
        EXPECT_EQ(vw_device_set(dev, &(struct vw_setting){ 1, VW_KEY_ADAPTIVE, VW_ADAPTIVE_RX }, 1, &why),
                  -EINVAL);
        EXPECT_STR(why, "queue 1 is of the other direction");
        end();
}

TEST(device_settings, fit_in_a_word_at_their_limits)
{
        struct vw_queue_settings s = {
                .poll_us = VW_POLL_US_MAX, .usecs = VW_USECS_MAX, .frames = VW_FRAMES_MAX, .adaptive = true
        };
        struct vw_queue_settings back = settings_unpack(settings_pack(&s));

        EXPECT_EQ(back.poll_us, s.poll_us);
        EXPECT_EQ(back.usecs, s.usecs);
        EXPECT_EQ(back.frames, s.frames);
        EXPECT(back.adaptive);
}
