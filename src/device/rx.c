/* Receive: frames come from the port to the driver.
 *
 *      a window of popped chains -> vw_port_rx() straight into them -> header -> push ... publish
 *
 * How many buffers a frame takes is known only when it has been read, and a read into too little room would cut it.  So chains are
 * popped ahead, a window of them, until the longest frame finds room; those a frame did not need stay in the window for the next.
 * If there is not enough room the frame is left in the port, and the worker sleeps until the driver has given more.  A driver that does
 * not is one with few buffers, and perhaps a short frame: then it is read ahead, into the lane's own memory, where its length is known
 * and, if need be, it waits.
 *
 * Three things make a frame go through private memory instead: a chain that no frame can be put into (the frame that meets it is
 * dropped with it, so that every faulty chain costs one frame and the ring goes on), a chain too small for a longest frame without
 * mergeable buffers, and an offload that the guest has not accepted, which is made up in software. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/iov.h"
#include "device/queue.h"
#include "net/offload.h"

/* ---- the window ---- */

int rx_window_init(struct rx_window *win, unsigned size)
{
        /* the ring cannot have more chains than entries; more room than that saves moving them */
        *win = (struct rx_window){ .cap = MAX(size, 4u * DEV_BURST) };
        win->chains = calloc(win->cap, sizeof(*win->chains));
        return win->chains ? 0 : -ENOMEM;
}

void rx_window_done(struct rx_window *win)
{
        free(win->chains);
        *win = (struct rx_window){ 0 };
}

/* Everything that is held goes back into the ring as it came. */
void rx_window_rewind(struct dev_queue *q)
{
        struct rx_window *win = &q->window;

        if (win->end > win->first)
                vq_device_rewind(&q->vq, win->chains + win->first, win->end - win->first);
        win->first = win->end = win->bad = win->ndesc = 0;
        win->room = 0;
        win->full = win->starved = win->sparse = false;
        q->pool.used = 0;
}

/* Why no frame can go into this chain; VW_DROP_NONE if one can.  With mergeable buffers each holds at least a header, else
 * a header and the shortest frame (5.1.6.3.1). */
static enum vw_drop chain_fault(const struct dev_queue *q, const struct vq_chain *c)
{
        if (c->fault)
                return c->fault == -E2BIG ? VW_DROP_TOO_LONG : VW_DROP_UNMAPPED;
        if (c->n_out)
                return VW_DROP_DIRECTION;
        return c->len_in < q->hdr_len + (q->mergeable ? 0 : NET_ETH_LEN) ? VW_DROP_NO_BUFFERS : VW_DROP_NONE;
}

/* Moves what is held to the front of its arrays. */
static void compact(struct dev_queue *q)
{
        struct rx_window *win = &q->window;
        unsigned n = win->end - win->first;
        size_t shift;

        if (n == 0) {
                win->first = win->end = win->bad = 0;
                q->pool.used = 0;
                return;
        }
        shift = (size_t)(win->chains[win->first].iov - 1 - q->pool.iov);
        memmove(q->pool.iov, q->pool.iov + shift, (q->pool.used - shift) * sizeof(*q->pool.iov));
        memmove(win->chains, win->chains + win->first, n * sizeof(*win->chains));
        for (unsigned i = 0; i < n; i++)
                win->chains[i].iov -= shift;
        q->pool.used -= (unsigned)shift;
        win->bad -= win->first;
        win->first = 0;
        win->end = n;
}

/* The driver's CPU has read the lines where header and frame begin: they come while the frames before are read from the port. */
static void fetch_head(const struct vq_chain *c)
{
        if (likely(c->n_in > 0 && !c->n_out)) {
                fetch_for_write(c->iov[0].iov_base);
                fetch_for_write((const uint8_t *)c->iov[0].iov_base + CACHE_LINE);
        }
}

