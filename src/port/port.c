/* The port object: one table of calls, gaps filled at birth, so that a burst costs one indirect call and no question. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "port/capture.h"
#include "port/spec.h"

struct vw_port {
        struct vw_port_ops ops; /* complete */
        void *self;
        unsigned n_lanes;
        struct capture *capture; /* control thread makes it, lanes read; NULL until the first */
};

/* ---- what a port does that leaves a call out ---- */

static void default_close(void *self)
{
        (void)self;
}

static void default_info(void *self, struct vw_port_info *ret_info)
{
        (void)self;
        *ret_info = (struct vw_port_info){ .kind = "own", .link_up = true };
}

static int default_set_rx_offloads(void *self, uint32_t offloads)
{
        (void)self, (void)offloads;
        return 0; /* it makes none */
}

static int default_set_identity(void *self, const uint8_t mac[6], unsigned mtu)
{
        (void)self, (void)mac, (void)mtu;
        return -EOPNOTSUPP;
}

static int default_set_carrier(void *self, bool up)
{
        (void)self, (void)up;
        return -EOPNOTSUPP;
}

static int default_event_fd(const void *self)
{
        (void)self;
        return -1;
}

static void default_event_ack(void *self)
{
        (void)self;
}

static int default_set_active(void *self, unsigned pairs)
{
        (void)self, (void)pairs;
        return 0;
}

static int default_fd(const void *self, unsigned lane)
{
        (void)self, (void)lane;
        return -1;
}

static int default_tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        (void)self, (void)lane, (void)pkts;
        memset(result, 0, n * sizeof(*result));
        return (int)n;
}

static int default_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        (void)self, (void)lane, (void)pkt;
        return 0;
}

static uint64_t default_deadline(const void *self, unsigned lane)
{
        (void)self, (void)lane;
        return NEVER;
}

static uint32_t default_rx_max(const void *self, unsigned lane)
{
        (void)self, (void)lane;
        return VW_FRAME_MAX;
}

/* ---- birth and death ---- */

static void port_init(struct vw_port *port, const struct vw_port_ops *ops, void *self, unsigned lanes)
{
        port->self = self;
        port->n_lanes = lanes;
#define TAKE(call) port->ops.call = ops->call ? ops->call : default_##call
        TAKE(close);
        TAKE(info);
        TAKE(set_rx_offloads);
        TAKE(set_identity);
        TAKE(set_carrier);
        TAKE(event_fd);
        TAKE(event_ack);
        TAKE(set_active);
        TAKE(fd);
        TAKE(tx);
        TAKE(rx);
        TAKE(deadline);
        TAKE(rx_max);
#undef TAKE
}

struct vw_port *vw_port_new(const struct vw_port_ops *ops, void *self)
{
        struct vw_port *port = calloc(1, sizeof(*port));

        if (port)
                port_init(port, ops, self, VW_QUEUE_PAIRS_MAX);
        return port;
}

int vw_port_open(const char *spec, const struct vw_port_config *config, struct vw_port **ret_port,
                 const char **ret_why)
{
        const struct vw_port_ops *ops;
        struct port_args args;
        port_open_fn *open;
        struct vw_port *port;
        void *self;
        int r;

        if (config->pairs < 1 || config->pairs > VW_QUEUE_PAIRS_MAX)
                return port_refuse(ret_why, EINVAL, spec, "%u queue pairs, but it can have 1..%d",
                                   config->pairs, VW_QUEUE_PAIRS_MAX);
        r = port_spec_parse(spec, &open, &args, ret_why);
        if (r < 0)
                return r;
        port = calloc(1, sizeof(*port));
        if (!port)
                return port_refuse(ret_why, ENOMEM, spec, "no memory");
        r = open(&args, config, &ops, &self, ret_why);
        if (r < 0) {
                free(port);
                return r;
        }
        port_init(port, ops, self, config->pairs);
        *ret_port = port;
        return 0;
}

void vw_port_close(struct vw_port *port)
{
        if (!port)
                return;
        port->ops.close(port->self);
        capture_free(port->capture);
        free(port);
}

/* ---- control thread ---- */

void vw_port_info(struct vw_port *port, struct vw_port_info *ret_info)
{
        port->ops.info(port->self, ret_info);
}

int vw_port_set_rx_offloads(struct vw_port *port, uint32_t offloads)
{
        return port->ops.set_rx_offloads(port->self, offloads);
}

int vw_port_set_identity(struct vw_port *port, const uint8_t mac[6], unsigned mtu)
{
        return port->ops.set_identity(port->self, mac, mtu);
}

int vw_port_set_carrier(struct vw_port *port, bool up)
{
        return port->ops.set_carrier(port->self, up);
}

int vw_port_event_fd(const struct vw_port *port)
{
        return port->ops.event_fd(port->self);
}

void vw_port_event_ack(struct vw_port *port)
{
        port->ops.event_ack(port->self);
}

int vw_port_set_active(struct vw_port *port, unsigned pairs)
{
        return port->ops.set_active(port->self, pairs);
}

int vw_port_capture(struct vw_port *port, int fd)
{
        struct capture *c = port->capture;

        if (fd < 0) {
                if (c)
                        capture_stop(c);
                return 0;
        }
        if (!c) {
                int r = capture_new(port->n_lanes, &c);

                if (r < 0)
                        return r;
                store_release(&port->capture, c);
        }
        return capture_start(c, fd);
}

uint64_t vw_port_capture_lost(const struct vw_port *port)
{
        return port->capture ? capture_lost(port->capture) : 0;
}

/* ---- the lane's worker thread ---- */

int vw_port_fd(const struct vw_port *port, unsigned lane)
{
        return port->ops.fd(port->self, lane);
}

int vw_port_tx(struct vw_port *port, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct capture *c = load_acquire(&port->capture);
        uint64_t ns;
        int taken;

        if (likely(!c || !capture_on(c)))
                return port->ops.tx(port->self, lane, pkts, n, result);
        ns = capture_clock();
        taken = port->ops.tx(port->self, lane, pkts, n, result);
        for (int i = 0; i < taken; i++)
                if (result[i] == 0)
                        capture_frame(c, lane, &pkts[i], ns);
        return taken;
}

int vw_port_rx(struct vw_port *port, unsigned lane, struct vw_pkt *pkt)
{
        struct capture *c = load_acquire(&port->capture);
        int r;

        if (likely(!c || !capture_on(c)))
                return port->ops.rx(port->self, lane, pkt);
        r = port->ops.rx(port->self, lane, pkt);
        if (r == 1)
                capture_frame(c, lane, pkt, capture_clock());
        return r;
}

uint64_t vw_port_deadline(const struct vw_port *port, unsigned lane)
{
        return port->ops.deadline(port->self, lane);
}

uint32_t vw_port_rx_max(const struct vw_port *port, unsigned lane)
{
        return port->ops.rx_max(port->self, lane);
}
