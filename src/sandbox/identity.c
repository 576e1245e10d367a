/* Who the process is: its uid and gid, and its capabilities.
 *
 * A uid that nobody else has can neither signal nor trace another process, and no file belongs to it.  One is made of the process
 * id, which is unique while the process lives. */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/layers.h"
#include "sandbox/userns.h"

/* above what systems, containers and people are given; pids have 22 bits at most */
#define UID_BASE  2000000000
#define NOBODY    65534 /* what we are called in a user namespace of our own */
#define CAPS_MOST 64

/* ---- capabilities ---- */

static int caps_get(struct __user_cap_data_struct data[2])
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

        return syscall(SYS_capget, &header, data) < 0 ? -errno : 0;
}

static int caps_set(const struct __user_cap_data_struct data[2])
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int capabilities_keep(uint64_t keep, const char **ret_why)
{
        struct __user_cap_data_struct data[2];
        int r;

        for (unsigned long cap = 0; cap < CAPS_MOST; cap++) {
                int bound = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

                if (bound < 0)
                        break; /* the kernel knows no more */
                if (bound && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
                        *ret_why = "the bounding set stays: that takes root or a user namespace";
                        return -errno;
                }
        }
        *ret_why = "they cannot be dropped";
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        r = caps_get(data);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < 2; i++) {
                data[i].permitted &= (uint32_t)(keep >> 32 * i);
                data[i].effective = data[i].permitted;
                data[i].inheritable = 0;
        }
        return caps_set(data);
}

int layer_capabilities(struct sandbox *sb, const char **ret_why)
{
        (void)sb;
        return capabilities_keep(0, ret_why);
}

/* ---- uid and gid ---- */

/* setfsuid() says whether an id may be had, and changes nothing that stays. */
static bool may_become(uid_t uid, gid_t gid)
{
        uid_t old_uid = (uid_t)setfsuid(uid), got_uid;
        gid_t old_gid = (gid_t)setfsgid(gid), got_gid;

        got_gid = (gid_t)setfsgid(old_gid);
        got_uid = (uid_t)setfsuid(old_uid);
        return got_uid == uid && got_gid == gid;
}

/* A change of uid takes the capabilities, which other layers need and one drops, and turns `dumpable` off, which is a layer, too. */
static int change_ids(uid_t uid, gid_t gid)
{
        struct __user_cap_data_struct data[2];
        int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), r = caps_get(data);

        if (r < 0)
                return r;
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
            setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
                return -errno;
        prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
        return caps_set(data);
}

static int become_nobody(const char **ret_why)
{
        uid_t id = UID_BASE + (uid_t)getpid();

        if (may_become(id, id)) {
                *ret_why = "the user cannot be changed";
                return change_ids(id, id);
        }
        *ret_why =
                "neither root nor allowed to make a user namespace; see max_user_namespaces in /proc/sys/user";
        return userns_enter(NOBODY);
}

/* A new identity makes the kernel forget that we are to die with our parent. */
int layer_user(struct sandbox *sb, const char **ret_why)
{
        pid_t parent = getppid();
        int signal = 0, r;

        (void)sb;
        prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
        r = become_nobody(ret_why);
        prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
        if (signal && getppid() != parent)
                raise(signal);
        return r;
}