/* Pops more chains.  1, 0: the driver offers no more, -EPROTO. */
static int grow(struct dev_queue *q)
{
        struct rx_window *win = &q->window;
        int n;

        /* what was counted as delivered must be, even if the next chain breaks the ring */
        vq_device_publish(&q->vq);
        if (win->end == win->first || win->cap - win->end < DEV_BURST ||
            q->pool.size - q->pool.used < q->pool.size / 2)
                compact(q);
        n = vq_device_pop(&q->vq, &q->pool, win->chains + win->end, win->cap - win->end);
        if (n == 0 && win->end > win->first && vq_device_avail_pending(&q->vq)) {
                /* it had no room for the next chain, unless that has just come: then it is there at the second try */
                n = vq_device_pop(&q->vq, &q->pool, win->chains + win->end, win->cap - win->end);
                win->full = n == 0;
        }
        if (n == 0 && win->ndesc == q->vq.size)
                win->full = true; /* the ring cannot offer more than all it has */
        if (n <= 0)
                return win->full ? 1 : n;
        for (unsigned i = 0; i < (unsigned)n; i++) {
                fetch_head(&win->chains[win->end]);
                if (win->bad == win->end && chain_fault(q, &win->chains[win->end]) == VW_DROP_NONE) {
                        win->room += win->chains[win->end].len_in;
                        win->bad++;
                }
                win->ndesc += win->chains[win->end++].ndesc;
        }
        return 1;
}

enum room {
        ROOM_NONE,   /* too little, and the driver offers no more */
        ROOM_DIRECT, /* enough for any frame */
        ROOM_ODD,    /* perhaps enough: a faulty chain, a small one, or one that cannot be held bounds it */
};

/* How much room there is for a header and a frame, `need` bytes at most.  Or -EPROTO. */
static int window_room(struct dev_queue *q, uint32_t need)
{
        struct rx_window *win = &q->window;

        for (;;) {
                int r;

                if (win->bad > win->first &&
                    (q->mergeable ? win->room : win->chains[win->first].len_in) >= need)
                        return ROOM_DIRECT;
                if (win->bad < win->end || win->full || (win->end > win->first && !q->mergeable))
                        return ROOM_ODD;
                r = grow(q);
                if (r <= 0)
                        return r < 0 ? r : ROOM_NONE;
        }
}

/* Gives the first n chains back. */
static void window_push(struct dev_queue *q, unsigned n, struct dev_run *run)
{
        struct rx_window *win = &q->window;

        for (unsigned i = win->first; i < win->first + n; i++) {
                if (i < win->bad)
                        win->room -= win->chains[i].len_in;
                win->ndesc -= win->chains[i].ndesc;
                run->ndesc += win->chains[i].ndesc;
        }
        vq_device_push(&q->vq, win->chains + win->first, n);
        win->first += n;
        win->full = false;
        if (win->bad >= win->first)
                return;
        /* the faulty chain has gone: look on */
        for (win->bad = win->first; win->bad < win->end; win->bad++) {
                if (chain_fault(q, &win->chains[win->bad]) != VW_DROP_NONE)
                        break;
                win->room += win->chains[win->bad].len_in;
        }
}

/* ---- delivering ---- */

static void count_drop(struct dev_queue *q, enum vw_drop drop)
{
        counter_add(&q->drops[drop], 1);
}

static void put_header(const struct dev_queue *q, const struct vq_chain *c, const struct vw_net_hdr *hdr)
{
        uint8_t bytes[sizeof(struct virtio_net_hdr)];

        if (likely(c->iov[0].iov_len >= q->hdr_len)) {
                net_hdr_encode(hdr, q->hdr_len, c->iov[0].iov_base);
                return;
        }
        net_hdr_encode(hdr, q->hdr_len, bytes);
        iov_from_buf(c->iov, c->n_in, 0, bytes, q->hdr_len);
}

/* Hands the window's first chains to the driver as one frame of `len` bytes, which is in them already unless `frame` says where
 * it is.  They have the room.  All but the last are filled to the end (5.1.6.4.1). */
static void deliver(struct dev_queue *q, struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len,
                    struct dev_run *run)
{
        struct vq_chain *first = &q->window.chains[q->window.first], *c = first;
        uint32_t left = q->hdr_len + len, done = 0;
        unsigned n = 0;

        for (; left > 0; c++, n++) {
                uint32_t skip = n ? 0 : q->hdr_len;

                c->written = MIN(left, c->len_in);
                left -= c->written;
                if (frame)
                        iov_from_buf(c->iov, c->n_in, skip, frame + done, c->written - skip);
                done += c->written - skip;
        }
        hdr->num_buffers = (uint16_t)n;
        put_header(q, first, hdr);
        window_push(q, n, run);
        run->published++;
        counter_add(&q->counters[VW_C_packets], 1);
        counter_add(&q->counters[VW_C_bytes], len);
}

