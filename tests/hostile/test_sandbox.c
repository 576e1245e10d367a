/* A guest has taken the device over and runs what it likes: a payload that enters the layers as the device does and then tries what is
 * forbidden.  Each layer is tried alone, as if the others had failed, and the list of system calls by every number there is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "ctl/sock.h"
#include "sandbox/door.h"
#include "sandbox/sandbox.h"
#include "test.h"

#define LAYER(name) (1u << VW_SANDBOX_##name)

enum { REFUSED = 0, LET_THROUGH = 1, OTHERWISE = 2, MISSING = 77 };

/* What the payload aims at: this process, its sockets and its semaphores. */
static struct target {
        pid_t pid;
        int tcp, abstract;
        struct sockaddr_in tcp_addr;
        struct sockaddr_un abstract_addr;
        socklen_t abstract_len;
        int sem_key, sem;
} target;

/* Runs fn(arg) in a child; its exit status, or minus the signal that ended it. */
static int in_child(int (*fn)(const void *arg), const void *arg)
{
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(fn(arg));
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct sandbox sandbox_of(uint32_t layers)
{
        return (struct sandbox){ .wanted = layers, .threads = 64, .fds = 256 };
}

/* ---- each layer alone ---- */

static int verdict(bool succeeded)
{
        return succeeded ? LET_THROUGH : REFUSED;
}

static int try_open(void)
{
        return verdict(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ||
                       open("/tmp", O_RDONLY | O_CLOEXEC) >= 0);
}

static int try_write_file(void)
{
        return verdict(open("/tmp/vw-test-payload", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 ||
                       unlink("/tmp/vw-test-payload") == 0 || mkdir("/tmp/vw-test-payload", 0700) == 0);
}

static int try_connect_tcp(void)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return verdict(fd >= 0 &&
                       connect(fd, (struct sockaddr *)&target.tcp_addr, sizeof(target.tcp_addr)) == 0);
}

static int try_connect_abstract(void)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return verdict(fd >= 0 &&
                       connect(fd, (struct sockaddr *)&target.abstract_addr, target.abstract_len) == 0);
}

static int try_signal(void)
{
        return verdict(kill(target.pid, 0) == 0);
}

static int try_ptrace(void)
{
        return verdict(ptrace(PTRACE_SEIZE, target.pid, 0, 0) == 0);
}

static int try_semaphore(void)
{
        return verdict(semget(target.sem_key, 1, 0) >= 0);
}

static int try_mount(void)
{
        return verdict(mount("none", "/", "tmpfs", 0, NULL) == 0 || unshare(CLONE_NEWNS) == 0 ||
                       chroot(".") == 0);
}

static int try_become_root(void)
{
        return verdict(setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0);
}

static void *sleep_on(void *arg)
{
        pause();
        return arg;
}

static int try_threads(void)
{
        pthread_t thread;

        for (unsigned i = 0; i < 128; i++)
                if (pthread_create(&thread, NULL, sleep_on, NULL) != 0)
                        return REFUSED;
        return LET_THROUGH;
}

static int try_fds(void)
{
        for (unsigned i = 0; i < 512; i++)
                if (dup(STDERR_FILENO) < 0)
                        return REFUSED;
        return LET_THROUGH;
}

static int try_core(void)
{
        struct rlimit core = { RLIM_INFINITY, RLIM_INFINITY };

        return verdict(setrlimit(RLIMIT_CORE, &core) == 0 || prctl(PR_GET_DUMPABLE) != 0);
}

struct attempt {
        const char *name;
        uint32_t layers;
        int (*payload)(void);
};

/* Layers are on by themselves, and what they are there for fails; where two do the same, either is enough.  Without root the user
 * stays who it was, to processes outside. */
