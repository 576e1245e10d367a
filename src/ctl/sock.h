/* Unix sockets by path, as a service wants them: the mode holds from the first moment, a stale socket of ours is replaced,
 * anything else that stands in the way is refused, and only our own socket is removed at the end. */
#pragma once
#include <sys/types.h>

struct sock_listener {
        int fd;    /* non-blocking; -1: none */
        int spare; /* given up for a moment to turn a client away when there are no more fds; -1: none */
        char path[108];
        dev_t dev; /* the socket that we made: it may have been replaced since */
        ino_t ino;
};

#define SOCK_LISTENER_NONE                                                                                   \
        {                                                                                                    \
                .fd = -1, .spare = -1                                                                        \
        }

/* `group` of (gid_t)-1 leaves it.  0 or -errno with a sentence about `path` in static storage. */
int sock_listen(struct sock_listener *l, const char *path, mode_t mode, gid_t group, const char **ret_why);
void sock_close(struct sock_listener *l);

/* sock_close() without closing: removes the socket's name, if it is still ours. */
void sock_remove(const struct sock_listener *l);
/* From now on somebody else does that. */
void sock_keep(struct sock_listener *l);

/* Makes a listener of an inherited socket; takes the fd. */
void sock_inherit(struct sock_listener *l, int fd);

/* A non-blocking connection, or -errno: -EAGAIN if none waits, -EMFILE if it had to be closed for want of fds. */
int sock_accept(struct sock_listener *l);

/* A non-blocking connection, or -errno at once. */
int sock_dial(const char *path);

/* A connected socket, blocking, or -errno with a sentence. */
int sock_connect(const char *path, const char **ret_why);