/* A frame in private memory into whatever room there is; it is dropped if that is not enough, and where a faulty or small
 * chain is to blame that goes back unused. */
static int deliver_private(struct dev_queue *q, struct vw_net_hdr *hdr, const uint8_t *frame, uint32_t len,
                           struct dev_run *run)
{
        struct rx_window *win = &q->window;
        uint32_t need = q->hdr_len + len;
        int room = window_room(q, need);
        unsigned n = 1;
        bool faulty;

        if (room == ROOM_DIRECT) {
                deliver(q, hdr, frame, len, run);
                return 0;
        }
        if (room <= ROOM_NONE) {
                count_drop(q, VW_DROP_NO_BUFFERS);
                return room;
        }
        faulty = win->bad < win->end && (q->mergeable || win->bad == win->first);
        count_drop(q, faulty ? chain_fault(q, &win->chains[win->bad]) : VW_DROP_TOO_LONG);
        if (q->mergeable)
                n = faulty ? win->bad + 1 - win->first : 0;
        if (n == 0)
                return 0; /* the ring is too small for such a frame, and no chain is to blame */
        for (unsigned i = win->first; i < win->first + n; i++)
                win->chains[i].written = 0;
        window_push(q, n, run);
        run->published++;
        return 0;
}

/* What the guest did not accept is made up.  Each frame that this makes is a packet of its own. */
static int deliver_plain(struct dev_queue *q, const struct vw_net_hdr *hdr, uint8_t *frame, uint32_t len,
                         struct dev_run *run)
{
        struct dev_worker *w = q->worker;
        struct net_offload made;
        uint32_t n;
        int r = net_offload_begin(&made, hdr, frame, len);

        if (r < 0) {
                count_drop(q, VW_DROP_BAD_GSO);
                return 0;
        }
        while (r == 0 && (n = net_offload_next(&made, w->segment, DEV_FRAME_ROOM)) > 0)
                r = deliver_private(q, &(struct vw_net_hdr){ 0 }, w->segment, n, run);
        return r;
}

/* ---- one frame ---- */

static bool wanted(struct dev_queue *q, const struct vw_pkt *pkt)
{
        uint8_t head[FILTER_HEAD_BYTES];

        if (!q->filter.active)
                return true;
        return filter_wants(&q->filter, head,
                            (uint32_t)iov_to_buf(pkt->iov, pkt->n_iov, 0, head, sizeof(head)));
}

/* Frames over the MTU that the driver was told are not for it; those to be cut are (5.1.4.1). */
static bool over_mtu(const struct dev_queue *q, const struct vw_pkt *pkt)
{
        uint8_t head[NET_HEADERS_MAX];
        unsigned mtu;

        if (!(q->cfg.features & F(mtu)) || pkt->hdr.gso_type != VW_GSO_NONE)
                return false;
        mtu = load_relaxed(&q->dev->mtu_limit);
        if (pkt->len <= mtu + NET_ETH_LEN)
                return false;
        iov_to_buf(pkt->iov, pkt->n_iov, 0, head, sizeof(head));
        return net_over_mtu(&pkt->hdr, head, pkt->len, mtu);
}

static enum vw_drop judge(struct dev_queue *q, const struct vw_pkt *pkt)
{
        if (!wanted(q, pkt))
                return VW_DROP_FILTERED;
        if (over_mtu(q, pkt))
                return VW_DROP_MTU;
        return pkt->len < NET_ETH_LEN ? VW_DROP_SHORT : VW_DROP_NONE;
}

static void count_work(struct dev_run *run, uint32_t len)
{
        run->packets++;
        run->bytes += len;
}

/* Asks the port for a frame.  1, 0 or less: there is none to be had now. */
static int read_frame(struct dev_queue *q, struct vw_pkt *pkt, uint64_t now)
{
        struct dev_lane *lane = q->lane;
        int r = vw_port_rx(lane->port, lane->index, pkt);

        if (likely(r > 0)) {
                lane->errors = 0;
                if (lane->fd < 0)
                        lane->writable = true; /* such a port has room again when something was taken out */
                return 1;
        }
        if (r == 0) {
                lane->readable = false;
                return 0;
        }
        lane->errors++;
        if ((lane->errors & (lane->errors - 1)) ==
            0) /* 1, 2, 4, 8 in a row: one that is gone fails for ever */
                log_limited(&q->limit, now, VW_LOG_WARN, "device",
                            "port cannot be read queue=%u errno=%d error=\"%s\" times=%u", q->index, -r,
                            strerrordesc_np(-r), lane->errors);
        if (r == -EFAULT) /* it had the frame in its hands when the guest's memory failed */
                count_drop(q, VW_DROP_UNMAPPED);
        return r;
}

