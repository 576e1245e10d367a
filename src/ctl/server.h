/* The control socket's server: many clients, one thread, nothing that waits.  A client that does not read its answers is not
 * read from either, so what it can hold is one answer and one command. */
#pragma once
#include "ctl/answer.h"

struct ctl_server;

/* Listens on `path` (NULL: serves only what ctl_server_add() brings).  The ops outlive the server.  0 or -errno with a sentence. */
int ctl_server_new(const char *path, const struct ctl_ops *ops, void *ctx, struct ctl_server **ret_server,
                   const char **ret_why);
void ctl_server_free(struct ctl_server *server); /* removes the socket; NULL is fine */

/* Where it listens. */
struct sock_listener *ctl_server_listener(struct ctl_server *server);

/* Readable when ctl_server_dispatch() has something to do. */
int ctl_server_fd(const struct ctl_server *server);
void ctl_server_dispatch(struct ctl_server *server);

/* Serves a connected socket as if it had been accepted.  Takes the fd. */
void ctl_server_add(struct ctl_server *server, int fd);
unsigned ctl_server_clients(const struct ctl_server *server);
