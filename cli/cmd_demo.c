/* `vwire demo`: two network namespaces, a driver in one and a device in the other, each with a TAP; TCP between the two
 * kernel stacks crosses the rings.  Both ends are this program, run as a user would; what is measured is what iperf3 and
 * sockperf see, beside what the ends count.
 *
 *      iperf3 client | kernel | TAP | vwire driver ==== socket, rings ==== vwire device | TAP | kernel | iperf3 server
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "ctl/client.h"
#include "end.h"
#include "link.h"
#include "measure.h"
#include "netns.h"
#include "opts.h"
#include "stop.h"
#include "vwire/stats.h"

#define IPERF_PORT    5201
#define SOCKPERF_PORT 11111
#define TOOL_SLACK_MS 10000 /* what a tool may take on top of the time that it measures */

enum { PLACE_AUTO, PLACE_TOGETHER, PLACE_FREE };

static const char *const places[] = { "auto", "together", "free", NULL };

static struct demo_options {
        unsigned seconds;
        int place;
        bool json;
} options = { .seconds = 3 };

static const struct opt rows[] = {
        ROW_NUMBER(struct demo_options, seconds, "seconds", 1, 3600, "3",
                   "length of each of the three measurements"),
        ROW_WORD(
                struct demo_options, place, "place", places, "auto",
                "the ends' workers: together on one CPU, which suits streams where CPUs are few; free, where the kernel "
                "puts them, which suits round trips; auto: together with fewer than 4 CPUs"),
        ROW_FLAG(struct demo_options, json, "json", "the results as JSON on stdout"),
};

static const struct opt_group group = { .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options };
static const struct opt_group *const groups[] = { &group };

static const struct opt_page page = {
        .command = "vwire demo",
        .usage = "[options]",
        .about =
                "Joins two network namespaces by a driver and a device, sends TCP through both kernel stacks, and tells what "
                "the link does. Needs iperf3 and sockperf; works as root, or without where user namespaces are allowed. "
                "Exits with 0 if traffic passed both ways, and leaves nothing behind.",
        .examples = "  vwire demo\n"
                    "  vwire demo --seconds=10 --json\n"
                    "  vwire demo --place=free\n",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
};

/* What both ends have counted up to a moment. */
struct sample {
        uint64_t time;                   /* ns */
        uint64_t device_cpu, driver_cpu; /* us */
        uint64_t packets[2], bytes[2];   /* by enum vw_queue_kind: rx, tx */
        uint64_t kicks, interrupts;
};

enum { TX, RX, RTT, N_PHASES };

struct phase {
        const char *title;
        double gbps, p50, p99;
        struct sample before, after;
};

struct demo {
        struct link link;
        struct child iperf, sockperf; /* servers, at the device's side */
        struct phase phases[N_PHASES];
};

static int fail(const char *fmt, const char *detail)
{
        opts_refuse("vwire demo", fmt, detail);
        return STATUS_FAILED;
}

/* ---- set-up ---- */

static int start(struct child *c, const char *name, const struct link_half *half, const char *log, bool piped,
                 const char *const *argv)
{
        int r = child_start(c, name, half->netns, log, piped, argv);

        return r < 0 ? fail("a process cannot be started: %s", strerror(-r)) : -1;
}

static bool servers_listen(void *ctx)
{
        struct demo *d = ctx;

        return child_listens(&d->iperf, IPERF_PORT) && child_listens(&d->sockperf, SOCKPERF_PORT);
}

/* The kernels' stacks at both ends want a CPU each.  With none left over, two workers that are spread wake each other across CPUs, which
 * in a virtual machine takes as long as a long frame does; on one CPU they hand over as the two directions of a splice do. */
static const char *const *place(void)
{
        static char cpus[32];
        static const char *const pinned[] = { cpus, NULL };
        int last = CPU_SETSIZE - 1;
        cpu_set_t set;

        if (options.place == PLACE_FREE || sched_getaffinity(0, sizeof(set), &set) < 0 ||
            (options.place == PLACE_AUTO && CPU_COUNT(&set) >= 4))
                return NULL;
        while (!CPU_ISSET((size_t)last, &set))
                last--;
        snprintf(cpus, sizeof(cpus), "--cpus=%d", last);
        return pinned;
}

