/* Bytes with file descriptors over a socket, and whether any stay behind. */
#pragma once
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

#define FUZZ_FDS_MAX 15 /* with one message */

/* `fds` stay the caller's. */
static inline void fuzz_send(int sock, const uint8_t *bytes, size_t len, const int *fds, unsigned n_fds)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(FUZZ_FDS_MAX * sizeof(int))];
        } control = { 0 };
        struct iovec iov = { (void *)(uintptr_t)bytes, len };
        struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

        check(n_fds <= FUZZ_FDS_MAX);
        if (n_fds) {
                control.align.cmsg_level = SOL_SOCKET;
                control.align.cmsg_type = SCM_RIGHTS;
                control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
                mh.msg_control = &control;
                mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        }
        if (len)
                check(sendmsg(sock, &mh, MSG_NOSIGNAL) == (ssize_t)len);
}

/* The lowest free fd number: it grows when something leaks. */
static inline int fuzz_lowest_fd(void)
{
        int fd = dup(STDERR_FILENO);

        close(fd);
        return fd;
}
