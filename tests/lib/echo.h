/* A program at the driver's end that numbers its frames and sends them to a port that gives them back: all of them come back, once and in
 * order, or it shows.
 *
 *      struct echo e = { 0 };
 *      config.ops = &echo_ops;  config.ctx = &e;  config.tx_bufs = 256;
 *      vw_driver_new(&config, &e.drv, &why);
 *      while (e.sent < n && echo_send(&e, 64)) ...  then kick, poll, wait */
#pragma once
#include "vwire/driver.h"

struct echo {
        struct vw_driver *drv;
        uint64_t sent, done, received;
        uint64_t bad;  /* out of order */
        uint32_t next; /* number that is to come back next */
};

extern const struct vw_driver_ops echo_ops;

/* Offers the next frame, of at least 18 bytes, without a kick.  False: there is no room, or the driver does not take it. */
bool echo_send(struct echo *e, uint32_t len);
