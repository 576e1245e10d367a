/* The worker thread: the loop that the device half exists for.
 *
 *      mailbox -> queues in turns -> more to do? ---------------- yes --> look at the fds, again
 *                                      no -> busy poll: found? -- yes --> again
 *                                              no -> ask for kicks: more came? yes --> again
 *                                                      no -> sleep until an fd or the nearest deadline, again
 *
 * What is finished has been published and signalled (or its call has a deadline) before the loop comes to a place where it waits.
 * Fds are watched edge-triggered: an event sets a flag, and the flag falls when a call finds nothing.  So a fd that has
 * more than can be taken now, such as a tap whose guest has no buffers, does not wake anybody again and again.
 * The clock is read here and nowhere below. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/notify.h"
#include "device/queue.h"

#define EVENTS 64 /* taken from epoll at once */
/* at the ring of a driver without a kick fd: 5 us of work each, a tenth of a CPU */
#define LOOK_INTERVAL (50 * NSEC_PER_USEC)
#define NAP           (8 * NSEC_PER_USEC) /* with the wake-up a dozen: what a kick and a wake-up by it take */
#define RETRY_FIRST   (1 * NSEC_PER_MSEC) /* after the second error of a port in a row; doubles each time */
#define RETRY_DOUBLES 9                   /* up to half a second: a port that is gone costs nothing */

/* ---- what is ready ---- */

static bool lane_readable(const struct dev_lane *lane, uint64_t now)
{
        if (lane->retry_at > now)
                return false;
        return lane->fd >= 0 ? lane->readable : vw_port_deadline(lane->port, lane->index) <= now;
}

/* When a starved queue does without the room that it waits for, to see whether it is needed; NEVER: there is none at all. */
static uint64_t patience_ends(const struct dev_queue *q)
{
        return rx_could_read_ahead(&q->window, q->lane) ? q->window.starved_at + DEV_PATIENCE : NEVER;
}

/* A queue that was never enabled holds what the driver offers; one that was disabled discards (tx) or gets nothing (rx, as without
 * its driver's asking: what the port announces is discarded). */
static bool queue_ready(const struct dev_queue *q, uint64_t now)
{
        if (!q->watched || !q->was_enabled)
                return false;
        switch (q->kind) {
        case VW_RX:
                if (!dev_queue_receives(q))
                        return q->lane->fd >= 0 && lane_readable(q->lane, now);
                if (q->window.starved && !vq_device_avail_pending(&q->vq) && patience_ends(q) > now)
                        return false;
                return q->lane->ahead.len > 0 || lane_readable(q->lane, now);
        case VW_TX:
                return (q->lane->writable || !q->enabled) &&
                       (q->rewound > 0 || vq_device_avail_pending(&q->vq));
        case VW_CTRL:
                return vq_device_avail_pending(&q->vq);
        }
        unreachable();
}

/* Found when a page was touched that is no more, perhaps by another queue: then there is a queue to break. */
static bool memory_gone(const struct dev_queue *q)
{
        return unlikely(mem_map_gone(q->vq.mem.map));
}

static bool any_ready(const struct dev_worker *w, uint64_t now)
{
        for (unsigned i = 0; i < w->n_queues; i++)
                if (queue_ready(w->queues[i], now) || memory_gone(w->queues[i]))
                        return true;
        return false;
}

/* ---- fds ---- */

static int epoll_set(struct dev_worker *w, int op, int fd, uint32_t events, struct dev_watch *watch)
{
        struct epoll_event ev = { .events = events | EPOLLET, .data.ptr = watch };

        return epoll_ctl(w->epfd, op, fd, &ev) < 0 ? -errno : 0;
}

static void lane_mute(struct dev_worker *w, struct dev_lane *lane, bool on)
{
        if (lane->muted == on)
                return;
        lane->muted = on;
        epoll_set(w, EPOLL_CTL_MOD, lane->fd, on ? EPOLLOUT : EPOLLIN | EPOLLOUT, &lane->watch);
}

static int lane_watch(struct dev_worker *w, struct dev_lane *lane)
{
        int r = 0;

        if (lane->users == 0) {
                lane->fd = vw_port_fd(lane->port, lane->index);
                lane->readable = lane->muted = false;
                lane->writable = true;
                lane->errors = 0;
                lane->retry_at = 0;
                if (lane->fd >= 0)
                        r = epoll_set(w, EPOLL_CTL_ADD, lane->fd, EPOLLIN | EPOLLOUT, &lane->watch);
        }
        if (r == 0)
                lane->users++;
        return r;
}

static void lane_unwatch(struct dev_worker *w, struct dev_lane *lane)
{
        if (--lane->users == 0 && lane->fd >= 0)
                epoll_ctl(w->epfd, EPOLL_CTL_DEL, lane->fd, NULL);
}

