#include "sandbox/door.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/layers.h"

enum { DIAL = 'd', CLEAR = 'c' };

/* ---- the door's process ---- */

/* The connection that was asked for, or -errno. */
static void answer(int door, int fd)
{
        int result = MIN(fd, 0);
        struct iovec iov = { .iov_base = &result, .iov_len = sizeof(result) };
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = { 0 };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (fd >= 0) {
                control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS,
                                                  .cmsg_len = CMSG_LEN(sizeof(int)) };
                memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
                msg.msg_control = &control;
                msg.msg_controllen = sizeof(control);
        }
        if (sendmsg(door, &msg, MSG_NOSIGNAL) < 0) {
                /* nobody is left to hear it */
        }
}

/* Less than the starting user's rights.  Where a part of it is refused the door stands all the same: what the process itself lacks is
 * told to the operator. */
static void restrict_door(int door)
{
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM };
        const char *why;

        /* they are for the process, which it outlives by a moment */
        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN);
        prctl(PR_SET_NAME, "vwire-door");
        if (door > 0)
                close_range(0, (unsigned)door - 1, 0);
        close_range((unsigned)door + 1, ~0u, 0);
        capabilities_keep(BIT(CAP_DAC_OVERRIDE), &why);
        if (SANITIZED)
                return;
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
                syscalls_restrict(SANDBOX_DOOR);
}

_Noreturn static void serve(int door, const struct door_ops *ops, void *ctx)
{
        char request = 0;

        restrict_door(door);
        while (read(door, &request, 1) == 1 && request == DIAL) {
                int fd = ops->dial(ctx);

                answer(door, fd);
                if (fd >= 0)
                        close(fd);
                request = 0;
        }
        if (request == CLEAR)
                ops->clear(ctx);
        _exit(0); /* which ends the wait for it */
}

/* ---- the sandboxed process ---- */

int door_open(const struct door_ops *ops, void *ctx)
{
        int pair[2];
        pid_t pid;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid = fork();
        if (pid == 0)
                serve(pair[1], ops, ctx);
        close(pair[1]);
        if (pid < 0) {
                int r = -errno;

                close(pair[0]);
                return r;
        }
        return pair[0];
}

static ssize_t receive(int door, struct msghdr *msg)
{
        ssize_t n;

        do
                n = recvmsg(door, msg, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        return n;
}

int door_dial(int door)
{
        static const char request = DIAL;
        int result, fd = -EPROTO;
        struct iovec iov = { .iov_base = &result, .iov_len = sizeof(result) };
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control;
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *cmsg;

        if (send(door, &request, 1, MSG_NOSIGNAL) < 0)
                return -errno;
        if (receive(door, &msg) != sizeof(result))
                return -EPIPE;
        if (result < 0)
                return result;
        cmsg = CMSG_FIRSTHDR(&msg);
        if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
                memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
        return fd;
}

void door_clear(int door)
{
        static const char request = CLEAR;
        int error = errno;
        char end;

        if (send(door, &request, 1, MSG_NOSIGNAL) == 1)
                while (read(door, &end, 1) < 0 && errno == EINTR)
                        continue;
        errno = error;
}
