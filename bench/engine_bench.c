/* What the driver's engine is worth: our driver and our device in one process, joined by a socket, with a port that plays the wire.
 *
 *      engine_bench [--ms=N] [--repeat=N] [EXPERIMENT...]
 *
 *      mixed       a bulk flow and a request-response flow on one queue: what the latter waits
 *      grow        a sender with a byte limit that lengthens its next packet while it waits: bytes a packet
 *      interrupts  interrupts and CPU a packet while every packet comes back
 *      buffers     receive buffers that size themselves against fixed ones
 *
 * The variants of an experiment are measured in turn (A B C A B C ...), since the speed of a machine changes from one second to the
 * next.  A line is a variant with the medians of its runs; then, as NAME_ratio=, the medians over the rounds of a value divided by the
 * first variant's in the same round.  Of the buffers it is `auto` against the better of the two others.
 *
 * With --cpu=N all of it runs on that CPU: what is compared is then what both ends cost together, and not how far apart two virtual
 * CPUs are at that moment, which changes by more than the variants differ. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "vwire/device.h"
#include "vwire/driver.h"

#define VALUES_MAX   8
#define VARIANTS_MAX 6
#define REPEAT_MAX   101
#define MTU_FRAME    1514

struct cell {
        double v[VALUES_MAX];
};

static unsigned cell_ms = 300, repeat = 7;

static uint64_t cpu_ns(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double percentile(double *v, size_t n, double p)
{
        qsort(v, n, sizeof(*v), by_value);
        return n ? v[(size_t)(p * (double)(n - 1) + 0.5)] : 0;
}

/* ---- the wire: a port that takes frames at a rate, and answers requests ---- */

#define REQUEST    60                   /* bytes */
#define LINE_AHEAD (50 * NSEC_PER_USEC) /* what the wire takes beyond what it has sent: its own queue */
#define LINE_TURN  (20 * NSEC_PER_USEC) /* calls so close to each other are of one turn of the device */

struct line {
        uint64_t rate; /* bits a second; 0: no limit */
        uint64_t hold; /* ns that a batch stays with it, at least: a device that completes late */
        uint64_t free_at, held_until;
        int fd; /* rings when the wire is free again, and while an answer waits */
        pthread_t clock;
        sem_t busy;
        uint64_t ring_at; /* for the clock, which a post of `busy` tells of it; 0: end */
        uint8_t answer[REQUEST];
        bool answers;
};

static bool is_request(const struct vw_pkt *p)
{
        return p->len == REQUEST;
}

static void sleep_to(uint64_t at)
{
        struct timespec t = { .tv_sec = (time_t)(at / NSEC_PER_SEC), .tv_nsec = (long)(at % NSEC_PER_SEC) };

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void wake_worker(const struct line *l)
{
        uint64_t one = 1;

        check(write(l->fd, &one, sizeof(one)) == sizeof(one));
}

/* Rings when the wire is free again. */
static void *line_clock(void *arg)
{
        struct line *l = arg;
        uint64_t at;

        prctl(PR_SET_TIMERSLACK, 1UL);
        for (;;) {
                while (sem_wait(&l->busy) < 0) {
                }
                at = __atomic_load_n(&l->ring_at, __ATOMIC_ACQUIRE);
                if (!at)
                        return NULL;
                sleep_to(at);
                wake_worker(l);
        }
}

static void line_open(struct line *l)
{
        l->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        check(sem_init(&l->busy, 0, 0) == 0 && pthread_create(&l->clock, NULL, line_clock, l) == 0);
}

static void line_close(struct line *l)
{
        __atomic_store_n(&l->ring_at, 0, __ATOMIC_RELEASE);
        sem_post(&l->busy);
        pthread_join(l->clock, NULL);
        sem_destroy(&l->busy);
        close(l->fd);
}

static int line_tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct line *l = self;
        uint64_t now = clock_now();
        unsigned i;

        (void)lane;
        if (l->hold && now > l->held_until + LINE_TURN) {
                l->held_until = now + l->hold;
                sleep_to(l->held_until);
        }
        l->free_at = MAX(l->free_at, now);
        for (i = 0; i < n && l->free_at <= now + LINE_AHEAD; i++) {
                l->free_at += l->rate ? pkts[i].len * 8 * NSEC_PER_SEC / l->rate : 0;
                result[i] = 0;
                if (!is_request(&pkts[i]))
                        continue;
                memcpy(l->answer, pkts[i].iov[0].iov_base, MIN(pkts[i].iov[0].iov_len, sizeof(l->answer)));
                l->answers = true;
                wake_worker(l);
        }
        if (i < n) {
                __atomic_store_n(&l->ring_at, l->free_at - LINE_AHEAD / 2, __ATOMIC_RELEASE);
                sem_post(&l->busy);
        }
        return (int)i;
}