static const struct attempt attempts[] = {
        {"open files: mount",               LAYER(MOUNT),                                           try_open            },
        { "open files: landlock",           LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_open            },
        { "make files: mount",              LAYER(MOUNT),                                           try_write_file      },
        { "make files: landlock",           LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_write_file      },
        { "connect by TCP: network",        LAYER(NETWORK),                                         try_connect_tcp     },
        { "connect by TCP: landlock",       LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_connect_tcp     },
        { "abstract sockets: network",      LAYER(NETWORK),                                         try_connect_abstract},
        { "abstract sockets: landlock",     LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_connect_abstract},
        { "signals: user and capabilities", LAYER(USER) | LAYER(CAPABILITIES),                      try_signal          },
        { "signals: landlock",              LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_signal          },
        { "ptrace: user and capabilities",  LAYER(USER) | LAYER(CAPABILITIES),                      try_ptrace          },
        { "ptrace: landlock",               LAYER(NO_NEW_PRIVS) | LAYER(LANDLOCK),                  try_ptrace          },
        { "semaphores: ipc",                LAYER(IPC),                                             try_semaphore       },
        { "mounts: capabilities",           LAYER(CAPABILITIES),                                    try_mount           },
        { "root: user and capabilities",    LAYER(USER) | LAYER(CAPABILITIES),                      try_become_root     },
        { "threads: user and rlimits",      LAYER(USER) | LAYER(CAPABILITIES) | LAYER(RLIMITS),     try_threads         },
        { "fds: rlimits",                   LAYER(RLIMITS),                                         try_fds             },
        { "core: rlimits and dumpable",     LAYER(CAPABILITIES) | LAYER(RLIMITS) | LAYER(DUMPABLE), try_core            },
};

static int run_attempt(const void *arg)
{
        const struct attempt *a = arg;
        struct sandbox sb = sandbox_of(a->layers);

        if (sandbox_enter(&sb) < 0)
                return MISSING;
        return sb.on == a->layers ? a->payload() : OTHERWISE;
}

static void aim(void)
{
        socklen_t len = sizeof(target.tcp_addr);

        target = (struct target){ .pid = getpid(), .sem_key = 0x76770000 + (getpid() & 0xffff) };
        target.tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        target.tcp_addr =
                (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        EXPECT_EQ(bind(target.tcp, (struct sockaddr *)&target.tcp_addr, len), 0);
        EXPECT_EQ(listen(target.tcp, 8), 0);
        EXPECT_EQ(getsockname(target.tcp, (struct sockaddr *)&target.tcp_addr, &len), 0);
        target.abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        target.abstract_addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
        target.abstract_len =
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                            (size_t)sprintf(target.abstract_addr.sun_path + 1, "vw-%d", getpid()));
        EXPECT_EQ(bind(target.abstract, (struct sockaddr *)&target.abstract_addr, target.abstract_len), 0);
        EXPECT_EQ(listen(target.abstract, 8), 0);
        target.sem = semget(target.sem_key, 1, IPC_CREAT | 0666);
        EXPECT(target.sem >= 0);
}

static void aim_no_more(void)
{
        close(target.tcp);
        close(target.abstract);
        semctl(target.sem, 0, IPC_RMID);
}

/* hostile O02 */
TEST(sandbox, each_layer_alone_refuses_what_it_is_there_for)
{
        static const struct attempt bare = { "bare", 0, NULL };
        static int (*const payloads[])(void) = { try_open,   try_connect_tcp, try_connect_abstract,
                                                 try_signal, try_ptrace,      try_semaphore,
                                                 try_fds };
        unsigned missing = 0;

        aim();
        for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) { /* each would succeed without a layer */
                struct attempt a = bare;

                a.payload = payloads[i];
                EXPECT_EQ(in_child(run_attempt, &a), LET_THROUGH);
        }
        for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
                bool as_root = attempts[i].payload != try_signal && attempts[i].payload != try_ptrace;
                int r = as_root || geteuid() == 0 || attempts[i].layers & LAYER(LANDLOCK)
                                ? in_child(run_attempt, &attempts[i])
                                : MISSING;

                missing += r == MISSING;
                if (r != REFUSED && r != MISSING)
                        fail_msg("%s: %d", attempts[i].name, r);
        }
        aim_no_more();
        if (missing)
                print_message("# skipped: %u attempts: this system or build lacks layers\n", missing);
}

/* ---- all layers ---- */

static int count_nothing(const char *field, const char *line)
{
        unsigned long long caps;
        char format[32];

        snprintf(format, sizeof(format), "%s: %%llx", field);
        return sscanf(line, format, &caps) == 1 && caps != 0;
}

/* The lines of /proc/PID/status, read by the other side: inside there is no /proc. */
static int count_rights(pid_t pid)
{
        static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
        char path[64], line[256];
        int n = 0, nnp = 0, seccomp = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        f = fopen(path, "re");
        EXPECT(f);
        while (fgets(line, sizeof(line), f)) {
                for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
                        n += count_nothing(sets[i], line);
                sscanf(line, "NoNewPrivs: %d", &nnp);
                sscanf(line, "Seccomp: %d", &seccomp);
        }
        fclose(f);
        return n + (nnp != 1) + (seccomp != 2);
}

