/* The bounded queue between threads. */
#include "driver/mpmc.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/atomics.h"
#include "scale.h"
#include "test.h"

TEST(mpmc, first_in_is_first_out)
{
        struct mpmc q;
        uint32_t v;

        EXPECT_EQ(mpmc_init(&q, 4), 0);
        EXPECT(!mpmc_pop(&q, &v));
        EXPECT(!mpmc_pending(&q));
        for (uint32_t i = 0; i < 1000; i++) {
                EXPECT(mpmc_push(&q, i));
                EXPECT(mpmc_push(&q, ~i));
                EXPECT(mpmc_pending(&q));
                EXPECT(mpmc_pop(&q, &v));
                EXPECT_EQ(v, i);
                EXPECT(mpmc_pop(&q, &v));
                EXPECT_EQ(v, ~i);
                EXPECT(!mpmc_pending(&q));
        }
        mpmc_done(&q);
        mpmc_done(&q);
}

TEST(mpmc, holds_its_capacity_and_no_more)
{
        struct mpmc q;
        uint32_t v;

        EXPECT_EQ(mpmc_init(&q, 8), 0);
        for (unsigned round = 0; round < 3; round++) {
                for (uint32_t i = 0; i < 8; i++)
                        EXPECT(mpmc_push(&q, i));
                EXPECT(!mpmc_push(&q, 8));
                for (uint32_t i = 0; i < 8; i++) {
                        EXPECT(mpmc_pop(&q, &v));
                        EXPECT_EQ(v, i);
                }
                EXPECT(!mpmc_pop(&q, &v));
        }
        mpmc_done(&q);
}

TEST(mpmc, tickets_wrap)
{
        struct mpmc q;
        uint32_t v;

        EXPECT_EQ(mpmc_init(&q, 4), 0);
        q.head = q.tail = UINT32_MAX - 5; /* 4 * k + 2 */
        for (uint32_t i = 0; i < 4; i++)
                q.cells[(q.head + i) & q.mask].turn = q.head + i;
        for (uint32_t i = 0; i < 100; i++) {
                EXPECT(mpmc_push(&q, i));
                EXPECT(mpmc_push(&q, i + 1000));
                EXPECT(mpmc_pop(&q, &v));
                EXPECT_EQ(v, i);
                EXPECT(mpmc_pop(&q, &v));
                EXPECT_EQ(v, i + 1000);
        }
        EXPECT(!mpmc_pending(&q));
        mpmc_done(&q);
}

#define THREADS 3 /* of each kind */

struct party {
        struct mpmc *q;
        pthread_t thread;
        uint32_t id, count;
        uint32_t *got; /* how often each value was popped, atomic */
        uint32_t *left;
};

static void *produce(void *arg)
{
        struct party *p = arg;

        for (uint32_t i = 0; i < p->count;) {
                if (mpmc_push(p->q, p->id * p->count + i))
                        i++;
                else
                        sched_yield();
        }
        return NULL;
}

static void *consume(void *arg)
{
        struct party *p = arg;
        uint32_t last[THREADS] = { 0 }, v;

        while (load_relaxed(p->left)) {
                if (!mpmc_pop(p->q, &v)) {
                        sched_yield();
                        continue;
                }
                /* what one producer puts in comes out in its order, seen by any one consumer */
                EXPECT(v % p->count + 1 > last[v / p->count]);
                last[v / p->count] = v % p->count + 1;
                __atomic_fetch_add(&p->got[v], 1, __ATOMIC_RELAXED);
                __atomic_fetch_sub(p->left, 1, __ATOMIC_RELAXED);
        }
        return NULL;
}

TEST(mpmc, gives_each_value_to_one_thread)
{
        struct mpmc q;
        struct party in[THREADS], out[THREADS];
        uint32_t count = (uint32_t)test_scale(20000, 2000000), left = THREADS * count;
        uint32_t *got = calloc(left, sizeof(*got));

        EXPECT(got);
        EXPECT_EQ(mpmc_init(&q, 64), 0);
        for (uint32_t i = 0; i < THREADS; i++) {
                in[i] = (struct party){ .q = &q, .id = i, .count = count };
                out[i] = (struct party){ .q = &q, .count = count, .got = got, .left = &left };
                EXPECT_EQ(pthread_create(&out[i].thread, NULL, consume, &out[i]), 0);
                EXPECT_EQ(pthread_create(&in[i].thread, NULL, produce, &in[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
                pthread_join(in[i].thread, NULL);
                pthread_join(out[i].thread, NULL);
        }
        for (uint32_t i = 0; i < THREADS * count; i++)
                EXPECT_EQ(got[i], 1);
        EXPECT(!mpmc_pending(&q));
        free(got);
        mpmc_done(&q);
}
