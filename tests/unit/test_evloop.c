/* The control loop: fds, deadlines, and handlers that remove each other. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/evloop.h"
#include "test.h"

/* A watch that counts and may act on another (or itself) from its handlers. */
struct probe {
        struct ev_watch watch;
        struct evloop *loop;
        struct probe *remove; /* when called */
        uint64_t again;       /* deadline to set when expired, if not 0 */
        unsigned ready, expired;
        uint64_t order; /* of the last call among all probes */
};

static uint64_t calls;

static void act(struct probe *p)
{
        p->order = ++calls;
        if (p->remove)
                evloop_remove(p->loop, &p->remove->watch);
}

static void on_ready(struct ev_watch *w, uint32_t events)
{
        struct probe *p = container_of(w, struct probe, watch);

        EXPECT(events & EPOLLIN);
        p->ready++;
        act(p);
}

static void on_expired(struct ev_watch *w, uint64_t now)
{
        struct probe *p = container_of(w, struct probe, watch);

        EXPECT(now > 0);
        EXPECT_EQ(w->deadline, NEVER);
        p->expired++;
        act(p);
        if (p->again)
                evloop_deadline(p->loop, w, p->again);
}

static int readable_fd(void)
{
        int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

        EXPECT(fd >= 0);
        return fd;
}

static void add(struct evloop *loop, struct probe *p, int fd)
{
        p->loop = loop;
        p->watch.ready = on_ready;
        p->watch.expired = on_expired;
        EXPECT_EQ(evloop_add(loop, &p->watch, fd, EPOLLIN), 0);
}

static struct evloop *new_loop(void)
{
        struct evloop *loop = NULL;

        EXPECT_EQ(evloop_new(&loop), 0);
        return loop;
}

TEST(evloop, calls_what_is_ready_until_it_is_read)
{
        struct evloop *loop = new_loop();
        struct pollfd poller = { .fd = evloop_fd(loop), .events = POLLIN };
        struct probe a = { .ready = 0 }, b = { .ready = 0 };
        int fa = readable_fd(), fb = eventfd(0, EFD_CLOEXEC);
        uint64_t n;

        add(loop, &a, fa);
        add(loop, &b, fb);
        EXPECT_EQ(poll(&poller, 1, 0), 1);
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready, 2);
        EXPECT_EQ(b.ready, 0);
        EXPECT_EQ(read(fa, &n, sizeof(n)), sizeof(n));
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready, 2);
        EXPECT_EQ(poll(&poller, 1, 0), 0);
        evloop_free(loop);
        close(fa);
        close(fb);
}

TEST(evloop, modify_changes_what_is_waited_for)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 };
        int fd = readable_fd();

        add(loop, &a, fd);
        EXPECT_EQ(evloop_modify(loop, &a.watch, 0), 0);
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready, 0);
        EXPECT_EQ(evloop_modify(loop, &a.watch, EPOLLIN), 0);
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready, 1);
        evloop_free(loop);
        close(fd);
}

TEST(evloop, deadlines_come_once)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 }, b = { .ready = 0 };

        add(loop, &a, -1);
        add(loop, &b, -1);
        EXPECT_EQ(evloop_next(loop), NEVER);
        evloop_deadline(loop, &a.watch, 1);
        evloop_deadline(loop, &b.watch, NEVER - 1);
        EXPECT_EQ(evloop_next(loop), 1);
        EXPECT_EQ(evloop_dispatch(loop, NEVER), 0); /* does not wait: one has come */
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.expired, 1);
        EXPECT_EQ(b.expired, 0);
        EXPECT_EQ(evloop_next(loop), NEVER - 1);
        evloop_free(loop);
}

TEST(evloop, waits_no_longer_than_the_nearest_deadline)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 };
        uint64_t start = clock_now();

        add(loop, &a, -1);
        evloop_deadline(loop, &a.watch, start + NSEC_PER_MSEC);
        while (!a.expired)
                EXPECT_EQ(evloop_dispatch(loop, NEVER), 0);
        EXPECT(clock_now() >= start + NSEC_PER_MSEC);
        evloop_free(loop);
}

/* Both are ready in one batch; whichever is called first removes the other. */
TEST(evloop, a_watch_removed_by_a_handler_is_not_called)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 }, b = { .ready = 0 };
        int fa = readable_fd(), fb = readable_fd();

        add(loop, &a, fa);
        add(loop, &b, fb);
        a.remove = &b;
        b.remove = &a;
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready + b.ready, 1);
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready + b.ready, 2);
        evloop_free(loop);
        close(fa);
        close(fb);
}

TEST(evloop, a_handler_may_remove_itself)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 }, b = { .ready = 0 };
        int fd = readable_fd();

        add(loop, &a, fd);
        add(loop, &b, -1);
        a.remove = &a;
        b.remove = &b;
        evloop_deadline(loop, &b.watch, 1);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.ready, 1);
        EXPECT_EQ(b.expired, 1);
        EXPECT_EQ(evloop_next(loop), NEVER);
        evloop_free(loop);
        close(fd);
}

TEST(evloop, an_expired_handler_may_remove_another_that_has_expired)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 }, b = { .ready = 0 }, c = { .ready = 0 };

        add(loop, &a, -1);
        add(loop, &b, -1);
        add(loop, &c, -1);
        evloop_deadline(loop, &a.watch, 1);
        evloop_deadline(loop, &b.watch, 1);
        evloop_deadline(loop, &c.watch, 1);
        a.remove = &b;
        b.remove = &a;
        EXPECT_EQ(evloop_dispatch(loop, 0), 0);
        EXPECT_EQ(a.expired + b.expired, 1);
        EXPECT_EQ(c.expired, 1);
        evloop_free(loop);
}

TEST(evloop, a_deadline_in_the_past_starves_nobody)
{
        struct evloop *loop = new_loop();
        struct probe a = { .again = 1 }, b = { .again = 1 };

        add(loop, &a, -1);
        add(loop, &b, -1);
        evloop_deadline(loop, &a.watch, 1);
        evloop_deadline(loop, &b.watch, 1);
        for (unsigned i = 1; i < 4; i++) {
                EXPECT_EQ(evloop_dispatch(loop, 0), 0);
                EXPECT_EQ(a.expired, i);
                EXPECT_EQ(b.expired, i);
        }
        evloop_free(loop);
}

TEST(evloop, removing_what_was_not_added_does_nothing)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 };

        evloop_remove(loop, &a.watch);
        add(loop, &a, -1);
        evloop_remove(loop, &a.watch);
        evloop_remove(loop, &a.watch);
        EXPECT_EQ(evloop_next(loop), NEVER);
        evloop_free(loop);
        evloop_free(NULL);
}

TEST(evloop, a_watch_can_be_added_again)
{
        struct evloop *loop = new_loop();
        struct probe a = { .ready = 0 };
        int fd = readable_fd();

        for (unsigned i = 1; i < 4; i++) {
                add(loop, &a, fd);
                EXPECT_EQ(evloop_dispatch(loop, 0), 0);
                EXPECT_EQ(a.ready, i);
                evloop_remove(loop, &a.watch);
                EXPECT_EQ(evloop_dispatch(loop, 0), 0);
                EXPECT_EQ(a.ready, i);
        }
        evloop_free(loop);
        close(fd);
}
