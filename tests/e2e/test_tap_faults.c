/* Setting a TAP up while one call of the system fails: a clean refusal or a port that works, nothing left behind, and the
 * next try succeeds.  The calls are intercepted by the linker (--wrap). */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "lab.h"
#include "test.h"
#include "vwire/port.h"

struct mnl_socket;

static long calls_left = -1; /* until one fails; -1: none does */
static int fault;
static bool fired;
static unsigned long only_ioctl; /* 0: any call */

static bool fails(void)
{
        if (calls_left < 0 || calls_left-- > 0)
                return false;
        errno = fault;
        return fired = true;
}

#define WRAP(type, name, params, args, failure)                                                              \
        type __real_##name params;                                                                           \
        type __wrap_##name params;                                                                           \
        type __wrap_##name params                                                                            \
        {                                                                                                    \
                return !only_ioctl && fails() ? (failure) : __real_##name args;                              \
        }

WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size), NULL)
WRAP(int, setns, (int fd, int type), (fd, type), -1)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg), fault)
WRAP(struct mnl_socket *, mnl_socket_open2, (int bus, int flags), (bus, flags), NULL)
WRAP(int, mnl_socket_bind, (struct mnl_socket * nl, unsigned groups, pid_t pid), (nl, groups, pid), -1)
WRAP(ssize_t, mnl_socket_sendto, (const struct mnl_socket *nl, const void *buf, size_t len), (nl, buf, len),
     -1)
WRAP(ssize_t, mnl_socket_recvfrom, (const struct mnl_socket *nl, void *buf, size_t len), (nl, buf, len), -1)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
        return !only_ioctl && fails() ? -1 : __real_open64(path, flags, 0);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
        va_list ap;
        long arg;

        va_start(ap, command);
        arg = va_arg(ap, long);
        va_end(ap);
        return !only_ioctl && fails() ? -1 : __real_fcntl64(fd, command, arg);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
        va_list ap;
        void *arg;

        va_start(ap, request);
        arg = va_arg(ap, void *);
        va_end(ap);
        return (!only_ioctl || only_ioctl == request) && fails() ? -1 : __real_ioctl(fd, request, arg);
}

/* Frames: every `io_every`th call fails with io_error; 0: none. */
static unsigned io_every, io_calls, io_failed;
static int io_error;

static bool io_fails(void)
{
        if (!io_every || ++io_calls % io_every)
                return false;
        io_failed++;
        errno = io_error;
        return true;
}

ssize_t __real_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
        return io_fails() ? -1 : __real_readv(fd, iov, n);
}

ssize_t __real_writev(int fd, const struct iovec *iov, int n);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int n);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int n)
{
        return io_fails() ? -1 : __real_writev(fd, iov, n);
}

static int tap_fd(void)
{
        struct ifreq req = { .ifr_name = "vwi", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
        int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

        return ioctl(fd, TUNSETIFF, &req) < 0 ? -1 : fd;
}

/* hostile J09 */
TEST(tap_faults, leave_nothing_behind_whichever_call_fails)
{
        static const int errors[] = { ENOMEM, EMFILE, EPERM, ENOSPC };
        static const char *const specs[] = {
                "tap:vwt0",  "tap:vwt0,bridge=vwbr,persist", "tap:vwp,bridge=vwbr", "tap:vwt0,netns=self",
                "tap:fd=%d",
        };

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        EXPECT(lab_sh("ip link add vwbr type bridge && ip tuntap add vwp mode tap"));
        for (size_t s = 0; s < ARRAY_SIZE(specs); s++) {
                for (size_t e = 0; e < ARRAY_SIZE(errors); e++) {
                        long n = 0;

                        do {
                                struct vw_port_config config = { .pairs = 1 };
                                struct vw_port *port = NULL;
                                const char *why = NULL;
                                char spec[64];
                                int fd = strchr(specs[s], '%') ? tap_fd() : -1, r;
                                unsigned fds = lab_count_fds(), links = lab_count_links();

                                snprintf(spec, sizeof(spec), specs[s], fd);
                                if (strstr(spec, "netns"))
                                        sprintf(strstr(spec, "self"), "%d", getpid());
                                fault = errors[e];
                                fired = false;
                                calls_left = n++;
                                r = vw_port_open(spec, &config, &port, &why);
                                calls_left = -1;
                                if (r < 0) {
                                        EXPECT(!port);
                                        EXPECT(strncmp(why, spec, strlen(spec)) == 0);
                                        EXPECT_EQ(lab_count_fds(), fds);
                                        EXPECT_EQ(lab_count_links(), links);
                                        if (vw_port_open(spec, &config, &port, &why) < 0)
                                                fail_msg("%s", why);
                                } else {
                                        struct vw_port_info info;

                                        vw_port_info(port, &info);
                                        EXPECT_EQ(vw_port_set_rx_offloads(port, VW_OFFLOAD_ALL), 0);
                                }
                                vw_port_close(port);
                                if (strstr(spec, "persist"))
                                        EXPECT(lab_sh("ip link del vwt0"));
                                EXPECT_EQ(lab_count_fds(), fds - (fd >= 0));
                                EXPECT_EQ(lab_count_links(), links - (fd >= 0));
                        } while (fired);
                        EXPECT(n > 5);
                }
        }
}

/* hostile J08 */
TEST(tap_faults, run_without_offloads_that_the_kernel_refuses)
{
        struct vw_port_config config = { .pairs = 1 };
        struct vw_port_info info;
        struct vw_port *port;
        const char *why;

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        only_ioctl = TUNSETOFFLOAD;
        fault = EINVAL;
        calls_left = 0;
        EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), 0);
        EXPECT(fired);
        vw_port_info(port, &info);
        EXPECT_EQ(info.tx_offloads, VW_OFFLOAD_ALL & ~VW_OFFLOAD_USO);
        EXPECT_EQ(vw_port_set_rx_offloads(port, VW_OFFLOAD_ALL), 0);
        vw_port_info(port, &info);
        EXPECT_EQ(info.rx_offloads, VW_OFFLOAD_ALL & ~VW_OFFLOAD_USO);
        vw_port_close(port);
        only_ioctl = 0;
}

