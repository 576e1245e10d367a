#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "netns.h"

_Noreturn static void run_child(pid_t parent, int netns, const char *log, int out, const char *const *argv)
{
        int null = open("/dev/null", O_RDWR), to = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            getppid() != parent) /* it may have died before the call */
                _exit(127);
        setpgid(0, 0); /* a terminal's SIGINT is for the parent, which stops the children in order */
        signal(SIGPIPE, SIG_DFL);
        if (dup2(null, STDIN_FILENO) < 0 || dup2(out >= 0 ? out : to, STDOUT_FILENO) < 0 ||
            dup2(to, STDERR_FILENO) < 0)
                _exit(127);
        if (netns_enter(netns) < 0)
                dprintf(STDERR_FILENO, "no way into the network namespace: %s\n", strerror(errno));
        else
                execvp(argv[0], (char *const *)argv);
        dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

int child_start(struct child *c, const char *name, int netns, const char *log, bool piped,
                const char *const *argv)
{
        int out[2] = { -1, -1 };
        pid_t parent = getpid(), pid;

        if (piped && pipe2(out, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0)
                run_child(parent, netns, log, out[1], argv);
        if (out[1] >= 0)
                close(out[1]);
        if (pid < 0) {
                int r = -errno;

                if (piped)
                        close(out[0]);
                return r;
        }
        *c = (struct child){ .name = name, .pid = pid, .out = out[0] };
        return 0;
}

bool child_runs(struct child *c)
{
        if (c->pid && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
                c->pid = 0;
        return c->pid;
}

void child_stop(struct child *c, unsigned grace_ms)
{
        if (child_runs(c)) {
                kill(c->pid, SIGTERM);
                for (unsigned i = 0; i < grace_ms / 10 && child_runs(c); i++)
                        poll(NULL, 0, 10);
        }
        if (child_runs(c)) {
                kill(c->pid, SIGKILL);
                waitpid(c->pid, &c->status, 0);
                c->pid = 0;
        }
        if (c->out >= 0)
                close(c->out);
        c->out = -1;
}

/* Lines of /proc/PID/net/tcp: "sl local_address rem_address st ..."; state 0A listens. */
static bool listed(pid_t pid, const char *table, unsigned port)
{
        char path[64], line[512];
        unsigned local, state;
        bool found = false;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
        f = fopen(path, "re");
        while (f && !found && fgets(line, sizeof(line), f))
                found = sscanf(line, "%*s %*[0-9A-F]:%x %*s %x", &local, &state) == 2 && local == port &&
                        state == 0x0a;
        if (f)
                fclose(f);
        return found;
}

bool child_listens(const struct child *c, unsigned port)
{
        return listed(c->pid, "tcp", port) || listed(c->pid, "tcp6", port);
}

static uint64_t process_cpu_us(pid_t pid)
{
        struct timespec t;
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
                return 0;
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t tree_cpu_us(pid_t pid)
{
        uint64_t us = process_cpu_us(pid);
        char path[64];
        FILE *f;
        int son;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        f = fopen(path, "re");
        while (f && fscanf(f, "%d", &son) == 1)
                us += tree_cpu_us(son);
        if (f)
                fclose(f);
        return us;
}

uint64_t child_cpu_us(const struct child *c)
{
        return c->pid ? tree_cpu_us(c->pid) : 0;
}

bool child_found(const char *name)
{
        const char *path = getenv("PATH");

        for (path = path ? path : "/usr/bin:/bin"; *path; path += strspn(path, ":")) {
                int n = (int)strcspn(path, ":");
                char file[4096];

                snprintf(file, sizeof(file), "%.*s/%s", n, path, name);
                if (access(file, X_OK) == 0)
                        return true;
                path += n;
        }
        return false;
}
