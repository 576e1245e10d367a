/* Transmission: frames leave the driver.
 *
 *      xmit: room? flow? -> header, pieces -> vq_driver_add -> publish -> kick, once a burst
 *      reap: vq_driver_reap -> bytes and flows uncharged -> tx_done -> wake
 *
 * In `napi` mode a packet is the device's until it is reaped, and then its cookie comes back: who sends more than the link takes,
 * feels it.  In `orphan` mode the cookie comes back at transmission, if the whole packet lies in one of our transmit buffers; the
 * buffer itself is free only when the device is done with it.
 *
 * The queue stops when the largest packet would no longer fit, or the byte limit is reached.  A stop kicks whatever was held back
 * for a later kick: the device must not wait for a producer that waits for the device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/iov.h"
#include "driver/driver.h"
#include "net/hdr.h"

#define HDR_STRIDE 16 /* bytes of a header slot; 12 are used */

/* ---- transmit buffers ---- */

size_t drv_tx_memory(const struct vw_driver_config *config)
{
        return ((size_t)config->tx_bufs + TX_CELLS) * TX_BUF_STRIDE + config->tx_memory +
               (size_t)config->queue_size * HDR_STRIDE + 3 * RXBUF_PAGE;
}

static uint8_t *buf_frame(const struct drv_txq *q, uint32_t i)
{
        return q->buf_base + (size_t)i * TX_BUF_STRIDE + TX_HEADROOM;
}

/* The program's buffer whose frame begins at `frame`; TX_NONE: none of them does. */
static uint32_t buf_at(const struct drv_txq *q, const void *frame)
{
        size_t at = (size_t)((const uint8_t *)frame - q->buf_base), i = at / TX_BUF_STRIDE;

        return i < q->n_bufs && at - i * TX_BUF_STRIDE == TX_HEADROOM ? (uint32_t)i : TX_NONE;
}

static void buf_free(struct drv_txq *q, uint32_t i)
{
        q->bufs[i].put = false;
        if (i >= q->n_bufs) {
                mpmc_put(&q->cells_free, i - q->n_bufs);
                q->cell_freed = true;
                return;
        }
        q->bufs[i].next = q->free_buf;
        q->free_buf = i;
        fetch_for_write(
                buf_frame(q, i)); /* the last one in is the first one out; the device's CPU has read it */
}

static void buf_release(struct drv_txq *q, uint32_t i)
{
        struct tx_buf *b = &q->bufs[i];

        if (--b->inflight == 0 && b->put)
                buf_free(q, i);
}

/* Free now, or when the device is done with it. */
static void buf_put(struct drv_txq *q, uint32_t i)
{
        if (q->bufs[i].inflight)
                q->bufs[i].put = true;
        else
                buf_free(q, i);
}

VW_API unsigned vw_driver_bufs_get(struct vw_driver *drv, unsigned pair, void **bufs, unsigned n)
{
        struct drv_txq *q = &drv->pairs[pair].tx;
        unsigned i;

        drv_claim(&drv->pairs[pair]);
        for (i = 0; i < n && q->free_buf != TX_NONE; i++) {
                bufs[i] = buf_frame(q, q->free_buf);
                q->free_buf = q->bufs[q->free_buf].next;
        }
        return i;
}

VW_API void *vw_driver_buf_get(struct vw_driver *drv, unsigned pair)
{
        void *buf;

        return vw_driver_bufs_get(drv, pair, &buf, 1) ? buf : NULL;
}

VW_API void vw_driver_buf_put(struct vw_driver *drv, unsigned pair, void *buf)
{
        struct drv_txq *q = &drv->pairs[pair].tx;
        uint32_t i = buf_at(q, buf);

        drv_claim(&drv->pairs[pair]);
        check(i != TX_NONE && !q->bufs[i].put);
        buf_put(q, i);
}

VW_API void *vw_driver_alloc(struct vw_driver *drv, unsigned pair, size_t size, size_t align)
{
        struct drv_txq *q = &drv->pairs[pair].tx;
        size_t at = ALIGN_UP(q->memory_used, align);

        if (at > q->memory_size || size > q->memory_size - at)
                return NULL;
        q->memory_used = at + size;
        return q->memory + at;
}

/* ---- life ---- */

