/* The life of a connection: from a socket to running rings and back, over and over, with every device that may be met. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drv_rig.h"
#include "mock_vhost.h"
#include "scale.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static void traffic(struct rig *r)
{
        EXPECT_EQ(rig_send(r, 60), 1);
        EXPECT_EQ(sd_consume(&r->dev, r->pair), 1);
        EXPECT(rig_arrive(r, 100, 3));
        EXPECT_EQ(rig_poll(r, 64, SEC), 1);
        EXPECT_EQ(r->done, r->sent);
}

/* What vw_driver_connect() makes of the device as it is set up. */
static int try(struct rig *r, const char **ret_why)
{
        r->config.ops = &r->ops;
        r->config.ctx = r;
        if (!r->drv)
                EXPECT_EQ(vw_driver_new(&r->config, &r->drv, ret_why), 0);
        return sd_connect(&r->dev, r->drv, ret_why);
}

TEST(driver_life, refuses_a_configuration_that_cannot_be)
{
        static const struct {
                size_t member; /* an unsigned one */
                unsigned value;
                const char *why;
        } cases[] = {
                {offsetof(struct vw_driver_config,  pairs),            0,                     "pairs must be 1..64"},
                { offsetof(struct vw_driver_config, pairs),            65,                    "pairs must be 1..64"},
                { offsetof(struct vw_driver_config, queue_size),       0,                     "power of two"       },
                { offsetof(struct vw_driver_config, queue_size),       1,                     "power of two"       },
                { offsetof(struct vw_driver_config, queue_size),       100,                   "power of two"       },
                { offsetof(struct vw_driver_config, queue_size),       2 * VW_QUEUE_SIZE_MAX, "power of two"       },
                { offsetof(struct vw_driver_config, poll_us),          VW_POLL_US_MAX + 1,    "poll-us"            },
                { offsetof(struct vw_driver_config, tx_usecs),         VW_USECS_MAX + 1,      "usecs"              },
                { offsetof(struct vw_driver_config, rx_usecs),         VW_USECS_MAX + 1,      "usecs"              },
                { offsetof(struct vw_driver_config, tx_frames),        VW_FRAMES_MAX + 1,     "frames"             },
                { offsetof(struct vw_driver_config, rx_frames),        VW_FRAMES_MAX + 1,     "frames"             },
                { offsetof(struct vw_driver_config, ctrl_timeout_ms),  0,                     "0 ms"               },
                { offsetof(struct vw_driver_config, watchdog_ms),      0,                     "0 ms"               },
                { offsetof(struct vw_driver_config, mac),              1,                     "group address"      },
                { offsetof(struct vw_driver_config, adaptive),         4,                     "enum vw_adaptive"   },
                { offsetof(struct vw_driver_config, tx_mode),          2,                     "enum vw_tx_mode"    },
                { offsetof(struct vw_driver_config, kick),             2,                     "enum vw_kick"       },
                { offsetof(struct vw_driver_config, rx_buffers),       3,                     "enum vw_rx_buffers" },
                { offsetof(struct vw_driver_config, clean_tx_from_rx), 2,                     "-1, 0 or 1"         },
                { offsetof(struct vw_driver_config, clean_tx_from_rx), (unsigned)-2,          "-1, 0 or 1"         },
        };
        struct vw_driver *drv = NULL;

        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;
                const char *why = "";

                memcpy((char *)&c + cases[i].member, &cases[i].value, sizeof(cases[i].value));
                EXPECT_EQ(vw_driver_new(&c, &drv, &why), -EINVAL);
                if (!strstr(why, cases[i].why))
                        fail_msg("\"%s\" does not say \"%s\"", why, cases[i].why);
                EXPECT(!drv);
        }
}

TEST(driver_life, refuses_numbers_for_a_direction_that_is_left_to_the_device)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;
        struct vw_driver *drv = NULL;
        const char *why = "";

        c.adaptive = VW_ADAPTIVE_TX;
        c.tx_frames = 1;
        EXPECT_EQ(vw_driver_new(&c, &drv, &why), -EINVAL);
        EXPECT(strstr(why, "adaptive"));
        c.adaptive = VW_ADAPTIVE_RX;
        why = "nothing is wrong";
        EXPECT_EQ(vw_driver_new(&c, &drv, &why), 0);
        EXPECT_STR(why, "nothing is wrong");
        vw_driver_free(drv);
}

