/* Network namespaces by name or process id, and a thread that goes into one and ends there. */
#include "port/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static int open_ns(const char *before, const char *name, const char *after)
{
        char path[PATH_MAX];
        int fd;

        snprintf(path, sizeof(path), "%s%s%s", before, name, after);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return fd;
}

int netns_open(const char *name)
{
        int fd;

        if (strchr(name, '/') || name[0] == '.')
                return -EINVAL;
        fd = open_ns("/run/netns/", name, "");
        if (fd == -ENOENT && strspn(name, "0123456789") == strlen(name))
                fd = open_ns("/proc/", name, "/ns/net");
        return fd;
}

struct call {
        int ns, result;
        int (*fn)(void *arg);
        void *arg;
};

static void *call_inside(void *arg)
{
        struct call *call = arg;

        call->result = setns(call->ns, CLONE_NEWNET) < 0 ? -errno : call->fn(call->arg);
        return NULL;
}

int netns_call(int ns, int (*fn)(void *arg), void *arg)
{
        struct call call = { .ns = ns, .fn = fn, .arg = arg };
        pthread_t thread;
        int r;

        if (ns < 0)
                return fn(arg);
        r = pthread_create(&thread, NULL, call_inside, &call);
        if (r)
                return -r;
        pthread_join(thread, NULL);
        return call.result;
}