int drv_tx_init(struct drv_pair *p)
{
        const struct vw_driver_config *c = &p->drv->config;
        struct drv_txq *q = &p->tx;
        uint32_t n = c->tx_bufs + TX_CELLS;
        int r;

        q->n_bufs = c->tx_bufs;
        q->free_buf = TX_NONE;
        q->buf_base = arena_alloc(&p->drv->arena, (size_t)n * TX_BUF_STRIDE, RXBUF_PAGE);
        q->memory_size = c->tx_memory;
        q->memory = arena_alloc(&p->drv->arena, c->tx_memory, RXBUF_PAGE);
        q->hdrs = arena_alloc(&p->drv->arena, (size_t)c->queue_size * HDR_STRIDE, CACHE_LINE);
        q->bufs = calloc(n, sizeof(*q->bufs));
        q->cells = calloc(TX_CELLS, sizeof(*q->cells));
        q->slots = calloc(c->queue_size, sizeof(*q->slots));
        q->let_go = calloc(2 * (size_t)c->queue_size, sizeof(*q->let_go)); /* a ring let go, a ring drained */
        if (!q->buf_base || !q->memory || !q->hdrs || !q->bufs || !q->cells || !q->slots || !q->let_go)
                return -ENOMEM;
        r = mpmc_init(&q->cells_free, TX_CELLS);
        if (!r)
                r = mpmc_init(&q->cells_full, TX_CELLS);
        if (r)
                return r;
        for (uint32_t i = n; i-- > 0;)
                buf_free(q, i);
        q->clean_wanted = c->clean_tx_from_rx;
        q->eager = c->tx_eager;
        q->kick_mode = c->kick;
        drv_tx_set_mode(p, c->tx_mode, c->bql);
        return 0;
}

void drv_tx_done(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        mpmc_done(&q->cells_free);
        mpmc_done(&q->cells_full);
        free(q->bufs);
        free(q->cells);
        free(q->slots);
        free(q->let_go);
}

/* The ring has been made: what the last connection left is forgotten. */
void drv_tx_start(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        q->need = q->vq.indirect ? 1 : MIN(2 + VW_TX_FRAGS_MAX, (unsigned)q->vq.size);
        q->frags_max = MIN(VW_TX_FRAGS_MAX, vq_driver_chain_max(&q->vq) - 1);
        q->plain_max =
                (p->mtu ? MIN(p->mtu + NET_ETH_LEN, (unsigned)VW_FRAME_MAX) : VW_FRAME_MAX) - NET_ETH_LEN;
        q->stopped = 0;
        q->refused = q->unkicked = q->hung = false;
        q->seen_reaped = q->reaped;
        q->progress_at = q->reap_at = NEVER;
        q->overdue = false;
        for (unsigned i = 0; i < q->n_bufs + TX_CELLS; i++)
                q->bufs[i].plain = false; /* headers may be longer now, and another device had the memory */
        bql_reset(&q->bql, p->napi.now);
}

void drv_tx_set_mode(struct drv_pair *p, enum vw_tx_mode mode, bool bql)
{
        p->tx.mode = mode;
        p->tx.bql_wanted = bql;
        p->tx.clean_from_rx = p->tx.clean_wanted < 0 ? mode == VW_TX_NAPI : p->tx.clean_wanted;
        bql_enable(&p->tx.bql, bql && mode == VW_TX_NAPI);
        if (p->tx.stopped)
                drv_tx_wake(p);
}

/* ---- completion ---- */

/* The program was turned away and may come back. */
static void wake_program(struct drv_pair *p)
{
        p->tx.refused = false;
        if (p->drv->ops.tx_wake)
                p->drv->ops.tx_wake(p->drv->config.ctx, p->index);
}

/* Hands the collected cookies over.  The program may transmit from within; what that lets go is handed over by the loop here,
 * not one call deeper. */
static void flush_done(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;
        void *cookies[TX_BATCH];

        if (q->in_done)
                return;
        q->in_done = true;
        while (q->n_let_go) {
                unsigned n = MIN(q->n_let_go, (unsigned)TX_BATCH);

                q->n_let_go -= n;
                memcpy(cookies, q->let_go, n * sizeof(*cookies));
                memmove(q->let_go, q->let_go + n, q->n_let_go * sizeof(*q->let_go));
                if (p->drv->ops.tx_done)
                        p->drv->ops.tx_done(p->drv->config.ctx, p->index, cookies, n);
        }
        q->in_done = false;
        if (q->refused && !q->stopped)
                wake_program(p);
}

