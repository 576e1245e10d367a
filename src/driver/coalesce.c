/* Interrupt coalescing on the device (5.1.6.5.9).  What is wanted is kept for each queue and outlives a connection; what the
 * device has agreed to is kept beside it.  A direction whose queues all want the same takes one command, others one a queue.  The
 * standard has no command for a device that chooses by itself; any other command ends its choice, so a queue that wants that gets none. */
#include <errno.h>

#include "driver/driver.h"

static int command(struct vw_driver *drv, uint8_t number, unsigned queue, struct drv_coalesce c)
{
        struct net_ctrl cmd = {
                .class_id = VIRTIO_NET_CTRL_NOTF_COAL,
                .command = number,
                .coal = {.queue = (uint16_t)queue, .max_packets = c.frames, .max_usecs = c.usecs},
        };

        return drv_ctrl_command(drv, &cmd, NULL, 0);
}

static bool same(struct drv_coalesce a, struct drv_coalesce b)
{
        return a.usecs == b.usecs && a.frames == b.frames;
}

static bool must_tell(const struct vw_driver *drv, unsigned q, const struct drv_coalesce *want,
                      uint64_t forced)
{
        return !want[q].adaptive && (!same(want[q], drv->coalesce[q]) || forced & BIT(q / 2));
}

/* Brings the queues of one direction (0 rx, 1 tx) to what is wanted. */
static int apply_direction(struct vw_driver *drv, unsigned tx, const struct drv_coalesce *want,
                           uint64_t forced)
{
        unsigned end = 2 * drv->net.pairs, asked = 0;
        bool uniform = drv->net.features & F(notf_coal);
        int r = 0;

        for (unsigned q = tx; q < end; q += 2) {
                uniform &= !want[q].adaptive && same(want[q], want[tx]);
                asked += must_tell(drv, q, want, forced);
        }
        if (!asked)
                return 0;
        if (uniform)
                r = command(drv, tx ? VIRTIO_NET_CTRL_NOTF_COAL_TX_SET : VIRTIO_NET_CTRL_NOTF_COAL_RX_SET, 0,
                            want[tx]);
        for (unsigned q = tx; !r && q < end; q += 2) {
                bool tell = must_tell(drv, q, want, forced);

                if (tell && !uniform)
                        r = command(drv, VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET, q, want[q]);
                if (!r && (tell || uniform))
                        drv->coalesce[q] = (struct drv_coalesce){ .usecs = want[q].usecs,
                                                                  .frames = want[q].frames,
                                                                  .told = true };
        }
        return r;
}

int drv_coalesce_apply(struct vw_driver *drv, const struct drv_coalesce *want,
                       const struct drv_forced *forced)
{
        int r = apply_direction(drv, 0, want, forced ? forced->rx : 0);

        return r ? r : apply_direction(drv, 1, want, forced ? forced->tx : 0);
}

/* ---- the program's commands ---- */

static void adopt(struct vw_driver *drv, unsigned queue, struct drv_coalesce c)
{
        drv->coalesce[queue] = drv->coalesce_wish[queue] = c;
        drv->coalesce[queue].told = true;
}

VW_API int vw_driver_set_coalesce(struct vw_driver *drv, enum vw_queue_kind kind, uint32_t usecs,
                                  uint32_t frames)
{
        struct drv_coalesce c = { .usecs = usecs, .frames = frames };
        bool tx = kind == VW_TX;
        int r;

        if (kind == VW_CTRL)
                return -EINVAL;
        r = command(drv, tx ? VIRTIO_NET_CTRL_NOTF_COAL_TX_SET : VIRTIO_NET_CTRL_NOTF_COAL_RX_SET, 0, c);
        for (unsigned q = tx; !r && q < 2 * drv->n_pairs; q += 2)
                adopt(drv, q, c);
        return r;
}

VW_API int vw_driver_set_coalesce_queue(struct vw_driver *drv, unsigned queue, uint32_t usecs,
                                        uint32_t frames)
{
        struct drv_coalesce c = { .usecs = usecs, .frames = frames };
        int r;

        if (queue >= 2 * drv->net.active)
                return -EINVAL;
        r = command(drv, VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET, queue, c);
        if (!r)
                adopt(drv, queue, c);
        return r;
}

VW_API int vw_driver_get_coalesce_queue(struct vw_driver *drv, unsigned queue, uint32_t *ret_usecs,
                                        uint32_t *ret_frames)
{
        struct net_ctrl cmd = {
                .class_id = VIRTIO_NET_CTRL_NOTF_COAL,
                .command = VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET,
                .coal = { .queue = (uint16_t)queue },
        };
        uint8_t answer[8];
        int r;

        if (queue >= 2 * drv->net.active)
                return -EINVAL;
        r = drv_ctrl_command(drv, &cmd, answer, sizeof(answer));
        if (!r)
                net_ctrl_get_coal(answer, ret_frames, ret_usecs);
        return r;
}
