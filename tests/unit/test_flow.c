/* A flow's byte account, and that a refusal is answered by exactly one wake-up. */
#include "driver/flow.h"

#include <pthread.h>
#include <sched.h>

#include "base/atomics.h"
#include "scale.h"
#include "test.h"

#define PKT 65536u

/* T-TSQ-01 */
TEST(flow, holds_its_limit_and_one_packet_at_most_when_nothing_completes)
{
        struct flow a, b;
        unsigned sent = 0;

        flow_init(&a, 0);
        flow_init(&b, 0);
        EXPECT_EQ(a.limit, 131072);
        for (unsigned i = 0; i < 1000; i++)
                sent += flow_charge(&a, 60000);
        EXPECT_EQ(sent, 3);
        EXPECT_EQ(flow_inflight(&a), 180000);
        EXPECT(flow_inflight(&a) <= a.limit + 60000);
        EXPECT(flow_charge(&b, 60000));
        EXPECT_EQ(flow_discharge(&b, 60000), 0);
}

/* T-TSQ-02 */
TEST(flow, wakes_once_for_any_number_of_refusals)
{
        struct flow f;

        flow_init(&f, 1000);
        EXPECT(flow_charge(&f, 600));
        EXPECT(flow_charge(&f, 600));
        EXPECT(!flow_charge(&f, 600));
        EXPECT(!flow_charge(&f, 600));
        EXPECT_EQ(flow_discharge(&f, 600), FLOW_WAKE);
        EXPECT_EQ(flow_discharge(&f, 600), 0);
        EXPECT_EQ(flow_inflight(&f), 0);
}

TEST(flow, does_not_wake_while_it_is_at_its_limit)
{
        struct flow f;

        flow_init(&f, 1000);
        EXPECT(flow_charge(&f, 500));
        EXPECT(flow_charge(&f, 1000));
        EXPECT(!flow_charge(&f, 1));
        EXPECT_EQ(flow_discharge(&f, 500), 0);
        EXPECT_EQ(flow_discharge(&f, 1), FLOW_WAKE);
}

TEST(flow, does_not_wake_who_was_not_refused)
{
        struct flow f;

        flow_init(&f, 1000);
        EXPECT(flow_charge(&f, 5000));
        EXPECT_EQ(flow_discharge(&f, 5000), 0);
}

/* A charge taken back because the ring was full is a discharge like any other. */
TEST(flow, taking_a_charge_back_wakes_a_refused_sender)
{
        struct flow f;

        flow_init(&f, 1000);
        EXPECT(flow_charge(&f, 1000));
        EXPECT(!flow_charge(&f, 1));
        EXPECT_EQ(flow_discharge(&f, 1000), FLOW_WAKE);
}

/* T-TSQ-03 */
TEST(flow, a_stuck_flow_blocks_none_of_a_hundred)
{
        struct flow f[100];

        for (unsigned i = 0; i < 100; i++)
                flow_init(&f[i], 0);
        while (flow_charge(&f[0], PKT))
                ;
        for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 1; i < 100; i++) {
                        EXPECT(flow_charge(&f[i], PKT));
                        EXPECT(flow_charge(&f[i], PKT));
                        EXPECT_EQ(flow_discharge(&f[i], PKT), 0);
                        EXPECT_EQ(flow_discharge(&f[i], PKT), 0);
                }
                EXPECT(!flow_charge(&f[0], PKT));
        }
        EXPECT_EQ(flow_inflight(&f[0]), 2 * PKT);
}

TEST(flow, lives_until_the_last_completes_when_closed_with_bytes_in_flight)
{
        struct flow f;

        flow_init(&f, 1000);
        EXPECT(flow_charge(&f, 600));
        EXPECT(flow_charge(&f, 600));
        EXPECT(!flow_charge(&f, 600));
        EXPECT(!flow_close(&f));
        EXPECT(!flow_charge(&f, 1));
        EXPECT_EQ(flow_discharge(&f, 600), 0);
        EXPECT_EQ(flow_discharge(&f, 600), FLOW_LAST);
}

TEST(flow, goes_at_once_when_closed_empty)
{
        struct flow f;

        flow_init(&f, 0);
        EXPECT(flow_close(&f));
}

/* A sender that sleeps after a refusal, woken by nothing but FLOW_WAKE, against a thread that completes. */
struct race {
        struct flow flow;
        uint64_t refusals, wakes, sent, done; /* `wakes` is the sender's bell, the others end the threads */
        uint64_t total;
};

static void *complete(void *arg)
{
        struct race *r = arg;
        uint64_t done = 0;

        while (done < r->total) {
                while (done == load_acquire(&r->sent))
                        sched_yield();
                if (flow_discharge(&r->flow, 100) & FLOW_WAKE)
                        __atomic_fetch_add(&r->wakes, 1, __ATOMIC_ACQ_REL);
                done++;
        }
        return NULL;
}

/* T-TSQ-02 */
TEST(flow, loses_no_wake_up_in_a_race_of_sending_and_completing)
{
        struct race r = { .total = test_scale(200000, 10000000) };
        pthread_t thread;

        flow_init(&r.flow, 250);
        EXPECT_EQ(pthread_create(&thread, NULL, complete, &r), 0);
        for (uint64_t sent = 0; sent < r.total;) {
                if (flow_charge(&r.flow, 100)) {
                        store_release(&r.sent, ++sent);
                        continue;
                }
                r.refusals++;
                while (load_acquire(&r.wakes) < r.refusals)
                        sched_yield();
        }
        pthread_join(thread, NULL);
        EXPECT_EQ(r.wakes, r.refusals);
        EXPECT(r.refusals > 0);
        EXPECT_EQ(flow_inflight(&r.flow), 0);
}

/* Any schedule, against an account kept in plain numbers. */
TEST(flow, agrees_with_a_plain_account)
{
        uint64_t rng = 11, inflight = 0;
        uint32_t queue[4096], head = 0, tail = 0;
        bool refused = false;
        struct flow f;

        flow_init(&f, 20000);
        for (uint64_t i = 0; i < test_scale(200000, 20000000); i++) {
                uint32_t bytes;

                rng = rng * 6364136223846793005u + 1442695040888963407u;
                bytes = 60 + (uint32_t)(rng >> 40) % 9000;
                if (rng >> 33 & 1) {
                        bool ok = flow_charge(&f, bytes);

                        EXPECT_EQ(ok, inflight < 20000);
                        inflight += ok ? bytes : 0;
                        refused = refused || !ok;
                        if (ok)
                                queue[head++ % 4096] = bytes;
                } else if (tail != head) {
                        unsigned wake = flow_discharge(&f, queue[tail % 4096]);

                        inflight -= queue[tail++ % 4096];
                        EXPECT_EQ(wake, refused && inflight < 20000 ? FLOW_WAKE : 0);
                        refused = refused && !wake;
                }
                EXPECT_EQ(flow_inflight(&f), inflight);
        }
}
