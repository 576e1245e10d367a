/* Adaptive coalescing of one queue: whether to hold calls back, for the load of the moment.  See moderation.c.
 *
 * moderation_publish() stands where coalesce_note() stands on a queue that is not adaptive; it is made of the functions
 * below it, for whoever wants to know or refuse what it decides.  A zeroed struct never holds.  Time is in ns; owner: the
 * worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "device/coalesce.h"

struct moderation_profile {
        uint32_t usecs, frames;
};

/* Publications in a row and what they looked like. */
struct moderation_window {
        uint32_t events, packets;
        uint32_t crowded; /* events with more than one packet outstanding */
        uint64_t span;    /* ns between the one before the first and the last; pauses are cut short */
};

enum moderation_step { MODERATION_NOTE, MODERATION_APPLY };

/* One call and what came of it. */
struct moderation_event {
        uint64_t now;
        uint32_t n, outstanding;
        enum moderation_step step;
        bool wanted, holds;
};

struct moderation_trace;

struct moderation {
        struct moderation_profile profile; /* when on; either zero: never */
        bool on;                           /* in force */
        bool wanted;                       /* asked for; they differ until moderation_apply() */
        bool holds;                        /* the last publication may be held */
        uint64_t last;                     /* when it was */

        struct moderation_window window; /* being filled */
        struct moderation_window trial; /* all of the time since it went on, until that has shown its worth */
        bool proven;
        uint64_t pace; /* ns a packet: before it went on, then of the trial, << 8 */
        uint64_t mean; /* ns a packet since, slowly, << 8 */

        uint64_t hold_began; /* of the last hold */
        uint32_t held;       /* packets in it; 0: none is under way */
        bool joined;         /* another publication came within it */
        uint32_t fruitless;  /* holds in a row that nothing joined */

        uint64_t entered;               /* went on */
        bool left;                      /* because holds were fruitless: was that true? */
        uint64_t barred;                /* not on before this time */
        uint64_t penalty;               /* the next bar */
        uint64_t remeasure;             /* how long a pace is trusted */
        uint64_t changes;               /* times that it went on or off */
        struct moderation_trace *trace; /* or NULL */
};

/* Holds within these bounds: 64 us and 64 packets, or less. */
void moderation_init(struct moderation *m, uint32_t usecs_max, uint32_t frames_max);

/* `n` packets were published at `now`; `outstanding` counts these and those known to wait behind them (in the ring for
 * tx, in the port for rx).  True: time for a call.  Sets `c` as it decides. */
bool moderation_publish(struct moderation *m, struct coalesce *c, uint32_t n, uint32_t outstanding,
                        uint64_t now);

/* The decision alone.  True: moderation_wanted() should come into force; then call moderation_apply().  Not applying it
 * is fine: it goes on measuring, and asks again. */
bool moderation_note(struct moderation *m, uint32_t n, uint32_t outstanding, uint64_t now);
void moderation_apply(struct moderation *m, uint64_t now);

static inline struct moderation_profile moderation_wanted(const struct moderation *m)
{
        return m->wanted ? m->profile : (struct moderation_profile){ 0 };
}

/* Whether the publication just noted may wait, as far as the profile goes: if not, flush. */
static inline bool moderation_holds(const struct moderation *m)
{
        return m->holds;
}

/* ---- traces ---- */

/* A record of calls from a known state on.  The events are the caller's; when they are used up recording ends. */
struct moderation_trace {
        struct moderation start;
        struct moderation_event *events;
        unsigned n, max;
};

void moderation_trace_begin(struct moderation *m, struct moderation_trace *t, struct moderation_event *events,
                            unsigned max);
void moderation_trace_end(struct moderation *m);

/* Runs the record again: t->n when every decision comes out the same, else the place of the first that does not. */
unsigned moderation_replay(const struct moderation_trace *t);
