/* Tells the service manager that the program is ready: one datagram to $NOTIFY_SOCKET, as sd_notify(3) describes it. */
#pragma once

/* Finds the way there.  0 or -errno; *ret_fd is -1 where NOTIFY_SOCKET is not set. */
int notify_open(int *ret_fd);
/* Tells, and closes the fd; does nothing with -1.  0 or -errno. */
int notify_ready(int fd);
