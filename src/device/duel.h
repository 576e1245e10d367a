/* Two ways of doing the same, in turn; the one that gets more done stays.  See duel.c.  Time is in ns; a zeroed struct begins with the
 * usual way. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct duel {
        bool unusual;         /* the way in force but for trials */
        bool trial;           /* of the other one, under way */
        unsigned kept, rest;  /* spans of the way in force since the last trial; how many there are to be */
        unsigned doubts;      /* changes, as far as they count */
        int score;            /* evidence for the other one */
        uint64_t began, work; /* of the span under way */
        uint64_t rate;        /* work in 2^20 ns, of the last spans of the way in force */
};

/* Which way to go on from `now`, when `work` has been done in all: true for the unusual one.  Call it often. */
bool duel_unusual(struct duel *d, uint64_t work, uint64_t now);
