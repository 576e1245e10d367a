/* A device and a driver as two processes of this program, each in a network namespace of its own with a TAP there:
 *
 *      kernel | TAP | vwire driver ==== socket, rings ==== vwire device | TAP | kernel
 *
 * Nothing is left behind, however it ends: namespaces and TAPs live as long as the processes in them, sockets lie in a /tmp
 * that only they see (netns_isolate()), and the kernel kills the children with their parent. */
#pragma once
#include <stdbool.h>

#include "child.h"

#define LINK_TAP            "vwire0"
#define LINK_DRIVER_ADDRESS "192.0.2.1" /* RFC 5737: for documentation, so nobody's */
#define LINK_DEVICE_ADDRESS "192.0.2.2"
#define LINK_ARGS           16

struct link_half {
        const char *name, *address;
        char log[40], ctl_path[40];
        int netns, config; /* config: a socket to set its interfaces */
        int ctl;           /* control connection */
        struct child child;
};

struct link {
        const char *command; /* who complains: "vwire demo" */
        char socket[40];
        struct link_half device, driver;
};

/* `number` tells several links of one process apart. */
void link_init(struct link *l, const char *command, unsigned number);

/* Each of these returns -1 to go on, or has said what went wrong and returns the status to exit with. */

/* Both ends, with these options (up to LINK_ARGS, ending in NULL) besides socket, port and control socket; returns when frames pass. */
int link_start(struct link *l, const char *const *device, const char *const *driver);
/* Two namespaces, and nothing in them yet: for a start in parts. */
int link_make_namespaces(struct link *l);
int link_start_half(struct link *l, struct link_half *half, const char *const *options);
/* Waits until `ready`, looking every 10 ms; fails when an end has died or the program is told to stop. */
int link_wait(struct link *l, bool (*ready)(void *ctx), void *ctx, const char *what);
int link_check(struct link *l);

/* Is reached over its control socket and says that it runs. */
bool link_half_runs(struct link_half *half);
void link_stop(struct link *l);
int link_fail(const struct link *l, const char *fmt, const char *detail);
