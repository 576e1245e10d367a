/* The control queue: what the guest's driver asks of the device (5.1.6.5).
 *
 * A command is copied into private memory before it is looked at, and answered at once: its ack byte is written, the buffer
 * pushed, and what it asked for is in force by then on this worker, and on the others from their next burst on.  What is
 * malformed, unknown, out of range or of a feature that was not negotiated is answered with an error and changes nothing.  A command
 * without room for an ack cannot be answered: that breaks the queue.
 *
 * Only the queue's own worker runs this, so commands cannot overtake each other. */
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/iov.h"
#include "device/queue.h"
#include "net/ctrl.h"
#include "net/offload.h"

#define CTRL_BURST 16 /* commands a burst; there is hardly ever more than one */
#define COAL_BYTES 8  /* what VQ_GET is answered with, before the ack */

struct command {
        struct vw_device *dev;
        struct net_ctrl ctrl;
        uint8_t reply[COAL_BYTES];
};

static void filter_changed(struct dev_guest *guest)
{
        guest->filter.active = true;
        store_relaxed(&guest->filter_changes, guest->filter_changes + 1);
}

/* ---- the classes, under the guest's lock; true: done ---- */

static bool on_rx(struct command *c)
{
        struct dev_guest *guest = &c->dev->guest;

        guest->filter.mode[c->ctrl.command] = c->ctrl.value; /* FILTER_* are in the commands' order */
        filter_changed(guest);
        return true;
}

static bool on_mac(struct command *c)
{
        struct dev_guest *guest = &c->dev->guest;

        if (c->ctrl.command == VIRTIO_NET_CTRL_MAC_ADDR_SET) {
                memcpy(guest->filter.mac, c->ctrl.mac, NET_MAC_LEN);
        } else {
                filter_set_table(&guest->filter.unicast, &c->ctrl.table.unicast);
                filter_set_table(&guest->filter.multicast, &c->ctrl.table.multicast);
        }
        filter_changed(guest);
        return true;
}

static bool on_vlan(struct command *c)
{
        struct dev_guest *guest = &c->dev->guest;

        filter_set_vlan(&guest->filter, (uint16_t)c->ctrl.value, c->ctrl.command == VIRTIO_NET_CTRL_VLAN_ADD);
        filter_changed(guest);
        return true;
}

/* Without an announcement to acknowledge it is as good as acknowledged. */
static bool on_announce(struct command *c)
{
        c->dev->guest.announce = false;
        return true;
}

static bool on_mq(struct command *c)
{
        if (c->ctrl.value > c->dev->pairs)
                return false;
        store_relaxed(&c->dev->guest.pairs, (unsigned)c->ctrl.value);
        return true;
}

static bool on_offloads(struct command *c)
{
        store_relaxed(&c->dev->guest.offloads, net_offloads_rx(c->ctrl.value));
        return true;
}

static struct dev_queue *coal_queue(struct command *c)
{
        struct vw_device *dev = c->dev;
        struct dev_queue *q = c->ctrl.coal.queue < dev->n_vrings ? &dev->queues[c->ctrl.coal.queue] : NULL;

        return q && load_relaxed(&q->live) && q->kind != VW_CTRL ? q : NULL;
}

static bool on_coal(struct command *c)
{
        struct vw_device *dev = c->dev;
        enum vw_queue_kind kind = c->ctrl.command == VIRTIO_NET_CTRL_NOTF_COAL_TX_SET ? VW_TX : VW_RX;
        uint32_t usecs = c->ctrl.coal.max_usecs, frames = c->ctrl.coal.max_packets;
        struct vw_queue_settings s;
        struct dev_queue *q;

        coalesce_clamp(&usecs, &frames);
        switch (c->ctrl.command) {
        case VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET:
                q = coal_queue(c);
                if (q)
                        dev_settings_coalesce(q, usecs, frames);
                return q;
        case VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET:
                q = coal_queue(c);
                if (!q)
                        return false;
                s = settings_unpack(load_relaxed(&q->wanted));
                net_ctrl_put_coal(s.frames, s.usecs, c->reply);
                return true;
        default:
                dev_settings_coalesce_all(dev, kind, usecs, frames);
                return true;
        }
}

