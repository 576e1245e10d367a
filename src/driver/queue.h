/* The driver's queues: a pair of them, their poll context, and who may touch which field.
 *
 * While a pair is `up` its queues belong to its owner thread alone.  The control thread builds and dismantles them only while
 * the pair is down, or runs a function on the owner through drv_run_on_owner().  Nothing here is in shared memory but what the
 * pointers marked (shared) point to. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/timer.h"
#include "base/trace.h"
#include "driver/bql.h"
#include "driver/flow.h"
#include "driver/mpmc.h"
#include "driver/rxbuf.h"
#include "mem/arena.h"
#include "ring/vq.h"
#include "vwire/driver.h"

#define TX_BATCH      64 /* completions taken from the ring at a time */
#define RX_BATCH      64 /* packets handed to the program at a time */

#define RX_FRAGS_MAX  64 /* pieces of one received packet; the longest needs 44 of the smallest buffers */

#define TX_HEADROOM   CACHE_LINE /* before each transmit buffer: the virtio header goes there */
#define TX_BUF_STRIDE (VW_TX_BUF_SIZE + TX_HEADROOM)

/* Counters: written by the owner, read by anyone. */
struct drv_counters {
        uint64_t c[VW_C_COUNT];
        uint64_t drops[VW_DROP_COUNT];
};

#define COUNT(q, name, n)     counter_add(&(q)->stat.c[VW_C_##name], (uint64_t)(n))
#define COUNT_DROP(q, reason) counter_add(&(q)->stat.drops[reason], UINT64_C(1))

struct vw_flow {
        struct flow account;
        void *ctx;
};

/* ---- tx ---- */

/* A packet in flight; it is known by the id that its chain has in the ring. */
struct tx_slot {
        void *cookie; /* NULL: let go at transmission, or there was none */
        struct vw_flow *flow;
        struct bql_ticket ticket;
        uint32_t bytes;
        uint32_t buf; /* the transmit buffer that holds all of it, or TX_NONE */
};

/* Transmit buffers: those of vw_driver_buf_get() first, then the cells of vw_driver_send(). */
struct tx_buf {
        uint32_t next;     /* of the free list */
        uint16_t inflight; /* packets that the device may still read from it */
        bool put;          /* given back while in flight: free when the device is done */
        bool plain;        /* the header before it is there and asks for nothing */
};

/* What vw_driver_send() has copied and the owner has not yet offered. */
struct tx_cell {
        struct vw_net_hdr hdr;
        uint32_t len;
        struct vw_flow *flow;
};

#define TX_CELLS 256        /* packets between vw_driver_send() and the owner */
#define TX_NONE  UINT32_MAX /* no buffer */

enum { TX_STOP_RING = 1, TX_STOP_BYTES = 2 };

struct drv_txq {
        /* owner thread, or control while the pair is down */
        struct vq_driver vq;
        unsigned index;
        struct tx_slot *slots; /* one a descriptor */
        uint8_t *hdrs;         /* (shared) a header for each slot */
        unsigned need;         /* descriptors that the largest packet takes: stop below */
        unsigned frags_max;    /* pieces that a packet may have */
        unsigned plain_max;    /* bytes after the Ethernet addresses and type that no MTU forbids */
        unsigned stopped;      /* TX_STOP_*; 0: packets are taken */
        bool refused;          /* the program was turned away: tx_wake is owed */
        bool unkicked;         /* published since the last kick or look at the device's wish */
        bool hung;             /* the watchdog found no progress */
        bool in_done;          /* inside tx_done: do not nest */
        unsigned inflight;     /* slots out */
        uint64_t reaped;       /* ever; what the watchdog looks at */
        uint64_t seen_reaped, progress_at; /* `reaped` when last looked at, and since when it stands */
        uint64_t reap_at;                  /* when to reap what no interrupt was asked for */
        bool overdue;                      /* by then nothing had been used: an interrupt will tell */
        unsigned inflight_flows;           /* of the slots that are out: those with a flow */
        struct bql bql;
        void **let_go; /* cookies to hand to tx_done before we return */
        unsigned n_let_go;
        struct log_limit log;
        struct drv_counters stat;

        /* settings; owner */
        enum vw_tx_mode mode;
        int clean_wanted; /* 1, 0; -1: as the mode has it */
        bool clean_from_rx;
        bool eager; /* every sleep asks for the next completion's interrupt */
        enum vw_kick kick_mode;
        bool bql_wanted;

