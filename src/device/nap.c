/* A nap pays for whoever takes it: the driver makes no kick.  But two workers that nap on one CPU wake in each other's way, and both
 * are slower than if neither did, while each by itself is faster with than without; so it must not be left to a duel.  Who
 * gives way before a nap and has to wait has such a neighbour, and goes without naps for a while if that is more than one time in twenty. */
#include "device/nap.h"

#include "base/check.h"
#include "base/clock.h"

#define STOLEN    (10 * NSEC_PER_USEC) /* giving way takes half a microsecond if there is nobody */
#define DISTURBED 20
#define DEBT_MOST 40
#define ABSTAIN   NSEC_PER_SEC

bool nap_may(struct nap *n, uint64_t work, uint64_t now)
{
        if (n->work == work || now < n->until)
                return false;
        n->work = work;
        return true;
}

bool nap_alone(struct nap *n, uint64_t before, uint64_t now)
{
        if (now - before <= STOLEN) {
                n->debt -= n->debt > 0;
                return true;
        }
        n->debt += DISTURBED;
        if (n->debt > DEBT_MOST) {
                n->debt = 0;
                n->until = now + ABSTAIN;
        }
        return false;
}
