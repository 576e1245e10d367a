#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/grow.h"
#include "bench/server.h"
#include "bench/splice.h"
#include "bench/traffic.h"
#include "cli.h"
#include "ctl/client.h"
#include "end.h"
#include "guest.h"
#include "link.h"
#include "netns.h"
#include "opts.h"
#include "vwire/stats.h"

#define COMMAND         "vwire bench"
#define LANES_MAX       2
#define NICE            (-20) /* of the splice: as the workers of either end */

#define DEVICE_DEFAULTS "poll-us=0 tx-usecs=0 tx-frames=0 rx-usecs=0 rx-frames=0 adaptive=off"
#define DRIVER_DEFAULTS                                                                                      \
        "poll-us=0 tx-mode=napi clean-tx-from-rx=on kick=burst bql=on rx-buffers=auto tx-interrupts=lazy"

struct lane {
        struct link link; /* its namespaces, and its ends where there are any */
        struct splice *splice;
        struct server *server;
        struct load *load;
        struct grow *grow;
};

struct rig {
        enum rig_kind kind;
        bool linux_guest;
        unsigned n_lanes;
        struct lane lanes[LANES_MAX];
        const char *device, *driver; /* settings in force; not NULL */
};

static int fail(const char *fmt, const char *detail)
{
        opts_refuse(COMMAND, fmt, detail);
        return STATUS_FAILED;
}

/* ---- what joins the namespaces ---- */

static bool interfaces_run(void *ctx)
{
        struct link *l = ctx;

        return netif_running(l->device.config, LINK_TAP) && netif_running(l->driver.config, LINK_TAP);
}

/* Address and carrier of a pair of interfaces that is there. */
static int configure(struct link *l)
{
        struct link_half *halves[] = { &l->device, &l->driver };

        for (unsigned i = 0; i < ARRAY_LEN(halves); i++) {
                int r = netif_set_address(halves[i]->config, LINK_TAP, halves[i]->address, 24);

                if (r == 0)
                        r = netif_set_up(halves[i]->config, LINK_TAP);
                if (r < 0)
                        return fail("an interface cannot be set up: %s", strerror(-r));
        }
        return link_wait(l, interfaces_run, l, "the interfaces");
}

static int join_by_splice(struct lane *lane)
{
        const int netns[] = { lane->link.driver.netns, lane->link.device.netns };
        const char *const names[] = { LINK_TAP, LINK_TAP };
        const char *why;

        if (splice_new(netns, names, NICE, &lane->splice, &why) < 0)
                return fail("the TAPs cannot be joined: %s", why);
        return configure(&lane->link);
}

static int join_by_veth(struct lane *lane)
{
        int r = netif_make_veth((const int[]){ lane->link.driver.netns, lane->link.device.netns }, LINK_TAP);

        return r < 0 ? fail("no veth pair can be made: %s", strerror(-r)) : configure(&lane->link);
}

static bool device_has_tap(void *ctx)
{
        struct link *l = ctx;

        return netif_set_address(l->device.config, LINK_TAP, l->device.address, 24) == 0;
}

static bool device_listens(void *ctx)
{
        struct link *l = ctx;

        link_half_runs(&l->device);
        return l->device.ctl >= 0;
}

static bool device_runs(void *ctx)
{
        struct link *l = ctx;

        return link_half_runs(&l->device) && netif_running(l->device.config, LINK_TAP);
}

static bool guest_runs(void *ctx)
{
        return device_runs(ctx) && guest_serves(ctx);
}

/* A device alone, which listens. */
static int start_device(struct link *l, const char *const *options)
{
        int status = link_make_namespaces(l);

        if (status < 0)
                status = link_start_half(l, &l->device, options);
        if (status < 0)
                status = link_wait(l, device_has_tap, l, "the TAP");
        return status < 0 ? link_wait(l, device_listens, l, "the device") : status;
}

static int join_by_guest(struct lane *lane, const char *const *options)
{
        struct link *l = &lane->link;
        int status = start_device(l, options);

        if (status < 0)
                status = guest_start(l);
        return status < 0 ? link_wait(l, guest_runs, l, "the guest") : status;
}

/* The driver is in this process; the server is where the device's frames go. */
static int join_by_sender(struct lane *lane)
{
        struct link *l = &lane->link;
        const char *why;
        int status = start_device(l, NULL);

        if (status < 0 && grow_new(l->socket, &lane->grow, &why) < 0)
                status = fail("no driver: %s", why);
        return status < 0 ? link_wait(l, device_runs, l, "the link") : status;
}