static int shut_in(enum sandbox_role role)
{
        struct sandbox sb = sandbox_of(VW_SANDBOX_ALL);

        if (sandbox_enter(&sb) < 0 || sandbox_seal(&sb, role) < 0)
                return MISSING;
        return 0;
}

/* hostile O01 */
TEST(sandbox, leaves_no_right_of_any_kind)
{
        int ready[2], done[2], status;
        char byte;
        pid_t pid;

        EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(done, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                close(done[1]);
                byte = (char)shut_in(SANDBOX_CONTROL);
                _exit(write(ready[1], &byte, 1) != 1 || (!byte && read(done[0], &byte, 1) != 0));
        }
        EXPECT_EQ(read(ready[0], &byte, 1), 1);
        if (byte == 0)
                EXPECT_EQ(count_rights(pid), 0);
        close(done[1]);
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        close(ready[0]), close(ready[1]), close(done[0]);
        if (byte)
                SKIP("this system or build lacks layers");
        EXPECT_EQ(status, 0);
}

/* ---- system calls by number ---- */

#if defined(__x86_64__)

#define CALLS_END 513
/* The kernel lets them through any filter, and they do nothing outside the code that it writes for probes. */
#define URETPROBE 335
#define UPROBE    336

static const int worker_calls[] = {
        SYS_epoll_pwait2, SYS_timerfd_settime, SYS_writev,  SYS_preadv2,     SYS_write,
        SYS_poll,         SYS_clock_gettime,   SYS_futex,   SYS_sched_yield, SYS_epoll_ctl,
        SYS_close,        SYS_ioctl,           SYS_sendto,  SYS_recvmsg,     SYS_mmap,
        SYS_mprotect,     SYS_munmap,          SYS_madvise, SYS_brk,         SYS_exit,
        SYS_rt_sigreturn, SYS_rt_sigprocmask,  SYS_getpid,  SYS_gettid,      SYS_tgkill,
};
static const int control_calls[] = {
        SYS_epoll_pwait2,
        SYS_preadv2,
        SYS_read,
        SYS_write,
        SYS_poll,
        SYS_clock_gettime,
        SYS_futex,
        SYS_epoll_ctl,
        SYS_close,
        SYS_ioctl,
        SYS_sendto,
        SYS_recvmsg,
        SYS_mmap,
        SYS_mprotect,
        SYS_munmap,
        SYS_madvise,
        SYS_brk,
        SYS_mremap,
        SYS_exit,
        SYS_exit_group,
        SYS_rt_sigreturn,
        SYS_rt_sigprocmask,
        SYS_rt_sigaction,
        SYS_getpid,
        SYS_gettid,
        SYS_tgkill,
        SYS_accept4,
        SYS_sendmsg,
        SYS_getsockopt,
        SYS_getpeername,
        SYS_fcntl,
        SYS_newfstatat,
        SYS_fstat,
        SYS_fstatfs,
        SYS_eventfd2,
        SYS_setitimer,
        SYS_restart_syscall,
        SYS_clone,
        SYS_set_robust_list,
        SYS_rseq,
        SYS_lseek,
        SYS_ftruncate,
        SYS_clone3, /* answered with ENOSYS */
};
static const int door_calls[] = {
        SYS_read,   SYS_write,   SYS_close,      SYS_exit_group, SYS_rt_sigreturn, SYS_sendmsg,
        SYS_socket, SYS_connect, SYS_newfstatat, SYS_unlinkat,   SYS_unlink,       SYS_lstat,
};

static_assert(ARRAY_SIZE(worker_calls) <= 25, "a worker makes do with 25 system calls");

static const struct list {
        enum sandbox_role role;
        const int *calls;
        size_t n;
} lists[] = {
        {SANDBOX_WORKER,   worker_calls,  ARRAY_SIZE(worker_calls) },
        { SANDBOX_CONTROL, control_calls, ARRAY_SIZE(control_calls)},
        { SANDBOX_DOOR,    door_calls,    ARRAY_SIZE(door_calls)   },
};

