/* Two ways of doing the same; the one that gets more done stays.  See duel.c.  Time is in ns; a zeroed struct begins with the
 * usual way. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct duel {
        bool unusual;        /* the way in force but for trials */
        bool asking;         /* spans of the two ways in turn */
        bool trial;          /* one of the other way, under way */
        unsigned kept, rest; /* spans of the way in force since the last question; how many there are to be */
        unsigned doubts;     /* changes, as far as they count */
        uint64_t began, work; /* of the span under way */
        uint64_t rate;        /* work in 2^20 ns, of the last span of the way in force */
        unsigned pairs;       /* answers to the question */
        int64_t sum, squares; /* of what the other way gained in each pair, in 1024ths */
};

/* Which way to go on from `now`, when `work` has been done in all: true for the unusual one.  Call it often. */
bool duel_unusual(struct duel *d, uint64_t work, uint64_t now);