static int join(struct rig *rig, struct lane *lane)
{
        static const char *const one_cpu[] = { "--cpus=0", NULL };
        const char *const *options = rig->kind == RIG_PAIR ? one_cpu : NULL;

        switch (rig->kind) {
        case RIG_SPLICE:
                return join_by_splice(lane);
        case RIG_VETH:
                return join_by_veth(lane);
        case RIG_GROW:
                return join_by_sender(lane);
        case RIG_PAIR:
        case RIG_LINK:
        case RIG_MACHINE:
                break;
        }
        return rig->linux_guest ? join_by_guest(lane, options) : link_start(&lane->link, options, NULL);
}

/* ---- servers and load ---- */

/* The server is in the guest's namespace; behind a sender of ours, in the other. */
static struct sockaddr_in address_of(const struct link_half *half)
{
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(TRAFFIC_PORT) };

        inet_pton(AF_INET, half->address, &a.sin_addr);
        return a;
}

static const struct link_half *server_half(const struct lane *lane)
{
        return lane->grow ? &lane->link.device : &lane->link.driver;
}

/* Sockets and threads belong to the namespace where they are made. */
static int enter(int netns, int *ret_before)
{
        *ret_before = netns_here();
        return *ret_before < 0 || netns_enter(netns) < 0
                       ? fail("no way into a network namespace: %s", strerror(errno))
                       : -1;
}

static void leave(int before)
{
        netns_enter(before);
        close(before);
}

static int serve(struct lane *lane)
{
        struct sockaddr_in address = address_of(server_half(lane));
        const char *why;
        int before, status = enter(server_half(lane)->netns, &before);

        if (status >= 0)
                return status;
        if (server_new(&address, &lane->server, &why) < 0)
                status = fail("no server: %s", why);
        leave(before);
        return status;
}

static const enum load_kind load_kinds[WORK_COUNT] = {
        [WORK_TCP_RR] = LOAD_TCP_RR,   [WORK_UDP_RR] = LOAD_UDP_RR, [WORK_GUEST_TX] = LOAD_TCP_TX,
        [WORK_GUEST_RX] = LOAD_TCP_RX, [WORK_UDP_TX] = LOAD_UDP_TX, [WORK_UDP_RX] = LOAD_UDP_RX,
};

static int begin(struct lane *lane, const struct cell *cell)
{
        struct load_job job = { .kind = load_kinds[cell->work],
                                .size = cell->size,
                                .sessions = cell->sessions,
                                .threads = cell->threads,
                                .server = address_of(server_half(lane)) };
        const char *why;
        int before, status;

        if (lane->grow)
                return grow_start(lane->grow, address_of(&lane->link.driver).sin_addr, &job, &why) < 0
                               ? fail("no traffic: %s", why)
                               : -1;
        status = enter(lane->link.device.netns, &before);
        if (status >= 0)
                return status;
        if (load_start(&job, &lane->load, &why) < 0)
                status = fail("no traffic: %s", why);
        leave(before);
        return status;
}

int rig_begin(struct rig *rig, const struct cell *cell)
{
        int status = -1;

        for (unsigned i = 0; i < rig->n_lanes && status < 0; i++)
                status = begin(&rig->lanes[i], cell);
        return status;
}

void rig_end(struct rig *rig)
{
        for (unsigned i = 0; i < rig->n_lanes; i++) {
                if (rig->lanes[i].load)
                        load_stop(rig->lanes[i].load);
                rig->lanes[i].load = NULL;
                if (rig->lanes[i].grow)
                        grow_stop(rig->lanes[i].grow);
        }
}

/* ---- settings ---- */

/* "tx-usecs=64 tx-frames=64" into the arguments of `set`; later ones replace earlier ones. */
static void add_settings(json_t *arguments, const char *settings)
{
        while (settings && *settings) {
                size_t len = strcspn(settings, " "), name = strcspn(settings, "=");
                char key[64];

                snprintf(key, sizeof(key), "%.*s", (int)name, settings);
                json_object_set_new(arguments, key, json_stringn(settings + name + 1, len - name - 1));
                settings += len + (settings[len] == ' ');
        }
}

static int set_half(struct link_half *half, const char *defaults, const char *settings)
{
        json_t *arguments = json_object();
        struct ctl_reply reply;
        const char *why;
        int status = -1;

        add_settings(arguments, defaults);
        add_settings(arguments, settings);
        if (ctl_call(half->ctl, "set", arguments, -1, &reply, &why) < 0)
                return fail("an end does not take its settings: %s", why);
        if (!reply.value)
                status = fail("an end refuses its settings: %s", reply.message);
        ctl_reply_done(&reply);
        return status;
}

