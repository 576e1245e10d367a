/* The device object: birth, session, port events, death.  What the front end asks for is in session.c, the data path begins in worker.c. */
#include "vwire/device.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/notify.h"
#include "device/queue.h"

/* ---- the control thread and its workers ---- */

#define STUCK_MS 100 /* a worker answers within a burst, which takes a fraction of a millisecond */

/* A worker never blocks, with one exception that a front end can force if it clears O_NONBLOCK and fills or empties a call or
 * kick fd in the moment between our look and our call.  Then these fds are emptied and filled from here. */
static void free_stuck(struct dev_worker *w)
{
        struct vw_device *dev = w->dev;
        uint64_t one = 1;

        for (unsigned i = 0; i < dev->n_vrings; i++) {
                struct dev_queue *q = &dev->queues[i];
                int call = load_relaxed(&q->call.fd), err = load_relaxed(&q->err.fd);
                int kick = load_relaxed(&q->kick_fd);

                if (q->worker != w)
                        continue;
                if (call >= 0)
                        notify_take(call);
                if (err >= 0)
                        notify_take(err);
                if (kick >= 0 && write(kick, &one, sizeof(one)) < 0)
                        log_debug("device", "kick fd cannot be written index=%u", q->index);
        }
}

void dev_on_worker(struct dev_worker *w, void (*fn)(void *arg), void *arg)
{
        mailbox_post(&w->mailbox, fn, arg);
        while (!mailbox_wait(&w->mailbox, STUCK_MS))
                free_stuck(w);
}

