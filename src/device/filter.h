/* Which received frames a guest wants: receive modes, its address and address table, VLANs (5.1.6.5.1 - 5.1.6.5.3).
 *
 * A plain value; worker threads judge by copies of it.  A zeroed filter wants everything, and so does one whose guest
 * never used the control queue: a front end such as QEMU keeps that to itself and filters on its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/ctrl.h"

#define FILTER_HEAD_BYTES 18   /* of a frame that are looked at: addresses, type, one VLAN tag */
#define FILTER_VLANS      4096 /* ids of 12 bits */

enum filter_mode {
        FILTER_PROMISC, /* in the order of the CTRL_RX commands */
        FILTER_ALLMULTI,
        FILTER_ALLUNI,
        FILTER_NOMULTI,
        FILTER_NOUNI,
        FILTER_NOBCAST,
        FILTER_MODES
};

struct filter_table {
        bool everything; /* the guest's list is longer than what is held here */
        unsigned n;
        uint8_t mac[NET_MAC_TABLE_MAX][NET_MAC_LEN];
};

struct filter {
        bool active; /* the guest uses its control queue */
        bool modes;  /* CTRL_RX is negotiated: addresses matter */
        bool vlans;  /* CTRL_VLAN is negotiated: tags matter */
        bool mode[FILTER_MODES];
        uint8_t mac[NET_MAC_LEN];
        struct filter_table unicast, multicast;
        uint64_t vlan[FILTER_VLANS / 64]; /* a bit an id */
};

/* After a reset: nothing but the own address, broadcasts, and untagged frames (5.1.6.5.2.1, 5.1.6.5.3.1). */
void filter_init(struct filter *f, const uint8_t mac[NET_MAC_LEN], uint64_t features);

void filter_set_table(struct filter_table *t, const struct net_mac_list *list);
void filter_set_vlan(struct filter *f, uint16_t vid, bool on);

/* `frame`: its first `have` bytes, FILTER_HEAD_BYTES or all there are. */
bool filter_wants(const struct filter *f, const uint8_t *frame, uint32_t have);