static void let_go(struct drv_pair *p, void *cookie)
{
        p->tx.let_go[p->tx.n_let_go++] = cookie;
}

static void discharge(struct drv_pair *p, struct vw_flow *flow, uint32_t bytes)
{
        unsigned due = flow_discharge(&flow->account, bytes);

        if (due & FLOW_WAKE && p->drv->ops.flow_wake)
                p->drv->ops.flow_wake(p->drv->config.ctx, p->index, flow);
        if (due & FLOW_LAST)
                free(flow);
}

/* A packet is off the ring, used by the device or taken back from it.  Its flow is discharged by the caller: that tells the flow's owner, who
 * may send, and so waits until the slots of all that came off the ring with this one have been read. */
static void finish(struct drv_pair *p, const struct tx_slot *s)
{
        struct drv_txq *q = &p->tx;

        bql_uncharge(&q->bql, s->ticket);
        if (s->cookie)
                let_go(p, s->cookie);
        if (s->buf != TX_NONE)
                buf_release(q, s->buf);
}

/* Takes back up to TX_BATCH packets, and adds up their bytes.  Returns how many, or -EPROTO. */
static int reap_batch(struct drv_pair *p, unsigned max, uint64_t *bytes)
{
        struct drv_txq *q = &p->tx;
        struct vq_used used[TX_BATCH];
        struct {
                struct vw_flow *flow;
                uint32_t bytes;
        } due[TX_BATCH];
        unsigned n_due = 0;
        int n = vq_driver_reap(&q->vq, used, MIN(max, (unsigned)TX_BATCH));

        if (n <= 0)
                return n;
        q->inflight -= (unsigned)n;
        for (int i = 0; i < n; i++) { /* used.len means nothing here (2.7.8.2) */
                const struct tx_slot *s = used[i].cookie;

                *bytes += s->bytes;
                if (unlikely(s->flow)) {
                        due[n_due].flow = s->flow;
                        due[n_due++].bytes = s->bytes;
                }
                finish(p, s);
        }
        q->inflight_flows -= n_due;
        for (unsigned i = 0; i < n_due; i++)
                discharge(p, due[i].flow, due[i].bytes);
        return n;
}

/* Reaps everything that the device has used: there is no budget for completions.  Returns how many. */
unsigned drv_tx_reap(struct drv_pair *p, enum vw_counter by)
{
        struct drv_txq *q = &p->tx;
        unsigned left = q->inflight, total = 0;
        uint64_t bytes = 0;
        int n = 0;

        q->reap_at = NEVER;
        if (q->in_done || !left || q->vq.broken)
                return 0;
        do {
                flush_done(p);
                n = reap_batch(p, left - total, &bytes);
                total += n > 0 ? (unsigned)n : 0;
        } while (n == TX_BATCH);
        if (total) {
                COUNT(q, packets, total);
                COUNT(q, bytes, bytes);
                counter_add(&q->stat.c[by], total);
                q->reaped += total;
                q->overdue = false;
                if (q->hung) {
                        q->hung = false;
                        log_info("driver", "the device completes again queue=%u", q->index);
                }
                bql_update(&q->bql, p->napi.now);
        }
        flush_done(p);
        if (n < 0)
                log_limited(&q->log, p->napi.now, VW_LOG_ERROR, "driver",
                            "queue broken queue=%u reason=%s at=%u", q->index, q->vq.broken, q->vq.broken_at);
        return total;
}

/* Everything that is still out comes back: the device has stopped, or is gone. */
void drv_tx_drain(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;
        struct tx_slot *s;

        while ((s = vq_driver_drain(&q->vq))) {
                struct vw_flow *flow = s->flow;

                COUNT_DROP(q, VW_DROP_DISABLED);
                q->inflight--;
                finish(p, s);
                if (flow) {
                        q->inflight_flows--;
                        discharge(p, flow, s->bytes);
                }
                if (q->n_let_go == q->vq.size)
                        flush_done(p);
        }
        check(q->inflight == 0);
        flush_done(p);
        q->stopped = 0;
        bql_reset(&q->bql, p->napi.now);
}

/* ---- stop, wake, kick ---- */

