/* Reception: frames reach the driver.
 *
 *      refill: rxbuf_get -> vq_driver_add -> publish -> one kick
 *      poll:   vq_driver_reap -> header, pieces, checks -> rx(pkts) -> buffers back
 *
 * A packet of a mergeable ring takes as many buffers as it fills, and says so in its first one's header.  What the device says is
 * believed after three checks: a length is within its buffer, the number of buffers is there, the header fits the frame.  A packet
 * that fails is dropped with all of its buffers under the reason's name.  Where the number of buffers is a lie, what is visible at
 * that moment counts as that packet's: the next used entry begins a new one. */
#include <errno.h>
#include <stdlib.h>

#include "base/iov.h"
#include "driver/driver.h"
#include "net/hdr.h"
#include "ring/peer.h"

#define SMALL_FRAME 1518 /* Ethernet with VLAN tag, without an MTU that says otherwise */

/* ---- life ---- */

/* The slab: in every layout a ring's worth of buffers twice over, since a buffer that is used late keeps its page. */
size_t drv_rx_memory(const struct vw_driver_config *config)
{
        size_t merge = (size_t)config->queue_size * 2 * RXBUF_PAGE;
        size_t big = (size_t)MIN(config->queue_size, 256u) * RX_CHAIN_MAX * RXBUF_PAGE;

        return ALIGN_UP(MAX(merge, big), RXBUF_FRAGMENT) + 4 * RXBUF_FRAGMENT;
}

int drv_rx_init(struct drv_pair *p)
{
        const struct vw_driver_config *c = &p->drv->config;
        struct drv_rxq *q = &p->rx;
        unsigned n = MAX(c->queue_size, MIN(c->queue_size, 256u) * RX_CHAIN_MAX);
        unsigned n_slots = 3 * n; /* posted; waiting for the program, which were posted once; kept */

        q->memory_size = drv_rx_memory(c) - RXBUF_FRAGMENT;
        q->memory = arena_alloc(&p->drv->arena, q->memory_size, RXBUF_PAGE);
        q->pages = calloc(q->memory_size / RXBUF_PAGE, sizeof(*q->pages));
        q->slots = calloc(n_slots, sizeof(*q->slots));
        q->iov = calloc(n + RX_BATCH, sizeof(*q->iov));
        if (!q->memory || !q->pages || !q->slots || !q->iov)
                return -ENOMEM;
        q->room = n;
        for (unsigned i = n_slots; i-- > 0;) {
                q->slots[i].next = q->free_slot;
                q->free_slot = &q->slots[i];
        }
        q->mode = c->rx_buffers;
        rxbuf_slab_init(&q->slab, q->memory, q->memory_size, q->pages);
        return 0;
}

void drv_rx_done(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;

        free(q->pages);
        free(q->slots);
        free(q->iov);
}

/* A device that cannot know how long the next packet is waits for room for the longest.  What a small ring may lack before it is refilled is
 * less than half, or both ends would wait for each other. */
static unsigned spare_chains(const struct drv_rxq *q, uint32_t longest, uint32_t least)
{
        unsigned needed = q->mergeable ? (longest + least - 1) / least : 1;

        return q->target > needed ? q->target - needed : 0;
}

/* The ring has been made: sizes the buffers for what was negotiated (5.1.6.3.1). */
int drv_rx_start(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;
        uint32_t frame = p->mtu ? p->mtu + NET_ETH_LEN + NET_VLAN_LEN : SMALL_FRAME;
        uint32_t longest = p->features & (F(guest_tso4) | F(guest_tso6)) ? VW_FRAME_MAX : frame;
        struct rxbuf_config config = {
                .mode = q->mode,
                .hdr_len = p->hdr_len,
                .minimum = rxbuf_minimum(q->vq.size, longest + p->hdr_len),
                .frame = frame,
        };

        q->features = p->features;
        q->mergeable = p->features & F(mrg_rxbuf);
        q->least_buffers = q->mergeable;
        q->chain_len = q->mergeable ? 1 : (longest + p->hdr_len + RXBUF_PAGE - 1) / RXBUF_PAGE;
        q->buf_len = q->chain_len > 1 ? RXBUF_PAGE : (uint32_t)ALIGN_UP(longest + p->hdr_len, CACHE_LINE);
        q->target = MIN(q->vq.indirect ? q->vq.size : q->vq.size / q->chain_len, q->room / q->chain_len);
        q->spare = spare_chains(q, longest + p->hdr_len, MAX(config.minimum, RXBUF_DATA_MIN + p->hdr_len));
        if (!q->mergeable)
                config.minimum = 0;
        q->refill_at = NEVER;
        return rxbuf_init(&q->buf, &config, &q->slab);
}

