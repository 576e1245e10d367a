/* Doorbells: the eventfds by which the driver wakes the device (kick) and the device wakes the driver (call).
 *
 * They come non-blocking.  But O_NONBLOCK belongs to the open file, which the device shares: it may clear it again.  So a bell is rung
 * only after a look whether it takes a ring, and read by a call that does not wait whatever the flag says. */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver/driver.h"

int drv_doorbell(int *ret_fd)
{
        *ret_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return *ret_fd < 0 ? -errno : 0;
}

void drv_doorbell_close(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void drv_ring_bell(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        uint64_t one = 1;

        if (poll(&p, 1, 0) <= 0 || write(fd, &one, sizeof(one)) < 0) {
                /* full: it rings already */
        }
}

uint64_t drv_read_bell(int fd)
{
        uint64_t n = 0;
        struct iovec iov = { &n, sizeof(n) };

        return preadv2(fd, &iov, 1, -1, RWF_NOWAIT) == sizeof(n) ? n : 0;
}
