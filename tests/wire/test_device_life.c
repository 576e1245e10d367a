/* The life of queues and of the device: start, stop, break and revive, memory swapped under load, fds that misbehave, front
 * ends that come and go. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front.h"
#include "mock_vhost.h"
#include "scale.h"
#include "test.h"

static struct front f;
static struct vw_port *null_port;

static void open_device(unsigned pairs)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        const char *why = NULL;

        EXPECT_EQ(vw_port_open("null", &(struct vw_port_config){ .pairs = pairs }, &null_port, &why), 0);
        config.port = null_port;
        config.pairs = pairs;
        config.nice = 0;
        front_open(&f, &config);
}

static void begin(unsigned pairs, uint64_t features, unsigned size)
{
        open_device(pairs);
        front_connect(&f, features, size);
}

static void end(void)
{
        front_close(&f);
        vw_port_close(null_port);
}

/* Offers n frames on queue 1; they come back at some time. */
static unsigned offer(unsigned n)
{
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        unsigned i;

        for (i = 0; i < n && front_send(&f, 0, frame, sizeof(frame), NULL); i++)
                continue;
        return i;
}

static void send_and_reap(unsigned n)
{
        unsigned back = 0;

        EXPECT_EQ(offer(n), n);
        front_kick(&f, 1);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == n);
}

static uint64_t read_count(int fd)
{
        uint64_t n = 0;

        return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* hostile C32, T-VH-24 */
TEST(device_life, a_start_is_an_implicit_kick)
{
        unsigned back = 0;
        uint32_t base;

        begin(1, F(event_idx), 256);
        send_and_reap(10);
        base = front_stop(&f, 1);
        EXPECT_EQ(base, 10);
        EXPECT_EQ(offer(100), 100);
        vq_driver_publish(&f.q[1].vq);
        f.q[1].cfg.base = base;
        front_start(&f, 1);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 100);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 110);
        end();
}

/* hostile K15: a stop is at a packet's edge, whatever is under way */
TEST(device_life, stops_under_load_lose_and_double_nothing)
{
        unsigned rounds = (unsigned)test_scale(300, 20000), sent = 0, back = 0;

        begin(1, F(event_idx), 64);
        for (unsigned i = 0; i < rounds; i++) {
                sent += offer(20);
                front_kick(&f, 1);
                back += front_reap(&f, 1, NULL, 64);
                f.q[1].cfg.base = front_stop(&f, 1);
                EXPECT_EQ(f.q[1].cfg.base, f.q[1].vq.split.ring.used->idx);
                front_start(&f, 1);
        }
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == sent);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], sent);
        end();
}

/* hostile B14 */
TEST(device_life, memory_tables_change_under_load)
{
        struct vhost_user_region region;
        unsigned rounds = (unsigned)test_scale(300, 10000), sent = 0, back = 0, received = 0;
        struct vw_queue_stats s;

        open_device(1);
        front_connect(&f, F(event_idx) | F(mrg_rxbuf), 64);
        region = (struct vhost_user_region){ .guest_addr = FRONT_GPA,
                                             .size = f.bytes,
                                             .user_addr = FRONT_UVA };
        for (unsigned i = 0; i < rounds; i++) {
                sent += offer(20);
                front_kick(&f, 1);
                EXPECT_EQ(vu_frontend_set_mem(&f.fe, &region, &f.memfd, 1), 0);
                back += front_reap(&f, 1, NULL, 64);
                received += front_reap(&f, 0, NULL, 64);
        }
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == sent);
        s = front_stats(&f, 1);
        EXPECT_EQ(s.counters[VW_C_packets], sent);
        EXPECT(!s.broken);
        EXPECT(front_stats(&f, 0).counters[VW_C_packets] >= received);
        /* a table that has no room for the rings breaks them, and only them */
        region.size = f.bufs / 4096 / 2 * 4096;
        EXPECT_EQ(vu_frontend_set_mem(&f.fe, &region, &f.memfd, 1), 0);
        EXPECT_SOON(front_stats(&f, 1).broken);
        EXPECT_STR(front_stats(&f, 1).broken, "ring-unmapped");
        EXPECT(!front_stats(&f, 0).broken);
        end();
}

