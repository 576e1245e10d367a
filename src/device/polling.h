/* The busy-poll budget of one queue: how long to look for more work before sleeping.  See polling.c for the algorithm.
 *
 *      work done -> polling_begin --0--> sleep ------------------------------> polling_woke -> work
 *                        | deadline                                               ^
 *                        +-> look while polling_lasts() -> polling_hit -> work    |
 *                                |         +-> polling_yield (other work)         |
 *                                +-> polling_miss -> sleep -----------------------+
 *
 * An idle period is open from polling_begin() until polling_hit() or polling_woke() says that work has come.  There is
 * one poll in an idle period at most: beginning it again gives the same deadline, or 0 when that has passed, so a
 * wake-up without work never polls.  A zeroed struct never polls.  Time is in ns; owner: the worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define POLLING_GAPS 76 /* classes of idle periods, four an octave from 0.5 us on; the last is open */

/* Idle periods of late by their length, forgetting slowly. */
struct polling_history {
        uint32_t weight[POLLING_GAPS];
        uint32_t total;
};

enum polling_step { POLLING_SET, POLLING_BEGIN, POLLING_HIT, POLLING_MISS, POLLING_YIELD, POLLING_WOKE };

/* One call and what came of it.  `value`: the setting, or the deadline that was decided. */
struct polling_event {
        uint64_t now, value;
        uint32_t stolen; /* us that the poll lost to other threads */
        uint8_t step;    /* enum polling_step */
};

struct polling_trace;

struct polling {
        uint64_t limit;    /* the setting; 0: never */
        uint64_t budget;   /* of the last decision, at most `limit` */
        uint64_t deadline; /* of the open poll */
        uint64_t began;    /* the open idle period, or NEVER */
        uint64_t looked;   /* last look of the open poll */
        uint64_t stolen;   /* time between two looks that was not ours */
        uint64_t settled;  /* when the accounts were brought up to date */
        int64_t loss;      /* may still be lost: grows with time and with hits, shrinks with misses */
        int64_t missing;   /* may still be missed: grows with time only */
        bool polling, was_short;
        struct polling_history after[2]; /* [was_short]: what followed long and short idle periods */
        uint64_t hits, misses, poll_ns, miss_ns;
        struct polling_trace *trace; /* or NULL */
};

/* `poll_us` 0 stops it; the history stays.  Changes nothing about a poll that is under way. */
void polling_set(struct polling *p, uint32_t poll_us, uint64_t now);

/* Work is done and published.  Returns when to stop looking, or 0: sleep at once. */
uint64_t polling_begin(struct polling *p, uint64_t now);

/* At each look: false when the deadline has come.  Sees by the clock when other threads want this CPU. */
static inline bool polling_lasts(struct polling *p, uint64_t now);

void polling_hit(struct polling *p, uint64_t now);   /* the poll found work of this queue */
void polling_miss(struct polling *p, uint64_t now);  /* it gave up: the queue will be slept on */
void polling_yield(struct polling *p, uint64_t now); /* it stopped for other work: neither */
void polling_woke(struct polling *p, uint64_t now);  /* work of this queue was found after a sleep */

/* ---- traces ---- */

/* A record of calls from a known state on.  The events are the caller's; when they are used up recording ends. */
struct polling_trace {
        struct polling start;
        struct polling_event *events;
        unsigned n, max;
};

void polling_trace_begin(struct polling *p, struct polling_trace *t, struct polling_event *events,
                         unsigned max);
void polling_trace_end(struct polling *p);

/* Runs the record again: returns t->n when every decision comes out the same, else the place of the first that does not. */
unsigned polling_replay(const struct polling_trace *t);

/* ---- inline ---- */

#define POLLING_STOLEN                                                                                       \
        10000 /* ns between two looks that only another thread can have used: a look takes 2 us at most */

static inline bool polling_lasts(struct polling *p, uint64_t now)
{
        if (now - p->looked > POLLING_STOLEN)
                p->stolen += now - p->looked;
        p->looked = now;
        return now < p->deadline;
}
