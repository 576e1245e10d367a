/* Our device and our driver, joined by a socket in one process: what one sends the other receives, and both count the same. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "echo.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "vwire/device.h"
#include "vwire/driver.h"

#define PATIENCE (20 * NSEC_PER_SEC)

/* The device's control thread. */
struct host {
        struct vw_port *port;
        struct vw_device *dev;
        pthread_t thread;
        int stop;
};

static void *host_run(void *arg)
{
        struct host *h = arg;
        struct pollfd p[2] = {
                {.fd = vw_device_fd(h->dev), .events = POLLIN},
                { .fd = h->stop,             .events = POLLIN}
        };

        while (!(poll(p, 2, -1) > 0 && p[1].revents))
                vw_device_dispatch(h->dev);
        return NULL;
}

static void host_open(struct host *h, const char *port, int fd)
{
        struct vw_device_config c = VW_DEVICE_CONFIG_INIT;
        struct vw_port_config pc = { .pairs = 1 };
        const char *why = "";

        EXPECT_EQ(vw_port_open(port, &pc, &h->port, &why), 0);
        c.port = h->port;
        c.nice = 0;
        EXPECT_EQ(vw_device_new(&c, &h->dev, &why), 0);
        EXPECT_EQ(vw_device_serve(h->dev, fd), 0);
        h->stop = eventfd(0, EFD_CLOEXEC);
        EXPECT_EQ(pthread_create(&h->thread, NULL, host_run, h), 0);
}

static void host_close(struct host *h)
{
        uint64_t one = 1;

        EXPECT_EQ(write(h->stop, &one, sizeof(one)), sizeof(one));
        pthread_join(h->thread, NULL);
        vw_device_free(h->dev);
        vw_port_close(h->port);
        close(h->stop);
}

static void echo_all(struct vw_driver_config c, uint64_t count, uint32_t len)
{
        struct echo g = { 0 };
        struct host h;
        struct vw_stats stats;
        const char *why = "";
        uint64_t until = clock_now() + PATIENCE;
        int pair[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        host_open(&h, "loop", pair[1]);
        c.ops = &echo_ops;
        c.ctx = &g;
        c.tx_bufs = 256;
        c.offloads = 31;
        EXPECT_EQ(vw_driver_new(&c, &g.drv, &why), 0);
        EXPECT_EQ(vw_driver_connect(g.drv, pair[0], &why), 0);
        while ((g.received < count || g.done < count) && clock_now() < until) {
                while (g.sent < count && echo_send(&g, len)) {
                }
                vw_driver_xmit(g.drv, 0, NULL, 0, false);
                if (vw_driver_poll(g.drv, 0, 64) == 0)
                        vw_driver_wait(g.drv, 0, until);
        }
        vw_driver_stats(g.drv, &stats);
        EXPECT_EQ(g.received, count);
        EXPECT_EQ(g.bad, 0);
        EXPECT_EQ(stats.queues[0].counters[VW_C_packets], count);
        EXPECT_EQ(stats.queues[1].counters[VW_C_packets], count);
        EXPECT_EQ(stats.queues[1].counters[VW_C_watchdogs], 0);
        vw_device_stats(h.dev, &stats);
        EXPECT_EQ(stats.queues[0].counters[VW_C_packets], count);
        EXPECT_EQ(stats.queues[1].counters[VW_C_packets], count);
        vw_driver_free(g.drv);
        host_close(&h);
}

TEST(link, echoes_frames_in_napi_mode)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;

        echo_all(c, test_scale(50000, 1000000), 64);
}

TEST(link, echoes_frames_in_orphan_mode)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;

        c.tx_mode = VW_TX_ORPHAN;
        echo_all(c, test_scale(50000, 1000000), 64);
}

/* The device waits for room for the longest frame, whatever comes. */
TEST(link, echoes_frames_through_small_rings)
{
        for (unsigned size = 32; size <= 128; size *= 2) {
                struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;

                c.queue_size = size;
                echo_all(c, 5000, 64);
        }
}