TEST(driver_life, works_before_and_after_every_connection)
{
        struct rig r;
        struct vw_driver_info info;

        rig_init(&r);
        rig_start(&r);
        traffic(&r);
        vw_driver_info(r.drv, &info);
        EXPECT(info.connected);
        vw_driver_disconnect(r.drv);
        vw_driver_disconnect(r.drv);
        vw_driver_info(r.drv, &info);
        EXPECT(!info.connected);
        EXPECT_STR(info.last_close, "closed by us");
        rig_start(&r);
        traffic(&r);
        rig_end(&r);
}

TEST(driver_life, what_control_gives_back_may_be_put_back_at_once)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        vw_driver_leave(r.drv, r.pair); /* now control does the work itself, callbacks included */
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(r.done, 1);
        rig_start(&r);
        traffic(&r);
        rig_end(&r);
}

TEST(driver_life, a_second_socket_is_turned_away)
{
        struct rig r;
        const char *why = "";

        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(vw_driver_connect(r.drv, 0, &why), -EISCONN);
        traffic(&r);
        rig_end(&r);
}

/* hostile K04, the driver's side */
TEST(driver_life, a_thousand_connections_leave_nothing_behind)
{
        struct rig r;
        unsigned fds = 0, mappings = 0;

        rig_init(&r);
        r.config.pairs = 2;
        for (uint64_t i = 0; i < test_scale(50, 1000); i++) {
                rig_start(&r);
                traffic(&r);
                EXPECT_EQ(rig_send(&r, 60), 1); /* one is always out */
                if (i % 2)
                        vw_driver_disconnect(r.drv);
                sd_leave(&r.dev);
                if (i % 2 == 0)
                        EXPECT_EQ(vw_driver_dispatch(r.drv), -ENOTCONN);
                EXPECT_EQ(r.done, r.sent);
                if (i == 0) {
                        fds = mock_count_fds();
                        mappings = mock_count_mappings();
                }
                EXPECT_EQ(mock_count_fds(), fds);
                EXPECT_EQ(mock_count_mappings(), mappings);
        }
        rig_start(&r);
        rig_end(&r);
}