/* Whether somebody waits for completions, so that their interrupt is to be asked for.  Orphans wait for nothing; nor does a
 * program that says so, as long as it has room, buffers and no flow that counts. */
bool drv_tx_completion_wanted(const struct drv_pair *p)
{
        const struct drv_txq *q = &p->tx;

        if (q->stopped || q->overdue)
                return true;
        if (q->mode == VW_TX_ORPHAN)
                return false;
        return q->eager || !p->drv->config.tx_lazy_us || q->inflight_flows ||
               vq_driver_free(&q->vq) < q->vq.size / 2 || (q->n_bufs && q->free_buf == TX_NONE);
}

/* TX_STOP_* that hold now. */
static unsigned stop_reasons(const struct drv_txq *q)
{
        return (vq_driver_free(&q->vq) < q->need ? TX_STOP_RING : 0u) |
               (bql_room(&q->bql) ? 0u : TX_STOP_BYTES);
}

/* True: a stopped queue goes on. */
static bool note_wake(struct drv_txq *q)
{
        q->stopped = stop_reasons(q);
        if (q->stopped)
                return false;
        COUNT(q, wakes, 1);
        VW_TRACE(wake, q->index, vq_driver_free(&q->vq), 0);
        return true;
}

void drv_tx_wake(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        if (q->stopped && !q->vq.broken && note_wake(q) && q->refused)
                wake_program(p);
}

/* Kicks, if the device wants it, for all that was published since the last look. */
void drv_tx_flush(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        if (!q->unkicked)
                return;
        q->unkicked = false;
        if (!vq_driver_kick_needed(&q->vq)) {
                COUNT(q, kicks_suppressed, 1);
                return;
        }
        COUNT(q, kicks, 1);
        VW_TRACE(kick, q->index, vq_driver_outstanding(&q->vq), 0);
        drv_ring_bell(p->tx_kick);
}

static void publish(struct drv_txq *q)
{
        vq_driver_publish(&q->vq);
        q->unkicked = true;
}

/* Stops the queue, and looks once whether it may go on at once: the device may have been faster. */
static void stop(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;

        COUNT(q, stops, 1);
        VW_TRACE(stop, q->index, q->stopped, vq_driver_free(&q->vq));
        publish(q);
        drv_tx_flush(p);
        if (vq_driver_used_pending(&q->vq))
                drv_tx_reap(p, VW_C_reaped_by_xmit);
        note_wake(q);
}

static void stop_if_full(struct drv_pair *p)
{
        p->tx.stopped = stop_reasons(&p->tx);
        if (unlikely(p->tx.stopped))
                stop(p);
}

/* ---- one packet ---- */

/* What a packet asks of the device must make sense, and be what it has agreed to do (5.1.6.2). */
static enum vw_drop admit_offload(const struct drv_pair *p, struct vw_net_hdr *hdr, uint32_t len)
{
        static const uint64_t need[] = {
                [VW_GSO_TCPV4] = F(host_tso4),
                [VW_GSO_TCPV6] = F(host_tso6),
                [VW_GSO_UDP_L4] = F(host_uso),
        };
        uint8_t type = hdr->gso_type & (uint8_t)~VW_GSO_ECN;

        if (!(hdr->flags & VW_HDR_F_NEEDS_CSUM))
                return VW_DROP_BAD_GSO;
        if (!(p->features & F(csum)))
                return VW_DROP_NOT_NEGOTIATED;
        if ((uint32_t)hdr->csum_start + hdr->csum_offset + 2 > len)
                return VW_DROP_BAD_CSUM;
        hdr->flags = VW_HDR_F_NEEDS_CSUM;
        hdr->num_buffers = 0;
        if (hdr->gso_type == VW_GSO_NONE) {
                hdr->gso_size = 0;
                return VW_DROP_NONE;
        }
        if (!hdr->gso_size || type >= ARRAY_SIZE(need) || !need[type])
                return VW_DROP_BAD_GSO;
        if (!(p->features & need[type]) || (hdr->gso_type & VW_GSO_ECN && !(p->features & F(host_ecn))))
                return VW_DROP_NOT_NEGOTIATED;
        return VW_DROP_NONE;
}

