/* The TAP port: an Ethernet interface of the kernel whose other end we hold.  One system call a frame in each direction,
 * from and into the memory where the frame lies; the virtio-net header goes along, so that the kernel's offloads
 * reach through.  Control calls use netlink in the interface's own namespace, through sockets opened with it. */
#include "port/tap.h"

#include <errno.h>
#include <limits.h>
#include <linux/if_tun.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/iov.h"

#define TAP_PIECES_MAX (IOV_MAX - 1) /* of a frame; the header takes one */
#define L2_HEADERS     22            /* bytes: Ethernet and two VLAN tags */

/* ---- the lane's worker thread ---- */

static int tap_fd(const void *self, unsigned lane)
{
        const struct tap_lane *l = &((const struct tap *)self)->lanes[lane];

        return l->gone ? -1 : l->fd;
}

/* The pieces with the header before them. */
static struct iovec *with_header(struct vw_pkt *pkt)
{
        pkt->iov[-1] = (struct iovec){ .iov_base = &pkt->hdr, .iov_len = TAP_HDR_LEN };
        return pkt->iov - 1;
}

static int write_frame(struct tap_lane *l, struct vw_pkt *pkt)
{
        struct iovec *iov = with_header(pkt), flat[2];
        unsigned n = pkt->n_iov + 1;
        ssize_t r;

        if (unlikely(pkt->n_iov > TAP_PIECES_MAX)) {
                if (pkt->len > VW_FRAME_MAX)
                        return -EMSGSIZE;
                iov_to_buf(pkt->iov, pkt->n_iov, 0, l->bounce, pkt->len);
                flat[0] = iov[0];
                flat[1] = (struct iovec){ .iov_base = l->bounce, .iov_len = pkt->len };
                iov = flat;
                n = 2;
        }
        do
                r = writev(l->fd, iov, (int)n);
        while (unlikely(r < 0 && errno == EINTR));
        return r < 0 ? -errno : 0;
}

static int tap_tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct tap_lane *l = &((struct tap *)self)->lanes[lane];

        for (unsigned i = 0; i < n; i++) {
                int r = l->gone ? -ENETDOWN : write_frame(l, &pkts[i]);

                if (unlikely(r == -EAGAIN))
                        return (int)i;
                if (unlikely(r == -EBADFD))
                        l->gone = true;
                /* EIO: the interface is down */
                result[i] = r == -EIO || r == -EBADFD ? -ENETDOWN : r;
        }
        return (int)n;
}

/* Whether the header asks for nothing but what is on.  Frames that waited while an offload was turned off may. */
static bool header_allowed(const struct vw_net_hdr *hdr, uint32_t offloads)
{
        uint32_t needs = hdr->flags & VW_HDR_F_NEEDS_CSUM ? VW_OFFLOAD_CSUM : 0;

        switch (hdr->gso_type & ~VW_GSO_ECN) {
        case VW_GSO_NONE:
                break;
        case VW_GSO_TCPV4:
                needs |= VW_OFFLOAD_TSO4;
                break;
        case VW_GSO_TCPV6:
                needs |= VW_OFFLOAD_TSO6;
                break;
        case VW_GSO_UDP_L4:
                needs |= VW_OFFLOAD_USO;
                break;
        default:
                return false;
        }
        if (hdr->gso_type & VW_GSO_ECN)
                needs |= VW_OFFLOAD_ECN;
        return !(needs & ~offloads);
}

static int tap_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct tap *tap = self;
        struct tap_lane *l = &tap->lanes[lane];
        uint32_t offloads = load_relaxed(&tap->rx_offloads);
        unsigned n = MIN(pkt->n_iov, TAP_PIECES_MAX);
        size_t room = iov_length(pkt->iov, n);
        struct iovec *iov = with_header(pkt);

        while (!l->gone) {
                ssize_t r = preadv2(l->fd, iov, (int)n + 1, -1, 0);

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0 && errno == EAGAIN)
                        return 0;
                if (r < 0 && errno != EBADFD)
                        return -errno;
                if (r < 0)
                        break;
                pkt->len = (uint32_t)((size_t)r - TAP_HDR_LEN);
                /* A frame that fills all the room has lost its end: there is more room than a frame takes (vw_port_rx_max()). */
                if (unlikely(pkt->len >= room && room < VW_FRAME_MAX) ||
                    unlikely(!header_allowed(&pkt->hdr, offloads))) {
                        __atomic_fetch_add(&tap->unfit, 1, __ATOMIC_RELAXED);
                        continue;
                }
                if (!(offloads & VW_OFFLOAD_CSUM))
                        pkt->hdr.flags = 0;
                return 1;
        }
        l->gone = true;
        return -ENODEV;
}

static uint32_t tap_rx_max(const void *self, unsigned lane)
{
        const struct tap *tap = self;

        (void)lane;
        if (load_relaxed(&tap->rx_offloads) & (VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6 | VW_OFFLOAD_USO))
                return VW_FRAME_MAX;
        return load_relaxed(&tap->mtu_max) + L2_HEADERS + 1;
}

