/* What the process can see: namespaces with nothing in them, and limits. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/layers.h"

#define OVER "/tmp" /* any directory will do: the new root is mounted over it for a moment */

static int leave(int what, const char **ret_why)
{
        *ret_why = "no such namespace can be made: that takes root, or the layer user";
        return unshare(what) < 0 ? -errno : 0;
}

int layer_network(struct sandbox *sb, const char **ret_why)
{
        (void)sb;
        return leave(CLONE_NEWNET, ret_why);
}

int layer_ipc(struct sandbox *sb, const char **ret_why)
{
        (void)sb;
        return leave(CLONE_NEWIPC, ret_why);
}

/* pivot_root(".", ".") puts the old root over the new one, where it is taken off. */
int layer_mount(struct sandbox *sb, const char **ret_why)
{
        int r = leave(CLONE_NEWNS, ret_why);

        (void)sb;
        if (r < 0)
                return r;
        *ret_why = "no empty root can be mounted";
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", OVER, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                  "mode=555,nr_inodes=1") < 0 ||
            chdir(OVER) < 0)
                return -errno;
        if (syscall(SYS_pivot_root, ".", ".") == 0)
                return umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ? -errno : 0;
        /* a root of the first file system's kind stays; then it is covered, and nothing leads below */
        if (errno != EINVAL || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
                return -errno;
        return 0;
}

static int limit(__rlimit_resource_t resource, rlim_t most)
{
        struct rlimit before, after = { most, most };

        if (getrlimit(resource, &before) < 0)
                return -errno;
        if (before.rlim_max < most)
                after = (struct rlimit){ before.rlim_max, before.rlim_max };
        return setrlimit(resource, &after) < 0 ? -errno : 0;
}

/* The sizes of files stay free: a capture and a log are as long as they get. */
int layer_rlimits(struct sandbox *sb, const char **ret_why)
{
        int r = limit(RLIMIT_CORE, 0);

        *ret_why = "they cannot be set";
        if (r == 0)
                r = limit(RLIMIT_NOFILE, sb->fds);
        if (r == 0)
                r = limit(RLIMIT_MSGQUEUE, 0);
        if (r == 0 && sb->wanted & BIT(VW_SANDBOX_USER)) /* otherwise the user's other processes count, too */
                r = limit(RLIMIT_NPROC, sb->threads);
        return r;
}

int layer_dumpable(struct sandbox *sb, const char **ret_why)
{
        (void)sb;
        *ret_why = "it cannot be turned off";
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int layer_no_new_privs(struct sandbox *sb, const char **ret_why)
{
        (void)sb;
        *ret_why = "the kernel does not know it";
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
