/* What `vwire driver` does for a packet, without threads and notifications: from a port that does nothing (gen, null) through the lane
 * and the driver's queues to the ring and back.  bench/path.h says how it is called. */
#include <stdio.h>
#include <string.h>

#include "attach/worker.h"
#include "net/hdr.h"
#include "path.h"
#include "script_device.h"

static struct bench {
        struct sd dev;
        struct vw_driver *drv;
        struct attach_config attach;
        struct vw_port *port;
        struct lane lane;
        bool rx;
        uint32_t len;
} bench;

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        (void)ctx, (void)pair;
        return lane_to_port(&bench.lane, pkts, n);
}

static void start(bool rx, unsigned size, uint32_t len)
{
        static const struct vw_driver_ops ops = { .rx = on_rx };
        struct vw_driver_config config = VW_DRIVER_CONFIG_INIT;
        struct bench *b = &bench;
        const char *why = NULL;
        char spec[32];

        memset(b, 0, sizeof(*b));
        b->rx = rx;
        b->len = len;
        snprintf(spec, sizeof(spec), rx ? "null" : "gen:size=%u", len);
        check(vw_port_open(spec, &(struct vw_port_config){ .pairs = 1 }, &b->port, &why) == 0);
        config.ops = &ops;
        config.queue_size = size;
        config.tx_bufs = MIN(size, ATTACH_BUFS_MAX) + LANE_BATCH + 1;
        config.offloads = VW_OFFLOAD_ALL;
        config.bql = false; /* it would hold back what a device does that is never late */
        check(vw_driver_new(&config, &b->drv, &why) == 0);
        b->attach.port = b->port;
        lane_init(&b->lane, b->drv, &b->attach, 0);
        sd_init(&b->dev);
        check(sd_connect(&b->dev, b->drv, &why) == 0);
}

static void finish(void)
{
        struct bench *b = &bench;

        lane_done(&b->lane);
        vw_driver_disconnect(b->drv);
        vw_driver_leave(b->drv, 0);
        vw_driver_free(b->drv);
        sd_done(&b->dev);
        vw_port_close(b->port);
}

/* The device: takes a burst and gives it back. */
static unsigned serve(void)
{
        struct bench *b = &bench;
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
        return (unsigned)n;
}

static void turn(void)
{
        lane_turn(&bench.lane);
}

int main(int argc, char **argv)
{
        static const struct path path = { "driver", start, turn, serve, finish };

        return path_main(&path, argc, argv);
}
