/* vwire: the driver half, a virtio-net driver in your program for any vhost-user device.
 *
 * Two kinds of threads.  One control thread opens, connects, sets and closes.  Each queue pair has one owner thread that calls the
 * "owner" functions: it polls, sends and receives; it may be the control thread too.  Between them there is no lock: what
 * control changes is adopted at the owner's next vw_driver_poll(), and the control call waits for that, so an owner must poll
 * or sleep in vw_driver_wait() while control calls are made from another thread.  A thread becomes the owner by its first owner
 * call and stays it until vw_driver_leave(); while a pair has no owner, control does the work itself.
 *
 * A device that breaks the rules of a ring breaks that queue: its calls return -EPROTO until the next connection. */
#pragma once
#include "vwire/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vw_driver;
struct vw_flow;

/* A received packet.  Its pieces lie in memory that the device shares and could still write to: copy before you decide on
 * contents twice. */
struct vw_rx_pkt {
        struct vw_net_hdr hdr; /* checked: what is left in it is true of this frame's length and negotiated */
        struct iovec *iov;     /* the frame, without the virtio header; iov[-1] is a spare slot for you */
        unsigned n_iov;
        uint32_t len;
        uint32_t truesize; /* bytes of memory that the packet holds, holes included */
};

/* A packet to send.  The pieces must lie in memory from vw_driver_alloc() or vw_driver_buf_get(), or of a packet that is kept. */
struct vw_tx_pkt {
        struct vw_net_hdr hdr;
        const struct iovec *iov;
        unsigned n_iov; /* at most VW_TX_FRAGS_MAX */
        void *cookie; /* comes back in tx_done.  NULL: all of it is in one transmit buffer, which you put back by this */
        struct vw_flow *flow; /* or NULL */
};
#define VW_TX_FRAGS_MAX 17

/* Called on the pair's owner thread, inside vw_driver_poll() or vw_driver_xmit().  Any may be NULL.  They may send, but not connect,
 * disconnect or poll. */
struct vw_driver_ops {
        /* Packets of one poll.  Returns how many you took, from the first on: their pieces are yours until you return.  The others
         * are offered again by the next poll with a budget, before newer ones. */
        unsigned (*rx)(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n);
        /* The device is done with these.  In orphan mode they were let go at transmission, if they lie in one transmit buffer; the
         * buffer, if you put it back then, is handed out again only when the device is done with it. */
        void (*tx_done)(void *ctx, unsigned pair, void *const *cookies, unsigned n);
        /* A stopped queue takes packets again, or vw_driver_send() found its queue full and it is not any more. */
        void (*tx_wake)(void *ctx, unsigned pair);
        /* A flow whose send was refused has fallen below its limit: exactly one call for each refusal period. */
        void (*flow_wake)(void *ctx, unsigned pair, struct vw_flow *flow);
        /* Control thread: connection, link or number of pairs have changed: read vw_driver_info(). */
        void (*changed)(void *ctx);
};

struct vw_driver_config {
        const struct vw_driver_ops *ops;
        void *ctx;
        unsigned pairs;      /* wanted; the device may have fewer */
        unsigned queue_size; /* power of two, 2..VW_QUEUE_SIZE_MAX */
        uint64_t features;   /* mask of bits that may be accepted; ~0 all */
        uint32_t offloads;   /* VW_OFFLOAD_*: what received frames may carry, i.e. what you can take */
        uint8_t mac[6];      /* zero: the device's, else random local */
        size_t tx_memory;    /* bytes a pair for vw_driver_alloc(), besides the tx buffers */
        unsigned tx_bufs;    /* buffers a pair for vw_driver_buf_get(), of VW_TX_BUF_SIZE; 0: none */
        enum vw_tx_mode tx_mode;
        int clean_tx_from_rx; /* 1, 0; -1: on in napi mode, off in orphan mode */
        enum vw_kick kick;
        bool bql;
        enum vw_rx_buffers rx_buffers;
        uint32_t poll_us, tx_usecs, tx_frames, rx_usecs, rx_frames;
        enum vw_adaptive adaptive;
        unsigned ctrl_timeout_ms, watchdog_ms;
        bool promisc; /* ask for everything from the start */
        /* Completions that no stop, no flow and no want of buffers waits for may be reported so much later, without an interrupt;
         * 0: promptly. */
        uint32_t tx_lazy_us;
        bool tx_eager; /* in napi mode: ask for an interrupt with the next completion, whoever waits for it */
        bool shared_call; /* one interrupt for rx and tx of a pair instead of one each */
};

