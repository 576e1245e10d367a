/* Both ends of a vhost-user session for tests, in one thread: a front end that sends what it is told to, true or not, and
 * a device that writes down what the session asks of it.  Whoever opens a mock_session closes it, and closing
 * checks that the session left no file descriptor and no mapping behind. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "vhost/backend.h"
#include "vhost/msg.h"
#include "virtio/features.h"

#define MOCK_VRINGS 5 /* two pairs and a control queue */

struct mock_vring {
        struct vq_config cfg;
        int kick, call, err; /* call and err are owned */
        bool running, enabled;
        unsigned starts, stops, enables, calls, errs; /* how often each was asked for */
};

struct mock_device {
        /* set by the test */
        uint64_t offered;
        int start_error, map_error; /* what vring_start and set_map answer */
        bool fails_once;            /* start_error is the answer to one start only */
        uint32_t stop_base;
        uint32_t config_size;
        bool config_writable;
        /* written down */
        uint64_t features;
        struct mem_map *map; /* a reference */
        unsigned maps, resets;
        uint64_t mtu;
        uint8_t status;
        uint8_t config[256];
        struct mock_vring vring[MOCK_VRINGS];
};

struct mock_session {
        struct mock_device dev;
        struct vu_backend *be; /* NULL once the session is over */
        int sock;              /* the front end's end */
        int error;             /* what it ended with */
        char why[256];
        unsigned fds, mappings; /* before it began */
};

/* A session whose device offers `protocol_features`. */
void mock_open(struct mock_session *s, uint64_t protocol_features);
void mock_close(struct mock_session *s);

/* What became of a message. */
enum verdict {
        SILENT,   /* the session lives and said nothing */
        ACCEPTED, /* acknowledged */
        REFUSED,  /* acknowledged with an error */
        REPLIED,  /* with a reply of its own */
        CLOSED,   /* the session is over: s->why */
};

/* Sends without serving; `fds` stay the caller's. */
void mock_send(struct mock_session *s, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
               const int *fds, unsigned n_fds);
/* Only the first `bytes` of a message, but all its fds. */
void mock_send_part(struct mock_session *s, const struct vu_msg *header, const void *payload, uint32_t bytes,
                    const int *fds, unsigned n_fds);
void mock_send_bytes(struct mock_session *s, const void *bytes, size_t len);
/* Lets the session serve what has arrived; false when it is over. */
bool mock_serve(struct mock_session *s);
/* Takes one message from the session, if there is one. */
bool mock_receive(struct mock_session *s, struct vu_msg *ret_reply);

/* Send, serve and judge; *ret_reply (may be NULL) is the reply. */
enum verdict mock_say(struct mock_session *s, uint32_t request, uint32_t flags, const void *payload,
                      uint32_t size, const int *fds, unsigned n_fds, struct vu_msg *ret_reply);

/* The usual words, with NEED_REPLY. */
enum verdict mock_u64(struct mock_session *s, uint32_t request, uint64_t value);
enum verdict mock_u64_fd(struct mock_session *s, uint32_t request, uint64_t value, int fd);
enum verdict mock_state(struct mock_session *s, uint32_t request, uint32_t index, uint32_t num);
enum verdict mock_empty(struct mock_session *s, uint32_t request);
enum verdict mock_addr(struct mock_session *s, uint32_t index, uint64_t desc, uint64_t avail, uint64_t used);
enum verdict mock_mem_table(struct mock_session *s, const struct vhost_user_region *regions, const int *fds,
                            unsigned n);
enum verdict mock_mem_reg(struct mock_session *s, uint32_t request, const struct vhost_user_region *region,
                          int fd);

/* Up to and with SET_FEATURES: protocol features `protocol_features`, all virtio features that are offered. */
void mock_hello(struct mock_session *s, uint64_t protocol_features);
/* hello, and `pages` of memory at MOCK_GPA / MOCK_UVA; returns its memfd, the caller's. */
int mock_hello_with_memory(struct mock_session *s, uint64_t protocol_features, unsigned pages);
/* Size, base, addresses and a kick eventfd of a ring in that memory. */
void mock_ring_up(struct mock_session *s, uint32_t index);

#define MOCK_PAGE UINT64_C(4096)
#define MOCK_GPA  UINT64_C(0x10000)
#define MOCK_UVA  UINT64_C(0x7f0000000000)

int mock_memfd(uint64_t size);
unsigned mock_count_fds(void);
unsigned mock_count_mappings(void); /* of memfds */
