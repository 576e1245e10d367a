/* What a virtqueue costs alone, without ports and without notifications: packets a second between two threads that poll, and
 * instructions a packet of either half. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define RINGS_BURST 32

struct rings_load {
        unsigned layout;  /* enum vq_layout */
        bool rx;          /* writable chains; else readable ones */
        unsigned entries; /* of the ring */
        unsigned size;    /* bytes that the device copies for each packet; 0: it looks at none */
        unsigned burst;   /* packets between two publications; 0: RINGS_BURST */
};

/* Both halves on one ring, to be taken a step at a time; polled, so nobody is called or kicked. */
struct rings;

struct rings *rings_new(const struct rings_load *load); /* NULL: no memory */
void rings_free(struct rings *r);                       /* NULL is fine */
/* Takes back what is done and offers a burst; how many that were together. */
unsigned rings_drive(struct rings *r);
/* Takes a burst and gives it back; how many that were. */
unsigned rings_serve(struct rings *r);
/* Offers what a ring holds when it is used: all of it for rx, half for tx. */
void rings_prime(struct rings *r);

struct rings_speed {
        uint64_t packets, ns, kicks, calls; /* the last two: that were wanted */
};

/* Until so many packets have come back, or so many ns have passed, by one thread that plays both halves, or two that poll, a CPU
 * each.  False: no memory. */
bool rings_speed(const struct rings_load *load, unsigned threads, uint64_t packets, uint64_t ns,
                 struct rings_speed *ret_speed);

/* Counted one by one, by single-stepping a process that does it.  False where that is not allowed. */
bool rings_instructions(const struct rings_load *load, double *ret_driver, double *ret_device);
