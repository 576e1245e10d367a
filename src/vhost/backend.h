/* The device's side of a vhost-user session: answers a front end's messages and tells the device what they mean.
 * One table row a message (payload size, fds, state in which it is legal); one function checks all rows.
 *
 * A well-framed message that breaks a rule is refused: with NEED_REPLY (and REPLY_ACK negotiated) by a non-zero reply and unchanged state,
 * else the session ends with a reason. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "mem/map.h"
#include "virtio/vq_config.h"

/* The device, as the session sees it.  Control thread; each call has been carried out when it returns, workers included. */
struct vu_backend_ops {
        uint64_t (*features)(void *ctx);
        int (*set_features)(void *ctx, uint64_t features, const char **ret_why);
        /* A new table (takes no reference; NULL: none).  Running rings move to it or, where they do not fit, break. */
        int (*set_map)(void *ctx, struct mem_map *map);
        /* The ring has size, addresses and a kick fd: it starts; a start is an implicit kick.  `kick` may be -1 (polling); it and `call`
         * stay the session's until stop has returned. */
        int (*vring_start)(void *ctx, unsigned index, const struct vq_config *cfg, int kick, const char **ret_why);
        /* Stops, drains, and returns the base for GET_VRING_BASE. */
        uint32_t (*vring_stop)(void *ctx, unsigned index);
        void (*vring_enable)(void *ctx, unsigned index, bool on);
        /* The fd is the device's from now on (-1: none); the old one is closed once no worker uses it. */
        void (*vring_call)(void *ctx, unsigned index, int fd);
        void (*vring_err)(void *ctx, unsigned index, int fd);
        /* Copies config space; returns bytes that exist. */
        uint32_t (*get_config)(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size);
        int (*set_config)(void *ctx, const uint8_t *buf, uint32_t offset, uint32_t size, uint32_t flags);
        int (*set_mtu)(void *ctx, uint64_t mtu);
        void (*set_status)(void *ctx, uint8_t status);
        uint8_t (*get_status)(void *ctx);
        /* All rings have been stopped: back to what the operator configured. */
        void (*reset)(void *ctx);
};

struct vu_backend_config {
        unsigned vrings_max;  /* 2 * pairs + 1 */
        uint64_t queue_num;   /* what GET_QUEUE_NUM says */
        uint64_t protocol_features; /* offered */
};

struct vu_backend;

/* Takes `sock` on success only; it is made non-blocking. */
int vu_backend_new(const struct vu_backend_config *config, const struct vu_backend_ops *ops, void *ctx, int sock,
                   struct vu_backend **ret_be);
/* Stops every running ring (vring_stop), drops the map (set_map(NULL)), closes all fds.  NULL is fine. */
void vu_backend_free(struct vu_backend *be);

int vu_backend_fd(const struct vu_backend *be);
/* Serves what has arrived.  0, or -errno when the session is over: *ret_why says why. */
int vu_backend_dispatch(struct vu_backend *be, const char **ret_why);

/* Tells the front end that the configuration space changed; -EOPNOTSUPP without BACKEND_REQ and CONFIG. */
int vu_backend_config_changed(struct vu_backend *be);

uint64_t vu_backend_protocol_features(const struct vu_backend *be);
