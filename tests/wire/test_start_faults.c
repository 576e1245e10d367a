/* `vwire device` and `vwire driver` as they start, while one call of the system fails: the program says what is wrong and ends with
 * status 1, or it works; it does not crash or hang, and nothing is left behind, neither sockets nor processes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "cli.h"
#include "faults.h"
#include "test.h"

#define PATIENCE_MS 20000

static const int errors[] = { ENOMEM, EMFILE, EPERM, ENOSPC, EIO, EINTR, EAGAIN };

/* Sanitizers want memory without limit, and calls that a sandbox does not need. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX "--sandbox=-rlimits,-dumpable,-seccomp"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX "--sandbox=-rlimits,-dumpable,-seccomp"
#endif
#endif
#ifndef SANDBOX
#define SANDBOX "--nice=0"
#endif

/* ---- the program, in a process of its own ---- */

struct start {
        int (*command)(int argc, char **argv);
        const char *words[8];
        const char *ready; /* what it logs when it has started */
};

static char dir[] = "/tmp/vw-test-start-XXXXXX", sock_option[128], ctl_option[128];

static const struct start starts[] = {
        {cmd_device,  { "device", sock_option, ctl_option, "--port=null", SANDBOX },    "listening" },
        { cmd_device,
         { "device", sock_option, ctl_option, "--port=null", SANDBOX, "--client" },
         "connecting"                                                                               },
        { cmd_driver, { "driver", sock_option, ctl_option, "--port=null", "--nice=0" }, "connecting"},
        { cmd_driver,
         { "driver", sock_option, ctl_option, "--port=null", "--nice=0", "--server" },
         "listening"                                                                                },
};

static const int crashes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE };

/* What the child found out, told when it ends. */
struct verdict {
        bool fired;
        char name[32];
};

_Noreturn static void be_program(const struct start *s, int log, int verdict_fd, long n, int error)
{
        struct verdict v = { 0 };
        char *argv[ARRAY_SIZE(s->words) + 1];
        int argc = 0, status;

        for (; argc < (int)ARRAY_SIZE(s->words) && s->words[argc]; argc++)
                argv[argc] = (char *)(uintptr_t)s->words[argc];
        argv[argc] = NULL;
        for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
                signal(crashes[i], SIG_DFL); /* cmocka would make a failed test of it, in here */
        dup2(log, STDERR_FILENO);
        faults_subject(true);
        faults_once(n, error);
        status = s->command(argc, argv);
        v.fired = faults_off();
        snprintf(v.name, sizeof(v.name), "%s", faults_name());
        if (write(verdict_fd, &v, sizeof(v)) != sizeof(v))
                _exit(100);
        _exit(status);
}

/* Reads until the words appear or the writer is gone; false when nothing comes any more. */
static bool read_log(int fd, char *text, size_t room, const char *words)
{
        size_t have = 0;

        text[0] = '\0';
        while (!words || !strstr(text, words)) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                ssize_t r = 0;

                if (poll(&p, 1, PATIENCE_MS) == 1)
                        r = read(fd, text + have, room - 1 - have);
                if (r <= 0)
                        return false;
                have += (size_t)r;
                text[have] = '\0';
        }
        return true;
}

static int wait_for(pid_t pid)
{
        uint64_t until = clock_now() + PATIENCE_MS * NSEC_PER_MSEC;
        int status;

        while (waitpid(pid, &status, WNOHANG) != pid) {
                if (clock_now() > until) {
                        kill(pid, SIGKILL);
                        waitpid(pid, &status, 0);
                        return -1;
                }
                nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
        }
        return status;
}

/* What the program has made has come to us when it ended, and ends now too. */
static bool others_end(void)
{
        uint64_t until = clock_now() + PATIENCE_MS * NSEC_PER_MSEC;
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_now() < until)
                if (pid == 0)
                        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
        return pid < 0 && errno == ECHILD;
}

static bool exists(const char *option)
{
        struct stat st;

        return lstat(strchr(option, '/'), &st) == 0;
}

/* One start with the nth call failing.  True if there was one. */
static bool try_start(const struct start *s, long n, int error, unsigned *worked)
{
        struct verdict v = { 0 };
        char text[8192];
        int log[2], told[2], status;
        bool ready;
        pid_t pid;

        EXPECT(pipe2(log, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0);
        pid = fork();
        if (pid == 0)
                be_program(s, log[1], told[1], n, error);
        close(log[1]);
        close(told[1]);
        ready = read_log(log[0], text, sizeof(text), s->ready);
        if (ready)
                kill(pid, SIGTERM);
        status = wait_for(pid);
        if (read(told[0], &v, sizeof(v)) != sizeof(v))
                v = (struct verdict){ .name = "?" };
        close(log[0]);
        close(told[0]);
        if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != (ready ? 0 : 1))
                fail_msg("%s: call %ld (%s) failed with %s: status 0x%x; it said: %s", s->words[0], n, v.name,
                         strerrorname_np(error), (unsigned)status, text);
        if (!ready && !strstr(text, "error ") && !strstr(text, "vwire "))
                fail_msg("%s: call %ld (%s) failed with %s, and it did not say so: %s", s->words[0], n,
                         v.name, strerrorname_np(error), text);
        if (exists(sock_option) || exists(ctl_option) || !others_end())
                fail_msg("%s: call %ld (%s) failed with %s: something was left behind", s->words[0], n,
                         v.name, strerrorname_np(error));
        *worked += ready;
        return v.fired;
}

/* hostile J09 */
TEST(start_faults, end_in_a_sentence_and_leave_nothing_or_do_no_harm)
{
        unsigned worked = 0, refused = 0;

        EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* whoever outlives the program shows up here */
        EXPECT(mkdtemp(dir));
        snprintf(sock_option, sizeof(sock_option), "--socket-path=%s/sock", dir);
        snprintf(ctl_option, sizeof(ctl_option), "--ctl=%s/ctl", dir);
        for (size_t s = 0; s < ARRAY_SIZE(starts); s++) {
                for (unsigned e = 0; e < ARRAY_SIZE(errors); e++) {
                        unsigned idle = 0, before = worked;
                        long n;

                        /* rounds on end without a fault: the last calls have been reached with each error */
                        for (n = 0; idle < ARRAY_SIZE(errors); n++)
                                idle = try_start(&starts[s], n,
                                                 errors[((unsigned)n + e) % ARRAY_SIZE(errors)], &worked)
                                               ? 0
                                               : idle + 1;
                        EXPECT(n > 20);
                        refused += (unsigned)n - (worked - before);
                }
        }
        print_message("# %u starts failed and %u did not mind\n", refused, worked);
        EXPECT(refused > 0 && worked > 0);
        rmdir(dir);
}
