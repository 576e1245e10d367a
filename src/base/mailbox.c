#include "base/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
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

void mailbox_call(struct mailbox *mb, void (*fn)(void *arg), void *arg)
{
        uint64_t one = 1;
        ssize_t n;

        mb->arg = arg;
        store_release(&mb->fn, fn);
        check(write(mb->bell, &one, sizeof(one)) == sizeof(one));
        do
                n = read(mb->done, &one, sizeof(one));
        while (n < 0 && errno == EINTR);
        check(n == sizeof(one));
}

/* A post may be seen before its ring.  The ring is then taken later, or the worker would wake for it again and again. */
static void take_rings(struct mailbox *mb)
{
        uint64_t n;

        if (mb->owed > 0 && read(mb->bell, &n, sizeof(n)) == sizeof(n))
                mb->owed -= (int)n;
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