/* `frame`: where it is, in private memory; NULL: in the window. */
static int dispose(struct dev_queue *q, struct vw_pkt *pkt, uint8_t *frame, struct dev_run *run)
{
        uint32_t can = load_relaxed(&q->dev->guest.offloads);
        enum vw_drop drop = judge(q, pkt);

        if (drop != VW_DROP_NONE) {
                count_drop(q, drop);
                return 0;
        }
        if (unlikely(pkt->hdr.flags && !(can & VW_OFFLOAD_CSUM))) /* not stored in vain: see net/hdr.h */
                pkt->hdr.flags &= VW_HDR_F_NEEDS_CSUM;            /* no DATA_VALID then, either */
        if (unlikely(net_offloads_asked(&pkt->hdr) & ~can)) {
                if (!frame) {
                        frame = q->worker->frame;
                        iov_to_buf(pkt->iov, pkt->n_iov, 0, frame, pkt->len);
                }
                return deliver_plain(q, &pkt->hdr, frame, pkt->len, run);
        }
        if (frame)
                return deliver_private(q, &pkt->hdr, frame, pkt->len, run);
        deliver(q, &pkt->hdr, NULL, pkt->len, run);
        return 0;
}

/* The pieces of the window's first chains, `need` bytes of them.  0: more pieces than one read takes. */
static unsigned gather(const struct dev_queue *q, uint32_t need, struct iovec *iov)
{
        const struct vq_chain *c = &q->window.chains[q->window.first];
        unsigned n = 0;

        for (uint64_t have = 0; have < need; c++) {
                if (unlikely(n + c->n_in > DEV_PIECES))
                        return 0;
                for (unsigned i = 0; i < c->n_in; i++)
                        iov[n++] = c->iov[i];
                have += c->len_in;
        }
        return n;
}

/* Takes one frame from the port to wherever it goes.  1; 0: there is none; -EPROTO. */
static int take(struct dev_queue *q, uint32_t need, enum room room, struct dev_run *run)
{
        struct dev_worker *w = q->worker;
        struct iovec *iov = &w->rx_iov[1];
        struct vw_pkt pkt = { 0 };
        unsigned n = room == ROOM_DIRECT ? gather(q, need, iov) : 0;
        bool direct = n > 0;

        if (direct) {
                unsigned skip = iov_skip(iov, n, q->hdr_len);

                pkt.iov = iov + skip;
                pkt.n_iov = n - skip;
        } else {
                iov[0] = (struct iovec){ .iov_base = w->frame, .iov_len = VW_FRAME_MAX };
                pkt.iov = iov;
                pkt.n_iov = 1;
        }
        if (read_frame(q, &pkt, run->now) <= 0)
                return 0;
        count_work(run, pkt.len);
        if (unlikely(pkt.len > need - q->hdr_len)) { /* the port said that there are none so long */
                count_drop(q, VW_DROP_TOO_LONG);
                return 1;
        }
        return dispose(q, &pkt, direct ? NULL : w->frame, run) < 0 ? -EPROTO : 1;
}

/* ---- a frame ahead ---- */

/* A frame that waits in the lane's own memory finds its room, or a chain that is to blame. */
static int take_ahead(struct dev_queue *q, struct dev_run *run)
{
        struct dev_lane *lane = q->lane;
        struct iovec iov[2] = {
                [1] = {.iov_base = lane->ahead.bytes, .iov_len = lane->ahead.len}
        };
        struct vw_pkt pkt = { .iov = &iov[1], .n_iov = 1, .len = lane->ahead.len, .hdr = lane->ahead.hdr };

        lane->ahead.len = 0;
        count_work(run, pkt.len);
        return dispose(q, &pkt, lane->ahead.bytes, run) < 0 ? -EPROTO : 1;
}

/* False: the driver is given its time to offer more, or has offered nothing. */
static bool may_read_ahead(const struct dev_queue *q, uint64_t now)
{
        const struct rx_window *win = &q->window;

        return rx_could_read_ahead(win, q->lane) &&
               (win->sparse || (win->starved && now >= win->starved_at + DEV_PATIENCE));
}

