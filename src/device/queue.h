/* What the device half is made of: queues, the port's lanes, workers, and the device that holds them.
 *
 *      control thread                         worker thread (one or more pairs)
 *      vhost-user session, settings,  ----->  queue, queue, ...   run in turns, one after the other
 *      statistics, the port's link  mailbox   lane                the port's side of a pair
 *
 * A queue belongs to the control thread while it does not run and to its worker while it does; the mailbox hands it
 * over.  What the guest asks for on the control queue (filters, coalescing, offloads) concerns all workers: it stands in
 * `struct dev_guest`, and each worker takes a copy when the number of its last change is a new one. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/evloop.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/timer.h"
#include "device/coalesce.h"
#include "device/duel.h"
#include "device/filter.h"
#include "device/moderation.h"
#include "device/nap.h"
#include "device/polling.h"
#include "net/hdr.h"
#include "ring/vq.h"
#include "vhost/backend.h"
#include "virtio/features.h"
#include "vwire/device.h"

#define DEV_BURST       64         /* packets between two publications: a kernel's NAPI has the same unit */
#define DEV_BURST_BYTES (64 << 10) /* or one longest frame: the driver starts on it meanwhile */
#define DEV_TURN        256        /* packets of one queue before the next has its turn, in both directions */
#define DEV_TURN_BYTES  (512 << 10)
#define DEV_PIECES      1022 /* of one frame: IOV_MAX less the port's header and ours */
#define DEV_FRAME_ROOM  (VW_FRAME_MAX + 64)
/* ns: for buffers that hold the longest frame; a driver that is awake takes less */
#define DEV_PATIENCE (100 * NSEC_PER_USEC)

enum vq_life {
        VQ_NEW,        /* nothing is known.  Leaves by a start.  Control's */
        VQ_CONFIGURED, /* ring checked, buffers made; no worker knows it yet.  Control's */
        VQ_RUNNING,    /* the worker's: nobody else touches it.  Leaves by a stop */
        VQ_DRAINING,   /* no new pops; chains that are held go back, held interrupts go out.  The worker's */
        VQ_STOPPED,    /* the ring is not touched; its base is known.  Leaves by a start.  Control's */
        VQ_LIFE_COUNT
};

/* What a worker sleeps on: the fd's entry in its epoll set points to one of these. */
struct dev_watch {
        enum { WATCH_BELL, WATCH_TIMER, WATCH_KICK, WATCH_PORT } what;
        void *owner; /* worker, queue, lane */
};

/* The port's side of a pair.  Worker only. */
struct dev_lane {
        struct vw_port *port;
        unsigned index;
        struct dev_queue *rx; /* the receive queue that it feeds */
        struct dev_watch watch;
        int fd;         /* -1: the port has none, see vwire/port.h */
        unsigned users; /* running queues: the fd is watched while there are any */
        bool readable;  /* vw_port_rx() has not said 0 since the fd was readable */
        bool writable;
        bool muted;        /* that the fd is readable is not reported: there is no room for what waits */
        unsigned errors;   /* of vw_port_rx(), in a row */
        uint64_t retry_at; /* no rx before, after errors */
        struct {
                uint32_t len; /* 0: there is none */
                struct vw_net_hdr hdr;
                uint8_t *bytes; /* DEV_FRAME_ROOM */
        } ahead;                /* a frame that was read before there was room for it */
};

/* Receive buffers that were popped and wait for frames, oldest first.  Worker only. */
struct rx_window {
        struct vq_chain *chains; /* room for the whole ring */
        unsigned cap;
        unsigned first, end; /* those in use */
        unsigned bad;        /* the first of them that no frame can go into, or `end` */
        uint64_t room;       /* bytes of those before it */
        unsigned ndesc;      /* ring entries that they take */
        bool full;           /* no more chains can be held, or offered */
        bool starved;        /* a frame waits for more buffers than there are */
        uint64_t starved_at; /* since when */
        bool sparse;         /* the driver does not offer room for the longest frame: frames are read ahead */
};