int dev_worker_watch(struct dev_queue *q)
{
        struct dev_worker *w = q->worker;
        unsigned at = w->n_queues;
        int r = 0;

        if (q->kick_fd >= 0)
                r = epoll_set(w, EPOLL_CTL_ADD, q->kick_fd, EPOLLIN, &q->kick_watch);
        if (r == 0 && q->lane) {
                r = lane_watch(w, q->lane);
                if (r < 0 && q->kick_fd >= 0)
                        epoll_ctl(w->epfd, EPOLL_CTL_DEL, q->kick_fd, NULL);
        }
        if (r < 0)
                return r;
        for (; at > 0 && w->queues[at - 1]->index > q->index; at--)
                w->queues[at] = w->queues[at - 1];
        w->queues[at] = q;
        w->n_queues++;
        q->watched = true;
        return 0;
}

void dev_worker_unwatch(struct dev_queue *q)
{
        struct dev_worker *w = q->worker;
        unsigned at = 0;

        if (!q->watched)
                return;
        q->watched = false;
        if (q->kick_fd >= 0)
                epoll_ctl(w->epfd, EPOLL_CTL_DEL, q->kick_fd, NULL);
        if (q->lane)
                lane_unwatch(w, q->lane);
        while (w->queues[at] != q)
                at++;
        for (w->n_queues--; at < w->n_queues; at++)
                w->queues[at] = w->queues[at + 1];
}

static void port_event(struct dev_worker *w, struct dev_lane *lane, uint32_t events)
{
        if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
                lane->readable = true;
                if (lane->rx->watched && lane->rx->window.starved)
                        lane_mute(w, lane, true);
        }
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
                lane->writable = true;
}

/* Takes what the fds have to say; sleeps for it until `deadline` (0: not at all). */
static void collect(struct dev_worker *w, uint64_t deadline)
{
        static const struct timespec at_once;
        struct epoll_event events[EVENTS];
        int n;

        if (deadline != 0)
                timer_set(&w->timer, deadline, clock_now());
        n = epoll_pwait2(w->epfd, events, EVENTS, deadline != 0 ? NULL : &at_once, NULL);
        for (int i = 0; i < n; i++) {
                struct dev_watch *watch = events[i].data.ptr;
                struct dev_queue *q = watch->owner;

                switch (watch->what) {
                case WATCH_BELL:
                case WATCH_TIMER:
                        break; /* the loop looks into the mailbox and at the clock anyway */
                case WATCH_KICK:
                        counter_add(&q->counters[VW_C_kicks], notify_take(q->kick_fd));
                        break;
                case WATCH_PORT:
                        port_event(w, watch->owner, events[i].events);
                        break;
                }
        }
}

/* ---- a queue's turn ---- */

/* After an error of the port: at once the first time, later and later if it goes on. */
static void lane_back_off(struct dev_lane *lane, uint64_t now)
{
        if (lane->errors > 1)
                lane->retry_at = now + (RETRY_FIRST << MIN(lane->errors - 2, (unsigned)RETRY_DOUBLES));
}

/* A port that has been found empty is not asked again: its next event tells more.  So a queue is never starved by a lane that is
 * not known to be readable, which matters, because a muted lane tells nothing. */
static void turn(struct dev_queue *q, uint64_t now)
{
        unsigned packets = 0;
        uint32_t bytes = 0;

        dev_queue_adopt_settings(q, now);
        if (coalesce_expire(&q->coalesce, now))
                dev_queue_release(q);
        if (memory_gone(q)) {
                vq_device_break(&q->vq, "memory-gone", 0);
                dev_queue_broke(q, now);
                return;
        }
        if (!queue_ready(q, now))
                return;
        polling_woke(&q->polling, now);
        while (packets < DEV_TURN && bytes < DEV_TURN_BYTES && !mailbox_pending(&q->worker->mailbox) &&
               queue_ready(q, now) && !memory_gone(q)) {
                struct dev_run run = { .now = now, .max = MIN(DEV_TURN - packets, (unsigned)DEV_BURST) };

                if (q->run(q, &run) < 0) {
                        dev_queue_broke(q, now);
                        return;
                }
                dev_queue_published(q, &run);
                if (run.packets == 0)
                        break;
                counter_add(&q->counters[VW_C_bursts], 1);
                packets += run.packets;
                bytes += run.bytes;
        }
        if (q->kind != VW_RX)
                return;
        if (q->lane->errors > 0)
                lane_back_off(q->lane, now);
        if (!q->window.starved)
                lane_mute(q->worker, q->lane, false);
        else if (coalesce_flush(&q->coalesce))
                dev_queue_release(q); /* the driver may be waiting for the call to give buffers */
}

/* ---- before the sleep ---- */

