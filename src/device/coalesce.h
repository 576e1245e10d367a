/* Interrupt coalescing of one queue: a call is worth sending once `frames` packets wait for it, or `usecs` after the
 * first of them.  With either at zero every publication is.  Whether the driver wants the call (flags, event index)
 * is asked afterwards, of the ring.
 *
 * Every function that returns true has let go of what was held and counts afresh from the next packet: the caller
 * now asks vq_device_call_needed() and signals.  A zeroed struct is "off".  Time is in ns; owner: the worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum coalesce_cause {
        COALESCE_FRAMES, /* enough packets waited */
        COALESCE_TIMER,  /* the first had waited long enough */
        COALESCE_FLUSH,  /* an exit: stop, disconnect, new call fd, full ring, parameters changed */
        COALESCE_CAUSES
};

struct coalesce {
        uint32_t usecs, frames; /* in force; set by coalesce_set() only */
        uint64_t pending;       /* packets published and not signalled */
        uint64_t since;         /* when the first of them was published */
        uint64_t held;          /* publications whose call was held back: the counter `calls_coalesced` */
        /* calls let go, by cause; those that were never held do not count */
        uint64_t released[COALESCE_CAUSES];
};

/* Down to VW_USECS_MAX and VW_FRAMES_MAX, for values that the guest chose. */
void coalesce_clamp(uint32_t *usecs, uint32_t *frames);

/* New parameters, as a pair.  True: what is held has become due under them. */
bool coalesce_set(struct coalesce *c, uint32_t usecs, uint32_t frames, uint64_t now);

/* `n` packets (0: none, false) were published at `now`.  True: time for a call. */
bool coalesce_note(struct coalesce *c, uint32_t n, uint64_t now);

/* When to look again, or NEVER when nothing is held.  For the sleep, not for each packet. */
uint64_t coalesce_deadline(const struct coalesce *c);
bool coalesce_due(const struct coalesce *c, uint64_t now);

/* Before the sleep and at the end of each turn: true when the deadline has come. */
bool coalesce_expire(struct coalesce *c, uint64_t now);

/* On every exit path: true when something was held. */
bool coalesce_flush(struct coalesce *c);
