/* What it costs to ask a TAP that has nothing whether it has something, in the ways there are: each is what one look of a busy
 * poll would pay.  `yield` is what the look pays besides, so that a neighbour on the same CPU gets it.  `uring` looks into memory for the
 * completion of a poll that io_uring makes; `rearm` is a system call that it takes to make another, once a frame.
 *
 *      readiness_bench [looks]
 *
 * Makes its TAP in a network namespace of its own; without the right to do so it says skipped=1.  Medians of ten rounds, in turn, since
 * the speed of a machine changes.  Each line is key=value. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/io_uring.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

#define ROUNDS 10

static int tap, epfd;

static int open_tap(void)
{
        struct ifreq req = { .ifr_name = "vwready0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        int fd, s;

        if (unshare(CLONE_NEWNET) < 0)
                return -1;
        fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || ioctl(fd, TUNSETIFF, &req) < 0)
                return -1;
        s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        req.ifr_flags = IFF_UP;
        if (s < 0 || ioctl(s, SIOCSIFFLAGS, &req) < 0)
                return -1;
        close(s);
        return fd;
}

/* As a worker has it: the TAP and two kick fds, edge-triggered. */
static int open_epoll(void)
{
        struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
        int fd = epoll_create1(EPOLL_CLOEXEC);

        check(fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, tap, &ev) == 0);
        for (int i = 0; i < 2; i++)
                check(epoll_ctl(fd, EPOLL_CTL_ADD, eventfd(0, EFD_NONBLOCK), &ev) == 0);
        return fd;
}

static void by_read(void)
{
        static char frame[2048];

        while (readv(tap, &(struct iovec){ frame, sizeof(frame) }, 1) > 0)
                continue; /* the kernel's own, of a new interface */
}

static void by_poll(void)
{
        poll(&(struct pollfd){ .fd = tap, .events = POLLIN }, 1, 0);
}

static void by_epoll(void)
{
        struct epoll_event events[8];

        epoll_pwait2(epfd, events, 8, &(struct timespec){ 0 }, NULL);
}

/* ---- io_uring, by hand: of its rings we need the places where the kernel and we write how far they are ---- */

static struct {
        int fd;
        unsigned *sq_tail, *sq_array, *cq_head, *cq_tail;
        unsigned sq_mask;
        struct io_uring_sqe *sqes;
} ring;

static bool open_uring(void)
{
        struct io_uring_params p = { 0 };
        uint8_t *rings;

        ring.fd = (int)syscall(SYS_io_uring_setup, 64, &p);
        if (ring.fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP))
                return false;
        rings = mmap(NULL,
                     MAX(p.sq_off.array + p.sq_entries * sizeof(unsigned),
                         p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe)),
                     PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
        ring.sqes = mmap(NULL, p.sq_entries * sizeof(*ring.sqes), PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
                         IORING_OFF_SQES);
        if (rings == MAP_FAILED || ring.sqes == MAP_FAILED)
                return false;
        ring.sq_tail = (unsigned *)(rings + p.sq_off.tail);
        ring.sq_array = (unsigned *)(rings + p.sq_off.array);
        ring.sq_mask = p.sq_entries - 1;
        ring.cq_head = (unsigned *)(rings + p.cq_off.head);
        ring.cq_tail = (unsigned *)(rings + p.cq_off.tail);
        return true;
}

static void submit(const struct io_uring_sqe *sqe)
{
        unsigned tail = *ring.sq_tail, slot = tail & ring.sq_mask;

        ring.sqes[slot] = *sqe;
        ring.sq_array[slot] = slot;
        __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
        check(syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) == 1);
}

static unsigned seen;

static void by_uring(void)
{
        if (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) != *ring.cq_head)
                seen++;
}

/* A poll of something that is always ready, so that each has its completion at once and none piles up. */
static void rearm(void)
{
        submit(&(struct io_uring_sqe){ .opcode = IORING_OP_POLL_ADD, .fd = tap, .poll32_events = POLLOUT });
        __atomic_store_n(ring.cq_head, __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

/* ---- the neighbour's ---- */

static void yield(void)
{
        sched_yield();
}

static int ascending(const void *a, const void *b)
{
        double d = *(const double *)a - *(const double *)b;

        return (d > 0) - (d < 0);
}

static const struct {
        const char *name;
        void (*look)(void);
} ways[] = {
        {"read",   by_read },
        { "poll",  by_poll },
        { "epoll", by_epoll},
        { "yield", yield   },
        { "uring", by_uring}, /* where there is io_uring */
        { "rearm", rearm   },
};

int main(int argc, char **argv)
{
        double ns[ARRAY_SIZE(ways)][ROUNDS];
        unsigned looks = argc > 1 ? (unsigned)atoi(argv[1]) : 50000;
        size_t n_ways = ARRAY_SIZE(ways);

        tap = open_tap();
        if (tap < 0) {
                printf("bench=readiness skipped=1 errno=%d\n", errno);
                return 0;
        }
        epfd = open_epoll();
        by_read();
        if (open_uring()) {
                submit(&(struct io_uring_sqe){
                        .opcode = IORING_OP_POLL_ADD, .fd = tap, .poll32_events = POLLIN });
        } else {
                printf("bench=readiness way=uring skipped=1 errno=%d\n", errno);
                n_ways -= 2;
        }
        for (unsigned round = 0; round < ROUNDS; round++)
                for (size_t i = 0; i < n_ways; i++) {
                        uint64_t t = clock_now();

                        for (unsigned n = 0; n < looks; n++)
                                ways[i].look();
                        ns[i][round] = (double)(clock_now() - t) / looks;
                }
        for (size_t i = 0; i < n_ways; i++) {
                qsort(ns[i], ROUNDS, sizeof(ns[i][0]), ascending);
                printf("bench=readiness way=%s looks=%u ns_median=%.1f ns_least=%.1f ns_most=%.1f\n",
                       ways[i].name, looks, ns[i][ROUNDS / 2], ns[i][0], ns[i][ROUNDS - 1]);
        }
        return 0;
}
