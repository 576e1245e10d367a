/* What the program may ask of the device through the control queue, and what each answer changes here. */
#include <errno.h>
#include <string.h>

#include "driver/driver.h"
#include "net/offload.h"

static int number(struct vw_driver *drv, uint8_t class_id, uint8_t command, uint64_t value)
{
        struct net_ctrl cmd = { .class_id = class_id, .command = command, .value = value };

        return drv_ctrl_command(drv, &cmd, NULL, 0);
}

/* ---- queue pairs ---- */

struct enable {
        struct drv_pair *p;
        bool on;
};

static void pair_enable(void *arg)
{
        struct enable *e = arg;

        e->p->enabled = e->on;
        if (!e->on)
                drv_tx_flush(e->p);
}

static void enable_pairs(struct vw_driver *drv, unsigned from, unsigned to, bool on)
{
        for (unsigned i = from; i < to; i++) {
                struct enable e = { &drv->pairs[i], on };

                drv_run_on_owner(e.p, pair_enable, &e);
        }
}

static int enable_rings(struct vw_driver *drv, unsigned from, unsigned to, bool on)
{
        int r = 0;

        for (unsigned i = 2 * from; !r && i < 2 * to; i++)
                r = vu_frontend_vring_enable(&drv->fe, i, on);
        return r;
}

/* A device learns the number by the command, its front end's rings by SET_VRING_ENABLE; some go by only one of the two.
 * Growing: the rings run before they are counted.  Shrinking: nothing more is queued before the command is placed (5.1.6.5.5). */
VW_API int vw_driver_set_pairs(struct vw_driver *drv, unsigned pairs)
{
        unsigned old = drv->net.active;
        int r;

        if (!drv->connected)
                return -ENETDOWN;
        if (!pairs || pairs > drv->net.pairs)
                return -EINVAL;
        if (drv->net.pairs == 1)
                return 0;
        enable_pairs(drv, pairs, old, false);
        r = enable_rings(drv, old, pairs, true);
        if (!r)
                r = number(drv, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, pairs);
        if (r == -EIO || r == -ENETDOWN || r == -ENOTCONN) {
                enable_pairs(drv, pairs, old, true);
                return r;
        }
        if (r == -ENOTSUP) /* no control queue: the rings that are enabled say it */
                r = 0;
        enable_pairs(drv, old, pairs, true);
        drv->net.active = drv->pairs_wish = pairs;
        if (pairs != old && drv->ops.changed)
                drv->ops.changed(drv->config.ctx);
        return r;
}

/* ---- what is received ---- */

VW_API int vw_driver_set_promisc(struct vw_driver *drv, bool on)
{
        return number(drv, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, on);
}

VW_API int vw_driver_set_allmulti(struct vw_driver *drv, bool on)
{
        return number(drv, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_ALLMULTI, on);
}

VW_API int vw_driver_set_macs(struct vw_driver *drv, const uint8_t (*unicast)[6], unsigned n_unicast,
                              const uint8_t (*multicast)[6], unsigned n_multicast)
{
        struct net_ctrl cmd = {
                .class_id = VIRTIO_NET_CTRL_MAC,
                .command = VIRTIO_NET_CTRL_MAC_TABLE_SET,
                .table = {{ (const uint8_t *)unicast, n_unicast },
                          { (const uint8_t *)multicast, n_multicast }},
        };

        return drv_ctrl_command(drv, &cmd, NULL, 0);
}

VW_API int vw_driver_set_mac(struct vw_driver *drv, const uint8_t mac[6])
{
        struct net_ctrl cmd = { .class_id = VIRTIO_NET_CTRL_MAC, .command = VIRTIO_NET_CTRL_MAC_ADDR_SET };
        int r;

        memcpy(cmd.mac, mac, sizeof(cmd.mac));
        r = drv_ctrl_command(drv, &cmd, NULL, 0);
        if (!r)
                memcpy(drv->net.mac, mac, sizeof(drv->net.mac));
        return r;
}

VW_API int vw_driver_set_vlan(struct vw_driver *drv, uint16_t vid, bool on)
{
        return number(drv, VIRTIO_NET_CTRL_VLAN, on ? VIRTIO_NET_CTRL_VLAN_ADD : VIRTIO_NET_CTRL_VLAN_DEL,
                      vid);
}

int drv_ctrl_announce_ack(struct vw_driver *drv)
{
        return number(drv, VIRTIO_NET_CTRL_ANNOUNCE, VIRTIO_NET_CTRL_ANNOUNCE_ACK, 0);
}

/* ---- offloads ---- */

struct offloads {
        struct drv_pair *p;
        uint64_t features;
};

/* On the owner.  What the device has delivered before was made under the old rules, and is taken under them. */
static void adopt_offloads(void *arg)
{
        struct offloads *o = arg;

        if (o->p->up)
                drv_rx_poll(o->p, VW_QUEUE_SIZE_MAX);
        o->p->rx.features = o->features;
}

static void set_rx_features(struct vw_driver *drv, uint64_t features)
{
        for (unsigned i = 0; i < drv->net.pairs; i++) {
                struct offloads o = { &drv->pairs[i], features };

                drv_run_on_owner(o.p, adopt_offloads, &o);
        }
        drv->net.rx_features = features;
}

VW_API int vw_driver_set_offloads(struct vw_driver *drv, uint32_t offloads)
{
        uint64_t all = drv->net.features & DRV_GUEST_OFFLOADS;
        uint64_t on = features_closed(drv->net.features & ~(all & ~net_offloads_rx_features(offloads)));
        uint64_t old = drv->net.rx_features;
        int r;

        if (!drv->connected)
                return -ENETDOWN;
        set_rx_features(drv, on | old); /* what goes on may come before the answer */
        r = number(drv, VIRTIO_NET_CTRL_GUEST_OFFLOADS, VIRTIO_NET_CTRL_GUEST_OFFLOADS_SET, on & all);
        if (r != -ETIMEDOUT) /* then either may be true */
                set_rx_features(drv, r ? old : on);
        return r;
}

/* ---- after a connection ---- */

static void say(int r, const char *what)
{
        if (r)
                log_warn("driver", "the device would not %s: %s", what, strerror(-r));
}

/* What the configuration asks of a fresh device; nothing that it does by itself is asked for. */
void drv_ctrl_setup(struct vw_driver *drv)
{
        const struct vw_driver_config *c = &drv->config;

        drv->net.rx_features = drv->net.features;
        if (drv->net.pairs > 1 && drv->net.features & F(mq)) {
                int r = vw_driver_set_pairs(drv, MIN(drv->pairs_wish, drv->net.pairs));

                say(r, "serve several queue pairs");
                if (r == -EIO)
                        vw_driver_set_pairs(drv, 1);
        }
        if (c->promisc)
                say(vw_driver_set_promisc(drv, true), "receive everything");
        if (!net_mac_is_zero(c->mac) && drv->net.features & F(ctrl_mac_addr))
                say(vw_driver_set_mac(drv, c->mac), "take our MAC");
        if (drv_coalesce_apply(drv, drv->coalesce_wish, NULL))
                log_warn("driver", "the device would not coalesce interrupts");
}