TEST(device_life, memory_that_is_taken_away_under_running_rings_breaks_them_until_they_are_set_up_again)
{
        struct vhost_user_region region;
        struct vu_msg take = { .request = VHOST_USER_REM_MEM_REG,
                               .flags = VU_FLAG_VERSION,
                               .size = sizeof(take.mem_reg) };

        begin(1, F(event_idx), 64);
        send_and_reap(5);
        region = (struct vhost_user_region){ .guest_addr = FRONT_GPA,
                                             .size = f.bytes,
                                             .user_addr = FRONT_UVA };
        take.mem_reg.region = region;
        EXPECT_EQ(vu_write(f.fe.sock, &take, NULL, 0, 0), 0);
        for (unsigned i = 0; i < 2; i++) {
                EXPECT_SOON(front_stats(&f, i).broken);
                EXPECT_STR(front_stats(&f, i).broken, "ring-unmapped");
        }
        EXPECT_EQ(vu_frontend_set_mem(&f.fe, &region, &f.memfd, 1), 0);
        EXPECT(front_stats(&f, 1).broken); /* by themselves they do not come back */
        front_renew(&f, 1);
        send_and_reap(5);
        end();
}

TEST(device_life, a_session_that_the_program_ends_stops_its_rings_and_another_may_begin)
{
        begin(1, 0, 64);
        send_and_reap(5);
        pthread_mutex_lock(&f.lock);
        vw_device_disconnect(f.dev);
        vw_device_disconnect(f.dev); /* there is none any more */
        EXPECT(!vw_device_serving(f.dev));
        pthread_mutex_unlock(&f.lock);
        EXPECT_EQ(vu_frontend_alive(&f.fe), -ECONNRESET);
        EXPECT_EQ(offer(3), 3);
        front_kick_raw(&f, 1);
        EXPECT_EQ(front_reap(&f, 1, NULL, 64), 0);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 5);
        front_disconnect(&f);
        front_connect(&f, 0, 64);
        send_and_reap(5);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 10);
        EXPECT_EQ(__atomic_load_n(&f.left, __ATOMIC_RELAXED), 0); /* it did not leave: it was sent away */
        end();
}

/* hostile C06, C08 and their like: one queue breaks, one signal, the others go on, a restart revives it */
TEST(device_life, a_broken_queue_is_parked_until_it_is_set_up_again)
{
        uint8_t status;

        begin(1, 0, 64);
        send_and_reap(5);
        __atomic_store_n(&f.q[0].vq.split.ring.avail->idx, 65, __ATOMIC_RELEASE);
        front_kick_raw(&f, 0);
        __atomic_store_n(&f.q[1].vq.split.ring.avail->ring[5], 64, __ATOMIC_RELAXED);
        __atomic_store_n(&f.q[1].vq.split.ring.avail->idx, 6, __ATOMIC_RELEASE);
        front_kick_raw(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).broken);
        EXPECT_STR(front_stats(&f, 1).broken, "bad-head");
        EXPECT_EQ(read_count(f.q[1].err), 1);
        EXPECT_EQ(vu_frontend_get_status(&f.fe, &status), 0);
        EXPECT(status & VIRTIO_STATUS_NEEDS_RESET);
        EXPECT_SOON(vu_frontend_dispatch(&f.fe) == 1); /* and that was told */
        for (unsigned i = 0; i < 100; i++)
                front_kick_raw(&f, 1);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 5);
        EXPECT_EQ(read_count(f.q[1].err), 0);

        EXPECT_EQ(front_stop(&f, 1), 5);
        front_ring(&f, 1);
        front_start(&f, 1);
        send_and_reap(20);
        EXPECT(!front_stats(&f, 1).broken);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_packets], 25);
        EXPECT_EQ(vu_frontend_get_status(&f.fe, &status), 0);
        EXPECT(!(status & VIRTIO_STATUS_NEEDS_RESET));
        end();
}

/* hostile I05 */
TEST(device_life, a_break_without_an_err_fd_is_a_break)
{
        begin(1, 0, 64);
        EXPECT_EQ(vu_frontend_vring_fds(&f.fe, 1, f.q[1].kick, f.q[1].call, -1), 0);
        __atomic_store_n(&f.q[1].vq.split.ring.avail->idx, 100, __ATOMIC_RELEASE);
        front_kick_raw(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).broken);
        EXPECT_STR(front_stats(&f, 1).broken, "bad-avail-idx");
        EXPECT_EQ(read_count(f.q[1].err), 0);
        end();
}

