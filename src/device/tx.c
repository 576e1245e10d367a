/* Transmit: frames leave the driver through the port.
 *
 *      pop a burst -> header: copy, check -> lay out for the port -> vw_port_tx() -> push, publish
 *
 * The payload goes from guest memory to the port as it lies there.  Headers that somebody will act on (checksum, segmentation)
 * are copied first and the copy is checked and sent: what the guest changes afterwards is not looked at.  A frame whose content
 * is a lie is dropped under a reason, in its place in the order; a port that is full leaves the rest of the burst in the ring.
 *
 * Verdicts are counted when a chain is pushed and not before: one that is put back will be met again. */
#include <errno.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/iov.h"
#include "device/queue.h"
#include "net/offload.h"

/* What becomes of a chain. */
enum fate {
        DROP, /* verdict[] says why */
        SEND, /* the burst has a pkt for it */
        ALONE, /* through private memory, one frame at a time: it asks for what the port lacks, or has too many pieces */
        LATER, /* no room in this burst */
};

/* ---- one frame ---- */

static enum vw_drop check_chain(const struct dev_queue *q, const struct vq_chain *c)
{
        if (c->fault)
                return c->fault == -E2BIG ? VW_DROP_TOO_LONG : VW_DROP_UNMAPPED;
        if (c->n_in)
                return VW_DROP_DIRECTION;
        if (c->len_out < q->hdr_len + NET_ETH_LEN)
                return VW_DROP_SHORT;
        return c->len_out - q->hdr_len > VW_FRAME_MAX ? VW_DROP_TOO_LONG : VW_DROP_NONE;
}

/* Copies the header out, and moves the chain's pieces past it; returns the first piece that is left. */
static struct iovec *take_header(const struct dev_queue *q, const struct vq_chain *c, uint8_t *bytes)
{
        struct iovec *first = c->iov;

        if (unlikely(first->iov_len <= q->hdr_len)) {
                iov_to_buf(c->iov, c->n_out, 0, bytes, q->hdr_len);
                return c->iov + iov_skip(c->iov, c->n_out, q->hdr_len);
        }
        memcpy(bytes, first->iov_base, NET_HDR_LEN_LEGACY); /* num_buffers is not read */
        first->iov_base = (uint8_t *)first->iov_base + q->hdr_len;
        first->iov_len -= q->hdr_len;
        return first;
}

/* A frame that nobody is asked to do anything about: what else its header says is ignored (5.1.6.2.2). */
static enum vw_drop lay_out_plain(struct vw_pkt *pkt, unsigned mtu)
{
        uint8_t head[NET_HEADERS_MAX];

        pkt->hdr = (struct vw_net_hdr){ 0 };
        if (likely(pkt->len <= NET_ETH_LEN + mtu))
                return VW_DROP_NONE;
        iov_to_buf(pkt->iov, pkt->n_iov, 0, head, sizeof(head)); /* it matters whether there is a VLAN tag */
        return net_over_mtu(&pkt->hdr, head, pkt->len, mtu) ? VW_DROP_MTU : VW_DROP_NONE;
}

/* `head`: the frame's first bytes as they will be sent. */
static enum vw_drop check_frame(const struct dev_queue *q, struct vw_net_hdr *hdr, const uint8_t *head,
                                uint32_t len)
{
        enum vw_drop drop = net_tx_check(hdr, head, len, q->cfg.features);

        if (drop == VW_DROP_NONE && net_over_mtu(hdr, head, len, load_relaxed(&q->dev->mtu_limit)))
                drop = VW_DROP_MTU;
        return drop;
}

/* A frame with work left to do: its head is copied and joined to the pieces behind it.  iov[-1] is the port's. */
static enum vw_drop lay_out_offload(const struct dev_queue *q, struct tx_burst *b, struct vw_pkt *pkt)
{
        uint8_t *head = b->heads[b->n_pkts];
        struct iovec *iov = &b->iov[b->n_iov + 1];
        uint32_t have = MIN(pkt->len, (uint32_t)NET_HEADERS_MAX);
        enum vw_drop drop;
        unsigned skip;

        iov_to_buf(pkt->iov, pkt->n_iov, 0, head, have);
        drop = check_frame(q, &pkt->hdr, head, pkt->len);
        if (drop != VW_DROP_NONE || pkt->n_iov >= DEV_PIECES)
                return drop;
        skip = iov_skip(pkt->iov, pkt->n_iov, have);
        pkt->n_iov -= skip;
        iov[0] = (struct iovec){ .iov_base = head, .iov_len = have };
        memcpy(&iov[1], pkt->iov + skip, pkt->n_iov * sizeof(*iov));
        pkt->iov = iov;
        pkt->n_iov++;
        b->n_iov += pkt->n_iov + 1;
        return VW_DROP_NONE;
}

