/* Whose thread a pair is on.  A thread that makes an owner call takes the pair; control, which wants to change something, runs
 * on the owner through its mailbox, or does it itself while the pair has no owner or is its own.  The word `owner` settles
 * each case by one compare-and-swap, so neither side waits for a thread that is not there. */
#include <poll.h>
#include <sched.h>

#include "driver/driver.h"

/* a poll takes microseconds; a program's callbacks may take longer, and then nothing is lost */
#define STUCK_MS      100
#define OWNER_NONE    0
#define OWNER_CONTROL 1 /* control is at work in a pair that nobody owns */

_Thread_local char drv_self;

static bool take(struct drv_pair *p, uintptr_t from, uintptr_t to)
{
        return __atomic_compare_exchange_n(&p->owner, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The program hands a pair over by vw_driver_leave(), or by ending the thread that had it. */
void drv_claim_slow(struct drv_pair *p, uintptr_t self)
{
        for (;;) {
                uintptr_t owner = load_acquire(&p->owner);

                if (owner == OWNER_CONTROL && load_relaxed(&p->control) == self)
                        return; /* a callback of what control does: the pair is its own */
                if (owner == OWNER_CONTROL)
                        sched_yield(); /* for as long as a setting takes */
                else if (take(p, owner, self))
                        return;
        }
}

/* A device may have filled a kick fd to the brim and made it blocking between our look and our write; then the owner hangs in
 * that kick.  Making room lets it go on. */
static void unclog(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        if (fd >= 0 && poll(&p, 1, 0) == 0 && drv_read_bell(fd))
                drv_ring_bell(fd);
}

void drv_run_on_owner(struct drv_pair *p, void (*fn)(void *arg), void *arg)
{
        if (load_acquire(&p->owner) == drv_thread_self()) {
                fn(arg);
                return;
        }
        /* Pairs with vw_driver_leave(): either we see that nobody owns it, or the leaver sees that we wait. */
        __atomic_store_n(&p->control_waits, 1, __ATOMIC_SEQ_CST);
        if (take(p, OWNER_NONE, OWNER_CONTROL)) {
                store_relaxed(&p->control, drv_thread_self());
                fn(arg);
                store_relaxed(&p->control, (uintptr_t)0);
                store_release(&p->owner, OWNER_NONE);
        } else {
                mailbox_post(&p->mailbox, fn, arg);
                while (!mailbox_wait(&p->mailbox, STUCK_MS)) {
                        unclog(p->rx_kick);
                        unclog(p->tx_kick);
                }
        }
        store_release(&p->control_waits, 0);
}

VW_API void vw_driver_leave(struct vw_driver *drv, unsigned pair)
{
        struct drv_pair *p = &drv->pairs[pair];
        uintptr_t self = drv_thread_self();

        while (take(p, self, OWNER_NONE)) {
                if (!__atomic_load_n(&p->control_waits, __ATOMIC_SEQ_CST) || !take(p, OWNER_NONE, self))
                        return;
                while (load_acquire(&p->control_waits)) {
                        mailbox_serve(&p->mailbox);
                        sched_yield();
                }
        }
}
