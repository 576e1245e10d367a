#include "bench/limits.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"

#define COPY_BYTES 1500

/* Two threads that hand a number back and forth. */
struct pingpong {
        int cpu[2]; /* of either thread */
        int fd[2];  /* eventfds that wake either */
        bool spins; /* on the fd, instead of sleeping in it */
        _Alignas(CACHE_LINE) uint64_t ball;
        _Alignas(CACHE_LINE) bool over;
};

static void pin(int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
}

/* The first two CPUs that we may run on; the same one twice if there is no other. */
static void find_cpus(int ret_cpu[2])
{
        cpu_set_t set;
        unsigned n = 0;

        ret_cpu[0] = ret_cpu[1] = 0;
        if (sched_getaffinity(0, sizeof(set), &set) < 0)
                return;
        for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
                if (CPU_ISSET(cpu, &set))
                        ret_cpu[n++] = cpu;
        if (n == 1)
                ret_cpu[1] = ret_cpu[0];
}

/* Runs `one` on a thread and `other` here, each pinned, until `ms` are over; nanoseconds a round trip of `one`'s. */
static double play(struct pingpong *p, unsigned ms, void *(*one)(void *),
                   uint64_t (*other)(struct pingpong *p, uint64_t until))
{
        cpu_set_t before;
        pthread_t thread;
        uint64_t start, rounds;

        if (sched_getaffinity(0, sizeof(before), &before) < 0 || pthread_create(&thread, NULL, one, p) != 0)
                return NAN;
        pin(p->cpu[0]);
        start = clock_now();
        rounds = other(p, start + ms * NSEC_PER_MSEC);
        start = clock_now() - start;
        pthread_join(thread, NULL);
        sched_setaffinity(0, sizeof(before), &before);
        return rounds ? (double)start / (double)rounds : NAN;
}

/* ---- a cache line ---- */

static void *return_line(void *arg)
{
        struct pingpong *p = arg;
        uint64_t next = 1;

        pin(p->cpu[1]);
        while (!load_relaxed(&p->over))
                if (load_acquire(&p->ball) == next) {
                        store_release(&p->ball, next + 1);
                        next += 2;
                } else {
                        cpu_relax();
                }
        return NULL;
}

static uint64_t send_line(struct pingpong *p, uint64_t until)
{
        uint64_t rounds = 0;

        for (; rounds % 1024 || clock_now() < until; rounds++) {
                store_release(&p->ball, 2 * rounds + 1);
                while (load_acquire(&p->ball) != 2 * rounds + 2)
                        cpu_relax();
        }
        store_relaxed(&p->over, true);
        return rounds;
}

static double cache_line(unsigned ms)
{
        struct pingpong p = { 0 };

        find_cpus(p.cpu);
        return p.cpu[0] == p.cpu[1] ? NAN : play(&p, ms, return_line, send_line);
}

/* ---- an eventfd ---- */

static bool take(const struct pingpong *p, int fd)
{
        uint64_t value;

        while (read(fd, &value, sizeof(value)) != sizeof(value)) {
                if (load_relaxed(&p->over))
                        return false;
                cpu_relax();
        }
        return true;
}

static void *return_event(void *arg)
{
        struct pingpong *p = arg;

        pin(p->cpu[1]);
        while (take(p, p->fd[1]) && !load_relaxed(&p->over))
                eventfd_write(p->fd[0], 1);
        return NULL;
}

static uint64_t send_event(struct pingpong *p, uint64_t until)
{
        uint64_t rounds = 0;

        for (; rounds % 16 || clock_now() < until; rounds++) {
                eventfd_write(p->fd[1], 1);
                take(p, p->fd[0]);
        }
        store_relaxed(&p->over, true);
        eventfd_write(p->fd[1], 1);
        return rounds;
}

static double events(unsigned ms, bool spins, bool one_cpu)
{
        struct pingpong p = { .spins = spins };
        double ns = NAN;

        find_cpus(p.cpu);
        if (one_cpu)
                p.cpu[1] = p.cpu[0];
        else if (p.cpu[0] == p.cpu[1])
                return NAN;
        p.fd[0] = eventfd(0, EFD_CLOEXEC | (spins ? EFD_NONBLOCK : 0));
        p.fd[1] = eventfd(0, EFD_CLOEXEC | (spins ? EFD_NONBLOCK : 0));
        if (p.fd[0] >= 0 && p.fd[1] >= 0)
                ns = play(&p, ms, return_event, send_event);
        for (unsigned i = 0; i < 2; i++)
                if (p.fd[i] >= 0)
                        close(p.fd[i]);
        return ns;
}

static double event_sleep(unsigned ms)
{
        return events(ms, false, false);
}

static double event_one_cpu(unsigned ms)
{
        return events(ms, false, true);
}

static double event_spin(unsigned ms)
{
        return events(ms, true, false);
}

/* ---- calls ---- */

static double repeat(unsigned ms, void (*call)(void *arg), void *arg)
{
        uint64_t start = clock_now(), until = start + ms * NSEC_PER_MSEC, n = 0, now;

        do {
                for (unsigned i = 0; i < 256; i++)
                        call(arg);
                n += 256;
                now = clock_now();
        } while (now < until);
        return (double)(now - start) / (double)n;
}

static void call_nothing(void *arg)
{
        (void)arg;
        syscall(SYS_getppid);
}

static void call_eventfd(void *arg)
{
        eventfd_write(*(int *)arg, 1);
}

static void call_clock(void *arg)
{
        *(volatile uint64_t *)arg = clock_now();
}

static void call_copy(void *arg)
{
        uint8_t *bytes = arg;

        memcpy(bytes, bytes + COPY_BYTES, COPY_BYTES);
        __asm__ volatile("" : : "r"(bytes) : "memory");
}

static double system_call(unsigned ms)
{
        return repeat(ms, call_nothing, NULL);
}

static double eventfd_writing(unsigned ms)
{
        int fd = eventfd(0, EFD_CLOEXEC);
        double ns = fd < 0 ? NAN : repeat(ms, call_eventfd, &fd);

        if (fd >= 0)
                close(fd);
        return ns;
}

static double clock_reading(unsigned ms)
{
        uint64_t now;

        return repeat(ms, call_clock, &now);
}

static double copying(unsigned ms)
{
        static uint8_t bytes[2 * COPY_BYTES];

        return repeat(ms, call_copy, bytes);
}

const struct limit limits[] = {
        {"cache line there and back",         cache_line     },
        { "eventfd there and back, asleep",   event_sleep    },
        { "eventfd there and back, one CPU",  event_one_cpu  },
        { "eventfd there and back, spinning", event_spin     },
        { "system call",                      system_call    },
        { "eventfd write",                    eventfd_writing},
        { "clock_gettime",                    clock_reading  },
        { "copy of 1500 bytes in the cache",  copying        },
};
const unsigned n_limits = ARRAY_SIZE(limits);
