/* The device's configuration space (5.1.4), read whole and believed after checks.  vhost-user has no generation number: what reads the
 * same twice is taken as one.  A field that cannot be true costs its feature and a warning, not the device. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "driver/driver.h"

#define CONFIG_TRIES   8 /* of a space that changes between two reads */
#define PAIRS_MAX      0x8000
#define SPEED_MAX      0x7fffffff
#define DUPLEX_UNKNOWN 0xff

/* Features that are only true with a configuration space to read. */
#define NEED_CONFIG (F(mac) | F(mtu) | F(status) | F(speed_duplex) | F(mq))

/* Bytes that the fields of `features` reach up to; 0 when there are none. */
static uint32_t config_end(uint64_t features)
{
        static const struct {
                uint64_t feature;
                uint32_t end;
        } fields[] = {
                {F(speed_duplex), offsetof(struct virtio_net_config, rss_max_key_size)   },
                { F(mtu),         offsetof(struct virtio_net_config, speed)              },
                { F(mq),          offsetof(struct virtio_net_config, mtu)                },
                { F(status),      offsetof(struct virtio_net_config, max_virtqueue_pairs)},
                { F(mac),         offsetof(struct virtio_net_config, status)             },
        };

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (features & fields[i].feature)
                        return fields[i].end;
        return 0;
}

/* Reads until two reads agree.  -EIO: the device has no such space; -EPROTO: it never stands still. */
static int read_twice(struct vw_driver *drv, uint32_t size, struct virtio_net_config *ret_config)
{
        struct virtio_net_config a = { 0 }, b = { 0 };
        int r = vu_frontend_get_config(&drv->fe, 0, size, &a);

        for (int i = 0; !r && i < CONFIG_TRIES; i++) {
                r = vu_frontend_get_config(&drv->fe, 0, size, &b);
                if (!r && !memcmp(&a, &b, size)) {
                        *ret_config = a;
                        return 0;
                }
                a = b;
        }
        drv->fe.why = r ? drv->fe.why : "the configuration space never stands still";
        return r ? r : -EPROTO;
}

static void pick_mac(struct vw_driver *drv, uint64_t *features, const uint8_t offered[6])
{
        uint8_t *mac = drv->net.mac;

        if (*features & F(mac) && !net_mac_is_station(offered)) {
                log_warn("driver", "the device's MAC is no station's: not used");
                *features &= ~F(mac);
        }
        if (!net_mac_is_zero(drv->config.mac))
                memcpy(mac, drv->config.mac, 6);
        else if (*features & F(mac))
                memcpy(mac, offered, 6);
        else if (!net_mac_is_station(mac)) { /* a random one stays over reconnections */
                if (getrandom(mac, 6, 0) != 6)
                        memcpy(mac, &drv->started, 6);
                net_mac_make_local(mac);
        }
}

/* What may change while the device runs. */
static void adopt_changeable(struct vw_driver *drv, uint64_t features, const struct virtio_net_config *c)
{
        uint32_t speed = le32_to_cpu(c->speed);

        drv->net.link_up = !(features & F(status)) || le16_to_cpu(c->status) & VIRTIO_NET_S_LINK_UP;
        drv->net.speed = features & F(speed_duplex) && speed <= SPEED_MAX ? speed : UINT32_MAX;
        drv->net.duplex = features & F(speed_duplex) && c->duplex <= 1 ? c->duplex : DUPLEX_UNKNOWN;
}

int drv_config_read(struct vw_driver *drv, uint64_t *features)
{
        bool has_space = drv->fe.protocol_features & BIT(VHOST_USER_PROTOCOL_F_CONFIG);
        struct virtio_net_config c = { 0 };
        uint64_t queue_num = 1;
        unsigned pairs = 1, mtu;
        uint32_t size = config_end(*features);
        int r = has_space && size ? read_twice(drv, size, &c) : -EIO;

        if (r && r != -EIO)
                return r;
        if (r) /* no space, or none of these fields in it */
                *features &= ~NEED_CONFIG | (*features & F(mq));
        mtu = le16_to_cpu(c.mtu);
        if (*features & F(mtu) && mtu < VIRTIO_NET_MTU_MIN) {
                log_warn("driver", "the device's MTU is under 68: not used mtu=%u", mtu);
                *features &= ~F(mtu);
        }
        if (drv->fe.protocol_features & BIT(VHOST_USER_PROTOCOL_F_MQ)) {
                r = vu_frontend_queue_num(&drv->fe, &queue_num);
                if (r && r != -EIO)
                        return r;
        }
        if (*features & F(mq)) {
                pairs = has_space && size ? le16_to_cpu(c.max_virtqueue_pairs)
                                          : (unsigned)MIN(queue_num, PAIRS_MAX);
                if (!pairs || pairs > PAIRS_MAX) {
                        log_warn("driver",
                                 "the device's number of queue pairs is impossible: one is used pairs=%u",
                                 pairs);
                        *features &= ~F(mq);
                        pairs = 1;
                }
        }
        drv->net.pairs_max = pairs;
        drv->net.pairs = (unsigned)MIN(MIN(drv->n_pairs, pairs), MAX(queue_num, 1));
        drv->net.mtu = *features & F(mtu) ? mtu : 0;
        pick_mac(drv, features, c.mac);
        adopt_changeable(drv, *features, &c);
        return 0;
}

/* The device says that something has changed: link, announcement, MAC of a later day.  A device that cannot be read is lost. */
void drv_config_changed(struct vw_driver *drv)
{
        struct virtio_net_config c = { 0 };
        uint32_t size = config_end(drv->net.features);
        int r = size ? read_twice(drv, size, &c) : 0;

        if (r) {
                drv_lose(drv, r, drv->fe.why);
                return;
        }
        adopt_changeable(drv, drv->net.features, &c);
        if (drv->net.features & F(guest_announce) && le16_to_cpu(c.status) & VIRTIO_NET_S_ANNOUNCE)
                drv_ctrl_announce_ack(drv);
        if (drv->ops.changed)
                drv->ops.changed(drv->config.ctx);
}