/* ---- giving buffers back ---- */

static void put_slot(struct drv_rxq *q, struct rx_slot *s)
{
        s->next = q->free_slot;
        q->free_slot = s;
}

/* A chain's or a packet's buffers, which nobody wants. */
static void put_buffers(struct drv_rxq *q, struct rx_slot *s)
{
        while (s) {
                struct rx_slot *next = s->next;

                rxbuf_put(&q->buf, &s->buf);
                put_slot(q, s);
                s = next;
        }
}

/* The device has stopped: all buffers come back but those that the program keeps. */
void drv_rx_stop(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;
        struct rx_slot *chain;
        uint64_t holes = q->buf.holes;

        for (; q->first < q->n_pkts; q->first++) {
                put_buffers(q, q->packets[q->first].buffers);
                COUNT_DROP(q, VW_DROP_DISABLED);
        }
        for (; q->used_next < q->used_n; q->used_next++)
                put_buffers(q, q->used[q->used_next].cookie);
        while ((chain = vq_driver_drain(&q->vq)))
                put_buffers(q, chain);
        rxbuf_done(&q->buf);
        COUNT(q, holes, holes);
        q->buf.holes = 0;
        q->posted = q->used_next = q->used_n = q->first = q->n_pkts = q->n_iov = 0;
        q->refill_at = NEVER;
}

/* ---- posting buffers ---- */

static struct vq_piece piece_of(const struct drv_pair *p, const struct rx_slot *s)
{
        return (struct vq_piece){ arena_gpa(&p->drv->arena, s->buf.ptr), s->buf.len };
}

/* Posts a chain of one buffer. */
static int post_buffer(struct drv_pair *p, struct rxbuf_lengths lengths)
{
        struct drv_rxq *q = &p->rx;
        struct rx_slot *s = q->free_slot;
        struct vq_piece piece;
        int r;

        if (unlikely(!s))
                return -ENOMEM;
        r = rxbuf_get(&q->buf, lengths, &s->buf);
        if (unlikely(r < 0))
                return r;
        piece = piece_of(p, s);
        r = vq_driver_add(&q->vq, &piece, 0, 1, s);
        if (unlikely(r)) { /* the ring has no place: as if it had not been cut off */
                rxbuf_undo(&q->buf, &s->buf);
                return r;
        }
        q->free_slot = s->next;
        s->next = NULL;
        q->posted++;
        return 0;
}

/* Posts a packet's worth of pages. */
static int post_pages(struct drv_pair *p, struct rxbuf_lengths lengths)
{
        struct drv_rxq *q = &p->rx;
        struct vq_piece pieces[RX_CHAIN_MAX];
        struct rx_slot *chain = NULL, **end = &chain;
        int r = 0;

        for (unsigned i = 0; i < q->chain_len && !r; i++) {
                struct rx_slot *s = q->free_slot;

                r = s ? rxbuf_get(&q->buf, lengths, &s->buf) : -ENOMEM;
                if (r < 0)
                        break;
                q->free_slot = s->next;
                s->next = NULL;
                *end = s;
                end = &s->next;
                pieces[i] = piece_of(p, s);
        }
        if (!r)
                r = vq_driver_add(&q->vq, pieces, 0, q->chain_len, chain);
        if (r)
                put_buffers(q, chain);
        else
                q->posted++;
        return r;
}

