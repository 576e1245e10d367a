#include "bench/server.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "bench/crew.h"
#include "bench/traffic.h"

#define THREADS 4 /* several senders can be told apart up to here */
#define BACKLOG 1024
#define TURN    64 /* messages or datagrams of one socket before the others have their turn */

struct session {
        struct watch watch; /* first */
        struct session *next, **back;
        int udp; /* UDP_SOURCE's socket is watched, and this is the connection; else -1 */
        struct sockaddr_in peer;
        struct traffic_hello hello;
        uint32_t got;  /* bytes of the hello or the request so far */
        uint32_t owed; /* bytes of the response still to send */
};

struct server {
        struct crew crew;
        struct watch listener, echo, sink;
        pthread_mutex_t lock; /* of the list */
        struct session *sessions;
        uint64_t sunk_packets, sunk_bytes; /* written by the thread that serves the sink */
};

/* ---- sessions ---- */

static void close_session(struct crew_member *m, struct session *s)
{
        struct server *server = m->ctx;

        pthread_mutex_lock(&server->lock);
        *s->back = s->next;
        if (s->next)
                s->next->back = s->back;
        pthread_mutex_unlock(&server->lock);
        /* closing alone does not while a process that is being forked has the fd, too */
        crew_remove(m, &s->watch);
        close(s->watch.fd);
        if (s->udp >= 0)
                close(s->udp);
        free(s);
}

/* Whether the last call only would have had to wait. */
static bool waits(void)
{
        return errno == EAGAIN || errno == EINTR;
}

static void on_echo(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);

        for (unsigned turn = 0; turn < TURN; turn++) {
                while (!s->owed && s->got < s->hello.request) {
                        ssize_t n = recv(w->fd, m->buffer, s->hello.request - s->got, 0);

                        if (n < 0 && waits()) {
                                if (events & EPOLLOUT)
                                        crew_change(m, w, EPOLLIN);
                                return;
                        }
                        if (n <= 0)
                                return close_session(m, s);
                        s->got += (uint32_t)n;
                }
                if (!s->owed) {
                        s->got = 0;
                        s->owed = s->hello.response;
                }
                while (s->owed) {
                        ssize_t n = send(w->fd, m->buffer, s->owed, MSG_NOSIGNAL);

                        if (n < 0 && waits())
                                return crew_change(m, w, EPOLLOUT);
                        if (n < 0)
                                return close_session(m, s);
                        s->owed -= (uint32_t)n;
                }
        }
}

static void on_sink(struct crew_member *m, struct watch *w, uint32_t events)
{
        ssize_t n = recv(w->fd, m->buffer, CREW_BUFFER, 0);

        (void)events;
        if (n == 0 || (n < 0 && !waits()))
                close_session(m, container_of(w, struct session, watch));
}

static void on_source(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);

        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++) {
                ssize_t n = send(w->fd, m->buffer, s->hello.request, MSG_NOSIGNAL);

                if (n < 0 && !waits())
                        return close_session(m, s);
                if (n < (ssize_t)s->hello.request)
                        return;
        }
}

/* On the datagram socket; the connection is looked at between the turns. */
static void on_udp_source(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);
        char byte;

        (void)events;
        if (recv(s->udp, &byte, 1, MSG_DONTWAIT) == 0)
                return close_session(m, s);
        for (unsigned turn = 0; turn < TURN; turn++)
                if (send(w->fd, m->buffer, s->hello.request, 0) < 0 && waits())
                        return;
}

static void on_count(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct server *server = m->ctx;
        uint64_t counts[2];
        char byte;
        ssize_t n = recv(w->fd, &byte, 1, 0);

        (void)events;
        if (n < 0 && waits())
                return;
        counts[0] = htobe64(load_relaxed(&server->sunk_packets));
        counts[1] = htobe64(load_relaxed(&server->sunk_bytes));
        if (n <= 0 || send(w->fd, counts, sizeof(counts), MSG_NOSIGNAL) != sizeof(counts))
                close_session(m, container_of(w, struct session, watch));
}

static int open_udp_source(struct session *s)
{
        struct sockaddr_in to = s->peer;
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        to.sin_port = htons((uint16_t)s->hello.response);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
                close(fd);
                return -1;
        }
        return fd;
}

/* The hello is complete: from here on the session lives on the thread that it names, and serves by its mode. */
static void begin(struct crew_member *m, struct session *s)
{
        static void (*const modes[])(struct crew_member *, struct watch *, uint32_t) = {
                [TRAFFIC_ECHO] = on_echo,     [TRAFFIC_SINK] = on_sink,
                [TRAFFIC_SOURCE] = on_source, [TRAFFIC_UDP_SOURCE] = on_udp_source,
                [TRAFFIC_COUNT] = on_count,
        };
        struct traffic_hello *h = &s->hello;
        struct server *server = m->ctx;
        bool sends;

        h->mode = ntohl(h->mode);
        h->request = ntohl(h->request);
        h->response = ntohl(h->response);
        if (ntohl(h->magic) != TRAFFIC_MAGIC || h->mode >= ARRAY_SIZE(modes) || !h->request ||
            h->request > TRAFFIC_MESSAGE_MAX || h->response > TRAFFIC_MESSAGE_MAX)
                return close_session(m, s);
        crew_remove(m, &s->watch);
        s->got = 0;
        s->watch.ready = modes[h->mode];
        sends = h->mode == TRAFFIC_SOURCE || h->mode == TRAFFIC_UDP_SOURCE;
        if (h->mode == TRAFFIC_UDP_SOURCE) {
                s->udp = s->watch.fd;
                s->watch.fd = open_udp_source(s);
        }
        if (s->watch.fd < 0 || crew_add(&server->crew.members[ntohl(h->thread) % THREADS], &s->watch,
                                        sends ? EPOLLOUT : EPOLLIN) < 0)
                close_session(m, s);
}

