#include "bench/crew.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"

#define EVENTS 64 /* served between two looks at the epoll set */

void tally_merge(struct tally *ret, const struct tally *from)
{
        ret->bytes += load_relaxed(&from->bytes);
        ret->packets += load_relaxed(&from->packets);
        ret->retries += load_relaxed(&from->retries);
        latency_merge(&ret->latency, &from->latency);
}

void tally_subtract(struct tally *ret, const struct tally *before)
{
        ret->bytes -= before->bytes;
        ret->packets -= before->packets;
        ret->retries -= before->retries;
        latency_subtract(&ret->latency, &before->latency);
}

int crew_init(struct crew *c, unsigned n, void *ctx, void (*tick)(struct crew_member *m), int tick_ms)
{
        *c = (struct crew){ .members = calloc(n, sizeof(*c->members)) };
        if (!c->members)
                return -ENOMEM;
        c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (unsigned i = 0; i < n && c->stop >= 0; i++) {
                struct crew_member *m = &c->members[i];
                struct epoll_event stop = { .events = EPOLLIN };

                *m = (struct crew_member){
                        .index = i, .ctx = ctx, .tick = tick, .tick_ms = tick ? tick_ms : -1
                };
                m->stop = c->stop;
                m->epoll = epoll_create1(EPOLL_CLOEXEC);
                m->buffer = calloc(1, CREW_BUFFER);
                c->n++;
                if (m->epoll < 0 || !m->buffer || epoll_ctl(m->epoll, EPOLL_CTL_ADD, c->stop, &stop) < 0)
                        break;
                if (i + 1 == n)
                        return 0;
        }
        crew_done(c);
        return -ENOMEM;
}

static void *run(void *arg)
{
        struct crew_member *m = arg;

        for (;;) {
                struct epoll_event events[EVENTS];
                int n = epoll_wait(m->epoll, events, EVENTS, m->tick_ms);

                for (int i = 0; i < n; i++) {
                        struct watch *w = events[i].data.ptr;

                        if (!w) /* the eventfd: nobody reads it, so every thread sees it */
                                return NULL;
                        w->ready(m, w, events[i].events);
                }
                if (m->tick)
                        m->tick(m);
        }
}

int crew_go(struct crew *c)
{
        for (unsigned i = 0; i < c->n; i++) {
                int r = pthread_create(&c->members[i].thread, NULL, run, &c->members[i]);

                if (r) {
                        c->members[i].thread = 0;
                        return -r;
                }
        }
        return 0;
}

void crew_done(struct crew *c)
{
        if (!c->members)
                return;
        if (c->stop >= 0)
                eventfd_write(c->stop, 1);
        for (unsigned i = 0; i < c->n; i++) {
                struct crew_member *m = &c->members[i];

                if (m->thread)
                        pthread_join(m->thread, NULL);
                if (m->epoll >= 0)
                        close(m->epoll);
                free(m->buffer);
        }
        if (c->stop >= 0)
                close(c->stop);
        free(c->members);
        *c = (struct crew){ 0 };
}

uint64_t thread_cpu_ns(pthread_t thread)
{
        struct timespec t;
        clockid_t clock;

        if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &t) < 0)
                return 0;
        return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

uint64_t crew_cpu_ns(const struct crew *c)
{
        uint64_t ns = 0;

        for (unsigned i = 0; i < c->n; i++)
                ns += thread_cpu_ns(c->members[i].thread);
        return ns;
}

static int change(struct crew_member *m, int op, struct watch *w, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.ptr = w };

        return epoll_ctl(m->epoll, op, w->fd, &event) < 0 ? -errno : 0;
}

int crew_add(struct crew_member *m, struct watch *w, uint32_t events)
{
        return change(m, EPOLL_CTL_ADD, w, events);
}

void crew_change(struct crew_member *m, struct watch *w, uint32_t events)
{
        change(m, EPOLL_CTL_MOD, w, events);
}

void crew_remove(struct crew_member *m, struct watch *w)
{
        change(m, EPOLL_CTL_DEL, w, 0);
}
