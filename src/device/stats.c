/* Statistics of a device.  A running queue's numbers are collected by its worker, between two bursts, so that they fit together. */
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "device/queue.h"

/* Counters that a policy keeps for itself. */
static void policy_counters(const struct dev_queue *q, uint64_t *counters)
{
        counters[VW_C_calls_coalesced] = q->coalesce.held;
        counters[VW_C_coalesce_frames] = q->coalesce.released[COALESCE_FRAMES];
        counters[VW_C_coalesce_timer] = q->coalesce.released[COALESCE_TIMER];
        counters[VW_C_poll_hits] = q->polling.hits;
        counters[VW_C_poll_misses] = q->polling.misses;
        counters[VW_C_poll_ns] = q->polling.poll_ns;
}

static void queue_stats(const struct dev_queue *q, struct vw_queue_stats *s)
{
        const char *broken = load_relaxed(&q->broken);
        struct vw_queue_settings settings =
                settings_unpack(q->kind == VW_CTRL ? 0 : load_relaxed(&q->wanted));
        struct vq_state state = { 0 };

        if (settings.adaptive) { /* what it has chosen, not what bounds it */
                settings.usecs = q->coalesce.usecs;
                settings.frames = q->coalesce.frames;
        }
        if (q->life == VQ_RUNNING)
                vq_device_state(&q->vq, &state);
        s->size = q->cfg.size;
        s->enabled = q->life == VQ_RUNNING && q->enabled;
        s->broken = broken;
        s->settings = settings;
        memcpy(s->counters, q->counters, sizeof(s->counters));
        memcpy(s->drops, q->drops, sizeof(s->drops));
        policy_counters(q, s->counters);
        s->ring_state.avail = state.avail;
        s->ring_state.used = state.used;
        s->ring_state.event_ours = state.event_ours;
        s->ring_state.event_peer = state.event_peer;
        s->ring_state.last_avail = state.last_avail;
        s->ring_state.last_used = state.last_used;
}

struct collection {
        struct dev_worker *worker;
        struct vw_stats *stats;
};

static void collect_running(void *arg)
{
        struct collection *c = arg;
        struct vw_device *dev = c->worker->dev;

        for (unsigned i = 0; i < c->stats->n_queues; i++) {
                struct vw_queue_stats *s = &c->stats->queues[i];

                if (dev->queues[s->index].worker == c->worker)
                        queue_stats(&dev->queues[s->index], s);
        }
}

void vw_device_stats(struct vw_device *dev, struct vw_stats *ret_stats)
{
        uint64_t features = dev->features ? dev->features : dev->offered;
        struct vw_port_info info;

        memset(ret_stats, 0, sizeof(*ret_stats));
        pthread_mutex_lock(&dev->port_lock);
        vw_port_info(dev->port, &info);
        pthread_mutex_unlock(&dev->port_lock);
        ret_stats->state = dev->session ? VW_CONNECTED : VW_LISTENING;
        ret_stats->uptime_ns = clock_now() - dev->born;
        ret_stats->features = dev->features;
        ret_stats->protocol_features = dev->session ? vu_backend_protocol_features(dev->session) : 0;
        ret_stats->has_port = true;
        memcpy(ret_stats->port.kind, info.kind, sizeof(info.kind));
        memcpy(ret_stats->port.name, info.name, sizeof(info.name));
        ret_stats->port.link_up = dev->link_wanted && info.link_up;
        ret_stats->port.dropped = info.dropped;
        ret_stats->port.capture_lost = vw_port_capture_lost(dev->port);
        ret_stats->last_close = dev->last_close[0] ? dev->last_close : NULL;
        for (unsigned i = 0; i < dev->n_vrings; i++) {
                struct vw_queue_stats *s = &ret_stats->queues[ret_stats->n_queues];

                if (!dev_queue_kind(dev, features, i, &s->kind))
                        continue;
                s->index = i;
                s->pair = s->kind == VW_CTRL ? 0 : i / 2;
                s->ring = "split";
                if (dev->queues[i].life == VQ_RUNNING)
                        ret_stats->state = VW_RUNNING;
                ret_stats->n_queues++;
        }
        for (unsigned i = 0; i < dev->n_workers; i++)
                dev_on_worker(&dev->workers[i], collect_running,
                              &(struct collection){ .worker = &dev->workers[i], .stats = ret_stats });
}
