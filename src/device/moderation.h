/* Adaptive coalescing of one queue: which (usecs, frames) fit the load of the moment.  See moderation.c.
 *
 * After each publication: moderation_note(); when it returns true, give `wanted` to coalesce_set() and say so with
 * moderation_apply().  Not applying is fine: it goes on measuring and asks again.  A zeroed struct is off with no
 * hold allowed: use moderation_init().  Time is in ns; owner: the worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct moderation_profile {
        uint32_t usecs, frames;
};

#define MODERATION_PROFILES 4
extern const struct moderation_profile moderation_profiles[MODERATION_PROFILES]; /* [0] is off */

enum moderation_step { MODERATION_NOTE, MODERATION_APPLY };

/* One call and what came of it. */
struct moderation_event {
        uint64_t now;
        uint32_t n, outstanding;
        uint8_t step;   /* enum moderation_step */
        uint8_t wanted; /* the profile decided on */
};

struct moderation_trace;

struct moderation {
        unsigned level;  /* profile in force */
        unsigned wanted; /* profile asked for */
        unsigned top;    /* highest profile that the bounds allow */

        uint64_t last;     /* time of the last publication */
        uint64_t gap;      /* mean time between packets, 8 fraction bits */
        uint32_t together; /* mean share of packets that had company, of MODERATION_ONE */
        uint32_t seen;     /* packets since the last decision */
        uint32_t lonely; /* publications in a row of one packet that a hold would have kept waiting in vain */
        uint64_t barred[MODERATION_PROFILES];  /* not before this time */
        uint64_t penalty[MODERATION_PROFILES]; /* how long the next bar lasts */
        uint64_t entered;                      /* when the profile in force came into force */
        uint64_t gap_before;                   /* `gap` just before that */
        uint64_t changes;                      /* profiles applied */
        struct moderation_trace *trace;        /* or NULL */
};

/* Profiles stay within the bounds (VW_USECS_MAX and VW_FRAMES_MAX, or less). */
void moderation_init(struct moderation *m, uint32_t usecs_max, uint32_t frames_max);

/* `n` packets were published at `now`; `outstanding` counts these and those known to wait behind them (in the ring for
 * tx, in the port for rx).  True: moderation_wanted() should come into force. */
bool moderation_note(struct moderation *m, uint32_t n, uint32_t outstanding, uint64_t now);
void moderation_apply(struct moderation *m, uint64_t now);

static inline struct moderation_profile moderation_wanted(const struct moderation *m)
{
        return moderation_profiles[m->wanted];
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

/* Runs the record again: returns t->n when every decision comes out the same, else the place of the first that does not. */
unsigned moderation_replay(const struct moderation_trace *t);
