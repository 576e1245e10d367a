/* The driver against a device that lies on its rings, in its features and beyond its buffers: that queue breaks, or the
 * device object does; nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drv_rig.h"
#include "test.h"

#define SEC NSEC_PER_SEC

/* Ring 1 of pair 0 is broken and stays so; pair 1 goes on; the next connection heals it. */
static void expect_broken_tx(struct rig *r, const char *reason)
{
        struct vw_stats *s = calloc(1, sizeof(*s));
        uint64_t sent = r->sent;

        rig_poll(r, 64, SEC);
        EXPECT_EQ(rig_send(r, 60), -EPROTO);
        EXPECT(!vw_driver_tx_ready(r->drv, 0));
        vw_driver_stats(r->drv, s);
        EXPECT_STR(s->queues[1].broken, reason);
        EXPECT_EQ(s->queues[0].broken, NULL);
        EXPECT_EQ(s->queues[3].broken, NULL);
        free(s);

        EXPECT(rig_arrive(r, 100, 0)); /* its sister receives, */
        EXPECT_EQ(rig_poll(r, 64, SEC), 1);
        r->pair = 1; /* and the other pair does all */
        EXPECT_EQ(rig_send(r, 60), 1);
        EXPECT(rig_arrive(r, 100, 0));
        EXPECT_EQ(rig_poll(r, 64, SEC), 1);
        r->pair = 0;

        vw_driver_disconnect(r->drv);
        EXPECT_EQ(r->done, r->sent); /* everything came back once */
        EXPECT_EQ(r->sent, sent + 1);
        rig_start(r);
        EXPECT_EQ(rig_send(r, 60), 1);
        EXPECT_EQ(sd_consume(&r->dev, 0), 1);
        rig_poll(r, 64, SEC);
        EXPECT_EQ(r->done, r->sent);
        rig_end(r);
}

static void start_with_packets(struct rig *r, unsigned n)
{
        rig_init(r);
        r->config.pairs = 2;
        r->config.queue_size = 16;
        rig_start(r);
        for (unsigned i = 0; i < n; i++)
                EXPECT_EQ(rig_send(r, 60), 1);
}

/* T-TX-16, hostile M01 */
TEST(hostile_driver, used_id_beyond_the_ring_breaks_that_queue)
{
        static const uint32_t ids[] = { 16, 0xffff, 0x10000, UINT32_MAX };

        for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
                struct rig r;

                start_with_packets(&r, 5);
                sd_raw_used(&r.dev, 1, 0, ids[i], 0);
                sd_raw_used_idx(&r.dev, 1, 1);
                expect_broken_tx(&r, "bad-id");
        }
}

/* T-TX-16, hostile M01 */
TEST(hostile_driver, used_id_that_was_never_posted_breaks_that_queue)
{
        struct rig r;

        start_with_packets(&r, 5);
        sd_raw_used(&r.dev, 1, 0, 9, 0);
        sd_raw_used_idx(&r.dev, 1, 1);
        expect_broken_tx(&r, "bad-id");
}

/* T-TX-16, hostile M02 */
TEST(hostile_driver, used_id_that_comes_twice_breaks_that_queue)
{
        struct rig r;

        start_with_packets(&r, 5);
        sd_raw_used(&r.dev, 1, 0, 2, 0);
        sd_raw_used(&r.dev, 1, 1, 2, 0);
        sd_raw_used_idx(&r.dev, 1, 2);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 1); /* the first time it was true */
        expect_broken_tx(&r, "bad-id");
}

/* hostile M03: nobody has polled since the lie */
TEST(hostile_driver, a_lie_that_sending_itself_finds_ends_the_sending)
{
        struct rig r;

        rig_init(&r);
        r.config.pairs = 2;
        r.config.queue_size = 16;
        r.config.tx_mode = VW_TX_ORPHAN; /* reaps when it sends */
        rig_start(&r);
        for (unsigned i = 0; i < 5; i++)
                EXPECT_EQ(rig_send(&r, 60), 1);
        sd_raw_used_idx(&r.dev, 1, 6);
        EXPECT_EQ(rig_send(&r, 60), -EPROTO);
        expect_broken_tx(&r, "bad-used");
}