#define VW_TX_BUF_SIZE 66048 /* bytes: the longest frame, in whole cache lines, and some slack */
#define VW_DRIVER_CONFIG_INIT                                                                                \
        {                                                                                                    \
                .pairs = 1, .queue_size = 256, .features = ~(uint64_t)0, .clean_tx_from_rx = -1,             \
                .bql = true, .ctrl_timeout_ms = 1000, .watchdog_ms = 5000                                    \
        }

/* ---- control thread ---- */

/* 0, or -EINVAL, -ENOMEM or another -errno with a sentence.  Config and ops may be forgotten afterwards, `ctx` not. */
VW_API int vw_driver_new(const struct vw_driver_config *config, struct vw_driver **ret_drv,
                         const char **ret_why);
/* Disconnects first.  No owner is at work any more.  NULL is fine. */
VW_API void vw_driver_free(struct vw_driver *drv);

/* Speaks vhost-user on the connected socket `fd`, negotiates, sets the rings up and starts them.  Takes the fd on success only.
 * -EPROTO: the device lied, -EOPNOTSUPP: it lacks what is needed, -ETIMEDOUT, -EISCONN: disconnect first, or another -errno; *ret_why says what.  Never takes more than a few
 * seconds.  The shared memory outlives a connection: devices that must not see each other's frames need a driver each. */
VW_API int vw_driver_connect(struct vw_driver *drv, int fd, const char **ret_why);
/* Stops the rings; every packet that was out is given back through tx_done (or dropped, for rx). */
VW_API void vw_driver_disconnect(struct vw_driver *drv);

/* The fd is the driver's, and readable when vw_driver_dispatch() has work; it has some at the deadline (ns, monotonic), too.  That call waits
 * for nothing but the device's answers to what a change of its configuration calls for: 0, or -ENOTCONN once, when it has left. */
VW_API int vw_driver_fd(const struct vw_driver *drv);
VW_API int vw_driver_dispatch(struct vw_driver *drv);
VW_API uint64_t vw_driver_deadline(const struct vw_driver *drv);

struct vw_driver_info {
        bool connected, link_up, has_ctrl;
        uint8_t mac[6];
        unsigned mtu;   /* 0: none stated */
        uint32_t speed; /* Mbit/s; UINT32_MAX: unknown */
        uint8_t duplex; /* 0 half, 1 full, 0xff unknown */
        unsigned pairs, pairs_max;
        uint64_t features;
        uint32_t tx_offloads;   /* what you may ask for in vw_tx_pkt.hdr */
        const char *last_close; /* why the last connection ended, or ""; lives as long as the driver */
};
VW_API void vw_driver_info(const struct vw_driver *drv, struct vw_driver_info *ret_info);

/* Control commands.  0, -ENOTSUP: not negotiated (nothing was sent), -ETIMEDOUT, -EIO: the device refused; -EINVAL: what no command can
 * say; -ENETDOWN, -ENOTCONN, -EPROTO: there is no connection, or it has ended over this.  Coalescing and the number
 * of pairs are asked for again at the next connection; filters, MAC and offloads are yours to repeat, in `changed`.  A number of pairs
 * is told by the rings that are enabled, too: it holds after -ETIMEDOUT, and is no error where there is no control queue. */
