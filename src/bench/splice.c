#include "bench/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "bench/crew.h"

#define HDR_LEN   12
#define FRAME_MAX 65593 /* bytes, without the header */
#define TURN      64    /* frames of one side before the other side has its turn */

/* Since Linux 6.2; older headers lack them. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

struct splice {
        int fd[2], stop, nice;
        pthread_t thread;
        struct splice_counts counts;
        uint8_t frame[HDR_LEN + FRAME_MAX];
};

/* In the namespace where the calling thread is. */
static int open_tap(const char *name)
{
        struct ifreq req = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        unsigned long offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        int hdr_len = HDR_LEN, fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), r;

        memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
        if (fd >= 0 && ioctl(fd, TUNSETIFF, &req) == 0 && ioctl(fd, TUNSETVNETHDRSZ, &hdr_len) == 0 &&
            (ioctl(fd, TUNSETOFFLOAD, offloads | TUN_F_USO4 | TUN_F_USO6) == 0 ||
             ioctl(fd, TUNSETOFFLOAD, offloads) == 0))
                return fd;
        r = -errno;
        if (fd >= 0)
                close(fd);
        return r;
}

static int open_tap_in(int netns, const char *name)
{
        int before = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd;

        if (before < 0)
                return -errno;
        fd = setns(netns, CLONE_NEWNET) < 0 ? -errno : open_tap(name);
        if (setns(before, CLONE_NEWNET) < 0 && fd >= 0) {
                close(fd);
                fd = -errno;
        }
        close(before);
        return fd;
}

static void *run(void *arg)
{
        struct splice *s = arg;
        struct pollfd p[] = {
                {.fd = s->fd[0],  .events = POLLIN},
                { .fd = s->fd[1], .events = POLLIN},
                { .fd = s->stop,  .events = POLLIN}
        };

        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), s->nice);
        while (!p[2].revents) {
                if (poll(p, 3, -1) < 0)
                        continue;
                for (int side = 0; side < 2; side++) {
                        for (int i = 0; i < TURN && p[side].revents; i++) {
                                ssize_t n = read(s->fd[side], s->frame, sizeof(s->frame));

                                if (n < 0)
                                        break;
                                counter_add(&s->counts.frames[side], 1);
                                if (write(s->fd[!side], s->frame, (size_t)n) != n)
                                        counter_add(&s->counts.lost[side], 1);
                        }
                }
        }
        return NULL;
}

int splice_new(const int netns[2], const char *const name[2], int nice, struct splice **ret_splice,
               const char **ret_why)
{
        struct splice *s = calloc(1, sizeof(*s));
        int r = 0;

        *ret_why = "out of memory";
        if (!s)
                return -ENOMEM;
        s->nice = nice;
        s->fd[0] = s->fd[1] = -1;
        s->stop = eventfd(0, EFD_CLOEXEC);
        if (s->stop < 0)
                r = -errno;
        for (unsigned i = 0; i < 2 && r == 0; i++) {
                s->fd[i] = open_tap_in(netns[i], name[i]);
                if (s->fd[i] < 0)
                        r = s->fd[i];
        }
        if (r == 0)
                r = -pthread_create(&s->thread, NULL, run, s);
        if (r < 0) {
                *ret_why = strerror(-r);
                s->thread = 0;
                splice_free(s);
                return r;
        }
        *ret_splice = s;
        return 0;
}

void splice_counts(const struct splice *s, struct splice_counts *ret_counts)
{
        for (unsigned i = 0; i < 2; i++) {
                ret_counts->frames[i] = load_relaxed(&s->counts.frames[i]);
                ret_counts->lost[i] = load_relaxed(&s->counts.lost[i]);
        }
}

uint64_t splice_cpu_ns(const struct splice *s)
{
        return thread_cpu_ns(s->thread);
}

void splice_free(struct splice *s)
{
        if (!s)
                return;
        if (s->thread) {
                eventfd_write(s->stop, 1);
                pthread_join(s->thread, NULL);
        }
        for (unsigned i = 0; i < 2; i++)
                if (s->fd[i] >= 0)
                        close(s->fd[i]);
        if (s->stop >= 0)
                close(s->stop);
        free(s);
}
