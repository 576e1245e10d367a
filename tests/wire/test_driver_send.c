/* Packets from many threads through one queue. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "drv_rig.h"
#include "scale.h"
#include "test.h"

#define SEC     NSEC_PER_SEC
#define THREADS 4

TEST(driver_send, a_packet_is_copied_and_sent_by_the_owner)
{
        struct rig r;
        struct sd_frame f;
        struct vw_net_hdr hdr = { 0 };
        uint8_t a[40], b[30];
        struct iovec iov[2] = {
                {a,  sizeof(a)},
                { b, sizeof(b)}
        };

        memset(a, 1, sizeof(a));
        memset(b, 2, sizeof(b));
        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, iov, 2, NULL), 0);
        memset(a, 9, sizeof(a));
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 0);
        EXPECT(vw_driver_arm(r.drv, 0)); /* it is work */
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 1);
        EXPECT_EQ(f.len, 70);
        EXPECT_EQ(f.bytes[0], 1);
        EXPECT_EQ(f.bytes[69], 2);
        EXPECT_EQ(r.done, 0); /* it has no cookie */
        iov[0].iov_len = 13;
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, iov, 1, NULL), -EMSGSIZE);
        vw_driver_disconnect(r.drv);
        iov[0].iov_len = 40;
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, iov, 1, NULL), -ENETDOWN);
        rig_end(&r);
}

static unsigned take_all_bufs(struct rig *r)
{
        unsigned n = 0;

        while (vw_driver_buf_get(r->drv, 0))
                n++;
        return n;
}

TEST(driver_send, a_packet_without_a_cookie_puts_its_buffer_back)
{
        struct rig r;
        struct sd_frame f;
        struct iovec iov;
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1 };
        uint8_t *buf;

        rig_init(&r);
        rig_start(&r);
        buf = vw_driver_buf_get(r.drv, 0);
        iov = (struct iovec){ buf, 64 };
        memset(buf, 7, 64);
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        take_all_bufs(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(sd_take(&r.dev, 0, 1, &f), 1);
        EXPECT(!vw_driver_buf_get(r.drv, 0)); /* the device may still read it */
        EXPECT_EQ(f.len, 64);
        EXPECT_EQ(f.bytes[63], 7);
        sd_give_back(&r.dev, 1, 1, 0);
        rig_poll(&r, 64, 2 * SEC);
        EXPECT(vw_driver_buf_get(r.drv, 0) == buf);
        EXPECT_EQ(r.done, 0);

        iov.iov_len = 13; /* dropped, and done at once */
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        EXPECT_EQ(rig_drops(&r, 1, VW_DROP_SHORT), 1);
        EXPECT(vw_driver_buf_get(r.drv, 0) == buf);

        iov.iov_len = 64; /* the device leaves with it */
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        vw_driver_disconnect(r.drv);
        EXPECT(vw_driver_buf_get(r.drv, 0) == buf);
        EXPECT_EQ(r.done, 0);
        rig_end(&r);
}

TEST(driver_send, a_packet_without_a_cookie_lies_in_one_transmit_buffer)
{
        struct rig r;
        struct iovec iov[2];
        struct vw_tx_pkt pkt = { .iov = iov, .n_iov = 1 };

        rig_init(&r);
        r.config.tx_memory = 4096;
        rig_start(&r);
        iov[0] = (struct iovec){ vw_driver_alloc(r.drv, 0, 64, 64), 64 };
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        iov[0] = (struct iovec){ vw_driver_buf_get(r.drv, 0), 64 };
        iov[1] = (struct iovec){ vw_driver_buf_get(r.drv, 0), 64 };
        pkt.n_iov = 2;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), -EINVAL);
        iov[1].iov_base = (uint8_t *)iov[0].iov_base + 64;
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, &pkt, 1, false), 1);
        rig_end(&r);
}

