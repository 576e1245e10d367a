/* The driver as a whole, and what its files call of each other.  In order of a packet's life: connect.c makes the rings, napi.c polls
 * them, tx.c and rx.c move packets, send.c takes them from other threads, ctrlq.c commands the device. */
#pragma once
#include "base/evloop.h"
#include "driver/queue.h"
#include "net/ctrl.h"
#include "vhost/frontend.h"
#include "virtio/features.h"

/* ---- control queue ---- */

#define CTRL_RING  64   /* entries: three for each slot, and some slack */
#define CTRL_SLOTS 8    /* commands out at once: one, and those that were given up on */
#define CTRL_BYTES 4096 /* of a command: two MAC lists of more than 300 each */

enum ctrl_state { CTRL_FREE, CTRL_PENDING, CTRL_LATE, CTRL_ANSWERED };

/* The buffer of a command stays the device's until it has answered, however late, or the queue is reset. */
struct ctrl_slot {
        enum ctrl_state state;
        uint8_t *bytes; /* (shared) command and data, then the answer */
};

struct drv_ctrl {
        bool up;
        unsigned index, timeout_ms;
        struct vq_driver vq;
        int kick, call;
        struct ctrl_slot slots[CTRL_SLOTS];
        unsigned late; /* slots in CTRL_LATE: while there are any, no command is sent */
        struct drv_counters stat;
};

/* ---- the whole; control thread unless a line says otherwise ---- */

struct drv_net {
        uint64_t offered, features;
        uint64_t rx_features; /* less the offloads that were switched off by command */
        uint8_t mac[6];
        unsigned mtu;   /* 0: none */
        uint32_t speed; /* Mbit/s; UINT32_MAX: unknown */
        uint8_t duplex; /* 0 half, 1 full, 0xff unknown */
        bool link_up;
        unsigned pairs_max; /* the device's; the control queue comes after them */
        unsigned pairs;     /* set up by us */
        unsigned active;
};

/* Interrupt coalescing of a queue. */
struct drv_coalesce {
        uint32_t usecs, frames;
        bool adaptive; /* of a wish: it is the device's to choose, so it is told nothing */
        bool told;     /* of what is agreed: by a command of this connection */
};

struct vw_driver {
        struct vw_driver_config config; /* as last set */
        struct vw_driver_ops ops;
        struct arena arena;
        unsigned n_pairs; /* made */
        struct drv_pair *pairs;
        uint8_t *ring_mem; /* (shared) of all queues, n_pairs * 2 + 1 times ring_bytes */
        size_t ring_bytes;

        bool connected, lost;
        int lost_why;
        struct vu_frontend fe;
        struct evloop *loop;
        struct ev_watch sock_watch, channel_watch, ctrl_watch;
        struct drv_net net;
        struct drv_ctrl ctrl;
        unsigned pairs_wish; /* switched on at each connection, as far as the device has them */
        struct drv_coalesce coalesce_wish[2 * VW_QUEUE_PAIRS_MAX], coalesce[2 * VW_QUEUE_PAIRS_MAX];
        uint64_t started;
        uint8_t *guards[VW_QUEUE_PAIRS_MAX + 2]; /* (shared) patterns around what the device writes to */
        unsigned n_guards;
        struct ev_watch guard_watch;
        char last_close[128];
        struct log_limit log;
};

/* driver.c */
int drv_lose(struct vw_driver *drv, int why, const char *text); /* the device has left, or must go */

/* owner.c: whose thread a pair is on */
void drv_claim_slow(struct drv_pair *p, uintptr_t self);
void drv_run_on_owner(struct drv_pair *p, void (*fn)(void *arg), void *arg);

/* An address that no other living thread has. */
extern _Thread_local char drv_self __attribute__((tls_model("initial-exec")));
static inline uintptr_t drv_thread_self(void)
{
        return (uintptr_t)&drv_self;
}

/* Called first by every owner function. */
static inline void drv_claim(struct drv_pair *p)
{
        uintptr_t self = drv_thread_self();

        if (unlikely(load_relaxed(&p->owner) != self))
                drv_claim_slow(p, self);
}

/* config.c: the configuration space, checked; features that it belies are taken out */
int drv_config_read(struct vw_driver *drv, uint64_t *features);
void drv_config_changed(struct vw_driver *drv);