VW_API int vw_driver_set_pairs(struct vw_driver *drv, unsigned pairs);
VW_API int vw_driver_set_promisc(struct vw_driver *drv, bool on);
VW_API int vw_driver_set_allmulti(struct vw_driver *drv, bool on);
VW_API int vw_driver_set_macs(struct vw_driver *drv, const uint8_t (*unicast)[6], unsigned n_unicast,
                              const uint8_t (*multicast)[6], unsigned n_multicast);
VW_API int vw_driver_set_mac(struct vw_driver *drv, const uint8_t mac[6]);
VW_API int vw_driver_set_vlan(struct vw_driver *drv, uint16_t vid, bool on);
VW_API int vw_driver_set_offloads(struct vw_driver *drv, uint32_t offloads);
VW_API int vw_driver_set_coalesce(struct vw_driver *drv, enum vw_queue_kind kind, uint32_t usecs,
                                  uint32_t frames);
VW_API int vw_driver_set_coalesce_queue(struct vw_driver *drv, unsigned queue, uint32_t usecs,
                                        uint32_t frames);
VW_API int vw_driver_get_coalesce_queue(struct vw_driver *drv, unsigned queue, uint32_t *ret_usecs,
                                        uint32_t *ret_frames);

/* Counters since the driver was made, settings and rings; the numbers of a pair fit together. */
VW_API void vw_driver_stats(struct vw_driver *drv, struct vw_stats *ret_stats);
/* All of them or none.  0, or with a sentence (thread-local): -ENOENT: a driver has no such setting, -ERANGE: the limits are in VW_SETTINGS,
 * -EINVAL: not one of that queue, -ENOTSUP, -ENETDOWN, -EIO, -ETIMEDOUT: the device cannot, is not there, or would not. */
VW_API int vw_driver_set(struct vw_driver *drv, const struct vw_setting *settings, unsigned n,
                         const char **ret_why);
/* What is in force for virtqueue `queue`; -1: for the first pair.  0, -ENOENT, -EINVAL. */
VW_API int vw_driver_get(struct vw_driver *drv, int queue, enum vw_key key, int64_t *ret_value);
/* What virtqueue `index` does and waits for, in words; returns the length like snprintf, or -ENOENT. */
VW_API int vw_driver_why(struct vw_driver *drv, unsigned index, char *buf, size_t len);

/* Memory that the device can see, for the pieces of packets; lives as long as the driver.  NULL when tx_memory is used up. */
VW_API void *vw_driver_alloc(struct vw_driver *drv, unsigned pair, size_t size, size_t align);

/* ---- the pair's owner thread ---- */

/* A transmit buffer of VW_TX_BUF_SIZE bytes in shared memory, or NULL when all are out; put it back after tx_done, or send it without
 * a cookie.  A packet whose first piece begins where the buffer begins travels in one descriptor: its header goes into the room before it. */
VW_API void *vw_driver_buf_get(struct vw_driver *drv, unsigned pair);
/* Several at once: returns how many of the n it had. */
VW_API unsigned vw_driver_bufs_get(struct vw_driver *drv, unsigned pair, void **bufs, unsigned n);
VW_API void vw_driver_buf_put(struct vw_driver *drv, unsigned pair, void *buf);

/* Offers up to n packets; `more`: another call follows at once, so do not kick yet (n == 0 without it: kick for what was offered
 * before).  Returns how many were taken (fewer: the queue is stopped or a flow is over its limit; tx_wake or flow_wake will say
 * when to go on), -ENETDOWN when not connected, -ETIMEDOUT while the watchdog finds the device hung, -EPROTO, -EINVAL: pieces that are
 * not in the driver's memory or too many.  A packet that the negotiated features forbid is taken, counted as a drop, and done. */
VW_API int vw_driver_xmit(struct vw_driver *drv, unsigned pair, const struct vw_tx_pkt *pkts, unsigned n,
                          bool more);