static int set_sender(struct grow *grow, const char *settings)
{
        const char *why;

        if (grow_set(grow, DRIVER_DEFAULTS, &why) < 0 || grow_set(grow, settings, &why) < 0)
                return fail("the driver refuses its settings: %s", why);
        return -1;
}

static const char *or_none(const char *settings)
{
        return settings ? settings : "";
}

int rig_set(struct rig *rig, const char *device, const char *driver)
{
        int status = -1;

        for (unsigned i = 0; i < rig->n_lanes && status < 0; i++) {
                struct link *l = &rig->lanes[i].link;

                if (l->device.ctl >= 0 && strcmp(rig->device, or_none(device)) != 0)
                        status = set_half(&l->device, DEVICE_DEFAULTS, device);
                if (status < 0 && l->driver.ctl >= 0 && strcmp(rig->driver, or_none(driver)) != 0)
                        status = set_half(&l->driver, DRIVER_DEFAULTS, driver);
                if (status < 0 && rig->lanes[i].grow && strcmp(rig->driver, or_none(driver)) != 0)
                        status = set_sender(rig->lanes[i].grow, or_none(driver));
        }
        rig->device = or_none(device);
        rig->driver = or_none(driver);
        return status;
}

/* ---- marks ---- */

static uint64_t number(const json_t *object, const char *name)
{
        return (uint64_t)json_integer_value(json_object_get(object, name));
}

static void add_device(const json_t *queue, enum vw_queue_kind kind, struct rig_mark *mark)
{
        const json_t *counters = json_object_get(queue, "counters");

        mark->packets[kind] += number(counters, "packets");
        mark->bytes[kind] += number(counters, "bytes");
        mark->calls[kind] += number(counters, "calls");
        mark->kicks += number(counters, "kicks");
}

static void add_driver(const json_t *queue, enum vw_queue_kind kind, struct rig_mark *mark)
{
        const json_t *counters = json_object_get(queue, "counters");
        json_t *count;
        const char *size;

        if (kind != VW_RX)
                return;
        mark->rx_bytes += number(counters, "bytes");
        mark->truesize += number(counters, "truesize");
        mark->buffer_size = number(counters, "buffer_size");
        json_object_foreach (json_object_get(queue, "buffer_sizes"), size, count) {
                unsigned long bin = strtoul(size, NULL, 10) / VW_BUFFER_STEP;

                if (bin < RECORD_SIZES)
                        mark->sizes[bin] += (uint64_t)json_integer_value(count);
        }
}

static int read_stats(struct link_half *half, struct rig_mark *mark,
                      void (*add)(const json_t *queue, enum vw_queue_kind kind, struct rig_mark *mark))
{
        struct ctl_reply reply;
        const char *why;
        json_t *queue;
        size_t i;

        if (half->ctl < 0)
                return -1;
        if (ctl_call(half->ctl, "stats", NULL, -1, &reply, &why) < 0)
                return fail("an end does not answer: %s", why);
        json_array_foreach (json_object_get(reply.value, "queues"), i, queue) {
                const char *kind = json_string_value(json_object_get(queue, "kind"));

                if (kind && strcmp(kind, "ctrl") != 0)
                        add(queue, strcmp(kind, "tx") ? VW_RX : VW_TX, mark);
        }
        ctl_reply_done(&reply);
        return -1;
}

int rig_mark(struct rig *rig, struct rig_mark *ret_mark)
{
        struct rig_mark mark = { 0 };

        for (unsigned i = 0; i < rig->n_lanes; i++) {
                struct lane *lane = &rig->lanes[i];
                struct load_mark load;
                int status = link_check(&lane->link), r;

                if (status < 0)
                        status = read_stats(&lane->link.device, &mark, add_device);
                if (status < 0)
                        status = read_stats(&lane->link.driver, &mark, add_driver);
                if (status >= 0)
                        return status;
                mark.cpu_device += child_cpu_us(&lane->link.device.child) * 1000;
                mark.cpu_driver += child_cpu_us(&lane->link.driver.child) * 1000;
                if (lane->splice)
                        mark.cpu_device += splice_cpu_ns(lane->splice);
                if (lane->grow) {
                        mark.cpu_guest += grow_cpu_ns(lane->grow);
                        mark.cpu_load += server_cpu_ns(lane->server);
                        r = grow_mark(lane->grow, &load);
                } else {
                        mark.cpu_guest += server_cpu_ns(lane->server);
                        mark.cpu_load += load_cpu_ns(lane->load);
                        r = load_mark(lane->load, &load);
                }
                if (r < 0)
                        return fail("the traffic has broken off: %s", strerror(-r));
                tally_merge(&mark.tally, &load.tally);
                mark.time = load.time;
        }
        *ret_mark = mark;
        return -1;
}