/* Of a packet that goes out as it is, and is longer than the MTU at the first look: a VLAN tag does not count. */
static bool over_mtu(const struct drv_pair *p, const struct iovec *iov, unsigned n_iov, uint32_t len)
{
        const struct vw_net_hdr none = { 0 };
        uint8_t bytes[NET_HEADERS_MAX];

        iov_to_buf(iov, n_iov, 0, bytes, sizeof(bytes));
        return net_over_mtu(&none, bytes, len, p->mtu);
}

/* Whether the packet may be sent; clears what a driver must not say. */
static enum vw_drop admit(const struct drv_pair *p, struct vw_net_hdr *hdr, const struct iovec *iov,
                          unsigned n_iov, uint32_t len)
{
        enum vw_drop drop;

        if (len < NET_ETH_LEN)
                return VW_DROP_SHORT;
        if (len > VW_FRAME_MAX)
                return VW_DROP_TOO_LONG;
        if (likely(!(hdr->flags & VW_HDR_F_NEEDS_CSUM) && hdr->gso_type == VW_GSO_NONE)) {
                /* as a whole, since it is loaded as a whole: see net/hdr.h */
                *hdr = (struct vw_net_hdr){ 0 };
        } else {
                drop = admit_offload(p, hdr, len);
                if (drop)
                        return drop;
        }
        if (likely(!p->mtu || len <= p->mtu + NET_ETH_LEN || hdr->gso_type != VW_GSO_NONE))
                return VW_DROP_NONE;
        return over_mtu(p, iov, n_iov, len) ? VW_DROP_MTU : VW_DROP_NONE;
}

/* Where a packet lies. */
struct place {
        uint32_t len;
        uint32_t buf; /* the transmit buffer that holds all of it, or TX_NONE */
        bool one; /* it is one piece, from where the buffer begins: the header fits before it, and one descriptor holds both */
};

/* Looks several pieces over, or one that lies somewhere else, for the program's own mistakes: memory that the device cannot see. */
static int survey_pieces(const struct drv_pair *p, const struct vw_tx_pkt *pkt, struct place *ret_place)
{
        const struct arena *a = &p->drv->arena;
        const struct drv_txq *q = &p->tx;
        size_t buf = (size_t)((uint8_t *)pkt->iov[0].iov_base - q->buf_base) / TX_BUF_STRIDE;
        size_t begin = (size_t)(buf_frame(q, (uint32_t)buf) - a->va);
        bool together = buf < q->n_bufs + TX_CELLS;
        uint64_t len = 0;

        for (unsigned i = 0; i < pkt->n_iov; i++) {
                size_t at = (size_t)((uint8_t *)pkt->iov[i].iov_base - a->va), n = pkt->iov[i].iov_len;

                if (unlikely(at > a->size || n > a->size - at))
                        return -EINVAL;
                together = together && at - begin <= VW_TX_BUF_SIZE && n <= VW_TX_BUF_SIZE - (at - begin);
                len += n;
        }
        if (!pkt->cookie && (!together || buf >= q->n_bufs))
                return -EINVAL; /* nobody would know when its memory is free */
        *ret_place =
                (struct place){ (uint32_t)MIN(len, UINT32_MAX), together ? (uint32_t)buf : TX_NONE, false };
        return 0;
}

static int survey(const struct drv_pair *p, const struct vw_tx_pkt *pkt, struct place *ret_place)
{
        uint32_t buf;

        if (unlikely(!pkt->n_iov || pkt->n_iov > p->tx.frags_max))
                return -EINVAL;
        buf = buf_at(&p->tx, pkt->iov->iov_base);
        if (unlikely(pkt->n_iov > 1 || buf == TX_NONE || pkt->iov->iov_len > VW_TX_BUF_SIZE))
                return survey_pieces(p, pkt, ret_place);
        *ret_place = (struct place){ (uint32_t)pkt->iov->iov_len, buf, true };
        return 0;
}

/* Nearly all packets: one piece from where a transmit buffer begins, of a length that is always allowed, that asks for nothing and is on nobody's
 * account.  The buffer; TX_NONE: there is more to look at. */
static uint32_t plain_buf(const struct drv_txq *q, const struct vw_tx_pkt *pkt)
{
        if (pkt->n_iov != 1 || pkt->iov->iov_len - NET_ETH_LEN > q->plain_max ||
            pkt->hdr.flags & VW_HDR_F_NEEDS_CSUM || pkt->hdr.gso_type != VW_GSO_NONE || pkt->flow)
                return TX_NONE;
        return buf_at(q, pkt->iov->iov_base);
}

