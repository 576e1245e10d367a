#include "port/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define NETNS_DIR "/run/netns"

int netns_open(const char *name)
{
        char path[PATH_MAX];
        int fd;

        if (strchr(name, '/') || name[0] == '.')
                return -EINVAL;
        snprintf(path, sizeof(path), NETNS_DIR "/%s", name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && strspn(name, "0123456789") == strlen(name)) {
                snprintf(path, sizeof(path), "/proc/%s/ns/net", name);
                fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        return fd < 0 ? -errno : fd;
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
