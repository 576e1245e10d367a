/* Tells the service manager that the program is ready: one datagram to $NOTIFY_SOCKET, as sd_notify(3) describes it. */
#pragma once

/* Does nothing where NOTIFY_SOCKET is not set.  0 or -errno. */
int notify_ready(void);