void dev_news(struct vw_device *dev)
{
        uint64_t one = 1;

        check(write(dev->news, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

/* ---- events ---- */

static void end_session(struct vw_device *dev, const char *why)
{
        if (!dev->session)
                return;
        evloop_remove(dev->loop, &dev->session_watch);
        snprintf(dev->last_close, sizeof(dev->last_close), "%s", why);
        vu_backend_free(dev->session);
        dev->session = NULL;
}

static void session_ready(struct ev_watch *watch, uint32_t events)
{
        struct vw_device *dev = container_of(watch, struct vw_device, session_watch);
        char why[sizeof(dev->last_close)];
        const char *reason;
        int r = vu_backend_dispatch(dev->session, &reason);

        (void)events;
        if (r == 0)
                return;
        snprintf(why, sizeof(why), "%s", reason);
        log_limited(&dev->departures, clock_now(), r == -ECONNRESET ? VW_LOG_INFO : VW_LOG_WARN, "device",
                    "front end has gone why=\"%s\"", why);
        end_session(dev, why);
        dev->left = true;
}

static void port_ready(struct ev_watch *watch, uint32_t events)
{
        struct vw_device *dev = container_of(watch, struct vw_device, port_watch);

        (void)events;
        vw_port_event_ack(dev->port);
        if (dev_update_port(dev)) {
                log_info("device", "link is %s", dev->link_up ? "up" : "down");
                dev_session_config_changed(dev);
        }
}

/* A queue broke: where the front end reads the status it sees NEEDS_RESET (2.1.2). */
static void news_ready(struct ev_watch *watch, uint32_t events)
{
        struct vw_device *dev = container_of(watch, struct vw_device, news_watch);

        (void)events;
        notify_take(dev->news);
        dev_session_config_changed(dev);
        dev_update_active(dev);
}

/* ---- birth and death ---- */

static const char *config_fault(const struct vw_device_config *config)
{
        if (!config->port)
                return "port";
        if (config->pairs < 1 || config->pairs > VW_QUEUE_PAIRS_MAX)
                return "pairs";
        if (config->mac[0] & 1)
                return "mac";
        if (config->mtu && (config->mtu < VIRTIO_NET_MTU_MIN || config->mtu > VIRTIO_NET_MTU_MAX))
                return "mtu";
        for (unsigned i = 0; i < config->n_cpus; i++)
                if (config->cpus[i] < 0 || config->cpus[i] >= CPU_SETSIZE)
                        return "cpus";
        if (config->poll_us > VW_POLL_US_MAX)
                return "poll_us";
        if (config->tx_usecs > VW_USECS_MAX || config->rx_usecs > VW_USECS_MAX)
                return "usecs";
        if (config->tx_frames > VW_FRAMES_MAX || config->rx_frames > VW_FRAMES_MAX)
                return "frames";
        if ((unsigned)config->adaptive > VW_ADAPTIVE_BOTH)
                return "adaptive";
        return NULL;
}

static unsigned cpus_available(void)
{
        cpu_set_t set;

        return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void choose_mac(uint8_t mac[6], const uint8_t wanted[6])
{
        memcpy(mac, wanted, 6);
        if (!net_mac_is_zero(mac))
                return;
        if (getrandom(mac, 6, 0) != 6)
                memcpy(mac, &(uint64_t){ clock_now() }, 6);
        net_mac_make_local(mac);
}

static void init_queues(struct vw_device *dev)
{
        for (unsigned i = 0; i < dev->pairs; i++)
                dev->lanes[i] = (struct dev_lane){
                        .port = dev->port,
                        .index = i,
                        .rx = &dev->queues[2 * i],
                        .watch = {.what = WATCH_PORT, .owner = &dev->lanes[i] },
                        .fd = -1,
                        .ahead = { .bytes = dev->ahead + i * (size_t)DEV_FRAME_ROOM                },
                };
        for (unsigned i = 0; i < dev->n_vrings; i++) {
                struct dev_queue *q = &dev->queues[i];

                q->dev = dev;
                q->index = i;
                q->kick_watch = (struct dev_watch){ .what = WATCH_KICK, .owner = q };
                q->kick_fd = q->call.fd = q->err.fd = -1;
                if (!dev_queue_kind(dev, dev->offered, i, &q->kind))
                        q->kind = VW_CTRL;
                q->worker = &dev->workers[i / 2 % dev->pairs % dev->n_workers];
        }
}

static int make_loop(struct vw_device *dev)
{
        int r = evloop_new(&dev->loop), fd = vw_port_event_fd(dev->port);

        if (r < 0)
                return r;
        dev->news = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (dev->news < 0)
                return -errno;
        dev->news_watch.ready = news_ready;
        dev->port_watch.ready = port_ready;
        dev->session_watch.ready = session_ready;
        r = evloop_add(dev->loop, &dev->news_watch, dev->news, EPOLLIN);
        if (r == 0 && fd >= 0)
                r = evloop_add(dev->loop, &dev->port_watch, fd, EPOLLIN);
        return r;
}

static int start(struct vw_device *dev, const struct vw_device_config *config)
{
        int r;

        dev->workers = calloc(dev->n_workers, sizeof(*dev->workers));
        for (unsigned i = 0; dev->workers && i < dev->n_workers; i++)
                dev->workers[i] = (struct dev_worker){
                        .dev = dev,
                        .index = i,
                        .epfd = -1,
                        .timer = {.fd = -1   },
                        .mailbox = { .bell = -1, .done = -1 }
                };
        dev->lanes = calloc(dev->pairs, sizeof(*dev->lanes));
        dev->ahead = malloc(dev->pairs * (size_t)DEV_FRAME_ROOM);
        dev->queues = aligned_alloc(CACHE_LINE, dev->n_vrings * sizeof(*dev->queues));
        dev->cpus = calloc(dev->n_cpus + 1, sizeof(*dev->cpus));
        if (dev->queues)
                memset(dev->queues, 0, dev->n_vrings * sizeof(*dev->queues));
        if (!dev->workers || !dev->lanes || !dev->ahead || !dev->queues || !dev->cpus)
                return -ENOMEM;
        if (dev->n_cpus)
                memcpy(dev->cpus, config->cpus, dev->n_cpus * sizeof(*dev->cpus));
        init_queues(dev);
        dev_settings_init(dev, config);
        r = make_loop(dev);
        if (r < 0)
                return r;
        dev_session_ops.reset(dev);
        for (unsigned i = 0; i < dev->n_workers && r == 0; i++)
                r = dev_worker_start(&dev->workers[i]);
        return r;
}

int vw_device_new(const struct vw_device_config *config, struct vw_device **ret_dev, const char **ret_why)
{
        const char *fault = config_fault(config);
        struct vw_device *dev = fault ? NULL : calloc(1, sizeof(*dev));
        int r;

        if (!dev) {
                *ret_why = fault ? fault : "out of memory";
                return fault ? -EINVAL : -ENOMEM;
        }
        dev->port = config->port;
        dev->pairs = config->pairs;
        dev->n_vrings = 2 * config->pairs + 1;
        dev->n_workers = config->workers ? config->workers : cpus_available();
        dev->n_workers = MIN(dev->n_workers, dev->pairs);
        dev->n_cpus = config->n_cpus;
        dev->count_vrings = config->count_vrings;
        dev->nice = config->nice;
        dev->worker_start = config->worker_start;
        dev->worker_ctx = config->worker_ctx;
        dev->mtu = config->mtu;
        dev->born = clock_now();
        dev->link_wanted = true;
        dev->rx_pairs = dev->pairs;
        dev->news = -1;
        choose_mac(dev->mac, config->mac);
        dev->offered = dev_features_possible(dev, config->features);
        pthread_mutex_init(&dev->guest.lock, NULL);
        pthread_mutex_init(&dev->port_lock, NULL);
        r = start(dev, config);
        if (r < 0) {
                *ret_why = strerrordesc_np(-r);
                vw_device_free(dev);
                return r;
        }
        *ret_dev = dev;
        return 0;
}

void vw_device_free(struct vw_device *dev)
{
        if (!dev)
                return;
        end_session(dev, "the device was ended");
        if (dev->trace)
                vw_device_trace(dev, -1);
        for (unsigned i = 0; dev->workers && i < dev->n_workers; i++)
                dev_worker_stop(&dev->workers[i]);
        for (unsigned i = 0; dev->queues && i < dev->n_vrings; i++)
                log_settle(&dev->queues[i].limit, NEVER);
        log_settle(&dev->departures, NEVER);
        evloop_free(dev->loop);
        if (dev->news >= 0)
                close(dev->news);
        pthread_mutex_destroy(&dev->guest.lock);
        pthread_mutex_destroy(&dev->port_lock);
        free(dev->workers);
        free(dev->lanes);
        free(dev->ahead);
        free(dev->queues);
        free(dev->cpus);
        free(dev);
}

/* ---- serving ---- */

int vw_device_serve(struct vw_device *dev, int fd)
{
        struct vu_backend_config config = {
                .vrings_max = dev->n_vrings,
                .queue_num = dev->count_vrings ? 2 * dev->pairs + !!(dev->offered & F(ctrl_vq)) : dev->pairs,
                .protocol_features = VU_BACKEND_PROTOCOL_FEATURES,
        };
        int r;

        if (dev->session)
                return -EBUSY;
        r = evloop_add(dev->loop, &dev->session_watch, fd, EPOLLIN);
        if (r < 0)
                return r;
        r = vu_backend_new(&config, &dev_session_ops, dev, fd, &dev->session);
        if (r < 0) {
                evloop_remove(dev->loop, &dev->session_watch);
                return r;
        }
        check(vu_backend_fd(dev->session) == fd);
        dev->left = false;
        return 0;
}

void vw_device_disconnect(struct vw_device *dev)
{
        end_session(dev, "disconnected by the device");
        dev->left = false;
}

bool vw_device_serving(const struct vw_device *dev)
{
        return dev->session;
}

int vw_device_fd(const struct vw_device *dev)
{
        return evloop_fd(dev->loop);
}

int vw_device_dispatch(struct vw_device *dev)
{
        int r = evloop_dispatch(dev->loop, 0);

        if (dev->left) {
                dev->left = false;
                return -ENOTCONN;
        }
        return r;
}

int vw_device_link(struct vw_device *dev, bool up)
{
        dev->link_wanted = up;
        if (dev_update_port(dev))
                dev_session_config_changed(dev);
        return 0;
}
