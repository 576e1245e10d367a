/* A driver joined to a port, against a scripted device: real threads, real sockets. */
#include <poll.h>
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
#include "test.h"

#define PATIENCE (5 * NSEC_PER_SEC) /* for a thread that may have to wait for its turn on a busy machine */

struct joined {
        struct sd dev;
        struct vw_port *port;
        struct attach *a;
        char path[64];
        int listener;
        unsigned fds;
};

static struct sockaddr_un address(const struct joined *t)
{
        struct sockaddr_un sun = { .sun_family = AF_UNIX };

        memcpy(sun.sun_path, t->path, strlen(t->path));
        return sun;
}

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
        EXPECT_EQ(vw_port_open(port, &pc, &t->port, &why), 0);
        c.port = t->port;
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
