/* The driver's side of a vhost-user session: each call sends a request and, where one is due, waits for its reply up to the
 * session's time limit.  Replies are untrusted: a wrong request number, size, flag or file descriptor fails the call with -EPROTO and
 * the session should then be closed.  Control thread.
 *
 * Failures of every call: -EOPNOTSUPP, the protocol feature was not negotiated and nothing was sent; -EIO, the device refused and the
 * session goes on; -ETIMEDOUT, -ECONNRESET, -EPROTO and others, the session is of no use any more.  fe->why says what it was. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "vhost/msg.h"

struct vu_frontend {
        int sock;
        int backend_req;            /* our end of the back-end channel, or -1 */
        int timeout_ms;             /* of one call */
        uint64_t features;          /* offered, device's */
        uint64_t protocol_features; /* negotiated */
        struct vu_reader reader, backend_reader;
        const char *why; /* what the last failure was about */
};

/* Takes the socket. */
void vu_frontend_init(struct vu_frontend *fe, int sock, int timeout_ms);
void vu_frontend_done(struct vu_frontend *fe); /* a zero-filled one too */

/* SET_OWNER, GET_FEATURES, and with PROTOCOL_FEATURES: negotiates `wanted` of them. */
int vu_frontend_hello(struct vu_frontend *fe, uint64_t wanted_protocol_features);
int vu_frontend_set_features(struct vu_frontend *fe, uint64_t features);
int vu_frontend_queue_num(struct vu_frontend *fe, uint64_t *ret_num);
int vu_frontend_set_mem(struct vu_frontend *fe, const struct vhost_user_region *regions, const int *fds,
                        unsigned n);
int vu_frontend_vring(struct vu_frontend *fe, unsigned index, uint32_t size, uint64_t desc, uint64_t avail,
                      uint64_t used, uint32_t base);
/* Call and err first, then kick, which starts the ring.  -1: none.  The fds stay the caller's. */
int vu_frontend_vring_fds(struct vu_frontend *fe, unsigned index, int kick, int call, int err);
/* Another call fd for a ring that runs. */
int vu_frontend_vring_call(struct vu_frontend *fe, unsigned index, int call);
/* without PROTOCOL_FEATURES: nothing to do */
int vu_frontend_vring_enable(struct vu_frontend *fe, unsigned index, bool on);
int vu_frontend_vring_stop(struct vu_frontend *fe, unsigned index, uint32_t *ret_base);
/* up to 256 bytes */
int vu_frontend_get_config(struct vu_frontend *fe, uint32_t offset, uint32_t size, void *buf);
int vu_frontend_set_status(struct vu_frontend *fe, uint8_t status);
int vu_frontend_get_status(struct vu_frontend *fe, uint8_t *ret_status);
int vu_frontend_set_mtu(struct vu_frontend *fe, uint64_t mtu);
/* SET_BACKEND_REQ_FD; afterwards fe->backend_req is pollable. */
int vu_frontend_backend_channel(struct vu_frontend *fe);
/* Serves the back-end channel: 1 when the configuration has changed, 0, -errno when the channel broke: it is closed then, and
 * the session goes on without.  Only this call closes it. */
int vu_frontend_dispatch(struct vu_frontend *fe);
/* Non-blocking look at the main socket between requests: 0, -ECONNRESET, -EPROTO for words out of turn. */
int vu_frontend_alive(struct vu_frontend *fe);
