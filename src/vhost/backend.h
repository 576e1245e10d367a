/* The device's side of a vhost-user session: answers a front end's messages and tells the device what they mean.
 * One table row a message (payload size, fds, vring index, when it is legal); one function checks all rows.
 *
 * A message that breaks a rule, of its row or of its meaning, is refused and changes nothing: if the front end asked for an
 * acknowledgement (NEED_REPLY, with REPLY_ACK negotiated) it gets a non-zero one and the session lives; else, and for requests
 * whose reply has no room for an error, the session ends with a reason.  Requests that are not served here (another device
 * type's, features that are not offered, unknown numbers) are refused by the same rule.  The message that negotiates
 * REPLY_ACK is acknowledged already: User Mode Linux waits for that.
 *
 * What the specification leaves open:
 * - SET_OWNER may come again.  RESET_OWNER stops and disables all rings and forgets nothing else.
 * - RESET_DEVICE, and SET_STATUS with 0, stop all rings and forget their set-up, their enabling and the virtio features;
 *   memory, call and err fds and protocol features stay.  GET_VRING_BASE still tells where they stopped: QEMU 7.2 asks after it has
 *   set the status to 0, and starts there again.
 * - A ring starts when its size, addresses and kick fd are known, the features are set and memory is there, in whatever order that
 *   comes.  Addresses that are not mapped are waited for.  GET_VRING_BASE stops it and forgets the kick fd only: a new one
 *   starts it again where it was.  A new kick fd for a ring that runs stops and starts it.
 * - A running ring's size, addresses, base and features cannot change; to state the same ones again is fine.
 * - A memory table has 1 to 8 regions; with ADD_MEM_REG it grows to 509, with REM_MEM_REG it may become empty. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "mem/map.h"
#include "vhost/msg.h"
#include "virtio/vq_config.h"

/* The protocol features that a session can offer. */
#define VU_BACKEND_PROTOCOL_FEATURES                                                                         \
        (BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |                              \
         BIT(VHOST_USER_PROTOCOL_F_MTU) | BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) |                           \
         BIT(VHOST_USER_PROTOCOL_F_CONFIG) | BIT(VHOST_USER_PROTOCOL_F_RESET_DEVICE) |                       \
         BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS) | BIT(VHOST_USER_PROTOCOL_F_STATUS))

/* The device, as the session sees it.  Control thread; each call has been carried out when it returns, workers included.
 * Where an operation can fail it returns -errno and *ret_why is a sentence; the message is then refused. */
struct vu_backend_ops {
        /* What is offered.  With F(protocol_features) the session negotiates protocol features, and rings start disabled. */
        uint64_t (*features)(void *ctx);
        /* A subset of them, for rings that start from now on.  No ring runs. */
        int (*set_features)(void *ctx, uint64_t features, const char **ret_why);
        /* A new table (takes no reference; NULL: none).  Running rings move to it or, where they do not fit, break.
         * On failure the old table stays. */
        int (*set_map)(void *ctx, struct mem_map *map);
        /* The ring has size, addresses and a kick fd: it starts; a start is an implicit kick.  `kick` is non-blocking, may be -1 (polling) and
         * stays the session's, open until stop has returned.  -EFAULT: a part of the ring is not mapped (yet); the session
         * tries again when memory changes.  cfg->base is what vring_stop returned, what the front end said, or a fresh ring's. */
        int (*vring_start)(void *ctx, unsigned index, const struct vq_config *cfg, int kick,
                           const char **ret_why);
        /* Stops, drains, and returns the base for GET_VRING_BASE.  Only for rings that were started. */
        uint32_t (*vring_stop)(void *ctx, unsigned index);
        /* Kept while the ring is stopped.  False for a ring that was never enabled changes nothing. */
        void (*vring_enable)(void *ctx, unsigned index, bool on);
        /* The fd is the device's from now on (-1: none); the old one is closed once no worker uses it.  An eventfd, or the writing
         * end of a pipe or of a local stream socket; non-blocking (which the peer may undo).  Writing may raise SIGPIPE. */
        void (*vring_call)(void *ctx, unsigned index, int fd);
        void (*vring_err)(void *ctx, unsigned index, int fd);
        /* Copies config space; returns bytes that exist. */
        uint32_t (*get_config)(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size);
        /* or NULL */
        int (*set_config)(void *ctx, const uint8_t *buf, uint32_t offset, uint32_t size, uint32_t flags);
        int (*set_mtu)(void *ctx, uint64_t mtu); /* 68..65535 */
        void (*set_status)(void *ctx, uint8_t status);
        uint8_t (*get_status)(void *ctx);
        /* All rings have been stopped: back to what the operator configured; features 0, rings as never enabled. */
        void (*reset)(void *ctx);
};

struct vu_backend_config {
        unsigned vrings_max;        /* 2 * pairs + 1 */
        uint64_t queue_num;         /* what GET_QUEUE_NUM says */
        uint64_t protocol_features; /* offered, of VU_BACKEND_PROTOCOL_FEATURES */
};

struct vu_backend;

/* Takes `sock` on success only; it is made non-blocking.  `ops` and `ctx` live longer than the session. */
int vu_backend_new(const struct vu_backend_config *config, const struct vu_backend_ops *ops, void *ctx,
                   int sock, struct vu_backend **ret_be);
/* Stops every running ring (vring_stop), takes back call and err fds (-1) and the map (set_map(NULL)), resets the device and
 * closes all fds.  NULL is fine. */
void vu_backend_free(struct vu_backend *be);

int vu_backend_fd(const struct vu_backend *be);
/* Serves what has arrived, up to a bound (the fd then stays readable).  Never waits longer than a peer that does not read its
 * replies is given.  0, or -errno when the session is over: *ret_why says why (-ECONNRESET: the front end has left); it lives as
 * long as the session. */
int vu_backend_dispatch(struct vu_backend *be, const char **ret_why);

/* Tells the front end that the configuration space changed.  -EOPNOTSUPP without BACKEND_REQ and CONFIG; -ETIMEDOUT when the
 * channel is full: the front end has enough such messages to read. */
int vu_backend_config_changed(struct vu_backend *be);

uint64_t vu_backend_protocol_features(const struct vu_backend *be);
