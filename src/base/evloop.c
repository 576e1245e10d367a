#include "base/evloop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

struct evloop {
        int epfd;
        struct ev_watch *watches;
        uint64_t turn;
        /* events being handed out; a watch that is removed meanwhile is struck off here */
        struct epoll_event *batch;
        int n_batch;
};

#define EV_BATCH 16 /* events a turn */

int evloop_new(struct evloop **ret_loop)
{
        struct evloop *loop = calloc(1, sizeof(*loop));

        if (!loop)
                return -ENOMEM;
        loop->epfd = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epfd < 0) {
                int r = -errno;

                free(loop);
                return r;
        }
        *ret_loop = loop;
        return 0;
}

void evloop_free(struct evloop *loop)
{
        if (!loop)
                return;
        close(loop->epfd);
        free(loop);
}

int evloop_fd(const struct evloop *loop)
{
        return loop->epfd;
}

int evloop_add(struct evloop *loop, struct ev_watch *w, int fd, uint32_t events)
{
        struct epoll_event ev = { .events = events, .data.ptr = w };

        if (fd >= 0 && epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
                return -errno;
        w->fd = fd;
        w->deadline = NEVER;
        w->next = loop->watches;
        loop->watches = w;
        return 0;
}

int evloop_modify(struct evloop *loop, struct ev_watch *w, uint32_t events)
{
        struct epoll_event ev = { .events = events, .data.ptr = w };

        return epoll_ctl(loop->epfd, EPOLL_CTL_MOD, w->fd, &ev) < 0 ? -errno : 0;
}

void evloop_remove(struct evloop *loop, struct ev_watch *w)
{
        struct ev_watch **p = loop ? &loop->watches : NULL;

        while (p && *p && *p != w)
                p = &(*p)->next;
        if (!p || !*p)
                return;
        *p = w->next;
        if (w->fd >= 0)
                epoll_ctl(loop->epfd, EPOLL_CTL_DEL, w->fd, NULL);
        for (int i = 0; i < loop->n_batch; i++)
                if (loop->batch[i].data.ptr == w)
                        loop->batch[i].data.ptr = NULL;
        w->fd = -1;
        w->next = NULL;
}

void evloop_deadline(struct evloop *loop, struct ev_watch *w, uint64_t deadline)
{
        (void)loop;
        w->deadline = deadline;
}

uint64_t evloop_next(const struct evloop *loop)
{
        uint64_t next = NEVER;

        for (const struct ev_watch *w = loop->watches; w; w = w->next)
                next = MIN(next, w->deadline);
        return next;
}

static struct ev_watch *find_expired(const struct evloop *loop, uint64_t now)
{
        for (struct ev_watch *w = loop->watches; w; w = w->next)
                if (w->deadline <= now && w->turn != loop->turn)
                        return w;
        return NULL;
}

/* A handler may change the list, so the search starts over after each; deadlines are few.  One that sets its own deadline to a time
 * that has come is served again in the next turn, so that nothing else starves. */
static void run_expired(struct evloop *loop, uint64_t now)
{
        struct ev_watch *w;

        loop->turn++;
        while ((w = find_expired(loop, now))) {
                w->deadline = NEVER;
                w->turn = loop->turn;
                w->expired(w, now);
        }
}

int evloop_dispatch(struct evloop *loop, uint64_t deadline)
{
        struct epoll_event batch[EV_BATCH];
        uint64_t now = clock_now(), until = MIN(deadline, evloop_next(loop));
        uint64_t left = clock_until(until, now);
        struct timespec t = { .tv_sec = (time_t)(left / NSEC_PER_SEC),
                              .tv_nsec = (long)(left % NSEC_PER_SEC) };
        int n = epoll_pwait2(loop->epfd, batch, EV_BATCH, until == NEVER ? NULL : &t, NULL);

        if (n < 0)
                return errno == EINTR ? 0 : -errno;
        loop->batch = batch;
        loop->n_batch = n;
        for (int i = 0; i < n; i++) {
                struct ev_watch *w = batch[i].data.ptr;

                if (w)
                        w->ready(w, batch[i].events);
        }
        loop->n_batch = 0;
        run_expired(loop, clock_now());
        return 0;
}