/* hostile A30 */
TEST(device_life, features_without_what_they_need_keep_features_ok_away)
{
        static const struct {
                uint64_t features;
                bool ok;
        } sets[] = {
                {F(host_tso4),                           false},
                { F(csum) | F(host_tso4),                true },
                { F(csum) | F(host_ecn),                 false},
                { F(csum) | F(host_tso6) | F(host_ecn),  true },
                { F(guest_csum) | F(guest_ecn),          false},
                { F(guest_uso4),                         false},
                { F(mq) | F(guest_announce) | F(status), true }, /* as QEMU passes them on */
        };
        uint8_t status;

        open_device(2);
        front_hello(&f, 0, 64);
        for (unsigned i = 0; i < ARRAY_SIZE(sets); i++) {
                EXPECT_EQ(vu_frontend_set_features(&f.fe,
                                                   F(protocol_features) | F(version_1) | sets[i].features),
                          0);
                EXPECT_EQ(vu_frontend_set_status(&f.fe, 3 | VIRTIO_STATUS_FEATURES_OK), 0);
                EXPECT_EQ(vu_frontend_get_status(&f.fe, &status), 0);
                EXPECT_EQ(status, 3 | (sets[i].ok ? VIRTIO_STATUS_FEATURES_OK : 0));
        }
        end();
}

static void on_sigbus(int signal, siginfo_t *info, void *context)
{
        (void)context;
        if (!vw_sigbus(info->si_addr)) {
                struct sigaction action = { .sa_handler = SIG_DFL };

                sigaction(signal, &action, NULL);
        }
}

/* hostile B21 */
TEST(device_life, memory_that_is_taken_away_breaks_the_device_and_not_the_process)
{
        struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, before;
        unsigned broken = 0;

        EXPECT_EQ(sigaction(SIGBUS, &action, &before), 0);
        begin(1, 0, 64);
        send_and_reap(5);
        EXPECT_EQ(ftruncate(f.memfd, 0), 0);
        front_kick_raw(&f, 1);
        EXPECT_SOON(front_stats(&f, 1).broken);
        EXPECT_STR(front_stats(&f, 1).broken, "memory-gone");
        EXPECT_SOON((broken = front_stats(&f, 0).broken != NULL));
        EXPECT_EQ(ftruncate(f.memfd, (off_t)f.bytes), 0); /* for our own mapping */
        front_disconnect(&f);
        front_connect(&f, 0, 64);
        send_and_reap(5);
        end();
        sigaction(SIGBUS, &before, NULL);
}

/* hostile B21 */
TEST(device_life, a_queue_that_read_what_is_gone_breaks_at_once)
{
        struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, before;

        EXPECT_EQ(sigaction(SIGBUS, &action, &before), 0);
        begin(1, 0, 64);
        EXPECT_EQ(offer(1), 1);
        EXPECT_EQ(ftruncate(f.memfd, (off_t)f.bufs), 0); /* the rings stay */
        front_kick(&f, 1);
        EXPECT_SOON(read_count(f.q[1].err) == 1); /* nothing but this wakes the device */
        EXPECT_SOON(read_count(f.q[0].err) == 1);
        EXPECT_EQ(ftruncate(f.memfd, (off_t)f.bytes), 0);
        end();
        sigaction(SIGBUS, &before, NULL);
}

/* hostile I02 */
TEST(device_life, a_call_fd_that_is_full_or_blocking_stops_nobody)
{
        uint64_t most = UINT64_MAX - 1;

        begin(1, 0, 64);
        read_count(f.q[1].call);
        EXPECT_EQ(write(f.q[1].call, &most, sizeof(most)), sizeof(most));
        EXPECT_EQ(fcntl(f.q[1].call, F_SETFL, 0), 0); /* no O_NONBLOCK: the file is shared */
        send_and_reap(50);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_call_errors], 0);
        EXPECT_EQ(fcntl(f.q[1].call, F_SETFL, O_NONBLOCK), 0);
        EXPECT_EQ(read_count(f.q[1].call), most);
        send_and_reap(1);
        EXPECT_SOON(read_count(f.q[1].call) == 1);
        end();
}

static void *fill_call_fd(void *arg)
{
        uint64_t most = UINT64_MAX - 1;

        for (;;)
                if (write(*(int *)arg, &most, sizeof(most)) < 0)
                        return NULL;
}

static void *empty_call_fd(void *arg)
{
        uint64_t n;

        for (;;)
                if (read(*(int *)arg, &n, sizeof(n)) < 0)
                        return NULL;
}

