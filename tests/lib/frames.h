/* Frames for tests: a builder, and a reader that shares nothing with src/net and takes no short cuts. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "vwire/types.h"

enum { TH_FIN = 1, TH_SYN = 2, TH_PSH = 8, TH_ACK = 16, TH_CWR = 128 };

struct frame_spec {
        unsigned vlans; /* 0..2 tags */
        bool v6;
        uint8_t proto; /* IPPROTO_TCP, IPPROTO_UDP; another: payload follows IP at once */
        /* IPv4: 4-byte words of options, up to 10; IPv6: 8-byte destination options headers */
        unsigned ip_words;
        unsigned tcp_words; /* of options, up to 10 */
        unsigned payload;   /* bytes; their values follow from `seed` */
        unsigned pad;       /* bytes after the IP packet, 0xa5 */
        uint16_t id;        /* IPv4 */
        uint16_t fragment;  /* IPv4: the flags and offset field */
        uint32_t seq;       /* TCP */
        uint8_t flags;      /* TCP */
        uint8_t seed;       /* of the payload */
        bool partial;       /* the transport's checksum field holds the pseudo header's sum only */
};

/* Writes the frame, returns its length.  *ret_hdr (may be NULL) asks for what `partial` leaves to do. */
uint32_t frame_build(const struct frame_spec *spec, uint8_t *out, struct vw_net_hdr *ret_hdr);
uint8_t frame_payload_byte(const struct frame_spec *spec, uint32_t i);

struct frame_view {
        unsigned vlans;
        bool v6, fragment;
        uint8_t proto;
        uint32_t l3, l4, payload, end; /* offsets; end: of the IP packet */
        uint16_t id, urgent;
        uint32_t seq;
        uint8_t flags;
};

/* NULL if all is right: lengths inside the frame, the IPv4 header's checksum, the checksum of a TCP or UDP packet that is
 * no fragment.  Otherwise what is wrong.  A frame without IP is right. */
const char *frame_wrong(const uint8_t *frame, uint32_t len, struct frame_view *ret_view);

/* RFC 1071 as it stands: 16-bit words in network order, the sum not complemented. */
uint16_t frame_sum(const uint8_t *bytes, uint32_t len, uint32_t start);