static int line_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct line *l = self;
        uint64_t count;
        size_t left = REQUEST;

        (void)lane;
        if (read(l->fd, &count, sizeof(count)) < 0 || !l->answers)
                return 0;
        for (unsigned i = 0; i < pkt->n_iov && left; i++) {
                size_t k = MIN(left, pkt->iov[i].iov_len);

                memcpy(pkt->iov[i].iov_base, l->answer + REQUEST - left, k);
                left -= k;
        }
        pkt->len = REQUEST;
        pkt->hdr = (struct vw_net_hdr){ 0 };
        l->answers = false;
        return 1;
}

static int line_fd(const void *self, unsigned lane)
{
        (void)lane;
        return ((const struct line *)self)->fd;
}

static void line_info(void *self, struct vw_port_info *ret_info)
{
        (void)self;
        *ret_info = (struct vw_port_info){ .kind = "line", .link_up = true, .tx_offloads = VW_OFFLOAD_ALL };
}

static const struct vw_port_ops line_ops = { .info = line_info, .fd = line_fd, .tx = line_tx, .rx = line_rx };

/* ---- the bed: both ends ---- */

struct bed {
        struct line line;
        struct vw_port *port;
        struct vw_device *dev;
        struct vw_driver *drv;
        pthread_t control;
        int stop;
        struct vw_driver_config config;
        struct vw_driver_ops ops;
        /* the workload's */
        uint64_t sent, received, bytes;
        double *samples;
        size_t n_samples, max_samples;
        bool waiting; /* for an answer */
        uint64_t asked_at;
        struct sender *senders;
        unsigned n_senders;
        /* measured from begin() to finish() */
        uint64_t began, ran, cpu_driver, cpu_all;
        struct vw_stats before, after;
};

static void *control(void *arg)
{
        struct bed *b = arg;
        struct pollfd p[2] = {
                {.fd = vw_device_fd(b->dev), .events = POLLIN},
                { .fd = b->stop,             .events = POLLIN}
        };

        while (!(poll(p, 2, -1) > 0 && p[1].revents))
                vw_device_dispatch(b->dev);
        return NULL;
}

static void on_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(((struct bed *)ctx)->drv, pair, cookies[i]);
}

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct bed *b = ctx;
        double waited;

        (void)pair;
        b->received += n;
        for (unsigned i = 0; i < n; i++)
                b->bytes += pkts[i].len;
        if (b->waiting && n) {
                waited = (double)(clock_now() - b->asked_at) / 1000;
                if (b->n_samples < b->max_samples)
                        b->samples[b->n_samples++] = waited;
                b->waiting = false;
        }
        return n;
}

/* `port`: NULL for the line.  The config's ops are filled in here. */
static void bed_open(struct bed *b, const char *port)
{
        struct vw_device_config dc = VW_DEVICE_CONFIG_INIT;
        const struct vw_port_config pc = { .pairs = 1 };
        const char *why = "";
        int sv[2];

        line_open(&b->line);
        b->stop = eventfd(0, EFD_CLOEXEC);
        if (port && vw_port_open(port, &pc, &b->port, &why) < 0) {
                fprintf(stderr, "engine_bench: %s\n", why);
                exit(1);
        }
        if (!port)
                b->port = vw_port_new(&line_ops, &b->line);
        dc.port = b->port;
        b->ops.rx = on_rx;
        b->ops.tx_done = on_done;
        b->config.ops = &b->ops;
        b->config.ctx = b;
        if (vw_device_new(&dc, &b->dev, &why) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) ||
            vw_device_serve(b->dev, sv[1]) < 0 || pthread_create(&b->control, NULL, control, b) ||
            vw_driver_new(&b->config, &b->drv, &why) < 0 || vw_driver_connect(b->drv, sv[0], &why) < 0) {
                fprintf(stderr, "engine_bench: no link: %s\n", why);
                exit(1);
        }
}

