/* The life of a queue: started, enabled, moved to another memory table, broken, stopped; and its calls to the driver.
 *
 * Each step of control is a function that runs on the queue's worker through the mailbox.  When it returns, the worker works
 * by it, so the front end can be answered. */
#include <errno.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/trace.h"
#include "device/notify.h"
#include "device/queue.h"

#define POOL_SLACK  1024 /* pieces beyond the longest chain, so that a burst of usual ones fits besides it */
#define WIRE_PACKET 1514 /* bytes of one that is full, on an Ethernet as it usually is */

static const char *const life_name[] = { "new", "configured", "running", "draining", "stopped" };
static_assert(ARRAY_SIZE(life_name) == VQ_LIFE_COUNT, "a name each");

static void vq_set_state(struct dev_queue *q, enum vq_life life)
{
        VW_TRACE(queue_life, q->index, q->life, life);
        log_debug("device", "queue: %s -> %s index=%u", life_name[q->life], life_name[life], q->index);
        q->life = life;
}

static void update_live(struct dev_queue *q)
{
        store_relaxed(&q->live, q->life == VQ_RUNNING && q->enabled && !q->vq.broken);
}

/* ---- calls ---- */

static void count_call(struct dev_queue *q, int sent)
{
        if (sent > 0)
                counter_add(&q->counters[VW_C_calls], 1);
        else if (sent < 0)
                counter_add(&q->counters[VW_C_call_errors], 1);
}

void dev_queue_release(struct dev_queue *q)
{
        q->held_desc = 0;
        if (vq_device_call_needed(&q->vq)) {
                VW_TRACE(call, q->index, 0, 0);
                count_call(q, notify_send(&q->call));
        } else if (q->call.fd >= 0) {
                counter_add(&q->counters[VW_C_calls_suppressed], 1);
        }
}

/* How many ring entries may be held from a driver before it has too few to go on: Linux stops its queue at 2 + 17 free
 * ones (MAX_SKB_FRAGS); a small ring is full when half of it waits. */
static unsigned full_mark(const struct dev_queue *q)
{
        return q->vq.size - MIN(q->vq.size / 2, 19u);
}

/* Packets as they are on the wire: a GSO frame is many. */
static unsigned wire_packets(const struct dev_run *run)
{
        return MAX(run->published, run->bytes / WIRE_PACKET);
}

static void tell_pair(struct dev_queue *q, const struct dev_run *run)
{
        struct dev_queue *other = &q->dev->queues[q->index ^ 1];

        if (q->kind != VW_CTRL && settings_unpack(other->settings).adaptive)
                moderation_beside(&other->moderation, wire_packets(run), run->now);
}

static bool call_due(struct dev_queue *q, const struct dev_run *run)
{
        unsigned behind =
                q->kind == VW_RX ? q->lane->readable : q->rewound || vq_device_avail_pending(&q->vq);

        if (!settings_unpack(q->settings).adaptive)
                return coalesce_note(&q->coalesce, run->published, run->now);
        return moderation_publish(&q->moderation, &q->coalesce, run->published, wire_packets(run) + behind,
                                  run->now);
}

void dev_queue_published(struct dev_queue *q, const struct dev_run *run)
{
        bool due;

        if (!run->published)
                return;
        q->held_desc += run->ndesc;
        q->worker->work += wire_packets(run);
        tell_pair(q, run);
        due = call_due(q, run);
        if (!due && q->held_desc >= full_mark(q))
                due = coalesce_flush(&q->coalesce);
        if (due)
                dev_queue_release(q);
}

/* ---- settings ---- */

