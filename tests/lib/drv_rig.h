/* A driver and a scripted device, joined; the test is control thread and owner at once.  What the driver calls back is
 * written down.
 *
 *      struct rig r;
 *      rig_init(&r);                       then change r.config and r.dev
 *      rig_start(&r);
 *      rig_send(&r, 60);
 *      rig_end(&r);                        checks that nothing is left behind */
#pragma once
#include "driver/driver.h"
#include "script_device.h"

#define RIG_PKTS 64

struct rig_pkt {
        struct vw_net_hdr hdr;
        uint32_t len, truesize;
        unsigned n_iov;
        uint8_t bytes[128]; /* its beginning */
};

struct rig {
        struct sd dev;
        struct vw_driver_config config;
        struct vw_driver_ops ops;
        struct vw_driver *drv;
        unsigned pair; /* that the calls below are about */
        /* written down */
        uint64_t sent, done, received, rx_bytes, rx_truesize;
        unsigned wakes, flow_wakes, changes, calls_rx;
        struct rig_pkt pkts[RIG_PKTS]; /* the last ones; received modulo RIG_PKTS is next */
        /* how the program behaves */
        unsigned takes; /* packets of a burst that rx takes at most */
        bool keeps;     /* it keeps every packet and sends it back */
        bool checks;    /* it looks at every byte of what rig_arrive() sent */
        bool resends;   /* it sends a packet from within tx_done for each that is done */
        uint64_t kept;
        unsigned fds, mappings;
};

void rig_init(struct rig *r);
void rig_start(struct rig *r);
void rig_end(struct rig *r);

struct drv_pair *rig_pair(struct rig *r);
uint64_t rig_count(struct rig *r, unsigned queue, enum vw_counter c);
uint64_t rig_drops(struct rig *r, unsigned queue, enum vw_drop d);
uint64_t rig_all_drops(struct rig *r, unsigned queue);

/* One packet from a transmit buffer; what vw_driver_xmit() returns, -ENOBUFS without a buffer. */
int rig_send_pkt(struct rig *r, uint32_t len, bool more, struct vw_flow *flow);
int rig_send(struct rig *r, uint32_t len);

/* An honest frame arrives, of bytes that count from `seed`. */
bool rig_arrive(struct rig *r, uint32_t len, uint8_t seed);
const struct rig_pkt *rig_last(const struct rig *r);

/* vw_driver_poll() at a time of the test's own. */
int rig_poll(struct rig *r, unsigned budget, uint64_t now);
