/* The driver's poll context: sleep, interrupt, busy polling, watched fds, and whose thread it is. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "drv_rig.h"
#include "scale.h"
#include "test.h"

#define SEC NSEC_PER_SEC

static void start(struct rig *r)
{
        rig_init(r);
        rig_start(r);
        rig_poll(r, 64, clock_now());
}

TEST(driver_napi, sleeps_until_the_deadline)
{
        struct rig r;
        uint64_t begin = clock_now();

        start(&r);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, begin + 2 * NSEC_PER_MSEC), VW_WAIT_TIMEOUT);
        EXPECT(clock_now() >= begin + 2 * NSEC_PER_MSEC);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, 0), VW_WAIT_TIMEOUT);
        rig_end(&r);
}

TEST(driver_napi, does_not_sleep_over_work_that_came_before_interrupts_were_on)
{
        struct rig r;

        start(&r);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_QUEUE);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 0);
        rig_end(&r);
}

TEST(driver_napi, an_interrupt_wakes_it_and_is_counted_with_its_value)
{
        struct rig r;

        start(&r);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(sd_call(&r.dev, 0));
        sd_call_anyway(&r.dev, 0);
        EXPECT_EQ(vw_driver_woken(r.drv, 0), VW_WAIT_QUEUE);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 2);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT_EQ(rig_count(&r, 0, VW_C_spurious_interrupts), 0);
        sd_call_anyway(&r.dev, 1);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_QUEUE);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 0);
        EXPECT_EQ(rig_count(&r, 1, VW_C_spurious_interrupts), 1);
        rig_end(&r);
}

TEST(driver_napi, wants_no_interrupt_while_it_polls)
{
        struct rig r;

        rig_init(&r);
        r.dev.features &= ~F(event_idx);
        rig_start(&r);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(!sd_call(&r.dev, 0));
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(sd_call(&r.dev, 0));
        vw_driver_woken(r.drv, 0);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(!sd_call(&r.dev, 0));
        rig_end(&r);
}

TEST(driver_napi, a_shared_interrupt_serves_both_queues)
{
        struct rig r;

        rig_init(&r);
        r.config.shared_call = true;
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(sd_call(&r.dev, 1));
        EXPECT_EQ(vw_driver_woken(r.drv, 0), VW_WAIT_QUEUE);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_reaped_by_poll), 1);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 1);
        rig_end(&r);
}

TEST(driver_napi, interrupts_are_shared_and_separated_under_traffic)
{
        struct rig r;
        const char *why;
        int64_t v;

        rig_init(&r);
        r.config.clean_tx_from_rx = 0;
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        for (unsigned i = 1; i <= test_scale(100, 1000); i++) {
                struct vw_setting s = { 0, VW_KEY_SHARED_INTERRUPT, i & 1 };
                uint64_t before = rig_count(&r, !(i & 1), VW_C_interrupts);

                EXPECT_EQ(rig_send(&r, 60), 1);
                EXPECT_EQ(vw_driver_set(r.drv, &s, 1, &why), 0);
                EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_SHARED_INTERRUPT, &v), 0);
                EXPECT_EQ(v, i & 1);
                EXPECT(!vw_driver_arm(r.drv, 0));
                EXPECT_EQ(sd_consume(&r.dev, 0), 1);
                EXPECT(sd_call(&r.dev, 1));
                EXPECT_EQ(vw_driver_woken(r.drv, 0), VW_WAIT_QUEUE);
                EXPECT(rig_count(&r, !(i & 1), VW_C_interrupts) > before);
                rig_poll(&r, 64, SEC);
                EXPECT_EQ(r.done, i);
        }
        vw_driver_disconnect(r.drv); /* without a device it is what the next one will be told */
        EXPECT_EQ(vw_driver_set(r.drv, &(struct vw_setting){ -1, VW_KEY_SHARED_INTERRUPT, 1 }, 1, &why), 0);
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(sd_call(&r.dev, 1));
        EXPECT(rig_count(&r, 0, VW_C_interrupts) > 0);
        rig_end(&r);
}

