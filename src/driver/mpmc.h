/* A bounded queue of small numbers between any threads, without locks: each cell carries the turn at which it may be written
 * or read, so that a thread owns a cell from the moment its ticket is drawn until it passes the turn on.
 * Fixed capacity, no allocation after set-up; a full or empty queue is told apart without waiting. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct mpmc_cell {
        uint32_t turn;
        uint32_t value;
};

struct mpmc {
        struct mpmc_cell *cells;
        uint32_t mask;
        uint32_t head __attribute__((aligned(64))); /* next to read */
        uint32_t tail __attribute__((aligned(64))); /* next to write */
};

/* `capacity` is a power of two.  0 or -ENOMEM. */
int mpmc_init(struct mpmc *q, uint32_t capacity);
void mpmc_done(struct mpmc *q); /* a zeroed one too */

/* False: full. */
bool mpmc_push(struct mpmc *q, uint32_t value);
/* For a queue that holds all the numbers there are, so it cannot be full; but a reader of a lap ago may have drawn its ticket and
 * not passed its turn on yet.  Waits for that one store. */
void mpmc_put(struct mpmc *q, uint32_t value);
/* False: empty. */
bool mpmc_pop(struct mpmc *q, uint32_t *ret_value);

/* A cheap look.  True may be stale, false too; a sleeper fences first and looks again. */
bool mpmc_pending(const struct mpmc *q);