/* ---- control thread ---- */

/* Looks the interface up again; true if it is there.  One that somebody moved to another namespace is out of sight, but frames
 * flow. */
static bool refresh(struct tap *tap)
{
        if (!tap->index)
                return true;
        if (netlink_get(&tap->netlink, NULL, tap->index, &tap->link) < 0) {
                struct ifreq req = { 0 };
                bool there = ioctl(tap->lanes[0].fd, TUNGETIFF, &req) == 0;

                tap->link.up = tap->link.carrier = there;
                return there;
        }
        if (tap->link.mtu > tap->mtu_max)
                store_relaxed(&tap->mtu_max, tap->link.mtu);
        return true;
}

static void tap_info(void *self, struct vw_port_info *ret_info)
{
        struct tap *tap = self;

        refresh(tap);
        *ret_info = (struct vw_port_info){
                .kind = "tap",
                .link_up = tap->link.up && tap->link.carrier,
                .mtu = tap->link.mtu,
                .tx_offloads = VW_OFFLOAD_ALL & ~(VW_OFFLOAD_USO & ~tap->makes),
                .rx_offloads = tap->rx_offloads,
                .dropped = tap->link.tx_dropped - tap->dropped_before + load_relaxed(&tap->unfit),
                .bridged = tap->link.bridged,
        };
        memcpy(ret_info->name, tap->link.name, sizeof(tap->link.name));
        memcpy(ret_info->mac, tap->link.mac, sizeof(ret_info->mac));
}

static int tap_set_rx_offloads(void *self, uint32_t offloads)
{
        struct tap *tap = self;
        uint32_t before = tap->rx_offloads;
        int r;

        offloads &= tap->makes;
        if (!(offloads & VW_OFFLOAD_CSUM))
                offloads = 0;
        if (!(offloads & (VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6)))
                offloads &= ~(uint32_t)VW_OFFLOAD_ECN;
        /* Room is asked for before the kernel may fill it, and what may be handed over shrinks with what is asked for. */
        store_relaxed(&tap->rx_offloads, before | offloads);
        r = tap_offload(tap, offloads);
        store_relaxed(&tap->rx_offloads, r < 0 ? before : offloads);
        return r == -EBADFD ? -ENODEV : r;
}

static int tap_set_identity(void *self, const uint8_t mac[6], unsigned mtu)
{
        struct tap *tap = self;

        if (!tap->index)
                return -EPERM;
        if (mtu > tap->mtu_max)
                store_relaxed(&tap->mtu_max, mtu);
        return netlink_set(&tap->netlink, tap->index, &(struct netlink_change){ .mac = mac, .mtu = mtu });
}

static int tap_set_carrier(void *self, bool up)
{
        struct tap *tap = self;
        unsigned carrier = up;

        return ioctl(tap->lanes[0].fd, TUNSETCARRIER, &carrier) < 0 ? -errno : 0;
}

static int tap_event_fd(const void *self)
{
        return netlink_event_fd(&((const struct tap *)self)->netlink);
}

static void tap_event_ack(void *self)
{
        netlink_event_drain(&((struct tap *)self)->netlink);
}

/* The kernel spreads flows over attached queues only. */
static int tap_set_active(void *self, unsigned pairs)
{
        struct tap *tap = self;

        if (pairs < 1 || pairs > tap->n_lanes)
                return -EINVAL;
        while (tap->multi_queue && tap->active != pairs) {
                bool more = tap->active < pairs;
                struct ifreq req = { .ifr_flags = more ? IFF_ATTACH_QUEUE : IFF_DETACH_QUEUE };
                unsigned lane = more ? tap->active : tap->active - 1;

                if (ioctl(tap->lanes[lane].fd, TUNSETQUEUE, &req) < 0) {
                        int r = -errno;

                        return refresh(tap) ? r : -ENODEV;
                }
                tap->active += more ? 1 : -1u;
        }
        return 0;
}

void tap_close(void *self)
{
        static const unsigned none;
        struct tap *tap = self;

        if (!tap)
                return;
        if (tap->joined_bridge)
                netlink_set(&tap->netlink, tap->index, &(struct netlink_change){ .master = &none });
        for (unsigned i = 0; i < tap->n_lanes; i++) {
                if (tap->lanes[i].fd >= 0)
                        close(tap->lanes[i].fd);
                free(tap->lanes[i].bounce);
        }
        netlink_close(&tap->netlink);
        free(tap);
}

const struct vw_port_ops tap_ops = {
        .close = tap_close,
        .info = tap_info,
        .set_rx_offloads = tap_set_rx_offloads,
        .set_identity = tap_set_identity,
        .set_carrier = tap_set_carrier,
        .event_fd = tap_event_fd,
        .event_ack = tap_event_ack,
        .set_active = tap_set_active,
        .fd = tap_fd,
        .tx = tap_tx,
        .rx = tap_rx,
        .rx_max = tap_rx_max,
};
