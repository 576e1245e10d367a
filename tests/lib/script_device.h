/* A vhost-user device that does what its script says, true or not: the other end for tests of the driver.
 *
 * A thread of its own answers the socket and the control queue, since the driver waits for those; the rings of the pairs move only when
 * the test says so.  It stands on the session of vhost/backend and the device half of ring/, and for lies it writes into the shared
 * memory with its own hands.
 *
 *      struct sd d;
 *      sd_init(&d);                        then change what it offers
 *      EXPECT_EQ(sd_connect(&d, drv, &why), 0);
 *      sd_receive(&d, 0, frame, len);      the driver gets a frame
 *      sd_call(&d, 0);                     and an interrupt
 *      sd_done(&d); */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/vq.h"
#include "vhost/backend.h"
#include "virtio/features.h"
#include "virtio/spec.h"
#include "vwire/driver.h"

#define SD_PAIRS    4
#define SD_RINGS    (2 * SD_PAIRS + 1)
#define SD_HELD     32768 /* chains that it may sit on */
#define SD_COMMANDS 64

enum sd_ctrl {
        SD_ACK,
        SD_NACK,
        SD_SILENT, /* takes the command and never gives it back, until sd_answer() */
        SD_EMPTY,  /* gives it back and has written nothing */
};

struct sd_ring {
        struct vq_config cfg;
        struct vq_device vq;
        struct iov_pool pool;
        struct vq_chain *held; /* popped, oldest first */
        unsigned n_held;
        int kick, call;
        bool running, enabled;
        uint64_t calls; /* written to the call fd */
        /* our view of the shared memory, for lies */
        struct vring_desc *desc;
        struct vring_avail *avail;
        struct vring_used *used;
};

struct sd_command {
        uint8_t bytes[1024];
        uint32_t len;
};

struct sd {
        /* the test's, before it connects; later sd_ctrl(), and the rest under sd_lock() */
        uint64_t features, protocol_features, queue_num;
        struct virtio_net_config config;
        uint32_t config_size;
        bool config_restless; /* the configuration is another at each read */
        int refused_ring;     /* that does not start; -1: none */
        bool forgets_status;  /* what it was told of its status is not there when it is asked */
        enum sd_ctrl ctrl;
        uint64_t refused_classes; /* BIT(class) of commands that it refuses whatever `ctrl` says */
        uint8_t answer[8];        /* what it writes before the ack, where there is room */
        /* written down */
        uint64_t acked;
        uint8_t status;
        struct sd_ring ring[SD_RINGS];
        struct sd_command command[SD_COMMANDS];
        unsigned n_commands;
        char why[128];
        /* its own */
        struct mem_map *map;
        struct vu_backend *be;
        pthread_mutex_t mutex;
        pthread_t thread;
        bool started;
        int stop, life_ms; /* life_ms: -1, for ever */
};

void sd_init(struct sd *d);
/* Serves the connected socket, which it takes. */
void sd_start(struct sd *d, int fd);
/* Offers itself to the driver.  What vw_driver_connect() returns. */
int sd_connect(struct sd *d, struct vw_driver *drv, const char **ret_why);
/* Goes away, as a process that is killed: sockets closed, rings as they are. */
void sd_leave(struct sd *d);
/* The same, by itself when nothing has been asked of it for `ms` after its next request or command. */
void sd_leave_later(struct sd *d, int ms);
void sd_done(struct sd *d);

/* How it serves the control queue from now on. */
void sd_ctrl(struct sd *d, enum sd_ctrl how);

void sd_lock(struct sd *d);
void sd_unlock(struct sd *d);

/* ---- tx: ring 2 * pair + 1 ---- */

struct sd_frame {
        uint8_t hdr[12];
        uint32_t len;       /* without header */
        uint8_t bytes[128]; /* its beginning */
};

/* Takes up to `max` packets and sits on them.  Returns how many; ret_frames may be NULL. */
int sd_take(struct sd *d, unsigned pair, unsigned max, struct sd_frame *ret_frames);
/* Gives the oldest `n` back (ring: any), with `len` as their used length. */
void sd_give_back(struct sd *d, unsigned ring, unsigned n, uint32_t len);
/* Both, until nothing comes; returns how many. */
unsigned sd_consume(struct sd *d, unsigned pair);

/* ---- rx: ring 2 * pair ---- */

/* A frame as an honest device delivers it, into as many buffers as it takes.  False: there are too few. */
bool sd_receive(struct sd *d, unsigned pair, const struct vw_net_hdr *hdr, const void *frame, uint32_t len);
/* Uses `n` buffers with these lengths and this header in the first, true or not; false: there are too few. */
bool sd_receive_raw(struct sd *d, unsigned pair, const struct vw_net_hdr *hdr, const uint32_t *lens,
                    unsigned n);
/* Buffers that the driver has offered and that were not taken yet. */
unsigned sd_offered(struct sd *d, unsigned ring);

/* An interrupt, if the driver wants one. */
bool sd_call(struct sd *d, unsigned ring);
/* In any case. */
void sd_call_anyway(struct sd *d, unsigned ring);
/* Kicks since the last look. */
uint64_t sd_kicks(struct sd *d, unsigned ring);

/* The last command that it was given; its number, 0 for none. */
unsigned sd_last_command(struct sd *d, struct sd_command *ret_command);
/* Answers the oldest command that it was silent about. */
void sd_answer(struct sd *d, uint8_t ack);
/* Tells the driver that the configuration has changed (set it under sd_lock()). */
void sd_config_changed(struct sd *d);

/* ---- lies ---- */

void sd_raw_used(struct sd *d, unsigned ring, uint16_t pos, uint32_t id, uint32_t len);
void sd_raw_used_idx(struct sd *d, unsigned ring, uint16_t idx);
uint16_t sd_used_idx(struct sd *d, unsigned ring);
