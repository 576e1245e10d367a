/* The control queue (5.1.6.5): one command at a time, each with a time limit.
 *
 * A command lives in a slot of shared memory.  When its time is up, control goes on but the slot does not: it stays the device's until
 * the answer comes, however late, or the queue is reset.  While an answer is owed no further command is sent, so a device
 * that serves no control queue costs one time limit a connection and not one a command. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include "driver/driver.h"
#include "ring/peer.h"

/* at the end of a slot: what the device writes: a result of at most 8 bytes and the ack */
#define ANSWER_BYTES  64
#define COMMAND_BYTES (CTRL_BYTES - ANSWER_BYTES)
#define ACK_NONE      0xff /* what the ack is before the device writes it: not success */

int drv_ctrl_init(struct vw_driver *drv)
{
        for (unsigned i = 0; i < CTRL_SLOTS; i++) {
                drv->ctrl.slots[i].bytes = arena_alloc(&drv->arena, CTRL_BYTES, CACHE_LINE);
                if (!drv->ctrl.slots[i].bytes)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- answers ---- */

static void reap(struct vw_driver *drv)
{
        struct drv_ctrl *c = &drv->ctrl;
        struct vq_used used[CTRL_SLOTS];
        int n = vq_driver_reap(&c->vq, used, CTRL_SLOTS);

        if (n < 0 && c->up) {
                log_error("driver", "control queue broken reason=%s at=%u", c->vq.broken, c->vq.broken_at);
                c->up = false;
                drv_lose(drv, -EPROTO, "it lies on the control queue");
        }
        for (int i = 0; i < n; i++) {
                struct ctrl_slot *s = used[i].cookie;

                if (s->state == CTRL_LATE) {
                        s->state = CTRL_FREE;
                        c->late--;
                        log_info("driver", "a control command was answered late");
                } else {
                        s->state = CTRL_ANSWERED;
                }
        }
}

static void call_ready(struct ev_watch *w, uint32_t events)
{
        struct vw_driver *drv = container_of(w, struct vw_driver, ctrl_watch);

        (void)events;
        COUNT(&drv->ctrl, interrupts, drv_read_bell(drv->ctrl.call));
        reap(drv);
}

/* ---- life ---- */

/* The ring, told to the device; after the pairs that it has, not those that we use (5.1.2). */
int drv_ctrl_start(struct vw_driver *drv)
{
        struct drv_ctrl *c = &drv->ctrl;
        struct vq_config ring;
        int r;

        if (!(drv->net.features & F(ctrl_vq)))
                return 0;
        c->index = drv->net.features & F(mq) ? 2 * drv->net.pairs_max : 2;
        if (c->index > VU_VRING_INDEX_MASK) {
                log_warn("driver",
                         "the control queue has a number that vhost-user cannot say: not used queue=%u",
                         c->index);
                return 0;
        }
        c->timeout_ms = drv->config.ctrl_timeout_ms;
        r = drv_ring_make(drv, &c->vq, 2 * drv->n_pairs, CTRL_RING, &ring);
        if (!r)
                r = drv_doorbell(&c->kick);
        if (!r)
                r = drv_doorbell(&c->call);
        if (!r)
                r = drv_ring_tell(drv, c->index, &ring, c->kick, c->call);
        if (!r)
                r = vu_frontend_vring_enable(&drv->fe, c->index, true);
        drv->ctrl_watch = (struct ev_watch){ .ready = call_ready };
        if (!r)
                r = evloop_add(drv->loop, &drv->ctrl_watch, c->call, EPOLLIN);
        c->up = !r;
        return r;
}

/* The device may not look at the queue any more: it has given it up, or is gone. */
void drv_ctrl_stop(struct vw_driver *drv)
{
        struct drv_ctrl *c = &drv->ctrl;

        evloop_remove(drv->loop, &drv->ctrl_watch);
        while (vq_driver_drain(&c->vq)) {
        }
        vq_driver_done(&c->vq);
        for (unsigned i = 0; i < CTRL_SLOTS; i++)
                c->slots[i].state = CTRL_FREE;
        c->late = 0;
        c->up = false;
        drv_doorbell_close(&c->kick);
        drv_doorbell_close(&c->call);
}

/* ---- a command ---- */

static struct ctrl_slot *free_slot(struct drv_ctrl *c)
{
        for (unsigned i = 0; i < CTRL_SLOTS; i++)
                if (c->slots[i].state == CTRL_FREE)
                        return &c->slots[i];
        return NULL;
}

/* Class and command, data, then what the device writes, each in a piece of its own: all devices take that framing. */
static int offer(struct vw_driver *drv, struct ctrl_slot *s, uint32_t len, uint32_t answer_len)
{
        struct drv_ctrl *c = &drv->ctrl;
        uint64_t gpa = arena_gpa(&drv->arena, s->bytes);
        struct vq_piece pieces[3] = {
                {gpa, sizeof(struct virtio_net_ctrl_hdr)}
        };
        unsigned n = 1;
        int r;

        if (len > pieces[0].len)
                pieces[n++] = (struct vq_piece){ gpa + pieces[0].len, len - pieces[0].len };
        pieces[n] = (struct vq_piece){ gpa + COMMAND_BYTES, answer_len };
        r = vq_driver_add(&c->vq, pieces, n, 1, s);
        if (r)
                return r;
        s->state = CTRL_PENDING;
        COUNT(c, commands, 1);
        vq_driver_publish(&c->vq);
        if (vq_driver_kick_needed(&c->vq)) {
                COUNT(c, kicks, 1);
                drv_ring_bell(c->kick);
        }
        return 0;
}

/* Sleeps until the slot is answered, the time is up, or the device has left. */
static int await(struct vw_driver *drv, struct ctrl_slot *s)
{
        struct drv_ctrl *c = &drv->ctrl;
        uint64_t until = clock_now() + c->timeout_ms * NSEC_PER_MSEC;

        for (;;) {
                struct pollfd p[2] = {
                        {.fd = c->call,       .events = POLLIN},
                        { .fd = drv->fe.sock, .events = POLLIN}
                };
                uint64_t left = clock_until(until, clock_now());

                if (vq_driver_call_enable(&c->vq) || c->vq.broken)
                        reap(drv);
                if (s->state == CTRL_ANSWERED)
                        return 0;
                if (!c->up)
                        return -EPROTO;
                if (!left)
                        return -ETIMEDOUT;
                if (poll(p, 2, (int)(left / NSEC_PER_MSEC) + 1) <= 0)
                        continue;
                if (p[0].revents)
                        COUNT(c, interrupts, drv_read_bell(c->call));
                if (p[1].revents && vu_frontend_alive(&drv->fe)) {
                        drv_lose(drv, -ENOTCONN, drv->fe.why);
                        return -ENOTCONN;
                }
        }
}

/* Carries a command out.  `result`, if there is one, are the bytes before the ack. */
int drv_ctrl_command(struct vw_driver *drv, const struct net_ctrl *cmd, uint8_t *result, uint32_t result_len)
{
        struct drv_ctrl *c = &drv->ctrl;
        uint64_t feature = net_ctrl_feature(cmd->class_id, cmd->command);
        struct ctrl_slot *s;
        uint8_t *answer, ack;
        int len, r;

        if (!drv->connected || drv->lost)
                return -ENETDOWN;
        if (!(drv->net.features & feature) || !c->up)
                return c->vq.broken ? -EPROTO : -ENOTSUP;
        reap(drv);
        s = free_slot(c);
        if (c->late || !s)
                return -ETIMEDOUT;
        answer = s->bytes + COMMAND_BYTES;
        len = net_ctrl_encode(cmd, s->bytes, COMMAND_BYTES);
        if (len < 0)
                return len;
        check(result_len < ANSWER_BYTES);
        store_relaxed(&answer[result_len], (uint8_t)ACK_NONE);
        r = offer(drv, s, (uint32_t)len, result_len + 1);
        if (!r)
                r = await(drv, s);
        if (s->state == CTRL_PENDING) {
                s->state = CTRL_LATE;
                c->late++;
                log_warn("driver", "the device does not answer a control command class=%u command=%u",
                         cmd->class_id, cmd->command);
                return r;
        }
        s->state = CTRL_FREE;
        if (r)
                return r;
        ack = peer_load(&answer[result_len]);
        if (ack != VIRTIO_NET_OK) {
                COUNT(c, nacks, 1);
                return -EIO;
        }
        for (uint32_t i = 0; i < result_len; i++)
                result[i] = peer_load(&answer[i]);
        return 0;
}
