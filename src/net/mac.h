/* MAC addresses: which of them a station can have. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NET_MAC_LEN 6

static inline bool net_mac_is_zero(const uint8_t mac[NET_MAC_LEN])
{
        static const uint8_t zero[NET_MAC_LEN];

        return !memcmp(mac, zero, NET_MAC_LEN);
}

/* Somebody's, not a group's. */
static inline bool net_mac_is_station(const uint8_t mac[NET_MAC_LEN])
{
        return !(mac[0] & 1) && !net_mac_is_zero(mac);
}

/* Makes one of any bytes that no manufacturer has given away: locally administered, one station's. */
static inline void net_mac_make_local(uint8_t mac[NET_MAC_LEN])
{
        mac[0] = (uint8_t)((mac[0] & 0xfc) | 2);
}
