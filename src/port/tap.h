/* A TAP as a port, opened by tap_open.c and run by tap.c. */
#pragma once
#include "base/check.h"
#include "port/kinds.h"
#include "port/netlink.h"

struct tap_lane {
        int fd;
        bool gone;       /* worker thread only: the interface was deleted */
        uint8_t *bounce; /* for frames in more pieces than one writev takes */
} __attribute__((aligned(CACHE_LINE)));

struct tap {
        /* fixed after opening */
        unsigned n_lanes;
        unsigned index; /* of the interface; 0: netlink cannot see it */
        bool multi_queue;
        uint32_t makes;          /* VW_OFFLOAD_* that its kernel knows */
        uint64_t dropped_before; /* it may have had a life before us */
        /* control thread only */
        struct netlink netlink;
        struct netlink_link link; /* as last seen */
        bool joined_bridge;       /* by us, on an interface that stays */
        unsigned active;
        /* control thread writes, workers read */
        uint32_t rx_offloads;
        uint32_t mtu_max; /* the largest MTU so far: frames of that size may still wait */
        /* any worker counts: frames that were read and could not be handed over */
        uint64_t unfit;
        struct tap_lane lanes[];
};

/* The virtio-net header as the kernel reads and writes it: struct vw_net_hdr, twelve bytes, host order. */
#define TAP_HDR_LEN (sizeof(struct vw_net_hdr))

extern const struct vw_port_ops tap_ops;

/* Tells the kernel which offloads frames may carry from now on.  0 or -errno. */
int tap_offload(const struct tap *tap, uint32_t offloads);

/* Frees a half or wholly opened TAP. */
void tap_close(void *self);
