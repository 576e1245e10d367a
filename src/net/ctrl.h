/* Control commands (5.1.6.5) as bytes, both ways, from one table: which feature a command needs, how its data is laid out, what
 * values are legal.  Little-endian, as everything in VERSION_1. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/mac.h"
#include "virtio/spec.h"

/* entries of each list that the device filters exactly; more: promiscuous in that list */
#define NET_MAC_TABLE_MAX 64
#define NET_VLAN_ID_MAX   4095

struct net_mac_list {
        const uint8_t *macs; /* n times NET_MAC_LEN bytes; in the command's buffer after decoding */
        uint32_t n;
};

struct net_ctrl {
        uint8_t class_id, command; /* VIRTIO_NET_CTRL_* */
        union {
                /* RX_*: 0 or 1; VLAN_*: the id; MQ_VQ_PAIRS_SET: pairs; GUEST_OFFLOADS_SET: the mask */
                uint64_t value;
                uint8_t mac[NET_MAC_LEN]; /* MAC_ADDR_SET */
                struct {
                        struct net_mac_list unicast, multicast;
                } table; /* MAC_TABLE_SET */
                struct {
                        uint16_t queue;                  /* VQ_SET and VQ_GET only */
                        uint32_t max_packets, max_usecs; /* not in VQ_GET */
                } coal;                                  /* NOTF_COAL_* */
        };
};

/* The feature bit (a mask) that allows the command; 0: we do not know it. */
uint64_t net_ctrl_feature(uint8_t class_id, uint8_t command);

/* `bytes`: a private copy of the command without its ack, class first.  0; -EOPNOTSUPP: unknown or not negotiated; -EINVAL: too short or
 * too long, a value outside its range, a list that its bytes do not bear out, an offload that was not negotiated.  A failure is
 * answered with VIRTIO_NET_ERR.  Whether a queue or a number of pairs exists is the device's to know. */
int net_ctrl_decode(const uint8_t *bytes, uint32_t len, uint64_t features, struct net_ctrl *ret_cmd);

/* The same bytes from the struct.  Their number, -EINVAL for a value outside its range (a zero address in a list, too), or -ENOSPC. */
int net_ctrl_encode(const struct net_ctrl *cmd, uint8_t *out, uint32_t room);

/* The two numbers that a device answers VQ_GET with. */
void net_ctrl_get_coal(const uint8_t bytes[8], uint32_t *ret_max_packets, uint32_t *ret_max_usecs);
void net_ctrl_put_coal(uint32_t max_packets, uint32_t max_usecs, uint8_t bytes[8]);
