#include "bench/experiment.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "bench/anchors.h"
#include "bench/limits.h"

const struct metric_info metric_info[METRIC_COUNT] = {
#define METRIC(name, key, heading, decimals, better) { key, heading, decimals, better },
        METRICS(METRIC)
#undef METRIC
};

/* ---- the tables ---- */

/* clang-format off */
const struct workload_info workload_info[WORK_COUNT] = {
        [WORK_TCP_RR]   = { "TCP_RR",   "one message there and one back, in each of many sessions", METRIC_TPS },
        [WORK_UDP_RR]   = { "UDP_RR",   "the same with datagrams", METRIC_TPS },
        [WORK_GUEST_TX] = { "GUEST_TX", "TCP streams from the driver's side", METRIC_GBPS },
        [WORK_GUEST_RX] = { "GUEST_RX", "TCP streams to the driver's side", METRIC_GBPS },
        [WORK_UDP_TX]   = { "UDP_TX",   "datagrams from the driver's side, as fast as they go", METRIC_KPPS },
        [WORK_UDP_RX]   = { "UDP_RX",   "datagrams to the driver's side, as fast as they go", METRIC_KPPS },
        [WORK_GROW_TX]  = { "GROW_TX",  "TCP from a sender on the driver's flows, whose segments grow while it must wait", METRIC_GBPS },
        [WORK_RING_TX]  = { "RING_TX",  "readable chains through a ring", METRIC_MPPS },
        [WORK_RING_RX]  = { "RING_RX",  "writable chains through a ring", METRIC_MPPS },
        [WORK_LIMIT]    = { "LIMIT",    "what the machine takes", METRIC_NS },
};

#define GRID(work_, sizes_, sessions_, ...) \
        { .work = (work_), .sizes = (sizes_), .sessions = (sessions_), __VA_ARGS__ }
#define SHOW_BOTH (SHOW_VALUE | SHOW_CHANGE)

static const struct variant polling[] = {
        { .name = "poll 0",     .device = "poll-us=0",  .linux_does = true },
        { .name = "poll 50 us", .device = "poll-us=50", .linux_does = true },
};

static const struct grid busypoll_grids[] = {
        GRID(WORK_TCP_RR, LIST(1, 64, 256, 512, 1024), LIST(1, 50, 100, 200),
             .quick_sizes = LIST(1, 256, 1024), .quick_sessions = LIST(1, 50, 200)),
        GRID(WORK_GUEST_RX, LIST(64, 512, 1024, 2048, 4096, 16384, 65535), LIST(1, 4, 8),
             .quick_sizes = LIST(64, 1024, 65535), .quick_sessions = LIST(1, 8)),
        GRID(WORK_GUEST_TX, LIST(64, 512, 1024, 2048, 4096, 16384, 65535), LIST(1, 4, 8),
             .quick_sizes = LIST(64, 1024, 65535), .quick_sessions = LIST(1, 8)),
};

static const struct column busypoll_columns[] = {
        { HEADLINE,          SHOW_BOTH },
        { METRIC_PER_CPU,    SHOW_CHANGE },
        { METRIC_TX_PACKETS, SHOW_CHANGE },
        { METRIC_RX_PACKETS, SHOW_CHANGE },
        { METRIC_KICKS,      SHOW_CHANGE },
};

static const struct grid contention_grids[] = {
        GRID(WORK_TCP_RR, LIST(1, 64, 256, 512, 1024, 4096, 16384), LIST(1), .quick_sizes = LIST(1, 1024, 4096)),
        GRID(WORK_GUEST_TX, LIST(1, 64, 256, 512, 1024, 4096, 16384), LIST(1), .quick_sizes = LIST(64, 1024, 16384)),
        GRID(WORK_GUEST_RX, LIST(1, 64, 256, 512, 1024, 4096, 16384), LIST(1), .quick_sizes = LIST(64, 1024, 16384)),
};