TEST(driver_send, has_a_bound)
{
        struct rig r;
        struct vw_net_hdr hdr = { 0 };
        uint8_t frame[60] = { 0 };
        struct iovec iov = { frame, sizeof(frame) };
        unsigned n = 0;

        rig_init(&r);
        rig_start(&r);
        while (vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL) == 0)
                n++;
        EXPECT_EQ(n, TX_CELLS);
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL), -EAGAIN);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL), -EAGAIN); /* the device has them now */
        r.wakes = 0;                                                       /* those of the ring */
        EXPECT_EQ(sd_consume(&r.dev, 0), TX_CELLS);
        rig_poll(&r, 64, SEC);
        EXPECT(r.wakes >= 1); /* who was turned away is told */
        r.wakes = 0;
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL), 0);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.wakes, 0); /* once */
        while (vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL) == 0)
                n++;
        vw_driver_disconnect(r.drv); /* what was not offered yet is counted */
        EXPECT_EQ(r.wakes, 1);       /* they need not wait any more */
        EXPECT_EQ(rig_drops(&r, 1, VW_DROP_DISABLED), n - TX_CELLS + 1); /* and one with the device */
        rig_end(&r);
}

TEST(driver_send, wakes_an_owner_that_sleeps)
{
        struct rig r;
        struct vw_net_hdr hdr = { 0 };
        uint8_t frame[60] = { 0 };
        struct iovec iov = { frame, sizeof(frame) };

        rig_init(&r);
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, NULL), 0);
        EXPECT_EQ(vw_driver_woken(r.drv, 0), VW_WAIT_QUEUE);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        rig_end(&r);
}

TEST(driver_send, what_the_features_forbid_is_dropped_and_its_flow_discharged)
{
        struct rig r;
        struct vw_net_hdr hdr = { .flags = VW_HDR_F_NEEDS_CSUM, .csum_start = 60 };
        uint8_t frame[60] = { 0 };
        struct iovec iov = { frame, sizeof(frame) };
        struct vw_flow *f;

        rig_init(&r);
        rig_start(&r);
        f = vw_flow_open(r.drv, 0, 50, &r);
        EXPECT_EQ(vw_flow_ctx(f), &r);
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, f), 0);
        EXPECT_EQ(vw_driver_send(r.drv, 0, &hdr, &iov, 1, f), -EAGAIN);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_drops(&r, 1, VW_DROP_BAD_CSUM), 1);
        EXPECT_EQ(vw_flow_inflight(f), 0);
        EXPECT_EQ(r.flow_wakes, 1);
        vw_flow_close(f);
        rig_end(&r);
}

/* ---- threads ---- */

struct sender {
        struct rig *r;
        pthread_t thread;
        uint32_t id, count;
        struct vw_flow *flow;
        unsigned refused; /* atomic: a refusal waits for its wake-up */
        uint64_t refusals, wakes;
};

static void *send_all(void *arg)
{
        struct sender *s = arg;
        struct vw_net_hdr hdr = { 0 };
        uint8_t frame[60] = { 0 };
        struct iovec iov = { frame, sizeof(frame) };

        for (uint32_t i = 0; i < s->count;) {
                memcpy(frame + 14, &s->id, 4);
                memcpy(frame + 18, &i, 4);
                if (vw_driver_send(s->r->drv, 0, &hdr, &iov, 1, s->flow) == 0)
                        i++;
                else
                        sched_yield();
        }
        return NULL;
}

