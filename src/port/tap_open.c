/* Opening a TAP: by name, made or attached, or inherited as fds.  Every step can fail; what was made until then is unmade,
 * and the answer is a sentence that says what to do. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "port/netns.h"
#include "port/tap.h"

#define TUN_DEVICE "/dev/net/tun"

/* Since Linux 6.2; older headers lack them. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

int tap_offload(const struct tap *tap, uint32_t offloads)
{
        static const struct {
                uint32_t ours, theirs;
        } bits[] = {
                {VW_OFFLOAD_CSUM,  TUN_F_CSUM             },
                { VW_OFFLOAD_TSO4, TUN_F_TSO4             },
                { VW_OFFLOAD_TSO6, TUN_F_TSO6             },
                { VW_OFFLOAD_ECN,  TUN_F_TSO_ECN          },
                { VW_OFFLOAD_USO,  TUN_F_USO4 | TUN_F_USO6},
        };
        unsigned long theirs = 0;

        for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
                if (offloads & bits[i].ours)
                        theirs |= bits[i].theirs;
        return ioctl(tap->lanes[0].fd, TUNSETOFFLOAD, theirs) < 0 ? -errno : 0;
}

/* Finds out what the kernel knows, and leaves everything off. */
static void probe_offloads(struct tap *tap, const char *spec)
{
        static const uint32_t sets[] = { VW_OFFLOAD_ALL, VW_OFFLOAD_ALL & ~VW_OFFLOAD_USO, VW_OFFLOAD_CSUM };
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(sets) && !tap->makes; i++) {
                r = tap_offload(tap, sets[i]);
                if (r == 0)
                        tap->makes = sets[i];
        }
        if (r == 0)
                r = tap_offload(tap, 0);
        if (r < 0) {
                tap->makes = 0;
                log_warn("port", "%s: the kernel takes no offloads, frames come whole errno=%d error=\"%s\"",
                         spec, -r, strerror(-r));
        }
}

/* ---- by name ---- */

/* Runs inside the TAP's namespace: what is opened here belongs to it for good. */
static int open_handles(void *arg)
{
        struct tap *tap = arg;
        int r = netlink_open(&tap->netlink);

        for (unsigned i = 0; r == 0 && i < tap->n_lanes; i++) {
                tap->lanes[i].fd = open(TUN_DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
                if (tap->lanes[i].fd < 0)
                        r = -errno;
        }
        return r;
}

static int attach_queue(int fd, const char *name, int extra, struct ifreq *ret_req)
{
        struct ifreq req = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | extra) };

        memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
        if (ioctl(fd, TUNSETIFF, &req) < 0)
                return -errno;
        *ret_req = req;
        return 0;
}

/* All lanes to one interface.  An interface that somebody made keeps the kind it was made as, so one lane may need either. */
static int attach_lanes(struct tap *tap, const char *name)
{
        struct ifreq req;
        int r;

        tap->multi_queue = tap->n_lanes > 1;
        r = attach_queue(tap->lanes[0].fd, name, tap->multi_queue ? IFF_MULTI_QUEUE : 0, &req);
        if (r == -EINVAL && !tap->multi_queue) {
                tap->multi_queue = true;
                r = attach_queue(tap->lanes[0].fd, name, IFF_MULTI_QUEUE, &req);
        }
        for (unsigned i = 1; r == 0 && i < tap->n_lanes; i++)
                r = attach_queue(tap->lanes[i].fd, req.ifr_name, IFF_MULTI_QUEUE, &req);
        if (r == 0)
                memcpy(tap->link.name, req.ifr_name, sizeof(tap->link.name));
        return r;
}

static int refuse_handles(int r, const struct port_args *args, const char **ret_why)
{
        switch (-r) {
        case ENOENT:
        case ENODEV:
        case ENXIO:
                return port_refuse(ret_why, -r, args->spec,
                                   "there is no " TUN_DEVICE ": load the module tun");
        case EPERM:
        case EACCES:
                return port_refuse(ret_why, -r, args->spec,
                                   "no permission to open " TUN_DEVICE
                                   "%s: run as root or hand a fd over with tap:fd=N",
                                   args->netns[0] ? " in that namespace" : "");
        default:
                return port_refuse(ret_why, -r, args->spec,
                                   "cannot open " TUN_DEVICE " or a netlink socket: %s", strerror(-r));
        }
}

