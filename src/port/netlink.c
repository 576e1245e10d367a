/* rtnetlink by libmnl: one request, its answer, its acknowledgement; no cache, the kernel is asked each time. */
#include "port/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define NETLINK_BUFFER 32768 /* bytes: the kernel's own limit for one part of an answer */

int netlink_open(struct netlink *nl)
{
        int r;

        *nl = (struct netlink){ .request = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC) };
        if (!nl->request)
                return -errno;
        if (mnl_socket_bind(nl->request, 0, MNL_SOCKET_AUTOPID) < 0)
                goto failed;
        nl->events = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (!nl->events || mnl_socket_bind(nl->events, RTMGRP_LINK, MNL_SOCKET_AUTOPID) < 0)
                goto failed;
        return 0;
failed:
        r = -errno;
        netlink_close(nl);
        return r;
}

void netlink_close(struct netlink *nl)
{
        if (nl->request)
                mnl_socket_close(nl->request);
        if (nl->events)
                mnl_socket_close(nl->events);
        nl->request = nl->events = NULL;
}

int netlink_event_fd(const struct netlink *nl)
{
        return nl->events ? mnl_socket_get_fd(nl->events) : -1;
}

void netlink_event_drain(struct netlink *nl)
{
        char buf[NETLINK_BUFFER];

        /* What they say is asked for anew, so events that were lost (ENOBUFS) cost nothing. */
        while (nl->events && (mnl_socket_recvfrom(nl->events, buf, sizeof(buf)) >= 0 || errno == ENOBUFS))
                continue;
}

static ssize_t receive(const struct netlink *nl, char *buf)
{
        ssize_t n;

        do
                n = mnl_socket_recvfrom(nl->request, buf, NETLINK_BUFFER);
        while (n < 0 && errno == EINTR);
        return n;
}

/* Sends one request and hands each answer to `cb`. */
static int talk(struct netlink *nl, struct nlmsghdr *request, mnl_cb_t cb, void *data)
{
        char buf[NETLINK_BUFFER];
        int r = MNL_CB_OK;

        if (!nl->request)
                return -EOPNOTSUPP;
        request->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
        request->nlmsg_seq = ++nl->sequence;
        if (mnl_socket_sendto(nl->request, request, request->nlmsg_len) < 0)
                return -errno;
        while (r > MNL_CB_STOP) {
                ssize_t n = receive(nl, buf);

                if (n < 0)
                        return -errno;
                r = mnl_cb_run(buf, (size_t)n, nl->sequence, mnl_socket_get_portid(nl->request), cb, data);
                if (r < 0 && errno == EPROTO)
                        r = MNL_CB_OK; /* the answer to a request whose receiving failed: not ours */
        }
        return r < 0 ? -errno : 0;
}

static int read_linkinfo(const struct nlattr *attr, void *data)
{
        struct netlink_link *link = data;

        if (mnl_attr_get_type(attr) == IFLA_INFO_SLAVE_KIND)
                link->bridged = strcmp(mnl_attr_get_str(attr), "vrf") != 0;
        return MNL_CB_OK;
}

static int read_attr(const struct nlattr *attr, void *data)
{
        struct netlink_link *link = data;
        struct rtnl_link_stats64 stats = { 0 };

        switch (mnl_attr_get_type(attr)) {
        case IFLA_IFNAME:
                strncpy(link->name, mnl_attr_get_str(attr), sizeof(link->name) - 1);
                break;
        case IFLA_MTU:
                link->mtu = mnl_attr_get_u32(attr);
                break;
        case IFLA_ADDRESS:
                if (mnl_attr_get_payload_len(attr) == sizeof(link->mac))
                        memcpy(link->mac, mnl_attr_get_payload(attr), sizeof(link->mac));
                break;
        case IFLA_CARRIER:
                link->carrier = mnl_attr_get_u8(attr);
                break;
        case IFLA_MASTER:
                link->master = mnl_attr_get_u32(attr);
                break;
        case IFLA_STATS64: /* not aligned, and longer with newer kernels */
                memcpy(&stats, mnl_attr_get_payload(attr), 8 * sizeof(uint64_t));
                link->tx_dropped = stats.tx_dropped;
                break;
        case IFLA_LINKINFO:
                return mnl_attr_parse_nested(attr, read_linkinfo, link);
        }
        return MNL_CB_OK;
}

static int read_link(const struct nlmsghdr *answer, void *data)
{
        const struct ifinfomsg *info = mnl_nlmsg_get_payload(answer);
        struct netlink_link *link = data;

        if (answer->nlmsg_type != RTM_NEWLINK)
                return MNL_CB_OK;
        link->index = (unsigned)info->ifi_index;
        link->up = info->ifi_flags & IFF_UP;
        return mnl_attr_parse(answer, sizeof(*info), read_attr, link);
}

int netlink_get(struct netlink *nl, const char *name, unsigned index, struct netlink_link *ret_link)
{
        char buf[512];
        struct nlmsghdr *request = mnl_nlmsg_put_header(buf);
        struct netlink_link link = { 0 };
        struct ifinfomsg *info;
        int r;

        request->nlmsg_type = RTM_GETLINK;
        info = mnl_nlmsg_put_extra_header(request, sizeof(*info));
        info->ifi_index = (int)index;
        if (name)
                mnl_attr_put_strz(request, IFLA_IFNAME, name);
        r = talk(nl, request, read_link, &link);
        if (r == 0)
                *ret_link = link;
        return r;
}

int netlink_set(struct netlink *nl, unsigned index, const struct netlink_change *change)
{
        char buf[512];
        struct nlmsghdr *request = mnl_nlmsg_put_header(buf);
        struct ifinfomsg *info;

        request->nlmsg_type = RTM_SETLINK;
        info = mnl_nlmsg_put_extra_header(request, sizeof(*info));
        info->ifi_index = (int)index;
        if (change->up)
                info->ifi_flags = info->ifi_change = IFF_UP;
        if (change->mtu)
                mnl_attr_put_u32(request, IFLA_MTU, change->mtu);
        if (change->mac)
                mnl_attr_put(request, IFLA_ADDRESS, 6, change->mac);
        if (change->master)
                mnl_attr_put_u32(request, IFLA_MASTER, *change->master);
        return talk(nl, request, NULL, NULL);
}