static bool listed(const struct list *list, int call)
{
        for (size_t i = 0; i < list->n; i++)
                if (list->calls[i] == call)
                        return true;
        return false;
}

#define OWN (-9) /* our process id */

struct call {
        long number;
        long args[6];
};

/* Makes the call after the list has come into force.  REFUSED: the kernel ended the process for it. */
static int try_call(struct sandbox *sb, enum sandbox_role role, const struct call *c)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                struct rlimit cpu = { 1, 2 };

                setrlimit(RLIMIT_CPU, &cpu);
                if (sandbox_seal(sb, role) < 0)
                        _exit(MISSING);
                syscall(c->number, c->args[0] == OWN ? getpid() : c->args[0], c->args[1], c->args[2],
                        c->args[3], c->args[4], c->args[5]);
                syscall(role == SANDBOX_DOOR ? SYS_exit_group : SYS_exit, 42);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return OTHERWISE;
        if (WIFEXITED(status) && WEXITSTATUS(status) == MISSING)
                return MISSING;
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? REFUSED : LET_THROUGH;
}

/* An argument that each list wants to see, where zeros are refused. */
static const struct call let_through[] = {
        {SYS_ioctl,         { -1, TUNSETOFFLOAD }                                               },
        { SYS_ioctl,        { -1, TUNSETQUEUE }                                                 },
        { SYS_madvise,      { 0, 0, MADV_DONTNEED }                                             },
        { SYS_madvise,      { 0, 0, MADV_DONTDUMP }                                             },
        { SYS_mmap,         { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 }},
        { SYS_tgkill,       { OWN, 0, SIGABRT }                                                 },
        { SYS_rt_sigaction, { SIGBUS }                                                          },
        { SYS_getsockopt,   { -1, SOL_SOCKET }                                                  },
        { SYS_fcntl,        { -1, F_GETFL }                                                     },
        { SYS_fcntl,        { -1, F_SETFL }                                                     },
        { SYS_newfstatat,   { -1, 0, 0, AT_EMPTY_PATH }                                         },
        { SYS_setitimer,    { ITIMER_REAL }                                                     },
        { SYS_socket,       { AF_UNIX, 0xffff }                                                 },
};

/* And what none wants. */
static const struct call ended[] = {
        {SYS_mmap,                { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 }},
        { SYS_mprotect,           { 0, 0, PROT_EXEC }                                                },
        { SYS_ioctl,              { -1, TUNSETIFF }                                                  },
        { SYS_ioctl,              { 0, TIOCSTI }                                                     },
        { SYS_madvise,            { 0, 0, MADV_DODUMP }                                              },
        { SYS_tgkill,             { 1, 1, SIGABRT }                                                  },
        { SYS_tgkill,             { OWN, 0, SIGKILL }                                                },
        { SYS_fcntl,              { -1, F_SETOWN }                                                   },
        { SYS_fcntl,              { -1, F_ADD_SEALS }                                                },
        { SYS_clone,              { SIGCHLD }                                                        },
        { SYS_clone,              { CLONE_NEWUSER | SIGCHLD }                                        },
        { SYS_socket,             { AF_INET, SOCK_STREAM }                                           },
        { SYS_rt_sigaction,       { SIGSYS }                                                         },
        { SYS_setitimer,          { ITIMER_PROF }                                                    },
        { 0x40000000 | SYS_write, { 2 }                                                              }, /* x32 */
};

static int complain(const struct list *list, const struct call *c, int result)
{
        dprintf(STDERR_FILENO, "# role %d, call %ld (%ld, %ld, %ld): %d\n", list->role, c->number, c->args[0],
                c->args[1], c->args[2], result);
        return 1;
}

static bool zeros_will_do(long call)
{
        for (size_t i = 0; i < ARRAY_SIZE(let_through); i++)
                if (let_through[i].number == call && call != SYS_mmap)
                        return false;
        return call != SYS_clone;
}

