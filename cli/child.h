/* Child processes that cannot outlive us: the kernel kills them when we die, however that happens. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
        const char *name;
        pid_t pid;  /* 0: none runs */
        int out;    /* what it prints; -1: nobody reads it */
        int status; /* of waitpid(), once it has ended */
};

#define CHILD_NONE                                                                                           \
        {                                                                                                    \
                .out = -1                                                                                    \
        }

/* Runs argv[0] ("/proc/self/exe": this program; else found in PATH) in a network namespace.  Its stderr, and its stdout unless
 * `piped`, go to the file `log`.  0 or -errno. */
int child_start(struct child *c, const char *name, int netns, const char *log, bool piped,
                const char *const *argv);

/* Asks, without waiting, whether it still runs. */
bool child_runs(struct child *c);

/* SIGTERM, then after `grace_ms` SIGKILL; returns when it is gone.  Of a child that does not run: nothing. */
void child_stop(struct child *c, unsigned grace_ms);

/* Whether something in its network namespace listens on the TCP port. */
bool child_listens(const struct child *c, unsigned port);

/* CPU time of it and its living descendants so far, in microseconds. */
uint64_t child_cpu_us(const struct child *c);

/* Whether a program of that name is in PATH. */
bool child_found(const char *name);
