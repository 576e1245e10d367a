/* A driver's life: its memory, its pairs, its socket.  The arena and the pairs live as long as the driver; what one connection negotiates
 * is built by connect.c and forgotten when the device leaves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "net/offload.h"

static int config_check(const struct vw_driver_config *c, const char **ret_why)
{
        if (!c->pairs || c->pairs > VW_QUEUE_PAIRS_MAX)
                *ret_why = "pairs must be 1..64";
        else if (c->queue_size < 2 || c->queue_size > VW_QUEUE_SIZE_MAX ||
                 c->queue_size & (c->queue_size - 1))
                *ret_why = "queue size must be a power of two, 2..32768";
        else if (c->poll_us > VW_POLL_US_MAX)
                *ret_why = "poll-us is over the limit 100000";
        else if (c->tx_usecs > VW_USECS_MAX || c->rx_usecs > VW_USECS_MAX)
                *ret_why = "usecs are over the limit 10000";
        else if (c->tx_frames > VW_FRAMES_MAX || c->rx_frames > VW_FRAMES_MAX)
                *ret_why = "frames are over the limit 1024";
        else if ((c->adaptive & VW_ADAPTIVE_RX && (c->rx_usecs || c->rx_frames)) ||
                 (c->adaptive & VW_ADAPTIVE_TX && (c->tx_usecs || c->tx_frames)))
                *ret_why = "adaptive leaves usecs and frames of its direction to the device";
        else if (!c->ctrl_timeout_ms || !c->watchdog_ms)
                *ret_why = "a time limit of 0 ms is none";
        else if ((unsigned)c->adaptive > VW_ADAPTIVE_BOTH)
                *ret_why = "adaptive is not one of enum vw_adaptive";
        else if ((unsigned)c->tx_mode > VW_TX_ORPHAN)
                *ret_why = "tx_mode is not one of enum vw_tx_mode";
        else if ((unsigned)c->kick > VW_KICK_EACH)
                *ret_why = "kick is not one of enum vw_kick";
        else if ((unsigned)c->rx_buffers > VW_BUFFERS_PAGE)
                *ret_why = "rx_buffers is not one of enum vw_rx_buffers";
        else if (c->clean_tx_from_rx < -1 || c->clean_tx_from_rx > 1)
                *ret_why = "clean_tx_from_rx must be -1, 0 or 1";
        else if (c->mac[0] & 1)
                *ret_why = "the MAC is a group address";
        else
                return 0;
        return -EINVAL;
}

static void *zalloc_array(size_t n, size_t size)
{
        return calloc(n ? n : 1, size);
}

static int pair_init(struct vw_driver *drv, unsigned index)
{
        struct drv_pair *p = &drv->pairs[index];
        int r;

        p->drv = drv;
        p->index = index;
        p->rx.index = 2 * index;
        p->tx.index = 2 * index + 1;
        p->rx_call = p->tx_call = p->rx_kick = p->tx_kick = -1;
        p->mailbox = (struct mailbox){ .bell = -1, .done = -1 };
        p->napi = (struct drv_napi){ .epfd = -1,
                                     .bell = -1,
                                     .timer = { .fd = -1 },
                                     .poll_us = drv->config.poll_us,
                                     .shared_call = drv->config.shared_call };
        r = mailbox_init(&p->mailbox);
        if (!r)
                r = drv_napi_init(p);
        if (!r)
                r = drv_rx_init(p);
        if (!r)
                r = drv_guard_add(drv);
        if (!r)
                r = drv_tx_init(p);
        return r;
}

static void pair_done(struct drv_pair *p)
{
        if (!p->drv)
                return;
        drv_rx_done(p);
        drv_tx_done(p);
        drv_napi_done(p);
        mailbox_done(&p->mailbox);
}

VW_API int vw_driver_new(const struct vw_driver_config *config, struct vw_driver **ret_drv,
                         const char **ret_why)
{
        struct vw_driver *drv;
        size_t memory;
        int r = config_check(config, ret_why);

        if (r)
                return r;
        drv = calloc(1, sizeof(*drv));
        if (!drv) {
                *ret_why = "out of memory";
                return -ENOMEM;
        }
        drv->config = *config;
        if (config->ops)
                drv->ops = *config->ops;
        drv->n_pairs = drv->pairs_wish = config->pairs;
        for (unsigned i = 0; i < config->pairs; i++) {
                drv->coalesce_wish[2 * i] =
                        (struct drv_coalesce){ .usecs = config->rx_usecs,
                                               .frames = config->rx_frames,
                                               .adaptive = config->adaptive & VW_ADAPTIVE_RX };
                drv->coalesce_wish[2 * i + 1] =
                        (struct drv_coalesce){ .usecs = config->tx_usecs,
                                               .frames = config->tx_frames,
                                               .adaptive = config->adaptive & VW_ADAPTIVE_TX };
        }
        drv->started = clock_now();
        drv->ctrl.kick = drv->ctrl.call = -1;
        drv->arena.fd = -1;
        drv->ring_bytes = ALIGN_UP(
                vq_driver_bytes(VQ_SPLIT, MAX(config->queue_size, (unsigned)CTRL_RING), F(indirect_desc)),
                RXBUF_PAGE);
        memory = drv->ring_bytes * (2 * (size_t)config->pairs + 1) + CTRL_SLOTS * CTRL_BYTES +
                 (config->pairs + 2) * (size_t)DRV_GUARD +
                 config->pairs * (drv_tx_memory(config) + drv_rx_memory(config));
        r = arena_init(&drv->arena, memory);
        if (!r)
                r = evloop_new(&drv->loop);
        drv->pairs = zalloc_array(config->pairs, sizeof(*drv->pairs));
        if (!r && !drv->pairs)
                r = -ENOMEM;
        if (!r) {
                drv->ring_mem = arena_alloc(&drv->arena, drv->ring_bytes * (2 * (size_t)config->pairs + 1),
                                            RXBUF_PAGE);
                r = drv_ctrl_init(drv);
        }
        if (!r)
                r = drv_guard_add(drv);
        for (unsigned i = 0; !r && i < config->pairs; i++)
                r = pair_init(drv, i);
        if (r) {
                *ret_why = r == -ENOMEM ? "out of memory" : strerrordesc_np(-r);
                vw_driver_free(drv);
                return r;
        }
        *ret_drv = drv;
        return 0;
}

VW_API void vw_driver_free(struct vw_driver *drv)
{
        if (!drv)
                return;
        /* Nobody polls any more, whether or not they have said so. */
        for (unsigned i = 0; drv->pairs && i < drv->n_pairs; i++)
                store_release(&drv->pairs[i].owner, 0);
        vw_driver_disconnect(drv);
        for (unsigned i = 0; drv->pairs && i < drv->n_pairs; i++)
                pair_done(&drv->pairs[i]);
        free(drv->pairs);
        evloop_free(drv->loop);
        arena_done(&drv->arena);
        free(drv);
}

