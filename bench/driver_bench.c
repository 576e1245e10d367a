/* What `vwire driver` does for a packet, without threads and notifications: from a port that does nothing (gen, null) through the lane
 * and the driver's queues to the ring and back, in one thread that plays the device, too.
 *
 *      driver_bench [packets]       ns a packet, the device's half included
 *      driver_bench --callgrind     the counted part for bench/ring_instructions.sh: the driver's side alone
 *
 * Each line is key=value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/worker.h"
#include "base/clock.h"
#include "net/hdr.h"
#include "script_device.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

struct bench {
        struct sd dev;
        struct vw_driver *drv;
        struct vw_port *port;
        struct lane lane;
        bool rx;
        uint32_t len;
        uint64_t served;
};

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        (void)pair;
        return lane_to_port(&((struct bench *)ctx)->lane, pkts, n);
}

static void on_tx_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        (void)pair;
        lane_sent(&((struct bench *)ctx)->lane, cookies, n);
}

static void start(struct bench *b, bool rx, unsigned size, uint32_t len)
{
        static const struct vw_driver_ops ops = { .rx = on_rx, .tx_done = on_tx_done };
        struct vw_driver_config config = VW_DRIVER_CONFIG_INIT;
        const char *why = NULL;
        char spec[32];

        memset(b, 0, sizeof(*b));
        b->rx = rx;
        b->len = len;
        snprintf(spec, sizeof(spec), rx ? "null" : "gen:size=%u", len);
        check(vw_port_open(spec, &(struct vw_port_config){ .pairs = 1 }, &b->port, &why) == 0);
        config.ops = &ops;
        config.ctx = b;
        config.queue_size = size;
        config.tx_bufs = MIN(size, ATTACH_BUFS_MAX) + 2;
        config.offloads = VW_OFFLOAD_ALL;
        config.bql = false; /* it would hold back what a device does that is never late */
        check(vw_driver_new(&config, &b->drv, &why) == 0);
        lane_init(&b->lane, b->drv, b->port, 0);
        sd_init(&b->dev);
        check(sd_connect(&b->dev, b->drv, &why) == 0);
}

static void finish(struct bench *b)
{
        lane_done(&b->lane);
        vw_driver_disconnect(b->drv);
        vw_driver_leave(b->drv, 0);
        vw_driver_free(b->drv);
        sd_done(&b->dev);
        vw_port_close(b->port);
}

/* The device: takes a burst and gives it back. */
static unsigned serve(struct bench *b)
{
        struct sd_ring *r = &b->dev.ring[!b->rx];
        struct vw_net_hdr hdr = { .num_buffers = 1 };
        int n;

        r->pool.used = 0;
        n = vq_device_pop(&r->vq, &r->pool, r->held, VQ_BURST);
        check(n >= 0);
        for (int i = 0; i < n && b->rx; i++) {
                net_hdr_encode(&hdr, sizeof(struct virtio_net_hdr), r->held[i].iov[0].iov_base);
                r->held[i].written = (uint32_t)sizeof(struct virtio_net_hdr) + b->len;
        }
        vq_device_push(&r->vq, r->held, (unsigned)n);
        vq_device_publish(&r->vq);
        b->served += (unsigned)n;
        return (unsigned)n;
}

static void measure(bool rx, unsigned size, uint32_t len, uint64_t packets)
{
        static struct bench b;
        uint64_t t;

        start(&b, rx, size, len);
        t = clock_now();
        while (b.served < packets) {
                lane_turn(&b.lane);
                serve(&b);
        }
        t = clock_now() - t;
        printf("bench=driver dir=%s size=%u len=%u packets=%ju ns_per_packet=%.1f mpps=%.2f\n",
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
        for (unsigned i = 0; i < 4; i++) {
                lane_turn(&b.lane);
                serve(&b);
        }
        CALLGRIND_ZERO_STATS;
        for (uint64_t first = b.served; b.served - first < packets;) {
                CALLGRIND_TOGGLE_COLLECT;
                lane_turn(&b.lane);
                CALLGRIND_TOGGLE_COLLECT;
                serve(&b);
        }
        snprintf(label, sizeof(label), "half=driver-path dir=%s size=%u len=%u packets=%ju", rx ? "rx" : "tx",
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
                                        count(rx, sizes[i], lens[k], 64 * VQ_BURST);
                                else
                                        measure(rx, sizes[i], lens[k], packets);
        return 0;
}