/* guard.c */
#define DRV_GUARD RXBUF_PAGE /* bytes of one */
int drv_guard_add(struct vw_driver *drv);
bool drv_guard_check(struct vw_driver *drv);
int drv_guard_start(struct vw_driver *drv);
void drv_guard_stop(struct vw_driver *drv);

/* connect.c */
#define DRV_GUEST_GSO      (F(guest_tso4) | F(guest_tso6) | F(guest_ecn) | F(guest_uso4) | F(guest_uso6))
#define DRV_GUEST_OFFLOADS (DRV_GUEST_GSO | F(guest_csum))
int drv_ring_make(struct vw_driver *drv, struct vq_driver *vq, unsigned place, unsigned size,
                  struct vq_config *ret_config);
int drv_ring_tell(struct vw_driver *drv, unsigned index, const struct vq_config *c, int kick, int call);
int drv_share_call(struct drv_pair *p, bool on);
void drv_stop_device(struct vw_driver *drv);

/* notify.c: doorbells, eventfds that the device holds too */
int drv_doorbell(int *ret_fd);
void drv_doorbell_close(int *fd);
void drv_ring_bell(int fd);
uint64_t drv_read_bell(int fd); /* its count; never blocks, whatever the peer has made of it */

/* napi.c; owner */
int drv_napi_init(struct drv_pair *p);
void drv_napi_done(struct drv_pair *p);
int drv_napi_start(struct drv_pair *p);
void drv_napi_stop(struct drv_pair *p);
int drv_napi_poll(struct drv_pair *p, unsigned budget, uint64_t now);
bool drv_napi_arm(struct drv_pair *p, uint64_t now);
void drv_napi_disarm(struct drv_pair *p);
uint64_t drv_napi_deadline(const struct drv_pair *p);

/* tx.c; owner */
int drv_tx_init(struct drv_pair *p);
void drv_tx_done(struct drv_pair *p);
void drv_tx_start(struct drv_pair *p);
void drv_tx_drain(struct drv_pair *p);
int drv_tx_xmit(struct drv_pair *p, const struct vw_tx_pkt *pkts, unsigned n, bool more);
unsigned drv_tx_reap(struct drv_pair *p, enum vw_counter by);
void drv_tx_wake(struct drv_pair *p);
void drv_tx_flush(struct drv_pair *p);
void drv_tx_set_mode(struct drv_pair *p, enum vw_tx_mode mode, bool bql);
void drv_tx_offer_cell(struct drv_pair *p, uint32_t cell);
void drv_tx_drop_cell(struct drv_pair *p, uint32_t cell, enum vw_drop reason);
void drv_tx_commit(struct drv_pair *p);
bool drv_tx_ready(const struct drv_pair *p);
bool drv_tx_completion_wanted(const struct drv_pair *p);

/* send.c; owner */
void drv_send_drain(struct drv_pair *p);
void drv_send_wake(struct drv_pair *p);
void drv_send_discard(struct drv_pair *p);

/* rx.c; owner */
int drv_rx_init(struct drv_pair *p);
void drv_rx_done(struct drv_pair *p);
int drv_rx_start(struct drv_pair *p);
void drv_rx_stop(struct drv_pair *p);
int drv_rx_poll(struct drv_pair *p, unsigned budget);
void drv_rx_refill(struct drv_pair *p, unsigned budget);
bool drv_rx_pending(const struct drv_rxq *q);

/* Memory that a pair needs of the arena. */
size_t drv_tx_memory(const struct vw_driver_config *config);
size_t drv_rx_memory(const struct vw_driver_config *config);

/* ctrlq.c: the control queue; commands.c: what goes through it */
int drv_ctrl_init(struct vw_driver *drv);
int drv_ctrl_start(struct vw_driver *drv);
void drv_ctrl_stop(struct vw_driver *drv);
int drv_ctrl_command(struct vw_driver *drv, const struct net_ctrl *cmd, uint8_t *result, uint32_t result_len);
void drv_ctrl_setup(struct vw_driver *drv);
int drv_ctrl_announce_ack(struct vw_driver *drv);

/* coalesce.c */
struct drv_forced {
        uint64_t rx, tx; /* pairs for which the command is sent even if it seems to change nothing */
};
int drv_coalesce_apply(struct vw_driver *drv, const struct drv_coalesce *want,
                       const struct drv_forced *forced);
