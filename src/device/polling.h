/* The busy-poll budget of one queue: how long to look for more work before sleeping.  See polling.c for the algorithm.
 *
 *      work done -> polling_begin --0--> sleep ------------------------------> polling_woke -> work
 *                        | deadline                                               ^
 *                        +-> look while polling_lasts() -> polling_hit -> work    |
 *                                |         +-> polling_yield (other work)         |
 *                                +-> polling_miss -> sleep -----------------------+
 *
 * An idle period is open from polling_begin() until polling_hit() or polling_woke() says that work has come.  It has one
 * deadline: beginning it again, after other work, gives the same one, or 0 when that has passed or the poll has missed.
 * So a wake-up without work never polls.  A zeroed struct never polls.  Time is in ns; owner: the worker. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define POLLING_GAPS 76 /* classes of idle periods, four an octave from 0.5 us on; the last is open */

/* Idle periods of late by their length, forgetting slowly. */
struct polling_history {
        uint32_t weight[POLLING_GAPS];
        uint32_t total;
        bool hit; /* the last one ended in a hit */
};

enum polling_step { POLLING_SET, POLLING_BEGIN, POLLING_HIT, POLLING_MISS, POLLING_YIELD, POLLING_WOKE };

/* One call and what came of it. */
struct polling_event {
        uint64_t now;
        uint64_t value;  /* POLLING_SET: poll_us; POLLING_BEGIN: the deadline that was decided, or 0 */
        uint64_t stolen; /* POLLING_HIT and others that end a poll: what polling_lasts() had seen */
        enum polling_step step;
};

struct polling_trace;

struct polling {
        uint64_t limit; /* the setting; 0: never */
        /* the open idle period */
        bool idle, polling, missed;
        uint64_t began, deadline; /* `deadline` 0: no poll in this one */
        uint64_t resumed;         /* where the poll that is under way began */
        uint64_t looked, stolen;  /* the last look; time between looks that was not ours */
        /* accounts, see polling.c; they may be overdrawn by one poll */
        int64_t loss, missing;
        uint64_t settled; /* when they were brought up to date */
        uint64_t allowance;
        uint64_t probe_at, probe_wait;
        bool was_short;                  /* the last idle period could have been polled through */
        struct polling_history after[2]; /* [was_short]: what follows long and short ones */
        /* counters */
        uint64_t hits, misses, poll_ns, miss_ns;
        struct polling_trace *trace; /* or NULL */
};

/* From the next idle period on; 0 stops polling.  What was learned stays. */
void polling_set(struct polling *p, uint32_t poll_us, uint64_t now);

/* What was learned goes; the setting, the counters and the trace stay. */
void polling_forget(struct polling *p, uint64_t now);

/* Work is done and published.  Returns when to stop looking, or 0: sleep at once. */
uint64_t polling_begin(struct polling *p, uint64_t now);

/* At each look: false when the deadline has come.  Time that a look cannot have taken was another thread's: whoever shares
 * a CPU should call sched_yield() between looks, so that a thread that waits gets it, and shows. */
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

/* Makes a recorded call again.  False: it comes out otherwise. */
bool polling_repeat(struct polling *p, const struct polling_event *e);

/* Runs the record again: t->n when every decision comes out the same, else the place of the first that does not. */
unsigned polling_replay(const struct polling_trace *t);

/* ---- inline ---- */

/* ns between two looks that only another thread can have used; a look takes 2 us at most */
#define POLLING_STOLEN 10000

static inline bool polling_lasts(struct polling *p, uint64_t now)
{
        if (now - p->looked > POLLING_STOLEN)
                p->stolen += now - p->looked;
        p->looked = now;
        return now < p->deadline;
}
