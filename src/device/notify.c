#include "device/notify.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomics.h"
#include "device/queue.h"

/* The fds come non-blocking.  But O_NONBLOCK belongs to the open file, which the peer shares: it may clear it again.  Hence the polls
 * below. */

void notify_set(struct dev_notify *n, int fd)
{
        if (n->fd >= 0)
                close(n->fd);
        store_relaxed(&n->fd, fd); /* the control thread may look: see free_stuck() */
        n->dead = false;
}

int notify_send(struct dev_notify *n)
{
        struct pollfd p = { .fd = n->fd, .events = POLLOUT };
        uint64_t one = 1;

        if (n->fd < 0 || n->dead || poll(&p, 1, 0) <= 0)
                return 0;
        if (write(n->fd, &one, sizeof(one)) == sizeof(one))
                return 1;
        if (errno == EAGAIN || errno == EINTR)
                return 0;
        n->dead = true;
        return -errno;
}

bool notify_unread(const struct dev_notify *n)
{
        struct pollfd p = { .fd = n->fd, .events = POLLIN };

        return n->fd >= 0 && !n->dead && poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

uint32_t notify_take(int fd)
{
        uint64_t values[64]; /* an eventfd fills one; a pipe holds one a kick */
        struct iovec iov = { .iov_base = values, .iov_len = sizeof(values) };
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

        if (n < 0 && errno == EOPNOTSUPP) /* pipes before Linux 6.4 */
                n = poll(&p, 1, 0) > 0 ? preadv2(fd, &iov, 1, -1, 0) : 0;
        if (n <= 0)
                return 0;
        if (n > (ssize_t)sizeof(values[0]))
                return (uint32_t)((size_t)n / sizeof(values[0]));
        return n == sizeof(values[0]) && values[0] < UINT32_MAX ? (uint32_t)values[0] : 1;
}
