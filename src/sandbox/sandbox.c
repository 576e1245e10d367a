#include "sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "sandbox/layers.h"

/* In the order of entering: what needs rights comes before what takes them away; processes are counted when the user is one who has no
 * others; namespaces come before Landlock, which forbids mounts; Landlock and seccomp want no_new_privs. */
/* clang-format off */
static int (*const enter[])(struct sandbox *sb, const char **ret_why) = {
        [VW_SANDBOX_USER] = layer_user,
        [VW_SANDBOX_NETWORK] = layer_network,
        [VW_SANDBOX_IPC] = layer_ipc,
        [VW_SANDBOX_MOUNT] = layer_mount,
        [VW_SANDBOX_RLIMITS] = layer_rlimits,
        [VW_SANDBOX_CAPABILITIES] = layer_capabilities,
        [VW_SANDBOX_DUMPABLE] = layer_dumpable,
        [VW_SANDBOX_NO_NEW_PRIVS] = layer_no_new_privs,
        [VW_SANDBOX_LANDLOCK] = layer_landlock,
};
/* clang-format on */

static_assert(ARRAY_SIZE(enter) == VW_SANDBOX_SECCOMP && VW_SANDBOX_SECCOMP == VW_SANDBOX_COUNT - 1,
              "seccomp is last, and each thread's own");

/* What a sanitizer could not live in. */
static const uint32_t unsanitized =
        BIT(VW_SANDBOX_RLIMITS) | BIT(VW_SANDBOX_DUMPABLE) | BIT(VW_SANDBOX_SECCOMP);

static int miss(struct sandbox *sb, enum vw_sandbox_layer layer, int error, const char *why)
{
        sb->error[layer] = error;
        sb->why[layer] = why;
        return -EPERM;
}

int sandbox_enter(struct sandbox *sb)
{
        int result = 0;

        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT; l++) {
                const char *why = "";
                int r = 0;

                if (!(sb->wanted & BIT(l)))
                        continue;
                if (SANITIZED && unsanitized & BIT(l)) {
                        r = -EOPNOTSUPP;
                        why = "this is a sanitizer's build";
                } else if (l < ARRAY_SIZE(enter)) {
                        r = enter[l](sb, &why);
                }
                if (r < 0)
                        result = miss(sb, l, r, why);
                else if (l < ARRAY_SIZE(enter))
                        sb->on |= (uint32_t)BIT(l);
        }
        if (sb->error[VW_SANDBOX_NO_NEW_PRIVS] && sb->wanted & BIT(VW_SANDBOX_SECCOMP))
                miss(sb, VW_SANDBOX_SECCOMP, -EPERM, "it needs no_new_privs");
        return result;
}

int sandbox_seal(struct sandbox *sb, enum sandbox_role role)
{
        int r;

        if (!(sb->wanted & BIT(VW_SANDBOX_SECCOMP)))
                return 0;
        r = syscalls_restrict(role);
        if (r < 0)
                miss(sb, VW_SANDBOX_SECCOMP, r, "the list of system calls is not accepted");
        else if (role == SANDBOX_CONTROL) /* the last to be sealed */
                sb->on |= (uint32_t)BIT(VW_SANDBOX_SECCOMP);
        return r;
}

void sandbox_names(uint32_t layers, const char *before_each, char *buf, unsigned len)
{
        unsigned n = 0;

        *buf = '\0';
        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT; l++)
                if (layers & BIT(l) && n < len)
                        n += (unsigned)snprintf(buf + n, len - n, "%s%s%s", n ? "," : "", before_each,
                                                vw_sandbox_layer_name(l));
}