static void on_hello(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);
        ssize_t n = recv(w->fd, (char *)&s->hello + s->got, sizeof(s->hello) - s->got, 0);

        (void)events;
        if (n < 0 && waits())
                return;
        if (n <= 0)
                return close_session(m, s);
        s->got += (uint32_t)n;
        if (s->got == sizeof(s->hello))
                begin(m, s);
}

static void on_connection(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct server *server = m->ctx;
        struct sockaddr_in peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(w->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct session *s = fd < 0 ? NULL : calloc(1, sizeof(*s));

        (void)events;
        if (!s) {
                if (fd >= 0)
                        close(fd);
                return;
        }
        *s = (struct session){
                .watch = {.fd = fd, .ready = on_hello},
                  .udp = -1, .peer = peer
        };
        pthread_mutex_lock(&server->lock);
        s->next = server->sessions;
        s->back = &server->sessions;
        if (s->next)
                s->next->back = &s->next;
        server->sessions = s;
        pthread_mutex_unlock(&server->lock);
        if (crew_add(m, &s->watch, EPOLLIN) < 0)
                close_session(m, s);
}

/* ---- datagrams ---- */

static void on_udp_echo(struct crew_member *m, struct watch *w, uint32_t events)
{
        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++) {
                struct sockaddr_in from;
                socklen_t len = sizeof(from);
                ssize_t n = recvfrom(w->fd, m->buffer, CREW_BUFFER, 0, (struct sockaddr *)&from, &len);

                if (n < 0)
                        return;
                sendto(w->fd, m->buffer, (size_t)n, 0, (struct sockaddr *)&from, len);
        }
}

static void on_udp_sink(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct server *server = m->ctx;

        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++) {
                ssize_t n = recv(w->fd, m->buffer, CREW_BUFFER, 0);

                if (n < 0)
                        return;
                counter_add(&server->sunk_packets, 1);
                counter_add(&server->sunk_bytes, (uint64_t)n);
        }
}

/* ---- life ---- */

static int open_socket(const struct sockaddr_in *address, int type, unsigned offset, int *ret_fd)
{
        struct sockaddr_in at = *address;
        int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

        at.sin_port = htons((uint16_t)(ntohs(at.sin_port) + offset));
        *ret_fd = fd;
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
            (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
                return -errno;
        return 0;
}

int server_new(const struct sockaddr_in *address, struct server **ret_server, const char **ret_why)
{
        struct server *s = calloc(1, sizeof(*s));
        int r;

        if (!s) {
                *ret_why = "out of memory";
                return -ENOMEM;
        }
        pthread_mutex_init(&s->lock, NULL);
        s->listener = (struct watch){ .fd = -1, .ready = on_connection };
        s->echo = (struct watch){ .fd = -1, .ready = on_udp_echo };
        s->sink = (struct watch){ .fd = -1, .ready = on_udp_sink };
        r = open_socket(address, SOCK_STREAM, 0, &s->listener.fd);
        if (r == 0)
                r = open_socket(address, SOCK_DGRAM, 0, &s->echo.fd);
        if (r == 0)
                r = open_socket(address, SOCK_DGRAM, 1, &s->sink.fd);
        if (r == 0)
                r = crew_init(&s->crew, THREADS, s, NULL, 0);
        if (r == 0)
                r = crew_add(&s->crew.members[0], &s->listener, EPOLLIN);
        if (r == 0)
                r = crew_add(&s->crew.members[0], &s->echo, EPOLLIN);
        if (r == 0)
                r = crew_add(&s->crew.members[0], &s->sink, EPOLLIN);
        if (r == 0)
                r = crew_go(&s->crew);
        if (r < 0) {
                *ret_why = strerror(-r);
                server_free(s);
                return r;
        }
        *ret_server = s;
        return 0;
}

uint64_t server_cpu_ns(const struct server *s)
{
        return s ? crew_cpu_ns(&s->crew) : 0;
}

void server_free(struct server *s)
{
        int fds[3];

        if (!s)
                return;
        fds[0] = s->listener.fd;
        fds[1] = s->echo.fd;
        fds[2] = s->sink.fd;
        crew_done(&s->crew);
        while (s->sessions) {
                struct session *next = s->sessions->next;

                close(s->sessions->watch.fd);
                if (s->sessions->udp >= 0)
                        close(s->sessions->udp);
                free(s->sessions);
                s->sessions = next;
        }
        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        pthread_mutex_destroy(&s->lock);
        free(s);
}
