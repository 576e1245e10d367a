/* The layers one by one, and what they are made of.  Each returns 0 or -errno with a sentence in *ret_why; one that fails may have
 * been entered in part, which does no harm to a process that ends then. */
#pragma once
#include <stdint.h>

#include "sandbox/sandbox.h"

int layer_rlimits(struct sandbox *sb, const char **ret_why);
int layer_user(struct sandbox *sb, const char **ret_why);
int layer_network(struct sandbox *sb, const char **ret_why);
int layer_ipc(struct sandbox *sb, const char **ret_why);
int layer_mount(struct sandbox *sb, const char **ret_why);
int layer_capabilities(struct sandbox *sb, const char **ret_why);
int layer_dumpable(struct sandbox *sb, const char **ret_why);
int layer_no_new_privs(struct sandbox *sb, const char **ret_why);
int layer_landlock(struct sandbox *sb, const char **ret_why);

/* Keeps the capabilities of the mask that it has, and none in the bounding, ambient and inheritable sets. */
int capabilities_keep(uint64_t keep, const char **ret_why);

/* The list of system calls of a role, for this thread. */
int syscalls_restrict(enum sandbox_role role);

/* A sanitizer makes system calls, threads and traces of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
