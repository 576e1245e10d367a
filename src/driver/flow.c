#include "driver/flow.h"

#include "base/atomics.h"
#include "base/check.h"

enum { REFUSED = 1, CLOSED = 2 };
#define BYTES_SHIFT 2

static uint64_t bytes_of(uint64_t state)
{
        return state >> BYTES_SHIFT;
}

/* False: the state has changed; `seen` is what it is now. */
static bool change(struct flow *f, uint64_t *seen, uint64_t next)
{
        return __atomic_compare_exchange_n(&f->state, seen, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void flow_init(struct flow *f, uint32_t limit)
{
        *f = (struct flow){ .limit = limit ? limit : FLOW_LIMIT_DEFAULT };
}

bool flow_charge(struct flow *f, uint32_t bytes)
{
        uint64_t seen = load_relaxed(&f->state);
        uint64_t next;
        bool fits;

        check(bytes > 0);
        do {
                if (seen & CLOSED)
                        return false;
                fits = bytes_of(seen) < f->limit;
                next = fits ? seen + ((uint64_t)bytes << BYTES_SHIFT) : seen | REFUSED;
        } while (!change(f, &seen, next));
        return fits;
}

unsigned flow_discharge(struct flow *f, uint32_t bytes)
{
        uint64_t seen = load_relaxed(&f->state);
        uint64_t next;
        unsigned result;

        do {
                check(bytes_of(seen) >= bytes);
                next = seen - ((uint64_t)bytes << BYTES_SHIFT);
                result = 0;
                if (next & CLOSED) {
                        result = bytes_of(next) == 0 ? FLOW_LAST : 0;
                } else if (next & REFUSED && bytes_of(next) < f->limit) {
                        next &= ~(uint64_t)REFUSED;
                        result = FLOW_WAKE;
                }
        } while (!change(f, &seen, next));
        return result;
}

bool flow_close(struct flow *f)
{
        uint64_t before = __atomic_fetch_or(&f->state, CLOSED, __ATOMIC_ACQ_REL);

        check(!(before & CLOSED));
        return bytes_of(before) == 0;
}

uint64_t flow_inflight(const struct flow *f)
{
        return bytes_of(load_relaxed(&f->state));
}