#define REFILL_RETRY (1 * NSEC_PER_MSEC) /* memory is short until the program or the device gives some back */

/* Posts buffers until the ring is full, and kicks once; only when so many are missing that it pays. */
void drv_rx_refill(struct drv_pair *p, unsigned budget)
{
        struct drv_rxq *q = &p->rx;
        unsigned missing = q->target - q->posted, n = 0;
        bool retry = p->napi.now >= q->refill_at;
        struct rxbuf_lengths lengths;
        int r = 0;

        if (q->vq.broken)
                q->refill_at = NEVER;
        if (q->vq.broken || (missing <= MIN(MIN(budget, q->target) / 2, q->spare) && !retry))
                return;
        lengths = q->mergeable ? rxbuf_lengths(&q->buf) : rxbuf_exactly(q->buf_len);
        while (n < missing && (r = q->chain_len == 1 ? post_buffer(p, lengths) : post_pages(p, lengths)) == 0)
                n++;
        q->refill_at = NEVER;
        if (r) {
                COUNT(q, refill_failures, 1);
                q->refill_at = p->napi.now + REFILL_RETRY;
        }
        VW_TRACE(refill, q->index, n, missing);
        if (!n)
                return;
        COUNT(q, refills, 1);
        vq_driver_publish(&q->vq);
        if (vq_driver_kick_needed(&q->vq)) {
                COUNT(q, kicks, 1);
                VW_TRACE(kick, q->index, q->posted, 0);
                drv_ring_bell(p->rx_kick);
        } else {
                COUNT(q, kicks_suppressed, 1);
        }
}

/* ---- one packet ---- */

bool drv_rx_pending(const struct drv_rxq *q)
{
        return q->used_next < q->used_n || vq_driver_used_pending(&q->vq);
}

/* Takes what the device has used, and fetches the headers: its CPU has them, and all at once they come sooner. */
static bool reap(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;
        bool broken = q->vq.broken;
        int n = vq_driver_reap(&q->vq, q->used, RX_BATCH);

        if (n < 0 && !broken)
                log_limited(&q->log, p->napi.now, VW_LOG_ERROR, "driver",
                            "queue broken queue=%u reason=%s at=%u", q->index, q->vq.broken, q->vq.broken_at);
        q->used_next = 0;
        q->used_n = n > 0 ? (unsigned)n : 0;
        for (int i = 0; i < n; i++)
                __builtin_prefetch(((struct rx_slot *)q->used[i].cookie)->buf.ptr);
        return n > 0;
}

/* NULL: there is none.  Valid until the next call. */
static const struct vq_used *next_used(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;

        if (q->used_next == q->used_n && !reap(p))
                return NULL;
        q->posted--;
        return &q->used[q->used_next++];
}

/* The virtio header: each of its words is read once, and only the copy is used. */
static struct vw_net_hdr load_hdr(const uint8_t *shared, unsigned hdr_len)
{
        uint64_t first = peer_load((const uint64_t *)shared); /* buffers begin on a cache line */
        uint32_t second = peer_load((const uint32_t *)(shared + sizeof(first)));
        struct vw_net_hdr hdr = net_hdr_of_words(first, second);

        if (unlikely(hdr_len == NET_HDR_LEN_LEGACY))
                hdr.num_buffers = 0;
        return hdr;
}

/* A packet being put together; its pieces go to the end of q->iov. */
struct assembly {
        struct iovec *iov;
        unsigned n_iov;
        struct rx_slot *first, *last; /* its buffers */
        uint32_t last_len;            /* bytes written into the last one */
        uint32_t len, truesize;       /* len: without header */
        enum vw_drop drop;
};