/* Lets go of calls that have been held back long enough.  Returns the nearest deadline of all kinds. */
static uint64_t settle_deadlines(struct dev_worker *w, uint64_t now)
{
        uint64_t nearest = NEVER;

        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                if (coalesce_expire(&q->coalesce, now))
                        dev_queue_release(q);
                nearest = MIN(nearest, coalesce_deadline(&q->coalesce));
                nearest = MIN(nearest, log_settle(&q->limit, now));
                if (q->kick_fd < 0)
                        nearest = MIN(nearest, now + LOOK_INTERVAL);
                if (q->kind != VW_RX || !q->was_enabled)
                        continue;
                if (q->lane->retry_at > now)
                        nearest = MIN(nearest, q->lane->retry_at);
                else if (!dev_queue_receives(q))
                        continue;
                else if (q->window.starved)
                        nearest = MIN(nearest, patience_ends(q));
                else if (q->lane->fd < 0)
                        nearest = MIN(nearest, vw_port_deadline(q->lane->port, q->lane->index));
        }
        return nearest;
}

static unsigned begin_polls(struct dev_worker *w, uint64_t now)
{
        unsigned n = 0;

        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                q->polling_until = q->polling.limit ? polling_begin(&q->polling, now) : 0;
                n += q->polling_until != 0;
        }
        return n;
}

static void end_polls(struct dev_worker *w, uint64_t now)
{
        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                if (q->polling_until == 0)
                        continue;
                q->polling_until = 0;
                if (queue_ready(q, now))
                        polling_hit(&q->polling, now);
                else
                        polling_yield(&q->polling, now);
        }
}

static unsigned drop_missed_polls(struct dev_worker *w, uint64_t now)
{
        unsigned n = 0;

        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                if (q->polling_until == 0)
                        continue;
                if (polling_lasts(&q->polling, now)) {
                        n++;
                        continue;
                }
                q->polling_until = 0;
                polling_miss(&q->polling, now);
        }
        return n;
}

/* Looks at rings, port and mailbox for as long as the budgets say, with kicks still off.  True: there is work.
 * The port is looked at through the epoll set without waiting: for a TAP with nothing to read that takes half of what poll() or a read
 * that fails take, since an edge-triggered fd is not asked, and it is one call for all fds (bench/readiness_bench). */
static bool busy_poll(struct dev_worker *w)
{
        uint64_t now = clock_now(), deadline;
        unsigned polling = begin_polls(w, now);

        if (polling == 0)
                return false;
        deadline = settle_deadlines(w, now);
        while (polling > 0) {
                collect(w, 0);
                now = clock_now();
                if (mailbox_pending(&w->mailbox) || any_ready(w, now)) {
                        end_polls(w, now);
                        return true;
                }
                if (now >= deadline)
                        deadline = settle_deadlines(w, now);
                polling = drop_missed_polls(w, now);
                sched_yield(); /* to whoever shares the CPU; polling_lasts() sees how long that took */
        }
        return false;
}

/* Asks for the kicks that a sleeper needs.  A receive queue needs them only while a frame waits for buffers.  True: more came
 * while we asked. */
static bool arm(struct dev_worker *w)
{
        bool more = false;

        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                if (!q->was_enabled || (q->kind == VW_RX && !q->window.starved) ||
                    (q->kind == VW_TX && q->enabled && !q->lane->writable))
                        continue;
                q->kicks_on = true;
                if (vq_device_kick_enable(&q->vq))
                        more = true;
        }
        return more;
}

static void disarm(struct dev_worker *w)
{
        for (unsigned i = 0; i < w->n_queues; i++) {
                struct dev_queue *q = w->queues[i];

                if (q->kicks_on)
                        vq_device_kick_disable(&q->vq);
                q->kicks_on = false;
        }
}

/* ---- with nothing to do ---- */

/* The shortest and the longest poll that its queues of traffic are set to. */
static void poll_limits(const struct dev_worker *w, uint64_t *ret_least, uint64_t *ret_most)
{
        *ret_least = NEVER;
        *ret_most = 0;
        for (unsigned i = 0; i < w->n_queues; i++) {
                const struct dev_queue *q = w->queues[i];

                if (q->kind == VW_CTRL)
                        continue;
                *ret_least = MIN(*ret_least, q->polling.limit);
                *ret_most = MAX(*ret_most, q->polling.limit);
        }
}

/* When a nap ends that is taken now, or 0.  Kicks stay off, so what the driver publishes meanwhile costs it none, and is
 * found together; a queue that is never to be polled would wait for it, so where there is one nobody naps. */