/* hostile I02: nor one that is filled in the moment between our look and our call */
TEST(device_life, a_race_for_a_blocking_call_does_not_hold_up_the_control_thread)
{
        unsigned rounds = (unsigned)test_scale(10, 200);

        begin(1, 0, 256);
        read_count(f.q[1].call);
        EXPECT_EQ(fcntl(f.q[1].call, F_SETFL, 0), 0);
        for (unsigned i = 0; i < rounds; i++) {
                uint64_t until = front_now() + UINT64_C(20000000), began;
                pthread_t threads[2];

                EXPECT_EQ(pthread_create(&threads[0], NULL, fill_call_fd, &f.q[1].call), 0);
                EXPECT_EQ(pthread_create(&threads[1], NULL, empty_call_fd, &f.q[1].call), 0);
                while (front_now() < until) {
                        offer(1);
                        front_kick(&f, 1);
                        front_reap(&f, 1, NULL, 64);
                }
                pthread_cancel(threads[1]);
                pthread_join(threads[1], NULL);
                pthread_cancel(threads[0]);
                pthread_join(threads[0], NULL); /* the counter is full now, more likely than not */
                began = front_now();
                front_stats(&f, 1);
                EXPECT(front_now() - began < UINT64_C(3000000000));
        }
        end();
}

/* hostile I01 */
TEST(device_life, calls_go_into_pipes_and_survive_closed_ones)
{
        int ends[2];
        uint64_t calls[600];

        begin(1, 0, 64);
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        EXPECT_EQ(vu_frontend_vring_fds(&f.fe, 1, f.q[1].kick, ends[1], -1), 0);
        send_and_reap(1);
        EXPECT_SOON(read(ends[0], calls, sizeof(calls)) > 0);
        EXPECT_EQ(calls[0], 1);
        for (unsigned i = 0; i < 9000; i++) /* more than a pipe holds */
                send_and_reap(1);
        close(ends[0]);
        close(ends[1]);
        for (unsigned i = 0; i < 10; i++)
                send_and_reap(1);
        EXPECT_EQ(front_stats(&f, 1).counters[VW_C_call_errors], 1);
        end();
}

static uint64_t cpu_of_process(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* hostile I04 */
TEST(device_life, a_kick_fd_that_stays_readable_wakes_once)
{
        uint64_t huge = UINT64_C(1) << 63, cpu, kicks;

        begin(1, 0, 64);
        front_stop(&f, 1);
        close(f.q[1].kick);
        f.q[1].kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
        front_start(&f, 1);
        EXPECT_EQ(write(f.q[1].kick, &huge, sizeof(huge)), sizeof(huge));
        send_and_reap(10);
        cpu = cpu_of_process();
        kicks = front_stats(&f, 1).counters[VW_C_kicks];
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        EXPECT(cpu_of_process() - cpu < 30000000); /* the control thread polls in this harness */
        EXPECT(front_stats(&f, 1).counters[VW_C_kicks] - kicks < 10);
        send_and_reap(10);
        end();
}

/* hostile I07 */
TEST(device_life, call_fds_are_replaced_under_load_and_each_is_signalled)
{
        unsigned rounds = (unsigned)test_scale(500, 10000), sent = 0, back = 0;
        uint64_t calls;
        int fd = -1;

        begin(1, F(event_idx), 64);
        for (unsigned i = 0; i < rounds; i++) {
                sent += offer(5);
                front_kick(&f, 1);
                if (fd >= 0)
                        close(fd);
                fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                EXPECT_EQ(vu_frontend_vring_fds(&f.fe, 1, f.q[1].kick, fd, -1), 0);
                EXPECT(read_count(fd) >= 1);
                back += front_reap(&f, 1, NULL, 64);
        }
        /* at the end no interrupt is lost: sleep by the fd */
        while (back < sent || vq_driver_call_enable(&f.q[1].vq)) {
                back += front_reap(&f, 1, NULL, 64);
                if (back < sent && !vq_driver_call_enable(&f.q[1].vq))
                        EXPECT_SOON(read_count(fd) > 0 || vq_driver_used_pending(&f.q[1].vq));
        }
        calls = front_stats(&f, 1).counters[VW_C_calls];
        EXPECT(calls >= rounds);
        close(fd);
        end();
}

/* hostile K04, K06: come and go, nothing stays behind */
TEST(device_life, serves_one_front_end_after_the_other_and_keeps_nothing)
{
        unsigned rounds = (unsigned)test_scale(50, 1000), fds = 0, mappings = 0;

        open_device(2);
        for (unsigned i = 0; i < rounds; i++) {
                int pair[2];

                front_connect(&f, F(event_idx) | F(mq) | F(ctrl_vq), 64);
                EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                pthread_mutex_lock(&f.lock);
                EXPECT_EQ(vw_device_serve(f.dev, pair[0]), -EBUSY);
                pthread_mutex_unlock(&f.lock);
                close(pair[0]);
                close(pair[1]);
                send_and_reap(50);
                offer(10); /* under way while it leaves */
                front_kick(&f, 1);
                front_disconnect(&f);
                EXPECT_SOON(__atomic_load_n(&f.left, __ATOMIC_RELAXED) == i + 1);
                if (i == 0) {
                        fds = mock_count_fds();
                        mappings = mock_count_mappings();
                }
                EXPECT_EQ(mock_count_fds(), fds);
                EXPECT_EQ(mock_count_mappings(), mappings);
        }
        EXPECT(front_stats(&f, 1).counters[VW_C_packets] >= rounds * 50);
        end();
}

TEST(device_life, a_ring_without_a_kick_fd_is_looked_at_by_the_clock)
{
        unsigned back = 0;

        open_device(1);
        front_hello(&f, 0, 64);
        for (unsigned i = 0; i < 2; i++) {
                front_ring(&f, i);
                EXPECT_EQ(vu_frontend_vring(&f.fe, i, 64, f.q[i].cfg.desc, f.q[i].cfg.avail, f.q[i].cfg.used,
                                            0),
                          0);
                EXPECT_EQ(vu_frontend_vring_fds(&f.fe, i, -1, -1, -1), 0);
                EXPECT_EQ(vu_frontend_vring_enable(&f.fe, i, true), 0);
        }
        EXPECT_EQ(offer(30), 30);
        vq_driver_publish(&f.q[1].vq);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 30);
        end();
}

