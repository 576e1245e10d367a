/* `why`: what a queue is doing and what it waits for, in words, with the numbers that show it. */
#include "base/clock.h"
#include "base/words.h"
#include "device/notify.h"
#include "device/queue.h"

/* The question wakes the worker, so what it sees here and not before it will take next. */
static void say_ring(struct words *w, const struct dev_queue *q, const struct vq_state *state)
{
        unsigned offered = (uint16_t)(state->avail - state->last_avail);

        if (offered)
                words_say(w,
                          "%u chains are offered that the worker comes to now; if it was asleep, "
                          "the driver has not kicked for them",
                          offered);
        else if (q->kick_fd < 0)
                words_say(w, "nothing is offered; the driver gave no kick fd, "
                             "so the ring is looked at by the clock");
        else
                words_say(w, "nothing is offered; waits for the driver's kick");
}

static void say_starved(struct words *w, const struct dev_queue *q, const struct vq_state *state)
{
        uint32_t ahead = q->lane->ahead.len;

        words_say(w,
                  "a frame waits %s for buffers: the ring has room for %llu bytes, "
                  "%s needs %u; ",
                  ahead ? "here" : "in the port", (unsigned long long)q->window.room,
                  ahead ? "it" : "the longest frame",
                  q->hdr_len + (ahead ? ahead : vw_port_rx_max(q->lane->port, q->lane->index)));
        say_ring(w, q, state);
}

/* Why the worker does nothing about this queue now; it would not be here if it had something to do. */
static void say_waiting(struct words *w, struct dev_queue *q, const struct vq_state *state)
{
        const struct dev_lane *lane = q->lane;

        if (!q->was_enabled)
                words_say(w, "it was never enabled, so kicks are kept; "
                             "waits for the front end (SET_VRING_ENABLE)");
        else if (!q->enabled)
                words_say(w, "disabled by the front end: %s",
                          q->kind == VW_TX ? "what the driver sends is discarded"
                                           : "frames for it are discarded");
        else if (q->kind == VW_RX && !dev_queue_receives(q))
                words_say(w, "the driver has not asked for this pair: frames for it are discarded");
        else if (q->kind == VW_TX && !lane->writable)
                words_say(w,
                          "the port is full; waits until it is writable, "
                          "then goes on with the %u chains it had taken",
                          q->rewound);
        else if (q->kind == VW_RX && q->window.starved)
                say_starved(w, q, state);
        else if (q->kind == VW_RX && lane->errors > 1)
                words_say(w, "the port failed %u times in a row; waits before it asks again", lane->errors);
        else if (q->kind == VW_RX)
                words_say(w, "waits for frames from the port; the driver's kicks are not needed");
        else
                say_ring(w, q, state);
}

/* Whether it is polled for is not for the driver to know, but for who set it and sees no polls. */
static void say_policies(struct words *w, const struct dev_queue *q)
{
        struct vw_queue_settings s = settings_unpack(q->settings);

        if (s.poll_us && q->worker->duel.way == DUEL_NAP)
                words_say(w, "; polling rests: the load goes faster when it looks once more after a nap");
        if (s.poll_us && q->worker->duel.way == DUEL_SLEEP)
                words_say(w, "; polling rests: the load goes faster without");
        if (s.adaptive)
                words_say(w, "; adaptive: interrupts are %s",
                          moderation_phase_holds(q->moderation.phase) && !q->moderation.shut
                                  ? "held back where others may join them"
                                  : "not held back");
}

static void say_call(struct words *w, const struct dev_queue *q, const struct vq_state *state, uint64_t now)
{
        if (q->coalesce.pending)
                words_say(w,
                          "; an interrupt for %llu packets is held back for %llu us more "
                          "(usecs=%u frames=%u)",
                          (unsigned long long)q->coalesce.pending,
                          (unsigned long long)(clock_until(coalesce_deadline(&q->coalesce), now) /
                                               NSEC_PER_USEC),
                          q->coalesce.usecs, q->coalesce.frames);
        else if (q->call.fd < 0)
                words_say(w, "; the driver gave no call fd and looks by itself");
        else if (q->call.dead)
                words_say(w, "; the call fd has no reader any more");
        else if (q->cfg.features & F(event_idx))
                words_say(w, "; the driver wants an interrupt after used %u, used is %u: %s",
                          state->event_peer, state->used,
                          (uint16_t)(state->used - state->event_peer - 1) < 0x8000
                                  ? "it has had it, and asked for none since"
                                  : "not yet due");
        else if (state->unwanted)
                words_say(w, "; the driver wants no interrupts now (its flag), used is %u", state->used);
        else
                words_say(w, "; no interrupt is owed");
        if (notify_unread(&q->call))
                words_say(w, "; the last interrupt was sent, and nobody has read it");
}

struct question {
        struct dev_queue *q;
        struct words words;
};

static void answer(void *arg)
{
        struct question *question = arg;
        struct dev_queue *q = question->q;
        struct words *w = &question->words;
        struct vq_state state;
        char dump[256];

        if (q->life != VQ_RUNNING) {
                words_say(w, "%s; waits for the front end to set it up",
                          q->life == VQ_STOPPED ? "stopped" : "not set up");
                return;
        }
        vq_device_dump(&q->vq, dump, sizeof(dump));
        if (q->vq.broken) {
                words_say(w,
                          "broken: %s (%u); its memory is left alone until the front end "
                          "sets it up again; %s",
                          q->vq.broken, q->vq.broken_at, dump);
                return;
        }
        vq_device_state(&q->vq, &state);
        words_say(w, "running; ");
        say_waiting(w, q, &state);
        say_call(w, q, &state, clock_now());
        say_policies(w, q);
        words_say(w, "; avail=%u taken=%u used=%u kick_event=%u used_event=%u; %s", state.avail,
                  state.last_avail, state.used, state.event_ours, state.event_peer, dump);
}

int vw_device_why(struct vw_device *dev, unsigned index, char *buf, size_t len)
{
        struct question question = {
                .words = {.buf = buf, .len = len}
        };

        if (index >= dev->n_vrings) {
                words_say(&question.words, "there are %u queues", dev->n_vrings);
                return question.words.n;
        }
        question.q = &dev->queues[index];
        dev_on_worker(question.q->worker, answer, &question);
        return question.words.n;
}
