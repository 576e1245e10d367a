/* What ports ask of the kernel about network interfaces: rtnetlink in the namespace where the sockets were opened.
 * Control thread only. */
#pragma once
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct mnl_socket;

struct netlink {
        struct mnl_socket *request; /* asked and answered at once */
        struct mnl_socket *events;  /* subscribed to links; non-blocking */
        uint32_t sequence;
};

/* Opens both sockets in the calling thread's namespace.  0 or -errno. */
int netlink_open(struct netlink *nl);
void netlink_close(struct netlink *nl);

/* Readable when some link of the namespace changed; -1 when not open. */
int netlink_event_fd(const struct netlink *nl);
void netlink_event_drain(struct netlink *nl);

struct netlink_link {
        unsigned index, mtu;
        char name[IF_NAMESIZE];
        uint8_t mac[6];
        bool up, carrier;
        unsigned master; /* index of the bridge or the like, or 0 */
        bool bridged;    /* it forwards frames for other addresses than its own */
        uint64_t tx_dropped;
};

/* By name, or by index where name is NULL.  0, -ENODEV or -errno. */
int netlink_get(struct netlink *nl, const char *name, unsigned index, struct netlink_link *ret_link);

/* What to change of a link; zero and NULL leave things as they are. */
struct netlink_change {
        bool up;
        unsigned mtu;
        const uint8_t *mac;
        const unsigned *master; /* index of the bridge to join; 0: leave the one it is in */
};
int netlink_set(struct netlink *nl, unsigned index, const struct netlink_change *change);
