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

/* ---- a reader that has drawn its ticket and then loses the CPU ---- */

struct late {
        struct mpmc q;
        uint32_t *turn, next;
};

static void *pass_the_turn_on(void *arg)
{
        struct late *l = arg;

        for (unsigned i = 0; i < 100; i++)
                sched_yield();
        store_release(l->turn, l->next);
        return NULL;
}

TEST(mpmc, putting_back_waits_for_a_reader_of_the_lap_before)
{
        struct late l;
        pthread_t thread;
        uint32_t v;

        EXPECT_EQ(mpmc_init(&l.q, 8u), 0);
        for (uint32_t i = 0; i < 8u; i++)
                EXPECT(mpmc_push(&l.q, i));
        EXPECT(mpmc_pop(&l.q, &v));
        l.turn = &l.q.cells[0].turn;
        l.next = *l.turn;
        *l.turn = 1; /* as if that reader had not come further than its ticket */
        EXPECT(mpmc_pop(&l.q, &v));
        EXPECT(!mpmc_push(&l.q, v)); /* there is room, but not where the next one goes */
        EXPECT_EQ(pthread_create(&thread, NULL, pass_the_turn_on, &l), 0);
        mpmc_put(&l.q, v);
        pthread_join(thread, NULL);
        for (uint32_t i = 2; i < 8u; i++) {
                EXPECT(mpmc_pop(&l.q, &v));
                EXPECT_EQ(v, i);
        }
        EXPECT(mpmc_pop(&l.q, &v));
        EXPECT_EQ(v, 1);
        mpmc_done(&l.q);
}

struct pool {
        struct mpmc q;
        uint64_t rounds;
        unsigned out[8u]; /* atomic: how many threads have it */
        unsigned doubles; /* atomic */
};

static void *take_and_put(void *arg)
{
        struct pool *p = arg;
        uint32_t v;

        for (uint64_t i = 0; i < p->rounds; i++) {
                if (!mpmc_pop(&p->q, &v)) {
                        sched_yield();
                        continue;
                }
                if (__atomic_fetch_add(&p->out[v], 1, __ATOMIC_RELAXED))
                        __atomic_fetch_add(&p->doubles, 1, __ATOMIC_RELAXED);
                __atomic_fetch_sub(&p->out[v], 1, __ATOMIC_RELAXED);
                mpmc_put(&p->q, v);
        }
        return NULL;
}

TEST(mpmc, a_number_is_with_one_thread_at_a_time_and_none_is_lost)
{
        struct pool p = { .rounds = test_scale(200000, 20000000) };
        pthread_t threads[4];
        uint32_t v;
        unsigned seen = 0;

        EXPECT_EQ(mpmc_init(&p.q, 8u), 0);
        for (uint32_t i = 0; i < 8u; i++)
                EXPECT(mpmc_push(&p.q, i));
        for (unsigned i = 0; i < 4; i++)
                EXPECT_EQ(pthread_create(&threads[i], NULL, take_and_put, &p), 0);
        for (unsigned i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        EXPECT_EQ(p.doubles, 0);
        while (mpmc_pop(&p.q, &v))
                seen |= 1u << v;
        EXPECT_EQ(seen, 0xffu);
        mpmc_done(&p.q);
}
