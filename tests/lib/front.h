/* A front end and a driver in the test's hands, joined by a real session to a real vw_device in the same process: its
 * control thread and its workers run, the test writes rings and reads them.
 *
 *      struct front f;
 *      front_open(&f, &config);
 *      front_connect(&f, features, 256);
 *      front_send(&f, 0, frame, len, NULL);  front_kick(&f, 1);
 *      EXPECT_SOON(front_reap(&f, 1) == 1);
 *      front_close(&f);
 *
 * Shared memory is one memfd: the rings, then FRONT_SLOTS buffers of FRONT_SLOT bytes for each queue.  Around our mapping of it
 * lie pages that nobody may touch. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ring/vq.h"
#include "vhost/frontend.h"
#include "virtio/features.h"
#include "vwire/device.h"

#define FRONT_QUEUES 17 /* eight pairs and a control queue */
#define FRONT_SLOTS  1024
#define FRONT_SLOT   2048
#define FRONT_HDR    12 /* bytes of header under VERSION_1 */
#define FRONT_GPA    UINT64_C(0x40000000)
#define FRONT_UVA    UINT64_C(0x7e0000000000)

struct front_queue {
        struct vq_driver vq;
        struct vq_config cfg;
        int kick, call, err;
        unsigned next_slot;
        uint64_t calls; /* read from the call fd so far */
};

struct front {
        struct vw_device *dev;
        pthread_t control;
        pthread_mutex_t lock; /* of the device's control calls */
        int bell;             /* wakes it to stop */
        bool stop;
        unsigned left; /* how often the device said that the front end has left */
        struct vu_frontend fe;
        int memfd;
        uint8_t *va;
        size_t bytes, bufs;
        uint8_t *shadow, *loose; /* see front_shadow() */
        unsigned pairs, n_queues, size;
        uint64_t features;
        struct front_queue q[FRONT_QUEUES];
};

/* the device and its control thread */
void front_open(struct front *f, const struct vw_device_config *config);
void front_close(struct front *f);

/* A session, up to and with enabled rings of `size` entries. */
void front_connect(struct front *f, uint64_t features, unsigned size);
/* Its parts: up to and with the memory table; one ring, new, in place of the one that was there; its start. */
void front_hello(struct front *f, uint64_t features, unsigned size);
void front_ring(struct front *f, unsigned index);
void front_start(struct front *f, unsigned index);
void front_renew(struct front *f, unsigned index); /* stops it; the same queue from its beginning, enabled */
void front_disconnect(struct front *f);
uint32_t front_stop(struct front *f, unsigned index); /* GET_VRING_BASE */

/* Memory: slot `i` of a queue as each side calls it. */
uint64_t front_gpa(const struct front *f, unsigned index, unsigned slot);
uint8_t *front_slot(const struct front *f, unsigned index, unsigned slot);

/* From now on it is known what stands in the memory outside of the rings: a pattern, what we put there (front_send() and
 * front_command() tell by themselves, others by front_wrote()), and anything where the device may write (front_add() tells).
 * front_intact() says whether the device has kept to that. */
void front_shadow(struct front *f);
void front_wrote(struct front *f, const void *at, size_t len);
void front_may_write(struct front *f, uint64_t gpa, uint64_t len);
bool front_intact(const struct front *f);

/* Offers a frame behind a header (NULL: zero) in one piece.  False: no room. */
bool front_send(struct front *f, unsigned pair, const void *frame, uint32_t len,
                const struct vw_net_hdr *hdr);
/* Offers n receive buffers of `len` bytes; returns how many there was room for. */
unsigned front_post(struct front *f, unsigned pair, unsigned n, uint32_t len);
/* Offers pieces as they are; the cookie is 1 + slot. */
bool front_add(struct front *f, unsigned index, const struct vq_piece *pieces, unsigned n_out, unsigned n_in,
               unsigned slot);
void front_kick(struct front *f, unsigned index);     /* publish, and wake the device if it wants that */
void front_kick_raw(struct front *f, unsigned index); /* wake it anyway */
/* The ring itself, for words that are no honest driver's; and the next avail entry, published at once. */
struct vring_split *front_raw(struct front *f, unsigned index);
void front_raw_offer(struct front *f, unsigned index, uint16_t head);
/* Takes back used buffers into `used` (NULL: forgotten); how many. */
unsigned front_reap(struct front *f, unsigned index, struct vq_used *used, unsigned max);
/* Reads the call fd; how many calls there have been in all. */
uint64_t front_calls(struct front *f, unsigned index);

/* One control command; its ack, or -1 if there was none in time. */
int front_command(struct front *f, const void *bytes, uint32_t len, void *reply, uint32_t reply_len);

void front_all_stats(struct front *f, struct vw_stats *ret_stats);
struct vw_queue_stats front_stats(struct front *f, unsigned index);
uint64_t front_drops(const struct vw_queue_stats *s); /* the sum over all reasons */

/* Waits up to five seconds for what other threads are about to do. */
#define EXPECT_SOON(cond)                                                                                    \
        do {                                                                                                 \
                uint64_t until_ = front_now() + UINT64_C(5000000000);                                        \
                bool came_;                                                                                  \
                while (!(came_ = (cond)) && front_now() < until_)                                            \
                        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);                             \
                if (!came_)                                                                                  \
                        print_error("not in time: %s\n", #cond);                                             \
                EXPECT(came_);                                                                               \
        } while (0)
uint64_t front_now(void);
