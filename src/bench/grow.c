#include "bench/grow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench/tinytcp.h"
#include "bench/traffic.h"
#include "vwire/driver.h"

#define BUFFERS    1024 /* packets of 64 KiB: half for the sockets, the rest on their way */
#define BUDGET     64
#define TICK       (20 * NSEC_PER_MSEC) /* between two looks for what is not acknowledged */
#define CONNECT_MS 3000
#define HEAD       128 /* bytes of a received frame that are looked at */
#define PORT_FIRST 20000
#define PORT_LAST  60000

#define FLOW_LIMIT (256u * 1024) /* bytes in flight: the kernel's limit when the experiment was published */
#define QUEUE_MAX  16            /* segments that a socket keeps for later: a megabyte, as a kernel would */

struct segment {
        uint8_t *buf;
        uint32_t fill; /* payload */
};

struct session {
        struct tinytcp tcp;
        struct vw_flow *flow;
        /* what waits to be sent, oldest first; the last is still written to */
        struct segment queue[QUEUE_MAX];
        unsigned n;
        uint32_t left; /* of the write that is going on */
        bool greeted;
};

struct grow {
        struct vw_driver *drv;
        struct load_job job;
        struct tinytcp_path path;
        struct session *sessions;
        uint8_t *source; /* what the programs write */
        pthread_t thread;
        bool runs, stop;
        uint16_t first_port; /* of the next job: the last one's may still be known to the server */
        /* the thread's */
        uint64_t now, next_tick;
        /* written by the thread, read by others */
        uint64_t packets, acked;
        unsigned established, reset;
};

/* ---- frames ---- */

/* True: it is on its way. */
static bool send_frame(struct grow *g, uint8_t *buf, uint32_t len, const struct vw_net_hdr *hdr,
                       struct vw_flow *flow)
{
        const struct iovec iov = { .iov_base = buf, .iov_len = len };
        const struct vw_tx_pkt pkt = { .hdr = *hdr, .iov = &iov, .n_iov = 1, .cookie = buf, .flow = flow };

        return vw_driver_xmit(g->drv, 0, &pkt, 1, false) == 1;
}

static void send_or_drop(struct grow *g, uint8_t *buf, uint32_t len, const struct vw_net_hdr *hdr)
{
        if (buf && !send_frame(g, buf, len, hdr, NULL))
                vw_driver_buf_put(g->drv, 0, buf);
}

static void send_arp(struct grow *g, const uint8_t *request)
{
        const struct vw_net_hdr plain = { 0 };
        uint8_t *buf = vw_driver_buf_get(g->drv, 0);

        if (buf)
                tinytcp_arp(&g->path, request, buf);
        send_or_drop(g, buf, TINYTCP_ARP, &plain);
}

static void send_syn(struct grow *g, const struct session *s)
{
        uint8_t *buf = vw_driver_buf_get(g->drv, 0);
        struct vw_net_hdr hdr = { 0 };

        if (buf)
                tinytcp_syn(&s->tcp, &g->path, buf, &hdr);
        send_or_drop(g, buf, TINYTCP_SYN, &hdr);
}

static void send_reset(struct grow *g, const struct session *s)
{
        uint8_t *buf = vw_driver_buf_get(g->drv, 0);
        struct vw_net_hdr hdr = { 0 };

        if (buf)
                tinytcp_headers(&s->tcp, &g->path, 0, TINYTCP_RST, buf, &hdr);
        send_or_drop(g, buf, TINYTCP_HEADERS, &hdr);
}

/* ---- the driver's callbacks ---- */

static void on_tx_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        const struct grow *g = ctx;

        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(g->drv, pair, cookies[i]);
}

static void on_segment(struct grow *g, struct tinytcp *t, const uint8_t *frame, size_t len)
{
        const struct tinytcp before = *t;

        tinytcp_input(t, frame, len, g->now);
        counter_add(&g->acked, t->acked - before.acked);
        counter_add(&g->established, (unsigned)(t->established - before.established));
        counter_add(&g->reset, (unsigned)(t->reset - before.reset));
}

static void on_frame(struct grow *g, const uint8_t *frame, size_t len)
{
        bool resolved = g->path.resolved;
        uint16_t own, peer;

        if (tinytcp_arp_input(&g->path, frame, len))
                send_arp(g, frame);
        else if (tinytcp_ports(&g->path, frame, len, &own, &peer) &&
                 (uint16_t)(own - g->sessions[0].tcp.own_port) < g->job.sessions)
                on_segment(g, &g->sessions[own - g->sessions[0].tcp.own_port].tcp, frame, len);
        if (g->path.resolved && !resolved)
                g->next_tick = 0; /* which sends the SYNs */
}

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        (void)pair;
        for (unsigned i = 0; i < n; i++) {
                uint8_t head[HEAD] = { 0 };
                size_t len = 0;

                /* the device could still write there */
                for (unsigned k = 0; k < pkts[i].n_iov && len < HEAD; k++) {
                        size_t part = MIN(pkts[i].iov[k].iov_len, HEAD - len);

                        memcpy(head + len, pkts[i].iov[k].iov_base, part);
                        len += part;
                }
                on_frame(ctx, head, len);
        }
        return n;
}

