#include "netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/userns.h"

/* ---- a private corner ---- */

int netns_isolate(const char **ret_why)
{
        /* a network namespace too: without privilege there is no way back into the first one */
        int r = unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ? -errno : 0;

        if (r == -EPERM) {
                r = userns_enter(0);
                if (r < 0) {
                        *ret_why =
                                "neither root nor allowed to make a user namespace: run it as root, or see "
                                "/proc/sys/user/max_user_namespaces";
                        return r;
                }
                r = unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ? -errno : 0;
        }
        if (r < 0) {
                *ret_why = "no namespaces may be made here";
                return r;
        }
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("vwire", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=700") < 0) {
                r = -errno;
                *ret_why = "no file system may be mounted here";
                return r;
        }
        return 0;
}

int netns_new(void)
{
        int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), made = -1, sock, r = 0;

        if (before < 0)
                return -errno;
        if (unshare(CLONE_NEWNET) < 0 || (made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0) {
                r = -errno;
                goto out;
        }
        sock = netns_socket(made);
        r = sock < 0 ? sock : netif_set_up(sock, "lo");
        if (sock >= 0)
                close(sock);
        if (netns_enter(before) < 0 && r == 0)
                r = -errno;
out:
        close(before);
        if (r < 0 && made >= 0)
                close(made);
        return r < 0 ? r : made;
}

int netns_here(void)
{
        int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return fd;
}

int netns_enter(int netns)
{
        return setns(netns, CLONE_NEWNET) < 0 ? -errno : 0;
}

/* ---- interfaces ---- */

int netns_socket(int netns)
{
        int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), sock = -1, r;

        if (before < 0)
                return -errno;
        r = netns_enter(netns);
        if (r == 0) {
                sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                r = sock < 0 ? -errno : 0;
        }
        netns_enter(before);
        close(before);
        return r < 0 ? r : sock;
}

static struct ifreq request(const char *name)
{
        struct ifreq req = { 0 };

        snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
        return req;
}

static int set_inet(int sock, unsigned long command, const char *name, struct in_addr address)
{
        struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = address };
        struct ifreq req = request(name);

        memcpy(&req.ifr_addr, &sin, sizeof(sin));
        return ioctl(sock, command, &req) < 0 ? -errno : 0;
}

int netif_set_address(int sock, const char *name, const char *address, unsigned prefix)
{
        struct in_addr ip, mask = { .s_addr = htonl(~0u << (32 - prefix)) };
        int r;

        if (inet_pton(AF_INET, address, &ip) != 1)
                return -EINVAL;
        r = set_inet(sock, SIOCSIFADDR, name, ip);
        return r < 0 ? r : set_inet(sock, SIOCSIFNETMASK, name, mask);
}

int netif_set_up(int sock, const char *name)
{
        struct ifreq req = request(name);

        if (ioctl(sock, SIOCGIFFLAGS, &req) < 0)
                return -errno;
        req.ifr_flags |= IFF_UP;
        return ioctl(sock, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}

bool netif_running(int sock, const char *name)
{
        struct ifreq req = request(name);

        return ioctl(sock, SIOCGIFFLAGS, &req) == 0 && (req.ifr_flags & IFF_UP) &&
               (req.ifr_flags & IFF_RUNNING);
}

/* ip link add NAME netns A type veth peer name NAME netns B */
static void put_veth(struct nlmsghdr *request, const int netns[2], const char *name)
{
        struct nlattr *info, *data, *peer;

        request->nlmsg_type = RTM_NEWLINK;
        request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
        mnl_attr_put_strz(request, IFLA_IFNAME, name);
        mnl_attr_put_u32(request, IFLA_NET_NS_FD, (uint32_t)netns[0]);
        info = mnl_attr_nest_start(request, IFLA_LINKINFO);
        mnl_attr_put_strz(request, IFLA_INFO_KIND, "veth");
        data = mnl_attr_nest_start(request, IFLA_INFO_DATA);
        peer = mnl_attr_nest_start(request, VETH_INFO_PEER);
        mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
        mnl_attr_put_strz(request, IFLA_IFNAME, name);
        mnl_attr_put_u32(request, IFLA_NET_NS_FD, (uint32_t)netns[1]);
        mnl_attr_nest_end(request, peer);
        mnl_attr_nest_end(request, data);
        mnl_attr_nest_end(request, info);
}

int netif_make_veth(const int netns[2], const char *name)
{
        struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
        char buf[4096]; /* more than an acknowledgement and the request that it repeats */
        struct nlmsghdr *request = mnl_nlmsg_put_header(buf);
        ssize_t n;
        int r = 0;

        if (!nl)
                return -errno;
        put_veth(request, netns, name);
        if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
            mnl_socket_sendto(nl, request, request->nlmsg_len) < 0 ||
            (n = mnl_socket_recvfrom(nl, buf, sizeof(buf))) < 0 ||
            mnl_cb_run(buf, (size_t)n, 0, 0, NULL, NULL) < 0)
                r = -errno;
        mnl_socket_close(nl);
        return r;
}
