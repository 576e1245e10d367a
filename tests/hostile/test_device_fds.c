/* A front end whose file descriptors misbehave, and signals that disturb: nobody waits, nobody spins, no call is lost. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "device/queue.h"
#include "invariants.h"
#include "scale.h"
#include "test.h"

static struct siege s;

static void begin(uint64_t features)
{
        siege_begin(&s, NULL);
        siege_connect(&s, features, 64);
}

static void end(void)
{
        siege_end(&s, SIEGE_LIVES);
}

static uint64_t count(int fd)
{
        uint64_t n = 0;

        return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void drain_port(void)
{
        uint8_t got[64];

        while (sport_get(&s.port, 0, got, sizeof(got), NULL) >= 0)
                continue;
}

static void send_and_reap(unsigned n)
{
        static const uint8_t frame[60] = { 2, [6] = 2, [12] = 0x88, 0xb5 };
        unsigned back = 0;

        for (unsigned i = 0; i < n; i++)
                EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
        front_kick(&s.f, 1);
        EXPECT_SOON((drain_port(), back += front_reap(&s.f, 1, NULL, 64)) == n);
}

static uint64_t calls_failed(void)
{
        return front_stats(&s.f, 1).counters[VW_C_call_errors];
}

static int set_call(int fd)
{
        return vu_frontend_vring_fds(&s.f.fe, 1, s.f.q[1].kick, fd, -1);
}

/* ---- call fds ---- */

/* hostile I01 */
TEST(hostile_fds, a_call_fd_may_be_a_pipe_whose_reader_leaves)
{
        uint64_t calls[64];
        int pipes[2];

        begin(0);
        EXPECT_EQ(pipe2(pipes, O_CLOEXEC), 0);
        EXPECT_EQ(set_call(pipes[1]), 0);
        send_and_reap(5);
        EXPECT_SOON(read(pipes[0], calls, sizeof(calls)) > 0);
        close(pipes[0]);
        close(pipes[1]);
        for (unsigned i = 0; i < 20; i++)
                send_and_reap(1); /* by looking, for it is told no more */
        EXPECT_EQ(calls_failed(), 1);
        EXPECT_EQ(set_call(s.f.q[1].call), 0);
        count(s.f.q[1].call);
        send_and_reap(1);
        EXPECT_SOON(count(s.f.q[1].call) > 0);
        end();
}

/* hostile I01 */
TEST(hostile_fds, what_cannot_be_signalled_is_no_call_fd)
{
        int bad[3];

        begin(0);
        bad[0] = s.f.memfd;
        bad[1] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        bad[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (unsigned i = 0; i < 3; i++)
                EXPECT_EQ(set_call(bad[i]), -EIO);
        close(bad[1]);
        close(bad[2]);
        count(s.f.q[1].call);
        send_and_reap(1);
        EXPECT_SOON(count(s.f.q[1].call) > 0); /* the one that it has is still good */
        end();
}

/* hostile I02 */
TEST(hostile_fds, a_call_fd_that_would_block_holds_nobody_up)
{
        const uint64_t most = UINT64_MAX - 1;

        begin(0);
        for (unsigned blocking = 0; blocking < 2; blocking++) {
                uint8_t status;
                uint64_t begun;

                count(s.f.q[1].call);
                EXPECT_EQ(fcntl(s.f.q[1].call, F_SETFL, O_NONBLOCK), 0);
                EXPECT_EQ(write(s.f.q[1].call, &most, sizeof(most)), sizeof(most));
                EXPECT_EQ(fcntl(s.f.q[1].call, F_SETFL, blocking ? 0 : O_NONBLOCK), 0);
                begun = front_now();
                send_and_reap(50);
                EXPECT_EQ(vu_frontend_get_status(&s.f.fe, &status), 0);
                EXPECT(front_now() - begun < UINT64_C(1000000000));
                EXPECT_EQ(fcntl(s.f.q[1].call, F_SETFL, O_NONBLOCK), 0);
        }
        EXPECT_EQ(calls_failed(), 0);
        count(s.f.q[1].call);
        send_and_reap(1);
        EXPECT_SOON(count(s.f.q[1].call) == 1);
        end();
}

/* hostile I07 */
TEST(hostile_fds, replaced_under_load_each_is_signalled_and_no_stranger_is)
{
        const unsigned n = (unsigned)test_scale(500, 10000);
        static const uint8_t frame[60] = { 2 };
        unsigned sent = 0, back = 0;
        int fd = -1, bait[4];

        begin(F(event_idx));
        for (unsigned i = 0; i < n; i++) {
                for (unsigned k = 0; k < 5; k++)
                        sent += front_send(&s.f, 0, frame, sizeof(frame), NULL);
                front_kick(&s.f, 1);
                if (fd >= 0)
                        close(fd);
                fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                EXPECT_EQ(set_call(fd), 0);
                for (unsigned k = 0; k < 4; k++) /* they take the numbers that have become free */
                        bait[k] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                EXPECT(count(fd) >= 1);
                drain_port();
                back += front_reap(&s.f, 1, NULL, 64);
                for (unsigned k = 0; k < 4; k++) {
                        EXPECT_EQ(count(bait[k]), 0);
                        close(bait[k]);
                }
        }
        while (back < sent) { /* at the end, asleep by the fd */
                drain_port();
                back += front_reap(&s.f, 1, NULL, 64);
                if (back < sent && !vq_driver_call_enable(&s.f.q[1].vq))
                        EXPECT_SOON((drain_port(), count(fd) > 0 || vq_driver_used_pending(&s.f.q[1].vq)));
        }
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], sent);
        EXPECT_EQ(calls_failed(), 0);
        close(fd);
        end();
}