        /* transmit buffers; owner */
        uint8_t *buf_base; /* (shared) */
        struct tx_buf *bufs;
        uint8_t *memory; /* (shared) of vw_driver_alloc(); control */
        size_t memory_size, memory_used;
        uint32_t n_bufs, free_buf; /* the first n_bufs are the program's */
        bool cell_freed;           /* since senders were last thought of */

        /* any thread */
        struct mpmc cells_free, cells_full;
        struct tx_cell *cells;
        uint32_t cells_wanted; /* a sender found none free: tx_wake is owed */
};

/* ---- rx ---- */

/* With MRG_RXBUF a packet takes as many buffers as it needs, cut from page fragments.  Without, each packet needs a chain that holds
 * the longest: one buffer where that fits a page, else a chain of pages, of which those that stay empty go back at once. */
#define RX_CHAIN_MAX 17 /* pages: 69,632 bytes, a packet of 65,535 and all its headers */

/* A buffer: posted, then of a packet that waits for the program, or that it keeps.  What is known of it stays here, so the device may use
 * buffers in any order. */
struct rx_slot {
        struct rx_buffer buf;
        struct rx_slot *next; /* of the same chain, the same packet, or the free list */
};

/* A packet that was assembled. */
struct rx_packet {
        struct rx_slot *buffers; /* they go back when the program has taken it; NULL: it keeps them */
        uint32_t len, truesize;
};

struct drv_rxq {
        /* owner thread, or control while the pair is down */
        struct vq_driver vq;
        unsigned index;
        bool mergeable;
        unsigned least_buffers; /* that a packet's header must tell of: 0 where it may say nothing */
        unsigned chain_len;     /* buffers a chain */
        uint32_t buf_len;       /* without MRG_RXBUF: bytes of a buffer */
        uint64_t features;      /* negotiated, less the offloads that were switched off */
        enum vw_rx_buffers mode;
        struct rxbuf buf;
        struct rxbuf_slab slab;
        struct rxbuf_page *pages;
        uint8_t *memory; /* (shared) of the slab */
        size_t memory_size;
        struct rx_slot *slots, *free_slot;
        unsigned room, kept; /* buffers that may be kept at a time, and those that are */
        unsigned posted;     /* chains */
        unsigned target;     /* chains that are to be posted */
        unsigned spare;      /* of them: as many may be missing, and the others hold a longest packet */
        uint64_t refill_at;  /* memory was short: try again by then */

        /* taken from the ring, not yet looked at */
        struct vq_used used[RX_BATCH];
        unsigned used_next, used_n;

        /* assembled; those before `first` the program has taken */
        struct vw_rx_pkt pkts[RX_BATCH];
        struct rx_packet packets[RX_BATCH];
        unsigned first, n_pkts;
        struct iovec *iov; /* one spare and the pieces of each packet */
        unsigned n_iov;
        struct log_limit log;
        struct drv_counters stat;
};

/* ---- the pair ---- */

/* The poll context that both queues of a pair share. */
struct drv_napi {
        int epfd;
        int bell;           /* vw_driver_send() rings it when the owner may be asleep */
        struct timer timer; /* of the sleep */
        /* owner */
        bool in_poll;                        /* a callback is running */
        bool armed;                          /* interrupts are asked for */
        bool worked;                         /* something moved since the last sleep: busy polling may pay */
        bool tx_due;                         /* a tx interrupt came */
        bool interrupted_rx, interrupted_tx; /* since the last poll */
        bool shared_call;                    /* the rx interrupt speaks for tx too */
        uint32_t poll_us;
        uint64_t now; /* of the last poll or sleep */
        bool deaf;    /* the call fds are not listened to: the device storms */
        uint64_t storm_until;
        unsigned spurious; /* interrupts in a row that had nothing to say */
        /* owner sets, any thread clears */
        int asleep;
};

struct drv_pair {
        struct vw_driver *drv;
        unsigned index;

        /* who owns it: OWNER_* or a thread's identity; atomic */
        uintptr_t owner;
        uintptr_t control; /* the thread that is at work in it as OWNER_CONTROL */
        int control_waits; /* control wants the owner; atomic */
        struct mailbox mailbox;

        /* owner, or control while down */
        bool up;           /* atomic: read by vw_driver_send() too */
        bool enabled;      /* active: VQ_PAIRS_SET covers it */
        uint64_t features; /* negotiated */
        unsigned hdr_len, mtu;
        struct drv_napi napi;
        int rx_call, tx_call, rx_kick, tx_kick; /* eventfds of this connection; -1 */

        struct drv_txq tx;
        struct drv_rxq rx;
};
