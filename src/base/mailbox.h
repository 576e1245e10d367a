/* How the control thread talks to a worker: one slot, one function.  The control thread posts and waits; the worker
 * runs the function at its next burst boundary and answers.  Only then does the control thread go on, so
 * what the function changed needs no lock and no flag.  The worker must never block, or control waits with it. */
#pragma once
#include <stdbool.h>

struct mailbox {
        int bell; /* eventfd; the worker sleeps on it among its other fds */
        /* posted by control (release), cleared by the worker (release) */
        void (*fn)(void *arg);
        void *arg;
        int done; /* eventfd; control sleeps on it */
        int owed; /* worker: rings of the bell that served posts have still to bring */
};

int mailbox_init(struct mailbox *mb);
void mailbox_done(struct mailbox *mb);

/* Control thread: fn(arg) runs on the worker, and has run when mailbox_wait() says so.  That is to be repeated until it returns true: in
 * between the caller can do something about a worker that does not answer. */
void mailbox_post(struct mailbox *mb, void (*fn)(void *arg), void *arg);
bool mailbox_wait(struct mailbox *mb, int timeout_ms);

/* Any thread: wakes the worker and says nothing.  The bell then stays rung until the next call: watch it edge-triggered. */
void mailbox_ring(struct mailbox *mb);

/* Worker: a cheap look, for busy loops. */
static inline bool mailbox_pending(const struct mailbox *mb)
{
        return __atomic_load_n(&mb->fn, __ATOMIC_RELAXED);
}

/* Worker, between bursts and when the bell has rung: runs what was posted.  Returns true if there was something.  No system
 * call without a post. */
bool mailbox_serve(struct mailbox *mb);