static int refuse_attach(int r, const struct tap *tap, const struct port_args *args, const char **ret_why)
{
        switch (-r) {
        case EPERM:
        case EACCES:
                return port_refuse(
                        ret_why, -r, args->spec,
                        "no permission to create a TAP: run as root or hand a fd over with tap:fd=N");
        case EBUSY:
                return port_refuse(ret_why, -r, args->spec,
                                   "in use by another program: stop that, or take another name");
        case EINVAL:
                return port_refuse(
                        ret_why, -r, args->spec,
                        tap->n_lanes > 1
                                ? "not a TAP with several queues: take one queue pair, or make it with "
                                  "'ip tuntap add mode tap multi_queue'"
                                : "not a TAP: take another name");
        case E2BIG:
                return port_refuse(ret_why, -r, args->spec,
                                   "the kernel has fewer queues than the %u pairs that were asked for",
                                   tap->n_lanes);
        default:
                return port_refuse(ret_why, -r, args->spec, "cannot make or attach the TAP: %s",
                                   strerror(-r));
        }
}

static int join_bridge(struct tap *tap, const struct port_args *args, bool made, const char **ret_why)
{
        struct netlink_link bridge;
        int r = netlink_get(&tap->netlink, args->bridge, 0, &bridge);

        if (r < 0)
                return port_refuse(ret_why, -r, args->spec,
                                   "no bridge %s: make it with 'ip link add %s type bridge'", args->bridge,
                                   args->bridge);
        if (tap->link.master == bridge.index)
                return 0;
        r = netlink_set(&tap->netlink, tap->index, &(struct netlink_change){ .master = &bridge.index });
        if (r < 0)
                return port_refuse(ret_why, -r, args->spec, "cannot join the bridge %s: %s", args->bridge,
                                   strerror(-r));
        tap->joined_bridge = !made && !args->persist;
        return 0;
}

static int open_by_name(struct tap *tap, const struct port_args *args, unsigned mtu, const char **ret_why)
{
        struct netlink_link before;
        bool made;
        int ns = -1, r;

        if (strlen(args->name) >= IF_NAMESIZE)
                return port_refuse(ret_why, EINVAL, args->spec, "NAME is over the limit of %d characters",
                                   IF_NAMESIZE - 1);
        if (args->netns[0]) {
                ns = netns_open(args->netns);
                if (ns < 0)
                        return port_refuse(
                                ret_why, -ns, args->spec,
                                "cannot open the namespace %s: make it with 'ip netns add %s' (%s)",
                                args->netns, args->netns, strerror(-ns));
        }
        r = netns_call(ns, open_handles, tap);
        if (ns >= 0)
                close(ns);
        if (r < 0)
                return refuse_handles(r, args, ret_why);
        made = netlink_get(&tap->netlink, args->name, 0, &before) == -ENODEV;
        r = attach_lanes(tap, args->name);
        if (r < 0)
                return refuse_attach(r, tap, args, ret_why);
        r = netlink_get(&tap->netlink, tap->link.name, 0, &tap->link);
        if (r < 0)
                return port_refuse(ret_why, -r, args->spec, "cannot look the TAP up: %s", strerror(-r));
        tap->index = tap->link.index;
        if (args->bridge[0]) {
                r = join_bridge(tap, args, made, ret_why);
                if (r < 0)
                        return r;
        }
        if (mtu) {
                r = netlink_set(&tap->netlink, tap->index, &(struct netlink_change){ .mtu = mtu });
                if (r < 0)
                        return port_refuse(ret_why, -r, args->spec, "cannot set its MTU to %u: %s", mtu,
                                           strerror(-r));
        }
        r = netlink_set(&tap->netlink, tap->index, &(struct netlink_change){ .up = true });
        if (r < 0)
                return port_refuse(ret_why, -r, args->spec, "cannot bring it up: %s", strerror(-r));
        return 0;
}

/* ---- inherited ---- */

static int open_netlink(void *arg)
{
        return netlink_open(&((struct tap *)arg)->netlink);
}

/* Finds the interface of a fd by netlink, in its own namespace if we may enter that, else here.  Without a way to look,
 * frames still flow: it counts as up, its address is what the fd says. */
static void find_link(struct tap *tap, const char *name)
{
        struct netlink_link link;
        struct ifreq req = { 0 };
        int ns;

        memcpy(tap->link.name, name, sizeof(tap->link.name));
        if (ioctl(tap->lanes[0].fd, SIOCGIFHWADDR, &req) == 0)
                memcpy(tap->link.mac, req.ifr_hwaddr.sa_data, sizeof(tap->link.mac));
        tap->link.up = tap->link.carrier = true;
        ns = ioctl(tap->lanes[0].fd, TUNGETDEVNETNS);
        if (ns < 0 || netns_call(ns, open_netlink, tap) < 0)
                netlink_open(&tap->netlink);
        if (ns >= 0)
                close(ns);
        /* another namespace may have one of the same name */
        if (netlink_get(&tap->netlink, name, 0, &link) == 0 &&
            memcmp(link.mac, tap->link.mac, sizeof(link.mac)) == 0) {
                tap->link = link;
                tap->index = link.index;
        } else {
                netlink_close(&tap->netlink);
        }
}

