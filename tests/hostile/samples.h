/* Every request as a front end of good will would send it, and what is said of each in the protocol. */
#pragma once
#include "mock_vhost.h"

#define ALL VU_BACKEND_PROTOCOL_FEATURES
#define ASK (VU_FLAG_VERSION | VU_FLAG_NEED_REPLY)

struct sample {
        uint32_t size;
        unsigned n_fds;
        bool fixed; /* the payload has one size only */
        union {
                uint64_t u64;
                struct vhost_vring_state state;
                struct vhost_vring_addr addr;
                struct vhost_user_config config;
                struct {
                        uint32_t n, padding;
                        struct vhost_user_region region;
                } table;
                struct {
                        uint64_t padding;
                        struct vhost_user_region region;
                } reg;
        };
};

struct sample sample_of(uint32_t request);

/* The fds that samples come with: one of each kind, made once a test. */
struct fds {
        int memory, event, sockets[2];
};

void fds_open(struct fds *f);
void fds_close(struct fds *f);
int fd_for(const struct fds *f, uint32_t request);

/* Sends one and judges. */
enum verdict say_sample(struct mock_session *s, uint32_t request, const struct fds *f);
/* Nobody waits for an answer to the sample with these fds: the session ends by that rule. */
void expect_closed_by(const char *rule, uint64_t protocol_features, uint32_t request, const int *fds,
                      unsigned n_fds);

bool served(uint32_t request);    /* our device knows it */
bool has_reply(uint32_t request); /* of its own */
bool needs_protocol_feature(uint32_t request);