/* Adds a buffer that `len` bytes were written into, the first `skip` of them header. */
static void add_buffer(struct drv_rxq *q, struct assembly *a, struct rx_slot *s, uint32_t len, uint32_t skip)
{
        bool grows = a->n_iov && rxbuf_adjacent(&q->buf, &a->last->buf, a->last_len, &s->buf);

        if (a->last)
                a->last->next = s;
        else
                a->first = s;
        s->next = NULL;
        a->last = s;
        a->last_len = len;
        a->truesize += s->buf.truesize;
        a->len += len - skip;
        if (len == skip)
                return;
        if (grows) {
                a->iov[a->n_iov - 1].iov_len += len;
                COUNT(q, coalesced_frags, 1);
        } else if (a->n_iov < RX_FRAGS_MAX) {
                a->iov[a->n_iov++] = (struct iovec){ s->buf.ptr + skip, len - skip };
        } else {
                a->drop = VW_DROP_TOO_LONG;
        }
}

/* Adds what was written into a chain.  What the device did not write to goes back at once: it is not the packet's. */
static void add_chain(struct drv_rxq *q, struct assembly *a, const struct vq_used *u, uint32_t skip)
{
        struct rx_slot *s = u->cookie, *next = s->next;
        uint32_t n = MIN(u->len, s->buf.len), left = u->len - n;

        add_buffer(q, a, s, n, MIN(skip, n));
        for (s = next; s; s = next) {
                next = s->next;
                n = MIN(left, s->buf.len);
                left -= n;
                if (n) {
                        add_buffer(q, a, s, n, 0);
                } else {
                        rxbuf_put(&q->buf, &s->buf);
                        put_slot(q, s);
                }
        }
        if (left)
                a->drop = VW_DROP_BAD_LEN;
}

/* The buffers after the first.  Visible together with it (5.1.6.4), or the device lies. */
static void add_continuation(struct drv_pair *p, struct assembly *a, unsigned n)
{
        COUNT(&p->rx, merged_packets, 1);
        while (n--) {
                const struct vq_used *u = next_used(p);

                if (!u) {
                        a->drop = VW_DROP_MISSING_BUFFERS;
                        return;
                }
                add_chain(&p->rx, a, u, 0);
        }
}

/* A packet of any number of pieces, and any that is not as it should be. */
__attribute__((noinline)) static void assemble(struct drv_pair *p, struct assembly *a,
                                               const struct vq_used *u, unsigned num_buffers)
{
        struct drv_rxq *q = &p->rx;
        uint32_t written = u->len;

        add_chain(q, a, u, p->hdr_len);
        if (written < p->hdr_len) /* then there is no header to believe either */
                a->drop = VW_DROP_BAD_LEN;
        else if (num_buffers > 1 && q->mergeable)
                add_continuation(p, a, num_buffers - 1);
        else if (num_buffers > 1 || num_buffers < q->least_buffers)
                a->drop = VW_DROP_BAD_HDR;
}

/* Nearly every packet: all of it in the one buffer of its chain.  False: it is not so. */
static bool take_whole(const struct drv_rxq *q, struct assembly *a, const struct vq_used *u,
                       unsigned num_buffers, uint32_t hdr_len)
{
        struct rx_slot *s = u->cookie;

        if (s->next || u->len > s->buf.len || u->len <= hdr_len || num_buffers > 1 ||
            num_buffers < q->least_buffers)
                return false;
        a->first = s;
        a->len = u->len - hdr_len;
        a->truesize = s->buf.truesize;
        a->iov[0] = (struct iovec){ s->buf.ptr + hdr_len, a->len };
        a->n_iov = 1;
        return true;
}

static enum vw_drop check_frame(const struct drv_rxq *q, const struct assembly *a, struct vw_net_hdr *hdr)
{
        uint8_t bytes[NET_HEADERS_MAX];

        if (a->drop)
                return a->drop;
        if (a->len < NET_ETH_LEN)
                return VW_DROP_BAD_LEN;
        if (a->len > VW_FRAME_MAX)
                return VW_DROP_TOO_LONG;
        if (!hdr->flags && !hdr->gso_type) { /* nothing is claimed: nothing to look at */
                *hdr = (struct vw_net_hdr){ .num_buffers = hdr->num_buffers };
                return VW_DROP_NONE;
        }
        iov_to_buf(a->iov, a->n_iov, 0, bytes, sizeof(bytes));
        return net_rx_check(hdr, bytes, a->len, q->features);
}