static int check_fd(int fd, const struct port_args *args, struct ifreq *ret_req, const char **ret_why)
{
        const unsigned need = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        struct ifreq req = { 0 };

        if (ioctl(fd, TUNGETIFF, &req) < 0)
                return port_refuse(ret_why, errno == EBADF ? EBADF : EINVAL, args->spec,
                                   "fd %d is not a TAP's", fd);
        if (((unsigned short)req.ifr_flags & need) != need)
                return port_refuse(ret_why, EINVAL, args->spec,
                                   "fd %d was not opened with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR", fd);
        *ret_req = req;
        return 0;
}

static int open_by_fds(struct tap *tap, const struct port_args *args, const char **ret_why)
{
        struct ifreq first = { 0 }, req = { 0 };
        int r;

        if (args->name[0] || args->netns[0] || args->bridge[0] || args->persist)
                return port_refuse(ret_why, EINVAL, args->spec, "fd= goes with no other option");
        if (args->n_fds != tap->n_lanes)
                return port_refuse(ret_why, EINVAL, args->spec,
                                   "%u fds for %u queue pairs: one for each is needed", args->n_fds,
                                   tap->n_lanes);
        for (unsigned i = 0; i < tap->n_lanes; i++) {
                r = check_fd(args->fds[i], args, i ? &req : &first, ret_why);
                if (r < 0)
                        return r;
                if (i && strcmp(first.ifr_name, req.ifr_name) != 0)
                        return port_refuse(ret_why, EINVAL, args->spec, "fd %d belongs to %s, not to %s",
                                           args->fds[i], req.ifr_name, first.ifr_name);
                tap->lanes[i].fd = fcntl(args->fds[i], F_DUPFD_CLOEXEC, 0);
                r = tap->lanes[i].fd < 0 ? -errno : fcntl(args->fds[i], F_GETFL);
                if (r < 0 || fcntl(args->fds[i], F_SETFL, r | O_NONBLOCK) < 0)
                        return port_refuse(ret_why, errno, args->spec, "cannot take over fd %d: %s",
                                           args->fds[i], strerror(errno));
        }
        tap->multi_queue = (unsigned short)first.ifr_flags & IFF_MULTI_QUEUE;
        find_link(tap, first.ifr_name);
        return 0;
}

/* ---- both ---- */

/* The header: its length, and little-endian or big-endian as this machine is. */
static int set_header(const struct tap *tap)
{
        int len = TAP_HDR_LEN, little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

        if (ioctl(tap->lanes[0].fd, TUNSETVNETHDRSZ, &len) < 0 ||
            ioctl(tap->lanes[0].fd, TUNSETVNETLE, &little) < 0)
                return -errno;
        return 0;
}

static struct tap *tap_new(unsigned lanes)
{
        size_t size = sizeof(struct tap) + lanes * sizeof(struct tap_lane);
        struct tap *tap = aligned_alloc(CACHE_LINE, size);

        if (!tap)
                return NULL;
        memset(tap, 0, size);
        tap->n_lanes = tap->active = lanes;
        for (unsigned i = 0; i < lanes; i++)
                tap->lanes[i].fd = -1;
        for (unsigned i = 0; i < lanes; i++) {
                tap->lanes[i].bounce = malloc(VW_FRAME_MAX);
                if (!tap->lanes[i].bounce) {
                        tap_close(tap);
                        return NULL;
                }
        }
        return tap;
}

int tap_open(const struct port_args *args, const struct vw_port_config *config,
             const struct vw_port_ops **ret_ops, void **ret_self, const char **ret_why)
{
        struct tap *tap = tap_new(config->pairs);
        int r;

        if (!tap)
                return port_refuse(ret_why, ENOMEM, args->spec, "no memory");
        r = args->n_fds ? open_by_fds(tap, args, ret_why) : open_by_name(tap, args, config->mtu, ret_why);
        if (r < 0)
                goto failed;
        r = set_header(tap);
        if (r < 0) {
                r = port_refuse(ret_why, -r, args->spec, "the kernel does not take the virtio header: %s",
                                strerror(-r));
                goto failed;
        }
        probe_offloads(tap, args->spec);
        tap->mtu_max = MAX(tap->link.mtu, MAX(config->mtu, 1500u));
        tap->dropped_before = tap->link.tx_dropped;
        /* last, so that nothing stays behind when a step before fails */
        if (args->persist && ioctl(tap->lanes[0].fd, TUNSETPERSIST, 1UL) < 0) {
                r = port_refuse(ret_why, errno, args->spec, "cannot make it persistent: %s", strerror(errno));
                goto failed;
        }
        for (unsigned i = 0; i < args->n_fds; i++)
                close(args->fds[i]); /* ours are copies */
        *ret_ops = &tap_ops;
        *ret_self = tap;
        return 0;
failed:
        tap_close(tap);
        return r;
}
