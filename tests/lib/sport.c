#include "sport.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"

static void info(void *self, struct vw_port_info *ret_info)
{
        struct sport *p = self;

        *ret_info = (struct vw_port_info){
                .kind = "script",
                .link_up = load_relaxed(&p->link_up),
                .mtu = load_relaxed(&p->mtu),
                .tx_offloads = load_relaxed(&p->tx_offloads),
                .bridged = load_relaxed(&p->bridged),
        };
        memcpy(ret_info->mac, p->mac, sizeof(p->mac));
}

static int set_identity(void *self, const uint8_t mac[6], unsigned mtu)
{
        struct sport *p = self;

        if (mac)
                memcpy(p->mac, mac, sizeof(p->mac));
        if (mtu)
                store_relaxed(&p->mtu, mtu);
        return 0;
}

static int set_carrier(void *self, bool up)
{
        store_relaxed(&((struct sport *)self)->carrier, up);
        return 0;
}

static int set_rx_offloads(void *self, uint32_t offloads)
{
        store_relaxed(&((struct sport *)self)->rx_offloads, offloads);
        return 0;
}

static int set_active(void *self, unsigned pairs)
{
        store_relaxed(&((struct sport *)self)->active, pairs);
        return 0;
}

static int event_fd(const void *self)
{
        return ((const struct sport *)self)->events;
}

static void event_ack(void *self)
{
        uint64_t n;

        check(read(((struct sport *)self)->events, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN);
}

static int lane_fd(const void *self, unsigned lane)
{
        return ((const struct sport *)self)->port_end[lane];
}

/* What the next frame fails with. */
static int fault(struct sport *p)
{
        int error = load_relaxed(&p->tx_errno);
        unsigned every = load_relaxed(&p->tx_every);

        return every && p->tx_frames % every ? 0 : error;
}

static int tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct sport *p = self;

        for (unsigned i = 0; i < n; i++) {
                int error = fault(p);
                struct iovec *iov = pkts[i].iov - 1;
                struct msghdr msg = { .msg_iov = iov, .msg_iovlen = pkts[i].n_iov + 1 };

                result[i] = -error;
                if (error) {
                        counter_add(&p->tx_frames, 1);
                        counter_add(&p->tx_failures, 1);
                        continue;
                }
                *iov = (struct iovec){ .iov_base = &pkts[i].hdr, .iov_len = sizeof(pkts[i].hdr) };
                if (sendmsg(p->port_end[lane], &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
                        if (errno == EAGAIN)
                                return (int)i;
                        result[i] = -errno;
                }
                counter_add(&p->tx_frames, 1);
        }
        return (int)n;
}

static int rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct sport *p = self;
        struct iovec *iov = pkt->iov - 1;
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = pkt->n_iov + 1 };
        unsigned more = load_relaxed(&p->rx_more);
        int error =
                more ? load_relaxed(&p->rx_errno) : __atomic_exchange_n(&p->rx_errno, 0, __ATOMIC_RELAXED);
        ssize_t n;

        if (more)
                store_relaxed(&p->rx_more, more - 1);
        counter_add(&p->rx_calls, 1);
        if (error)
                return -error;
        *iov = (struct iovec){ .iov_base = &pkt->hdr, .iov_len = sizeof(pkt->hdr) };
        n = recvmsg(p->port_end[lane], &msg, MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        check(!(msg.msg_flags & MSG_TRUNC) && n >= (ssize_t)sizeof(pkt->hdr));
        pkt->len = (uint32_t)n - (uint32_t)sizeof(pkt->hdr);
        return 1;
}

static uint32_t rx_max(const void *self, unsigned lane)
{
        const struct sport *p = self;

        (void)lane;
        return load_relaxed(&p->rx_max);
}

static const struct vw_port_ops ops = {
        .info = info,
        .set_rx_offloads = set_rx_offloads,
        .set_identity = set_identity,
        .set_carrier = set_carrier,
        .event_fd = event_fd,
        .event_ack = event_ack,
        .set_active = set_active,
        .fd = lane_fd,
        .tx = tx,
        .rx = rx,
        .rx_max = rx_max,
};

void sport_init(struct sport *p)
{
        *p = (struct sport){ .tx_offloads = VW_OFFLOAD_ALL, .rx_max = 1518, .link_up = true };
        p->events = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        check(p->events >= 0);
        for (unsigned i = 0; i < SPORT_LANES; i++) {
                int pair[2];

                check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
                p->test_end[i] = pair[0];
                p->port_end[i] = pair[1];
        }
        p->port = vw_port_new(&ops, p);
        check(p->port);
}

void sport_free(struct sport *p)
{
        vw_port_close(p->port);
        close(p->events);
        for (unsigned i = 0; i < SPORT_LANES; i++) {
                close(p->test_end[i]);
                close(p->port_end[i]);
        }
}

bool sport_put(struct sport *p, unsigned lane, const void *frame, uint32_t len, const struct vw_net_hdr *hdr)
{
        struct vw_net_hdr none = { 0 };
        struct iovec iov[2] = {
                {.iov_base = hdr ? (void *)hdr : &none, .iov_len = sizeof(none)},
                { .iov_base = (void *)frame,            .iov_len = len         },
        };
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

        return sendmsg(p->test_end[lane], &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

int sport_get(struct sport *p, unsigned lane, void *frame, uint32_t room, struct vw_net_hdr *ret_hdr)
{
        struct vw_net_hdr hdr;
        struct iovec iov[2] = {
                {.iov_base = &hdr,   .iov_len = sizeof(hdr)},
                { .iov_base = frame, .iov_len = room       },
        };
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
        ssize_t n = recvmsg(p->test_end[lane], &msg, MSG_DONTWAIT);

        if (n < (ssize_t)sizeof(hdr))
                return -1;
        if (ret_hdr)
                *ret_hdr = hdr;
        return (int)n - (int)sizeof(hdr);
}

void sport_event(struct sport *p)
{
        uint64_t one = 1;

        check(write(p->events, &one, sizeof(one)) == sizeof(one));
}
