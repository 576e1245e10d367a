#include "attach/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "attach/clock.h"
#include "attach/say.h"

struct worker {
        struct workers *all;
        pthread_t thread;
        unsigned first;
        int epfd; /* over several lanes; else -1 */
        bool started;
};

struct workers {
        const struct attach_config *config;
        struct lane *lanes;
        unsigned n_lanes, n;
        int nice, cpu_of[VW_QUEUE_PAIRS_MAX]; /* -1: any */
        uint32_t poll_us;
        int alarm, stop; /* stop: readable for ever once it is time to go */
        bool stopping;   /* atomic */
        struct worker worker[];
};

static bool stopping(const struct workers *all)
{
        return __atomic_load_n(&all->stopping, __ATOMIC_RELAXED);
}

/* Each is a wish: a thread that may not have it runs as it is. */
static void dress(const struct worker *w)
{
        int cpu = w->all->cpu_of[w->first];
        cpu_set_t set;

        prctl(PR_SET_TIMERSLACK, 1UL); /* ns; with the default a sleep of 50 us takes 110 */
        setpriority(PRIO_PROCESS, 0, w->all->nice);
        if (cpu < 0)
                return;
        CPU_ZERO(&set);
        CPU_SET((unsigned)cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set) < 0)
                attach_say(w->all->config, VW_LOG_WARN, "a worker runs unpinned worker=%u cpu=%d errno=%d",
                           w->first, cpu, errno);
}

/* A turn; tells control once about rings that broke in it. */
static bool turn(struct worker *w, struct lane *l)
{
        int before = __atomic_load_n(&l->error, __ATOMIC_RELAXED);
        bool more = lane_turn(l);
        uint64_t one = 1;

        if (__atomic_load_n(&l->error, __ATOMIC_RELAXED) && !before &&
            write(w->all->alarm, &one, sizeof(one)) < 0) {
                /* full: it rings already */
        }
        return more;
}

static void run_one(struct worker *w, struct lane *l)
{
        while (!stopping(w->all)) {
                if (!turn(w, l))
                        lane_woken(l, vw_driver_wait(l->drv, l->index, lane_prepare_sleep(l)));
        }
}

static void sleep_until(int epfd, uint64_t deadline)
{
        struct epoll_event ev;
        uint64_t now = clock_ns(), left = deadline > now ? deadline - now : 0;
        struct timespec t = { .tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u) };

        epoll_pwait2(epfd, &ev, 1, deadline == NEVER ? NULL : &t, NULL);
}

/* Several lanes: the same steps for all of them, and one sleep.  Lanes are `step` apart. */
static void run_many(struct worker *w, unsigned step)
{
        struct lane *lanes = w->all->lanes;
        uint64_t busy_until = 0;

        while (!stopping(w->all)) {
                uint64_t deadline = NEVER;
                bool more = false;

                for (unsigned i = w->first; i < w->all->n_lanes; i += step)
                        more |= turn(w, &lanes[i]);
                if (more && w->all->poll_us)
                        busy_until = clock_ns() + w->all->poll_us * 1000u;
                if (more || (busy_until && clock_ns() < busy_until))
                        continue;
                busy_until = 0;
                for (unsigned i = w->first; i < w->all->n_lanes; i += step) {
                        uint64_t at = lane_prepare_sleep(&lanes[i]);

                        more |= vw_driver_arm(lanes[i].drv, i);
                        deadline = at < deadline ? at : deadline;
                }
                if (!more)
                        sleep_until(w->epfd, deadline);
                for (unsigned i = w->first; i < w->all->n_lanes; i += step)
                        lane_woken(&lanes[i], vw_driver_woken(lanes[i].drv, i));
        }
}

static void *run(void *arg)
{
        struct worker *w = arg;
        struct workers *all = w->all;

        dress(w);
        if (w->epfd < 0)
                run_one(w, &all->lanes[w->first]);
        else
                run_many(w, all->n);
        for (unsigned i = w->first; i < all->n_lanes; i += all->n) {
                lane_done(&all->lanes[i]);
                vw_driver_leave(all->lanes[i].drv, i);
        }
        return NULL;
}

/* Everything that wakes a worker: its pairs, and in each of them the word to stop. */
static int prepare(struct worker *w)
{
        struct workers *all = w->all;
        unsigned mine = (all->n_lanes - w->first + all->n - 1) / all->n;
        int r = 0;

        if (mine > 1 && (w->epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
                return -errno;
        for (unsigned i = w->first; !r && i < all->n_lanes; i += all->n) {
                struct epoll_event ev = { .events = EPOLLIN };
                struct vw_driver *drv = all->lanes[i].drv;

                r = vw_driver_watch(drv, i, all->stop, EPOLLIN);
                if (!r && mine > 1 && epoll_ctl(w->epfd, EPOLL_CTL_ADD, vw_driver_poll_fd(drv, i), &ev) < 0)
                        r = -errno;
        }
        return r;
}

static unsigned count_cpus(void)
{
        cpu_set_t set;

        return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

int workers_start(const struct attach_config *config, struct lane *lanes, unsigned n_lanes, int alarm,
                  struct workers **ret_workers)
{
        unsigned n = config->workers ? config->workers : count_cpus();
        struct workers *all;
        int r = 0;

        n = n < n_lanes ? n : n_lanes;
        all = calloc(1, sizeof(*all) + n * sizeof(all->worker[0]));
        if (!all)
                return -ENOMEM;
        all->config = config;
        all->lanes = lanes;
        all->n_lanes = n_lanes;
        all->n = n;
        all->nice = config->nice;
        all->poll_us = config->driver.poll_us;
        all->alarm = alarm;
        all->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (all->stop < 0)
                r = -errno;
        for (unsigned i = 0; i < n; i++) {
                all->cpu_of[i] = config->n_cpus ? config->cpus[i % config->n_cpus] : -1;
                all->worker[i] = (struct worker){ .all = all, .first = i, .epfd = -1 };
        }
        for (unsigned i = 0; !r && i < n; i++) {
                r = prepare(&all->worker[i]);
                if (!r)
                        r = -pthread_create(&all->worker[i].thread, NULL, run, &all->worker[i]);
                all->worker[i].started = !r;
        }
        if (r) {
                workers_stop(all);
                return r;
        }
        *ret_workers = all;
        return 0;
}

void workers_stop(struct workers *all)
{
        uint64_t one = 1;

        if (!all)
                return;
        __atomic_store_n(&all->stopping, true, __ATOMIC_RELAXED);
        if (all->stop >= 0 && write(all->stop, &one, sizeof(one)) < 0) {
                /* full: it rings already */
        }
        for (unsigned i = 0; i < all->n; i++) {
                if (all->worker[i].started)
                        pthread_join(all->worker[i].thread, NULL);
                if (all->worker[i].epfd >= 0)
                        close(all->worker[i].epfd);
        }
        if (all->stop >= 0)
                close(all->stop);
        free(all);
}