static const struct column contention_columns[] = {
        { HEADLINE,       SHOW_BOTH },
        { METRIC_P99,     SHOW_CHANGE },
        { METRIC_PER_CPU, SHOW_CHANGE },
};

#define COALESCE_64 "tx-usecs=64 tx-frames=64"
#define COALESCE_16 "tx-usecs=16 tx-frames=16"
#define ORPHAN      "tx-mode=orphan clean-tx-from-rx=off"
#define NAPI_ALONE  "tx-mode=napi clean-tx-from-rx=off tx-interrupts=eager"
#define NAPI_AT_RX  "tx-mode=napi clean-tx-from-rx=on tx-interrupts=eager"
#define NAPI_LAZY   "tx-mode=napi clean-tx-from-rx=on tx-interrupts=lazy"

static const struct variant txnapi_variants[TXNAPI_COUNT] = {
        [TXNAPI_ORPHAN]   = { .name = "orphan",                             .driver = ORPHAN },
        [TXNAPI_NAPI]     = { .name = "napi",                               .driver = NAPI_ALONE },
        [TXNAPI_COALESCE] = { .name = "+coalescing", .device = COALESCE_64, .driver = NAPI_ALONE },
        [TXNAPI_AT_RX]    = { .name = "+at-rx",                             .driver = NAPI_AT_RX },
        [TXNAPI_BOTH]     = { .name = "+both",       .device = COALESCE_64, .driver = NAPI_AT_RX },
        [TXNAPI_LAZY]     = { .name = "lazy",                               .driver = NAPI_LAZY },
};

static const struct grid txnapi_grids[] = {
        GRID(WORK_GROW_TX, LIST(16384), LIST(1, 10, 100), .threads = 1),
        GRID(WORK_GUEST_TX, LIST(16384), LIST(1, 10, 100), .threads = 1),
        GRID(WORK_TCP_RR, LIST(1), LIST(1, 10, 100), .threads = 1),
        GRID(WORK_TCP_RR, LIST(4096), LIST(1, 10, 100), .quick_sessions = LIST(10)),
        GRID(WORK_UDP_RR, LIST(1), LIST(1, 10, 100), .quick_sessions = LIST(10)),
        GRID(WORK_UDP_TX, LIST(64, 1472), LIST(1), .quick_sizes = LIST(64)),
        GRID(WORK_GUEST_TX, LIST(16384), LIST(10), .threads = 4),
};

static const struct column txnapi_columns[] = {
        { HEADLINE,             SHOW_BOTH },
        { METRIC_CPU,           SHOW_BOTH },
        { METRIC_P50,           SHOW_BOTH },
        { METRIC_P99,           SHOW_BOTH },
        { METRIC_TX_LENGTH,     SHOW_BOTH },
        { METRIC_TX_INTERRUPTS, SHOW_VALUE },
};

static const struct variant txintr_variants[TXINTR_COUNT] = {
        [TXINTR_ORPHAN]   = { .name = "none",                               .driver = ORPHAN,     .base = TXINTR_ORPHAN },
        [TXINTR_EACH]     = { .name = "at once",                            .driver = NAPI_AT_RX, .base = TXINTR_ORPHAN, .linux_does = true },
        [TXINTR_COALESCE] = { .name = "16 or 16 us", .device = COALESCE_16, .driver = NAPI_AT_RX, .base = TXINTR_EACH,   .linux_does = true },
        [TXINTR_LAZY]     = { .name = "lazy",                               .driver = NAPI_LAZY,  .base = TXINTR_EACH },
};

static const struct grid txintr_grids[] = {
        GRID(WORK_TCP_RR, LIST(1), LIST(1, 50), .threads = 1),
        GRID(WORK_GUEST_TX, LIST(64, 256, 1024, 16384), LIST(1, 4), .quick_sizes = LIST(64, 16384), .quick_sessions = LIST(1)),
        GRID(WORK_GUEST_RX, LIST(64, 1024, 16384), LIST(1, 4), .quick_sizes = LIST(64, 16384), .quick_sessions = LIST(1)),
        GRID(WORK_UDP_TX, LIST(64), LIST(1), .threads = 1),
};