/* Header and packet in one piece.  A header that asks for nothing mostly stands there from the time before; then it is not
 * written again, and its cache line stays with the device. */
static struct vq_piece lay_out_one(struct drv_pair *p, const struct vw_net_hdr *hdr,
                                   const struct place *place)
{
        struct tx_buf *b = &p->tx.bufs[place->buf];
        uint8_t *at = buf_frame(&p->tx, place->buf) - p->hdr_len;
        bool plain = !hdr->flags && hdr->gso_type == VW_GSO_NONE; /* then the rest is 0, too: admit() */

        if (unlikely(!plain || !b->plain))
                net_hdr_encode(hdr, p->hdr_len, at);
        b->plain = plain;
        return (struct vq_piece){ arena_gpa(&p->drv->arena, at), p->hdr_len + place->len };
}

/* Lays the packet out for the device: header, then what is not empty.  Returns the number of pieces. */
static unsigned lay_out(struct drv_pair *p, const struct vw_tx_pkt *pkt, const struct vw_net_hdr *hdr,
                        uint16_t id, struct vq_piece *pieces)
{
        const struct arena *arena = &p->drv->arena;
        uint8_t *at = p->tx.hdrs + (size_t)id * HDR_STRIDE;
        unsigned n = 0;

        net_hdr_encode(hdr, p->hdr_len, at);
        pieces[n++] = (struct vq_piece){ arena_gpa(arena, at), p->hdr_len };
        for (unsigned i = 0; i < pkt->n_iov; i++)
                if (pkt->iov[i].iov_len)
                        pieces[n++] = (struct vq_piece){ arena_gpa(arena, pkt->iov[i].iov_base),
                                                         (uint32_t)pkt->iov[i].iov_len };
        return n;
}

/* Puts a packet on the ring, whose flow has been charged.  The queue is not stopped, so there is room.  Inline, so that what is known
 * of a plain packet is not asked again. */
__attribute__((always_inline)) static inline void put_on_ring(struct drv_pair *p, const struct vw_tx_pkt *pkt,
                                                              const struct vw_net_hdr *hdr,
                                                              const struct place *place, struct vw_flow *flow)
{
        struct drv_txq *q = &p->tx;
        uint16_t id = vq_driver_next_id(&q->vq);
        struct tx_slot *s = &q->slots[id];
        int r;

        if (likely(place->one)) {
                struct vq_piece piece = lay_out_one(p, hdr, place);

                r = vq_driver_add(&q->vq, &piece, 1, 0, s);
        } else {
                struct vq_piece pieces[VW_TX_FRAGS_MAX + 1];

                r = vq_driver_add(&q->vq, pieces, lay_out(p, pkt, hdr, id, pieces), 0, s);
        }
        check(r == 0);
        q->inflight++;
        q->inflight_flows += flow != NULL;
        *s = (struct tx_slot){ pkt->cookie, flow, bql_charge(&q->bql, place->len), place->len, place->buf };
        if (place->buf != TX_NONE)
                q->bufs[place->buf].inflight++;
        if (!pkt->cookie) {
                q->bufs[place->buf].put = true; /* free as soon as the device is done */
        } else if (q->mode == VW_TX_ORPHAN && place->buf != TX_NONE && q->n_let_go < q->vq.size) {
                let_go(p, s->cookie);
                s->cookie = NULL;
        }
}

/* A packet that is dropped is done at once. */
static void drop_packet(struct drv_pair *p, const struct vw_tx_pkt *pkt, const struct place *place,
                        enum vw_drop reason)
{
        struct drv_txq *q = &p->tx;

        COUNT_DROP(q, reason);
        if (pkt->cookie)
                let_go(p, pkt->cookie);
        else
                buf_put(q, place->buf);
}