TEST(link, echoes_long_frames_over_mergeable_buffers)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;

        echo_all(c, test_scale(5000, 100000), 60000);
}

/* ---- settings under traffic: the control thread is another than the owner ---- */

struct echoer {
        struct echo g;
        pthread_t thread;
        uint64_t count;
        bool stop, ended;
};

static void *echo_thread(void *arg)
{
        struct echoer *e = arg;
        uint64_t until = clock_now() + 3 * PATIENCE;

        while ((e->g.received < e->count || e->g.done < e->count) && clock_now() < until) {
                while (e->g.sent < e->count && e->g.sent < e->g.received + 200 && echo_send(&e->g, 1000)) {
                }
                vw_driver_xmit(e->g.drv, 0, NULL, 0, false);
                if (vw_driver_poll(e->g.drv, 0, 64) == 0)
                        vw_driver_wait(e->g.drv, 0, until);
        }
        __atomic_store_n(&e->ended, true, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
                vw_driver_poll(e->g.drv, 0, 64);
                vw_driver_wait(e->g.drv, 0, clock_now() + NSEC_PER_MSEC);
        }
        vw_driver_leave(e->g.drv, 0);
        return NULL;
}

static void set_something(struct vw_driver *drv, uint64_t *rng)
{
        static const struct {
                enum vw_key key;
                uint32_t values;
        } what[] = {
                {VW_KEY_TX_MODE,           2},
                { VW_KEY_CLEAN_TX_FROM_RX, 2},
                { VW_KEY_TX_INTERRUPTS,    2},
                { VW_KEY_KICK,             2},
                { VW_KEY_BQL,              2},
                { VW_KEY_RX_BUFFERS,       3},
                { VW_KEY_POLL_US,          3},
                { VW_KEY_TX_USECS,         9},
                { VW_KEY_TX_FRAMES,        9},
                { VW_KEY_RX_USECS,         9},
                { VW_KEY_RX_FRAMES,        9}
        };
        unsigned i = rng_below(rng, ARRAY_SIZE(what));
        struct vw_setting s = { -1, what[i].key, rng_below(rng, what[i].values) };
        const char *why = "";

        EXPECT_EQ(vw_driver_set(drv, &s, 1, &why), 0);
}

/* T-TX-11 and its like, with a real device */
TEST(link, settings_change_under_traffic_and_nothing_is_lost)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;
        struct echoer e = { .count = test_scale(30000, 1000000) };
        struct vw_stats *stats = malloc(sizeof(*stats));
        struct host h;
        const char *why = "";
        uint64_t rng = 11;
        int pair[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        host_open(&h, "loop", pair[1]);
        c.ops = &echo_ops;
        c.ctx = &e.g;
        c.tx_bufs = 512;
        EXPECT_EQ(vw_driver_new(&c, &e.g.drv, &why), 0);
        EXPECT_EQ(vw_driver_connect(e.g.drv, pair[0], &why), 0);
        EXPECT_EQ(pthread_create(&e.thread, NULL, echo_thread, &e), 0);
        while (!__atomic_load_n(&e.ended, __ATOMIC_ACQUIRE)) {
                set_something(e.g.drv, &rng);
                vw_driver_stats(e.g.drv, stats);
        }
        vw_driver_stats(e.g.drv, stats);
        EXPECT_EQ(stats->queues[0].counters[VW_C_packets], e.count);
        __atomic_store_n(&e.stop, true, __ATOMIC_RELEASE);
        pthread_join(e.thread, NULL);
        EXPECT_EQ(e.g.received, e.count);
        EXPECT_EQ(e.g.done, e.count);
        EXPECT_EQ(e.g.bad, 0);
        free(stats);
        vw_driver_free(e.g.drv);
        host_close(&h);
}