/* Whether some room waits, too little for the longest frame, and no frame was read ahead to see whether it is enough. */
static inline bool rx_could_read_ahead(const struct rx_window *win, const struct dev_lane *lane)
{
        return win->bad > win->first && lane->ahead.len == 0;
}

/* Both fds may be an eventfd or a pipe, and their flags may be changed by the peer. */
struct dev_notify {
        int fd;    /* -1: none */
        bool dead; /* nobody reads it any more */
};

struct dev_run {
        /* given */
        uint64_t now;
        unsigned max; /* packets, at most DEV_BURST */
        /* what came of it */
        unsigned packets;   /* handled, discarded ones too: what a turn is measured in */
        unsigned published; /* of these, visible to the driver */
        unsigned ndesc;     /* ring entries that this took */
        uint32_t bytes;     /* and each segment that was made of a frame as DEV_TURN_BYTES / DEV_TURN */
};

struct dev_queue {
        /* fixed for life */
        struct vw_device *dev;
        unsigned index; /* of the virtqueue */
        struct dev_watch kick_watch;

        /* control while the queue does not run, worker while it does */
        enum vq_life life;
        enum vw_queue_kind kind;
        struct dev_worker *worker;
        struct dev_lane *lane; /* NULL: control queue */
        /* One burst: 0, or -EPROTO when the queue broke.  run->packets is 0 when there was nothing to do. */
        int (*run)(struct dev_queue *q, struct dev_run *run);
        struct vq_device vq;
        struct vq_config cfg;
        struct iov_pool pool;
        struct rx_window window;
        unsigned hdr_len;
        bool mergeable;
        int kick_fd;   /* -1: the driver does not kick, so look by the clock */
        bool kicks_on; /* the driver was asked to kick */
        bool enabled;  /* SET_VRING_ENABLE; stands still until the first, see `was_enabled` */
        bool was_enabled;
        bool watched;     /* its fds are in the worker's epoll set */
        unsigned burst;   /* chains that the next tx burst pops */
        unsigned rewound; /* chains that were popped and put back: they are known, but no news to the ring */
        unsigned segments_sent; /* of the frame at the ring's head, which has left in part */
        unsigned held_desc;     /* ring entries published since the last call */
        struct coalesce coalesce;
        struct polling polling;
        struct moderation moderation;
        uint64_t settings;      /* as adopted, see settings_pack() */
        struct filter filter;   /* rx: copy of the guest's */
        unsigned filter_seen;   /* and the change that it is from */
        uint64_t polling_until; /* of the poll under way, or 0 */

        /* worker only, at all times */
        struct dev_notify call, err;
        struct log_limit limit;

        /* control and the control queue's worker write under dev->guest.lock, the worker adopts between turns */
        uint64_t wanted;   /* settings_pack() */
        uint64_t standing; /* the operator's, which a reset returns to */

        /* worker writes, anyone reads */
        bool live; /* running, enabled and not broken */
        const char *broken;
        uint64_t counters[VW_C_COUNT];
        uint64_t drops[VW_DROP_COUNT];
} __attribute__((aligned(CACHE_LINE)));

/* A burst of transmitted packets under way: tx.c's. */
struct tx_burst {
        struct vq_chain chains[DEV_BURST];
        uint8_t verdict[DEV_BURST]; /* enum vw_drop, by chain */
        uint32_t len[DEV_BURST];    /* frame bytes, by chain */
        unsigned n_pkts;
        struct vw_pkt pkts[DEV_BURST];
        int result[DEV_BURST];
        uint8_t chain_of[DEV_BURST];               /* the chain that pkts[i] is */
        uint8_t heads[DEV_BURST][NET_HEADERS_MAX]; /* private copies of headers that the port will act on */
        unsigned n_iov;
        struct iovec iov[2 * DEV_PIECES + 2];
};