TEST(driver_napi, without_reaping_from_rx_the_tx_interrupt_reaps)
{
        struct rig r;

        rig_init(&r);
        r.config.clean_tx_from_rx = 0;
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT_EQ(sd_consume(&r.dev, 0), 1);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT(sd_call(&r.dev, 0));
        EXPECT_EQ(vw_driver_woken(r.drv, 0), VW_WAIT_QUEUE);
        EXPECT_EQ(rig_poll(&r, 64, SEC), 1); /* an rx poll */
        EXPECT_EQ(r.done, 0);
        EXPECT(vw_driver_arm(r.drv, 0)); /* the completion is there: poll again, for tx */
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(r.done, 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_reaped_by_poll), 1);
        EXPECT_EQ(rig_count(&r, 1, VW_C_reaped_by_rx), 0);
        rig_end(&r);
}

TEST(driver_napi, busy_polling_finds_work_without_an_interrupt)
{
        struct rig r;

        rig_init(&r);
        r.config.poll_us = 50000;
        rig_start(&r);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 1); /* work: so it pays to wait for more */
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_QUEUE);
        EXPECT_EQ(rig_count(&r, 0, VW_C_poll_hits), 1);
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 1);
        EXPECT_EQ(rig_count(&r, 0, VW_C_interrupts), 0);
        rig_end(&r);
}

TEST(driver_napi, busy_polling_gives_up_and_does_not_begin_without_work)
{
        struct rig r;

        rig_init(&r);
        r.config.poll_us = 1000;
        rig_start(&r);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 1);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, clock_now() + 3 * NSEC_PER_MSEC), VW_WAIT_TIMEOUT);
        EXPECT_EQ(rig_count(&r, 0, VW_C_poll_misses), 1);
        EXPECT(rig_count(&r, 0, VW_C_poll_ns) >= NSEC_PER_MSEC);
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, 0), VW_WAIT_TIMEOUT);
        EXPECT_EQ(rig_count(&r, 0, VW_C_poll_misses), 1);
        rig_end(&r);
}

/* The timer of an earlier sleep rings within a busy poll, which looks at the same fds. */
TEST(driver_napi, a_deadline_comes_also_after_one_that_passed_in_a_busy_poll)
{
        struct rig r;
        int fd = eventfd(1, EFD_NONBLOCK);

        rig_init(&r);
        r.config.poll_us = 20000;
        rig_start(&r);
        rig_poll(&r, 64, clock_now());
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, EPOLLIN), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, clock_now() + 2 * NSEC_PER_MSEC), VW_WAIT_FD);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, 0), 0);
        EXPECT(rig_arrive(&r, 100, 0));
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 1);
        EXPECT(vw_driver_wait(r.drv, 0, clock_now() + 3 * NSEC_PER_MSEC) & (VW_WAIT_QUEUE | VW_WAIT_TIMEOUT));
        EXPECT_EQ(rig_poll(&r, 64, clock_now()), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, clock_now() + 3 * NSEC_PER_MSEC), VW_WAIT_TIMEOUT);
        rig_end(&r);
        close(fd);
}

TEST(driver_napi, watched_fds_end_the_sleep)
{
        struct rig r;
        uint64_t one = 1;
        int fd = eventfd(0, EFD_NONBLOCK), pipefd[2];

        start(&r);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, EPOLLIN), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, 0), VW_WAIT_TIMEOUT);
        EXPECT_EQ(write(fd, &one, sizeof(one)), sizeof(one));
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_FD);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, EPOLLOUT), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_FD);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, 0), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, 0), VW_WAIT_TIMEOUT);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, fd, 0), -ENOENT);
        EXPECT_EQ(pipe(pipefd), 0);
        EXPECT_EQ(vw_driver_watch(r.drv, 0, pipefd[0], EPOLLIN), 0);
        close(pipefd[1]);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, UINT64_MAX), VW_WAIT_FD | VW_WAIT_FD_ERROR);
        close(pipefd[0]);
        rig_end(&r);
        close(fd);
}

TEST(driver_napi, a_pair_that_is_down_sleeps_too)
{
        struct rig r;

        start(&r);
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(vw_driver_poll(r.drv, 0, 64), 0);
        EXPECT_EQ(vw_driver_wait(r.drv, 0, clock_now() + NSEC_PER_MSEC), VW_WAIT_TIMEOUT);
        EXPECT_EQ(vw_driver_xmit(r.drv, 0, NULL, 0, false), -ENETDOWN);
        rig_end(&r);
}

/* ---- whose thread ---- */

struct owner {
        struct rig *r;
        pthread_t thread;
        bool stop;
        uint64_t turns;
};