/* Checks chain i and, if it is honest, lays it out as the burst's next pkt. */
static enum fate lay_out(struct dev_queue *q, struct tx_burst *b, unsigned i)
{
        struct vq_chain *c = &b->chains[i];
        struct vw_pkt *pkt = &b->pkts[b->n_pkts];
        uint8_t bytes[sizeof(struct virtio_net_hdr)] = { 0 };
        enum vw_drop drop = check_chain(q, c);
        bool plain;

        b->verdict[i] = (uint8_t)drop;
        b->len[i] = 0;
        if (drop != VW_DROP_NONE)
                return DROP;
        if (b->n_pkts > 0 && b->n_iov + c->n_out + 2u > ARRAY_SIZE(b->iov))
                return LATER;
        b->len[i] = pkt->len = c->len_out - q->hdr_len;
        pkt->iov = take_header(q, c, bytes);
        pkt->n_iov = c->n_out - (unsigned)(pkt->iov - c->iov);
        plain = !(bytes[0] & VW_HDR_F_NEEDS_CSUM) && bytes[1] == VW_GSO_NONE; /* flags, gso_type */
        if (likely(plain)) {
                drop = lay_out_plain(pkt, load_relaxed(&q->dev->mtu_limit));
        } else {
                net_hdr_decode(bytes, q->hdr_len, &pkt->hdr);
                drop = lay_out_offload(q, b, pkt);
        }
        b->verdict[i] = (uint8_t)drop;
        if (drop != VW_DROP_NONE)
                return DROP;
        if (unlikely(pkt->n_iov > DEV_PIECES) ||
            (!plain && net_offloads_asked(&pkt->hdr) & ~load_relaxed(&q->dev->port_tx_offloads)))
                return ALONE;
        b->chain_of[b->n_pkts++] = (uint8_t)i;
        return SEND;
}

/* ---- to the port ---- */

static enum vw_drop port_verdict(struct dev_queue *q, int result, uint64_t now)
{
        if (likely(result == 0))
                return VW_DROP_NONE;
        log_limited(&q->limit, now, VW_LOG_WARN, "device",
                    "port refused a frame queue=%u errno=%d error=\"%s\"", q->index, -result,
                    strerrordesc_np(-result));
        return result == -ENETDOWN ? VW_DROP_PORT_DOWN : VW_DROP_PORT_ERROR;
}

static void port_is_full(struct dev_queue *q)
{
        q->lane->writable = false;
        counter_add(&q->counters[VW_C_port_full], 1);
}

/* Sends the pkts of chains 0..n-1.  Returns how many of these chains are done with. */
static unsigned send_burst(struct dev_queue *q, struct tx_burst *b, unsigned n, uint64_t now)
{
        unsigned taken;

        if (b->n_pkts == 0)
                return n;
        taken = (unsigned)vw_port_tx(q->lane->port, q->lane->index, b->pkts, b->n_pkts, b->result);
        for (unsigned i = 0; i < taken; i++)
                b->verdict[b->chain_of[i]] = (uint8_t)port_verdict(q, b->result[i], now);
        if (taken == b->n_pkts)
                return n;
        port_is_full(q);
        return b->chain_of[taken];
}

/* One plain frame from private memory.  False: the port is full. */
static bool send_plain(struct dev_queue *q, struct vw_net_hdr hdr, uint8_t *frame, uint32_t len,
                       int *ret_result)
{
        struct iovec iov[2] = {
                [1] = {.iov_base = frame, .iov_len = len}
        };
        struct vw_pkt pkt = { .iov = &iov[1], .n_iov = 1, .len = len, .hdr = hdr };

        if (vw_port_tx(q->lane->port, q->lane->index, &pkt, 1, ret_result) == 1)
                return true;
        port_is_full(q);
        return false;
}

/* Makes up in software what the port lacks.  A frame that the port took in part, or that is more than a turn's work, is begun again
 * and goes on where it was.  A turn is charged for each segment as for a frame. */
static bool send_segments(struct dev_queue *q, const struct vw_net_hdr *hdr, uint32_t len,
                          struct dev_run *run, int *ret_result)
{
        struct dev_worker *w = q->worker;
        struct net_offload made;
        unsigned i = 0;
        uint32_t n;