/* Takes the next packet off the ring: to q->pkts, or it is dropped.  False: there is none. */
static bool take_packet(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;
        struct assembly a = { .iov = q->iov + q->n_iov + 1 };
        const struct vq_used *u = next_used(p);
        struct vw_net_hdr hdr;

        if (!u)
                return false;
        hdr = load_hdr(((const struct rx_slot *)u->cookie)->buf.ptr, p->hdr_len);
        if (unlikely(!take_whole(q, &a, u, hdr.num_buffers, p->hdr_len)))
                assemble(p, &a, u, hdr.num_buffers);
        a.drop = check_frame(q, &a, &hdr);
        if (unlikely(a.drop)) {
                COUNT_DROP(q, a.drop);
                put_buffers(q, a.first);
                return true;
        }
        rxbuf_note(&q->buf, a.len);
        q->pkts[q->n_pkts] = (struct vw_rx_pkt){ hdr, a.iov, a.n_iov, a.len, a.truesize };
        q->packets[q->n_pkts++] = (struct rx_packet){ a.first, a.len, a.truesize };
        q->n_iov += 1 + a.n_iov;
        return true;
}

/* ---- handing over ---- */

/* Offers what was assembled; the buffers of what the program takes go back.  Returns how many it took. */
static unsigned deliver(struct drv_pair *p)
{
        struct drv_rxq *q = &p->rx;
        unsigned n = q->n_pkts - q->first, taken = n;
        uint64_t bytes = 0, truesize = 0;

        if (!n)
                return 0;
        if (p->drv->ops.rx)
                taken = p->drv->ops.rx(p->drv->config.ctx, p->index, q->pkts + q->first, n);
        check(taken <= n);
        for (unsigned i = q->first; i < q->first + taken; i++) {
                const struct rx_packet *k = &q->packets[i];

                bytes += k->len;
                truesize += k->truesize;
                put_buffers(q, k->buffers);
        }
        COUNT(q, packets, taken);
        COUNT(q, bytes, bytes);
        COUNT(q, truesize, truesize);
        q->first += taken;
        if (q->first == q->n_pkts)
                q->first = q->n_pkts = q->n_iov = 0;
        return taken;
}

/* Receives up to `budget` packets.  Returns how many, drops included, or -EPROTO when the ring is broken and empty. */
int drv_rx_poll(struct drv_pair *p, unsigned budget)
{
        struct drv_rxq *q = &p->rx;
        unsigned work = deliver(p);

        while (!q->n_pkts && work < budget) {
                unsigned want = MIN(budget - work, (unsigned)RX_BATCH), n = 0;

                while (n < want && take_packet(p))
                        n++;
                if (!n)
                        break;
                work += n - q->n_pkts;
                work += deliver(p);
        }
        return q->vq.broken && !work ? -EPROTO : (int)work;
}

/* ---- packets that are kept ---- */

static unsigned count_buffers(const struct rx_slot *s)
{
        unsigned n = 0;

        for (; s; s = s->next)
                n++;
        return n;
}

VW_API void *vw_driver_rx_keep(struct vw_driver *drv, unsigned pair, const struct vw_rx_pkt *pkt)
{
        struct drv_rxq *q = &drv->pairs[pair].rx;
        struct rx_packet *k = &q->packets[pkt - q->pkts];
        struct rx_slot *buffers;
        unsigned n;

        check(pkt >= q->pkts + q->first && pkt < q->pkts + q->n_pkts && k->buffers);
        buffers = k->buffers;
        n = count_buffers(buffers);
        if (n > q->room - q->kept)
                return NULL;
        q->kept += n;
        k->buffers = NULL;
        return buffers;
}

VW_API void vw_driver_rx_put(struct vw_driver *drv, unsigned pair, void *kept)
{
        struct drv_rxq *q = &drv->pairs[pair].rx;

        drv_claim(&drv->pairs[pair]);
        q->kept -= count_buffers(kept);
        put_buffers(q, kept);
}