/* ---- kick and err fds ---- */

/* hostile I04 */
TEST(hostile_fds, a_kick_fd_that_never_empties_wakes_nobody_for_nothing)
{
        const uint64_t huge = UINT64_C(1) << 63;
        uint64_t kicks;

        begin(0);
        front_stop(&s.f, 1);
        close(s.f.q[1].kick);
        s.f.q[1].kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
        front_start(&s.f, 1);
        EXPECT_EQ(write(s.f.q[1].kick, &huge, sizeof(huge)), sizeof(huge));
        send_and_reap(10);
        EXPECT(siege_idle(&s, 50));
        kicks = front_stats(&s.f, 1).counters[VW_C_kicks];
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_kicks], kicks);
        send_and_reap(10);
        end();
}

/* hostile C31 */
TEST(hostile_fds, kicks_for_nothing_are_counted_and_cost_no_work)
{
        const unsigned n = (unsigned)test_scale(20000, 1000000);
        uint64_t packets;

        begin(0);
        send_and_reap(1);
        packets = front_stats(&s.f, 1).counters[VW_C_packets];
        for (unsigned i = 0; i < n; i++)
                front_kick_raw(&s.f, 1);
        EXPECT(siege_idle(&s, 50));
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], packets);
        send_and_reap(10);
        end();
}

static void break_it(void)
{
        front_raw_offer(&s.f, 1, 64);
        front_kick_raw(&s.f, 1);
        EXPECT_SOON(front_stats(&s.f, 1).broken);
}

/* hostile I05 */
TEST(hostile_fds, the_err_fd_of_the_moment_is_signalled_and_none_is_fine)
{
        struct front_queue *q = &s.f.q[1];
        int other;

        begin(0);
        other = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        send_and_reap(1);
        EXPECT_EQ(vu_frontend_vring_fds(&s.f.fe, 1, q->kick, q->call, other), 0);
        break_it();
        EXPECT_SOON(count(other) == 1);
        EXPECT_EQ(count(q->err), 0);

        front_renew(&s.f, 1);
        EXPECT_EQ(vu_frontend_vring_fds(&s.f.fe, 1, q->kick, q->call, -1), 0);
        break_it();
        EXPECT_EQ(count(q->err) + count(other), 0);
        close(other);
        end();
}

/* ---- signals ---- */

struct pest {
        pthread_t worker, control;
        bool stop;
        uint64_t sent;
};

static void ignore(int signal)
{
        (void)signal;
}

/* A worker blocks the program's signals, but faults it cannot. */
static void *pester(void *arg)
{
        struct pest *p = arg;

        while (!load_relaxed(&p->stop)) {
                pthread_kill(p->worker, SIGTRAP);
                pthread_kill(p->worker, SIGUSR1);
                pthread_kill(p->control, SIGUSR1);
                counter_add(&p->sent, 3);
                nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        }
        return NULL;
}

/* hostile I10 */
TEST(hostile_fds, signals_all_the_time_have_no_effect)
{
        const uint64_t signals = test_scale(1000, 100000);
        struct sigaction action = { .sa_handler = ignore }, trap, usr;
        static const uint8_t frame[60] = { 2 };
        unsigned received = 0, arrived = 0, rounds = 0;
        struct pest pest = { 0 };
        pthread_t thread;

        EXPECT_EQ(sigaction(SIGTRAP, &action, &trap), 0);
        EXPECT_EQ(sigaction(SIGUSR1, &action, &usr), 0);
        begin(F(event_idx));
        pest.worker = s.f.dev->workers[0].thread;
        pest.control = s.f.control;
        EXPECT_EQ(pthread_create(&thread, NULL, pester, &pest), 0);
        front_post(&s.f, 0, 32, 1600);
        front_kick(&s.f, 0);
        for (; load_relaxed(&pest.sent) < signals; rounds++) {
                unsigned k;
                uint8_t status;

                send_and_reap(20);
                arrived += sport_put(&s.port, 0, frame, sizeof(frame), NULL);
                EXPECT_EQ(vu_frontend_get_status(&s.f.fe, &status), 0);
                received += k = front_reap(&s.f, 0, NULL, 64);
                if (front_post(&s.f, 0, k, 1600))
                        front_kick(&s.f, 0);
        }
        EXPECT_SOON((received += front_reap(&s.f, 0, NULL, 64)) == arrived);
        store_relaxed(&pest.stop, true);
        pthread_join(thread, NULL);
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_packets], rounds * 20);
        EXPECT_EQ(front_stats(&s.f, 0).counters[VW_C_packets], arrived);
        end();
        sigaction(SIGTRAP, &trap, NULL);
        sigaction(SIGUSR1, &usr, NULL);
}