static void bed_close(struct bed *b)
{
        uint64_t one = 1;

        vw_driver_free(b->drv);
        check(write(b->stop, &one, sizeof(one)) == sizeof(one));
        pthread_join(b->control, NULL);
        vw_device_free(b->dev);
        vw_port_close(b->port);
        close(b->stop);
        line_close(&b->line);
        free(b->samples);
}

static void begin(struct bed *b)
{
        b->sent = b->received = b->bytes = b->n_samples = 0;
        vw_driver_stats(b->drv, &b->before);
        b->cpu_driver = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        b->cpu_all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
        b->began = clock_now();
}

static void finish(struct bed *b)
{
        b->ran = clock_now() - b->began;
        b->cpu_driver = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - b->cpu_driver;
        b->cpu_all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - b->cpu_all;
        vw_driver_stats(b->drv, &b->after);
}

static double counted(const struct bed *b, unsigned queue, enum vw_counter c)
{
        return (double)(b->after.queues[queue].counters[c] - b->before.queues[queue].counters[c]);
}

static double per_second(const struct bed *b, double n)
{
        return n * 1e9 / (double)b->ran;
}

/* Turns of `step` until the time is up: a tenth of it to settle, then measured. */
static void run_bed(struct bed *b, void (*step)(struct bed *b))
{
        uint64_t settle = clock_now() + cell_ms * NSEC_PER_MSEC / 10, end = settle + cell_ms * NSEC_PER_MSEC;
        bool measuring = false;

        for (;;) {
                uint64_t now = clock_now();

                if (!measuring && now >= settle) {
                        begin(b);
                        measuring = true;
                }
                if (now >= end)
                        break;
                while (vw_driver_poll(b->drv, 0, 64) == 64) {
                }
                step(b);
                vw_driver_wait(b->drv, 0, end);
        }
        if (!measuring) /* not a turn in all that time: it counts as nothing */
                begin(b);
        finish(b);
}

static bool send_frame(struct bed *b, uint32_t len, struct vw_flow *flow)
{
        struct iovec iov = { .iov_len = len };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1, .flow = flow };

        if (!vw_driver_tx_ready(b->drv, 0))
                return false;
        iov.iov_base = pkt.cookie = vw_driver_buf_get(b->drv, 0);
        if (!iov.iov_base)
                return false;
        if (vw_driver_xmit(b->drv, 0, &pkt, 1, true) == 1) {
                b->sent++;
                return true;
        }
        vw_driver_buf_put(b->drv, 0, iov.iov_base);
        return false;
}

static void kick(struct bed *b)
{
        vw_driver_xmit(b->drv, 0, NULL, 0, false);
}

/* ---- mixed ---- */

#define BULK_RATE  UINT64_C(2000000000) /* bits a second: slower than any sender here */
#define BULK_FRAME 16384

static struct vw_flow *bulk;

static void mixed_step(struct bed *b)
{
        if (!b->waiting) {
                b->asked_at = clock_now();
                b->waiting = send_frame(b, REQUEST, NULL);
        }
        while (send_frame(b, BULK_FRAME, bulk)) {
        }
        kick(b);
}

static const char *const mixed_variants[] = { "orphan", "napi", "napi_byte_limit", "napi_flows", NULL };
static const char *const mixed_values[] = { "rr_p99_us", "rr_p50_us", "rr_rate", "bulk_gbps", NULL };

static void mixed_cell(unsigned variant, unsigned param, struct cell *c)
{
        struct bed b = { .line = { .rate = BULK_RATE }, .config = VW_DRIVER_CONFIG_INIT };

        (void)param;
        b.config.tx_bufs = 2 * b.config.queue_size;
        b.config.tx_mode = variant ? VW_TX_NAPI : VW_TX_ORPHAN;
        b.config.bql = variant >= 2;
        b.max_samples = 100000;
        b.samples = calloc(b.max_samples, sizeof(*b.samples));
        bed_open(&b, NULL);
        bulk = variant == 3 ? vw_flow_open(b.drv, 0, 0, NULL) : NULL;
        run_bed(&b, mixed_step);
        c->v[2] = per_second(&b, (double)b.n_samples);
        c->v[3] = per_second(&b, counted(&b, 1, VW_C_bytes)) * 8 / 1e9;
        if (b.waiting && b.n_samples < b.max_samples) /* one that is still out has waited at least so long */
                b.samples[b.n_samples++] = (double)(clock_now() - b.asked_at) / 1000;
        c->v[0] = percentile(b.samples, b.n_samples, 0.99);
        c->v[1] = percentile(b.samples, b.n_samples, 0.5);
        vw_flow_close(bulk);
        bed_close(&b);
}