TEST(device_life, vrings_come_in_any_order_and_sparse)
{
        unsigned order[] = { 7, 2, 8, 1 }, back = 0;

        open_device(4);
        front_hello(&f, F(mq) | F(ctrl_vq), 64);
        for (unsigned i = 0; i < ARRAY_SIZE(order); i++) {
                front_ring(&f, order[i]);
                front_start(&f, order[i]);
                EXPECT_EQ(vu_frontend_vring_enable(&f.fe, order[i], true), 0);
        }
        EXPECT_EQ(offer(30), 30);
        front_kick(&f, 1);
        EXPECT_SOON((back += front_reap(&f, 1, NULL, 64)) == 30);
        EXPECT(front_send(&f, 3, (const uint8_t[60]){ 2 }, 60, NULL));
        front_kick(&f, 7);
        EXPECT_SOON(front_reap(&f, 7, NULL, 64) == 1);
        EXPECT(!front_stats(&f, 3).enabled && front_stats(&f, 2).enabled);
        EXPECT_EQ(front_command(&f, "\4\0\2\0", 4, NULL, 0), VIRTIO_NET_OK);
        end();
}

/* Every queue says what it waits for */
TEST(device_life, tells_in_words_what_each_queue_does)
{
        static const struct {
                unsigned index;
                const char *words;
        } said[] = {
                {0,  "running; waits for frames from the port"                 },
                { 1, "running; nothing is offered; waits for the driver's kick"},
                { 2, "running; nothing is offered"                             },
                { 3, "there are 3 queues"                                      },
        };
        char text[1024];

        begin(1, F(event_idx) | F(ctrl_vq), 64);
        send_and_reap(3);
        for (unsigned i = 0; i < ARRAY_SIZE(said); i++) {
                int n;

                pthread_mutex_lock(&f.lock);
                n = vw_device_why(f.dev, said[i].index, text, sizeof(text));
                pthread_mutex_unlock(&f.lock);
                EXPECT(n > 0 && (size_t)n == strlen(text));
                if (strncmp(text, said[i].words, strlen(said[i].words)) != 0)
                        print_error("%s\n", text);
                EXPECT(strncmp(text, said[i].words, strlen(said[i].words)) == 0);
        }
        pthread_mutex_lock(&f.lock);
        EXPECT(vw_device_why(f.dev, 0, text, 10) > 10 && strlen(text) == 9);
        pthread_mutex_unlock(&f.lock);
        end();
}