/* ---- the programs and their sockets ---- */

/* Where the next byte goes, or NULL when the socket is full. */
static struct segment *room(struct grow *g, struct session *s)
{
        struct segment *last = s->n ? &s->queue[s->n - 1] : NULL;
        uint8_t *buf;

        if (last && last->fill < TINYTCP_MAX)
                return last;
        if (s->n == QUEUE_MAX || (s->n && s->n * g->job.sessions >= BUFFERS / 2))
                return NULL;
        buf = vw_driver_buf_get(g->drv, 0);
        if (!buf)
                return NULL;
        s->queue[s->n] = (struct segment){ .buf = buf };
        return &s->queue[s->n++];
}

static void greet(struct grow *g, struct session *s, struct segment *to)
{
        const struct traffic_hello hello = { htonl(TRAFFIC_MAGIC), htonl(TRAFFIC_SINK),
                                             htonl((uint32_t)(s - g->sessions)), htonl(1), htonl(1) };

        memcpy(to->buf + TINYTCP_HEADERS, &hello, sizeof(hello));
        to->fill = sizeof(hello);
        s->greeted = true;
}

/* The program writes on.  False: it must wait. */
static bool write_on(struct grow *g, struct session *s)
{
        s->left = s->left ? s->left : g->job.size;
        while (s->left) {
                struct segment *to = room(g, s);
                uint32_t n;

                if (!to)
                        return false;
                if (!s->greeted)
                        greet(g, s, to);
                n = MIN(s->left, TINYTCP_MAX - to->fill);
                memcpy(to->buf + TINYTCP_HEADERS + to->fill, g->source, n);
                to->fill += n;
                s->left -= n;
        }
        return true;
}

/* Sends the oldest segment, or as much of it as the window lets pass without making a silly little packet. */
static bool push_one(struct grow *g, struct session *s)
{
        struct segment *first = &s->queue[0];
        const uint8_t *sent = first->buf + TINYTCP_HEADERS;
        uint32_t n = MIN(first->fill, tinytcp_room(&s->tcp)), rest = first->fill - n;
        struct vw_net_hdr hdr;

        if (!n || (rest && n < g->job.size && s->tcp.nxt != s->tcp.una))
                return false;
        tinytcp_headers(&s->tcp, &g->path, n, rest ? 0 : TINYTCP_PSH, first->buf, &hdr);
        if (!send_frame(g, first->buf, TINYTCP_HEADERS + n, &hdr, s->flow))
                return false;
        tinytcp_sent(&s->tcp, n, g->now);
        counter_add(&g->packets, 1);
        first->buf = rest ? vw_driver_buf_get(g->drv, 0) : NULL;
        first->fill = rest;
        if (first->buf) {
                /* nobody writes into what is on its way */
                memmove(first->buf + TINYTCP_HEADERS, sent + n, rest);
        } else {
                s->n--;
                memmove(first, first + 1, s->n * sizeof(*first));
        }
        return true;
}

/* A write of each session's program that need not wait.  True: there was one. */
static bool turn(struct grow *g)
{
        bool any = false;

        for (unsigned i = 0; i < g->job.sessions; i++) {
                struct session *s = &g->sessions[i];

                if (!s->tcp.established || s->tcp.reset)
                        continue;
                any |= write_on(g, s);
                while (s->n && push_one(g, s))
                        continue;
        }
        return any;
}

static void tick(struct grow *g)
{
        if (!g->path.resolved) {
                send_arp(g, NULL);
                for (unsigned i = 0; i < g->job.sessions; i++)
                        g->sessions[i].tcp.progress_at = 0;
        }
        for (unsigned i = 0; i < g->job.sessions && g->path.resolved; i++)
                if (tinytcp_timeout(&g->sessions[i].tcp, g->now) && !g->sessions[i].tcp.established)
                        send_syn(g, &g->sessions[i]);
        g->next_tick = g->now + TICK;
}

/* ---- the thread ---- */

static bool interrupted(const struct grow *g)
{
        struct pollfd p = { .fd = vw_driver_poll_fd(g->drv, 0), .events = POLLIN };

        return poll(&p, 1, 0) > 0;
}

/* As a guest's CPU does: the programs run until an interrupt comes or all must wait. */
static void *run(void *arg)
{
        struct grow *g = arg;
        bool any = false;

        while (!load_relaxed(&g->stop)) {
                g->now = clock_now();
                if (g->now >= g->next_tick)
                        tick(g);
                if (!vw_driver_arm(g->drv, 0)) {
                        do
                                any = turn(g);
                        while (any && !interrupted(g) && clock_now() < g->next_tick);
                        vw_driver_wait(g->drv, 0, any ? 0 : g->next_tick);
                }
                g->now = clock_now();
                vw_driver_poll(g->drv, 0, BUDGET);
        }
        for (unsigned i = 0; i < g->job.sessions; i++) {
                send_reset(g, &g->sessions[i]);
                for (unsigned k = 0; k < g->sessions[i].n; k++)
                        vw_driver_buf_put(g->drv, 0, g->sessions[i].queue[k].buf);
        }
        vw_driver_leave(g->drv, 0);
        return NULL;
}

