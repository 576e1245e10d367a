/* Our device and our driver, joined by a socket in one process: what one sends the other receives, and both count the same. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
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

struct guest {
        struct vw_driver *drv;
        uint64_t sent, done, received, bad;
        uint32_t next; /* sequence number that is to come back next */
};

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct guest *g = ctx;

        (void)pair;
        for (unsigned i = 0; i < n; i++) {
                uint32_t seq;

                memcpy(&seq, (uint8_t *)pkts[i].iov[0].iov_base + 14, sizeof(seq));
                g->bad += seq != g->next;
                g->next = seq + 1;
        }
        g->received += n;
        return n;
}

static void on_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        struct guest *g = ctx;

        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(g->drv, pair, cookies[i]);
        g->done += n;
}

static bool send_one(struct guest *g, uint32_t len)
{
        struct iovec iov;
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        uint32_t seq = (uint32_t)g->sent;

        if (!vw_driver_tx_ready(g->drv, 0))
                return false;
        iov.iov_base = pkt.cookie = vw_driver_buf_get(g->drv, 0);
        if (!iov.iov_base)
                return false;
        iov.iov_len = len;
        memset(iov.iov_base, 0, 18);
        memcpy((uint8_t *)iov.iov_base + 14, &seq, sizeof(seq));
        EXPECT_EQ(vw_driver_xmit(g->drv, 0, &pkt, 1, true), 1);
        g->sent++;
        return true;
}

static void echo_all(struct vw_driver_config c, uint64_t count, uint32_t len)
{
        static const struct vw_driver_ops ops = { .rx = on_rx, .tx_done = on_done };
        struct guest g = { 0 };
        struct host h;
        struct vw_stats stats;
        const char *why = "";
        uint64_t until = clock_now() + PATIENCE;
        int pair[2];

        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        host_open(&h, "loop", pair[1]);
        c.ops = &ops;
        c.ctx = &g;
        c.tx_bufs = 256;
        c.offloads = 31;
        EXPECT_EQ(vw_driver_new(&c, &g.drv, &why), 0);
        EXPECT_EQ(vw_driver_connect(g.drv, pair[0], &why), 0);
        while ((g.received < count || g.done < count) && clock_now() < until) {
                while (g.sent < count && send_one(&g, len)) {
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

TEST(link, echoes_long_frames_over_mergeable_buffers)
{
        struct vw_driver_config c = VW_DRIVER_CONFIG_INIT;

        echo_all(c, test_scale(5000, 100000), 60000);
}
