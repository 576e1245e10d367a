/* What control posts has run on the worker when the call returns. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/mailbox.h"
#include "scale.h"
#include "test.h"

/* What the worker owns and control's functions change: no lock, no atomic. */
struct worker {
        struct mailbox mailbox;
        uint64_t served, turns;
        bool stop, busy;
};

static void *run(void *arg)
{
        struct worker *w = arg;

        while (!w->stop) {
                struct pollfd bell = { .fd = w->mailbox.bell, .events = POLLIN };

                mailbox_serve(&w->mailbox);
                w->turns++;
                if (!w->busy && !w->stop && !mailbox_pending(&w->mailbox))
                        poll(&bell, 1, -1);
        }
        return NULL;
}

static void count_up(void *arg)
{
        struct worker *w = arg;

        w->served++;
}

static void toggle_busy(void *arg)
{
        struct worker *w = arg;

        w->busy = !w->busy;
        w->served++;
}

static void stop(void *arg)
{
        struct worker *w = arg;

        w->stop = true;
}

static void call(struct worker *w, void (*fn)(void *arg))
{
        mailbox_post(&w->mailbox, fn, w);
        while (!mailbox_wait(&w->mailbox, -1)) {
                /* a signal: go on waiting */
        }
}

TEST(mailbox, what_control_posts_has_run_when_the_call_returns)
{
        uint64_t rounds = test_scale(20000, 1000000);
        struct worker w = { .busy = false };
        pthread_t thread;

        EXPECT_EQ(mailbox_init(&w.mailbox), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, run, &w), 0);
        for (uint64_t i = 0; i < rounds; i++) {
                call(&w, i % 64 ? count_up : toggle_busy);
                EXPECT_EQ(w.served, i + 1);
        }
        call(&w, stop);
        pthread_join(thread, NULL);
        EXPECT_EQ(w.served, rounds);
        mailbox_done(&w.mailbox);
}

static bool bell_rings(const struct mailbox *mb)
{
        struct pollfd bell = { .fd = mb->bell, .events = POLLIN };

        return poll(&bell, 1, 0) == 1;
}

static void ring(struct mailbox *mb)
{
        uint64_t one = 1;

        EXPECT_EQ(write(mb->bell, &one, sizeof(one)), sizeof(one));
}

static void forget_answer(struct mailbox *mb)
{
        uint64_t n;

        EXPECT_EQ(read(mb->done, &n, sizeof(n)), sizeof(n));
}

/* The worker looks between control's post and its ring: the bell must not ring for ever after. */
TEST(mailbox, a_ring_that_comes_late_is_taken)
{
        struct worker w = { .busy = false };
        struct mailbox *mb = &w.mailbox;

        EXPECT_EQ(mailbox_init(mb), 0);
        EXPECT(!mailbox_serve(mb));
        mb->arg = &w;
        store_release(&mb->fn, count_up);
        EXPECT(mailbox_pending(mb));
        EXPECT(mailbox_serve(mb));
        forget_answer(mb);
        ring(mb);
        EXPECT(bell_rings(mb));
        EXPECT(!mailbox_serve(mb));
        EXPECT(!bell_rings(mb));

        /* a second post while the first one's ring is still there */
        store_release(&mb->fn, count_up);
        EXPECT(mailbox_serve(mb));
        forget_answer(mb);
        ring(mb);
        store_release(&mb->fn, count_up);
        EXPECT(mailbox_serve(mb));
        forget_answer(mb);
        ring(mb);
        EXPECT(!mailbox_serve(mb));
        EXPECT(!bell_rings(mb));

        /* both rings at once with a post */
        store_release(&mb->fn, count_up);
        EXPECT(mailbox_serve(mb));
        forget_answer(mb);
        ring(mb);
        store_release(&mb->fn, count_up);
        ring(mb);
        EXPECT(mailbox_serve(mb));
        forget_answer(mb);
        EXPECT(!bell_rings(mb));
        EXPECT(!mailbox_serve(mb));
        EXPECT_EQ(w.served, 5);
        mailbox_done(mb);
}

TEST(mailbox, done_twice_closes_once)
{
        struct mailbox mb;

        EXPECT_EQ(mailbox_init(&mb), 0);
        mailbox_done(&mb);
        EXPECT_EQ(mb.bell, -1);
        EXPECT_EQ(mb.done, -1);
        mailbox_done(&mb);
}
