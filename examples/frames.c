/* frames: sends frames through a virtio-net driver and counts what comes back.
 *
 *     frames SOCKET [COUNT]       a vhost-user back end's socket, say `vwire device --socket-path=S --port=loop`
 *     frames --fd=N [COUNT]       the same on an inherited, connected socket
 *
 * One thread is both the control thread and the owner of the only queue pair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <vwire/driver.h>

#define FRAME_LEN 64

struct app {
        struct vw_driver *drv;
        unsigned sent, done, received;
};

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Received: the pieces are ours until we return; fewer than n would make the rest wait. */
static unsigned on_rx(void *ctx, unsigned pair, struct vw_rx_pkt *pkts, unsigned n)
{
        struct app *app = ctx;

        (void)pair;
        for (unsigned i = 0; i < n; i++)
                if (pkts[i].len == FRAME_LEN)
                        app->received++;
        return n;
}

/* Sent: the cookie is the buffer, which may be used again now. */
static void on_tx_done(void *ctx, unsigned pair, void *const *cookies, unsigned n)
{
        struct app *app = ctx;

        for (unsigned i = 0; i < n; i++)
                vw_driver_buf_put(app->drv, pair, cookies[i]);
        app->done += n;
}

static void send_one(struct app *app, bool more)
{
        unsigned char *frame = vw_driver_buf_get(app->drv, 0);

        if (!frame)
                return; /* all are with the device; tx_done brings them back */
        memset(frame, 0, FRAME_LEN);
        memset(frame, 0xff, 6); /* to everyone */
        frame[6] = 0x02;        /* from a local address */
        frame[12] = 0x88;       /* an ethertype for experiments */
        frame[13] = 0xb5;
        struct iovec iov = { .iov_base = frame, .iov_len = FRAME_LEN };
        struct vw_tx_pkt pkt = { .iov = &iov, .n_iov = 1, .cookie = frame };

        if (vw_driver_xmit(app->drv, 0, &pkt, 1, more) == 1)
                app->sent++;
        else
                vw_driver_buf_put(app->drv, 0, frame);
}

static int connect_to(const char *where)
{
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        int fd;

        if (!strncmp(where, "--fd=", 5))
                return atoi(where + 5);
        snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", where);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
                perror(where);
                close(fd);
                return -1;
        }
        return fd;
}

int main(int argc, char **argv)
{
        static const struct vw_driver_ops ops = { .rx = on_rx, .tx_done = on_tx_done };
        struct app app = { 0 };
        struct vw_driver_config config = VW_DRIVER_CONFIG_INIT;
        unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
        const char *why = "";
        uint64_t end = now() + 10 * UINT64_C(1000000000);
        int fd;

        if (argc < 2) {
                fprintf(stderr, "usage: frames SOCKET|--fd=N [COUNT]\n");
                return 2;
        }
        config.ops = &ops;
        config.ctx = &app;
        config.tx_bufs = 256;
        if (vw_driver_new(&config, &app.drv, &why) < 0) {
                fprintf(stderr, "frames: %s\n", why);
                return 1;
        }
        fd = connect_to(argv[1]);
        if (fd >= 0 && vw_driver_connect(app.drv, fd, &why) < 0) {
                fprintf(stderr, "frames: %s\n", why);
                close(fd); /* still ours */
                fd = -1;
        }
        if (fd < 0) {
                vw_driver_free(app.drv);
                return 1;
        }

        while (app.received < count && now() < end) {
                /* half a ring at a time, so that what comes back has room behind the device */
                for (unsigned i = 0; i < 64 && app.sent < count && app.sent - app.received < 128; i++)
                        send_one(&app, i < 63);
                if (vw_driver_poll(app.drv, 0, 64) == 64)
                        continue;
                if (vw_driver_dispatch(app.drv) < 0)
                        break; /* the device has left */
                vw_driver_wait(app.drv, 0, now() + 10000000);
        }
        printf("sent %u, completed %u, received %u\n", app.sent, app.done, app.received);
        vw_driver_free(app.drv);
        return app.received == count ? 0 : 1;
}
