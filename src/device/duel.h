/* Ways of waiting for work; the one with which most gets done stays.  See duel.c.  Time is in ns; a zeroed struct begins with the
 * first way. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum duel_way {
        DUEL_POLL, /* looks for work without a pause */
        DUEL_NAP, /* looks once more after some microseconds, and has itself woken only if nothing is there */
        DUEL_SLEEP, /* has itself woken at once */
        DUEL_WAYS
};

enum duel_step { DUEL_FORGET, DUEL_SPAN };

/* One call that ended a span, or that forgot, and what came of it. */
struct duel_event {
        uint64_t now, work;
        enum duel_step step;
        enum duel_way way;
};

struct duel_trace {
        struct duel_event *events;
        unsigned n, max;
};

struct duel {
        enum duel_way way, other; /* in force but for trials; the one that is tried, or was last */
        bool asking;              /* which of the two is better: they are in force in turn */
        bool trial;               /* the other one is */
        bool settling;            /* the first span after a change: it is not judged */
        unsigned kept, rest;      /* spans since the last question; how many there are to be */
        unsigned refused;         /* questions since the last change */
        unsigned doubts;          /* changes, as far as they count */
        uint64_t began, work;     /* of the span under way */
        uint64_t rate;            /* work in 2^20 ns, of the last span of the way in force */
        unsigned pairs;           /* answers to the question */
        int64_t sum, squares;     /* of what the other way gained in each pair, in 1024ths */
        struct duel_trace *trace; /* or NULL */
};

/* Which way to go on from `now`, when `work` has been done in all.  Call it often. */
enum duel_way duel_way(struct duel *d, uint64_t work, uint64_t now);

/* The load is another one: what was learned goes, the trace stays. */
void duel_forget(struct duel *d, uint64_t now);

/* Records from now on, from the beginning: what was learned goes.  When the events are used up recording ends. */
void duel_trace_begin(struct duel *d, struct duel_trace *t, struct duel_event *events, unsigned max);
void duel_trace_end(struct duel *d);

/* Makes a recorded call again.  False: it comes out otherwise. */
bool duel_repeat(struct duel *d, const struct duel_event *e);