/* True if xmit would take a packet: the queue is neither stopped nor over its byte limit. */
VW_API bool vw_driver_tx_ready(const struct vw_driver *drv, unsigned pair);

/* One poll: reaps tx, receives up to `budget` packets (0: none), refills.  Returns packets received; `budget` means: call again.
 * 0 when not connected; -EPROTO when the receive queue is broken (tx has been reaped even so). */
VW_API int vw_driver_poll(struct vw_driver *drv, unsigned pair, unsigned budget);

/* Within rx: keeps a packet that you take beyond your return.  Its pieces stay where they are until you give back what this returns, and
 * may be sent from there.  NULL: too many are kept.  A queue whose memory is all kept receives nothing until some comes back. */
VW_API void *vw_driver_rx_keep(struct vw_driver *drv, unsigned pair, const struct vw_rx_pkt *pkt);
VW_API void vw_driver_rx_put(struct vw_driver *drv, unsigned pair, void *kept);

/* Sleeps until an interrupt, a mailbox message, one of the watched fds, or `deadline` (ns, monotonic; UINT64_MAX: none).  Arms the interrupts
 * first and does not sleep if work arrived meanwhile; busy-polls before, if poll-us asks for it.  Returns a mask of VW_WAIT_*; FD_ERROR: a
 * watched fd has an error or hung up, which no mask of events keeps away. */
enum { VW_WAIT_QUEUE = 1, VW_WAIT_FD = 2, VW_WAIT_TIMEOUT = 4, VW_WAIT_FD_ERROR = 8 };
VW_API int vw_driver_wait(struct vw_driver *drv, unsigned pair, uint64_t deadline);

/* Adds a fd to what vw_driver_wait() sleeps on; `events` as for epoll, 0 removes it. */
VW_API int vw_driver_watch(struct vw_driver *drv, unsigned pair, int fd, uint32_t events);

/* The parts of vw_driver_wait(), for a loop of your own over several pairs: arm each pair (true: it has work), then sleep, if none had,
 * until one of the fds is readable, then ask each what woke it (VW_WAIT_*, 0: nothing, or its own deadlines), and poll. */
VW_API bool vw_driver_arm(struct vw_driver *drv, unsigned pair);
VW_API int vw_driver_poll_fd(const struct vw_driver *drv, unsigned pair);
VW_API int vw_driver_woken(struct vw_driver *drv, unsigned pair);

/* The calling thread is no longer the pair's owner; the next that makes an owner call is. */
VW_API void vw_driver_leave(struct vw_driver *drv, unsigned pair);

/* ---- any thread ---- */

/* Copies a packet and hands it to the pair's owner through a lock-free queue.  0, -EAGAIN: the flow is full (flow_wake
 * will tell) or the queue is (tx_wake will tell), -EMSGSIZE, -ENETDOWN: not connected.  A packet that the owner cannot offer any more is counted as a drop. */
VW_API int vw_driver_send(struct vw_driver *drv, unsigned pair, const struct vw_net_hdr *hdr,
                          const struct iovec *iov, unsigned n_iov, struct vw_flow *flow);

/* A flow: an account of bytes, charged at transmission, discharged at completion; `limit` 0: 128 KiB.  Its packets go to one pair, whose owner
 * calls flow_wake.  NULL: no memory. */
VW_API struct vw_flow *vw_flow_open(struct vw_driver *drv, unsigned pair, uint32_t limit, void *ctx);
/* Yours no more; one with bytes in flight lives until the last of them completes.  NULL is fine. */
VW_API void vw_flow_close(struct vw_flow *flow);
VW_API void *vw_flow_ctx(const struct vw_flow *flow);
/* Bytes that the device has. */
VW_API uint64_t vw_flow_inflight(const struct vw_flow *flow);

#ifdef __cplusplus
}
#endif
