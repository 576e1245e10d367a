/* The sandbox of a process that serves a guest: what it gives up once everything is open.
 *
 * What it has then are file descriptors: sockets, the port, eventfds.  It can name no file, address or process any more, and makes
 * few system calls.  A guest that takes it over has the frames that the port carries anyway.
 *
 * Each layer stands alone, so that one that the system refuses can be left out by name:
 *
 *      user            uid and gid that nobody else has; without the right to change them, a user namespace of its own
 *      network, ipc    empty namespaces
 *      mount           an empty, read-only root directory
 *      rlimits         no core file; few fds; with `user` no process or thread more than are known
 *      capabilities    none, in any set, for ever
 *      dumpable        no core dump, no ptrace, no /proc/PID/mem for processes of the same user
 *      no_new_privs    nothing that is executed gives rights
 *      landlock        no file, no TCP port, no abstract socket and no process outside can be reached, as far as the kernel knows these
 *      seccomp         a list of system calls, with the arguments that are looked at; anything else ends the process
 *
 * All but seccomp are entered by the only thread there is, before others inherit them.  The lists of system calls are each
 * thread's own, since a worker needs fewer. */
#pragma once
#include <stdint.h>

#include "vwire/stats.h"

struct sandbox {
        uint32_t wanted;                   /* 1 << enum vw_sandbox_layer; zero: no sandbox */
        unsigned threads;                  /* that will be made */
        unsigned fds;                      /* that will be open at once */
        uint32_t on;                       /* set by what follows */
        const char *why[VW_SANDBOX_COUNT]; /* of each layer that is wanted and missing */
        int error[VW_SANDBOX_COUNT];       /* and its -errno */
};

/* All layers but seccomp.  One thread, before it has made any other.  0, or -EPERM when a layer is missing: all of them have been tried, and
 * the process is not to go on. */
int sandbox_enter(struct sandbox *sb);

enum sandbox_role { SANDBOX_WORKER, SANDBOX_CONTROL, SANDBOX_DOOR };

/* seccomp, for the calling thread and those that it makes from now on.  0 or -errno.  One thread at a time. */
int sandbox_seal(struct sandbox *sb, enum sandbox_role role);

/* "user,network": into buf, for messages. */
void sandbox_names(uint32_t layers, const char *before_each, char *buf, unsigned len);
