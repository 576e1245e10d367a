/* What a front end asks for, as the vhost-user session hands it on.  Control thread; each call returns when it has been carried
 * out, on the workers too. */
#include <errno.h>

#include "base/atomics.h"
#include "base/check.h"
#include "device/queue.h"
#include "net/offload.h"
#include "virtio/features.h"

static uint64_t op_features(void *ctx)
{
        return ((struct vw_device *)ctx)->offered;
}

/* What the guest has said is forgotten: filters, offloads, pairs, coalescing are as after a reset (5.1.6.5). */
static void forget_guest(struct vw_device *dev)
{
        struct dev_guest *guest = &dev->guest;

        pthread_mutex_lock(&guest->lock);
        filter_init(&guest->filter, dev->mac, dev->features);
        store_relaxed(&guest->filter_changes, guest->filter_changes + 1);
        guest->announce = false;
        guest->coalesce[VW_RX].set = guest->coalesce[VW_TX].set = false;
        store_relaxed(&guest->pairs, 1);
        store_relaxed(&guest->offloads, net_offloads_rx(dev->features));
        for (unsigned i = 0; i < dev->n_vrings; i++)
                dev_settings_reset(&dev->queues[i]);
        pthread_mutex_unlock(&guest->lock);
        dev_update_offloads(dev);
}

/* A feature whose prerequisite is missing has no effect, and keeps FEATURES_OK away (2.2.2).  That is all: front ends pass on
 * such sets, and most of them can only give up if one is refused here. */
static int op_set_features(void *ctx, uint64_t features, const char **ret_why)
{
        struct vw_device *dev = ctx;

        dev->features = features;
        forget_guest(dev);
        dev_update_port(dev);
        return 0;
}

static int op_set_map(void *ctx, struct mem_map *map)
{
        struct vw_device *dev = ctx;
        struct mem_map *old = dev->map;

        dev->map = mem_map_get(map);
        for (unsigned i = 0; i < dev->n_vrings; i++)
                dev_queue_remap(&dev->queues[i], map);
        mem_map_put(old);
        dev_update_active(dev);
        return 0;
}

static int op_vring_start(void *ctx, unsigned index, const struct vq_config *cfg, int kick,
                          const char **ret_why)
{
        struct vw_device *dev = ctx;
        enum vw_queue_kind kind;
        int r;

        if (!dev_queue_kind(dev, dev->features, index, &kind)) {
                *ret_why = "ring: no virtqueue has this index under these features";
                return -EINVAL;
        }
        r = dev_queue_start(&dev->queues[index], kind, cfg, kick, ret_why);
        if (r == 0)
                dev_update_active(dev);
        return r;
}

static uint32_t op_vring_stop(void *ctx, unsigned index)
{
        struct vw_device *dev = ctx;
        uint32_t base = dev_queue_stop(&dev->queues[index]);

        dev_update_active(dev);
        return base;
}

static void op_vring_enable(void *ctx, unsigned index, bool on)
{
        struct vw_device *dev = ctx;

        dev_queue_enable(&dev->queues[index], on);
        dev_update_active(dev);
}

static void op_vring_call(void *ctx, unsigned index, int fd)
{
        dev_queue_set_call(&((struct vw_device *)ctx)->queues[index], fd);
}

static void op_vring_err(void *ctx, unsigned index, int fd)
{
        dev_queue_set_err(&((struct vw_device *)ctx)->queues[index], fd);
}

static uint32_t op_get_config(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size)
{
        return dev_config_read(ctx, buf, offset, size);
}

static int op_set_mtu(void *ctx, uint64_t mtu)
{
        struct vw_device *dev = ctx;

        dev->front_mtu = (unsigned)mtu;
        dev_update_port(dev);
        return 0;
}

static void op_set_status(void *ctx, uint8_t status)
{
        ((struct vw_device *)ctx)->status = status;
}

/* Whether they are a set that a driver may choose (5.1.3.1).  A front end that keeps the control queue to itself passes MQ on
 * and CTRL_VQ not. */
static bool consistent(uint64_t features)
{
        features |= F(ctrl_vq);
        return features_closed(features) == features;
}

static uint8_t op_get_status(void *ctx)
{
        struct vw_device *dev = ctx;
        uint8_t status = dev->status;

        if (!consistent(dev->features))
                status &= (uint8_t)~VIRTIO_STATUS_FEATURES_OK;
        /* 2.1.2: an error that the device cannot recover from by itself; a broken queue is one until it is set up anew */
        for (unsigned i = 0; i < dev->n_vrings; i++)
                if (load_relaxed(&dev->queues[i].broken))
                        status |= VIRTIO_STATUS_NEEDS_RESET;
        return status;
}

static void op_reset(void *ctx)
{
        struct vw_device *dev = ctx;

        for (unsigned i = 0; i < dev->n_vrings; i++) {
                check(dev->queues[i].life != VQ_RUNNING);
                dev->queues[i].enabled = dev->queues[i].was_enabled = false;
                store_relaxed(&dev->queues[i].broken, NULL);
        }
        dev->features = 0;
        dev->status = 0;
        dev->front_mtu = 0;
        forget_guest(dev);
        dev_update_port(dev);
        dev_update_active(dev);
}

const struct vu_backend_ops dev_session_ops = {
        .features = op_features,
        .set_features = op_set_features,
        .set_map = op_set_map,
        .vring_start = op_vring_start,
        .vring_stop = op_vring_stop,
        .vring_enable = op_vring_enable,
        .vring_call = op_vring_call,
        .vring_err = op_vring_err,
        .get_config = op_get_config,
        .set_mtu = op_set_mtu,
        .set_status = op_set_status,
        .get_status = op_get_status,
        .reset = op_reset,
};

void dev_session_config_changed(struct vw_device *dev)
{
        if (dev->session)
                vu_backend_config_changed(dev->session);
}
