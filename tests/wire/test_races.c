/* Pairs C and D as litmus tests: in each round one thread publishes and asks whether to wake, while the other asks to be
 * woken and looks again.  If neither answers yes, both would sleep now.  The threads meet before each round, and a few
 * random turns apart, so that their stores and loads fall onto each other. */
#include <pthread.h>
#include <sched.h>

#include "rng.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

#define SPINS 2000 /* before giving the CPU away: the other thread may need it */

struct race {
        struct wire w;
        uint64_t rounds;
        uint64_t at[2] __attribute__((aligned(128))); /* where each thread is; written by it alone */
        bool driver_yes, device_yes;
        uint64_t lost_kicks, lost_calls, steps_back;
};

static void meet(struct race *r, unsigned me)
{
        uint64_t there = load_relaxed(&r->at[me]) + 1;

        store_release(&r->at[me], there);
        for (unsigned i = 1; load_acquire(&r->at[!me]) < there; i++) {
                if (i % SPINS)
                        cpu_relax();
                else
                        sched_yield();
        }
}

static void dither(uint64_t *rng)
{
        for (volatile unsigned i = rng_below(rng, 16); i; i--)
                ;
}

static void *device(void *arg)
{
        struct race *r = arg;
        struct wire *w = &r->w;
        uint64_t rng = 77;

        for (uint64_t i = 0; i < r->rounds; i++) {
                vq_device_kick_disable(&w->dev);
                meet(r, 1);
                dither(&rng);
                r->device_yes = vq_device_kick_enable(&w->dev); /* against the driver's publish: pair C */
                meet(r, 1);
                check(wire_pop(w, 1) == 1);
                vq_device_push(&w->dev, w->chains, 1);
                meet(r, 1);
                dither(&rng);
                vq_device_publish(&w->dev);
                r->device_yes = vq_device_call_needed(&w->dev); /* against the driver's request: pair D */
                meet(r, 1);
        }
        return NULL;
}

static void drive(struct race *r)
{
        struct wire *w = &r->w;
        uint64_t rng = 78;
        struct vq_used used;
        uint16_t event = wire_used_event(w);
        int cookie;

        for (uint64_t i = 0; i < r->rounds; i++) {
                vq_driver_call_disable(&w->drv);
                vq_driver_add(&w->drv, &(struct vq_piece){ wire_gpa(w, 0), 64 }, 0, 1, &cookie);
                meet(r, 0);
                dither(&rng);
                vq_driver_publish(&w->drv);
                r->driver_yes = vq_driver_kick_needed(&w->drv);
                meet(r, 0);
                r->lost_kicks += !r->driver_yes && !r->device_yes;
                meet(r, 0);
                dither(&rng);
                r->driver_yes = vq_driver_call_enable(&w->drv);
                meet(r, 0);
                r->lost_calls += !r->driver_yes && !r->device_yes;
                check(vq_driver_reap(&w->drv, &used, 1) == 1);
                r->steps_back += (uint16_t)(wire_used_event(w) - event) > 1;
                event = wire_used_event(w);
        }
}

static void run(uint64_t features, uint64_t rounds)
{
        struct race r = { .w = wire_new(4, features), .rounds = rounds };
        pthread_t thread;

        EXPECT_EQ(pthread_create(&thread, NULL, device, &r), 0);
        drive(&r);
        pthread_join(thread, NULL);
        EXPECT_EQ(r.lost_kicks, 0);
        EXPECT_EQ(r.lost_calls, 0);
        EXPECT_EQ(r.steps_back, 0);
        wire_free(&r.w);
}

/* T-RX-26, T-VH-13 */
TEST(races, one_of_the_two_always_notices_by_flag)
{
        run(0, test_scale(100000, 10000000));
}

/* T-RX-26, T-VH-13 */
TEST(races, one_of_the_two_always_notices_by_event_index)
{
        run(F(event_idx), test_scale(100000, 100000000));
}
