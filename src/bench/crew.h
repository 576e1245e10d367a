/* Threads that each sleep on an epoll set of their own and serve what becomes ready; and what they count.
 *
 * A thing to be served begins with a struct watch.  It belongs to one thread at a time: crew_add() hands it over. */
#pragma once
#include <pthread.h>
#include <stdint.h>

#include "bench/latency.h"

/* One thread writes, others may read. */
struct tally {
        uint64_t bytes, packets, retries;
        struct latency latency; /* of the transactions: their number is its total */
};
void tally_merge(struct tally *ret, const struct tally *from);
void tally_subtract(struct tally *ret, const struct tally *before);

struct crew_member;

struct watch {
        int fd;
        void (*ready)(struct crew_member *m, struct watch *w, uint32_t events);
};

struct crew_member {
        pthread_t thread;
        int epoll, stop;
        unsigned index;
        void *ctx; /* of crew_init() */
        void (*tick)(struct crew_member *m);
        int tick_ms;
        struct tally tally;
        uint8_t *buffer; /* CREW_BUFFER bytes of scratch room */
};

#define CREW_BUFFER (256 * 1024)

struct crew {
        unsigned n;
        int stop;
        struct crew_member *members;
};

/* `tick`, if not NULL, is called on each thread at least every `tick_ms`.  The threads run from crew_go() on.  0 or -errno. */
int crew_init(struct crew *c, unsigned n, void *ctx, void (*tick)(struct crew_member *m), int tick_ms);
int crew_go(struct crew *c);
/* Ends the threads and waits for them.  Of a zeroed crew: nothing. */
void crew_done(struct crew *c);

/* CPU time of a thread, or of all of a crew's, in ns. */
uint64_t thread_cpu_ns(pthread_t thread);
uint64_t crew_cpu_ns(const struct crew *c);

/* Any thread.  From now on `w` is the member's.  0 or -errno. */
int crew_add(struct crew_member *m, struct watch *w, uint32_t events);
/* The member's own thread. */
void crew_change(struct crew_member *m, struct watch *w, uint32_t events);
void crew_remove(struct crew_member *m, struct watch *w);
