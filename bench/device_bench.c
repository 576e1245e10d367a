/* What the device's transmit and receive cost, without threads and notifications: the packet path from the ring to a port that
 * does nothing (null, gen) and back.  bench/path.h says how it is called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/queue.h"
#include "path.h"
#include "wire.h"

#define SLOT  2048
#define SLOTS (WIRE_BUF_BYTES / SLOT)

static struct bench {
        struct wire w;
        struct vw_port *port;
        struct vw_device dev;
        struct dev_worker worker;
        struct dev_lane lane;
        struct dev_queue q;
        bool rx;
        uint32_t len;
        uint64_t offered;
} bench;

/* The driver: takes back a burst, offers as many as there is room for. */
static unsigned drive(void)
{
        struct bench *b = &bench;
        struct vq_used used[DEV_BURST];
        int got = vq_driver_reap(&b->w.drv, used, DEV_BURST);

        check(got >= 0);
        for (unsigned i = 0; i < DEV_BURST; i++, b->offered++) {
                struct vq_piece piece = { wire_gpa(&b->w, b->offered % SLOTS * SLOT),
                                          b->rx ? SLOT : b->len + 12 };

                if (vq_driver_add(&b->w.drv, &piece, !b->rx, b->rx, b) < 0)
                        break;
        }
        vq_driver_publish(&b->w.drv);
        return (unsigned)got;
}

static void serve(void)
{
        struct dev_run run = { .max = DEV_BURST };

        check(bench.q.run(&bench.q, &run) == 0);
        vq_device_call_needed(&bench.q.vq);
}

static void start(bool rx, unsigned size, uint32_t len)
{
        struct bench *b = &bench;
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
        b->q.run = rx ? dev_rx_run : dev_tx_run;
        b->q.pool = b->w.pool;
        if (rx)
                check(rx_window_init(&b->q.window, size) == 0);
        vq_driver_call_disable(&b->w.drv);
        vq_device_kick_disable(&b->q.vq);
        for (unsigned i = 0; i < size / DEV_BURST; i++)
                drive();
}

static void finish(void)
{
        struct bench *b = &bench;

        rx_window_done(&b->q.window);
        free(b->worker.frame);
        vw_port_close(b->port);
        wire_free(&b->w);
}

int main(int argc, char **argv)
{
        static const struct path path = { "device", start, serve, drive, finish };

        return path_main(&path, argc, argv);
}