/* Any packet, looked at closely.  1: taken; 0: not now; -errno. */
static int offer_any(struct drv_pair *p, const struct vw_tx_pkt *pkt)
{
        struct drv_txq *q = &p->tx;
        struct vw_flow *flow = q->mode == VW_TX_NAPI ? pkt->flow : NULL; /* nothing holds orphans back */
        struct vw_net_hdr hdr = pkt->hdr;
        enum vw_drop drop;
        struct place place;
        int r = survey(p, pkt, &place);

        if (unlikely(r < 0))
                return r;
        drop = admit(p, &hdr, pkt->iov, pkt->n_iov, place.len);
        if (unlikely(drop)) {
                if (q->n_let_go == q->vq.size)
                        return 0; /* sending from within tx_done, whose loop must hand over first */
                drop_packet(p, pkt, &place, drop);
                return 1;
        }
        if (flow && !flow_charge(&flow->account, place.len))
                return 0;
        put_on_ring(p, pkt, &hdr, &place, flow);
        return 1;
}

/* As offer_any(). */
static int offer(struct drv_pair *p, const struct vw_tx_pkt *pkt)
{
        static const struct vw_net_hdr none = { 0 };
        uint32_t buf = plain_buf(&p->tx, pkt);

        if (unlikely(buf == TX_NONE))
                return offer_any(p, pkt);
        put_on_ring(p, pkt, &none, &(struct place){ (uint32_t)pkt->iov->iov_len, buf, true }, NULL);
        return 1;
}

/* A packet of vw_driver_send(): the same, but its sender has charged the flow and waits for nothing. */
void drv_tx_offer_cell(struct drv_pair *p, uint32_t cell)
{
        struct drv_txq *q = &p->tx;
        struct tx_cell *c = &q->cells[cell];
        uint32_t buf = q->n_bufs + cell;
        struct iovec iov = { buf_frame(q, buf), c->len };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        enum vw_drop drop = admit(p, &c->hdr, &iov, 1, c->len);

        if (drop) {
                drv_tx_drop_cell(p, cell, drop);
                return;
        }
        put_on_ring(p, &pkt, &c->hdr, &(struct place){ c->len, buf, true }, c->flow);
        stop_if_full(p);
}

void drv_tx_drop_cell(struct drv_pair *p, uint32_t cell, enum vw_drop reason)
{
        struct drv_txq *q = &p->tx;

        COUNT_DROP(q, reason);
        if (q->cells[cell].flow)
                discharge(p, q->cells[cell].flow, q->cells[cell].len);
        buf_free(q, q->n_bufs + cell);
}

/* What was offered becomes visible, and the device is told. */
void drv_tx_commit(struct drv_pair *p)
{
        publish(&p->tx);
        drv_tx_flush(p);
        p->napi.worked = true;
}

bool drv_tx_ready(const struct drv_pair *p)
{
        return p->up && p->enabled && !p->tx.stopped && !p->tx.hung && !p->tx.vq.broken;
}

int drv_tx_xmit(struct drv_pair *p, const struct vw_tx_pkt *pkts, unsigned n, bool more)
{
        struct drv_txq *q = &p->tx;
        unsigned taken = 0;
        int r = 1;

        if (!p->up || !p->enabled)
                return -ENETDOWN;
        if (q->vq.broken)
                return -EPROTO;
        if (q->hung)
                return -ETIMEDOUT;
        if (q->mode == VW_TX_ORPHAN)
                drv_tx_reap(p, VW_C_reaped_by_xmit);
        /* a reap, here or when the queue stops, may find a lie */
        while (taken < n && !q->stopped && !q->vq.broken && (r = offer(p, &pkts[taken])) > 0) {
                taken++;
                if (q->kick_mode == VW_KICK_EACH) {
                        publish(q);
                        drv_tx_flush(p);
                }
                stop_if_full(p);
        }
        if (taken)
                publish(q);
        if (!more || q->stopped)
                drv_tx_flush(p);
        q->refused |= taken < n && (q->stopped || q->in_done);
        p->napi.worked |= taken > 0;
        flush_done(p);
        if (q->vq.broken && !taken)
                return -EPROTO;
        return taken || r >= 0 ? (int)taken : r;
}

VW_API int vw_driver_xmit(struct vw_driver *drv, unsigned pair, const struct vw_tx_pkt *pkts, unsigned n,
                          bool more)
{
        drv_claim(&drv->pairs[pair]);
        return drv_tx_xmit(&drv->pairs[pair], pkts, n, more);
}

VW_API bool vw_driver_tx_ready(const struct vw_driver *drv, unsigned pair)
{
        return drv_tx_ready(&drv->pairs[pair]);
}
