/* The control side: finds the device, joins it to the port, and does so again when it has left. */
#include "attach/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/clock.h"
#include "attach/say.h"
#include "attach/worker.h"

#define RETRY_FIRST_NS 10000000u   /* 10 ms after a failure, */
#define RETRY_MAX_NS   1000000000u /* doubled up to a second */
#define TX_LAZY_US     1000u       /* a port's frames are gone from it once they are read: nobody waits */

enum { EV_DRIVER, EV_PORT, EV_LISTEN, EV_ALARM };

struct attach {
        struct attach_config config;
        char *path;
        struct vw_driver *drv;
        struct vw_driver_ops ops;
        struct lane *lanes;
        unsigned n_lanes;
        struct workers *workers;
        int epfd, alarm; /* a worker has found its rings broken */
        bool connected, link_wanted, promisc;
        uint64_t retry_at, retry_ns;
        char last_failure[160];
};

/* ---- what the driver tells us ---- */

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        return lane_to_port(&((struct attach *)ctx)->lanes[pair], pkts, n);
}

/* The port becomes what the device says: its address, its MTU, its link; and the device learns whether the port has neighbours. */
static void join(struct attach *a)
{
        struct vw_driver_info d;
        struct vw_port_info p;

        vw_driver_info(a->drv, &d);
        vw_port_info(a->config.port, &p);
        if (!d.connected) {
                vw_port_set_carrier(a->config.port, false);
                return;
        }
        vw_port_set_rx_offloads(a->config.port, d.tx_offloads);
        vw_port_set_active(a->config.port, d.pairs);
        vw_port_set_identity(a->config.port, memcmp(d.mac, p.mac, sizeof(d.mac)) ? d.mac : NULL,
                             d.mtu == p.mtu ? 0 : d.mtu);
        vw_port_set_carrier(a->config.port, d.link_up && a->link_wanted);
        if (p.bridged != a->promisc && vw_driver_set_promisc(a->drv, p.bridged) != -ETIMEDOUT)
                a->promisc = p.bridged;
}

static void on_changed(void *ctx)
{
        join(ctx);
}

/* ---- finding the device ---- */

static void later(struct attach *a)
{
        a->retry_at = clock_ns() + a->retry_ns;
        a->retry_ns = a->retry_ns * 2 < RETRY_MAX_NS ? a->retry_ns * 2 : RETRY_MAX_NS;
}

/* The same reason again says nothing new. */
static void failed(struct attach *a, const char *why)
{
        if (strcmp(a->last_failure, why) != 0)
                attach_say(&a->config, VW_LOG_WARN, "no device: %s", why);
        snprintf(a->last_failure, sizeof(a->last_failure), "%s", why);
}

static const char *last_close(const struct attach *a)
{
        struct vw_driver_info d;

        vw_driver_info(a->drv, &d);
        return d.last_close;
}

static void lost(struct attach *a, const char *why)
{
        a->connected = false;
        a->promisc = false;
        attach_say(&a->config, VW_LOG_WARN, "the connection has ended: %s", why);
        vw_port_set_rx_offloads(a->config.port, 0); /* what the next one takes is not known */
        join(a);
        if (a->path)
                later(a);
}

/* Takes the fd, whatever comes of it. */
static void start(struct attach *a, int fd)
{
        const char *why = "";
        int r = vw_driver_connect(a->drv, fd, &why);
        char quoted[256];

        if (r) {
                failed(a, why);
                close(fd);
                if (a->path)
                        later(a);
                return;
        }
        a->connected = true;
        a->retry_ns = RETRY_FIRST_NS;
        a->retry_at = NEVER;
        a->last_failure[0] = '\0';
        for (unsigned i = 0; i < a->n_lanes; i++)
                __atomic_store_n(&a->lanes[i].error, 0, __ATOMIC_RELAXED);
        if (a->path)
                attach_say(&a->config, VW_LOG_INFO, "connected path=%s",
                           vw_log_value(a->path, quoted, sizeof(quoted)));
        else
                attach_say(&a->config, VW_LOG_INFO, "connected");
}

