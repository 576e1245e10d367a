#include "bench/load.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench/traffic.h"

#define TURN      64 /* messages of one session before the others have their turn */
#define CONNECT_S 3
#define TICK_MS   50
#define RETRY_NS  (200 * NSEC_PER_MSEC) /* a datagram that has not come back by then is lost */

struct session {
        struct watch watch; /* first */
        int tcp;            /* of a UDP session: the connection that keeps it going at the server; else -1 */
        uint64_t sent_at;
        uint32_t got, owed; /* bytes of the response so far; bytes of the request still to send */
};

struct load {
        struct load_job job;
        struct crew crew;
        int count; /* connection that asks the server what its UDP sink has seen; else -1 */
        bool lost; /* a session has ended that should not */
        struct session *sessions;
};

static void lose(struct crew_member *m, struct watch *w)
{
        struct load *l = m->ctx;

        store_relaxed(&l->lost, true);
        crew_remove(m, w);
}

/* ---- request and response ---- */

static void request(struct crew_member *m, struct session *s)
{
        const struct load *l = m->ctx;

        s->got = 0;
        s->owed = l->job.size;
        s->sent_at = clock_now();
}

static void finish(struct crew_member *m, struct session *s)
{
        latency_add(&m->tally.latency, clock_now() - s->sent_at);
        request(m, s);
}

/* True when the whole request is out; else it goes on when there is room. */
static bool push(struct crew_member *m, struct session *s)
{
        while (s->owed) {
                ssize_t n = send(s->watch.fd, m->buffer, s->owed, MSG_NOSIGNAL);

                if (n < 0 && errno == EAGAIN)
                        crew_change(m, &s->watch, EPOLLOUT);
                else if (n < 0)
                        lose(m, &s->watch);
                if (n < 0)
                        return false;
                s->owed -= (uint32_t)n;
        }
        return true;
}

static void on_tcp_rr(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);
        const struct load *l = m->ctx;
        ssize_t n;

        if (!push(m, s))
                return;
        if (events & EPOLLOUT)
                crew_change(m, w, EPOLLIN);
        n = recv(w->fd, m->buffer, l->job.size - s->got, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
                lose(m, w);
        if (n <= 0)
                return;
        s->got += (uint32_t)n;
        if (s->got == l->job.size) {
                finish(m, s);
                push(m, s);
        }
}

static void on_udp_rr(struct crew_member *m, struct watch *w, uint32_t events)
{
        struct session *s = container_of(w, struct session, watch);
        const struct load *l = m->ctx;

        if (events & EPOLLOUT)
                crew_change(m, w, EPOLLIN);
        else if (recv(w->fd, m->buffer, CREW_BUFFER, 0) == (ssize_t)l->job.size)
                finish(m, s);
        if (s->owed && send(w->fd, m->buffer, l->job.size, 0) == (ssize_t)l->job.size)
                s->owed = 0;
}

/* Asks again what was lost. */
static void tick(struct crew_member *m)
{
        const struct load *l = m->ctx;
        uint64_t now = clock_now();

        for (unsigned i = m->index; i < l->job.sessions; i += l->crew.n) {
                struct session *s = &l->sessions[i];

                if (now - s->sent_at > RETRY_NS) {
                        counter_add(&m->tally.retries, 1);
                        request(m, s);
                        crew_change(m, &s->watch, EPOLLOUT);
                }
        }
}

/* ---- streams ---- */

static void on_tcp_tx(struct crew_member *m, struct watch *w, uint32_t events)
{
        ssize_t n = recv(w->fd, m->buffer, CREW_BUFFER, 0);

        (void)events;
        if (n > 0)
                counter_add(&m->tally.bytes, (uint64_t)n);
        else if (n == 0 || errno != EAGAIN)
                lose(m, w);
}