void dev_queue_adopt_settings(struct dev_queue *q, uint64_t now)
{
        uint64_t word = q->kind == VW_CTRL ? 0 : load_relaxed(&q->wanted); /* commands are answered at once */
        struct vw_queue_settings s = settings_unpack(word);
        bool due;

        if (word == q->settings)
                return;
        if (s.poll_us != settings_unpack(q->settings).poll_us)
                duel_forget(&q->worker->duel, now);
        q->settings = word;
        polling_set(&q->polling, s.poll_us, now);
        if (s.adaptive) {
                bool bounded = s.usecs && s.frames;

                moderation_reset(&q->moderation, bounded ? s.usecs : VW_USECS_MAX,
                                 bounded ? s.frames : VW_FRAMES_MAX, now);
                due = coalesce_set(&q->coalesce, 0, 0, now);
        } else {
                due = coalesce_set(&q->coalesce, s.usecs, s.frames, now);
        }
        if (due && q->life == VQ_RUNNING)
                dev_queue_release(q);
}

/* ---- breaking ---- */

/* Parks the queue: its ring and its fds are left alone until the next start.  Said once. */
void dev_queue_broke(struct dev_queue *q, uint64_t now)
{
        char dump[256];

        if (!q->watched)
                return;
        dev_worker_unwatch(q);
        vq_device_dump(&q->vq, dump, sizeof(dump));
        log_limited(&q->limit, now, VW_LOG_WARN, "device", "queue broken index=%u reason=%s number=%u %s",
                    q->index, q->vq.broken, q->vq.broken_at, dump);
        store_relaxed(&q->broken, q->vq.broken);
        update_live(q);
        if (coalesce_flush(&q->coalesce)) /* unasked: the ring may not be there any more */
                count_call(q, notify_send(&q->call));
        notify_send(&q->err);
        dev_news(q->dev);
}

/* ---- start ---- */

/* A queue that comes anew has lost what was set for it alone (5.1.6.5.9). */
static void forget_settings(struct dev_queue *q)
{
        pthread_mutex_lock(&q->dev->guest.lock);
        dev_settings_reset(q);
        pthread_mutex_unlock(&q->dev->guest.lock);
}

struct start {
        struct dev_queue *q;
        int result;
};

static void adopt(void *arg)
{
        struct start *start = arg;
        struct dev_queue *q = start->q;

        start->result = dev_worker_watch(q);
        if (start->result < 0)
                return;
        vq_set_state(q, VQ_RUNNING);
        vq_device_kick_disable(&q->vq); /* the loop looks at the ring anyway, and asks before it sleeps */
        update_live(q);
}

/* What a start made; the kick fd is the session's, and will be closed. */
static void let_go(struct dev_queue *q)
{
        store_relaxed(&q->kick_fd, -1);
        free(q->pool.iov);
        q->pool = (struct iov_pool){ 0 };
        rx_window_done(&q->window);
        vq_device_done(&q->vq);
}

/* Buffers are made for the longest chain that the ring can hold. */
static int make_buffers(struct dev_queue *q)
{
        unsigned size = MIN(2 * q->cfg.size + POOL_SLACK, (unsigned)UINT16_MAX);

        q->pool = (struct iov_pool){ .iov = calloc(size, sizeof(*q->pool.iov)), .size = size };
        if (!q->pool.iov)
                return -ENOMEM;
        return q->kind == VW_RX ? rx_window_init(&q->window, q->cfg.size) : 0;
}

static void configure(struct dev_queue *q, enum vw_queue_kind kind)
{
        static int (*const runs[])(struct dev_queue *, struct dev_run *) = {
                [VW_RX] = dev_rx_run, [VW_TX] = dev_tx_run, [VW_CTRL] = dev_ctrl_run
        };
        struct vw_device *dev = q->dev;
        unsigned pair = q->index / 2;

        q->kind = kind;
        q->run = runs[kind];
        q->lane = kind == VW_CTRL ? NULL : &dev->lanes[pair];
        q->worker = &dev->workers[kind == VW_CTRL ? 0 : pair % dev->n_workers];
        q->hdr_len = features_hdr_len(q->cfg.features);
        q->mergeable = q->cfg.features & F(mrg_rxbuf);
        q->kicks_on = false;
        q->burst = DEV_BURST;
        q->rewound = q->segments_sent = q->held_desc = 0;
        q->filter_seen = 0;
        store_relaxed(&q->broken, NULL);
}

