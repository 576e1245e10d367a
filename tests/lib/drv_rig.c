#include "drv_rig.h"

#include <stdlib.h>

#include "base/iov.h"
#include "mock_vhost.h"
#include "test.h"

static void check_bytes(const struct vw_rx_pkt *pkt)
{
        static uint8_t flat[VW_FRAME_MAX];

        EXPECT_EQ(iov_to_buf(pkt->iov, pkt->n_iov, 0, flat, sizeof(flat)), pkt->len);
        for (uint32_t i = 0; i < pkt->len; i++)
                EXPECT_EQ(flat[i], (uint8_t)(flat[0] + i));
}

static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct rig *r = ctx;

        n = MIN(n, r->takes);
        r->calls_rx++;
        for (unsigned i = 0; i < n; i++) {
                struct rig_pkt *k = &r->pkts[r->received++ % RIG_PKTS];

                *k = (struct rig_pkt){ pkts[i].hdr, pkts[i].len, pkts[i].truesize, pkts[i].n_iov, { 0 } };
                iov_to_buf(pkts[i].iov, pkts[i].n_iov, 0, k->bytes, sizeof(k->bytes));
                EXPECT_EQ(iov_length(pkts[i].iov, pkts[i].n_iov), pkts[i].len);
                if (r->checks)
                        check_bytes(&pkts[i]);
                r->rx_bytes += pkts[i].len;
                r->rx_truesize += pkts[i].truesize;
                if (r->keeps) {
                        struct vw_tx_pkt out = { .iov = pkts[i].iov, .n_iov = pkts[i].n_iov };

                        out.cookie = vw_driver_rx_keep(r->drv, pair, &pkts[i]);
                        EXPECT(out.cookie);
                        EXPECT_EQ(vw_driver_xmit(r->drv, pair, &out, 1, true), 1);
                        r->kept++;
                }
        }
        return n;
}

static void on_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        struct rig *r = ctx;

        r->done += n;
        for (unsigned i = 0; i < n; i++) {
                if (r->kept) {
                        r->kept--;
                        vw_driver_rx_put(r->drv, pair, cookies[i]);
                        continue;
                }
                vw_driver_buf_put(r->drv, pair, cookies[i]);
                if (r->resends)
                        rig_send(r, 60);
        }
}

static void on_wake(void *ctx, unsigned pair)
{
        (void)pair;
        ((struct rig *)ctx)->wakes++;
}

static void on_flow_wake(void *ctx, unsigned pair, struct vw_flow *flow)
{
        (void)pair;
        (void)flow;
        ((struct rig *)ctx)->flow_wakes++;
}

static void on_changed(void *ctx)
{
        ((struct rig *)ctx)->changes++;
}

void rig_init(struct rig *r)
{
        *r = (struct rig){
                .config = VW_DRIVER_CONFIG_INIT,
                .ops = {.rx = on_rx,
                        .tx_done = on_done,
                        .tx_wake = on_wake,
                        .flow_wake = on_flow_wake,
                        .changed = on_changed},
                .takes = UINT32_MAX,
                .fds = mock_count_fds(),
                .mappings = mock_count_mappings(),
        };
        r->config.tx_bufs = 512;
        r->config.bql = false;
        sd_init(&r->dev);
}

void rig_start(struct rig *r)
{
        const char *why = "";

        r->config.ops = &r->ops;
        r->config.ctx = r;
        if (!r->drv)
                EXPECT_EQ(vw_driver_new(&r->config, &r->drv, &why), 0);
        EXPECT_EQ(sd_connect(&r->dev, r->drv, &why), 0);
}

void rig_end(struct rig *r)
{
        vw_driver_disconnect(r->drv);
        for (unsigned i = 0; i < r->drv->n_pairs; i++) {
                const struct drv_pair *p = &r->drv->pairs[i];

                EXPECT_EQ(p->tx.inflight, 0);
                EXPECT_EQ(p->rx.slab.free_pages, p->rx.slab.n_pages);
        }
        vw_driver_free(r->drv);
        sd_done(&r->dev);
        EXPECT_EQ(mock_count_fds(), r->fds);
        EXPECT_EQ(mock_count_mappings(), r->mappings);
}

struct drv_pair *rig_pair(struct rig *r)
{
        return &r->drv->pairs[r->pair];
}

static void queue_stats(struct rig *r, unsigned queue, struct vw_queue_stats *ret_stats)
{
        struct vw_stats *s = malloc(sizeof(*s));

        EXPECT(s);
        vw_driver_stats(r->drv, s);
        for (unsigned i = 0; i < s->n_queues; i++)
                if (s->queues[i].index == queue)
                        *ret_stats = s->queues[i];
        free(s);
}

uint64_t rig_count(struct rig *r, unsigned queue, enum vw_counter c)
{
        struct vw_queue_stats q = { 0 };

        queue_stats(r, queue, &q);
        return q.counters[c];
}

uint64_t rig_drops(struct rig *r, unsigned queue, enum vw_drop d)
{
        struct vw_queue_stats q = { 0 };

        queue_stats(r, queue, &q);
        return q.drops[d];
}

uint64_t rig_all_drops(struct rig *r, unsigned queue)
{
        struct vw_queue_stats q = { 0 };
        uint64_t sum = 0;

        queue_stats(r, queue, &q);
        for (unsigned i = 0; i < VW_DROP_COUNT; i++)
                sum += q.drops[i];
        return sum;
}

int rig_send_pkt(struct rig *r, uint32_t len, bool more, struct vw_flow *flow)
{
        struct iovec iov = { vw_driver_buf_get(r->drv, r->pair), len };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1, .cookie = iov.iov_base, .flow = flow };
        int n;

        if (!iov.iov_base)
                return -ENOBUFS;
        for (uint32_t i = 0; i < MIN(len, 128u); i++)
                ((uint8_t *)iov.iov_base)[i] = (uint8_t)(i + r->sent);
        n = vw_driver_xmit(r->drv, r->pair, &pkt, 1, more);
        if (n == 1)
                r->sent++;
        else
                vw_driver_buf_put(r->drv, r->pair, iov.iov_base);
        return n;
}

int rig_send(struct rig *r, uint32_t len)
{
        return rig_send_pkt(r, len, false, NULL);
}

bool rig_arrive(struct rig *r, uint32_t len, uint8_t seed)
{
        static uint8_t frame[VW_FRAME_MAX];

        for (uint32_t i = 0; i < len; i++)
                frame[i] = (uint8_t)(i + seed);
        return sd_receive(&r->dev, r->pair, NULL, frame, len);
}

const struct rig_pkt *rig_last(const struct rig *r)
{
        return &r->pkts[(r->received - 1) % RIG_PKTS];
}

int rig_poll(struct rig *r, unsigned budget, uint64_t now)
{
        drv_claim(rig_pair(r));
        return drv_napi_poll(rig_pair(r), budget, now);
}
