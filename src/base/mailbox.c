#include "base/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"

int mailbox_init(struct mailbox *mb)
{
        *mb = (struct mailbox){ .bell = -1, .done = -1 };
        mb->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (mb->bell < 0)
                return -errno;
        mb->done = eventfd(0, EFD_CLOEXEC);
        if (mb->done < 0) {
                int r = -errno;

                mailbox_done(mb);
                return r;
        }
        return 0;
}

void mailbox_done(struct mailbox *mb)
{
        if (mb->bell >= 0)
                close(mb->bell);
        if (mb->done >= 0)
                close(mb->done);
        mb->bell = mb->done = -1;
}

void mailbox_ring(struct mailbox *mb)
{
        uint64_t one = 1;

        /* EAGAIN: rung 2^64 - 2 times already */
        check(write(mb->bell, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

void mailbox_post(struct mailbox *mb, void (*fn)(void *arg), void *arg)
{
        mb->arg = arg;
        store_release(&mb->fn, fn);
        mailbox_ring(mb);
}

bool mailbox_wait(struct mailbox *mb, int timeout_ms)
{
        struct pollfd p = { .fd = mb->done, .events = POLLIN };
        uint64_t n;

        if (poll(&p, 1, timeout_ms) <= 0)
                return false;
        check(read(mb->done, &n, sizeof(n)) == sizeof(n));
        return true;
}

/* A post may be seen before its ring.  The ring is then taken later, or the worker would wake for it again and again. */
static void take_rings(struct mailbox *mb)
{
        uint64_t n = 0;
        struct iovec iov = { .iov_base = &n, .iov_len = sizeof(n) };

        /* preadv2: the one call by which a worker reads */
        if (mb->owed > 0 && preadv2(mb->bell, &iov, 1, -1, 0) == sizeof(n))
                mb->owed = MAX(mb->owed - (int)n, 0); /* bare rings have no post */
}

bool mailbox_serve(struct mailbox *mb)
{
        void (*fn)(void *arg);
        uint64_t one = 1;

        take_rings(mb); /* before looking: what has rung is then seen */
        fn = load_acquire(&mb->fn);
        if (!fn)
                return false;
        mb->owed++;
        take_rings(mb);
        fn(mb->arg);
        store_release(&mb->fn, NULL);
        check(write(mb->done, &one, sizeof(one)) == sizeof(one));
        return true;
}
