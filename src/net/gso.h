/* Segmentation in software, for a port that lacks the offload: one large frame becomes frames that carry `gso_size` bytes of
 * payload each, with IP lengths and ids, TCP sequence numbers and flags (CWR in the first, FIN and PSH in the last; ECN
 * per RFC 3168) and checksums completed.  The input is a private copy that net_tx_check() has passed. */
#pragma once
#include <stdint.h>

#include "vwire/types.h"

struct net_gso {
        const uint8_t *frame;
        uint32_t len, headers, payload_done;
        struct vw_net_hdr hdr;
        unsigned index; /* of the next segment */
};

/* 0 or -EINVAL. */
int net_gso_begin(struct net_gso *g, const struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len);

/* Writes the next segment to `out` (room for headers + gso_size) and returns its length; 0 after the last. */
uint32_t net_gso_next(struct net_gso *g, uint8_t *out, uint32_t room);

unsigned net_gso_count(const struct net_gso *g);
