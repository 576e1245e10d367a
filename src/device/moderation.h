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
struct moderation_run {
        uint32_t events, packets;
        uint32_t crowded; /* events with more than one packet outstanding */
        uint64_t span;    /* ns that it took; pauses are cut short */
};

enum moderation_phase {
        MODERATION_OFF, /* no holds; leaves to TRIAL when they would pay */
        MODERATION_TRIAL, /* holds; leaves to ON when the pace bears it, to CHECK when it seems not to, to OFF */
        MODERATION_CHECK, /* no holds, for as long as it takes to see whether the pace is better so; to ON or OFF */
        MODERATION_ON, /* holds; leaves to OFF when the load is too slow for them, to CHECK when it is another */
        MODERATION_PHASES
};

enum moderation_step { MODERATION_INIT, MODERATION_NOTE, MODERATION_APPLY, MODERATION_BESIDE };

/* One call and what came of it. */
struct moderation_event {
        uint64_t now;
        uint32_t n, outstanding; /* MODERATION_INIT: the bounds, in us and in frames */
        enum moderation_step step;
        enum moderation_phase next;
        bool holds;
};

struct moderation_trace;

struct moderation {
        struct moderation_profile profile; /* when on; either zero: never */
        enum moderation_phase phase;       /* in force */
        enum moderation_phase next;        /* asked for; not the same until moderation_apply() */
        uint64_t last;                     /* when the last publication was */
        uint64_t beside;                   /* when the pair's other queue last had a burst of a stream */

        /* the gate: whether a publication may be held */
        bool holds;          /* the last one may */
        bool joined;         /* something has happened during the hold under way */
        uint32_t held;       /* packets in it; 0: none is under way */
        uint64_t hold_began; /* of the last hold */
        uint32_t fruitless;  /* holds in a row that nothing joined */
        uint32_t shut;       /* publications until it opens again */

        /* the phase */
        int32_t score;                  /* evidence for leaving OFF, or for going back there */
        struct moderation_run run;      /* being measured */
        uint64_t pace_on, pace_off;     /* ns a packet, << 8 */
        uint32_t since_left;            /* publications since holds were given up as not paying */
        uint64_t entered;               /* the phase */
        uint64_t barred, penalty;       /* no trial before this time; how long the next bar is */
        uint64_t trusted;               /* how long a pace is not questioned */
        uint64_t changes;               /* times that holds were begun or given up */
        struct moderation_trace *trace; /* or NULL */
};

/* Holds within these bounds: 64 us and 64 packets, or less. */
void moderation_init(struct moderation *m, uint32_t usecs_max, uint32_t frames_max);

/* The same for one that is in use: its trace goes on. */
void moderation_reset(struct moderation *m, uint32_t usecs_max, uint32_t frames_max, uint64_t now);

/* `n` packets were published at `now`; `outstanding` counts these and those known to wait behind them (in the ring for
 * tx, in the port for rx); a GSO frame counts as the packets that it is on the wire.  True: time for a call.  Sets `c` as it decides. */
bool moderation_publish(struct moderation *m, struct coalesce *c, uint32_t n, uint32_t outstanding,
                        uint64_t now);

/* `n` packets, counted as on the wire, were published on the pair's other queue: a driver that goes on is not waiting for this one's call,
 * and a stream's acknowledgements are a part of it. */
void moderation_beside(struct moderation *m, uint32_t n, uint64_t now);

/* The decision alone.  True: moderation_wanted() should come into force; then call moderation_apply().  Not applying it
 * is fine: it goes on measuring, and asks again. */
bool moderation_note(struct moderation *m, uint32_t n, uint32_t outstanding, uint64_t now);
void moderation_apply(struct moderation *m, uint64_t now);

static inline bool moderation_phase_holds(enum moderation_phase phase)
{
        return phase == MODERATION_TRIAL || phase == MODERATION_ON;
}

static inline struct moderation_profile moderation_wanted(const struct moderation *m)
{
        return moderation_phase_holds(m->next) ? m->profile : (struct moderation_profile){ 0 };
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

/* Makes a recorded call again.  False: it comes out otherwise. */
bool moderation_repeat(struct moderation *m, const struct moderation_event *e);

/* Runs the record again: t->n when every decision comes out the same, else the place of the first that does not. */
unsigned moderation_replay(const struct moderation_trace *t);
