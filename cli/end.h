/* What `vwire device` and `vwire driver` have in common: options, a port with its capture, the control socket, and one
 * loop on one thread around it all. */
#pragma once
#include <poll.h>
#include <sys/types.h>

#include "ctl/server.h"
#include "ctl/sock.h"
#include "opts.h"
#include "values.h"
#include "vwire/port.h"
#include "vwire/stats.h"

struct end_options {
        const char *socket_path, *port, *ctl, *pcap;
        unsigned queues, workers; /* 0 workers: as many as fit */
        struct feature_mask features;
        uint8_t mac[6];
        unsigned poll_us, tx_usecs, tx_frames, rx_usecs, rx_frames;
        int adaptive, nice;
        struct cpu_list cpus;
};

extern struct end_options end_options;
extern const struct opt_group end_group;

struct end {
        const char *component, *command; /* "device", "vwire device" */
        struct vw_port *port;
        struct ctl_server *ctl;
        int capture; /* file to capture to from the start, or -1 */
        int notify;  /* where readiness is told, or -1 */
};
#define END_INIT(component_, command_)                                                                       \
        {                                                                                                    \
                .component = (component_), .command = (command_), .capture = -1, .notify = -1                \
        }

/* What the end's kind rules out of the options that both have.  The exit status, or -1 to go on; the same for the next three. */
int end_check_options(const struct end *end, bool driver);
/* Log, signals, fd limit, the service manager. */
int end_start(struct end *end);
/* The port that the options name, and the file for its capture. */
int end_open_port(struct end *end, unsigned mtu);
/* The capture, if one is asked for: makes a thread. */
int end_start_capture(struct end *end);
/* The control socket, if one is asked for.  The callbacks get `ctx`. */
int end_open_ctl(struct end *end, const struct ctl_ops *ops, void *ctx);
void end_close(struct end *end);

/* Ready: says so to whoever started us. */
void end_ready(struct end *end);

/* Sleeps until one of `own`, the control socket (which it serves) or `deadline` (ns, monotonic) wants attention.  True: stop. */
bool end_turn(struct end *end, struct pollfd *own, unsigned n_own, uint64_t deadline);

uint64_t end_now(void); /* ns, monotonic */
#define END_NEVER UINT64_MAX

/* Control callbacks that both ends share, on a context that begins with a struct end. */
int end_capture(void *ctx, int fd);
void end_stop(void *ctx);
