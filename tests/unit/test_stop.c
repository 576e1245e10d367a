/* An orderly stop, and what happens when it hangs.  The signals are those of a child process. */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stop.h"

static double seconds(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Runs body() in a child that has called stop_start(7); returns its exit status, or -signal. */
static int in_child(void (*body)(void))
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                if (stop_start(7) < 0)
                        _exit(99);
                body();
                _exit(0);
        }
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void wait_until_told(void)
{
        struct pollfd p = { .fd = stop_fd(), .events = POLLIN };

        if (poll(&p, 1, 0) != 0)
                _exit(98);
        raise(SIGTERM);
        if (poll(&p, 1, 1000) != 1)
                _exit(97);
}

TEST(stop, a_signal_is_seen_on_the_fd_and_stays_there)
{
        EXPECT_EQ(in_child(wait_until_told), 0);
}

static void hang(void)
{
        static char path[64];

        snprintf(path, sizeof(path), "/tmp/vw-test-stop-%d", (int)getppid());
        stop_removes(path);
        for (;;) {
                raise(SIGINT); /* again and again: that must not put it off */
                poll(NULL, 0, 10);
        }
}

TEST(stop, a_hang_ends_within_a_second_and_the_socket_goes)
{
        double begin = seconds();
        char path[64];

        snprintf(path, sizeof(path), "/tmp/vw-test-stop-%d", (int)getpid());
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        EXPECT_EQ(in_child(hang), 7);
        EXPECT(seconds() - begin < 1);
        EXPECT_EQ(access(path, F_OK), -1);
}

static void bus_error_of_our_own(void)
{
        raise(SIGBUS);
}

TEST(stop, faults_that_no_peer_made_still_end_the_program)
{
        EXPECT_EQ(in_child(bus_error_of_our_own), -SIGBUS);
}

static void write_to_a_closed_pipe(void)
{
        int fds[2];

        if (pipe(fds) < 0)
                _exit(96);
        close(fds[0]);
        if (write(fds[1], "", 1) != -1)
                _exit(95);
}

TEST(stop, a_closed_pipe_is_an_error_and_not_a_signal)
{
        EXPECT_EQ(in_child(write_to_a_closed_pipe), 0);
}
