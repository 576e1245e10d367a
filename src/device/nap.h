/* May the worker nap?  A nap is a sleep of some microseconds with kicks off, see duel.h.  Time is in ns; a zeroed struct may. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct nap {
        uint64_t work;  /* that had been done at the last one */
        uint64_t until; /* none before: somebody else wants the CPU */
        unsigned debt;  /* what naps have disturbed of late */
};

/* True, once for each time that there has been work: then the caller lets others have the CPU and tells how long that took. */
bool nap_may(struct nap *n, uint64_t work, uint64_t now);
/* True: still. */
bool nap_alone(struct nap *n, uint64_t before, uint64_t now);