static void *own(void *arg)
{
        struct owner *o = arg;

        while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE)) {
                vw_driver_poll(o->r->drv, 0, 64);
                rig_send_pkt(o->r, 60, false, NULL);
                __atomic_fetch_add(&o->turns, 1, __ATOMIC_RELAXED);
                vw_driver_wait(o->r->drv, 0, clock_now() + 100 * NSEC_PER_USEC);
        }
        vw_driver_leave(o->r->drv, 0);
        return NULL;
}

TEST(driver_napi, control_calls_are_carried_out_by_the_owner)
{
        struct rig r;
        struct owner o = { .r = &r };
        uint64_t until = clock_now() + 5 * SEC;
        struct vw_stats *stats = calloc(1, sizeof(*stats));
        char why[512];
        const char *text;
        int64_t v;

        rig_init(&r);
        r.config.tx_mode = VW_TX_ORPHAN;
        rig_start(&r);
        vw_driver_leave(r.drv, 0);
        EXPECT_EQ(pthread_create(&o.thread, NULL, own, &o), 0);
        while (!__atomic_load_n(&o.turns, __ATOMIC_RELAXED) && clock_now() < until)
                sched_yield();
        EXPECT(__atomic_load_n(&o.turns, __ATOMIC_RELAXED) > 0);
        for (uint64_t i = 0; i < test_scale(200, 20000); i++) {
                struct vw_setting s = { -1, VW_KEY_TX_MODE, (int64_t)(i & 1) };

                EXPECT_EQ(vw_driver_set(r.drv, &s, 1, &text), 0);
                EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_TX_MODE, &v), 0);
                EXPECT_EQ(v, i & 1);
                vw_driver_stats(r.drv, stats);
                EXPECT(vw_driver_why(r.drv, i % 2, why, sizeof(why)) > 0);
                sd_consume(&r.dev, 0);
        }
        vw_driver_disconnect(r.drv);
        rig_start(&r);
        __atomic_store_n(&o.stop, true, __ATOMIC_RELEASE);
        pthread_join(o.thread, NULL);
        vw_driver_stats(r.drv, stats); /* nobody owns the pair: control does it itself */
        vw_driver_disconnect(r.drv);
        EXPECT_EQ(r.sent, r.done);
        free(stats);
        rig_end(&r);
}

TEST(driver_napi, a_pair_that_nobody_owns_gives_its_packets_back_to_control)
{
        struct rig r;

        rig_init(&r);
        rig_start(&r);
        rig_poll(&r, 64, SEC);
        EXPECT_EQ(rig_send(&r, 60), 1);
        vw_driver_leave(r.drv, 0);
        vw_driver_disconnect(r.drv); /* tx_done puts the buffer back: an owner's call */
        EXPECT_EQ(r.done, 1);
        rig_start(&r);
        EXPECT_EQ(rig_send(&r, 60), 1);
        rig_end(&r);
}

/* Leaving and taking over while control calls go on. */
static void *come_and_go(void *arg)
{
        struct owner *o = arg;

        while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE)) {
                vw_driver_poll(o->r->drv, 0, 64);
                vw_driver_leave(o->r->drv, 0);
        }
        return NULL;
}

TEST(driver_napi, an_owner_may_leave_during_control_calls)
{
        struct rig r;
        struct owner o = { .r = &r };
        int64_t v;

        rig_init(&r);
        rig_start(&r);
        vw_driver_leave(r.drv, 0);
        EXPECT_EQ(pthread_create(&o.thread, NULL, come_and_go, &o), 0);
        for (uint64_t i = 0; i < test_scale(5000, 500000); i++)
                EXPECT_EQ(vw_driver_get(r.drv, 1, VW_KEY_KICK, &v), 0);
        __atomic_store_n(&o.stop, true, __ATOMIC_RELEASE);
        pthread_join(o.thread, NULL);
        rig_end(&r);
}

/* ---- settings ---- */

TEST(driver_set, refuses_all_or_takes_all)
{
        static const struct vw_setting bad[] = {
                {0,   VW_KEY_TX_MODE,    1     },
                { 1,  VW_KEY_RX_BUFFERS, 1     },
                { 2,  VW_KEY_POLL_US,    1     },
                { 0,  VW_KEY_QUEUES,     1     },
                { -1, VW_KEY_QUEUES,     2     },
                { -1, VW_KEY_POLL_US,    200000},
                { 0,  VW_KEY_ADAPTIVE,   2     },
                { -1, VW_KEY_COUNT,      1     },
        };
        struct rig r;
        int64_t v;

        rig_init(&r);
        rig_start(&r);
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                struct vw_setting s[2] = {
                        {-1, VW_KEY_POLL_US, 7},
                        bad[i]
                };
                const char *why = NULL;

                EXPECT(vw_driver_set(r.drv, s, 2, &why) < 0);
                EXPECT(why && *why);
                EXPECT_EQ(vw_driver_get(r.drv, -1, VW_KEY_POLL_US, &v), 0);
                EXPECT_EQ(v, 0);
        }
        rig_end(&r);
}

