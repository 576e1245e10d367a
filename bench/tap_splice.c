/* The yardstick for a link through vwire: two TAPs in two namespaces and nothing between them but this loop, which reads a
 * frame from one and writes it to the other, headers and offloads included.  No user-space device that has a TAP at each end
 * can do less for a frame.
 *
 * usage: tap_splice [--nice=N] NETNS TAP NETNS TAP
 * Prints `ready` when both TAPs are there and up to be configured; ends with SIGINT or SIGTERM and prints what it carried. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define HDR_LEN   12
#define FRAME_MAX 65593 /* bytes, without the header */
#define TURN      64    /* frames of one side before the other side has its turn */

/* Since Linux 6.2; older headers lack them. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
        (void)number;
        stop = 1;
}

static void die(const char *what)
{
        fprintf(stderr, "tap_splice: %s: %s\n", what, strerror(errno));
        exit(1);
}

static int open_tap(const char *netns, const char *name)
{
        struct ifreq req = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        unsigned long offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        int hdr_len = HDR_LEN, fd;
        char path[128];

        snprintf(path, sizeof(path), "/run/netns/%s", netns);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
                die(path);
        close(fd);
        fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
        if (fd < 0 || ioctl(fd, TUNSETIFF, &req) < 0 || ioctl(fd, TUNSETVNETHDRSZ, &hdr_len) < 0)
                die(name);
        if (ioctl(fd, TUNSETOFFLOAD, offloads | TUN_F_USO4 | TUN_F_USO6) < 0 &&
            ioctl(fd, TUNSETOFFLOAD, offloads) < 0)
                die(name);
        return fd;
}

static void splice_loop(const int fd[2], uint64_t frames[2], uint64_t lost[2])
{
        static uint8_t buf[HDR_LEN + FRAME_MAX];
        struct pollfd p[2] = {
                {.fd = fd[0],  .events = POLLIN},
                { .fd = fd[1], .events = POLLIN}
        };

        while (!stop) {
                if (poll(p, 2, -1) < 0)
                        continue;
                for (int side = 0; side < 2; side++) {
                        for (int i = 0; i < TURN && p[side].revents; i++) {
                                ssize_t n = read(fd[side], buf, sizeof(buf));

                                if (n < 0)
                                        break;
                                frames[side]++;
                                if (write(fd[!side], buf, (size_t)n) != n)
                                        lost[side]++;
                        }
                }
        }
}

int main(int argc, char **argv)
{
        struct sigaction action = { .sa_handler = on_signal };
        uint64_t frames[2] = { 0 }, lost[2] = { 0 };
        int fd[2];

        if (argc > 1 && strncmp(argv[1], "--nice=", 7) == 0) {
                if (setpriority(PRIO_PROCESS, 0, atoi(argv[1] + 7)) < 0)
                        die(argv[1]);
                argv++;
                argc--;
        }
        if (argc != 5) {
                fprintf(stderr, "usage: tap_splice [--nice=N] NETNS TAP NETNS TAP\n");
                return 2;
        }
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        fd[0] = open_tap(argv[1], argv[2]);
        fd[1] = open_tap(argv[3], argv[4]);
        printf("ready\n");
        fflush(stdout);
        splice_loop(fd, frames, lost);
        printf("frames_forth=%llu lost_forth=%llu frames_back=%llu lost_back=%llu\n",
               (unsigned long long)frames[0], (unsigned long long)lost[0], (unsigned long long)frames[1],
               (unsigned long long)lost[1]);
        return 0;
}
