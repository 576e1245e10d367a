/* A network of the test's own: a fresh namespace that goes with the process, packet sockets on its interfaces, shell commands.
 * IPv6 is off in it, so that the kernel says nothing that it was not asked. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Moves the process into a fresh namespace; false where that is not allowed. */
bool lab_enter(void);

/* Runs a command line; true if it succeeded. */
bool lab_sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Open fds of this process, and interfaces of its namespace: both are back to where they were when nothing was left behind. */
unsigned lab_count_fds(void);
unsigned lab_count_links(void);

/* A raw packet socket on an interface, non-blocking; each frame behind a virtio-net header of 10 bytes if asked.  -1 on failure. */
int lab_packet_socket(const char *ifname, bool vnet_hdr);

/* A process that does nothing in a fresh namespace of its own, until it is ended. */
pid_t lab_neighbour(void);
void lab_neighbour_end(pid_t pid);
