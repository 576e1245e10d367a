/* The system calls of each kind of thread, by libseccomp.  Whatever is not listed ends the process.
 *
 * What a packet costs: the calls of the data path are allowed whatever their arguments, and the kernel keeps a bitmap of such calls
 * (since Linux 5.11): it runs no filter for them.  Filters with arguments are for calls that set up. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/layers.h"

enum { W = 1 << SANDBOX_WORKER, C = 1 << SANDBOX_CONTROL, D = 1 << SANDBOX_DOOR };

#define OPTIMIZE_TREE 2 /* a binary tree of calls in the place of a list */

/* What pthread_create() asks for: a thread, and no process.  clone3() hides its arguments; the C library then takes clone(). */
#define CLONE_A_THREAD                                                                                       \
        (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |   \
         CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* An argument is looked at where `values` are given: after the mask it is one of them. */
struct row {
        int call;
        unsigned who;
        bool of_ours; /* the first argument is our own process id */
        unsigned arg;
        uint64_t mask;
        unsigned n_values;
        const uint64_t *values;
};

#define LIST(...)                                                                                            \
        .n_values = sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t),                            \
        .values = (const uint64_t[])                                                                         \
        {                                                                                                    \
                __VA_ARGS__                                                                                  \
        }
#define ANY(name, who_)                                                                                      \
        {                                                                                                    \
                .call = SCMP_SYS(name), .who = (who_)                                                        \
        }
#define ONE_OF(name, who_, n, ...)                                                                           \
        {                                                                                                    \
                .call = SCMP_SYS(name), .who = (who_), .arg = (n), .mask = UINT64_MAX, LIST(__VA_ARGS__)     \
        }
#define WITHOUT(name, who_, n, bits)                                                                         \
        {                                                                                                    \
                .call = SCMP_SYS(name), .who = (who_), .arg = (n), .mask = (bits), LIST(0)                   \
        }

/* clang-format off */
static const struct row rows[] = {
        /* the data path: frames, kicks, calls, sleep */
        ANY(epoll_pwait2, W | C),
        ANY(writev, W),
        ANY(preadv2, W | C),
        ANY(read, C | D),
        ANY(write, W | C | D),
#ifdef __NR_poll
        ANY(poll, W | C),
#else
        ANY(ppoll, W | C),
#endif
        ANY(clock_gettime, W | C), /* where the vDSO cannot */
        ANY(futex, W | C),
        ANY(sched_yield, W),
        ANY(timerfd_settime, W),

        /* queues and ports come and go */
        ANY(epoll_ctl, W | C),
        ANY(close, W | C | D),
        ONE_OF(ioctl, W | C, 1, TUNSETOFFLOAD, TUNSETQUEUE, TUNGETIFF, TUNSETCARRIER),
        ANY(sendto, W | C), /* netlink; answers */
        ANY(recvmsg, W | C), /* netlink; messages */

        /* memory, none of it executable */
        WITHOUT(mmap, W | C, 2, PROT_EXEC),
        WITHOUT(mprotect, W | C, 2, PROT_EXEC),
        ANY(munmap, W | C),
        ONE_OF(madvise, W | C, 2, MADV_DONTNEED, MADV_DONTDUMP),
        ANY(brk, W | C),
        ANY(mremap, C),

        /* the end of a thread or, by a fault or a bug, of the process */
        ANY(exit, W | C),
        ANY(exit_group, C | D),
        ANY(rt_sigreturn, W | C | D),
        ANY(rt_sigprocmask, W | C),
        ONE_OF(rt_sigaction, C, 0, SIGBUS, SIGABRT),
        ANY(getpid, W | C),
        ANY(gettid, W | C),
        { .call = SCMP_SYS(tgkill), .who = W | C, .of_ours = true, .arg = 2, .mask = UINT64_MAX, LIST(SIGABRT, SIGBUS) },

        /* sessions and control */
        ANY(accept4, C),
        ANY(sendmsg, C | D),
        ONE_OF(getsockopt, C, 1, SOL_SOCKET),
        ANY(getpeername, C), /* is a call fd a socket pair, as User Mode Linux has them? */
        ONE_OF(fcntl, C, 1, F_GETFL, F_SETFL),
        ONE_OF(newfstatat, C, 3, AT_EMPTY_PATH),
        ANY(fstat, C),
        ANY(fstatfs, C),
        ANY(eventfd2, C),
        ONE_OF(setitimer, C, 0, ITIMER_REAL),
        ANY(restart_syscall, C), /* a sleep that SIGSTOP cut */

        /* the writer of a capture: a thread that is made when it is asked for */
        ONE_OF(clone, C, 0, CLONE_A_THREAD),
        ANY(set_robust_list, C),
        ANY(rseq, C),
        ANY(lseek, C),
        ANY(ftruncate, C),

        /* the door */
        ONE_OF(socket, D, 0, AF_UNIX),
        ANY(connect, D),
        ANY(newfstatat, D),
        ONE_OF(unlinkat, D, 2, 0),
#ifdef __NR_unlink
        ANY(unlink, D),
        ANY(lstat, D),
#endif
};
/* clang-format on */

static int allow(scmp_filter_ctx filter, const struct row *row)
{
        int r = row->n_values ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, row->call, 0);

        for (unsigned i = 0; i < row->n_values && r == 0; i++) {
                struct scmp_arg_cmp args[] = {
                        SCMP_CMP64(row->arg, SCMP_CMP_MASKED_EQ, row->mask, row->values[i]),
                        SCMP_A0_64(SCMP_CMP_EQ, (uint64_t)getpid(), 0),
                };

                r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, row->call, row->of_ours ? 2 : 1, args);
        }
        return r;
}

static int fill(scmp_filter_ctx filter, enum sandbox_role role)
{
        int r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, OPTIMIZE_TREE);

        for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++)
                if (rows[i].who & 1u << role)
                        r = allow(filter, &rows[i]);
        if (r == 0 && role == SANDBOX_CONTROL)
                r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
        return r;
}

int syscalls_restrict(enum sandbox_role role)
{
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
        int r;

        if (!filter)
                return -ENOMEM;
        r = fill(filter, role);
        if (r == 0)
                r = seccomp_load(filter);
        seccomp_release(filter);
        return r;
}