TEST(driver_life, memory_is_sealed_against_shrinking)
{
        struct rig r;
        int fd;

        rig_init(&r);
        rig_start(&r);
        fd = r.drv->arena.fd;
        EXPECT_EQ(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        EXPECT_EQ(ftruncate(fd, 0), -1);
        rig_end(&r);
}

/* T-MQ-04 */
TEST(driver_life, a_ring_that_the_device_refuses_undoes_all_the_others)
{
        struct rig r;
        const char *why = "";

        rig_init(&r);
        r.config.pairs = SD_PAIRS;
        for (int k = 0; k < SD_RINGS; k++) {
                r.dev.refused_ring = k;
                EXPECT(try(&r, &why) < 0);
                EXPECT(*why);
                EXPECT_EQ(rig_send(&r, 60), -ENETDOWN);
                for (unsigned i = 0; i < SD_PAIRS; i++)
                        EXPECT_EQ(r.drv->pairs[i].rx_kick, -1);
        }
        r.dev.refused_ring = -1;
        EXPECT_EQ(try(&r, &why), 0);
        traffic(&r);
        rig_end(&r);
}

TEST(driver_life, a_device_that_refuses_the_features_is_refused)
{
        struct rig r;
        const char *why = "";

        rig_init(&r);
        r.dev.forgets_status = true; /* FEATURES_OK is not there when it is read again (3.1.1) */
        EXPECT_EQ(try(&r, &why), -EOPNOTSUPP);
        EXPECT_STR(why, "the device refused the features");
        r.dev.forgets_status = false;
        EXPECT_EQ(try(&r, &why), 0);
        EXPECT_EQ(r.dev.status, 15);
        rig_end(&r);
}

TEST(driver_life, every_protocol_feature_may_be_missing)
{
        static const unsigned bits[] = { VHOST_USER_PROTOCOL_F_MQ, VHOST_USER_PROTOCOL_F_REPLY_ACK,
                                         VHOST_USER_PROTOCOL_F_CONFIG, VHOST_USER_PROTOCOL_F_BACKEND_REQ,
                                         VHOST_USER_PROTOCOL_F_STATUS };

        for (unsigned set = 0; set < 1u << ARRAY_SIZE(bits); set++) {
                struct rig r;

                rig_init(&r);
                r.config.pairs = 2;
                for (unsigned i = 0; i < ARRAY_SIZE(bits); i++)
                        if (set & 1u << i)
                                r.dev.protocol_features &= ~BIT(bits[i]);
                rig_start(&r);
                traffic(&r);
                if (!(r.dev.protocol_features & BIT(VHOST_USER_PROTOCOL_F_CONFIG)) &&
                    !(r.dev.protocol_features & BIT(VHOST_USER_PROTOCOL_F_MQ)))
                        EXPECT_EQ(r.drv->net.pairs, 1);
                rig_end(&r);
        }
}

TEST(driver_life, protocol_features_may_not_be_offered_at_all)
{
        struct rig r;

        rig_init(&r);
        r.dev.features &= ~F(protocol_features);
        rig_start(&r);
        traffic(&r);
        rig_end(&r);
}

TEST(driver_life, every_ring_size_works)
{
        for (unsigned size = 2; size <= VW_QUEUE_SIZE_MAX; size *= 2) {
                struct rig r;

                rig_init(&r);
                r.config.queue_size = size;
                r.config.offloads = 31;
                rig_start(&r);
                for (unsigned i = 0; i < 10; i++)
                        traffic(&r);
                rig_end(&r);
        }
}

TEST(driver_life, an_mtu_that_does_not_fit_the_ring_is_not_taken)
{
        struct rig r;
        struct vw_driver_info info;

        rig_init(&r);
        r.config.queue_size = 2;
        r.dev.config.mtu = cpu_to_le16(65535);
        rig_start(&r);
        vw_driver_info(r.drv, &info);
        EXPECT_EQ(info.mtu, 0);
        EXPECT(!(info.features & F(mtu)));
        traffic(&r);
        rig_end(&r);
}

TEST(driver_life, a_large_mtu_works_in_every_layout)
{
        for (unsigned layout = 0; layout < 3; layout++) {
                struct rig r;

                rig_init(&r);
                r.checks = true;
                r.dev.config.mtu = cpu_to_le16(9000);
                if (layout)
                        r.dev.features &= ~F(mrg_rxbuf);
                if (layout == 2)
                        r.dev.features &= ~F(indirect_desc);
                rig_start(&r);
                for (unsigned i = 0; i < 200; i++) {
                        EXPECT(rig_arrive(&r, 9018, (uint8_t)i));
                        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                }
                EXPECT_EQ(r.received, 200);
                rig_end(&r);
        }
}

/* A hung device must not keep a program that is told to end. */
TEST(driver_life, hung_device_is_left_within_a_second)
{
        struct rig r;
        uint64_t begin;

        rig_init(&r);
        r.config.pairs = SD_PAIRS;
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        sd_lock(&r.dev); /* it answers nothing any more */
        begin = clock_now();
        vw_driver_disconnect(r.drv);
        EXPECT(clock_now() - begin < SEC);
        sd_unlock(&r.dev);
        EXPECT_EQ(r.done, 1);
        rig_end(&r);
}

TEST(driver_life, hung_device_fails_a_connection_in_time)
{
        struct rig r;
        const char *why = "";
        uint64_t begin = clock_now();
        int pair[2];

        rig_init(&r);
        r.config.ops = &r.ops;
        EXPECT_EQ(vw_driver_new(&r.config, &r.drv, &why), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        EXPECT_EQ(vw_driver_connect(r.drv, pair[0], &why), -ETIMEDOUT);
        EXPECT(clock_now() - begin < SEC);
        close(pair[1]);
        EXPECT(vw_driver_connect(r.drv, pair[0], &why) < 0); /* the socket is still ours */
        close(pair[0]);
        rig_end(&r);
}
