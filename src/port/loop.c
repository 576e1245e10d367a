/* The loop port: every frame comes back on its lane with source and destination address swapped, and with the header it
 * had, so that an offload that was asked for is asked of the receiver.  Frames are copied once, into a ring of bytes; a full
 * ring stops the sender and loses nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/iov.h"
#include "port/kinds.h"
#include "port/recring.h"

#define LOOP_RING_SIZE (1u << 20) /* bytes a lane: 15 of the longest frames, 10,000 of the shortest */
#define MAC_LEN        6

struct loop {
        unsigned n_lanes;
        struct recring lanes[]; /* each its worker's alone */
};

static void loop_close(void *self)
{
        struct loop *loop = self;

        for (unsigned i = 0; i < loop->n_lanes; i++)
                free(loop->lanes[i].bytes);
        free(loop);
}

static void loop_info(void *self, struct vw_port_info *ret_info)
{
        (void)self;
        *ret_info = (struct vw_port_info){
                .kind = "loop",
                .link_up = true,
                .tx_offloads = VW_OFFLOAD_ALL,
                .rx_offloads = VW_OFFLOAD_ALL,
        };
}

static void swap_macs(uint8_t *frame, uint32_t len)
{
        uint8_t dst[MAC_LEN];

        if (len < 2 * MAC_LEN)
                return;
        memcpy(dst, frame, MAC_LEN);
        memcpy(frame, frame + MAC_LEN, MAC_LEN);
        memcpy(frame + MAC_LEN, dst, MAC_LEN);
}

static int loop_tx(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result)
{
        struct recring *ring = &((struct loop *)self)->lanes[lane];
        unsigned i;

        recring_rewind(ring);
        for (i = 0; i < n; i++) {
                struct vw_net_hdr *hdr;
                uint8_t *frame;

                if (pkts[i].len > VW_FRAME_MAX) {
                        result[i] = -EMSGSIZE;
                        continue;
                }
                hdr = recring_reserve(ring, (uint32_t)sizeof(*hdr) + pkts[i].len);
                if (!hdr)
                        break;
                *hdr = pkts[i].hdr;
                frame = (uint8_t *)(hdr + 1);
                iov_to_buf(pkts[i].iov, pkts[i].n_iov, 0, frame, pkts[i].len);
                swap_macs(frame, pkts[i].len);
                recring_put(ring);
                result[i] = 0;
        }
        return (int)i;
}

static int loop_rx(void *self, unsigned lane, struct vw_pkt *pkt)
{
        struct recring *ring = &((struct loop *)self)->lanes[lane];
        struct vw_net_hdr *hdr;
        uint32_t len;

        hdr = recring_peek(ring, &len);
        if (!hdr)
                return 0;
        pkt->hdr = *hdr;
        pkt->len = len - (uint32_t)sizeof(*hdr);
        iov_from_buf(pkt->iov, pkt->n_iov, 0, hdr + 1, pkt->len);
        recring_take(ring);
        return 1;
}

static uint64_t loop_deadline(const void *self, unsigned lane)
{
        return recring_used(&((const struct loop *)self)->lanes[lane]) ? 0 : NEVER;
}

static const struct vw_port_ops loop_ops = {
        .close = loop_close,
        .info = loop_info,
        .tx = loop_tx,
        .rx = loop_rx,
        .deadline = loop_deadline,
};

int loop_open(const struct port_args *args, const struct vw_port_config *config,
              const struct vw_port_ops **ret_ops, void **ret_self, const char **ret_why)
{
        struct loop *loop = aligned_alloc(CACHE_LINE, sizeof(*loop) + config->pairs * sizeof(loop->lanes[0]));

        if (!loop)
                return port_refuse(ret_why, ENOMEM, args->spec, "no memory");
        memset(loop, 0, sizeof(*loop) + config->pairs * sizeof(loop->lanes[0]));
        loop->n_lanes = config->pairs;
        for (unsigned i = 0; i < loop->n_lanes; i++) {
                loop->lanes[i].size = LOOP_RING_SIZE;
                loop->lanes[i].bytes = malloc(LOOP_RING_SIZE);
                if (!loop->lanes[i].bytes) {
                        loop_close(loop);
                        return port_refuse(ret_why, ENOMEM, args->spec, "no memory");
                }
        }
        *ret_ops = &loop_ops;
        *ret_self = loop;
        return 0;
}