/* hostile M01: the ring is full, so the burst looks for completions; a few are true and make room, then comes the lie */
TEST(hostile_driver, a_lie_that_a_burst_finds_on_its_way_ends_the_burst)
{
        struct vw_tx_pkt pkts[20];
        struct iovec iov[20];
        struct rig r;
        int taken;

        start_with_packets(&r, 8);
        for (uint16_t i = 0; i < 8; i++)
                sd_raw_used(&r.dev, 1, i, i < 7 ? i : 999, 0);
        sd_raw_used_idx(&r.dev, 1, 8);
        for (unsigned i = 0; i < ARRAY_SIZE(pkts); i++) {
                iov[i] = (struct iovec){ vw_driver_buf_get(r.drv, 0), 60 };
                EXPECT(iov[i].iov_base);
                memset(iov[i].iov_base, 0, 60);
                pkts[i] = (struct vw_tx_pkt){ .iov = &iov[i], .n_iov = 1, .cookie = iov[i].iov_base };
        }
        taken = vw_driver_xmit(r.drv, 0, pkts, ARRAY_SIZE(pkts), false);
        EXPECT(taken > 0 && taken < (int)ARRAY_SIZE(pkts));
        r.sent += (unsigned)taken;
        for (unsigned i = (unsigned)taken; i < ARRAY_SIZE(pkts); i++)
                vw_driver_buf_put(r.drv, 0, iov[i].iov_base);
        expect_broken_tx(&r, "bad-id");
}

/* T-TX-17, hostile M03 */
TEST(hostile_driver, used_index_that_jumps_or_goes_back_breaks_that_queue)
{
        static const uint16_t idx[] = { 6, 0x8000, 0xffff };

        for (unsigned i = 0; i < ARRAY_SIZE(idx); i++) {
                struct rig r;

                start_with_packets(&r, 5);
                sd_raw_used_idx(&r.dev, 1, idx[i]);
                expect_broken_tx(&r, "bad-used");
        }
}

/* hostile M01, M03 on the receive side */
TEST(hostile_driver, lies_on_the_rx_ring_break_that_queue)
{
        for (unsigned i = 0; i < 3; i++) {
                struct rig r;

                start_with_packets(&r, 1);
                sd_raw_used(&r.dev, 0, 0, i == 0 ? 16 : 3, 100);
                sd_raw_used(&r.dev, 0, 1, 3, 100);
                sd_raw_used_idx(&r.dev, 0, i == 2 ? 17 : 2);
                EXPECT_EQ(rig_poll(&r, 64, SEC), i == 1 ? 1 : -EPROTO);
                EXPECT_EQ(rig_poll(&r, 64, SEC), -EPROTO);
                EXPECT_EQ(sd_consume(&r.dev, 0), 1);
                EXPECT_EQ(rig_poll(&r, 64, SEC), -EPROTO);
                EXPECT_EQ(r.done, 1);             /* tx goes on */
                EXPECT(!vw_driver_arm(r.drv, 0)); /* and nobody spins */
                vw_driver_woken(r.drv, 0);
                vw_driver_disconnect(r.drv);
                rig_start(&r);
                EXPECT(rig_arrive(&r, 100, 0));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                rig_end(&r);
        }
}

/* hostile M01 on the control queue */
TEST(hostile_driver, lies_on_the_control_queue_end_the_connection)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        sd_raw_used(&r.dev, 2, 0, 63, 0);
        sd_raw_used_idx(&r.dev, 2, 1);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), -EPROTO);
        EXPECT_EQ(vw_driver_deadline(r.drv), 0);
        EXPECT_EQ(vw_driver_dispatch(r.drv), -ENOTCONN);
        EXPECT_EQ(rig_send(&r, 60), -ENETDOWN);
        rig_start(&r);
        EXPECT_EQ(vw_driver_set_promisc(r.drv, true), 0);
        rig_end(&r);
}

/* T-RX-32, hostile M10 */
TEST(hostile_driver, a_rewritten_descriptor_table_changes_nothing)
{
        struct rig r;

        rig_init(&r);
        r.dev.features &= ~F(indirect_desc);
        rig_start(&r);
        for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 0; i < 8; i++)
                        EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT(rig_arrive(&r, 5000, 0));
                EXPECT_EQ(sd_consume(&r.dev, 0), 8);
                sd_lock(&r.dev);
                for (unsigned q = 0; q < 2; q++) {
                        memset(r.dev.ring[q].desc, 0xff, 256 * sizeof(struct vring_desc));
                        memset(r.dev.ring[q].avail->ring, 0xff, 256 * sizeof(uint16_t));
                }
                sd_unlock(&r.dev);
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                EXPECT_EQ(r.done, r.sent);
                vw_driver_disconnect(r.drv); /* what was scribbled over is of no use to the device either */
                rig_start(&r);
        }
        rig_end(&r);
}