static int set_up(struct demo *d)
{
        static const char *const iperf[] = { "iperf3", "-s", NULL };
        static const char *const sockperf[] = { "sockperf",          "sr", "--tcp", "-i",
                                                LINK_DEVICE_ADDRESS, "-p", "11111", NULL };
        int status = link_start(&d->link, place(), place());

        if (status < 0)
                status = start(&d->iperf, "iperf3", &d->link.device, "/tmp/iperf3.log", false, iperf);
        if (status < 0)
                status = start(&d->sockperf, "sockperf", &d->link.device, "/tmp/sockperf.log", false,
                               sockperf);
        return status < 0 ? link_wait(&d->link, servers_listen, d, "iperf3 and sockperf to listen") : status;
}

static void tear_down(struct demo *d)
{
        child_stop(&d->iperf, 0);
        child_stop(&d->sockperf, 0);
        link_stop(&d->link);
}

/* ---- measurements ---- */

static uint64_t number(const json_t *object, const char *name)
{
        return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* An end that dies closes its sockets before it can be waited for. */
static int explain_silence(struct demo *d, const char *why)
{
        for (unsigned i = 0; i < 50; i++) {
                int status = link_check(&d->link);

                if (status >= 0)
                        return status;
                poll(NULL, 0, 10);
        }
        return fail("the driver does not answer: %s", why);
}

/* The driver's counters see both directions, and interrupts as they arrive. */
static int take_sample(struct demo *d, struct sample *ret_sample)
{
        struct sample s = { .time = end_now(),
                            .device_cpu = child_cpu_us(&d->link.device.child),
                            .driver_cpu = child_cpu_us(&d->link.driver.child) };
        struct ctl_reply reply;
        const char *why;
        json_t *queue;
        size_t i;

        if (ctl_call(d->link.driver.ctl, "stats", NULL, -1, &reply, &why) < 0)
                return explain_silence(d, why);
        json_array_foreach (json_object_get(reply.value, "queues"), i, queue) {
                const json_t *counters = json_object_get(queue, "counters");
                const char *kind = json_string_value(json_object_get(queue, "kind"));
                enum vw_queue_kind k = kind && !strcmp(kind, "tx") ? VW_TX : VW_RX;

                if (!kind || !strcmp(kind, "ctrl"))
                        continue;
                s.packets[k] += number(counters, "packets");
                s.bytes[k] += number(counters, "bytes");
                s.kicks += number(counters, "kicks");
                s.interrupts += number(counters, "interrupts");
        }
        ctl_reply_done(&reply);
        *ret_sample = s;
        return -1;
}

static double seconds_between(const struct sample *a, const struct sample *b)
{
        return (double)(b->time - a->time) / 1e9;
}

static uint64_t packets_between(const struct sample *a, const struct sample *b)
{
        return b->packets[VW_RX] + b->packets[VW_TX] - a->packets[VW_RX] - a->packets[VW_TX];
}

static double gbps_between(const struct sample *a, const struct sample *b, enum vw_queue_kind kind)
{
        return (double)(b->bytes[kind] - a->bytes[kind]) * 8 / 1e9 / seconds_between(a, b);
}

/* One line that moves on a terminal, a line each elsewhere. */
static void show_progress(const struct phase *p, const struct sample *last, const struct sample *now)
{
        bool moves = isatty(STDERR_FILENO);

        fprintf(stderr, "%s%-18s %5.1f s  to device %6.2f Gbit/s  to driver %6.2f Gbit/s  %8.0f packets/s%s",
                moves ? "\r" : "", p->title, seconds_between(&p->before, now), gbps_between(last, now, VW_TX),
                gbps_between(last, now, VW_RX),
                (double)packets_between(last, now) / seconds_between(last, now), moves ? "\033[K" : "\n");
}

#define TICK_MS       250
#define BEGUN_PACKETS 100 /* a handshake and a few lookups are not traffic yet */

/* The phase begins when traffic does: sockperf calibrates its clock for a while. */
static int on_tick(struct demo *d, struct phase *p, struct sample *last, unsigned *tick)
{
        struct sample now;
        int status = link_check(&d->link);

        if (status < 0)
                status = take_sample(d, &now);
        if (status >= 0)
                return status;
        if (packets_between(&p->before, &now) < BEGUN_PACKETS) {
                p->before = *last = now;
        } else if (isatty(STDERR_FILENO) || (*tick)++ % (1000 / TICK_MS) == 0) {
                show_progress(p, last, &now);
                *last = now;
        }
        return -1;
}

/* What the tool prints until it ends, with progress meanwhile.  -1 to go on. */
static int watch_tool(struct demo *d, struct child *tool, struct phase *p, FILE *output)
{
        uint64_t deadline = end_now() + (options.seconds * 1000ULL + TOOL_SLACK_MS) * 1000000;
        struct sample last = p->before;
        unsigned tick = 0;

        while (end_now() < deadline) {
                struct pollfd fds[] = {
                        {.fd = tool->out,  .events = POLLIN},
                        { .fd = stop_fd(), .events = POLLIN}
                };
                int n = poll(fds, ARRAY_LEN(fds), TICK_MS), status = -1;
                char part[4096];
                ssize_t len;

                if (n == 0 || fds[1].revents)
                        status = on_tick(d, p, &last, &tick);
                if (status >= 0)
                        return status;
                if (!fds[0].revents)
                        continue;
                len = read(tool->out, part, sizeof(part));
                if (len <= 0)
                        return -1;
                fwrite(part, 1, (size_t)len, output);
        }
        return fail("%s does not end", tool->name);
}

static int run_tool(struct demo *d, struct phase *p, const char *const *argv, char **ret_text)
{
        struct child tool = CHILD_NONE;
        size_t len;
        FILE *output = open_memstream(ret_text, &len);
        int status = take_sample(d, &p->before);

        if (!output)
                return fail("%s", "out of memory");
        if (status < 0)
                status = start(&tool, argv[0], &d->link.driver, "/tmp/tool.log", true, argv);
        if (status < 0)
                status = watch_tool(d, &tool, p, output);
        child_stop(&tool, 0);
        fclose(output);
        if (status < 0)
                status = take_sample(d, &p->after);
        if (isatty(STDERR_FILENO))
                fputs("\r\033[K", stderr);
        return status;
}

static int read_stream(struct phase *p, const char *text, char *why, size_t len)
{
        return measure_iperf(text, &p->gbps, why, len);
}

static int read_round_trips(struct phase *p, const char *text, char *why, size_t len)
{
        return measure_sockperf(text, &p->p50, &p->p99, why, len);
}

/* A tool that ends without a result is asked again: iperf3's server may still be at the last client's leave-taking, and sockperf has nothing
 * to say of a run in which a loaded machine had no CPU for it. */
#define TRIES 3

static int measure(struct demo *d, struct phase *p, const char *const *argv,
                   int (*read_result)(struct phase *p, const char *text, char *why, size_t len))
{
        char why[200];

        for (unsigned i = 0; i < TRIES; i++) {
                char *text = NULL;
                int status = run_tool(d, p, argv, &text);
                bool good = status < 0 && read_result(p, text, why, sizeof(why)) == 0;

                free(text);
                if (status >= 0 || good)
                        return status;
                fprintf(stderr, "%-18s no result: %s\n", p->title, why);
        }
        return fail("%s", why);
}

static int measure_stream(struct demo *d, struct phase *p, bool to_driver)
{
        char seconds[16];
        const char *const argv[] = { "iperf3", "-c",    LINK_DEVICE_ADDRESS,     "-J",
                                     "-t",     seconds, to_driver ? "-R" : NULL, NULL };

        snprintf(seconds, sizeof(seconds), "%u", options.seconds);
        return measure(d, p, argv, read_stream);
}

static int measure_round_trips(struct demo *d, struct phase *p)
{
        char seconds[16];
        const char *const argv[] = { "sockperf", "pp",    "--tcp",      "-i",         LINK_DEVICE_ADDRESS,
                                     "-p",       "11111", "--full-rtt", "--msg-size", "64",
                                     "-t",       seconds, NULL };

        /* one more: it leaves the first 400 ms and the last 50 out */
        snprintf(seconds, sizeof(seconds), "%u", options.seconds + 1);
        return measure(d, p, argv, read_round_trips);
}

/* ---- the report ---- */

static double per_packet(const struct phase *p, uint64_t before, uint64_t after)
{
        uint64_t packets = packets_between(&p->before, &p->after);

        return packets ? (double)(after - before) / (double)packets : 0;
}

static double kicks_per_packet(const struct phase *p)
{
        return per_packet(p, p->before.kicks, p->after.kicks);
}

static double interrupts_per_packet(const struct phase *p)
{
        return per_packet(p, p->before.interrupts, p->after.interrupts);
}

static double bytes_per_packet(const struct phase *p)
{
        return per_packet(p, p->before.bytes[VW_RX] + p->before.bytes[VW_TX],
                          p->after.bytes[VW_RX] + p->after.bytes[VW_TX]);
}

static double cpu_percent(const struct phase *p, uint64_t before, uint64_t after)
{
        return (double)(after - before) / 1e4 / seconds_between(&p->before, &p->after);
}

static double device_cpu(const struct phase *p)
{
        return cpu_percent(p, p->before.device_cpu, p->after.device_cpu);
}

static double driver_cpu(const struct phase *p)
{
        return cpu_percent(p, p->before.driver_cpu, p->after.driver_cpu);
}

static double packets(const struct phase *p)
{
        return (double)packets_between(&p->before, &p->after);
}

static void print_row(const struct phase *phases, const char *label, double (*value)(const struct phase *p),
                      int decimals)
{
        printf("%-24s", label);
        for (unsigned i = 0; i < N_PHASES; i++)
                printf("%18.*f", decimals, value(&phases[i]));
        putchar('\n');
}

static void print_table(const struct phase *p)
{
        printf("%-24s%18s%18s%18s\n", "", p[TX].title, p[RX].title, p[RTT].title);
        printf("%-24s%18.2f%18.2f\n", "throughput, Gbit/s", p[TX].gbps, p[RX].gbps);
        printf("%-24s%36s%18.1f\n", "p50, us", "", p[RTT].p50);
        printf("%-24s%36s%18.1f\n", "p99, us", "", p[RTT].p99);
        print_row(p, "packets", packets, 0);
        print_row(p, "bytes per packet", bytes_per_packet, 0);
        print_row(p, "kicks per packet", kicks_per_packet, 3);
        print_row(p, "interrupts per packet", interrupts_per_packet, 3);
        print_row(p, "CPU of the device, %", device_cpu, 0);
        print_row(p, "CPU of the driver, %", driver_cpu, 0);
}

static json_t *phase_json(const struct phase *p)
{
        return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "packets",
                         (json_int_t)packets_between(&p->before, &p->after), "bytes_per_packet",
                         bytes_per_packet(p), "kicks_per_packet", kicks_per_packet(p),
                         "interrupts_per_packet", interrupts_per_packet(p), "device_cpu_percent",
                         device_cpu(p), "driver_cpu_percent", driver_cpu(p));
}

