/* Landlock: everything that the running kernel can forbid is forbidden, and no rule makes an exception.  File descriptors that are open keep
 * their rights. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/layers.h"

/* The kernel's, whose header may be older than the kernel. */
struct ruleset {
        uint64_t access_fs, access_net, scoped;
};

#define RULESET_VERSION 1u

static struct ruleset everything(long abi)
{
        static const struct {
                uint64_t fs, net, scoped; /* how many rights the version knows */
        } bits[] = {
                [1] = {13,  0, 0}, /* execute, write, read, list, remove, make ... */
                [2] = { 14, 0, 0}, /* link and rename across directories */
                [3] = { 15, 0, 0}, /* truncate */
                [4] = { 15, 2, 0}, /* bind and connect TCP */
                [5] = { 16, 2, 0}, /* ioctl on devices */
                [6] = { 16, 2, 2}, /* abstract sockets and signals of others */
        };
        size_t v = MIN((size_t)abi, ARRAY_SIZE(bits) - 1);

        return (struct ruleset){ BIT(bits[v].fs) - 1, BIT(bits[v].net) - 1, BIT(bits[v].scoped) - 1 };
}

int layer_landlock(struct sandbox *sb, const char **ret_why)
{
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, RULESET_VERSION), fd;
        struct ruleset all;
        int r = 0;

        (void)sb;
        if (abi < 1) {
                *ret_why = "the kernel has none: see lsm= of its command line";
                return abi < 0 ? -errno : -ENOSYS;
        }
        *ret_why = "the kernel refuses the rules";
        all = everything(abi);
        fd = syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0u);
        if (fd < 0)
                return -errno;
        if (syscall(SYS_landlock_restrict_self, (int)fd, 0u) < 0)
                r = -errno;
        close((int)fd);
        return r;
}
