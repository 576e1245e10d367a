#include "base/timer.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

int timer_init(struct timer *t)
{
        *t = (struct timer){
                .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
        };
        return t->fd < 0 ? -errno : 0;
}

void timer_done(struct timer *t)
{
        if (t->fd >= 0)
                close(t->fd);
        t->fd = -1;
}

void timer_set(struct timer *t, uint64_t deadline, uint64_t now)
{
        struct itimerspec spec = {
                .it_value = {.tv_sec = (time_t)(deadline / NSEC_PER_SEC),
                             .tv_nsec = (long)(deadline % NSEC_PER_SEC)}
        };

        if (deadline == NEVER || (t->at > now && t->at <= deadline))
                return;
        if (deadline == 0)
                spec.it_value.tv_nsec = 1; /* 0 would disarm it */
        check(timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0);
        t->at = deadline;
}
