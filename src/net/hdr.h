/* The virtio-net header: bytes in shared memory <-> struct vw_net_hdr, and whether what it says about a frame holds.
 * Pure functions.  Content lies have a drop reason each (enum vw_drop); VW_DROP_NONE means the header is honest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "virtio/spec.h"
#include "vwire/stats.h"
#include "vwire/types.h"

/* The header travels as a word of eight bytes and one of four (two of them in the short layout), and it is put together and
 * taken apart in registers.  On the way through memory a wide load of what narrow stores have just written would wait until all
 * stores before it have reached the cache, those to the peer's lines among them: that is once a packet the distance between two CPUs. */
static inline struct vw_net_hdr net_hdr_of_words(uint64_t first, uint32_t second)
{
        first = le64_to_cpu(first);
        second = le32_to_cpu(second);
        return (struct vw_net_hdr){
                .flags = (uint8_t)first,
                .gso_type = (uint8_t)(first >> 8),
                .hdr_len = (uint16_t)(first >> 16),
                .gso_size = (uint16_t)(first >> 32),
                .csum_start = (uint16_t)(first >> 48),
                .csum_offset = (uint16_t)second,
                .num_buffers = (uint16_t)(second >> 16),
        };
}

/* `len` is 10 or 12 (features_hdr_len()); little-endian. */
static inline void net_hdr_decode(const uint8_t *bytes, unsigned len, struct vw_net_hdr *ret_hdr)
{
        uint64_t first;
        uint32_t second = 0;

        memcpy(&first, bytes, sizeof(first));
        memcpy(&second, bytes + sizeof(first), len - sizeof(first));
        *ret_hdr = net_hdr_of_words(first, second);
}

static inline void net_hdr_encode(const struct vw_net_hdr *hdr, unsigned len, uint8_t *bytes)
{
        uint64_t first =
                cpu_to_le64(hdr->flags | (uint64_t)hdr->gso_type << 8 | (uint64_t)hdr->hdr_len << 16 |
                            (uint64_t)hdr->gso_size << 32 | (uint64_t)hdr->csum_start << 48);
        uint32_t second = cpu_to_le32(hdr->csum_offset | (uint32_t)hdr->num_buffers << 16);

        memcpy(bytes, &first, sizeof(first)); /* sizes that the compiler knows: moves */
        if (likely(len == sizeof(first) + sizeof(second)))
                memcpy(bytes + sizeof(first), &second, sizeof(second));
        else
                memcpy(bytes + sizeof(first), &second, sizeof(uint16_t));
}

#define NET_ETH_LEN       14
#define NET_VLAN_LEN      4
#define NET_VLAN_TAGS     2  /* read through; a third is somebody else's protocol */
#define NET_TCP_CSUM_OFF  16 /* of the checksum in the TCP header */
#define NET_UDP_CSUM_OFF  6
#define NET_TYPE_IPV4     0x0800
#define NET_TYPE_IPV6     0x86dd

#define NET_TCP_GSO_LEAST 8u   /* bytes of payload in a segment */
#define NET_UDP_GSO_MOST  128u /* datagrams made of one frame */

/* Enough for Ethernet, two VLAN tags, IPv6 with some extension headers, TCP with all options. */
#define NET_HEADERS_MAX 256

/* Where the headers of a frame are: offsets from its first byte, 0 where there is none. */
struct net_layout {
        uint16_t ethertype; /* after VLAN tags */
        uint16_t l3;        /* first byte after the Ethernet header and its tags */
        uint16_t l4; /* first byte after the IP headers, if those are whole and their length fits the frame */
        uint16_t end;     /* first byte of TCP or UDP payload */
        uint32_t ip_end;  /* first byte after the IP packet: what follows is padding */
        uint8_t l4_proto; /* IPPROTO_*; IPPROTO_NONE in a later fragment */
        bool fragment;    /* any fragment of an IP packet */
        bool routed;      /* an IPv6 routing header says that the last address is another */
};

/* Reads the headers out of `bytes` (the first `have` bytes of a frame of `len`).  Never reads past them.
 * True if Ethernet, IP and a TCP or UDP header are all whole.  An IP length of 0 is read as "all of the frame", as Linux does
 * with GSO packets that are too long to say. */
bool net_parse(const uint8_t *bytes, uint32_t have, uint32_t len, struct net_layout *ret_layout);

/* A frame that a driver transmits (5.1.6.2): `hdr` as decoded, `len` its length, `bytes` a private copy of its first
 * MIN(len, NET_HEADERS_MAX) bytes, `features` as negotiated.  Clears what is to be ignored (unknown flags, DATA_VALID,
 * RSC_INFO, num_buffers, csum fields without NEEDS_CSUM, gso_size without a type), recomputes hdr_len, which is never trusted.
 * NEEDS_CSUM without VIRTIO_NET_F_CSUM is `not-negotiated`: the frame's checksum is certainly not in it. */
enum vw_drop net_tx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features);

/* A frame that a device delivered (5.1.6.4): the same for the driver, with the GUEST_ bits.  DATA_VALID is kept where GUEST_CSUM
 * is on and NEEDS_CSUM, which wins, is not set; num_buffers is kept. */
enum vw_drop net_rx_check(struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint64_t features);

/* Whether the frame, or the longest segment of it, is over `mtu` bytes after the Ethernet header and its VLAN tags.  `hdr` has
 * passed a check, `bytes` as there. */
bool net_over_mtu(const struct vw_net_hdr *hdr, const uint8_t *bytes, uint32_t len, uint32_t mtu);
