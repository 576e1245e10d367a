/* Kick and call fds in the hands of a peer. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device/notify.h"
#include "device/queue.h"
#include "test.h"

TEST(notify, sends_and_takes_through_eventfds)
{
        struct dev_notify n = { .fd = -1 };
        int fd = eventfd(0, EFD_CLOEXEC);

        EXPECT_EQ(notify_send(&n), 0); /* nobody there */
        EXPECT(!notify_unread(&n));
        notify_set(&n, dup(fd));
        EXPECT(!notify_unread(&n));
        EXPECT_EQ(notify_take(fd), 0); /* never blocks, whatever the flags were */
        EXPECT_EQ(notify_send(&n), 1);
        EXPECT_EQ(notify_send(&n), 1);
        EXPECT(notify_unread(&n));
        EXPECT_EQ(notify_take(fd), 2);
        EXPECT(!notify_unread(&n));
        EXPECT_EQ(notify_take(fd), 0);
        notify_set(&n, -1);
        EXPECT_EQ(n.fd, -1);
        close(fd);
}

/* hostile I02 */
TEST(notify, never_blocks_on_a_full_counter)
{
        struct dev_notify n = { .fd = -1 };
        uint64_t most = UINT64_MAX - 1;
        int fd = eventfd(0, EFD_CLOEXEC);

        notify_set(&n, fd);
        EXPECT_EQ(write(fd, &most, sizeof(most)), sizeof(most));
        EXPECT_EQ(notify_send(&n), 0);
        EXPECT_EQ(fcntl(fd, F_SETFL, 0), 0);
        EXPECT_EQ(notify_send(&n), 0);
        EXPECT_EQ(notify_take(fd), 1); /* a number that cannot be believed */
        EXPECT_EQ(notify_take(fd), 0); /* blocking now, and yet */
        EXPECT_EQ(notify_send(&n), 1);
        notify_set(&n, -1);
}

/* hostile I04 */
TEST(notify, takes_one_at_a_time_from_a_semaphore)
{
        uint64_t many = UINT64_C(1) << 63;
        int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

        EXPECT_EQ(write(fd, &many, sizeof(many)), sizeof(many));
        EXPECT_EQ(notify_take(fd), 1);
        EXPECT_EQ(notify_take(fd), 1);
        close(fd);
}

/* hostile I01 */
TEST(notify, counts_a_closed_pipe_once)
{
        struct dev_notify n = { .fd = -1 };
        sigset_t pipe_signal, before;
        int ends[2];

        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, &before); /* as workers do */
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        notify_set(&n, ends[1]);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(notify_send(&n), 1);
        EXPECT_EQ(notify_take(ends[0]), 3);
        while (notify_send(&n) == 1)
                continue; /* a full pipe is as good as a message */
        EXPECT_EQ(notify_take(ends[0]), 64);
        close(ends[0]);
        EXPECT_EQ(notify_send(&n), -EPIPE);
        EXPECT_EQ(notify_send(&n), 0);
        EXPECT(n.dead);
        sigtimedwait(&pipe_signal, NULL, &(struct timespec){ 0 });
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        notify_set(&n, -1);
}
