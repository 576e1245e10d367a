/* A driver joined to a port, against a scripted device: real threads, real sockets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/clock.h"
#include "mock_vhost.h"
#include "scale.h"
#include "script_device.h"
#include "sport.h"
#include "test.h"

#define PATIENCE (5 * NSEC_PER_SEC) /* for a thread that may have to wait for its turn on a busy machine */

/* What it says about a port that cannot be read. */
struct said {
        char text[200];
        unsigned lines;
};

struct joined {
        struct sd dev;
        struct sport sport; /* unless another port was asked for */
        struct vw_port *port;
        struct attach *a;
        char path[64];
        int listener;
        unsigned fds;
        struct said said;
};

static struct sockaddr_un address(const struct joined *t)
{
        struct sockaddr_un sun = { .sun_family = AF_UNIX };

        memcpy(sun.sun_path, t->path, strlen(t->path));
        return sun;
}

static void hear(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        struct said *said = ctx;

        if (!strstr(text, "cannot be read"))
                return;
        snprintf(said->text, sizeof(said->text), "%s: %s", component, text);
        __atomic_add_fetch(&said->lines, 1, __ATOMIC_RELEASE);
}

/* `port` NULL: a scripted one. */
static void join_open(struct joined *t, const char *port, unsigned pairs, unsigned workers, bool server)
{
        struct attach_config c = ATTACH_CONFIG_INIT;
        struct vw_port_config pc = { .pairs = pairs };
        struct sockaddr_un sun;
        const char *why = "";

        *t = (struct joined){ .fds = mock_count_fds() };
        snprintf(t->path, sizeof(t->path), "/tmp/vw-attach-%d.sock", (int)getpid());
        unlink(t->path);
        sun = address(t);
        t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        EXPECT_EQ(bind(t->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
        EXPECT_EQ(listen(t->listener, 4), 0);
        sd_init(&t->dev);
        if (port) {
                EXPECT_EQ(vw_port_open(port, &pc, &t->port, &why), 0);
        } else {
                sport_init(&t->sport);
                t->sport.tx_offloads = VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4;
                t->port = t->sport.port;
        }
        c.port = t->port;
        c.log = hear;
        c.log_ctx = &t->said;
        c.driver.pairs = pairs;
        c.workers = workers;
        c.nice = 0;
        if (server)
                c.listen_fd = t->listener;
        else
                c.connect_path = t->path;
        EXPECT_EQ(attach_new(&c, &t->a, &why), 0);
}

static void join_close(struct joined *t)
{
        attach_free(t->a);
        if (t->sport.port)
                sport_free(&t->sport);
        else
                vw_port_close(t->port);
        sd_done(&t->dev);
        close(t->listener);
        unlink(t->path);
        EXPECT_EQ(mock_count_fds(), t->fds);
}

/* The device's process comes up: it connects to the driver's socket. */
static void device_connects(struct joined *t)
{
        struct sockaddr_un sun = address(t);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        EXPECT_EQ(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
        sd_start(&t->dev, fd);
}

/* The device's process waits for the driver instead. */
struct acceptor {
        struct joined *t;
        pthread_t thread;
};

static void *accept_driver(void *arg)
{
        struct acceptor *acc = arg;
        struct pollfd p = { .fd = acc->t->listener, .events = POLLIN };

        EXPECT_EQ(poll(&p, 1, 5000), 1);
        sd_start(&acc->t->dev, accept4(p.fd, NULL, NULL, SOCK_CLOEXEC));
        return NULL;
}

static bool connected(struct joined *t)
{
        struct vw_driver_info info;

        vw_driver_info(attach_driver(t->a), &info);
        return info.connected;
}

/* Lets the control side work until it is (not) connected. */
static void steps_until(struct joined *t, bool wanted)
{
        uint64_t until = clock_now() + PATIENCE;

        while (connected(t) != wanted && clock_now() < until) {
                struct pollfd p = { .fd = attach_fd(t->a), .events = POLLIN };

                poll(&p, 1, 10);
                attach_step(t->a);
        }
        EXPECT_EQ(connected(t), wanted);
}

/* A frame that the port sends back, with the addresses swapped. */
static void echo(struct joined *t, unsigned pair, uint32_t len)
{
        uint8_t frame[9000], want[12];
        struct sd_frame f = { .len = 0 };
        uint64_t until = clock_now() + PATIENCE;

        for (uint32_t i = 0; i < len; i++)
                frame[i] = (uint8_t)(i * 7 + len);
        EXPECT(sd_receive(&t->dev, pair, NULL, frame, len));
        sd_call(&t->dev, 2 * pair);
        while (sd_take(&t->dev, pair, 1, &f) == 0 && clock_now() < until)
                usleep(100);
        EXPECT_EQ(f.len, len);
        memcpy(want, frame + 6, 6);
        memcpy(want + 6, frame, 6);
        EXPECT_MEM(f.bytes, want, 12);
        EXPECT_MEM(f.bytes + 12, frame + 12, MIN(len, sizeof(f.bytes)) - 12);
        sd_give_back(&t->dev, 2 * pair + 1, 1, 0);
        sd_call(&t->dev, 2 * pair + 1);
}

TEST(attach, passes_frames_both_ways)
{
        struct joined t;

        join_open(&t, "loop", 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        for (unsigned i = 0; i < 200; i++)
                echo(&t, 0, 60 + i * 7);
        join_close(&t);
}

TEST(attach, one_worker_serves_several_pairs)
{
        struct joined t;

        join_open(&t, "loop", 3, 1, true);
        device_connects(&t);
        steps_until(&t, true);
        for (unsigned i = 0; i < 60; i++)
                echo(&t, i % 3, 100 + i);
        join_close(&t);
}

TEST(attach, takes_the_next_device_when_one_has_left)
{
        struct joined t;

        join_open(&t, "loop", 1, 0, true);
        for (unsigned i = 0; i < test_scale(10, 100); i++) {
                device_connects(&t);
                steps_until(&t, true);
                echo(&t, 0, 100);
                sd_leave(&t.dev);
                steps_until(&t, false);
        }
        join_close(&t);
}

TEST(attach, connects_for_ever_to_a_path)
{
        struct joined t;
        char moved[80];

        join_open(&t, "loop", 1, 0, false);
        snprintf(moved, sizeof(moved), "%s.away", t.path);
        EXPECT_EQ(rename(t.path, moved), 0); /* nobody is there */
        for (unsigned i = 0; i < 5; i++) {
                EXPECT(attach_deadline(t.a) <= clock_now() + NSEC_PER_SEC);
                usleep(10000);
                attach_step(t.a);
                EXPECT(!connected(&t));
        }
        EXPECT_EQ(rename(moved, t.path), 0);
        for (unsigned i = 0; i < 3; i++) {
                struct acceptor acc = { .t = &t };

                EXPECT_EQ(pthread_create(&acc.thread, NULL, accept_driver, &acc), 0);
                steps_until(&t, true);
                pthread_join(acc.thread, NULL);
                echo(&t, 0, 100);
                sd_leave(&t.dev);
                steps_until(&t, false);
        }
        join_close(&t);
}

TEST(attach, a_second_device_is_turned_away)
{
        struct joined t;
        struct sockaddr_un sun;
        struct pollfd p = { .events = POLLIN };
        char c;

        join_open(&t, "loop", 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        sun = address(&t);
        p.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(connect(p.fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
        attach_step(t.a);
        EXPECT_EQ(poll(&p, 1, 5000), 1);
        EXPECT_EQ(recv(p.fd, &c, 1, 0), 0);
        close(p.fd);
        echo(&t, 0, 100);
        join_close(&t);
}

TEST(attach, a_device_that_breaks_all_rings_is_left)
{
        struct joined t;

        join_open(&t, "loop", 2, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        sd_raw_used_idx(&t.dev, 0, 1000);
        sd_call_anyway(&t.dev, 0);
        for (unsigned i = 0; i < 20; i++) { /* one pair is left: it goes on */
                usleep(1000);
                attach_step(t.a);
        }
        echo(&t, 1, 100);
        sd_raw_used_idx(&t.dev, 2, 1000);
        sd_call_anyway(&t.dev, 2);
        steps_until(&t, false);
        device_connects(&t);
        steps_until(&t, true);
        echo(&t, 0, 100);
        join_close(&t);
}

/* ---- the port's side ---- */

static void send_to_port(struct joined *t, uint32_t seq)
{
        uint8_t frame[1000] = { 0 };
        uint64_t until = clock_now() + PATIENCE;

        memcpy(frame + 14, &seq, sizeof(seq));
        while (!sd_receive(&t->dev, 0, NULL, frame, sizeof(frame)) && clock_now() < until)
                usleep(100);
        sd_call(&t->dev, 0);
}

static void expect_at_port(struct joined *t, uint32_t seq)
{
        uint8_t frame[2000];
        uint64_t until = clock_now() + PATIENCE;
        uint32_t got;
        int n;

        while ((n = sport_get(&t->sport, 0, frame, sizeof(frame), NULL)) < 0 && clock_now() < until)
                usleep(100);
        EXPECT_EQ(n, 1000);
        memcpy(&got, frame + 14, sizeof(got));
        EXPECT_EQ(got, seq);
}

TEST(attach, a_full_port_holds_the_device_back_and_loses_nothing)
{
        struct joined t;
        struct vw_stats *s = calloc(1, sizeof(*s));
        uint8_t frame[1000] = { 0 };
        uint32_t sent = 0;
        unsigned idle = 0;

        join_open(&t, NULL, 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        while (idle < 200) { /* until the device finds no buffers for long */
                memcpy(frame + 14, &sent, sizeof(sent));
                if (sd_receive(&t.dev, 0, NULL, frame, sizeof(frame))) {
                        sent++;
                        idle = 0;
                        sd_call(&t.dev, 0);
                } else {
                        idle++;
                        usleep(100);
                }
        }
        EXPECT(sent >= 256);
        for (uint32_t i = 0; i < sent; i++)
                expect_at_port(&t, i);
        for (uint32_t i = 0; i < 100; i++) {
                send_to_port(&t, sent + i);
                expect_at_port(&t, sent + i);
        }
        attach_stats(t.a, s);
        EXPECT_EQ(s->queues[0].counters[VW_C_packets], sent + 100);
        free(s);
        join_close(&t);
}

TEST(attach, a_device_that_takes_nothing_holds_the_port_back)
{
        struct joined t;
        uint8_t frame[1000] = { 0 };
        struct sd_frame f;
        uint32_t sent = 0, next = 0;
        unsigned calls, idle = 0;
        uint64_t until = clock_now() + PATIENCE;

        join_open(&t, NULL, 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        while (idle < 200) {
                memcpy(frame + 14, &sent, sizeof(sent));
                if (sport_put(&t.sport, 0, frame, sizeof(frame), NULL)) {
                        sent++;
                        idle = 0;
                } else {
                        idle++;
                        usleep(100);
                }
        }
        calls = __atomic_load_n(&t.sport.rx_calls, __ATOMIC_RELAXED);
        EXPECT(calls < sent + 10); /* what is not wanted is not read */
        usleep(20000);
        /* nor looked at again and again */
        EXPECT_EQ(__atomic_load_n(&t.sport.rx_calls, __ATOMIC_RELAXED), calls);
        while (next < sent && clock_now() < until) {
                uint32_t seq;

                if (sd_take(&t.dev, 0, 1, &f) == 0) {
                        usleep(100);
                        continue;
                }
                memcpy(&seq, f.bytes + 14, sizeof(seq));
                EXPECT_EQ(seq, next++);
                sd_give_back(&t.dev, 1, 1, 0);
                sd_call(&t.dev, 1);
        }
        EXPECT_EQ(next, sent);
        join_close(&t);
}

TEST(attach, frames_that_the_port_loses_are_counted_by_its_reason)
{
        struct joined t;
        struct vw_stats *s = calloc(1, sizeof(*s));
        uint64_t until = clock_now() + PATIENCE;

        join_open(&t, NULL, 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        __atomic_store_n(&t.sport.tx_errno, ENETDOWN, __ATOMIC_RELAXED);
        for (uint32_t i = 0; i < 5; i++)
                send_to_port(&t, i);
        do
                attach_stats(t.a, s);
        while (s->queues[0].drops[VW_DROP_PORT_DOWN] < 5 && clock_now() < until);
        __atomic_store_n(&t.sport.tx_errno, EINVAL, __ATOMIC_RELAXED);
        for (uint32_t i = 0; i < 3; i++)
                send_to_port(&t, i);
        do
                attach_stats(t.a, s);
        while (s->queues[0].drops[VW_DROP_PORT_ERROR] < 3 && clock_now() < until);
        __atomic_store_n(&t.sport.tx_errno, 0, __ATOMIC_RELAXED);
        send_to_port(&t, 77);
        expect_at_port(&t, 77);
        do
                attach_stats(t.a, s);
        while (s->queues[0].counters[VW_C_packets] < 1 && clock_now() < until);
        EXPECT_EQ(s->queues[0].drops[VW_DROP_PORT_DOWN], 5);
        EXPECT_EQ(s->queues[0].drops[VW_DROP_PORT_ERROR], 3);
        EXPECT_EQ(s->queues[0].counters[VW_C_packets], 1);
        EXPECT_EQ(s->queues[0].counters[VW_C_bytes], 1000);
        EXPECT(s->has_port);
        EXPECT_STR(s->port.kind, "script");
        free(s);
        join_close(&t);
}

/* hostile J02 */
TEST(attach, a_port_that_cannot_be_read_is_told_once)
{
        uint64_t until = clock_now() + PATIENCE;
        struct joined t;
        uint32_t seq = 0;

        join_open(&t, NULL, 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        for (unsigned i = 0; i < 2; i++) {
                __atomic_store_n(&t.sport.rx_errno, ENODEV, __ATOMIC_RELAXED);
                while (__atomic_load_n(&t.sport.rx_errno, __ATOMIC_RELAXED) && clock_now() < until) {
                        send_to_port(&t, seq);
                        expect_at_port(&t, seq++);
                }
        }
        EXPECT_EQ(__atomic_load_n(&t.sport.rx_errno, __ATOMIC_RELAXED), 0);
        join_close(&t);
        EXPECT_EQ(t.said.lines, 1);
        EXPECT_STR(t.said.text, "driver: port cannot be read pair=0 errno=19 error=\"No such device\"");
}

/* hostile J14 */
TEST(attach, what_a_full_disk_keeps_from_a_capture_is_told)
{
        struct joined t;
        struct vw_stats *s = calloc(1, sizeof(*s));

        join_open(&t, NULL, 1, 0, true);
        device_connects(&t);
        steps_until(&t, true);
        EXPECT_EQ(vw_port_capture(t.port, open("/dev/full", O_WRONLY | O_CLOEXEC)), 0);
        for (uint32_t i = 0; i < 5; i++) {
                send_to_port(&t, i);
                expect_at_port(&t, i);
        }
        EXPECT_EQ(vw_port_capture(t.port, -1), 0);
        attach_stats(t.a, s);
        EXPECT_EQ(s->port.capture_lost, 5);
        free(s);
        join_close(&t);
}

TEST(attach, the_port_becomes_what_the_device_is)
{
        struct joined t;
        struct vw_setting queues = { -1, VW_KEY_QUEUES, 1 };
        struct sd_command cmd;
        const char *why = "";

        join_open(&t, NULL, 2, 0, true);
        EXPECT(!t.sport.carrier);
        t.sport.bridged = true;
        device_connects(&t);
        steps_until(&t, true);
        EXPECT(t.sport.carrier);
        EXPECT_MEM(t.sport.mac, t.dev.config.mac, 6);
        EXPECT_EQ(t.sport.mtu, 1500);
        EXPECT_EQ(t.sport.active, 2);
        EXPECT_EQ(t.sport.rx_offloads,
                  VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 | VW_OFFLOAD_TSO6 | VW_OFFLOAD_ECN | VW_OFFLOAD_USO);
        EXPECT(sd_last_command(&t.dev, &cmd));
        EXPECT_MEM(cmd.bytes, "\0\0\1", 3); /* promiscuous, for the bridge's sake */
        t.sport.bridged = false;
        sport_event(&t.sport);
        attach_step(t.a);
        EXPECT(sd_last_command(&t.dev, &cmd));
        EXPECT_MEM(cmd.bytes, "\0\0\0", 3);
        EXPECT_EQ(vw_driver_set(attach_driver(t.a), &queues, 1, &why), 0);
        EXPECT_EQ(t.sport.active, 1);
        attach_link(t.a, false);
        EXPECT(!t.sport.carrier);
        attach_link(t.a, true);
        EXPECT(t.sport.carrier);
        sd_lock(&t.dev);
        t.dev.config.status = 0;
        sd_unlock(&t.dev);
        sd_config_changed(&t.dev);
        attach_step(t.a);
        EXPECT(!t.sport.carrier);
        sd_leave(&t.dev);
        steps_until(&t, false);
        EXPECT_EQ(t.sport.rx_offloads, 0);
        join_close(&t);
}
