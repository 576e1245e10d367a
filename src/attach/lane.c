/* Frames through a lane.  To the port: the received pieces as they lie, in order; what a full port does not take stays with the driver, whose
 * receive queue then stands still.  From the port: straight into transmit buffers in shared memory, and only while the queue takes
 * packets: a stopped queue leaves the frames with the port, which is how back-pressure reaches whoever sends. */
#include "attach/lane.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "attach/clock.h"
#include "attach/say.h"

#define POLL_BUDGET 64

static void add(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

void lane_init(struct lane *l, struct vw_driver *drv, const struct attach_config *config, unsigned index)
{
        *l = (struct lane){
                .config = config, .drv = drv, .port = config->port, .index = index, .fd = -1, .look = true
        };
        for (unsigned i = 0; i < LANE_BATCH; i++) /* no cookie: sending it puts its buffer back */
                l->pkts[i] = (struct vw_tx_pkt){ .iov = &l->iov[i][1], .n_iov = 1 };
}

void lane_done(struct lane *l)
{
        if (l->fd >= 0)
                vw_driver_watch(l->drv, l->index, l->fd, 0);
        while (l->n_bufs)
                vw_driver_buf_put(l->drv, l->index, l->bufs[--l->n_bufs]);
}

/* ---- device to port ---- */

unsigned lane_to_port(struct lane *l, struct vw_rx_pkt *pkts, unsigned n)
{
        struct vw_pkt out[LANE_BURST];
        int result[LANE_BURST];
        unsigned taken = 0;

        while (taken < n && !l->full) {
                unsigned want = n - taken < LANE_BURST ? n - taken : LANE_BURST;
                int sent;

                for (unsigned i = 0; i < want; i++) {
                        const struct vw_rx_pkt *p = &pkts[taken + i];

                        out[i] = (struct vw_pkt){
                                .iov = p->iov, .n_iov = p->n_iov, .len = p->len, .hdr = p->hdr
                        };
                        out[i].hdr.num_buffers = 0;
                }
                sent = vw_port_tx(l->port, l->index, out, want, result);
                for (int i = 0; i < sent; i++) {
                        if (!result[i])
                                continue;
                        add(result[i] == -ENETDOWN ? &l->port_down : &l->port_error, 1);
                        add(&l->lost_bytes, out[i].len);
                }
                taken += sent > 0 ? (unsigned)sent : 0;
                l->full = sent < (int)want;
        }
        return taken;
}

/* ---- port to device ---- */

static int read_port(struct lane *l, struct vw_pkt *pkt)
{
        int r = vw_port_rx(l->port, l->index, pkt);

        if (r < 0 && r != l->told)
                attach_say(l->config, VW_LOG_WARN, "port cannot be read pair=%u errno=%d error=\"%s\"",
                           l->index, -r, strerror(-r));
        if (r < 0)
                l->told = r;
        return r;
}

/* Offers the driver the frames that were read; what it refuses is kept and offered first next time.  True: it took all. */
static bool hand_over(struct lane *l)
{
        int r;

        if (l->first == l->end)
                return true;
        r = vw_driver_xmit(l->drv, l->index, &l->pkts[l->first], l->end - l->first, true);
        if (r == -EPROTO)
                __atomic_store_n(&l->error, r, __ATOMIC_RELAXED);
        l->first += r > 0 ? (unsigned)r : 0;
        return l->first == l->end;
}

/* Reads one frame into a transmit buffer.  False: there is none, or no buffer. */
static bool read_frame(struct lane *l)
{
        struct iovec *iov = &l->iov[l->end][1];
        struct vw_pkt in = { .iov = iov, .n_iov = 1 };

        if (!l->n_bufs)
                l->n_bufs = vw_driver_bufs_get(l->drv, l->index, l->bufs, LANE_BATCH);
        if (!l->n_bufs)
                return false;
        *iov = (struct iovec){ l->bufs[l->n_bufs - 1], VW_TX_BUF_SIZE };
        if (read_port(l, &in) <= 0)
                return false;
        l->n_bufs--;
        iov->iov_len = in.len;
        l->pkts[l->end++].hdr = in.hdr;
        return true;
}

/* Reads a batch, and adds up its bytes.  True: there may be more. */
static bool read_batch(struct lane *l, uint32_t *bytes)
{
        uint32_t limit = *bytes + LANE_BATCH_BYTES;

        l->first = l->end = 0;
        while (l->end < LANE_BATCH && *bytes < limit) {
                if (!read_frame(l))
                        return false;
                *bytes += (uint32_t)l->iov[l->end - 1][1].iov_len;
        }
        return true;
}

/* Batch after batch, for as long as the device takes them.  True: the burst is over, and the port may have more. */
static bool from_port(struct lane *l)
{
        bool more = true;
        unsigned n = 0;
        uint32_t bytes = 0;

        while (vw_driver_tx_ready(l->drv, l->index) && hand_over(l) && more && n < LANE_BURST &&
               bytes < LANE_BURST_BYTES) {
                more = read_batch(l, &bytes);
                n += l->end;
        }
        vw_driver_xmit(l->drv, l->index, NULL, 0, false); /* one kick for all of them */
        if (n && l->fd < 0)
                l->full = false; /* a port without a fd has room again when it was read from */
        return n && more;
}

/* ---- turns and sleep ---- */

bool lane_turn(struct lane *l)
{
        int received = vw_driver_poll(l->drv, l->index, l->full ? 0 : POLL_BUDGET);
        bool more = false;

        /* What woke us was not the port, and nothing that it was given calls for an answer: it would be asked in vain. */
        if (l->look || received > 0)
                more = from_port(l);
        l->look = true;
        if (received == -EPROTO)
                __atomic_store_n(&l->error, received, __ATOMIC_RELAXED);
        return received >= POLL_BUDGET || more;
}

uint64_t lane_prepare_sleep(struct lane *l)
{
        bool wants_frames = l->first == l->end && vw_driver_tx_ready(l->drv, l->index);
        uint32_t events = (wants_frames ? EPOLLIN : 0u) | (l->full ? EPOLLOUT : 0u);
        int fd = vw_port_fd(l->port, l->index);

        if (fd != l->fd && l->fd >= 0)
                vw_driver_watch(l->drv, l->index, l->fd, 0);
        if (fd >= 0 && (fd != l->fd || events != l->watched))
                vw_driver_watch(l->drv, l->index, fd, events);
        l->fd = fd;
        l->watched = events;
        return wants_frames ? vw_port_deadline(l->port, l->index) : NEVER;
}

void lane_woken(struct lane *l, int events)
{
        struct vw_pkt none = { .iov = &l->iov[0][1] };

        l->look = events & VW_WAIT_FD || !(l->watched & EPOLLIN) || l->fd < 0;
        if (events & VW_WAIT_FD)
                l->full = false; /* ask again */
        if (events & VW_WAIT_FD_ERROR)
                read_port(l, &none); /* the port finds out whether it is still there */
}
