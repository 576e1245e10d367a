/* The sending half of TCP, as little of it as a stream over a link that loses next to nothing needs: a handshake, the peer's window,
 * and going back to what was not acknowledged.  Pure: frames are made and looked at here, and sent by others.  What is in the
 * payload does not matter, so nothing is kept for another transmission. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vwire/types.h"

#define TINYTCP_HEADERS 54 /* bytes: Ethernet, IPv4, TCP without options */
#define TINYTCP_SYN     62 /* with the options of a SYN */
#define TINYTCP_MSS     1460
#define TINYTCP_MAX     (44 * TINYTCP_MSS) /* payload of one packet with segmentation offload */
#define TINYTCP_ARP     42

/* Between whom. */
struct tinytcp_path {
        uint8_t own_mac[6], peer_mac[6];
        uint32_t own_ip, peer_ip; /* host byte order, as are ports and sequence numbers */
        bool resolved;            /* peer_mac is known */
};

struct tinytcp {
        uint16_t own_port, peer_port;
        bool established, reset;
        uint32_t una, nxt, top, rcv_nxt; /* top: the highest that nxt has been */
        uint32_t window;                 /* bytes that the peer takes beyond una */
        uint8_t window_scale;            /* of the peer's later windows */
        unsigned repeats;                /* acknowledgements of nothing new in a row */
        uint64_t acked;                  /* payload bytes, ever */
        uint64_t progress_at; /* ns: when something was last acknowledged, or sent after nothing was out */
};

enum { TINYTCP_RST = 4, TINYTCP_PSH = 8 };

/* A request for the peer's address, or the answer to one that came (`request`: its frame).  TINYTCP_ARP bytes. */
void tinytcp_arp(const struct tinytcp_path *path, const uint8_t *request, uint8_t *frame);
/* Looks at a frame that may be ARP: true if it asks for us; learns the peer's address from any that comes from it. */
bool tinytcp_arp_input(struct tinytcp_path *path, const uint8_t *frame, size_t len);

void tinytcp_open(struct tinytcp *t, uint16_t own_port, uint16_t peer_port, uint32_t first, uint64_t now);
/* The first frame, TINYTCP_SYN bytes. */
void tinytcp_syn(const struct tinytcp *t, const struct tinytcp_path *path, uint8_t *frame,
                 struct vw_net_hdr *ret_hdr);
/* Headers for `payload` bytes from nxt on; the payload stands behind them.  tinytcp_sent() when it is on its way. */
void tinytcp_headers(const struct tinytcp *t, const struct tinytcp_path *path, uint32_t payload,
                     uint8_t flags, uint8_t *frame, struct vw_net_hdr *ret_hdr);
void tinytcp_sent(struct tinytcp *t, uint32_t payload, uint64_t now);
/* What may be sent now. */
uint32_t tinytcp_room(const struct tinytcp *t);

/* The ports of a TCP frame to us; false if it is none. */
bool tinytcp_ports(const struct tinytcp_path *path, const uint8_t *frame, size_t len, uint16_t *ret_own,
                   uint16_t *ret_peer);
/* A frame of this connection has come. */
void tinytcp_input(struct tinytcp *t, const uint8_t *frame, size_t len, uint64_t now);
/* Nothing has been acknowledged for too long: goes back.  True: send again (before `established`: the SYN). */
bool tinytcp_timeout(struct tinytcp *t, uint64_t now);