static bool (*const handlers[])(struct command *c) = {
        [VIRTIO_NET_CTRL_RX] = on_rx,          [VIRTIO_NET_CTRL_MAC] = on_mac,
        [VIRTIO_NET_CTRL_VLAN] = on_vlan,      [VIRTIO_NET_CTRL_ANNOUNCE] = on_announce,
        [VIRTIO_NET_CTRL_MQ] = on_mq,          [VIRTIO_NET_CTRL_GUEST_OFFLOADS] = on_offloads,
        [VIRTIO_NET_CTRL_NOTF_COAL] = on_coal,
};

/* ---- one command ---- */

/* What a command means outside this queue: to the port, to workers that sleep. */
static void carry_on(struct vw_device *dev, unsigned class_id)
{
        switch (class_id) {
        case VIRTIO_NET_CTRL_MQ:
                dev_update_active(dev);
                break;
        case VIRTIO_NET_CTRL_GUEST_OFFLOADS:
                dev_update_offloads(dev);
                break;
        case VIRTIO_NET_CTRL_NOTF_COAL:
                for (unsigned i = 1; i < dev->n_workers; i++)
                        mailbox_ring(&dev->workers[i].mailbox);
                break;
        }
}

static bool carry_out(struct dev_queue *q, struct command *c, const uint8_t *bytes, uint32_t len)
{
        struct vw_device *dev = q->dev;
        bool done;

        if (net_ctrl_decode(bytes, len, q->cfg.features, &c->ctrl) < 0)
                return false;
        check(c->ctrl.class_id < ARRAY_SIZE(handlers));
        pthread_mutex_lock(&dev->guest.lock);
        done = handlers[c->ctrl.class_id](c);
        pthread_mutex_unlock(&dev->guest.lock);
        if (done)
                carry_on(dev, c->ctrl.class_id);
        return done;
}

/* Bytes of reply.  Only one command has any; they are a part of its data, and so they precede the ack. */
static uint32_t reply_size(const uint8_t *bytes, uint32_t len)
{
        return len >= sizeof(struct virtio_net_ctrl_hdr) && bytes[0] == VIRTIO_NET_CTRL_NOTF_COAL &&
                               bytes[1] == VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET
                       ? COAL_BYTES
                       : 0;
}

/* Reads, does and answers the command of one chain.  False: it has no room for an answer. */
static bool serve(struct dev_queue *q, struct vq_chain *chain)
{
        struct command c = { .dev = q->dev };
        uint8_t *bytes = q->worker->frame, answer[COAL_BYTES + 1];
        uint32_t len = chain->len_out, reply = 0;
        bool done = false;

        if (chain->fault || chain->len_in < 1)
                return false;
        if (len <= DEV_FRAME_ROOM) {
                iov_to_buf(chain->iov, chain->n_out, 0, bytes, len);
                reply = MIN(reply_size(bytes, len),
                            chain->len_in - 1); /* the ack is the last byte also where there is too little */
                done = carry_out(q, &c, bytes, len) && reply == reply_size(bytes, len);
        }
        memcpy(answer, c.reply, reply);
        answer[reply] = done ? VIRTIO_NET_OK : VIRTIO_NET_ERR;
        chain->written = reply + 1;
        iov_from_buf(chain->iov + chain->n_out, chain->n_in, 0, answer, chain->written);
        counter_add(&q->counters[VW_C_commands], 1);
        counter_add(&q->counters[VW_C_nacks], !done);
        counter_add(&q->counters[VW_C_packets], 1);
        counter_add(&q->counters[VW_C_bytes], len);
        return true;
}

int dev_ctrl_run(struct dev_queue *q, struct dev_run *run)
{
        struct vq_chain chains[CTRL_BURST];
        int n;

        q->pool.used = 0;
        n = vq_device_pop(&q->vq, &q->pool, chains, MIN(run->max, (unsigned)CTRL_BURST));
        for (int i = 0; i < n; i++) {
                if (!serve(q, &chains[i]))
                        return vq_device_break(&q->vq, "no-ack", chains[i].id);
                run->packets++;
                run->published++;
                run->ndesc += chains[i].ndesc;
                run->bytes += chains[i].len_out;
                vq_device_push(&q->vq, &chains[i], 1);
                vq_device_publish(&q->vq);
        }
        return n < 0 ? n : 0;
}