TEST(driver_set, tells_why_in_words)
{
        struct rig r;
        char text[1024];

        rig_init(&r);
        r.config.bql = true;
        rig_start(&r);
        EXPECT(vw_driver_why(r.drv, 0, text, sizeof(text)) > 0);
        EXPECT(strstr(text, "256 of 256 buffers posted"));
        EXPECT(strstr(text, "; the device has 256 chains and "));
        EXPECT(vw_driver_why(r.drv, 1, text, sizeof(text)) > 0);
        EXPECT(strstr(text, "idle"));
        rig_send(&r, 60);
        EXPECT(vw_driver_why(r.drv, 1, text, sizeof(text)) > 0);
        EXPECT(strstr(text, "byte limit"));
        EXPECT(strstr(text, "; the device has 1 chains and was kicked for the last of them"));
        EXPECT(strstr(text, "; interrupts are off: it polls"));
        sd_consume(&r.dev, 0);
        EXPECT(vw_driver_why(r.drv, 1, text, sizeof(text)) > 0);
        EXPECT(!strstr(text, "the device has"));
        EXPECT(strstr(text, "; it has given 1 back that the next poll takes"));
        rig_poll(&r, 64, SEC);
        EXPECT(!vw_driver_arm(r.drv, 0));
        EXPECT(vw_driver_why(r.drv, 1, text, sizeof(text)) > 0);
        EXPECT(strstr(text, "; an interrupt is asked for after used 0, used is 1: the device owed it"));
        EXPECT(vw_driver_why(r.drv, 2, text, sizeof(text)) > 0);
        EXPECT_EQ(vw_driver_why(r.drv, 3, text, sizeof(text)), -ENOENT);
        EXPECT(vw_driver_why(r.drv, 1, text, 5) > 5);
        EXPECT_EQ(strlen(text), 4);
        rig_end(&r);
}

/* ---- the race between adding used entries and going to sleep ---- */

struct feeder {
        struct rig *r;
        pthread_t thread;
        uint64_t rounds;
        uint64_t seen; /* atomic: frames that the driver has received */
};

/* A frame a round; every fourth round waits until the driver has it, and so is likely asleep or about to be. */
static void *feed(void *arg)
{
        struct feeder *f = arg;
        uint8_t frame[60] = { 0 };

        for (uint64_t i = 0; i < f->rounds;) {
                if (!sd_receive(&f->r->dev, 0, NULL, frame, sizeof(frame))) {
                        sched_yield();
                        continue;
                }
                sd_call(&f->r->dev, 0);
                i++;
                for (unsigned spin = 0; i % 4 == 0 && __atomic_load_n(&f->seen, __ATOMIC_ACQUIRE) < i; spin++)
                        if (spin % 64 == 63)
                                sched_yield();
        }
        return NULL;
}

/* T-RX-26 */
TEST(driver_napi, no_frame_is_slept_over)
{
        struct rig r;
        struct feeder f = { .r = &r, .rounds = test_scale(20000, 10000000) };
        unsigned timeouts = 0;
        uint16_t event = 0;

        rig_init(&r);
        rig_start(&r);
        EXPECT_EQ(pthread_create(&f.thread, NULL, feed, &f), 0);
        while (r.received < f.rounds && !timeouts) {
                struct vq_state s;

                if (vw_driver_wait(r.drv, 0, clock_now() + 10 * SEC) == VW_WAIT_TIMEOUT)
                        timeouts++;
                vq_driver_state(&rig_pair(&r)->rx.vq, &s);
                EXPECT((uint16_t)(s.event_ours - event) < 0x8000); /* the event index never moves backwards */
                event = (uint16_t)s.event_ours;
                while (vw_driver_poll(r.drv, 0, 64) == 64) {
                }
                __atomic_store_n(&f.seen, r.received, __ATOMIC_RELEASE);
        }
        EXPECT_EQ(timeouts, 0);
        pthread_join(f.thread, NULL);
        EXPECT_EQ(r.received, f.rounds);
        EXPECT_EQ(rig_all_drops(&r, 0), 0);
        rig_end(&r);
}
