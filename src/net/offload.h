/* Offloads: what frames ask for, what the other side may be asked, and the difference made up in software.  Both ways: a driver's
 * frame on its way to a port without the offload, and a frame of a port (a loop, another guest) to a driver that took less. */
#pragma once
#include <stdint.h>

#include "net/gso.h"

/* VW_OFFLOAD_* that frames may carry under these features: in transmit (HOST_), in receive (GUEST_).  The bits of the control
 * command GUEST_OFFLOADS_SET are those of the features.  One without its prerequisite does not count. */
uint32_t net_offloads_tx(uint64_t features);
uint32_t net_offloads_rx(uint64_t features);
/* The GUEST_ bits for these offloads. */
uint64_t net_offloads_rx_features(uint32_t offloads);

/* VW_OFFLOAD_* that a receiver of this frame must have.  `net_offloads_asked(hdr) & ~can` is what is to be made up. */
uint32_t net_offloads_asked(const struct vw_net_hdr *hdr);

/* One frame being made plain. */
struct net_offload {
        uint8_t *frame;
        uint32_t len;
        bool cut, done;
        struct net_gso gso;
};

/* `frame` is a private copy with room to work in, the caller's until the last frame is out; `hdr` has passed a check and asks for
 * something.  0, or -EINVAL: it is not what `hdr` says. */
int net_offload_begin(struct net_offload *o, const struct vw_net_hdr *hdr, uint8_t *frame, uint32_t len);

/* The next plain frame, whose header is all zero: nothing is left to ask for.  Writes it to `out` (VW_FRAME_MAX bytes is enough for
 * any, headers + gso_size for a segment) and returns its length; 0 after the last. */
uint32_t net_offload_next(struct net_offload *o, uint8_t *out, uint32_t room);
