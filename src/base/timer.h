/* The deadline of a thread that sleeps in epoll and moves it all the time.
 *
 * A timeout given to the sleep itself is armed before it and disarmed after it, and in a virtual machine each of the two may leave the
 * guest: measured, that takes longer than the sleep and the wake-up together.  This timer stays armed over many sleeps, and only an
 * earlier deadline arms it anew.  One that was moved away therefore rings for nothing: look at the clock, and sleep again. */
#pragma once
#include <stdint.h>

struct timer {
        int fd;      /* watch it edge-triggered: nobody reads it */
        uint64_t at; /* armed for (ns, monotonic); when that has passed, no more */
};

/* 0 or -errno. */
int timer_init(struct timer *t);
void timer_done(struct timer *t);

/* It rings at `deadline` at the latest, if that is not NEVER.  What rang until `now` need not have been seen. */
void timer_set(struct timer *t, uint64_t deadline, uint64_t now);