static void on_tcp_rx(struct crew_member *m, struct watch *w, uint32_t events)
{
        const struct load *l = m->ctx;

        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++) {
                ssize_t n = send(w->fd, m->buffer, l->job.size, MSG_NOSIGNAL);

                if (n < 0 && errno != EAGAIN)
                        lose(m, w);
                if (n < (ssize_t)l->job.size)
                        return;
        }
}

static void on_udp_tx(struct crew_member *m, struct watch *w, uint32_t events)
{
        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++) {
                ssize_t n = recv(w->fd, m->buffer, CREW_BUFFER, 0);

                if (n < 0)
                        return;
                counter_add(&m->tally.packets, 1);
                counter_add(&m->tally.bytes, (uint64_t)n);
        }
}

static void on_udp_rx(struct crew_member *m, struct watch *w, uint32_t events)
{
        const struct load *l = m->ctx;

        (void)events;
        for (unsigned turn = 0; turn < TURN; turn++)
                if (send(w->fd, m->buffer, l->job.size, 0) < 0)
                        return;
}

/* clang-format off */
static const struct kind {
        void (*ready)(struct crew_member *m, struct watch *w, uint32_t events);
        enum traffic_mode mode; /* of the TCP connection, where there is one */
        bool tcp, udp;
        uint32_t events; /* first waited for */
        unsigned port;   /* of the datagrams, above the server's */
} kinds[] = {
        [LOAD_TCP_RR] = { .ready = on_tcp_rr, .tcp = true, .mode = TRAFFIC_ECHO,                    .events = EPOLLOUT },
        [LOAD_UDP_RR] = { .ready = on_udp_rr,                                          .udp = true, .events = EPOLLOUT },
        [LOAD_TCP_TX] = { .ready = on_tcp_tx, .tcp = true, .mode = TRAFFIC_SOURCE,                  .events = EPOLLIN },
        [LOAD_TCP_RX] = { .ready = on_tcp_rx, .tcp = true, .mode = TRAFFIC_SINK,                    .events = EPOLLOUT },
        [LOAD_UDP_TX] = { .ready = on_udp_tx, .tcp = true, .mode = TRAFFIC_UDP_SOURCE, .udp = true, .events = EPOLLIN },
        [LOAD_UDP_RX] = { .ready = on_udp_rx,                                          .udp = true, .events = EPOLLOUT, .port = 1 },
};
/* clang-format on */

/* ---- life ---- */

static int connect_tcp(const struct load_job *job, enum traffic_mode mode, unsigned thread,
                       uint32_t request_size, uint32_t response)
{
        struct traffic_hello hello = { .magic = htonl(TRAFFIC_MAGIC),
                                       .mode = htonl(mode),
                                       .thread = htonl(thread),
                                       .request = htonl(request_size),
                                       .response = htonl(response) };
        struct timeval patience = { .tv_sec = CONNECT_S };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
            connect(fd, (const struct sockaddr *)&job->server, sizeof(job->server)) == 0 &&
            send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
                return fd;
        r = errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
        close(fd);
        return r;
}

/* Of a bound socket: the port that the server will send to. */
static int open_udp(const struct load_job *job, const struct kind *kind, uint32_t *ret_port)
{
        struct sockaddr_in to = job->server, own = { .sin_family = AF_INET };
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t len = sizeof(own);

        if (fd < 0)
                return -errno;
        to.sin_port = htons((uint16_t)(ntohs(to.sin_port) + kind->port));
        if (bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 ||
            getsockname(fd, (struct sockaddr *)&own, &len) < 0 ||
            (!kind->tcp && connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)) {
                int r = -errno;

                close(fd);
                return r;
        }
        *ret_port = ntohs(own.sin_port);
        return fd;
}

