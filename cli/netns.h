/* Namespaces without names: a private corner of the system that vanishes with the processes in it, and interfaces in it. */
#pragma once
#include <stdbool.h>

/* Moves this process, which must have one thread, where it may make network namespaces: by its privilege or, without, into a user
 * namespace where it has it.  It is cut off from the network, and /tmp
 * becomes an empty file system of its own.  0 or -errno with a sentence. */
int netns_isolate(const char **ret_why);

/* A new network namespace with its loopback up; the fd keeps it.  The process stays where it was.  -errno. */
int netns_new(void);
/* The calling thread's, and into another.  Threads and sockets that it makes are where it is. */
int netns_here(void);
int netns_enter(int netns);

/* A socket to ask about a namespace's interfaces, or -errno. */
int netns_socket(int netns);
int netif_set_address(int sock, const char *name, const char *address, unsigned prefix);
int netif_set_up(int sock, const char *name);
/* A pair of interfaces of that name, one in each namespace. */
int netif_make_veth(const int netns[2], const char *name);
/* It exists, is up and has a carrier. */
bool netif_running(int sock, const char *name);