static int sweep(const void *arg)
{
        const struct list *list = arg;
        struct sandbox sb = { .wanted = VW_SANDBOX_ALL, .threads = 64, .fds = 256 };
        int faults = 0;

        if (sandbox_enter(&sb) < 0)
                return MISSING;
        for (long n = 0; n < CALLS_END && faults < 10; n++) {
                struct call c = { n, { 0 } };
                int r = try_call(&sb, list->role, &c);

                if (r == MISSING)
                        return MISSING;
                if (n == UPROBE || n == URETPROBE || (listed(list, (int)n) && !zeros_will_do(n)))
                        continue;
                if (r != (listed(list, (int)n) ? LET_THROUGH : REFUSED))
                        faults += complain(list, &c, r);
        }
        for (size_t i = 0; i < ARRAY_SIZE(let_through); i++) {
                const struct call *c = &let_through[i];
                int r = try_call(&sb, list->role, c);

                if (listed(list, (int)c->number) && r != LET_THROUGH)
                        faults += complain(list, c, r);
        }
        for (size_t i = 0; i < ARRAY_SIZE(ended); i++) {
                int r = try_call(&sb, list->role, &ended[i]);

                if (r != REFUSED)
                        faults += complain(list, &ended[i], r);
        }
        return faults;
}

/* hostile O02 */
TEST(sandbox, lets_no_system_call_through_that_is_not_on_the_list)
{
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                int r = in_child(sweep, &lists[i]);

                if (r == MISSING)
                        SKIP("this system or build lacks layers");
                EXPECT_EQ(r, 0);
        }
}

/* The 32-bit way in, where the numbers mean other calls. */
static int call_as_i386(const void *arg)
{
        long result = 20; /* getpid() there, writev() here */

        (void)arg;
        if (shut_in(SANDBOX_WORKER))
                return MISSING;
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
        syscall(SYS_exit, 42);
        return 42;
}

TEST(sandbox, lets_no_call_of_another_architecture_through)
{
        int r = in_child(call_as_i386, NULL);

        if (r == MISSING)
                SKIP("this system or build lacks layers");
        EXPECT(r == -SIGSYS || r == -SIGSEGV); /* the latter: a kernel without them */
}

#endif

/* ---- the door ---- */

static char path[64];

static int dial(void *ctx)
{
        return sock_dial(ctx);
}

static void clear(void *ctx)
{
        unlink(ctx);
}

static const struct door_ops door_ops = { .dial = dial, .clear = clear };

static int open_door(void)
{
        int door;

        snprintf(path, sizeof(path), "/tmp/vw-test-door-%d", getpid());
        door = door_open(&door_ops, path);
        EXPECT(door >= 0);
        return door;
}

static int wait_for_end(void)
{
        int status;

        EXPECT(waitpid(-1, &status, 0) > 0);
        return status;
}

TEST(door, brings_connections_for_as_long_as_somebody_listens)
{
        struct sock_listener l;
        int door = open_door(), r;
        const char *why;

        EXPECT_EQ(door_dial(door), -ENOENT);
        EXPECT_EQ(sock_listen(&l, path, 0600, (gid_t)-1, &why), 0);
        for (unsigned i = 0; i < 3; i++) {
                int ours = door_dial(door), theirs = sock_accept(&l);
                char word[3];

                EXPECT(ours >= 0 && theirs >= 0);
                EXPECT_EQ(write(theirs, "hi", 3), 3);
                EXPECT_EQ(read(ours, word, sizeof(word)), 3);
                close(theirs);
                EXPECT_EQ(read(ours, word, sizeof(word)), 0);
                close(ours);
        }
        close(l.fd);
        r = door_dial(door);
        close(l.spare);
        EXPECT_EQ(r, -ECONNREFUSED);
        door_clear(door);
        EXPECT_EQ(wait_for_end(), 0);
        EXPECT_EQ(access(path, F_OK), -1);
        EXPECT(door_dial(door) < 0);
        door_clear(door); /* again: nobody hears */
        close(door);
}

TEST(door, ends_with_its_process_and_at_any_other_word)
{
        int door = open_door();
        char byte;

        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        close(door);
        EXPECT_EQ(wait_for_end(), 0);
        EXPECT_EQ(access(path, F_OK), 0); /* nobody asked for that */
        unlink(path);
        door = open_door();
        EXPECT_EQ(write(door, "!", 1), 1);
        EXPECT_EQ(read(door, &byte, 1), 0);
        EXPECT_EQ(wait_for_end(), 0);
        close(door);
}

TEST(door, holds_no_fd_of_the_process)
{
        int ends[2], door;
        char byte;

        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        door = open_door();
        close(ends[1]);
        EXPECT_EQ(read(ends[0], &byte, 1), 0);
        close(ends[0]);
        close(door);
        EXPECT_EQ(wait_for_end(), 0);
}
