/* A timer that only an earlier deadline arms anew.  What the kernel says it is armed for is the reference; nothing waits for it. */
#include "base/timer.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "test.h"

#define HOUR (3600 * NSEC_PER_SEC)

/* Nanoseconds that are left until it rings; 0: it is not armed, or has rung. */
static uint64_t left(const struct timer *t)
{
        struct itimerspec spec;

        EXPECT_EQ(timerfd_gettime(t->fd, &spec), 0);
        return (uint64_t)spec.it_value.tv_sec * NSEC_PER_SEC + (uint64_t)spec.it_value.tv_nsec;
}

static bool rung(const struct timer *t)
{
        struct pollfd p = { .fd = t->fd, .events = POLLIN };

        return poll(&p, 1, 0) == 1;
}

TEST(timer, only_an_earlier_deadline_arms_it)
{
        uint64_t now = clock_now();
        struct timer t;

        EXPECT_EQ(timer_init(&t), 0);
        timer_set(&t, NEVER, now);
        EXPECT_EQ(left(&t), 0);
        timer_set(&t, now + 2 * HOUR, now);
        EXPECT(left(&t) > HOUR && left(&t) <= 2 * HOUR);
        timer_set(&t, now + 3 * HOUR, now);
        timer_set(&t, NEVER, now);
        EXPECT(left(&t) <= 2 * HOUR);
        timer_set(&t, now + HOUR, now);
        EXPECT(left(&t) > 0 && left(&t) <= HOUR);
        EXPECT(!rung(&t));
        timer_done(&t);
}

TEST(timer, a_deadline_that_has_passed_rings_at_once)
{
        static const uint64_t passed[] = { 0, 1, NSEC_PER_SEC };

        for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
                struct timer t;

                EXPECT_EQ(timer_init(&t), 0);
                timer_set(&t, passed[i], clock_now());
                EXPECT(rung(&t));
                timer_done(&t);
        }
}

/* Whether somebody saw that it rang does not matter. */
TEST(timer, after_it_has_rung_any_deadline_arms_it)
{
        uint64_t now = clock_now();
        struct timer t;

        EXPECT_EQ(timer_init(&t), 0);
        timer_set(&t, now - 1, now);
        EXPECT(rung(&t));
        timer_set(&t, now + HOUR, now);
        EXPECT(left(&t) > 0);
        EXPECT(!rung(&t));
        timer_done(&t);
}
