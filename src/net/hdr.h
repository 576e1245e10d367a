/* The virtio-net header: bytes in shared memory <-> struct vw_net_hdr, and whether what it says about a frame holds.
 * Pure functions.  Content lies have a drop reason each (enum vw_drop); 0 means the header is honest. */
#pragma once
#include <stdint.h>

#include "vwire/stats.h"
#include "vwire/types.h"

/* `len` is 10 or 12 (features_hdr_len()); little-endian. */
void net_hdr_decode(const uint8_t *bytes, unsigned len, struct vw_net_hdr *ret_hdr);
void net_hdr_encode(const struct vw_net_hdr *hdr, unsigned len, uint8_t *bytes);

/* Enough for Ethernet, two VLAN tags, IPv6 with some extension headers, TCP with all options. */
#define NET_HEADERS_MAX 256

/* Where the headers of a frame are. */
struct net_layout {
        uint16_t ethertype;   /* after VLAN tags */
        uint16_t l3, l4, end; /* offsets; `end`: first byte of payload; 0 where there is none */
        uint8_t l4_proto;     /* IPPROTO_*; 0 unknown or a later fragment */
        bool fragment;        /* any fragment of an IP packet */
};

/* Reads the headers out of `bytes` (the first `have` bytes of a frame of `len`).  Never reads past them.
 * True if Ethernet, IP and a transport header that it knows are all whole. */
bool net_parse(const uint8_t *bytes, uint32_t have, uint32_t len, struct net_layout *ret_layout);

/* A frame that a driver transmits (5.1.6.2.2): `hdr` as decoded, `len` its length, `bytes` a private copy of its first
 * MIN(len, NET_HEADERS_MAX) bytes, `features` as negotiated.  Clears what is to be ignored (unknown flags, DATA_VALID,
 * RSC_INFO, num_buffers, csum fields without NEEDS_CSUM), recomputes hdr_len.  Returns 0 or the reason to drop. */
enum vw_drop net_tx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features);

/* A frame that a device delivered (5.1.6.4): same for the driver; `offloads` are VW_OFFLOAD_* that are on. */
enum vw_drop net_rx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features);