/* ---- grow ---- */

#define GROW_WRITE   16384     /* bytes that the application writes at a time */
#define GROW_SEGMENT 65160     /* the longest packet made of them: 45 segments of 1448 */
#define GROW_BACKLOG (1 << 20) /* of all senders: unsent bytes beyond which the application waits */
#define GROW_HOLD                                                                                            \
        (250 *                                                                                               \
         NSEC_PER_USEC) /* how late the device completes: 128 KiB in that time are less than an application writes */

/* Written bytes join the last unsent segment while that is not full, as in a TCP send queue. */
struct sender {
        struct vw_flow *flow;
        uint64_t unsent;
};

static uint8_t written[GROW_WRITE];

/* Sends what the account lets through: whole segments, and the last as long as it has become. */
static void push(struct bed *b, struct sender *s)
{
        while (s->unsent) {
                uint32_t len = (uint32_t)MIN(s->unsent, (uint64_t)GROW_SEGMENT);

                if (!send_frame(b, len, s->flow))
                        return;
                s->unsent -= len;
                kick(b);
        }
}

/* Each sender in turn: what has waited goes out, then the application writes.  False: none of them could. */
static bool grow_step(struct bed *b)
{
        static uint8_t copy[GROW_WRITE];
        bool wrote = false;

        for (unsigned i = 0; i < b->n_senders; i++) {
                struct sender *s = &b->senders[i];

                push(b, s);
                if (s->unsent + GROW_WRITE > GROW_BACKLOG / b->n_senders + GROW_SEGMENT)
                        continue;
                memcpy(copy, written, sizeof(copy));
                s->unsent += sizeof(copy);
                push(b, s);
                wrote = true;
        }
        return wrote;
}

/* The application sleeps only when it can write nothing; in between it looks for interrupts. */
static void grow_run(struct bed *b)
{
        uint64_t settle = clock_now() + cell_ms * NSEC_PER_MSEC / 10, end = settle + cell_ms * NSEC_PER_MSEC;
        bool measuring = false;

        for (uint64_t now = clock_now(); now < end; now = clock_now()) {
                if (!measuring && now >= settle) {
                        begin(b);
                        measuring = true;
                }
                vw_driver_wait(b->drv, 0, grow_step(b) ? 0 : end);
                vw_driver_poll(b->drv, 0, 64);
        }
        if (!measuring)
                begin(b);
        finish(b);
}

static const char *const grow_variants[] = { "orphan", "napi", NULL };
static const char *const grow_values[] = { "bytes_per_packet", "gbps", NULL };

static void grow_cell(unsigned variant, unsigned param, struct cell *c)
{
        struct bed b = { .line = { .hold = GROW_HOLD }, .config = VW_DRIVER_CONFIG_INIT };

        b.config.tx_bufs = 2 * b.config.queue_size;
        b.config.tx_mode = variant ? VW_TX_NAPI : VW_TX_ORPHAN;
        b.n_senders = param;
        b.senders = calloc(param, sizeof(*b.senders));
        bed_open(&b, NULL);
        for (unsigned i = 0; i < param; i++)
                b.senders[i].flow = vw_flow_open(b.drv, 0, 0, NULL);
        grow_run(&b);
        c->v[0] = counted(&b, 1, VW_C_bytes) / MAX(counted(&b, 1, VW_C_packets), 1);
        c->v[1] = per_second(&b, counted(&b, 1, VW_C_bytes)) * 8 / 1e9;
        for (unsigned i = 0; i < param; i++)
                vw_flow_close(b.senders[i].flow);
        bed_close(&b);
        free(b.senders);
}

/* ---- interrupts ---- */

#define LAZY_US 1000 /* as `vwire driver` has it */

static unsigned window; /* packets on their way */

