/* Segmentation in software, for a port that lacks the offload: one large frame becomes frames that carry `gso_size` bytes of
 * payload each, with IP lengths and ids, TCP sequence numbers and flags (CWR in the first, FIN and PSH in the last: RFC 3168) and
 * checksums completed.  VLAN tags and IPv6 extension headers are repeated in each. */
#pragma once
#include <stdint.h>

#include "net/hdr.h"

struct net_gso {
        const uint8_t *frame; /* the caller's, until the last segment is out */
        struct net_layout at;
        uint32_t payload; /* bytes after the headers */
        uint32_t size;    /* of it in each segment but the last */
        uint32_t done;    /* of it in segments that are out */
        unsigned index;   /* of the next segment */
};

/* `frame` is a private copy.  It is checked again here, since net_tx_check() saw another copy.  0, or -EINVAL: not what `hdr` says,
 * or a packet that cannot be cut (behind a routing header; a segment longer than IP can say). */
int net_gso_begin(struct net_gso *g, const struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len);

/* Writes the next segment to `out` (room for headers + size, NET_GSO_ROOM is enough for any) and returns its length; 0 after the last. */
uint32_t net_gso_next(struct net_gso *g, uint8_t *out, uint32_t room);

#define NET_GSO_ROOM VW_FRAME_MAX
