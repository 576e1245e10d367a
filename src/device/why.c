/* `why`: what a queue is doing and what it waits for, in words, with the numbers that show it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/queue.h"

struct text {
        char *buf;
        size_t len;
        int n;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...)
{
        size_t at = MIN((size_t)t->n, t->len);
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(t->buf + at, t->len - at, fmt, ap);
        va_end(ap);
        if (n > 0)
                t->n += n;
}

/* The question wakes the worker, so what it sees here and not before it will take next. */
static void say_ring(struct text *t, const struct dev_queue *q, const struct vq_state *state)
{
        unsigned offered = (uint16_t)(state->avail - state->last_avail);

        if (offered)
                say(t,
                    "%u chains are offered that the worker comes to now; if it was asleep, the driver has not kicked for them",
                    offered);
        else if (q->kick_fd < 0)
                say(t,
                    "nothing is offered; the driver gave no kick fd, so the ring is looked at by the clock");
        else
                say(t, "nothing is offered; waits for the driver's kick");
}

static void say_starved(struct text *t, const struct dev_queue *q, const struct vq_state *state)
{
        say(t,
            "a frame waits in the port for buffers: the ring has room for %llu bytes, the longest frame needs %u; ",
            (unsigned long long)q->window.room, q->hdr_len + vw_port_rx_max(q->lane->port, q->lane->index));
        say_ring(t, q, state);
}

/* Why the worker does nothing about this queue now; it would not be here if it had something to do. */
static void say_waiting(struct text *t, struct dev_queue *q, const struct vq_state *state)
{
        const struct dev_lane *lane = q->lane;

        if (!q->was_enabled)
                say(t, "it was never enabled, so kicks are kept; waits for the front end (SET_VRING_ENABLE)");
        else if (!q->enabled)
                say(t, "disabled by the front end: %s",
                    q->kind == VW_TX ? "what the driver sends is discarded" : "frames for it are discarded");
        else if (q->kind == VW_TX && !lane->writable)
                say(t,
                    "the port is full; waits until it is writable, then goes on with the %u chains it had taken",
                    q->rewound);
        else if (q->kind == VW_RX && q->window.starved)
                say_starved(t, q, state);
        else if (q->kind == VW_RX && lane->errors > 1)
                say(t, "the port failed %u times in a row; waits before it asks again", lane->errors);
        else if (q->kind == VW_RX)
                say(t, "waits for frames from the port; the driver's kicks are not needed");
        else
                say_ring(t, q, state);
}

static void say_call(struct text *t, const struct dev_queue *q, const struct vq_state *state, uint64_t now)
{
        if (q->coalesce.pending)
                say(t, "; an interrupt for %llu packets is held back for %llu us more (usecs=%u frames=%u)",
                    (unsigned long long)q->coalesce.pending,
                    (unsigned long long)(clock_until(coalesce_deadline(&q->coalesce), now) / NSEC_PER_USEC),
                    q->coalesce.usecs, q->coalesce.frames);
        else if (q->call.fd < 0)
                say(t, "; the driver gave no call fd and looks by itself");
        else if (q->call.dead)
                say(t, "; the call fd has no reader any more");
        else if (q->cfg.features & F(event_idx))
                say(t, "; the driver wants an interrupt after used %u, used is %u: %s", state->event_peer,
                    state->used,
                    (uint16_t)(state->used - state->event_peer - 1) < 0x8000
                            ? "it has had it, and asked for none since"
                            : "not yet due");
        else if (state->calls_off)
                say(t, "; the driver wants no interrupts now (its flag), used is %u", state->used);
        else
                say(t, "; no interrupt is owed");
}

struct question {
        struct dev_queue *q;
        struct text text;
};

static void answer(void *arg)
{
        struct question *question = arg;
        struct dev_queue *q = question->q;
        struct text *t = &question->text;
        struct vq_state state;
        char dump[256];

        if (q->life != VQ_RUNNING) {
                say(t, "%s; waits for the front end to set it up",
                    q->life == VQ_STOPPED ? "stopped" : "not set up");
                return;
        }
        vq_device_dump(&q->vq, dump, sizeof(dump));
        if (q->vq.broken) {
                say(t, "broken: %s (%u); its memory is left alone until the front end sets it up again; %s",
                    q->vq.broken, q->vq.broken_at, dump);
                return;
        }
        vq_device_state(&q->vq, &state);
        say(t, "running; ");
        say_waiting(t, q, &state);
        say_call(t, q, &state, clock_now());
        say(t, "; avail=%u taken=%u used=%u kick_event=%u used_event=%u; %s", state.avail, state.last_avail,
            state.used, state.event_ours, state.event_peer, dump);
}

int vw_device_why(struct vw_device *dev, unsigned index, char *buf, size_t len)
{
        struct question question = {
                .text = {.buf = buf, .len = len}
        };

        if (index >= dev->n_vrings) {
                say(&question.text, "there are %u queues", dev->n_vrings);
                return question.text.n;
        }
        question.q = &dev->queues[index];
        dev_on_worker(question.q->worker, answer, &question);
        return question.text.n;
}