static const struct column txintr_columns[] = {
        { HEADLINE,             SHOW_BOTH },
        { METRIC_TX_INTERRUPTS, SHOW_BOTH },
        { METRIC_CPU,           SHOW_BOTH },
        { METRIC_PER_CPU,       SHOW_CHANGE },
};

static const struct variant autotune_variants[AUTOTUNE_COUNT] = {
        [AUTOTUNE_PAGE] = { .name = "page", .driver = "rx-buffers=page" },
        [AUTOTUNE_MTU]  = { .name = "mtu",  .driver = "rx-buffers=mtu" },
        [AUTOTUNE_AUTO] = { .name = "auto", .driver = "rx-buffers=auto" },
};

static const struct grid autotune_grids[] = {
        GRID(WORK_UDP_RX, LIST(64, 1472), LIST(1), .threads = 1),
        GRID(WORK_GUEST_RX, LIST(64, 1500, 65536), LIST(1, 4), .quick_sessions = LIST(1)),
};

static const struct column autotune_columns[] = {
        { HEADLINE,         SHOW_BOTH },
        { METRIC_PER_CPU,   SHOW_CHANGE },
        { METRIC_RX_LENGTH, SHOW_VALUE },
        { METRIC_BUFFER,    SHOW_VALUE },
        { METRIC_DENSITY,   SHOW_VALUE },
};

static const struct variant kick_variants[] = {
        { .name = "limit, each",     .driver = "bql=on kick=each" },
        { .name = "limit, burst",    .driver = "bql=on kick=burst" },
        { .name = "no limit, burst", .driver = "bql=off kick=burst" },
};

static const struct grid kick_grids[] = {
        GRID(WORK_GUEST_TX, LIST(64, 1500, 16384, 65535), LIST(1, 4), .quick_sizes = LIST(64, 16384)),
        GRID(WORK_UDP_TX, LIST(64, 1472), LIST(1), .threads = 1),
        GRID(WORK_TCP_RR, LIST(1), LIST(1, 50), .threads = 1),
};

static const struct column kick_columns[] = {
        { HEADLINE,       SHOW_BOTH },
        { METRIC_KICKS,   SHOW_BOTH },
        { METRIC_PER_CPU, SHOW_CHANGE },
        { METRIC_P99,     SHOW_VALUE },
};

static const struct variant ring_variants[] = {
        { .name = "split", .rig = RIG_MACHINE },
};

static const struct grid ring_grids[] = {
        GRID(WORK_RING_TX, LIST(0, 64, 256, 1500), LIST(256, 1024, 32768),
             .quick_sizes = LIST(0, 64, 1500), .quick_sessions = LIST(256, 1024)),
        GRID(WORK_RING_RX, LIST(0, 64, 256, 1500), LIST(256, 1024, 32768),
             .quick_sizes = LIST(0, 64, 1500), .quick_sessions = LIST(256, 1024)),
};

static const struct column ring_columns[] = {
        { METRIC_MPPS,                SHOW_VALUE },
        { METRIC_DRIVER_INSTRUCTIONS, SHOW_VALUE },
        { METRIC_DEVICE_INSTRUCTIONS, SHOW_VALUE },
};

enum { LIMITS_MACHINE, LIMITS_VETH, LIMITS_SPLICE, LIMITS_VWIRE };

static const struct variant limits_variants[] = {
        [LIMITS_MACHINE] = { .name = "machine",    .rig = RIG_MACHINE, .base = LIMITS_MACHINE },
        [LIMITS_VETH]    = { .name = "veth",       .rig = RIG_VETH,    .base = LIMITS_SPLICE },
        [LIMITS_SPLICE]  = { .name = "TAP splice", .rig = RIG_SPLICE,  .base = LIMITS_SPLICE },
        [LIMITS_VWIRE]   = { .name = "vwire",      .rig = RIG_LINK,    .base = LIMITS_SPLICE },
};