/* T-TX-01: the tx ring is reaped by tx polls and by rx polls, and each packet arrives once, in its sender's order */
TEST(driver_send, four_threads_share_a_queue)
{
        struct rig r;
        struct sender s[THREADS];
        uint32_t next[THREADS] = { 0 };
        uint64_t total = 0, count = test_scale(100000, 10000000) / THREADS;
        uint64_t until = clock_now() + test_scale(60, 600) * SEC;
        struct sd_frame *f = calloc(256, sizeof(*f));

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < THREADS; i++) {
                s[i] = (struct sender){ .r = &r, .id = i, .count = (uint32_t)count };
                EXPECT_EQ(pthread_create(&s[i].thread, NULL, send_all, &s[i]), 0);
        }
        while (total < count * THREADS && clock_now() < until) {
                int n = sd_take(&r.dev, 0, 256, f);

                for (int i = 0; i < n; i++) {
                        uint32_t id, seq;

                        memcpy(&id, f[i].bytes + 14, 4);
                        memcpy(&seq, f[i].bytes + 18, 4);
                        EXPECT(id < THREADS);
                        EXPECT_EQ(seq, next[id]++);
                }
                total += (uint64_t)n;
                sd_give_back(&r.dev, 1, (unsigned)n, 0);
                sd_call(&r.dev, 1);
                vw_driver_wait(r.drv, 0, n ? 0 : clock_now() + NSEC_PER_MSEC);
                vw_driver_poll(r.drv, 0, 64);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(s[i].thread, NULL);
        vw_driver_poll(r.drv, 0, 64);
        EXPECT_EQ(total, count * THREADS);
        EXPECT_EQ(rig_count(&r, 1, VW_C_packets), total);
        EXPECT_EQ(rig_all_drops(&r, 1), 0);
        EXPECT_EQ(r.drv->pairs[0].tx.inflight, 0);
        free(f);
        rig_end(&r);
}

/* ---- refusals and wake-ups ---- */

static void on_flow_wake(void *ctx, unsigned pair, struct vw_flow *flow)
{
        struct sender *s = vw_flow_ctx(flow);

        (void)ctx;
        (void)pair;
        s->wakes++;
        __atomic_store_n(&s->refused, 0, __ATOMIC_RELEASE);
}

/* Sleeps after a refusal until the wake-up: one that is lost hangs it. */
static void *send_and_wait(void *arg)
{
        struct sender *s = arg;
        struct vw_net_hdr hdr = { 0 };
        uint8_t frame[1000] = { 0 };
        struct iovec iov = { frame, sizeof(frame) };
        uint64_t until = clock_now() + test_scale(60, 600) * SEC;

        for (uint32_t i = 0; i < s->count && clock_now() < until;) {
                __atomic_store_n(&s->refused, 1, __ATOMIC_RELAXED);
                if (vw_driver_send(s->r->drv, 0, &hdr, &iov, 1, s->flow) == 0) {
                        __atomic_store_n(&s->refused, 0, __ATOMIC_RELAXED);
                        i++;
                        continue;
                }
                s->refusals++;
                while (__atomic_load_n(&s->refused, __ATOMIC_ACQUIRE) && clock_now() < until)
                        sched_yield();
        }
        return NULL;
}

/* T-TSQ-02 */
TEST(driver_send, a_refused_flow_gets_its_one_wake_up)
{
        struct rig r;
        struct sender s = { .r = &r, .count = (uint32_t)test_scale(5000, 1000000) };
        uint64_t total = 0, until = clock_now() + test_scale(60, 600) * SEC;

        rig_init(&r);
        r.ops.flow_wake = on_flow_wake;
        rig_start(&r);
        s.flow = vw_flow_open(r.drv, 0, 2500, &s); /* three packets */
        EXPECT_EQ(pthread_create(&s.thread, NULL, send_and_wait, &s), 0);
        while (total < s.count && clock_now() < until) {
                int n = sd_take(&r.dev, 0, 256, NULL);

                total += (uint64_t)n;
                sd_give_back(&r.dev, 1, (unsigned)n, 0);
                vw_driver_poll(r.drv, 0, 64);
        }
        pthread_join(s.thread, NULL);
        vw_driver_poll(r.drv, 0, 64);
        EXPECT_EQ(total, s.count);
        EXPECT(s.refusals > 0);
        EXPECT_EQ(s.wakes, s.refusals); /* one for each period: this sender refuses once in one */
        vw_flow_close(s.flow);
        rig_end(&r);
}