        *ret_result = net_offload_begin(&made, hdr, w->frame, len);
        if (*ret_result < 0)
                return true;
        while ((n = net_offload_next(&made, w->segment, DEV_FRAME_ROOM)) > 0) {
                int result;

                if (i++ < q->segments_sent)
                        continue;
                if (run->bytes >= DEV_TURN_BYTES)
                        return false;
                if (!send_plain(q, (struct vw_net_hdr){ 0 }, w->segment, n, &result))
                        return false;
                run->bytes += DEV_TURN_BYTES / DEV_TURN;
                q->segments_sent = i;
                if (result < 0)
                        *ret_result = result;
        }
        q->segments_sent = 0;
        return true;
}

/* Chain i through private memory.  Checked again, for this is another copy.  False: not done yet. */
static bool send_alone(struct dev_queue *q, struct tx_burst *b, unsigned i, struct dev_run *run)
{
        const struct vw_pkt *pkt = &b->pkts[b->n_pkts]; /* as laid out, though not counted */
        struct dev_worker *w = q->worker;
        struct vw_net_hdr hdr = pkt->hdr;
        uint32_t len = pkt->len;
        int result;
        bool sent;

        iov_to_buf(pkt->iov, pkt->n_iov, 0, w->frame, len);
        b->verdict[i] = (uint8_t)check_frame(q, &hdr, w->frame, len);
        if (b->verdict[i] != VW_DROP_NONE)
                return true;
        if (net_offloads_asked(&hdr) & ~load_relaxed(&q->dev->port_tx_offloads))
                sent = send_segments(q, &hdr, len, run, &result);
        else
                sent = send_plain(q, hdr, w->frame, len, &result);
        if (sent)
                b->verdict[i] = (uint8_t)port_verdict(q, result, run->now);
        return sent;
}

/* ---- the burst ---- */

/* Counts chains 0..n-1 and gives them back.  Nothing is written into tx buffers, so their used length is 0. */
static void give_back(struct dev_queue *q, struct tx_burst *b, unsigned n, struct dev_run *run)
{
        uint64_t packets = 0, bytes = 0;

        for (unsigned i = 0; i < n; i++) {
                if (likely(b->verdict[i] == VW_DROP_NONE)) {
                        packets++;
                        bytes += b->len[i];
                } else {
                        counter_add(&q->drops[b->verdict[i]], 1);
                }
                run->ndesc += b->chains[i].ndesc;
                run->bytes += b->len[i];
        }
        run->packets = run->published = n;
        counter_add(&q->counters[VW_C_packets], packets);
        counter_add(&q->counters[VW_C_bytes], bytes);
        vq_device_push(&q->vq, b->chains, n);
        vq_device_publish(&q->vq);
}

/* Lays out chains until the burst is long enough.  Returns how many; one that must go alone is the first or waits. */
static unsigned lay_out_burst(struct dev_queue *q, struct tx_burst *b, unsigned n, bool *ret_alone)
{
        uint32_t bytes = 0;
        unsigned i = 0;

        b->n_pkts = b->n_iov = 0;
        *ret_alone = false;
        for (; i < n && bytes < DEV_BURST_BYTES; i++) {
                enum fate fate = lay_out(q, b, i);

                if (fate == LATER || (fate == ALONE && i > 0))
                        break;
                if (fate == ALONE) {
                        *ret_alone = true;
                        break;
                }
                bytes += b->len[i];
        }
        return i;
}

static unsigned discard(struct tx_burst *b, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                b->verdict[i] = VW_DROP_DISABLED;
                b->len[i] = 0;
        }
        return n;
}

int dev_tx_run(struct dev_queue *q, struct dev_run *run)
{
        struct tx_burst *b = &q->worker->tx;
        unsigned popped, laid, done;
        bool alone;
        int n;

        q->pool.used = 0;
        n = vq_device_pop(&q->vq, &q->pool, b->chains, MIN(q->burst, run->max));
        if (n <= 0) {
                q->rewound = 0;
                return n;
        }
        popped = (unsigned)n;
        if (likely(q->enabled)) {
                laid = lay_out_burst(q, b, popped, &alone);
                done = alone ? send_alone(q, b, 0, run) : send_burst(q, b, laid, run->now);
                q->burst = laid < popped ? MAX(done, 1u) : MIN(2 * q->burst, (unsigned)DEV_BURST);
        } else {
                done = discard(b, popped);
        }
        give_back(q, b, done, run);
        vq_device_rewind(&q->vq, b->chains + done, popped - done);
        /* a burst may be shorter than what was put back before */
        q->rewound = MAX(q->rewound, popped) - done;
        return 0;
}