int grow_start(struct grow *g, struct in_addr own, const struct load_job *job, const char **ret_why)
{
        struct vw_driver_info info;
        unsigned ms = 0;

        vw_driver_info(g->drv, &info);
        g->job = *job;
        g->path = (struct tinytcp_path){ .own_ip = ntohl(own.s_addr),
                                         .peer_ip = ntohl(job->server.sin_addr.s_addr) };
        memcpy(g->path.own_mac, info.mac, sizeof(info.mac));
        g->sessions = calloc(job->sessions, sizeof(*g->sessions));
        *ret_why = "out of memory";
        if (!g->sessions)
                return -ENOMEM;
        for (unsigned i = 0; i < job->sessions; i++) {
                struct session *s = &g->sessions[i];

                tinytcp_open(&s->tcp, (uint16_t)(g->first_port + i), ntohs(job->server.sin_port), i << 20, 0);
                s->flow = vw_flow_open(g->drv, 0, FLOW_LIMIT, s);
                if (!s->flow)
                        return -ENOMEM;
        }
        g->first_port = (uint16_t)(g->first_port + job->sessions);
        if (g->first_port > PORT_LAST)
                g->first_port = PORT_FIRST;
        g->stop = false;
        g->packets = g->acked = g->next_tick = 0;
        g->established = g->reset = 0;
        if (pthread_create(&g->thread, NULL, run, g) != 0)
                return -ENOMEM;
        g->runs = true;
        for (; load_relaxed(&g->established) < job->sessions && ms < CONNECT_MS; ms++)
                poll(NULL, 0, 1);
        *ret_why = "the server does not answer";
        return ms < CONNECT_MS ? 0 : -ETIMEDOUT;
}

void grow_stop(struct grow *g)
{
        if (g->runs) {
                store_relaxed(&g->stop, true);
                pthread_join(g->thread, NULL);
                g->runs = false;
        }
        for (unsigned i = 0; g->sessions && i < g->job.sessions; i++)
                vw_flow_close(g->sessions[i].flow);
        free(g->sessions);
        g->sessions = NULL;
}

int grow_mark(struct grow *g, struct load_mark *ret_mark)
{
        struct load_mark mark = { 0 };

        if (vw_driver_dispatch(g->drv) == -ENOTCONN)
                return -ENOTCONN;
        if (load_relaxed(&g->reset))
                return -ECONNRESET;
        mark.tally.bytes = load_relaxed(&g->acked);
        mark.tally.packets = load_relaxed(&g->packets);
        mark.time = clock_now();
        *ret_mark = mark;
        return 0;
}

uint64_t grow_cpu_ns(const struct grow *g)
{
        return g->runs ? thread_cpu_ns(g->thread) : 0;
}

/* ---- the driver ---- */

static int dial(const char *path)
{
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        int fd;

        if (strlen(path) >= sizeof(to.sun_path))
                return -ENAMETOOLONG;
        snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
                int r = -errno;

                close(fd);
                return r;
        }
        return fd;
}

int grow_new(const char *socket_path, struct grow **ret_grow, const char **ret_why)
{
        static const struct vw_driver_ops ops = { .rx = on_rx, .tx_done = on_tx_done };
        struct vw_driver_config config = VW_DRIVER_CONFIG_INIT;
        struct grow *g = calloc(1, sizeof(*g));
        int fd = dial(socket_path), r = fd < 0 ? fd : -ENOMEM;

        *ret_why = strerror(-r);
        config.ops = &ops;
        config.ctx = g;
        config.tx_bufs = BUFFERS;
        if (g) {
                g->first_port = PORT_FIRST;
                g->source = calloc(1, TRAFFIC_MESSAGE_MAX);
                if (g->source && fd >= 0)
                        r = vw_driver_new(&config, &g->drv, ret_why);
        }
        if (r == 0)
                r = vw_driver_connect(g->drv, fd, ret_why);
        if (r < 0) {
                if (fd >= 0)
                        close(fd);
                grow_free(g);
                return r;
        }
        *ret_grow = g;
        return 0;
}

void grow_free(struct grow *g)
{
        if (!g)
                return;
        grow_stop(g);
        vw_driver_free(g->drv);
        free(g->source);
        free(g);
}

int grow_set(struct grow *g, const char *settings, const char **ret_why)
{
        struct vw_setting list[VW_KEY_COUNT];
        unsigned n = 0;

        while (*settings && n < VW_KEY_COUNT) {
                size_t len = strcspn(settings, " ");
                char text[64];
                int r;

                snprintf(text, sizeof(text), "%.*s", (int)len, settings);
                r = vw_setting_parse(text, &list[n], ret_why);
                if (r < 0)
                        return r;
                n++;
                settings += len + (settings[len] == ' ');
        }
        return vw_driver_set(g->drv, list, n, ret_why);
}
