/* A driver joined to a port: what `vwire driver --port=` runs.  The device's frames go to the port, the port's frames to the
 * device, in both directions without a copy of ours; each end's back-pressure reaches the other.
 *
 * One control thread calls everything here; the queue pairs are served by worker threads that attach makes itself.  When the
 * device goes away, attach connects again for ever, with a back-off of up to a second, or waits on its listening socket. */
#pragma once
#include "vwire/driver.h"
#include "vwire/port.h"

struct attach;

struct attach_config {
        /* How the device is reached: one of the two. */
        const char *connect_path; /* a Unix socket to connect to, for ever */
        int listen_fd;            /* or a listening socket to accept from (-1: none); borrowed */

        struct vw_port *port;           /* borrowed: lives longer; opened with driver.pairs lanes */
        struct vw_driver_config driver; /* ops, ctx, offloads, tx_memory and tx_bufs are set by attach */
        unsigned workers;               /* 0: min(pairs, CPUs) */
        int nice;                       /* of the workers; where not allowed it is left */
        const int *cpus;                /* pin worker i to cpus[i % n_cpus] */
        unsigned n_cpus;

        /* Events for humans, at most a few a connection; may be NULL.  Any thread. */
        vw_log_fn *log;
        void *log_ctx;
};

#define ATTACH_CONFIG_INIT                                                                                   \
        {                                                                                                    \
                .listen_fd = -1, .driver = VW_DRIVER_CONFIG_INIT, .nice = -20                                \
        }

/* 0 or -errno with a sentence.  The workers run from here on; the first connection is attempted by the first step.  The config may be
 * forgotten afterwards (the path too). */
int attach_new(const struct attach_config *config, struct attach **ret_attach, const char **ret_why);
/* Disconnects (within a second, also from a device that hangs), stops the workers.  NULL is fine. */
void attach_free(struct attach *a);

/* Call attach_step() when the fd is readable or the deadline (ns, monotonic; UINT64_MAX: none) has come; it never waits, except for a
 * handshake with a device that answers slowly. */
int attach_fd(const struct attach *a);
uint64_t attach_deadline(const struct attach *a);
void attach_step(struct attach *a);

/* vw_driver_stats() and the port. */
void attach_stats(struct attach *a, struct vw_stats *ret_stats);
/* For vw_driver_set(), _get(), _why(), _info(): from the control thread, between steps. */
struct vw_driver *attach_driver(struct attach *a);
/* `ctl link`: the carrier that the port's users see; it is up when this and the device's link are. */
void attach_link(struct attach *a, bool up);