int drv_lose(struct vw_driver *drv, int why, const char *text)
{
        if (!drv->lost)
                snprintf(drv->last_close, sizeof(drv->last_close), "%s", text);
        drv->lost = true;
        drv->lost_why = why;
        return why;
}

VW_API void vw_driver_disconnect(struct vw_driver *drv)
{
        if (!drv->connected)
                return;
        if (!drv->lost)
                drv_lose(drv, 0, "closed by us");
        drv_stop_device(drv);
}

VW_API int vw_driver_fd(const struct vw_driver *drv)
{
        return evloop_fd(drv->loop);
}

VW_API uint64_t vw_driver_deadline(const struct vw_driver *drv)
{
        if (drv->connected && drv->lost)
                return 0; /* found out in a call; dispatch draws the consequence */
        return evloop_next(drv->loop);
}

VW_API int vw_driver_dispatch(struct vw_driver *drv)
{
        int r = evloop_dispatch(drv->loop, 0);

        if (r)
                return r;
        if (!drv->connected || !drv->lost)
                return 0;
        log_debug("driver", "the device has left: %s", drv->last_close);
        vw_driver_disconnect(drv);
        return -ENOTCONN;
}

VW_API void vw_driver_info(const struct vw_driver *drv, struct vw_driver_info *ret_info)
{
        *ret_info = (struct vw_driver_info){ .connected = drv->connected, .last_close = drv->last_close };
        if (!drv->connected)
                return;
        memcpy(ret_info->mac, drv->net.mac, sizeof(ret_info->mac));
        ret_info->link_up = drv->net.link_up;
        ret_info->has_ctrl = drv->ctrl.up;
        ret_info->mtu = drv->net.mtu;
        ret_info->speed = drv->net.speed;
        ret_info->duplex = drv->net.duplex;
        ret_info->pairs = drv->net.active;
        ret_info->pairs_max = drv->net.pairs_max;
        ret_info->features = drv->net.features;
        ret_info->tx_offloads = net_offloads_tx(drv->net.features);
}
