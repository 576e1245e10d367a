/* What the device's transmit and receive cost, without threads and notifications: the packet path from the ring to a port that
 * does nothing (null, gen) and back, in one thread that plays the driver, too.
 *
 *      device_bench [packets]       ns a packet, the driver's half included
 *      device_bench --callgrind     the counted part for bench/ring_instructions.sh: the device alone
 *
 * Each line is key=value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/queue.h"
#include "wire.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

#define SLOT  2048
#define SLOTS (WIRE_BUF_BYTES / SLOT)

struct bench {
        struct wire w;
        struct vw_port *port;
        struct vw_device dev;
        struct dev_worker worker;
        struct dev_lane lane;
        struct dev_queue q;
        bool rx;
        uint32_t len;
        uint64_t offered, reaped, served;
};

static void start(struct bench *b, bool rx, unsigned size, uint32_t len)
{
        const char *why = NULL;
        char spec[32];

        memset(b, 0, sizeof(*b));
        b->w = wire_new(size, F(event_idx) | F(mrg_rxbuf) | F(csum));
        b->rx = rx;
        b->len = len;
        snprintf(spec, sizeof(spec), rx ? "gen:size=%u" : "null", len);
        check(vw_port_open(spec, &(struct vw_port_config){ .pairs = 1 }, &b->port, &why) == 0);
        b->dev.port_tx_offloads = VW_OFFLOAD_ALL;
        b->worker.dev = &b->dev;
        b->worker.frame = malloc(DEV_FRAME_ROOM);
        b->lane = (struct dev_lane){ .port = b->port, .rx = &b->q, .fd = -1, .writable = true };
        b->q.dev = &b->dev;
        b->q.worker = &b->worker;
        b->q.lane = &b->lane;
        b->q.vq = b->w.dev;
        b->q.cfg = b->w.cfg;
        b->q.hdr_len = 12;
        b->q.mergeable = b->q.enabled = true;
        b->q.burst = DEV_BURST;
        b->q.pool = b->w.pool;
        if (rx)
                check(rx_window_init(&b->q.window, size) == 0);
        vq_driver_call_disable(&b->w.drv);
        vq_device_kick_disable(&b->q.vq);
}

static void finish(struct bench *b)
{
        rx_window_done(&b->q.window);
        free(b->worker.frame);
        vw_port_close(b->port);
        wire_free(&b->w);
}

/* The driver: takes back a burst, offers as many as there is room for. */
static void drive(struct bench *b)
{
        struct vq_used used[DEV_BURST];

        b->reaped += (unsigned)vq_driver_reap(&b->w.drv, used, DEV_BURST);
        for (unsigned i = 0; i < DEV_BURST; i++, b->offered++) {
                struct vq_piece piece = { wire_gpa(&b->w, b->offered % SLOTS * SLOT),
                                          b->rx ? SLOT : b->len + 12 };

                if (vq_driver_add(&b->w.drv, &piece, !b->rx, b->rx, b) < 0)
                        break;
        }
        vq_driver_publish(&b->w.drv);
}

static void serve(struct bench *b)
{
        struct dev_run run = { .max = DEV_BURST };

        check(b->q.run(&b->q, &run) == 0);
        b->served += run.packets;
        vq_device_call_needed(&b->q.vq);
}

static void measure(bool rx, unsigned size, uint32_t len, uint64_t packets)
{
        static struct bench b;
        uint64_t t;

        start(&b, rx, size, len);
        b.q.run = rx ? dev_rx_run : dev_tx_run;
        for (unsigned i = 0; i < size / DEV_BURST; i++)
                drive(&b);
        t = clock_now();
        while (b.reaped < packets) {
                serve(&b);
                drive(&b);
        }
        t = clock_now() - t;
        printf("bench=device dir=%s size=%u len=%u packets=%ju ns_per_packet=%.1f mpps=%.2f\n",
               rx ? "rx" : "tx", size, len, (uintmax_t)packets, (double)t / (double)packets,
               (double)packets * 1e3 / (double)t);
        fflush(stdout);
        finish(&b);
}

static void count(bool rx, unsigned size, uint32_t len, uint64_t packets)
{
        static struct bench b;
        char label[64];

        start(&b, rx, size, len);
        b.q.run = rx ? dev_rx_run : dev_tx_run;
        for (unsigned i = 0; i < size / DEV_BURST; i++)
                drive(&b);
        serve(&b);
        drive(&b);
        CALLGRIND_ZERO_STATS;
        for (uint64_t first = b.served; b.served - first < packets;) {
                CALLGRIND_TOGGLE_COLLECT;
                serve(&b);
                CALLGRIND_TOGGLE_COLLECT;
                drive(&b);
        }
        snprintf(label, sizeof(label), "half=device-path dir=%s size=%u len=%u packets=%ju", rx ? "rx" : "tx",
                 size, len, (uintmax_t)packets);
        CALLGRIND_DUMP_STATS_AT(label);
        finish(&b);
}

int main(int argc, char **argv)
{
        static const unsigned sizes[] = { 256, 32768 };
        static const uint32_t lens[] = { 64, 1500 };
        bool counting = argc > 1 && !strcmp(argv[1], "--callgrind");
        uint64_t packets = argc > 1 && !counting ? strtoull(argv[1], NULL, 0) : 2000000;

        for (unsigned rx = 0; rx < 2; rx++)
                for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                        for (unsigned k = 0; k < ARRAY_SIZE(lens); k++)
                                if (counting)
                                        count(rx, sizes[i], lens[k], 16 * DEV_BURST);
                                else
                                        measure(rx, sizes[i], lens[k], packets);
        return 0;
}