/* hostile M14 */
TEST(hostile_driver, an_interrupt_storm_is_answered_by_the_clock)
{
        struct rig r;
        struct drv_pair *p;
        unsigned woken = 0;

        rig_init(&r);
        rig_start(&r);
        p = rig_pair(&r);
        rig_poll(&r, 64, SEC);
        for (unsigned i = 0; i < 2000; i++) {
                uint64_t now = SEC + i * 1000;

                sd_call_anyway(&r.dev, 0);
                EXPECT(!drv_napi_arm(p, now));
                woken += vw_driver_woken(r.drv, 0) & VW_WAIT_QUEUE;
                rig_poll(&r, 64, now);
        }
        EXPECT_EQ(woken, 1000); /* then it is not listened to */
        EXPECT_EQ(rig_count(&r, 0, VW_C_spurious_interrupts), 1000);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 1000);
        EXPECT_EQ(drv_napi_deadline(p), p->napi.now + NSEC_PER_MSEC);
        EXPECT(rig_arrive(&r, 100, 0)); /* frames are not lost on it */
        EXPECT_EQ(rig_poll(&r, 64, SEC + 3 * NSEC_PER_MSEC), 1);
        EXPECT(!drv_napi_arm(p, 2 * SEC)); /* it is over: listen again */
        EXPECT(vw_driver_woken(r.drv, 0) & VW_WAIT_QUEUE);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 2000);
        rig_end(&r);
}

/* hostile M20 */
TEST(hostile_driver, acknowledges_only_what_is_known_and_consistent)
{
        static const uint64_t offers[] = {
                UINT64_MAX,
                F(protocol_features) | F(version_1) | F(mq) | F(ctrl_rx) | F(host_tso4) | F(guest_tso4) |
                        F(guest_ecn),
                F(protocol_features) | F(mrg_rxbuf) | F(ring_packed) | F(in_order), /* VERSION_1 absent */
                F(protocol_features),
                0x5555555555555555 | F(protocol_features),
                0xaaaaaaaaaaaaaaaa | F(protocol_features),
        };

        for (unsigned i = 0; i < ARRAY_SIZE(offers); i++) {
                struct rig r;

                rig_init(&r);
                r.config.offloads = 0xffffffff;
                r.dev.features = offers[i];
                rig_start(&r);
                EXPECT_EQ(r.dev.acked & ~offers[i], 0);
                EXPECT_EQ(r.dev.acked & ~features_driver(), 0);
                EXPECT_EQ(features_closed(r.dev.acked), r.dev.acked);
                EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT(rig_arrive(&r, 100, 0));
                EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
                rig_end(&r);
        }
}

/* hostile M25 */
TEST(hostile_driver, writes_beyond_the_buffers_are_noticed)
{
        struct rig r;
        uint8_t *after;

        rig_init(&r);
        rig_start(&r);
        EXPECT(drv_guard_check(r.drv));
        after = r.drv->pairs[0].rx.memory + r.drv->pairs[0].rx.memory_size;
        memset(after, 0, 1);
        EXPECT(!drv_guard_check(r.drv));
        EXPECT(drv_guard_check(r.drv)); /* repaired */
        memset(r.drv->pairs[0].rx.memory - 1, 0, 1);
        evloop_deadline(r.drv->loop, &r.drv->guard_watch, 0);
        EXPECT_EQ(vw_driver_dispatch(r.drv), -ENOTCONN);
        EXPECT_EQ(rig_send(&r, 60), -ENETDOWN);
        rig_end(&r);
}

/* hostile M25: what decides lies in private memory */
TEST(hostile_driver, nothing_of_ours_is_in_shared_memory)
{
        struct rig r;
        const struct drv_pair *p;

        rig_init(&r);
        rig_start(&r);
        p = rig_pair(&r);
        const void *ours[] = { r.drv,       r.drv->pairs, p->tx.slots, p->tx.bufs,         p->tx.cells,
                               p->rx.slots, p->rx.pages,  p->rx.iov,   p->tx.vq.split.slot };

        for (unsigned i = 0; i < ARRAY_SIZE(ours); i++) {
                size_t at = (size_t)((const uint8_t *)ours[i] - r.drv->arena.va);

                EXPECT(at >= r.drv->arena.size);
        }
        rig_end(&r);
}

/* A device with which a bell cannot be rung, and that would like us to hang in trying. */
TEST(hostile_driver, a_kick_fd_that_is_full_and_blocking_stops_nobody)
{
        struct rig r;
        uint64_t most = UINT64_MAX - 1;
        int kick;

        rig_init(&r);
        rig_start(&r);
        kick = r.dev.ring[1].kick;
        sd_kicks(&r.dev, 1);
        EXPECT_EQ(write(kick, &most, sizeof(most)), sizeof(most));
        EXPECT_EQ(fcntl(kick, F_SETFL, fcntl(kick, F_GETFL) & ~O_NONBLOCK), 0);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 1);
        rig_end(&r);
}

/* The device drinks our call fd dry and makes it blocking. */
TEST(hostile_driver, a_call_fd_that_is_empty_and_blocking_stops_nobody)
{
        struct rig r;
        int call;

        rig_init(&r);
        rig_start(&r);
        call = r.dev.ring[0].call;
        EXPECT_EQ(fcntl(call, F_SETFL, fcntl(call, F_GETFL) & ~O_NONBLOCK), 0);
        EXPECT_EQ(drv_read_bell(rig_pair(&r)->rx_call), 0);
        rig_end(&r);
}
