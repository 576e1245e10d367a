/* What the files of the back end share: one session. */
#pragma once
#include "base/log.h"
#include "vhost/backend.h"

/* One vring's set-up, as it comes together message by message. */
struct vu_vring {
        struct vq_config cfg; /* features are filled in at the start */
        bool has_size, has_addr, has_base, has_kick;
        bool running;        /* started, and not stopped since */
        bool was_reset;      /* stopped by a reset of the device, at: */
        uint32_t stopped_at; /* what GET_VRING_BASE still tells, though a new start begins afresh */
        bool has_call, has_err;
        int kick; /* ours; -1: none, or polling when has_kick */
};

struct vu_backend {
        const struct vu_backend_ops *ops;
        void *ctx;
        struct vu_backend_config config;
        int sock, backend_req;
        bool owned, has_features;
        uint64_t features, protocol_features; /* negotiated */
        struct mem_map *map;                  /* a reference, or NULL */
        struct vu_reader reader;
        const char *rule; /* the rule that the message being served breaks */
        char why[160];    /* why the session is over */
        struct log_limit refusals, unready;
        struct vu_vring vring[];
};

/* Names the rule that is broken: returns `error`, which is negative. */
int vu_refuse(struct vu_backend *be, int error, const char *rule);

/* Handlers: 0, or negative after vu_refuse() with nothing changed.  Sizes, number of fds, vring index and state have been checked
 * by the row.  A handler whose request has a reply of its own leaves it in the message. */
int vu_on_vring_num(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_addr(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_base(struct vu_backend *be, struct vu_msg *msg);
int vu_on_get_vring_base(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_kick(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_call(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_err(struct vu_backend *be, struct vu_msg *msg);
int vu_on_vring_enable(struct vu_backend *be, struct vu_msg *msg);

/* Starts every ring that has all it needs; one that the device does not take is logged and stays as it is. */
void vu_rings_start_ready(struct vu_backend *be);
bool vu_rings_running(const struct vu_backend *be);
void vu_rings_stop(struct vu_backend *be);  /* where they are; their set-up stays */
void vu_rings_reset(struct vu_backend *be); /* stopped and their set-up forgotten, but for call and err fds */
