/* Control commands (5.1.6.5) as bytes: encoders for the driver, bounds-checked decoders for the device.  Little-endian. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "virtio/spec.h"

#define NET_MAC_LEN       6
#define NET_MAC_TABLE_MAX 64 /* entries of each list that the device filters exactly; more: promiscuous in that list */

/* MAC_TABLE_SET: two counted lists.  `data` points to the command's data.  False if counts and bytes do not fit
 * together (an entry count that is larger than what follows, bytes left over). */
struct net_mac_list {
        const uint8_t *macs;
        uint32_t n;
};
bool net_ctrl_mac_table(const uint8_t *data, uint32_t len, struct net_mac_list *ret_unicast,
                        struct net_mac_list *ret_multicast);
