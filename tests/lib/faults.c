#include "faults.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/atomics.h"
#include "mock_vhost.h"

struct mnl_socket;

enum kind { SETS_UP, MOVES }; /* the second can be interrupted, or find nothing */

static __thread bool subject;
static bool armed;
static long calls_left; /* until one fails */
static unsigned every;  /* of the calls that move */
static unsigned long calls, ioctl_wanted;
static int fault;
static unsigned count;
static const char *last = "none";

/* ---- when ---- */

static bool hit(const char *name)
{
        __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
        store_relaxed(&last, name);
        errno = fault;
        return true;
}

static bool fails(const char *name, enum kind kind)
{
        bool waiting = fault == EINTR || fault == EAGAIN;

        if (!subject || !load_acquire(&armed) || ioctl_wanted)
                return false;
        if (every)
                return kind == MOVES && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % every == 0 &&
                       hit(name);
        if (waiting && kind != MOVES)
                return false;
        return __atomic_fetch_sub(&calls_left, 1, __ATOMIC_RELAXED) == 0 && hit(name);
}

static void arm(void)
{
        count = 0;
        last = "none";
        store_release(&armed, true);
}

void faults_subject(bool yes)
{
        subject = yes;
}

void faults_once(long after, int error)
{
        calls_left = after;
        fault = error;
        every = 0;
        ioctl_wanted = 0;
        arm();
}

void faults_storm(unsigned nth, int error)
{
        calls = 0;
        every = nth;
        fault = error;
        ioctl_wanted = 0;
        arm();
}

void faults_ioctl(unsigned long request, int error)
{
        ioctl_wanted = request;
        fault = error;
        every = 0;
        arm();
}

bool faults_off(void)
{
        store_release(&armed, false);
        return load_relaxed(&count) > 0;
}

unsigned faults_count(void)
{
        return load_relaxed(&count);
}

const char *faults_name(void)
{
        return load_relaxed(&last);
}

/* ---- in the way ---- */

#define WRAP(kind, type, name, params, args, failure)                                                        \
        type __real_##name params;                                                                           \
        type __wrap_##name params;                                                                           \
        type __wrap_##name params                                                                            \
        {                                                                                                    \
                return fails(#name, kind) ? (failure) : __real_##name args;                                  \
        }

WRAP(SETS_UP, void *, malloc, (size_t size), (size), NULL)
WRAP(SETS_UP, void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(SETS_UP, void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP(SETS_UP, void *, aligned_alloc, (size_t align, size_t size), (align, size), NULL)
WRAP(SETS_UP, void *, mmap64, (void *addr, size_t len, int prot, int flags, int fd, off_t at),
     (addr, len, prot, flags, fd, at), MAP_FAILED)
WRAP(SETS_UP, int, madvise, (void *addr, size_t len, int advice), (addr, len, advice), -1)
WRAP(SETS_UP, int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(SETS_UP, int, ftruncate64, (int fd, off_t size), (fd, size), -1)
WRAP(SETS_UP, int, fstat64, (int fd, struct stat *st), (fd, st), -1)
WRAP(SETS_UP, int, fstatfs64, (int fd, struct statfs *fs), (fd, fs), -1)
WRAP(SETS_UP, int, eventfd, (unsigned value, int flags), (value, flags), -1)
WRAP(SETS_UP, int, epoll_create1, (int flags), (flags), -1)
WRAP(SETS_UP, int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev), (epfd, op, fd, ev), -1)
WRAP(SETS_UP, int, setns, (int fd, int type), (fd, type), -1)
WRAP(SETS_UP, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(SETS_UP, int, socketpair, (int domain, int type, int protocol, int pair[2]),
     (domain, type, protocol, pair), -1)
WRAP(SETS_UP, int, getsockopt, (int fd, int level, int name, void *value, socklen_t *len),
     (fd, level, name, value, len), -1)
WRAP(SETS_UP, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg), fault)
WRAP(SETS_UP, struct mnl_socket *, mnl_socket_open2, (int bus, int flags), (bus, flags), NULL)
WRAP(SETS_UP, int, mnl_socket_bind, (struct mnl_socket * nl, unsigned groups, pid_t pid), (nl, groups, pid),
     -1)
WRAP(SETS_UP, ssize_t, mnl_socket_sendto, (const struct mnl_socket *nl, const void *buf, size_t len),
     (nl, buf, len), -1)
WRAP(SETS_UP, ssize_t, mnl_socket_recvfrom, (const struct mnl_socket *nl, void *buf, size_t len),
     (nl, buf, len), -1)
WRAP(MOVES, ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags), -1)
WRAP(MOVES, ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags), -1)
WRAP(MOVES, ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n), -1)
WRAP(MOVES, int, epoll_pwait2,
     (int epfd, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *mask),
     (epfd, events, n, timeout, mask), -1)

/* A look that does not wait cannot fail. */
ssize_t __real_preadv64v2(int fd, const struct iovec *iov, int n, off_t at, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int n, off_t at, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
        return !(flags & RWF_NOWAIT) && fails("preadv2", MOVES) ? -1
                                                                : __real_preadv64v2(fd, iov, n, at, flags);
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
        return timeout != 0 && fails("poll", MOVES) ? -1 : __real_poll(fds, n, timeout);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
        va_list ap;
        mode_t mode;

        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        return fails("open", SETS_UP) ? -1 : __real_open64(path, flags, mode);
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
        return fails("fcntl", SETS_UP) ? -1 : __real_fcntl64(fd, command, arg);
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
        if (subject && armed && ioctl_wanted == request && count == 0 && hit("ioctl"))
                return -1;
        return fails("ioctl", SETS_UP) ? -1 : __real_ioctl(fd, request, arg);
}

/* ---- what is left ---- */

static unsigned count_threads(void)
{
        DIR *dir = opendir("/proc/self/task");
        unsigned n = 0;

        while (dir && readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

struct faults_holdings faults_hold(void)
{
        return (struct faults_holdings){ mock_count_fds(), mock_count_mappings(), count_threads() };
}