static uint64_t nap(struct dev_worker *w, uint64_t least)
{
        uint64_t before = clock_now(), now;

        if (least == 0 || !nap_may(&w->nap, w->work, before))
                return 0;
        sched_yield();
        now = clock_now();
        if (!nap_alone(&w->nap, before, now))
                return 0;
        for (unsigned i = 0; i < w->n_queues; i++)
                counter_add(&w->queues[i]->counters[VW_C_naps], w->queues[i]->kind != VW_CTRL);
        return MIN(settle_deadlines(w, now), now + MIN(least, (uint64_t)NAP));
}

/* What the setting allows and the load prefers; then sleep.  Returns until when, or 0: not at all. */
static uint64_t idle(struct dev_worker *w)
{
        uint64_t least, most, until = 0;

        poll_limits(w, &least, &most);
        switch (most > 0 ? duel_way(&w->duel, w->work, clock_now()) : DUEL_SLEEP) {
        case DUEL_POLL:
                if (busy_poll(w))
                        return 0;
                break;
        case DUEL_NAP:
                until = nap(w, least);
                break;
        case DUEL_SLEEP:
        case DUEL_WAYS:
                break;
        }
        if (until != 0)
                return until;
        return arm(w) ? 0 : settle_deadlines(w, clock_now());
}

/* ---- the thread ---- */

/* What the kernel should know about it.  Each is a wish: where it is not allowed the worker works without. */
static void introduce(struct dev_worker *w)
{
        struct vw_device *dev = w->dev;
        char name[16];

        snprintf(name, sizeof(name), "vw-worker-%u", w->index);
        pthread_setname_np(pthread_self(), name);
        setpriority(PRIO_PROCESS, (id_t)gettid(), dev->nice);
        if (dev->n_cpus > 0) {
                int cpu = dev->cpus[w->index % dev->n_cpus];
                cpu_set_t set;

                CPU_ZERO(&set);
                CPU_SET((size_t)cpu, &set);
                if (sched_setaffinity(0, sizeof(set), &set) < 0)
                        log_warn("device", "a worker runs unpinned worker=%u cpu=%d errno=%d", w->index, cpu,
                                 errno);
        }
}

static const int faults[] = { SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS };

static void *run_worker(void *arg)
{
        struct dev_worker *w = arg;

        introduce(w);
        if (w->dev->worker_start)
                w->start_result = w->dev->worker_start(w->dev->worker_ctx);
        while (mailbox_serve(&w->mailbox), !w->stop) {
                uint64_t now = clock_now();

                for (unsigned i = 0; i < w->n_queues; i++)
                        turn(w->queues[i], now);
                collect(w, any_ready(w, now) ? 0 : idle(w));
                disarm(w);
        }
        return NULL;
}

static void nothing(void *arg)
{
        (void)arg;
}

/* What the program's hook said: it has run before the worker looks into its mailbox. */
static int hear_start(struct dev_worker *w)
{
        dev_on_worker(w, nothing, NULL);
        return w->start_result;
}

int dev_worker_start(struct dev_worker *w)
{
        sigset_t blocked, before;
        int r;

        w->bell = (struct dev_watch){ .what = WATCH_BELL, .owner = w };
        w->alarm = (struct dev_watch){ .what = WATCH_TIMER, .owner = w };
        w->frame = malloc(DEV_FRAME_ROOM);
        w->segment = malloc(DEV_FRAME_ROOM);
        w->queues = calloc(w->dev->n_vrings, sizeof(*w->queues));
        w->epfd = epoll_create1(EPOLL_CLOEXEC);
        if (w->epfd < 0)
                return -errno;
        if (!w->frame || !w->segment || !w->queues)
                return -ENOMEM;
        r = mailbox_init(&w->mailbox);
        if (r == 0)
                r = timer_init(&w->timer);
        if (r == 0)
                r = epoll_set(w, EPOLL_CTL_ADD, w->mailbox.bell, EPOLLIN, &w->bell);
        if (r == 0)
                r = epoll_set(w, EPOLL_CTL_ADD, w->timer.fd, EPOLLIN, &w->alarm);
        if (r < 0)
                return r;
        /* the program's signals are not for workers; faults are, and so they stay */
        sigfillset(&blocked);
        for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
                sigdelset(&blocked, faults[i]);
        pthread_sigmask(SIG_BLOCK, &blocked, &before);
        r = -pthread_create(&w->thread, NULL, run_worker, w);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        w->started = r == 0;
        return w->started && w->dev->worker_start ? hear_start(w) : r;
}

static void set_stop(void *arg)
{
        ((struct dev_worker *)arg)->stop = true;
}

void dev_worker_stop(struct dev_worker *w)
{
        if (w->started) {
                dev_on_worker(w, set_stop, w);
                pthread_join(w->thread, NULL);
        }
        mailbox_done(&w->mailbox);
        timer_done(&w->timer);
        if (w->epfd >= 0)
                close(w->epfd);
        free(w->frame);
        free(w->segment);
        free(w->queues);
}
