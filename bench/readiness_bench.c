/* What it costs to ask a TAP that has nothing whether it has something, in the ways there are: each is what one look of a busy
 * poll would pay.  `yield` is what the look pays besides, so that a neighbour on the same CPU gets it.
 *
 *      readiness_bench [looks]
 *
 * Makes its TAP in a network namespace of its own; without the right to do so it says skipped=1.  Medians of ten rounds, in turn, since
 * the speed of a machine changes.  Each line is key=value. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

static void yield(void)
{
        sched_yield();
}

static int ascending(const void *a, const void *b)
{
        double d = *(const double *)a - *(const double *)b;

        return (d > 0) - (d < 0);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*look)(void);
        } ways[] = {
                {"read",   by_read },
                { "poll",  by_poll },
                { "epoll", by_epoll},
                { "yield", yield   },
        };
        double ns[ARRAY_SIZE(ways)][ROUNDS];
        unsigned looks = argc > 1 ? (unsigned)atoi(argv[1]) : 50000;

        tap = open_tap();
        if (tap < 0) {
                printf("bench=readiness skipped=1 errno=%d\n", errno);
                return 0;
        }
        epfd = open_epoll();
        for (unsigned round = 0; round < ROUNDS; round++)
                for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                        uint64_t t = clock_now();

                        for (unsigned n = 0; n < looks; n++)
                                ways[i].look();
                        ns[i][round] = (double)(clock_now() - t) / looks;
                }
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                qsort(ns[i], ROUNDS, sizeof(ns[i][0]), ascending);
                printf("bench=readiness way=%s looks=%u ns_median=%.0f ns_least=%.0f ns_most=%.0f\n",
                       ways[i].name, looks, ns[i][ROUNDS / 2], ns[i][0], ns[i][ROUNDS - 1]);
        }
        return 0;
}
