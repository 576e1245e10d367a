/* Statistics of a driver: counters, settings in force, ring indices.  The owner fills in its own pair, between two polls, so that they fit
 * together. */
#include <string.h>

#include "driver/driver.h"

static const char *const ring_name[] = { [VQ_SPLIT] = "split" };

static void copy_counters(struct vw_queue_stats *s, const struct drv_counters *from)
{
        for (unsigned i = 0; i < VW_C_COUNT; i++)
                s->counters[i] = load_relaxed(&from->c[i]);
        for (unsigned i = 0; i < VW_DROP_COUNT; i++)
                s->drops[i] = load_relaxed(&from->drops[i]);
}

static void copy_ring(struct vw_queue_stats *s, const struct vq_driver *vq)
{
        struct vq_state st;

        s->ring = ring_name[vq->layout];
        s->size = vq->size;
        s->broken = vq->broken;
        if (!vq->size)
                return;
        vq_driver_state(vq, &st);
        s->ring_state.avail = st.avail;
        s->ring_state.used = st.used;
        s->ring_state.event_ours = st.event_ours;
        s->ring_state.event_peer = st.event_peer;
        s->ring_state.last_avail = st.last_avail;
        s->ring_state.last_used = st.last_used;
}

struct snapshot {
        struct drv_pair *p;
        struct vw_queue_stats *rx, *tx;
};

/* On the owner. */
static void take_snapshot(void *arg)
{
        struct snapshot *s = arg;
        const struct drv_rxq *rx = &s->p->rx;
        const struct drv_txq *tx = &s->p->tx;
        uint32_t poll_us = s->p->napi.poll_us;

        *s->rx = (struct vw_queue_stats){ .index = rx->index, .pair = s->p->index, .kind = VW_RX };
        copy_counters(s->rx, &rx->stat);
        copy_ring(s->rx, &rx->vq);
        s->rx->enabled = s->p->up && s->p->enabled;
        s->rx->settings = (struct vw_queue_settings){ .poll_us = poll_us };
        s->rx->counters[VW_C_holes] += rx->buf.holes;
        memcpy(s->rx->buffer_sizes, rx->buf.sizes, sizeof(s->rx->buffer_sizes));
        if (s->p->up && rx->mergeable) {
                s->rx->counters[VW_C_buffer_size] = rxbuf_size(&rx->buf);
                s->rx->counters[VW_C_average_length] = ewma_read(&rx->buf.average);
        } else {
                s->rx->counters[VW_C_buffer_size] = (uint64_t)rx->buf_len * rx->chain_len;
        }

        *s->tx = (struct vw_queue_stats){ .index = tx->index, .pair = s->p->index, .kind = VW_TX };
        copy_counters(s->tx, &tx->stat);
        copy_ring(s->tx, &tx->vq);
        s->tx->enabled = s->rx->enabled;
        s->tx->settings = (struct vw_queue_settings){ .poll_us = poll_us };
        s->tx->counters[VW_C_bql_limit] = tx->bql.limit;
        s->tx->counters[VW_C_bql_inflight] = bql_inflight(&tx->bql);
}

VW_API void vw_driver_stats(struct vw_driver *drv, struct vw_stats *ret_stats)
{
        *ret_stats = (struct vw_stats){
                .driver = true,
                .state = !drv->connected ? VW_LISTENING : VW_RUNNING,
                .uptime_ns = clock_now() - drv->started,
                .last_close = *drv->last_close ? drv->last_close : NULL,
        };
        if (drv->connected) {
                ret_stats->features = drv->net.features;
                ret_stats->protocol_features = drv->fe.protocol_features;
        }
        for (unsigned i = 0; i < drv->n_pairs; i++) {
                struct snapshot s = { &drv->pairs[i], &ret_stats->queues[2 * i],
                                      &ret_stats->queues[2 * i + 1] };

                drv_run_on_owner(s.p, take_snapshot, &s);
        }
        for (unsigned q = 0; q < 2 * drv->n_pairs; q++) {
                ret_stats->queues[q].settings.usecs = drv->coalesce[q].usecs;
                ret_stats->queues[q].settings.frames = drv->coalesce[q].frames;
                ret_stats->queues[q].settings.adaptive = drv->coalesce_wish[q].adaptive;
        }
        ret_stats->n_queues = 2 * drv->n_pairs;
        if (drv->ctrl.vq.size) {
                struct vw_queue_stats *s = &ret_stats->queues[ret_stats->n_queues++];

                *s = (struct vw_queue_stats){ .index = drv->ctrl.index,
                                              .kind = VW_CTRL,
                                              .enabled = drv->ctrl.up };
                copy_counters(s, &drv->ctrl.stat);
                copy_ring(s, &drv->ctrl.vq);
        }
}