/* 1, or 0: there is none. */
static int read_ahead(struct dev_queue *q, struct dev_run *run)
{
        struct dev_lane *lane = q->lane;
        struct iovec iov[2] = {
                [1] = {.iov_base = lane->ahead.bytes, .iov_len = VW_FRAME_MAX}
        };
        struct vw_pkt pkt = { .iov = &iov[1], .n_iov = 1 };

        q->window.sparse = true;
        if (read_frame(q, &pkt, run->now) <= 0) {
                q->window.starved = false;
                return 0;
        }
        lane->ahead.hdr = pkt.hdr;
        lane->ahead.len = pkt.len;
        return 1;
}

/* The room that a header and the next frame need: one that is cut into several takes more than its length. */
static uint32_t room_needed(const struct dev_queue *q, uint32_t longest)
{
        const struct dev_lane *lane = q->lane;

        if (likely(lane->ahead.len == 0) ||
            net_offloads_asked(&lane->ahead.hdr) & ~load_relaxed(&q->dev->guest.offloads))
                return longest;
        return q->hdr_len + lane->ahead.len;
}

/* ---- the burst ---- */

/* There is no room.  If a frame waits for it the queue is starved, and no event of the port would tell that again. */
static void starve(struct dev_queue *q, uint64_t now)
{
        struct dev_lane *lane = q->lane;
        struct pollfd p = { .fd = lane->fd, .events = POLLIN };

        if (q->window.starved)
                return;
        if (lane->ahead.len == 0 &&
            (lane->fd < 0 ? vw_port_deadline(lane->port, lane->index) > now : poll(&p, 1, 0) == 0)) {
                lane->readable = false;
                return;
        }
        q->window.starved = true;
        q->window.starved_at = now;
        counter_add(&q->counters[VW_C_no_buffers], 1);
}

/* A queue that gets nothing: what comes meanwhile is not for later. */
static void discard(struct dev_queue *q, struct dev_run *run)
{
        struct iovec *iov = &q->worker->rx_iov[1];

        q->window.starved = false;
        if (q->lane->ahead.len > 0) {
                q->lane->ahead.len = 0;
                count_drop(q, VW_DROP_DISABLED);
        }
        while (run->packets < run->max) {
                struct vw_pkt pkt = { .iov = iov, .n_iov = 1 };

                iov[0] = (struct iovec){ .iov_base = q->worker->frame, .iov_len = VW_FRAME_MAX };
                if (read_frame(q, &pkt, run->now) <= 0)
                        return;
                count_work(run, pkt.len);
                count_drop(q, VW_DROP_DISABLED);
        }
}

static void adopt_filter(struct dev_queue *q)
{
        struct dev_guest *guest = &q->dev->guest;

        if (likely(load_relaxed(&guest->filter_changes) == q->filter_seen))
                return;
        pthread_mutex_lock(&guest->lock);
        q->filter = guest->filter;
        q->filter_seen = guest->filter_changes;
        pthread_mutex_unlock(&guest->lock);
}

int dev_rx_run(struct dev_queue *q, struct dev_run *run)
{
        uint32_t longest =
                q->hdr_len + MIN(vw_port_rx_max(q->lane->port, q->lane->index), (uint32_t)VW_FRAME_MAX);
        struct rx_window *win = &q->window;
        int r = 1;

        if (unlikely(!dev_queue_receives(q))) {
                discard(q, run);
                return 0;
        }
        adopt_filter(q);
        while (r > 0 && run->packets < run->max && run->bytes < DEV_BURST_BYTES) {
                uint32_t need = room_needed(q, longest);

                r = window_room(q, need);
                if (r == ROOM_NONE && may_read_ahead(q, run->now)) {
                        r = read_ahead(q, run);
                        continue;
                }
                if (r == ROOM_NONE) {
                        starve(q, run->now);
                        break;
                }
                if (r < 0)
                        break;
                win->starved = false;
                if (unlikely(q->lane->ahead.len > 0)) {
                        r = take_ahead(q, run);
                        continue;
                }
                win->sparse = false;
                r = take(q, need, (enum room)r, run);
        }
        vq_device_publish(&q->vq);
        return r < 0 ? r : 0;
}