struct dev_worker {
        struct vw_device *dev;
        unsigned index;
        pthread_t thread;
        bool started;
        int start_result; /* of the program's hook; the worker writes it before it looks into its mailbox */
        struct mailbox mailbox;
        struct timer timer; /* of the sleep */
        struct dev_watch bell, alarm;
        int epfd;
        /* worker only */
        bool stop;
        unsigned n_queues;
        struct dev_queue **queues; /* running and not broken, in ring order */
        struct duel duel;          /* of the ways of waiting, where polling is allowed */
        uint64_t work;             /* packets published, as on the wire */
        struct nap nap;
        struct tx_burst tx;
        struct iovec rx_iov[DEV_PIECES + 2];
        uint8_t *frame;   /* DEV_FRAME_ROOM: one frame in private memory */
        uint8_t *segment; /* DEV_FRAME_ROOM: what is made of it */
};

/* What the guest's control commands have set. */
struct dev_guest {
        pthread_mutex_t lock; /* the control thread and the control queue's worker; others to take a copy */
        struct filter filter;
        bool announce;  /* the status bit that asks the guest to announce itself */
        unsigned pairs; /* VQ_PAIRS_SET */
        struct {
                bool set;
                uint32_t usecs, frames;
        } coalesce[2]; /* the last RX_SET, TX_SET */
        /* written under the lock, looked at without */
        unsigned filter_changes; /* says: take the lock and copy */
        uint32_t offloads;       /* VW_OFFLOAD_*: what received frames may carry */
};

struct vw_device {
        /* fixed for life */
        struct vw_port *port;
        unsigned pairs, n_vrings, n_workers;
        struct dev_worker *workers;
        struct dev_lane *lanes;
        uint8_t *ahead; /* the lanes' frames that are ahead */
        struct dev_queue *queues;
        uint64_t offered; /* features */
        bool count_vrings;
        int nice;
        int *cpus;
        unsigned n_cpus;
        int (*worker_start)(void *ctx); /* or NULL */
        void *worker_ctx;
        unsigned mtu;   /* offered, or 0 */
        uint8_t mac[6]; /* until the guest sets another */
        uint64_t born;

        /* control thread only */
        struct evloop *loop;
        struct ev_watch session_watch, port_watch, news_watch;
        struct vu_backend *session;
        bool left; /* the front end has gone and nobody has been told */
        struct log_limit departures;
        struct mem_map *map;
        uint64_t features;  /* negotiated */
        uint8_t status;     /* as the front end last set it */
        bool link_wanted;   /* vw_device_link() */
        bool link_up;       /* and the port's own */
        unsigned front_mtu; /* NET_SET_MTU, or 0 */
        char last_close[128];
        struct dev_trace *trace; /* the recording under way, or NULL */

        int news; /* eventfd: a worker has something for the control thread to look at */

        /* control writes, workers read */
        unsigned mtu_limit; /* bytes after the Ethernet header */
        unsigned rx_pairs;  /* that receive; the control queue's worker writes it, too */
        uint32_t port_tx_offloads;

        struct dev_guest guest;
        pthread_mutex_t port_lock; /* the port's control calls: control's and the control queue's worker */
};

/* An rx queue that was disabled, and one of a pair that the guest's driver did not ask for (5.1.6.5.5), gets nothing. */
static inline bool dev_queue_receives(const struct dev_queue *q)
{
        return q->enabled && q->index / 2 < load_relaxed(&q->dev->rx_pairs);
}

/* ---- settings of a queue in one word, so that a pair of them changes as one ---- */

#define SETTINGS_NONE UINT64_MAX /* no settings look like this: the next adoption is one of new ones */

static inline uint64_t settings_pack(const struct vw_queue_settings *s)
{
        return (uint64_t)s->adaptive << 63 | (uint64_t)s->poll_us << 32 | (uint64_t)s->usecs << 16 |
               s->frames;
}

