/* What a driver shows of itself: counters, settings in force, ring indices, and in words what each queue waits for.  The owner fills
 * in its own pair, so nothing is read in mid-change. */
#include <inttypes.h>
#include <stdio.h>
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

/* ---- in words ---- */

struct question {
        struct drv_pair *p;
        bool tx;
        char *buf;
        size_t len;
        int n;
};

static void say(struct question *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct question *q, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        if (q->n < (int)q->len)
                q->n += vsnprintf(q->buf + q->n, q->len - (size_t)q->n, fmt, ap);
        else
                q->n += vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
}

static void say_tx(struct question *q)
{
        const struct drv_txq *t = &q->p->tx;

        if (t->hung)
                say(q, "the device has completed nothing for %u ms; senders are refused",
                    q->p->drv->config.watchdog_ms);
        else if (t->stopped & TX_STOP_RING)
                say(q,
                    "stopped: %u descriptors free, the largest packet needs %u; waits for the device to use some",
                    vq_driver_free(&t->vq), t->need);
        else if (t->stopped)
                say(q, "stopped: %" PRIu64 " bytes in flight reach the byte limit %u; waits for completions",
                    bql_inflight(&t->bql), t->bql.limit);
        else if (t->inflight)
                say(q, "takes packets; %u wait for the device", t->inflight);
        else
                say(q, "idle: nothing is out");
        say(q, ". mode %s%s", t->mode == VW_TX_NAPI ? "napi" : "orphan",
            t->clean_from_rx ? ", reaped from rx too" : "");
}

static void say_rx(struct question *q)
{
        const struct drv_rxq *r = &q->p->rx;

        if (r->first < r->n_pkts)
                say(q, "%u packets wait for the program, which did not take them", r->n_pkts - r->first);
        else if (drv_rx_pending(r))
                say(q, "packets wait for the next poll");
        else if (!r->posted)
                say(q, "no buffer is posted: memory is short");
        else
                say(q, "waits for frames with %u of %u buffers posted", r->posted, r->target);
        say(q, ". %s; sizes posted:",
            r->mergeable       ? "mergeable buffers"
            : r->chain_len > 1 ? "chains of pages"
                               : "small buffers");
        for (unsigned i = 0; i < RXBUF_SIZES; i++)
                if (r->buf.sizes[i])
                        say(q, " %u:%" PRIu64, i * VW_BUFFER_STEP, r->buf.sizes[i]);
}

/* On the owner. */
static void answer(void *arg)
{
        struct question *q = arg;
        const struct vq_driver *vq = q->tx ? &q->p->tx.vq : &q->p->rx.vq;
        char dump[256];

        if (!q->p->up) {
                say(q, "not connected");
                return;
        }
        if (vq->broken)
                say(q, "broken: %s at %u; nothing more until the next connection", vq->broken, vq->broken_at);
        else if (q->tx)
                say_tx(q);
        else
                say_rx(q);
        if (!q->p->enabled)
                say(q, "; the pair is switched off");
        say(q, "; interrupts %s", q->p->napi.armed ? "asked for" : "off: it polls");
        vq_driver_dump(vq, dump, sizeof(dump));
        say(q, "; %s", dump);
}

VW_API int vw_driver_why(struct vw_driver *drv, unsigned index, char *buf, size_t len)
{
        struct question q = { .buf = buf, .len = len };

        if (len)
                *buf = '\0';
        if (index < 2 * drv->n_pairs) {
                q.p = &drv->pairs[index / 2];
                q.tx = index % 2;
                drv_run_on_owner(q.p, answer, &q);
        } else if (drv->ctrl.vq.size && index == drv->ctrl.index) {
                say(&q,
                    drv->ctrl.late ? "the device owes %u answers; no command is sent until it gives them"
                                   : "idle: %u answers are owed",
                    drv->ctrl.late);
        } else {
                return -ENOENT;
        }
        return q.n;
}