#define BURST  32
#define BURSTS 6 /* together few enough for the receiving socket */

/* Sends bursts, starting over with what was not taken; counts results by what they are. */
static void send_bursts(struct vw_port *port, unsigned bursts, int error, unsigned *sent, unsigned *lost)
{
        uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
        struct iovec iov[BURST][2];
        struct vw_pkt pkts[BURST];
        int result[BURST];

        for (unsigned b = 0; b < bursts; b++) {
                for (unsigned i = 0; i < BURST; i++) {
                        iov[i][1] = (struct iovec){ frame, sizeof(frame) };
                        pkts[i] = (struct vw_pkt){ .iov = &iov[i][1], .n_iov = 1, .len = sizeof(frame) };
                }
                for (unsigned at = 0; at < BURST;) {
                        int n = vw_port_tx(port, 0, pkts + at, BURST - at, result + at);

                        EXPECT(n >= 0);
                        at += (unsigned)n;
                }
                for (unsigned i = 0; i < BURST; i++) {
                        EXPECT(result[i] == 0 || result[i] == error);
                        ++*(result[i] ? lost : sent);
                }
        }
}

/* hostile J05, J04: an error is the loss of that frame, an interruption or a full port of none */
TEST(tap_faults, of_single_frames_lose_those_frames_and_no_other)
{
        static const struct {
                int error;
                bool loses;
        } rows[] = {
                {ENOBUFS, true },
                { ENOMEM, true },
                { EINVAL, true },
                { EINTR,  false},
                { EAGAIN, false}
        };
        struct vw_port_config config = { .pairs = 1 };

        if (!lab_enter())
                SKIP("needs the right to make a network namespace");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                unsigned sent = 0, lost = 0, seen = 0, received = 0, errors = 0;
                struct vw_port *port;
                uint8_t buf[2048];
                const char *why;
                int sock;

                EXPECT_EQ(vw_port_open("tap:vwt0", &config, &port, &why), 0);
                sock = lab_packet_socket("vwt0", false);
                io_error = rows[i].error;
                io_calls = io_failed = 0;
                io_every = 10;
                send_bursts(port, BURSTS, -rows[i].error, &sent, &lost);
                EXPECT(io_failed >= BURSTS * BURST / 10);
                EXPECT_EQ(lost, rows[i].loses ? io_failed : 0);
                EXPECT_EQ(sent + lost, BURSTS * BURST);
                while (read(sock, buf, sizeof(buf)) > 0)
                        seen++;
                EXPECT_EQ(seen, sent);

                io_every = 0;
                for (unsigned n = 0; n < 100; n++)
                        EXPECT_EQ(write(sock, buf, 60), 60);
                io_every = 10;
                for (unsigned n = 0; n < 200; n++) {
                        struct iovec iov[2] = {
                                {0           },
                                { buf, sizeof(buf) }
                        };
                        struct vw_pkt pkt = { .iov = iov + 1, .n_iov = 1 };
                        int r = vw_port_rx(port, 0, &pkt);

                        received += r == 1;
                        errors += r < 0;
                        EXPECT(r == 1 || r == 0 || r == -rows[i].error);
                }
                EXPECT_EQ(received, 100);
                EXPECT(rows[i].loses ? errors > 0 : errors == 0);
                io_every = 0;
                close(sock);
                vw_port_close(port);
        }
}