static void echo_step(struct bed *b)
{
        while (b->sent - b->received < window && send_frame(b, MTU_FRAME, NULL)) {
        }
        kick(b);
}

static void echo_run(struct bed *b)
{
        uint64_t end = clock_now() + cell_ms * NSEC_PER_MSEC;

        begin(b);
        while (clock_now() < end) {
                while (vw_driver_poll(b->drv, 0, 64) == 64) {
                }
                echo_step(b);
                vw_driver_wait(b->drv, 0, end);
        }
        finish(b);
}

static const char *const echo_variants[] = { "napi",      "napi_at_rx", "napi_at_rx_shared",
                                             "napi_lazy", "orphan",     "orphan_shared",
                                             NULL };
static const char *const echo_values[] = { "driver_cpu_ns_per_packet", "cpu_ns_per_packet",
                                           "tx_interrupts_per_packet", "interrupts_per_packet",
                                           "wakeups_per_packet",       "kicks_per_packet",
                                           "packets_per_second",       NULL };

static void echo_cell(unsigned variant, unsigned param, struct cell *c)
{
        struct bed b = { .config = VW_DRIVER_CONFIG_INIT };
        double packets, tx_interrupts, rx_interrupts;

        window = param;
        b.config.tx_bufs = 2 * b.config.queue_size;
        b.config.tx_mode = variant >= 4 ? VW_TX_ORPHAN : VW_TX_NAPI;
        b.config.clean_tx_from_rx = variant >= 1 && variant <= 3;
        b.config.shared_call = variant == 2 || variant == 5;
        b.config.tx_lazy_us = variant == 3 ? LAZY_US : 0;
        bed_open(&b, "loop");
        echo_run(&b);
        packets = MAX(counted(&b, 1, VW_C_packets), 1);
        tx_interrupts = counted(&b, 1, VW_C_interrupts);
        rx_interrupts = counted(&b, 0, VW_C_interrupts);
        c->v[0] = (double)b.cpu_driver / packets;
        c->v[1] = (double)b.cpu_all / packets;
        c->v[2] = tx_interrupts / packets;
        c->v[3] = (tx_interrupts + rx_interrupts) / packets;
        c->v[4] = counted(&b, 0, VW_C_poll_rearms) / packets;
        c->v[5] = counted(&b, 1, VW_C_kicks) / packets;
        c->v[6] = per_second(&b, packets);
        bed_close(&b);
}

/* ---- buffers ---- */

static void nothing(struct bed *b)
{
        (void)b;
}

static const char *const buffer_variants[] = { "page", "mtu", "auto", NULL };
static const char *const buffer_values[] = { "packets_per_second", "cpu_ns_per_packet", "truesize_per_packet",
                                             "buffers_per_packet", NULL };

static void buffer_cell(unsigned variant, unsigned param, struct cell *c)
{
        static const enum vw_rx_buffers mode[] = { VW_BUFFERS_PAGE, VW_BUFFERS_MTU, VW_BUFFERS_AUTO };
        struct bed b = { .config = VW_DRIVER_CONFIG_INIT };
        char spec[32];
        double packets;

        b.config.rx_buffers = mode[variant];
        b.config.offloads = VW_OFFLOAD_ALL; /* so that the longest frame is one that the ring is made for */
        snprintf(spec, sizeof(spec), "gen:size=%u", param);
        bed_open(&b, spec);
        run_bed(&b, nothing);
        packets = MAX(counted(&b, 0, VW_C_packets), 1);
        c->v[0] = per_second(&b, packets);
        c->v[1] = (double)b.cpu_all / packets;
        c->v[2] = counted(&b, 0, VW_C_truesize) / packets;
        for (unsigned i = 0; i < VW_BUFFER_SIZES; i++)
                c->v[3] += (double)(b.after.queues[0].buffer_sizes[i] - b.before.queues[0].buffer_sizes[i]);
        c->v[3] /= packets;
        bed_close(&b);
}

/* ---- all of them ---- */

