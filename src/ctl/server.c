#include "ctl/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/evloop.h"
#include "ctl/proto.h"
#include "ctl/sock.h"
#include "ctl/stats_json.h"

struct client {
        struct ev_watch watch;
        struct ctl_server *server;
        struct client *next;
        char *line; /* CTL_LINE_MAX bytes, of which `have` are filled */
        size_t have;
        struct text out; /* answers, of which `sent` bytes are gone */
        size_t sent;
        int file;     /* came along and was not taken yet, or -1 */
        bool closing; /* after the answers */
};

struct ctl_server {
        const struct ctl_ops *ops;
        void *ctx;
        struct evloop *loop;
        struct ev_watch accept;
        struct sock_listener listener;
        struct client *clients;
        unsigned n_clients;
};

static void free_client(struct client *c)
{
        int fd = c->watch.fd;

        evloop_remove(c->server->loop, &c->watch);
        close(fd);
        if (c->file >= 0)
                close(c->file);
        text_done(&c->out);
        free(c->line);
        free(c);
}

static void drop_client(struct client *c)
{
        struct client **p = &c->server->clients;

        while (*p != c)
                p = &(*p)->next;
        *p = c->next;
        c->server->n_clients--;
        free_client(c);
}

/* ---- out ---- */

static bool answers_wait(const struct client *c)
{
        return c->sent < c->out.len;
}

/* -errno when the client is gone; 0 otherwise, also if some of it has to wait. */
static int send_answers(struct client *c)
{
        if (c->out.failed)
                return -ENOMEM;
        while (answers_wait(c)) {
                ssize_t n = send(c->watch.fd, c->out.data + c->sent, c->out.len - c->sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                c->sent += (size_t)n;
        }
        c->sent = 0;
        text_done(&c->out);
        return 0;
}

/* ---- in ---- */

/* Keeps the last file of a message; others are closed. */
static void take_files(struct client *c, struct msghdr *msg)
{
        for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
                size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        if (c->file >= 0)
                                close(c->file);
                        memcpy(&c->file, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
                }
        }
}

/* 0, or -errno when the client is gone.  At the end of what it has to say a last line may do without its newline. */
static int receive(struct client *c)
{
        struct iovec iov = { .iov_base = c->line + c->have, .iov_len = CTL_LINE_MAX - c->have };
        union {
                char bytes[CMSG_SPACE(4 * sizeof(int))];
                struct cmsghdr align;
        } control;
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n = recvmsg(c->watch.fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        take_files(c, &msg);
        c->have += (size_t)n;
        if (n == 0) {
                c->closing = true;
                if (c->have)
                        c->line[c->have++] = '\n';
        }
        return 0;
}

/* Answers the whole lines that stand in the buffer, until an answer has to wait.  -errno when the client is gone. */
static int answer_lines(struct client *c)
{
        char *begin = c->line, *end = c->line + c->have, *newline;
        int r = 0;

        while (r == 0 && !answers_wait(c) && (newline = memchr(begin, '\n', (size_t)(end - begin)))) {
                ctl_answer(c->server->ops, c->server->ctx, begin, (size_t)(newline - begin), &c->file,
                           &c->out);
                begin = newline + 1;
                r = send_answers(c);
        }
        c->have = (size_t)(end - begin);
        memmove(c->line, begin, c->have);
        if (r == 0 && !answers_wait(c) && c->have == CTL_LINE_MAX) {
                text_add(&c->out,
                         "{\"id\":null,\"error\":{\"class\":\"invalid-value\",\"message\":"
                         "\"the line is over the limit of %d bytes\"}}\n",
                         CTL_LINE_MAX);
                c->closing = true;
                c->have = 0;
                r = send_answers(c);
        }
        return r;
}

static void on_client(struct ev_watch *w, uint32_t events)
{
        struct client *c = container_of(w, struct client, watch);
        int r = 0;

        if (events & EPOLLOUT)
                r = send_answers(c);
        if (r == 0 && !answers_wait(c) && !c->closing && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                r = receive(c);
        if (r == 0)
                r = answer_lines(c);
        if (r < 0 || (c->closing && !answers_wait(c)))
                drop_client(c);
        else
                evloop_modify(c->server->loop, w, answers_wait(c) ? EPOLLOUT : EPOLLIN);
}

/* ---- clients come ---- */

static void refuse_client(int fd)
{
        static const char words[] = "{\"id\":null,\"error\":{\"class\":\"wrong-state\",\"message\":"
                                    "\"too many clients\"}}\n";

        if (send(fd, words, sizeof(words) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
                /* it sees the end of the connection, at least */
        }
        close(fd);
}

void ctl_server_add(struct ctl_server *server, int fd)
{
        struct client *c;

        if (server->n_clients == CTL_CLIENTS_MAX) {
                refuse_client(fd);
                return;
        }
        c = calloc(1, sizeof(*c));
        if (c)
                c->line = malloc(CTL_LINE_MAX);
        if (!c || !c->line) {
                free(c);
                close(fd);
                return;
        }
        c->server = server;
        c->file = -1;
        c->watch.ready = on_client;
        if (evloop_add(server->loop, &c->watch, fd, EPOLLIN) < 0) {
                free(c->line);
                free(c);
                close(fd);
                return;
        }
        c->next = server->clients;
        server->clients = c;
        server->n_clients++;
}

static void on_accept(struct ev_watch *w, uint32_t events)
{
        struct ctl_server *server = container_of(w, struct ctl_server, accept);
        int fd = sock_accept(&server->listener);

        (void)events;
        if (fd >= 0)
                ctl_server_add(server, fd);
}

int ctl_server_new(const char *path, const struct ctl_ops *ops, void *ctx, struct ctl_server **ret_server,
                   const char **ret_why)
{
        struct ctl_server *server = calloc(1, sizeof(*server));
        int r = -ENOMEM;

        stats_prepare();
        *ret_why = "out of memory";
        if (!server)
                return r;
        *server = (struct ctl_server){ .ops = ops, .ctx = ctx, .listener = SOCK_LISTENER_NONE };
        server->accept.ready = on_accept;
        r = evloop_new(&server->loop);
        if (r < 0) {
                *ret_why = "no epoll instance";
                goto fail;
        }
        if (path) {
                r = sock_listen(&server->listener, path, 0600, (gid_t)-1, ret_why);
                if (r < 0)
                        goto fail;
                r = evloop_add(server->loop, &server->accept, server->listener.fd, EPOLLIN);
                if (r < 0) {
                        *ret_why = "the socket cannot be waited for";
                        goto fail;
                }
        }
        *ret_server = server;
        return 0;
fail:
        ctl_server_free(server);
        return r;
}

void ctl_server_free(struct ctl_server *server)
{
        if (!server)
                return;
        for (struct client *c = server->clients, *next; c; c = next) {
                next = c->next;
                free_client(c);
        }
        evloop_remove(server->loop, &server->accept);
        sock_close(&server->listener);
        evloop_free(server->loop);
        free(server);
}

struct sock_listener *ctl_server_listener(struct ctl_server *server)
{
        return &server->listener;
}

int ctl_server_fd(const struct ctl_server *server)
{
        return evloop_fd(server->loop);
}

void ctl_server_dispatch(struct ctl_server *server)
{
        evloop_dispatch(server->loop, 0);
}

unsigned ctl_server_clients(const struct ctl_server *server)
{
        return server->n_clients;
}