static double per(uint64_t before, uint64_t after, double what)
{
        return what > 0 ? (double)(after - before) / what : NAN;
}

void rig_sample(const struct cell *cell, const struct rig_mark *a, const struct rig_mark *b,
                struct sample *ret_sample)
{
        double s = (double)(b->time - a->time) / 1e9, *v = ret_sample->value;
        struct tally done = b->tally;
        enum metric headline = workload_info[cell->work].headline;

        for (unsigned m = 0; m < METRIC_COUNT; m++)
                v[m] = NAN;
        tally_subtract(&done, &a->tally);
        if (headline == METRIC_TPS) {
                v[METRIC_TPS] = (double)latency_total(&done.latency) / s;
                v[METRIC_P50] = latency_percentile(&done.latency, 50) / 1e3;
                v[METRIC_P99] = latency_percentile(&done.latency, 99) / 1e3;
        } else if (headline == METRIC_KPPS) {
                v[METRIC_KPPS] = (double)done.packets / s / 1e3;
        } else {
                v[METRIC_GBPS] = (double)done.bytes * 8 / s / 1e9;
        }
        v[METRIC_CPU_DEVICE] = per(a->cpu_device, b->cpu_device, s * 1e9);
        v[METRIC_CPU_DRIVER] = per(a->cpu_driver, b->cpu_driver, s * 1e9);
        v[METRIC_CPU_GUEST] = per(a->cpu_guest, b->cpu_guest, s * 1e9);
        v[METRIC_CPU_LOAD] = per(a->cpu_load, b->cpu_load, s * 1e9);
        v[METRIC_CPU] = v[METRIC_CPU_DEVICE] + v[METRIC_CPU_DRIVER] + v[METRIC_CPU_GUEST];
        if (v[METRIC_CPU] > 0)
                v[METRIC_PER_CPU] = v[headline] / v[METRIC_CPU];
        if (b->packets[VW_RX] + b->packets[VW_TX] == 0)
                return; /* no device in between */
        v[METRIC_TX_PACKETS] = per(a->packets[VW_TX], b->packets[VW_TX], s);
        v[METRIC_RX_PACKETS] = per(a->packets[VW_RX], b->packets[VW_RX], s);
        v[METRIC_TX_LENGTH] = per(a->bytes[VW_TX], b->bytes[VW_TX], v[METRIC_TX_PACKETS] * s);
        v[METRIC_RX_LENGTH] = per(a->bytes[VW_RX], b->bytes[VW_RX], v[METRIC_RX_PACKETS] * s);
        v[METRIC_KICKS] = per(a->kicks, b->kicks, s);
        v[METRIC_INTERRUPTS] = per(a->calls[0] + a->calls[1], b->calls[0] + b->calls[1], s);
        v[METRIC_TX_INTERRUPTS] = per(a->calls[VW_TX], b->calls[VW_TX], s);
        if (b->buffer_size) {
                v[METRIC_BUFFER] = (double)b->buffer_size;
                v[METRIC_DENSITY] = per(a->rx_bytes, b->rx_bytes, (double)(b->truesize - a->truesize));
        }
}

/* ---- life ---- */

int rig_start(enum rig_kind kind, bool linux_guest, struct rig **ret_rig)
{
        static unsigned number; /* of the next link: each has files of its own */
        struct rig *rig = calloc(1, sizeof(*rig));
        int status = -1;

        *ret_rig = rig;
        if (!rig)
                return fail("%s", "out of memory");
        *rig = (struct rig){ .kind = kind, .linux_guest = linux_guest, .device = "?", .driver = "?" };
        while (rig->n_lanes < (kind == RIG_PAIR ? 2 : 1) && status < 0) {
                struct lane *lane = &rig->lanes[rig->n_lanes++];

                link_init(&lane->link, COMMAND, number++);
                if (kind == RIG_SPLICE || kind == RIG_VETH)
                        status = link_make_namespaces(&lane->link);
                if (status < 0)
                        status = join(rig, lane);
                if (status < 0 && !linux_guest)
                        status = serve(lane);
        }
        return status;
}

void rig_stop(struct rig *rig)
{
        if (!rig)
                return;
        rig_end(rig);
        for (unsigned i = 0; i < rig->n_lanes; i++) {
                grow_free(rig->lanes[i].grow);
                server_free(rig->lanes[i].server);
                splice_free(rig->lanes[i].splice);
                link_stop(&rig->lanes[i].link);
        }
        free(rig);
}
