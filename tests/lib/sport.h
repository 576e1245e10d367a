/* A scripted port: each lane is a socket whose other end is the test's, so that a frame is a datagram, a full port is a full
 * socket, and the worker sleeps on a real fd.  A frame travels behind its struct vw_net_hdr.  What the test sets may be
 * changed while workers run. */
#pragma once
#include <stdint.h>

#include "vwire/port.h"

#define SPORT_LANES 8

struct sport {
        struct vw_port *port; /* to be closed by sport_free() */
        int test_end[SPORT_LANES];
        int port_end[SPORT_LANES];
        int events; /* eventfd */
        /* set by the test, atomically */
        uint32_t tx_offloads, rx_max, mtu;
        bool link_up, bridged;
        int tx_errno;      /* what transmitted frames fail with, or 0 */
        unsigned tx_every; /* each n-th of them does; 0: all */
        int rx_errno;      /* what the next read fails with */
        unsigned rx_more;  /* and so many reads after it */
        /* written down */
        uint32_t rx_offloads;
        uint8_t mac[6]; /* the identity that it was given */
        bool carrier;
        unsigned active, rx_calls;
        uint64_t tx_frames, tx_failures;
};

void sport_init(struct sport *p);
void sport_free(struct sport *p);

/* A frame for the driver; false if the lane is full.  `hdr` may be NULL. */
bool sport_put(struct sport *p, unsigned lane, const void *frame, uint32_t len, const struct vw_net_hdr *hdr);
/* A frame from the driver: its length, or -1 when there is none. */
int sport_get(struct sport *p, unsigned lane, void *frame, uint32_t room, struct vw_net_hdr *ret_hdr);
/* Link or MTU were changed: says so. */
void sport_event(struct sport *p);
