/* The byte account of one flow: charged when a packet is sent, discharged when the device is done with it.
 *
 * Bytes in flight, "a send was refused" and "closed" live in one word, so that every step is one atomic change: any
 * thread may charge while the queue's thread discharges, a refusal is never missed, and it is answered by exactly one
 * wake-up.  One packet may overshoot the limit. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* bytes, what TCP small queues would have at most at 1 Gbit/s and more */
#define FLOW_LIMIT_DEFAULT (128u * 1024)

struct flow {
        uint64_t state; /* bytes in flight << 2 | closed << 1 | refused */
        uint32_t limit;
};

enum {
        FLOW_WAKE = 1, /* a send was refused and would not be now: tell the sender, once */
        FLOW_LAST = 2, /* closed, and nothing is in flight any more: free it */
};

void flow_init(struct flow *f, uint32_t limit); /* 0: FLOW_LIMIT_DEFAULT */

/* True: `bytes` (> 0) are in flight.  False: over the limit, or closed; a wake-up will follow unless closed. */
bool flow_charge(struct flow *f, uint32_t bytes);

/* FLOW_* of what the caller has to do.  Also takes back a charge whose packet could not be sent. */
unsigned flow_discharge(struct flow *f, uint32_t bytes);

/* No more charges, no more wake-ups.  True: nothing is in flight, free it; else FLOW_LAST will come. */
bool flow_close(struct flow *f);

uint64_t flow_inflight(const struct flow *f);