static bool limits_apply(const struct cell *cell, unsigned variant)
{
        return (cell->work == WORK_LIMIT) == (variant == LIMITS_MACHINE);
}

static const struct grid limits_grids[] = {
        GRID(WORK_LIMIT, LIST(0, 1, 2, 3, 4, 5, 6, 7), LIST(1), .threads = 1),
        GRID(WORK_GUEST_TX, LIST(65535), LIST(1), .threads = 1),
        GRID(WORK_GUEST_RX, LIST(65535), LIST(1), .threads = 1),
        GRID(WORK_TCP_RR, LIST(1), LIST(1), .threads = 1),
        GRID(WORK_UDP_TX, LIST(64), LIST(1), .threads = 1),
        GRID(WORK_UDP_RX, LIST(64), LIST(1), .threads = 1),
};

static const struct column limits_columns[] = {
        { HEADLINE,   SHOW_BOTH },
        { METRIC_P50, SHOW_VALUE },
        { METRIC_P99, SHOW_VALUE },
};

#define VARIANTS(v) .variants = (v), .n_variants = ARRAY_SIZE(v)
#define PARTS(prefix) \
        .grids = prefix##_grids, .n_grids = ARRAY_SIZE(prefix##_grids), \
        .columns = prefix##_columns, .n_columns = ARRAY_SIZE(prefix##_columns)

const struct experiment experiments[] = {
        { .name = "busypoll", .after = "2015, test A",
          .line = "busy polling of the device, 0 against 50 us: many request-response sessions, and streams both ways",
          .about = "Published: two machines back to back, a guest of 8 vCPUs with one queue, netperf 2.6, busy_loop_timeout 50 us. "
                   "\"Normalized\" there is \"per CPU\" here: throughput by the CPU time of guest, driver and device; ioexits are "
                   "kicks.",
          VARIANTS(polling), PARTS(busypoll), .published = anchor_busypoll },
        { .name = "contention", .after = "2015, test B",
          .line = "the same with two devices on one CPU, each with a guest of its own",
          .about = "Published: two guests of one vCPU, both vhost threads pinned to one CPU of the host; the sum of both counts.",
          .rig = RIG_PAIR, VARIANTS(polling), PARTS(contention), .published = anchor_contention },
        { .name = "txnapi", .after = "2017",
          .line = "completions that drive the tx queue against packets orphaned at transmission; coalescing; reaping from rx",
          .about = "Published: neper, medians of 5, guest of 4 pinned vCPUs, vhost and the test's server on a CPU each; coalescing "
                   "64 frames and 64 us. CPU was given in cycles. GROW_TX has a sender that small queues hold back, as the "
                   "kernel's TCP was there; through a TAP the kernel's own TCP is not held back. UDP, 4 KiB and several sending "
                   "threads were left open there. \"Lazy\" is what vwire does by itself: it reaps from rx and asks for an interrupt "
                   "only while something waits for completions.",
          VARIANTS(txnapi_variants), PARTS(txnapi), .published = anchor_txnapi },
        { .name = "txintr", .after = "2014, tx interrupts",
          .line = "tx interrupts: none, at once, and held back for 16 frames or 16 us",
          .about = "Published: \"at once\" against \"none\" in the cover letter (about 10 per cent fewer transactions), the held-back "
                   "ones against \"at once\" in a reply, as ranges. \"Lazy\" is what vwire does by itself: it asks for an interrupt "
                   "only while something waits for completions.",
          VARIANTS(txintr_variants), PARTS(txintr), .published = anchor_txintr },
        { .name = "autotune", .after = "2014, receive buffers",
          .line = "receive buffers of a page, of an MTU, and sized by what arrives",
          .about = "Published: netperf TCP_STREAM between two guests of one machine, average of five, as a change against page-sized "
                   "buffers; in a second set-up auto was 18 per cent above mtu. \"Bytes used/held\" is the frame's share of the memory "
                   "that it holds.",
          VARIANTS(autotune_variants), PARTS(autotune), .buffer_sizes = true, .published = anchor_autotune },
        { .name = "kick", .after = "the open question of 2014",
          .line = "byte limit with a kick for each packet, with a kick for each burst, and no byte limit",
          .about = "The question was whether a byte limit with a kick for each packet is faster than none; no number was published.",
          VARIANTS(kick_variants), PARTS(kick) },
        { .name = "ring",
          .line = "packets a second and instructions a packet over the rings alone",
          .about = "Two threads that poll, a CPU each, no notifications. Of 0 bytes: the rings alone; else the device copies the "
                   "payload.",
          .rig = RIG_MACHINE, VARIANTS(ring_variants), PARTS(ring) },
        { .name = "limits",
          .line = "what this machine can do at all: cache lines, wake-ups, a veth pair, a splice of two TAPs",
          .about = "No program in user space with a TAP at each end can do less for a frame than the splice; the changes are against it.",
          VARIANTS(limits_variants), PARTS(limits), .applies = limits_apply },
};
/* clang-format on */
const unsigned n_experiments = ARRAY_SIZE(experiments);