int dev_queue_start(struct dev_queue *q, enum vw_queue_kind kind, const struct vq_config *cfg, int kick,
                    const char **ret_why)
{
        struct start start = { .q = q };
        int r;

        check(q->life != VQ_RUNNING && q->dev->map); /* the session starts no ring without memory */
        q->cfg = *cfg;
        store_relaxed(&q->kick_fd, kick);
        configure(q, kind);
        forget_settings(q);
        r = vq_device_init(&q->vq, cfg, q->dev->map, ret_why);
        if (r < 0)
                return r;
        vq_set_state(q, VQ_CONFIGURED);
        r = make_buffers(q);
        if (r == 0) {
                dev_on_worker(q->worker, adopt, &start);
                r = start.result;
        }
        if (r < 0) {
                *ret_why = r == -ENOMEM ? "ring: out of memory" : "ring: kick fd cannot be waited for";
                let_go(q);
                vq_set_state(q, VQ_NEW);
        }
        return r;
}

/* ---- stop ---- */

static void drain(void *arg)
{
        struct dev_queue *q = arg;

        vq_set_state(q, VQ_DRAINING);
        update_live(q);
        rx_window_rewind(q);
        vq_device_publish(&q->vq);
        if (coalesce_flush(&q->coalesce))
                dev_queue_release(q);
        dev_worker_unwatch(q);
        vq_set_state(q, VQ_STOPPED);
}

uint32_t dev_queue_stop(struct dev_queue *q)
{
        uint32_t base;

        if (q->life != VQ_RUNNING)
                return q->cfg.base;
        dev_on_worker(q->worker, drain, q);
        base = vq_device_base(&q->vq);
        let_go(q);
        return base;
}

/* ---- changes while it runs ---- */

struct change {
        struct dev_queue *q;
        struct mem_map *map;
        bool on;
        int fd;
};

static void set_enabled(void *arg)
{
        struct change *c = arg;
        struct dev_queue *q = c->q;

        q->enabled = c->on;
        q->was_enabled |= c->on;
        update_live(q);
}

void dev_queue_enable(struct dev_queue *q, bool on)
{
        struct change c = { .q = q, .on = on };

        if (on && !q->enabled)
                forget_settings(q);
        if (q->life == VQ_RUNNING)
                dev_on_worker(q->worker, set_enabled, &c);
        else
                set_enabled(&c);
}

static void remap(void *arg)
{
        struct change *c = arg;
        struct dev_queue *q = c->q;
        const char *why;

        if (q->vq.broken)
                return;
        rx_window_rewind(q);
        vq_device_publish(&q->vq);
        if (!c->map)
                vq_device_break(&q->vq, "ring-unmapped", 0);
        else
                vq_device_remap(&q->vq, &q->cfg, c->map, &why);
        if (q->vq.broken)
                dev_queue_broke(q, clock_now());
}

void dev_queue_remap(struct dev_queue *q, struct mem_map *map)
{
        struct change c = { .q = q, .map = map };

        if (q->life == VQ_RUNNING)
                dev_on_worker(q->worker, remap, &c);
}

/* A new call fd is signalled at once: what the old one was told may not have been read, and what was held back goes too. */
static void set_call(void *arg)
{
        struct change *c = arg;

        notify_set(&c->q->call, c->fd);
        coalesce_flush(&c->q->coalesce);
        c->q->held_desc = 0;
        count_call(c->q, notify_send(&c->q->call));
}

void dev_queue_set_call(struct dev_queue *q, int fd)
{
        struct change c = { .q = q, .fd = fd };

        dev_on_worker(q->worker, set_call, &c);
}

static void set_err(void *arg)
{
        struct change *c = arg;

        notify_set(&c->q->err, c->fd);
}

void dev_queue_set_err(struct dev_queue *q, int fd)
{
        struct change c = { .q = q, .fd = fd };

        dev_on_worker(q->worker, set_err, &c);
}