static inline struct vw_queue_settings settings_unpack(uint64_t word)
{
        return (struct vw_queue_settings){ .adaptive = word >> 63,
                                           .poll_us = (uint32_t)(word >> 32 & 0x7fffffff),
                                           .usecs = (uint32_t)(word >> 16 & 0xffff),
                                           .frames = (uint32_t)(word & 0xffff) };
}

/* ---- device.c ---- */

/* Runs fn(arg) on the worker and returns when it has run. */
void dev_on_worker(struct dev_worker *w, void (*fn)(void *arg), void *arg);
/* Any thread: the control thread should look (something broke). */
void dev_news(struct vw_device *dev);

/* ---- config.c: what the device offers, and its configuration space ---- */

uint64_t dev_features_possible(const struct vw_device *dev, uint64_t mask);
uint32_t dev_config_read(struct vw_device *dev, uint8_t *buf, uint32_t offset, uint32_t size);
/* What the virtqueue `index` is under these features; false: it is none. */
bool dev_queue_kind(const struct vw_device *dev, uint64_t features, unsigned index,
                    enum vw_queue_kind *ret_kind);
/* Control thread or the control queue's worker, without the guest's lock: tell the port what concerns it. */
void dev_update_active(struct vw_device *dev);   /* how many lanes carry frames */
void dev_update_offloads(struct vw_device *dev); /* what frames from it may carry */
/* Control thread: read from the port.  True: the configuration space has changed. */
bool dev_update_port(struct vw_device *dev);

/* ---- session.c: what the front end asks for.  Control thread ---- */

extern const struct vu_backend_ops dev_session_ops;
void dev_session_config_changed(struct vw_device *dev);

/* ---- queue.c: the life of a queue ---- */

int dev_queue_start(struct dev_queue *q, enum vw_queue_kind kind, const struct vq_config *cfg, int kick,
                    const char **ret_why);
uint32_t dev_queue_stop(struct dev_queue *q);
void dev_queue_enable(struct dev_queue *q, bool on);
void dev_queue_remap(struct dev_queue *q, struct mem_map *map);
void dev_queue_set_call(struct dev_queue *q, int fd);
void dev_queue_set_err(struct dev_queue *q, int fd);
/* Worker: */
void dev_queue_broke(struct dev_queue *q, uint64_t now);
void dev_queue_adopt_settings(struct dev_queue *q, uint64_t now);
void dev_queue_published(struct dev_queue *q, const struct dev_run *run); /* calls, or holds the call back */
void dev_queue_release(struct dev_queue *q); /* calls now, if the driver wants it */

/* ---- the data path: tx.c, rx.c, ctrlq.c ---- */

int dev_tx_run(struct dev_queue *q, struct dev_run *run);
int dev_rx_run(struct dev_queue *q, struct dev_run *run);
int dev_ctrl_run(struct dev_queue *q, struct dev_run *run);
int rx_window_init(struct rx_window *win, unsigned size);
void rx_window_done(struct rx_window *win);
void rx_window_rewind(struct dev_queue *q);

/* ---- worker.c ---- */

int dev_worker_start(struct dev_worker *w);
void dev_worker_stop(struct dev_worker *w); /* one that was not started, too */
/* Worker: */
int dev_worker_watch(struct dev_queue *q);
void dev_worker_unwatch(struct dev_queue *q);

/* ---- settings.c ---- */

/* Under the guest's lock: what the queue returns to when it is reset or enabled. */
void dev_settings_reset(struct dev_queue *q);
/* Under the guest's lock: coalescing as the guest wants it, of one queue, of all of a kind. */
void dev_settings_coalesce(struct dev_queue *q, uint32_t usecs, uint32_t frames);
void dev_settings_coalesce_all(struct vw_device *dev, enum vw_queue_kind kind, uint32_t usecs,
                               uint32_t frames);
void dev_settings_init(struct vw_device *dev, const struct vw_device_config *config);