static int open_session(struct load *l, unsigned index)
{
        const struct kind *kind = &kinds[l->job.kind];
        struct session *s = &l->sessions[index];
        unsigned thread = index % l->crew.n;
        uint32_t response = l->job.size;

        s->watch.ready = kind->ready;
        if (kind->udp) {
                s->watch.fd = open_udp(&l->job, kind, &response);
                if (s->watch.fd < 0)
                        return s->watch.fd;
        }
        if (kind->tcp) {
                int fd = connect_tcp(&l->job, kind->mode, thread, l->job.size, response);

                *(kind->udp ? &s->tcp : &s->watch.fd) = fd;
                if (fd < 0)
                        return fd;
        }
        request(&l->crew.members[thread], s);
        if (fcntl(s->watch.fd, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        return crew_add(&l->crew.members[thread], &s->watch, kind->events);
}

int load_start(const struct load_job *job, struct load **ret_load, const char **ret_why)
{
        struct load *l = calloc(1, sizeof(*l));
        unsigned threads = MIN(job->threads, job->sessions);
        int r = -ENOMEM;

        *ret_why = "out of memory";
        if (!l)
                return r;
        l->job = *job;
        l->count = -1;
        l->sessions = calloc(job->sessions, sizeof(*l->sessions));
        for (unsigned i = 0; l->sessions && i < job->sessions; i++)
                l->sessions[i].watch.fd = l->sessions[i].tcp = -1;
        if (l->sessions)
                r = crew_init(&l->crew, threads, l, job->kind == LOAD_UDP_RR ? tick : NULL, TICK_MS);
        for (unsigned i = 0; r == 0 && i < job->sessions; i++)
                r = open_session(l, i);
        if (r == 0 && job->kind == LOAD_UDP_RX) {
                l->count = connect_tcp(job, TRAFFIC_COUNT, 0, 1, 0);
                r = MIN(l->count, 0);
        }
        if (r == 0)
                r = crew_go(&l->crew);
        if (r < 0) {
                *ret_why = strerror(-r);
                load_stop(l);
                return r;
        }
        *ret_load = l;
        return 0;
}

uint64_t load_cpu_ns(const struct load *l)
{
        return crew_cpu_ns(&l->crew);
}

void load_stop(struct load *l)
{
        crew_done(&l->crew);
        for (unsigned i = 0; l->sessions && i < l->job.sessions; i++) {
                if (l->sessions[i].watch.fd >= 0)
                        close(l->sessions[i].watch.fd);
                if (l->sessions[i].tcp >= 0)
                        close(l->sessions[i].tcp);
        }
        if (l->count >= 0)
                close(l->count);
        free(l->sessions);
        free(l);
}

/* ---- marks ---- */

static int ask_count(const struct load *l, struct tally *tally)
{
        uint64_t counts[2];

        if (send(l->count, "", 1, MSG_NOSIGNAL) != 1 ||
            recv(l->count, counts, sizeof(counts), MSG_WAITALL) != sizeof(counts))
                return errno == EAGAIN ? -ETIMEDOUT : -ECONNRESET;
        tally->packets = be64toh(counts[0]);
        tally->bytes = be64toh(counts[1]);
        return 0;
}

static int ask_acknowledged(const struct load *l, struct tally *tally)
{
        for (unsigned i = 0; i < l->job.sessions; i++) {
                struct tcp_info info = { 0 };
                socklen_t len = sizeof(info);

                if (getsockopt(l->sessions[i].watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
                        return -errno;
                tally->bytes += info.tcpi_bytes_acked;
        }
        return 0;
}

int load_mark(struct load *l, struct load_mark *ret_mark)
{
        struct load_mark mark = { 0 };
        int r = load_relaxed(&l->lost) ? -ECONNRESET : 0;

        for (unsigned i = 0; i < l->crew.n; i++)
                tally_merge(&mark.tally, &l->crew.members[i].tally);
        if (r == 0 && l->job.kind == LOAD_UDP_RX)
                r = ask_count(l, &mark.tally);
        if (r == 0 && l->job.kind == LOAD_TCP_RX)
                r = ask_acknowledged(l, &mark.tally);
        mark.time = clock_now();
        if (r == 0)
                *ret_mark = mark;
        return r;
}