static void print_json(const struct phase *p)
{
        json_t *report = json_pack("{s:i, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "seconds",
                                   (int)options.seconds, "tx_gbps", p[TX].gbps, "rx_gbps", p[RX].gbps,
                                   "rtt_p50_us", p[RTT].p50, "rtt_p99_us", p[RTT].p99, "tx",
                                   phase_json(&p[TX]), "rx", phase_json(&p[RX]), "rtt", phase_json(&p[RTT]));

        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(report);
}

static int report(const struct demo *d)
{
        const struct phase *p = d->phases;

        if (options.json)
                print_json(p);
        else
                print_table(p);
        if (p[TX].gbps <= 0 || p[RX].gbps <= 0 || p[RTT].p50 <= 0)
                return fail("%s", "no traffic passed one of the ways");
        return STATUS_OK;
}

static int run(const char *const *words)
{
        struct demo d = {
                .iperf = CHILD_NONE,
                .sockperf = CHILD_NONE,
                .phases = {[TX] = { .title = "driver to device" },
                           [RX] = { .title = "device to driver" },
                           [RTT] = { .title = "round trips" }},
        };
        const char *why;
        int status = -1;

        (void)words;
        if (!child_found("iperf3"))
                return fail("%s is not installed: apt-get install iperf3", "iperf3");
        if (!child_found("sockperf"))
                return fail("%s is not installed: apt-get install sockperf", "sockperf");
        if (stop_start(STATUS_FAILED) < 0)
                return fail("no pipe: %s", strerror(errno));
        if (netns_isolate(&why) < 0)
                return fail("%s", why);
        fprintf(stderr, "joining two namespaces by a driver and a device, then 3 x %u s of traffic\n",
                options.seconds);
        link_init(&d.link, "vwire demo", 0);
        status = set_up(&d);
        if (status < 0)
                status = measure_stream(&d, &d.phases[TX], false);
        if (status < 0)
                status = measure_stream(&d, &d.phases[RX], true);
        if (status < 0)
                status = measure_round_trips(&d, &d.phases[RTT]);
        tear_down(&d);
        return status < 0 ? report(&d) : status;
}

int cmd_demo(int argc, char **argv)
{
        return opts_run(&page, argc, argv, run);
}
