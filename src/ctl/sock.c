#include "ctl/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG     64  /* clients that connect in one turn of the loop */
#define LOCK_TRIES  500 /* a lock that somebody keeps for that many milliseconds is not ours to wait for */
#define LOCK_TRY_NS 1000000

static char why[320];

__attribute__((format(printf, 3, 4))) static int refuse(int error, const char **ret_why, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(why, sizeof(why), fmt, ap);
        va_end(ap);
        *ret_why = why;
        return error;
}

static int make_address(const char *path, struct sockaddr_un *ret_addr, const char **ret_why)
{
        struct sockaddr_un addr = { .sun_family = AF_UNIX };

        if (!*path || strlen(path) >= sizeof(addr.sun_path))
                return refuse(-ENAMETOOLONG, ret_why, "%.100s...: a socket's path has 1 to %zu bytes", path,
                              sizeof(addr.sun_path) - 1);
        memcpy(addr.sun_path, path, strlen(path));
        *ret_addr = addr;
        return 0;
}

static int try_connect(const struct sockaddr_un *addr, int flags)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
        int r;

        if (fd < 0)
                return -errno;
        do
                r = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return fd;
        r = -errno;
        close(fd);
        return r;
}

/* Between its bind() and its listen() a socket looks like a stale one, and of two processes that find one stale the second would remove
 * what the first has made.  So whoever makes a socket has its directory locked: nothing is left behind, whatever happens.  -1: no lock
 * is to be had here, and only the race is lost. */
static int lock_directory(const char *path)
{
        const char *slash = strrchr(path, '/');
        char dir[sizeof(((struct sockaddr_un *)0)->sun_path)] = ".";
        int fd;

        if (slash)
                snprintf(dir, sizeof(dir), "%.*s", (int)(slash == path ? 1 : slash - path), path);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
                if (i == LOCK_TRIES || errno != EWOULDBLOCK)
                        break;
                nanosleep(&(struct timespec){ .tv_nsec = LOCK_TRY_NS }, NULL);
        }
        return fd;
}

/* Removes what stands at the path if it is a socket of ours that nobody listens on. */
static int clear_path(const struct sockaddr_un *addr, const char **ret_why)
{
        const char *path = addr->sun_path;
        struct stat st;
        int fd;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : refuse(-errno, ret_why, "%s: %s", path, strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return refuse(-EEXIST, ret_why,
                              "%s exists and is no socket: remove it or choose another path", path);
        if (st.st_uid != geteuid())
                return refuse(-EPERM, ret_why, "%s is another user's socket", path);
        fd = try_connect(addr, SOCK_NONBLOCK);
        if (fd >= 0)
                close(fd);
        if (fd >= 0 || fd == -EAGAIN) /* a full backlog is somebody's, too */
                return refuse(-EADDRINUSE, ret_why, "%s is in use: another process listens there", path);
        if (fd != -ECONNREFUSED)
                return refuse(fd, ret_why, "%s: %s", path, strerror(-fd));
        if (unlink(path) < 0 && errno != ENOENT)
                return refuse(-errno, ret_why, "%s is stale and cannot be removed: %s", path,
                              strerror(errno));
        return 0;
}

static int bind_with_mode(int fd, const struct sockaddr_un *addr, mode_t mode, gid_t group)
{
        mode_t before = umask(0777 & ~mode);
        int r = bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;

        umask(before);
        if (r < 0)
                return r;
        if (group != (gid_t)-1 && lchown(addr->sun_path, (uid_t)-1, group) < 0) {
                r = -errno;
                unlink(addr->sun_path);
        }
        return r;
}

static int listen_at(struct sock_listener *l, const struct sockaddr_un *addr, mode_t mode, gid_t group,
                     const char **ret_why)
{
        const char *path = addr->sun_path;
        struct stat st = { 0 };
        int fd, r = clear_path(addr, ret_why);

        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return refuse(-errno, ret_why, "%s: no socket: %s", path, strerror(errno));
        r = bind_with_mode(fd, addr, mode, group);
        if (r == 0 && (lstat(path, &st) < 0 || listen(fd, BACKLOG) < 0)) {
                r = -errno;
                unlink(path);
        }
        if (r < 0) {
                close(fd);
                return refuse(r, ret_why, "%s: cannot listen: %s", path, strerror(-r));
        }
        sock_inherit(l, fd);
        snprintf(l->path, sizeof(l->path), "%s", path);
        l->dev = st.st_dev;
        l->ino = st.st_ino;
        return 0;
}

int sock_listen(struct sock_listener *l, const char *path, mode_t mode, gid_t group, const char **ret_why)
{
        struct sockaddr_un addr;
        int lock, r = make_address(path, &addr, ret_why);

        if (r < 0)
                return r;
        lock = lock_directory(path);
        r = listen_at(l, &addr, mode, group, ret_why);
        if (lock >= 0)
                close(lock);
        return r;
}

void sock_inherit(struct sock_listener *l, int fd)
{
        *l = (struct sock_listener){ .fd = fd, .spare = eventfd(0, EFD_CLOEXEC) };
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int sock_accept(struct sock_listener *l)
{
        int fd, r;

        /* cppcheck-suppress nullPointer; nobody asks for the address */
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        r = -errno;
        if (fd >= 0)
                return fd;
        if ((r == -EMFILE || r == -ENFILE) && l->spare >= 0) {
                /* a client that waits would wake us for ever */
                close(l->spare);
                /* cppcheck-suppress nullPointer */
                fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
                if (fd >= 0)
                        close(fd);
                l->spare = eventfd(0, EFD_CLOEXEC);
        }
        return r;
}

void sock_remove(const struct sock_listener *l)
{
        struct stat st;

        if (*l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
                unlink(l->path);
}

void sock_keep(struct sock_listener *l)
{
        *l->path = '\0';
}

void sock_close(struct sock_listener *l)
{
        if (l->fd < 0)
                return;
        sock_remove(l);
        close(l->fd);
        if (l->spare >= 0)
                close(l->spare);
        *l = (struct sock_listener)SOCK_LISTENER_NONE;
}

int sock_dial(const char *path)
{
        struct sockaddr_un addr;
        const char *words;
        int r = make_address(path, &addr, &words);

        return r < 0 ? r : try_connect(&addr, SOCK_NONBLOCK);
}

int sock_connect(const char *path, const char **ret_why)
{
        struct sockaddr_un addr;
        int fd = make_address(path, &addr, ret_why);

        if (fd < 0)
                return fd;
        fd = try_connect(&addr, 0);
        switch (fd < 0 ? -fd : 0) {
        case 0:
                return fd;
        case ENOENT:
                return refuse(
                        fd, ret_why,
                        "%s: there is no such socket: is it the --ctl=PATH of a running device or driver?",
                        path);
        case ECONNREFUSED:
                return refuse(fd, ret_why, "%s: nobody listens there any more", path);
        case EACCES:
                return refuse(
                        fd, ret_why,
                        "%s: permission denied: the socket belongs to the user who started that process",
                        path);
        default:
                return refuse(fd, ret_why, "%s: %s", path, strerror(-fd));
        }
}
