/* Work in another network namespace, done by a short-lived thread: the caller's own namespace never changes, so there is
 * no way back that could fail. */
#pragma once

/* Opens a namespace by its name under `ip netns` or by a process id.  A fd or -errno. */
int netns_open(const char *name);

/* Runs fn(arg) inside `ns` (-1: here, without a thread) and returns what it returned, or -errno. */
int netns_call(int ns, int (*fn)(void *arg), void *arg);
