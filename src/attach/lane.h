/* A lane joins one queue pair to one lane of the port, and belongs to the worker that turns it. */
#pragma once
#include "attach/attach.h"

#define LANE_BURST       64           /* frames taken from the port a turn */
#define LANE_BURST_BYTES (512u << 10) /* or bytes, whichever comes first */
#define LANE_BATCH       16           /* of these, offered to the device at once */
#define LANE_BATCH_BYTES (32u << 10)  /* or bytes: long frames are worth starting on at once */

struct lane {
        /* its worker's */
        const struct attach_config *config;
        struct vw_driver *drv;
        struct vw_port *port;
        unsigned index;
        int fd;           /* the port's that is watched, or -1 */
        uint32_t watched; /* epoll events */
        bool look;        /* the port may have frames */
        bool full;        /* the port did not take all: what is left waits in the driver */
        int told;         /* the last error that reading the port gave: the same again says nothing new */
        void *bufs[LANE_BATCH]; /* empty transmit buffers, */
        unsigned n_bufs;        /* as many */
        unsigned first, end;    /* frames that were read and not yet taken by the driver: */
        struct vw_tx_pkt pkts[LANE_BATCH];
        struct iovec iov[LANE_BATCH][2]; /* [i][1] is of pkts[i]; [i][0] is the port's */
        /* the worker writes, control reads */
        uint64_t port_down, port_error, lost_bytes; /* frames that the port took and lost */
        int error;                                  /* the pair's rings are broken: -EPROTO */
} __attribute__((aligned(64)));

void lane_init(struct lane *l, struct vw_driver *drv, const struct attach_config *config, unsigned index);
void lane_done(struct lane *l);

/* vw_driver_ops.rx of the pair. */
unsigned lane_to_port(struct lane *l, struct vw_rx_pkt *pkts, unsigned n);

/* One turn in both directions; true: there may be more at once. */
bool lane_turn(struct lane *l);
/* Says what the lane waits for, in the pair's watches; returns when it wants its next turn at the latest. */
uint64_t lane_prepare_sleep(struct lane *l);
/* The sleep is over; `events` are VW_WAIT_*. */
void lane_woken(struct lane *l, int events);
