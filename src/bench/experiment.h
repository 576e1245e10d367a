/* The experiments: what is compared, under which loads, what is told of it, and what was published.  Tables only; how a cell is
 * run is the program's business (cli/bench_run.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* METRIC(NAME, "name in reports' data", "heading", decimals, better): better +1: more is, -1: less is, 0: neither.
 * Rates are per second; tx and rx are the driver's; kicks, interrupts and packets are counted by the device. */
#define METRICS(METRIC)                                                                                      \
        METRIC(TPS, "transactions", "transactions/s", 0, +1)                                                 \
        METRIC(GBPS, "gbps", "Gbit/s", 3, +1)                                                                \
        METRIC(KPPS, "kpps", "kpackets/s", 1, +1)                                                            \
        METRIC(MPPS, "mpps", "Mpackets/s", 2, +1)                                                            \
        METRIC(NS, "ns", "ns", 0, -1)                                                                        \
        METRIC(P50, "p50_us", "p50 us", 1, -1)                                                               \
        METRIC(P99, "p99_us", "p99 us", 1, -1)                                                               \
        METRIC(PER_CPU, "per_cpu", "per CPU", 3, +1)                                                         \
        METRIC(CPU, "cpu", "CPU s/s", 2, -1)                                                                 \
        METRIC(CPU_DEVICE, "cpu_device", "device", 2, -1)                                                    \
        METRIC(CPU_DRIVER, "cpu_driver", "driver", 2, -1)                                                    \
        METRIC(CPU_GUEST, "cpu_guest", "guest's program", 2, -1)                                             \
        METRIC(CPU_LOAD, "cpu_load", "other side", 2, 0)                                                     \
        METRIC(TX_PACKETS, "tx_packets", "tx packets/s", 0, 0)                                               \
        METRIC(RX_PACKETS, "rx_packets", "rx packets/s", 0, 0)                                               \
        METRIC(TX_LENGTH, "tx_length", "bytes/tx packet", 0, 0)                                              \
        METRIC(RX_LENGTH, "rx_length", "bytes/rx packet", 0, 0)                                              \
        METRIC(KICKS, "kicks", "kicks/s", 0, -1)                                                             \
        METRIC(INTERRUPTS, "interrupts", "interrupts/s", 0, -1)                                              \
        METRIC(TX_INTERRUPTS, "tx_interrupts", "tx interrupts/s", 0, -1)                                     \
        METRIC(BUFFER, "buffer_size", "buffer bytes", 0, 0)                                                  \
        METRIC(DENSITY, "density", "bytes used/held", 3, +1)                                                 \
        METRIC(DRIVER_INSTRUCTIONS, "driver_instructions", "driver instr/packet", 0, -1)                     \
        METRIC(DEVICE_INSTRUCTIONS, "device_instructions", "device instr/packet", 0, -1)

enum metric {
#define METRIC(name, key, heading, decimals, better) METRIC_##name,
        METRICS(METRIC)
#undef METRIC
                METRIC_COUNT
};

struct metric_info {
        const char *key, *heading;
        int decimals, better;
};
extern const struct metric_info metric_info[METRIC_COUNT];

/* NAN where a metric does not apply. */
struct sample {
        double value[METRIC_COUNT];
};

enum workload {
        WORK_TCP_RR,
        WORK_UDP_RR,
        WORK_GUEST_TX,
        WORK_GUEST_RX,
        WORK_UDP_TX,
        WORK_UDP_RX,
        WORK_GROW_TX, /* the sender whose segments grow under back-pressure */
        WORK_RING_TX,
        WORK_RING_RX,
        WORK_LIMIT, /* `size` is the number of the limit */
        WORK_COUNT
};

struct workload_info {
        const char *name, *what;
        enum metric headline;
};
extern const struct workload_info workload_info[WORK_COUNT];

/* One point of an experiment: a row of its tables. */
struct cell {
        enum workload work;
        unsigned size;     /* bytes of a message or packet */
        unsigned sessions; /* of a ring: its entries */
        unsigned threads;  /* that send */
};

bool cell_equal(const struct cell *a, const struct cell *b);
/* "TCP_RR 64 B x 50"; returns buf. */
const char *cell_label(const struct cell *cell, char *buf, size_t len);

enum rig_kind {
        RIG_LINK,    /* a device and a driver, each with a TAP in a namespace */
        RIG_PAIR,    /* two of these, both devices on one CPU */
        RIG_SPLICE,  /* two TAPs and a loop between them */
        RIG_VETH,    /* the kernel's own pair */
        RIG_GROW,    /* a device, and a driver in this process with a sender of its own (bench/grow) */
        RIG_MACHINE, /* no network at all */
};

struct variant {
        const char *name;
        /* settings on top of the defaults, as `vwire ctl set` takes them; NULL: none */
        const char *device, *driver;
        unsigned base; /* the variant that it is a change of: itself if none */
        enum rig_kind rig;
        bool linux_does; /* what the driver of a Linux guest does by itself, so that one may take the place of ours */
};

/* How a column shows a metric. */
enum show {
        SHOW_CHANGE = 1, /* per cent against the base, beside what was published */
        SHOW_VALUE = 2,
};

struct column {
        enum metric metric;
        unsigned show;
};

#define HEADLINE METRIC_COUNT /* in a column: the workload's own */

/* Cells as a product of lists, each ending in END; `quick_` ones where a short run has fewer. */
#define END (~0u)
#define LIST(...)                                                                                            \
        (const unsigned[])                                                                                   \
        {                                                                                                    \
                __VA_ARGS__, END                                                                             \
        }

struct grid {
        enum workload work;
        const unsigned *sizes, *sessions;
        const unsigned *quick_sizes, *quick_sessions; /* NULL: the same */
        unsigned threads;                             /* 0: one */
};

struct experiment {
        const char *name, *after, *line, *about; /* after: whose; NULL: nobody's */
        enum rig_kind rig;                       /* of variants that name none */
        const struct variant *variants;
        unsigned n_variants;
        const struct grid *grids;
        unsigned n_grids;
        const struct column *columns;
        unsigned n_columns;
        /* What was published as change, in per cent: a range, or one number twice.  False: nothing.  NULL: never. */
        bool (*published)(const struct cell *cell, unsigned variant, enum metric metric, double *ret_low,
                          double *ret_high);
        bool buffer_sizes; /* the histogram of receive buffers belongs to it */
        /* Which variants a cell has.  NULL: all. */
        bool (*applies)(const struct cell *cell, unsigned variant);
};

extern const struct experiment experiments[];
extern const unsigned n_experiments;

const struct experiment *experiment_find(const char *name); /* NULL */

#define CELLS_MAX    512 /* of one experiment */
#define VARIANTS_MAX 8

/* Writes the cells and returns how many. */
unsigned experiment_cells(const struct experiment *e, bool quick, struct cell ret_cells[CELLS_MAX]);
enum rig_kind experiment_rig(const struct experiment *e, const struct cell *cell, unsigned variant);
bool experiment_applies(const struct experiment *e, const struct cell *cell, unsigned variant);
/* Whether two variants or more can be measured with a Linux guest. */
bool experiment_has_linux(const struct experiment *e);
/* The cell's own headline where the column says so. */
enum metric column_metric(const struct column *column, const struct cell *cell);
