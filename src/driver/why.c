/* `why`: what a queue is doing and what it waits for, in words, with the numbers that show it. */
#include <errno.h>
#include <inttypes.h>

#include "base/words.h"
#include "driver/driver.h"

struct question {
        struct drv_pair *p;
        bool tx;
        struct words words;
};

static void say_tx(struct words *w, const struct drv_txq *t, unsigned watchdog_ms)
{
        if (t->hung)
                words_say(w, "the device has completed nothing for %u ms; senders are refused", watchdog_ms);
        else if (t->stopped & TX_STOP_RING)
                words_say(w,
                          "stopped: %u descriptors free, the largest packet needs %u; "
                          "waits for the device to use some",
                          vq_driver_free(&t->vq), t->need);
        else if (t->stopped)
                words_say(w,
                          "stopped: %" PRIu64 " bytes in flight reach the byte limit %u; "
                          "waits for completions",
                          bql_inflight(&t->bql), t->bql.limit);
        else if (t->inflight)
                words_say(w, "takes packets; %u wait for the device", t->inflight);
        else
                words_say(w, "idle: nothing is out");
        words_say(w, ". mode %s%s", t->mode == VW_TX_NAPI ? "napi" : "orphan",
                  t->clean_from_rx ? ", reaped from rx too" : "");
}

static void say_rx(struct words *w, const struct drv_rxq *r)
{
        if (r->first < r->n_pkts)
                words_say(w, "%u packets wait for the program, which did not take them",
                          r->n_pkts - r->first);
        else if (drv_rx_pending(r))
                words_say(w, "packets wait for the next poll");
        else if (!r->posted)
                words_say(w, "no buffer is posted: memory is short");
        else
                words_say(w, "waits for frames with %u of %u buffers posted", r->posted, r->target);
        words_say(w, ". %s; sizes posted:",
                  r->mergeable       ? "mergeable buffers"
                  : r->chain_len > 1 ? "chains of pages"
                                     : "small buffers");
        for (unsigned i = 0; i < RXBUF_SIZES; i++)
                if (r->buf.sizes[i])
                        words_say(w, " %u:%" PRIu64, i * VW_BUFFER_STEP, r->buf.sizes[i]);
}

/* Who owes whom a notification. */
static void say_notifications(struct words *w, const struct drv_pair *p, const struct vq_state *s)
{
        unsigned out = (uint16_t)(s->avail - s->used), back = (uint16_t)(s->used - s->last_used);
        bool kicked = !s->unwanted;

        if (p->drv->net.features & F(event_idx))
                kicked = (uint16_t)(s->avail - s->event_peer - 1) < 0x8000;
        if (out)
                words_say(w, "; the device has %u chains and %s", out,
                          kicked ? "was kicked for the last of them" : "wants no kick for more of them yet");
        if (back)
                words_say(w, "; it has given %u back that the next poll takes", back);
        if (!p->napi.armed)
                words_say(w, "; interrupts are off: it polls");
        else if (p->drv->net.features & F(event_idx))
                words_say(w, "; an interrupt is asked for after used %u, used is %u: %s", s->event_ours,
                          s->used,
                          (uint16_t)(s->used - s->event_ours - 1) < 0x8000 ? "the device owed it"
                                                                           : "not yet due");
        else
                words_say(w, "; an interrupt is asked for");
}

/* On the owner. */
static void answer(void *arg)
{
        struct question *q = arg;
        const struct vq_driver *vq = q->tx ? &q->p->tx.vq : &q->p->rx.vq;
        struct words *w = &q->words;
        struct vq_state state;
        char dump[256];

        if (!q->p->up) {
                words_say(w, "not connected");
                return;
        }
        if (vq->broken)
                words_say(w, "broken: %s at %u; nothing more until the next connection", vq->broken,
                          vq->broken_at);
        else if (q->tx)
                say_tx(w, &q->p->tx, q->p->drv->config.watchdog_ms);
        else
                say_rx(w, &q->p->rx);
        if (!q->p->enabled)
                words_say(w, "; the pair is switched off");
        vq_driver_state(vq, &state);
        if (!vq->broken)
                say_notifications(w, q->p, &state);
        vq_driver_dump(vq, dump, sizeof(dump));
        words_say(w, "; %s", dump);
}

VW_API int vw_driver_why(struct vw_driver *drv, unsigned index, char *buf, size_t len)
{
        struct question q = {
                .words = {.buf = buf, .len = len}
        };

        if (len)
                *buf = '\0';
        if (index < 2 * drv->n_pairs) {
                q.p = &drv->pairs[index / 2];
                q.tx = index % 2;
                drv_run_on_owner(q.p, answer, &q);
        } else if (drv->ctrl.vq.size && index == drv->ctrl.index) {
                words_say(&q.words,
                          drv->ctrl.late
                                  ? "the device owes %u answers; no command is sent until it gives them"
                                  : "idle: %u answers are owed",
                          drv->ctrl.late);
        } else {
                return -ENOENT;
        }
        return q.words.n;
}
