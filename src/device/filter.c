#include "device/filter.h"

#include <string.h>

#include "base/check.h"
#include "net/hdr.h"
#include "virtio/features.h"

#define TYPE_VLAN 0x8100
#define VID_MASK  0xfff

void filter_init(struct filter *f, const uint8_t mac[NET_MAC_LEN], uint64_t features)
{
        *f = (struct filter){ .modes = features & F(ctrl_rx), .vlans = features & F(ctrl_vlan) };
        memcpy(f->mac, mac, NET_MAC_LEN);
}

void filter_set_table(struct filter_table *t, const struct net_mac_list *list)
{
        t->everything = list->n > NET_MAC_TABLE_MAX;
        t->n = t->everything ? 0 : list->n;
        memcpy(t->mac, list->macs, (size_t)t->n * NET_MAC_LEN);
}

void filter_set_vlan(struct filter *f, uint16_t vid, bool on)
{
        uint64_t bit = BIT(vid % 64);

        if (on)
                f->vlan[vid / 64] |= bit;
        else
                f->vlan[vid / 64] &= ~bit;
}

static bool listed(const struct filter_table *t, const uint8_t *mac)
{
        for (unsigned i = 0; i < t->n; i++)
                if (!memcmp(t->mac[i], mac, NET_MAC_LEN))
                        return true;
        return t->everything;
}

/* Id 0 is a priority without a VLAN (IEEE 802.1Q): such frames count as untagged. */
static bool vlan_wanted(const struct filter *f, const uint8_t *frame, uint32_t have)
{
        unsigned vid;

        if (have < NET_ETH_LEN + NET_VLAN_LEN || (frame[12] << 8 | frame[13]) != TYPE_VLAN)
                return true;
        vid = (unsigned)(frame[14] << 8 | frame[15]) & VID_MASK;
        return vid == 0 || f->vlan[vid / 64] & BIT(vid % 64);
}

/* Promiscuous wins over all; a NO mode wins over an ALL mode; NOMULTI does not concern broadcasts (5.1.6.5.1.1). */
static bool address_wanted(const struct filter *f, const uint8_t *mac)
{
        static const uint8_t broadcast[NET_MAC_LEN] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

        if (!memcmp(mac, broadcast, NET_MAC_LEN))
                return !f->mode[FILTER_NOBCAST];
        if (mac[0] & 1)
                return !f->mode[FILTER_NOMULTI] && (f->mode[FILTER_ALLMULTI] || listed(&f->multicast, mac));
        return !f->mode[FILTER_NOUNI] &&
               (f->mode[FILTER_ALLUNI] || !memcmp(mac, f->mac, NET_MAC_LEN) || listed(&f->unicast, mac));
}

bool filter_wants(const struct filter *f, const uint8_t *frame, uint32_t have)
{
        if (!f->active || have < NET_ETH_LEN || f->mode[FILTER_PROMISC])
                return true;
        if (f->vlans && !vlan_wanted(f, frame, have))
                return false;
        return !f->modes || address_wanted(f, frame);
}