static void try_connect(struct attach *a)
{
        struct sockaddr_un sun = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        memcpy(sun.sun_path, a->path, strlen(a->path));
        if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0) {
                start(a, fd);
                return;
        }
        failed(a, strerror(errno));
        if (fd >= 0)
                close(fd);
        later(a);
}

/* One device at a time: another that comes is turned away. */
static void try_accept(struct attach *a)
{
        /* cppcheck-suppress nullPointer ; the address is optional */
        int fd = accept4(a->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return;
        if (a->connected) {
                attach_say(&a->config, VW_LOG_WARN, "a second device is turned away");
                close(fd);
                return;
        }
        start(a, fd);
}

/* A pair whose rings are broken is dead until the next connection; when all are, that is made now. */
static void check_rings(struct attach *a)
{
        uint64_t n;

        if (read(a->alarm, &n, sizeof(n)) < 0 || !a->connected)
                return;
        for (unsigned i = 0; i < a->n_lanes; i++)
                if (!__atomic_load_n(&a->lanes[i].error, __ATOMIC_RELAXED))
                        return;
        vw_driver_disconnect(a->drv);
        a->retry_ns = RETRY_MAX_NS;
        lost(a, "it has broken all rings");
}

/* ---- life ---- */

static int config_check(const struct attach_config *c, const char **ret_why)
{
        if (!c->connect_path == (c->listen_fd < 0))
                *ret_why = "either a path to connect to or a listening socket is needed";
        else if (c->connect_path && strlen(c->connect_path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
                *ret_why = "the socket's path is over the limit of 107 bytes";
        else
                return 0;
        return -EINVAL;
}

static int watch(struct attach *a, int fd, uint32_t tag)
{
        struct epoll_event ev = { .events = EPOLLIN, .data.u32 = tag };

        return fd < 0 || epoll_ctl(a->epfd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : -errno;
}

static int make_driver(struct attach *a, const char **ret_why)
{
        struct vw_driver_config *c = &a->config.driver;
        struct vw_port_info p;

        vw_port_info(a->config.port, &p);
        a->ops = (struct vw_driver_ops){ .rx = on_rx, .changed = on_changed };
        c->ops = &a->ops;
        c->ctx = a;
        c->offloads = p.tx_offloads;
        c->tx_memory = 0;
        c->tx_bufs = (c->queue_size < ATTACH_BUFS_MAX ? c->queue_size : ATTACH_BUFS_MAX) + LANE_BATCH + 1;
        c->promisc = false;
        c->tx_lazy_us = TX_LAZY_US;
        return vw_driver_new(c, &a->drv, ret_why);
}

static int set_up(struct attach *a, const char **ret_why)
{
        int r = make_driver(a, ret_why);

        if (r)
                return r;
        *ret_why = "out of memory or file descriptors";
        a->lanes = aligned_alloc(64, a->n_lanes * sizeof(*a->lanes));
        a->epfd = epoll_create1(EPOLL_CLOEXEC);
        a->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (!a->lanes || a->epfd < 0 || a->alarm < 0)
                return -ENOMEM;
        for (unsigned i = 0; i < a->n_lanes; i++)
                lane_init(&a->lanes[i], a->drv, &a->config, i);
        r = watch(a, vw_driver_fd(a->drv), EV_DRIVER);
        if (!r)
                r = watch(a, vw_port_event_fd(a->config.port), EV_PORT);
        if (!r)
                r = watch(a, a->config.listen_fd, EV_LISTEN);
        if (!r)
                r = watch(a, a->alarm, EV_ALARM);
        return r ? r : workers_start(&a->config, a->lanes, a->n_lanes, a->alarm, &a->workers);
}

int attach_new(const struct attach_config *config, struct attach **ret_attach, const char **ret_why)
{
        struct attach *a;
        int r = config_check(config, ret_why);

        if (r)
                return r;
        a = calloc(1, sizeof(*a));
        if (!a)
                return -ENOMEM;
        a->config = *config;
        a->epfd = a->alarm = -1;
        a->n_lanes = config->driver.pairs;
        a->link_wanted = true;
        a->retry_ns = RETRY_FIRST_NS;
        a->retry_at = NEVER;
        r = set_up(a, ret_why);
        if (!r && config->connect_path) {
                a->path = strdup(config->connect_path);
                a->retry_at = 0;
                r = a->path ? 0 : -ENOMEM;
        }
        if (r) {
                attach_free(a);
                return r;
        }
        join(a); /* no carrier yet */
        *ret_attach = a;
        return 0;
}

void attach_free(struct attach *a)
{
        if (!a)
                return;
        if (a->drv)
                vw_driver_disconnect(a->drv); /* the owners still run, and give back what is out */
        workers_stop(a->workers);
        vw_driver_free(a->drv);
        if (a->connected)
                vw_port_set_carrier(a->config.port, false);
        free(a->lanes);
        if (a->epfd >= 0)
                close(a->epfd);
        if (a->alarm >= 0)
                close(a->alarm);
        free(a->path);
        free(a);
}

/* ---- steps ---- */

int attach_fd(const struct attach *a)
{
        return a->epfd;
}

uint64_t attach_deadline(const struct attach *a)
{
        uint64_t at = vw_driver_deadline(a->drv);

        return at < a->retry_at ? at : a->retry_at;
}

void attach_step(struct attach *a)
{
        struct epoll_event ev[4];
        int n = epoll_wait(a->epfd, ev, 4, 0);

        for (int i = 0; i < n; i++) {
                switch (ev[i].data.u32) {
                case EV_PORT:
                        vw_port_event_ack(a->config.port);
                        join(a);
                        break;
                case EV_LISTEN:
                        try_accept(a);
                        break;
                case EV_ALARM:
                        check_rings(a);
                        break;
                default:
                        break;
                }
        }
        if (vw_driver_dispatch(a->drv) == -ENOTCONN)
                lost(a, last_close(a));
        if (!a->connected && a->retry_at <= clock_ns())
                try_connect(a);
}

/* ---- the outside ---- */

void attach_stats(struct attach *a, struct vw_stats *ret_stats)
{
        struct vw_port_info p;

        vw_driver_stats(a->drv, ret_stats);
        vw_port_info(a->config.port, &p);
        ret_stats->has_port = true;
        memcpy(ret_stats->port.kind, p.kind, sizeof(p.kind));
        memcpy(ret_stats->port.name, p.name, sizeof(p.name));
        ret_stats->port.link_up = p.link_up;
        ret_stats->port.dropped = p.dropped;
        ret_stats->port.capture_lost = vw_port_capture_lost(a->config.port);
        for (unsigned i = 0; i < a->n_lanes; i++) {
                struct vw_queue_stats *rx = &ret_stats->queues[2 * i];
                uint64_t down = __atomic_load_n(&a->lanes[i].port_down, __ATOMIC_RELAXED);
                uint64_t error = __atomic_load_n(&a->lanes[i].port_error, __ATOMIC_RELAXED);

                /* the driver has handed them over; that the port lost them makes them drops */
                rx->counters[VW_C_packets] -= down + error;
                rx->counters[VW_C_bytes] -= __atomic_load_n(&a->lanes[i].lost_bytes, __ATOMIC_RELAXED);
                rx->drops[VW_DROP_PORT_DOWN] += down;
                rx->drops[VW_DROP_PORT_ERROR] += error;
        }
}

struct vw_driver *attach_driver(struct attach *a)
{
        return a->drv;
}

void attach_link(struct attach *a, bool up)
{
        a->link_wanted = up;
        join(a);
}
