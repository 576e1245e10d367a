/* Byte queue limit of one tx queue: as few bytes in flight as keep the device busy.  See bql.c for the algorithm.
 *
 * A packet gets a ticket when it is charged; the slot keeps it and gives it back at completion.  So a packet that was
 * charged is uncharged whatever the mode is by then, and a ticket of an older epoch is recognised and dropped.
 * A zeroed struct is off: it charges nothing and always has room.  Time is in ns; owner: the queue's thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

#define BQL_LIMIT_MAX (1u << 30) /* bytes; no ring holds as much */

struct bql_ticket {
        uint32_t bytes; /* 0: not charged */
        uint32_t epoch;
};

struct bql {
        bool on;
        uint32_t epoch;
        uint32_t limit, limit_min;  /* bytes */
        uint64_t queued, completed; /* bytes of this epoch, ever; `completed` as of the last update */
        uint64_t done;              /* bytes uncharged since the last update */
        uint64_t allowed;           /* how far `queued` may go: completed + limit, as of the last update */
        uint32_t last;              /* bytes of the last charge */
        /* as they were at the last update */
        uint64_t prev_queued;
        uint32_t prev_over; /* how far the interval before it was over its limit */
        uint32_t prev_last;
        uint32_t slack; /* the least since slack_since */
        uint64_t slack_since;
        uint64_t late; /* tickets of an older epoch that came back */
};

/* Whether packets are charged from now on (off: orphan mode, or the option); those in flight keep their tickets. */
void bql_enable(struct bql *b, bool on);

/* What was in flight will not complete, or has been flushed: a new epoch with the least limit. */
void bql_reset(struct bql *b, uint64_t now);

static inline uint64_t bql_inflight(const struct bql *b)
{
        return b->queued - b->completed - b->done;
}

/* True if a packet may be charged; it may overshoot the limit by its own length. */
static inline bool bql_room(const struct bql *b)
{
        return !b->on || b->queued <= b->allowed;
}

static inline struct bql_ticket bql_charge(struct bql *b, uint32_t bytes)
{
        if (!b->on)
                return (struct bql_ticket){ .epoch = b->epoch };
        b->queued += bytes;
        b->last = bytes;
        return (struct bql_ticket){ .bytes = bytes, .epoch = b->epoch };
}

/* One completed packet; then, once a reap, bql_update() adjusts the limit. */
static inline void bql_uncharge(struct bql *b, struct bql_ticket t)
{
        if (unlikely(t.epoch != b->epoch)) {
                b->late++;
                return;
        }
        b->done += t.bytes;
}

void bql_update(struct bql *b, uint64_t now);