static const struct experiment {
        const char *name, *param_name;
        unsigned params[4]; /* 0 ends */
        const char *const *variants, *const *values;
        unsigned compared; /* the first so many values */
        bool against_best; /* the last variant with the others, of which the first value is better when larger, the rest when smaller */
        void (*cell)(unsigned variant, unsigned param, struct cell *c);
} experiments[] = {
        {"mixed",       "frame",  { BULK_FRAME },      mixed_variants,  mixed_values,  1, false, mixed_cell },
        { "grow",       "flows",  { 1, 10, 100 },      grow_variants,   grow_values,   1, false, grow_cell  },
        { "interrupts", "window", { 1, 64 },           echo_variants,   echo_values,   4, false, echo_cell  },
        { "buffers",    "frame",  { 64, 1500, 65535 }, buffer_variants, buffer_values, 3, true,  buffer_cell},
};

static double median(const struct cell cells[][VARIANTS_MAX], unsigned variant, unsigned value)
{
        double column[REPEAT_MAX];

        for (unsigned r = 0; r < repeat; r++)
                column[r] = cells[r][variant].v[value];
        return percentile(column, repeat, 0.5);
}

/* The variant that a value is compared with: the first or, for receive buffers, the best of the others over all rounds.  The best of each
 * round would be the luckier of two, and better than either of them is. */
static unsigned yardstick(const struct experiment *e, const struct cell cells[][VARIANTS_MAX],
                          unsigned variant, unsigned value)
{
        unsigned best = 0;

        for (unsigned k = 1; e->against_best && k < variant; k++) {
                double v = median(cells, k, value), than = median(cells, best, value);

                if (value == 0 ? v > than : v < than)
                        best = k;
        }
        return best;
}

static void report(const struct experiment *e, unsigned param, const struct cell cells[][VARIANTS_MAX])
{
        for (unsigned k = 0; e->variants[k]; k++) {
                printf("experiment=%s %s=%u variant=%s repeat=%u", e->name, e->param_name, param,
                       e->variants[k], repeat);
                for (unsigned i = 0; e->values[i]; i++)
                        printf(" %s=%.5g", e->values[i], median(cells, k, i));
                printf("\n");
        }
        for (unsigned k = e->against_best ? 2 : 1; e->variants[k]; k++)
                for (unsigned i = 0; i < e->compared; i++) {
                        unsigned than = yardstick(e, cells, k, i);
                        double column[REPEAT_MAX];

                        for (unsigned r = 0; r < repeat; r++)
                                column[r] =
                                        cells[r][than].v[i] > 0 ? cells[r][k].v[i] / cells[r][than].v[i] : 0;
                        printf("%s_%u_%s_%s_ratio=%.3f\n", e->name, param, e->variants[k], e->values[i],
                               percentile(column, repeat, 0.5));
                }
        fflush(stdout);
}

static void run(const struct experiment *e)
{
        static struct cell cells[REPEAT_MAX][VARIANTS_MAX];

        for (unsigned p = 0; p < ARRAY_SIZE(e->params) && e->params[p]; p++) {
                memset(cells, 0, sizeof(cells));
                for (unsigned r = 0; r < repeat; r++)
                        for (unsigned k = 0; e->variants[k]; k++)
                                e->cell(k, e->params[p], &cells[r][k]);
                report(e, e->params[p], cells);
        }
}

static void run_on(unsigned cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        check(sched_setaffinity(0, sizeof(set), &set) == 0);
}

int main(int argc, char **argv)
{
        unsigned cpu = CPU_SETSIZE;
        bool any = false;

        for (int i = 1; i < argc; i++) {
                if (sscanf(argv[i], "--ms=%u", &cell_ms) == 1 ||
                    sscanf(argv[i], "--repeat=%u", &repeat) == 1 || sscanf(argv[i], "--cpu=%u", &cpu) == 1)
                        continue;
                any = true;
        }
        if (!repeat || repeat > REPEAT_MAX || !cell_ms) {
                fprintf(stderr, "engine_bench: --repeat=1..%u, --ms=1 or more\n", REPEAT_MAX);
                return 2;
        }
        if (cpu < CPU_SETSIZE)
                run_on(cpu);
        setpriority(PRIO_PROCESS, 0, -20); /* as the device's worker has it */
        for (unsigned k = 0; k < ARRAY_SIZE(experiments); k++) {
                bool wanted = !any;

                for (int i = 1; i < argc; i++)
                        wanted |= !strcmp(argv[i], experiments[k].name);
                if (wanted)
                        run(&experiments[k]);
        }
        return 0;
}
