#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli.h"
#include "sandbox/door.h"
#include "vwire/types.h"

#define STOP_US 800000 /* what an orderly stop may take; a second is promised */

static int told[2] = { -1, -1 };
static volatile sig_atomic_t stopping;
static bool patient;
static int exit_status;
static const char *volatile sockets[2]; /* the peers' and the control socket */
static volatile sig_atomic_t door = -1; /* or who removes them for us */

void stop_now(void)
{
        struct itimerval t = { .it_value = { .tv_usec = STOP_US } };
        int error = errno;

        if (!stopping && !patient)
                setitimer(ITIMER_REAL, &t, NULL);
        stopping = 1;
        if (write(told[1], "", 1) < 0) {
                /* the pipe is full: it has been told often enough */
        }
        errno = error;
}

static void on_stop(int number)
{
        (void)number;
        if (stopping && patient)
                _exit(exit_status);
        stop_now();
}

/* Something hangs: what the kernel does not clean up is removed here, and the rest ends with the process. */
static void on_alarm(int number)
{
        (void)number;
        if (door >= 0)
                door_clear(door);
        for (size_t i = 0; i < ARRAY_LEN(sockets); i++)
                if (sockets[i] && door < 0)
                        unlink(sockets[i]);
        _exit(exit_status);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
        (void)context;
        if (info->si_code > 0 && vw_sigbus(info->si_addr))
                return;
        signal(number, SIG_DFL);
        raise(number);
}

int stop_start(int late_status)
{
        const struct sigaction stop = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
        const struct sigaction late = { .sa_handler = on_alarm };
        const struct sigaction bus = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
        const struct sigaction ignore = { .sa_handler = SIG_IGN };
        struct sigaction hangup;

        exit_status = late_status;
        if (pipe2(told, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        sigaction(SIGINT, &stop, NULL);
        sigaction(SIGTERM, &stop, NULL);
        if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* as nohup wants it */
                sigaction(SIGHUP, &stop, NULL);
        sigaction(SIGALRM, &late, NULL);
        sigaction(SIGBUS, &bus, NULL);
        sigaction(SIGPIPE, &ignore, NULL);
        return 0;
}

void stop_unhurried(void)
{
        patient = true;
}

int stop_fd(void)
{
        return told[0];
}

void stop_removes(const char *path)
{
        for (size_t i = 0; i < ARRAY_LEN(sockets); i++)
                if (!sockets[i]) {
                        sockets[i] = path;
                        return;
                }
}

void stop_asks(int the_door)
{
        door = the_door;
}
