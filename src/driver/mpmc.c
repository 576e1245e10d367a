/* Cell i may be written in turn t when its turn is t * capacity + i, and read when it is one more; the reader sets it to what the
 * next round's writer waits for.  So turns count positions, and one comparison tells mine, not yet, and taken. */
#include "driver/mpmc.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"

int mpmc_init(struct mpmc *q, uint32_t capacity)
{
        check(capacity && !(capacity & (capacity - 1)));
        *q = (struct mpmc){ .cells = calloc(capacity, sizeof(*q->cells)), .mask = capacity - 1 };
        if (!q->cells)
                return -ENOMEM;
        for (uint32_t i = 0; i < capacity; i++)
                q->cells[i].turn = i;
        return 0;
}

void mpmc_done(struct mpmc *q)
{
        free(q->cells);
        *q = (struct mpmc){ .cells = NULL };
}

/* Draws the ticket at *end for a cell whose turn is ticket + offset; NULL when that turn has not come. */
static struct mpmc_cell *claim(struct mpmc *q, uint32_t *end, uint32_t offset, uint32_t *ret_ticket)
{
        uint32_t ticket = load_relaxed(end);

        for (;;) {
                struct mpmc_cell *c = &q->cells[ticket & q->mask];
                int32_t early = (int32_t)(ticket + offset - load_acquire(&c->turn));

                if (early > 0)
                        return NULL;
                if (early < 0) {
                        ticket = load_relaxed(end); /* another thread was faster */
                        continue;
                }
                if (__atomic_compare_exchange_n(end, &ticket, ticket + 1, true, __ATOMIC_RELAXED,
                                                __ATOMIC_RELAXED)) {
                        *ret_ticket = ticket;
                        return c;
                }
        }
}

bool mpmc_push(struct mpmc *q, uint32_t value)
{
        uint32_t ticket;
        struct mpmc_cell *c = claim(q, &q->tail, 0, &ticket);

        if (!c)
                return false;
        c->value = value;
        store_release(&c->turn, ticket + 1);
        return true;
}

void mpmc_put(struct mpmc *q, uint32_t value)
{
        while (!mpmc_push(q, value))
                sched_yield(); /* that reader was interrupted: it may need this CPU */
}

bool mpmc_pop(struct mpmc *q, uint32_t *ret_value)
{
        uint32_t ticket;
        struct mpmc_cell *c = claim(q, &q->head, 1, &ticket);

        if (!c)
                return false;
        *ret_value = c->value;
        store_release(&c->turn, ticket + q->mask + 1);
        return true;
}

bool mpmc_pending(const struct mpmc *q)
{
        uint32_t ticket = load_relaxed(&q->head);

        return load_acquire(&q->cells[ticket & q->mask].turn) == ticket + 1;
}
