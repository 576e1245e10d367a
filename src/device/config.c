/* What the device offers: feature bits, the configuration space (5.1.4), the roles of its virtqueues; and what it tells the port. */
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "device/queue.h"
#include "net/offload.h"

#define SPEED_MBIT  10000 /* what Linux says of a TAP */
#define DUPLEX_FULL 1     /* as Linux reads it: the standard contradicts itself (5.1.4) */

uint64_t dev_features_possible(const struct vw_device *dev, uint64_t mask)
{
        uint64_t features = features_device() & mask;

        if (dev->pairs == 1)
                features &= ~F(mq);
        if (!dev->mtu)
                features &= ~F(mtu);
        return features_closed(features);
}

/* The control queue comes after all pairs that MQ makes possible, else after the first (5.1.2). */
bool dev_queue_kind(const struct vw_device *dev, uint64_t features, unsigned index,
                    enum vw_queue_kind *ret_kind)
{
        unsigned pairs = features & F(mq) ? dev->pairs : 1;

        if (index > 2 * pairs || (index == 2 * pairs && !(features & F(ctrl_vq))))
                return false;
        *ret_kind = index == 2 * pairs ? VW_CTRL : index % 2 ? VW_TX : VW_RX;
        return true;
}

uint32_t dev_config_read(struct vw_device *dev, uint8_t *buf, uint32_t offset, uint32_t size)
{
        struct virtio_net_config config = {
                .max_virtqueue_pairs = cpu_to_le16((uint16_t)dev->pairs),
                .mtu = cpu_to_le16((uint16_t)(dev->front_mtu ? dev->front_mtu : dev->mtu)),
                .speed = cpu_to_le32(SPEED_MBIT),
                .duplex = DUPLEX_FULL,
        };
        uint16_t status = dev->link_up ? VIRTIO_NET_S_LINK_UP : 0;

        if (offset >= sizeof(config))
                return 0;
        pthread_mutex_lock(&dev->guest.lock);
        memcpy(config.mac, dev->guest.filter.mac, sizeof(config.mac));
        if (dev->guest.announce)
                status |= VIRTIO_NET_S_ANNOUNCE;
        pthread_mutex_unlock(&dev->guest.lock);
        config.status = cpu_to_le16(status);
        size = MIN(size, (uint32_t)sizeof(config) - offset);
        memcpy(buf, (const uint8_t *)&config + offset, size);
        return size;
}

/* Frames come on the pairs that the guest's driver asked for, where the control queue reaches us; else on those that the front end
 * has enabled (5.1.6.5.5, and QEMU, which keeps the control queue to itself). */
void dev_update_active(struct vw_device *dev)
{
        unsigned pairs = 0, rx_pairs = dev->pairs;
        enum vw_queue_kind kind;
        bool ctrl = false;

        pthread_mutex_lock(&dev->port_lock);
        for (unsigned i = 0; i < dev->n_vrings; i++)
                if (dev_queue_kind(dev, dev->features, i, &kind) && kind == VW_CTRL)
                        ctrl = load_relaxed(&dev->queues[i].live);
        if (ctrl)
                pairs = rx_pairs = load_relaxed(&dev->guest.pairs);
        else
                while (pairs < dev->pairs && load_relaxed(&dev->queues[2 * pairs].live))
                        pairs++;
        vw_port_set_active(dev->port, MAX(pairs, 1u));
        for (unsigned i = 0; i < dev->n_workers && rx_pairs != dev->rx_pairs; i++)
                mailbox_ring(&dev->workers[i].mailbox);
        store_relaxed(&dev->rx_pairs, rx_pairs);
        pthread_mutex_unlock(&dev->port_lock);
}

void dev_update_offloads(struct vw_device *dev)
{
        pthread_mutex_lock(&dev->port_lock);
        vw_port_set_rx_offloads(dev->port, load_relaxed(&dev->guest.offloads));
        pthread_mutex_unlock(&dev->port_lock);
}

bool dev_update_port(struct vw_device *dev)
{
        struct vw_port_info info;
        unsigned mtu = dev->front_mtu;
        bool up, changed;

        pthread_mutex_lock(&dev->port_lock);
        vw_port_info(dev->port, &info);
        pthread_mutex_unlock(&dev->port_lock);
        store_relaxed(&dev->port_tx_offloads, info.tx_offloads);

        if (!mtu)
                mtu = dev->features & F(mtu) ? dev->mtu : info.mtu;
        store_relaxed(&dev->mtu_limit, mtu ? mtu : VIRTIO_NET_MTU_MAX);

        up = dev->link_wanted && info.link_up;
        changed = up != dev->link_up;
        dev->link_up = up;
        if (changed && up && dev->features & F(guest_announce)) {
                /* the wire may lead elsewhere now: the neighbours there should learn the guest's address */
                pthread_mutex_lock(&dev->guest.lock);
                dev->guest.announce = true;
                pthread_mutex_unlock(&dev->guest.lock);
        }
        return changed;
}