/* ---- looking at them ---- */

const struct experiment *experiment_find(const char *name)
{
        for (unsigned i = 0; i < n_experiments; i++)
                if (!strcmp(experiments[i].name, name))
                        return &experiments[i];
        return NULL;
}

unsigned experiment_cells(const struct experiment *e, bool quick, struct cell ret_cells[CELLS_MAX])
{
        unsigned n = 0;

        for (const struct grid *g = e->grids; g < e->grids + e->n_grids; g++) {
                const unsigned *sizes = quick && g->quick_sizes ? g->quick_sizes : g->sizes;
                const unsigned *sessions = quick && g->quick_sessions ? g->quick_sessions : g->sessions;

                for (const unsigned *size = sizes; *size != END; size++)
                        for (const unsigned *s = sessions; *s != END && n < CELLS_MAX; s++)
                                ret_cells[n++] = (struct cell){ g->work, *size, *s, MAX(g->threads, 1u) };
        }
        return n;
}

enum rig_kind experiment_rig(const struct experiment *e, const struct cell *cell, unsigned variant)
{
        if (cell->work == WORK_GROW_TX)
                return RIG_GROW;
        return e->variants[variant].rig ? e->variants[variant].rig : e->rig;
}

bool experiment_applies(const struct experiment *e, const struct cell *cell, unsigned variant)
{
        return variant < e->n_variants && (!e->applies || e->applies(cell, variant));
}

bool experiment_has_linux(const struct experiment *e)
{
        unsigned n = 0;

        for (unsigned v = 0; v < e->n_variants; v++)
                n += e->variants[v].linux_does;
        return n > 1;
}

enum metric column_metric(const struct column *column, const struct cell *cell)
{
        return column->metric == HEADLINE ? workload_info[cell->work].headline : column->metric;
}

bool cell_equal(const struct cell *a, const struct cell *b)
{
        return a->work == b->work && a->size == b->size && a->sessions == b->sessions &&
               a->threads == b->threads;
}

const char *cell_label(const struct cell *cell, char *buf, size_t len)
{
        const char *name = workload_info[cell->work].name;

        switch (cell->work) {
        case WORK_LIMIT:
                snprintf(buf, len, "%s", cell->size < n_limits ? limits[cell->size].name : name);
                break;
        case WORK_RING_TX:
        case WORK_RING_RX:
                snprintf(buf, len, "%s %u B, ring %u", name, cell->size, cell->sessions);
                break;
        default:
                snprintf(buf, len, "%s %u B x %u%s", name, cell->size, cell->sessions,
                         cell->threads > 1 ? ", more threads" : "");
        }
        return buf;
}
