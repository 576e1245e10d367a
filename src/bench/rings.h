/* What a virtqueue costs alone, without ports and without notifications: packets a second between two threads that poll, and
 * instructions a packet of either half. */
#pragma once
#include <stdbool.h>

struct rings_load {
        unsigned layout;  /* enum vq_layout */
        bool rx;          /* writable chains; else readable ones */
        unsigned entries; /* of the ring */
        unsigned size;    /* bytes that the device copies for each packet; 0: it looks at none */
};

/* Millions of packets a second, of a run of about `ms`; NAN if there is no memory. */
double rings_speed(const struct rings_load *load, unsigned ms);

/* Counted one by one, by single-stepping a process that does it.  False where that is not allowed. */
bool rings_instructions(const struct rings_load *load, double *ret_driver, double *ret_device);
