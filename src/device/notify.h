/* Kick, call and err fds: eventfds or pipes that are shared with a peer who may do with them as it likes: fill them, change
 * their flags, close its end.  Nothing here blocks, and nothing here fails in a way that matters to a ring. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct dev_notify; /* queue.h */

/* Takes the fd (-1: none); the one before is closed. */
void notify_set(struct dev_notify *n, int fd);

/* Wakes the other side, from a thread that blocks SIGPIPE.  1: done; 0: there is nobody to wake, or it has not read what it
 * was sent before, and wakes by that; -errno: the other end is gone (once, then 0). */
int notify_send(struct dev_notify *n);

/* Whether what was sent lies there still.  Of a pipe that cannot be known, and interrupts that a kernel takes are read at once. */
bool notify_unread(const struct dev_notify *n);

/* Takes what was signalled: how many times, as far as that can be believed; 0 when there was nothing. */
uint32_t notify_take(int fd);
