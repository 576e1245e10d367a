/* `vwire device`: the back end of one virtio-net device, for a VM monitor or another vhost-user front end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "end.h"
#include "log.h"
#include "stop.h"
#include "vwire/device.h"

#define RETRY_LEAST_NS 10000000   /* 10 ms: a front end that restarts is back soon */
#define RETRY_MOST_NS  1000000000 /* 1 s: promised in the interface */
#define HEAR_OUT_MAX   256 /* messages; a whole set-up of a large device waits for none of its own answers */

static struct device_options {
        bool client, print_capabilities;
        int fd;
        unsigned mtu, socket_mode;
        gid_t socket_group;
        int count_vrings;
} options = { .fd = -1, .socket_mode = 0600, .socket_group = (gid_t)-1 };

static const char *const queue_num_words[] = { "pairs", "vrings", NULL };

#define D struct device_options
static const struct opt rows[] = {
        ROW_FLAG(D, client, "client", "connect to PATH instead of listening, for ever"),
        ROW_SIGNED(D, fd, "fd", 0, 1 << 20, NULL,
                   "inherited socket, listening, or connected: then the program ends with the connection"),
        ROW_FLAG(D, print_capabilities, "print-capabilities",
                 "print what a QEMU back-end program must, and exit"),
        ROW_NUMBER(D, mtu, "mtu", 68, 65535, "none", "MTU offered to the guest, in bytes"),
        ROW_OTHER(D, socket_mode, "socket-mode", "MODE", value_mode, "0600",
                  "permissions of the listening socket"),
        ROW_OTHER(D, socket_group, "socket-group", "GROUP", value_group, NULL, "its group"),
        ROW_WORD(D, count_vrings, "queue-num", queue_num_words, "pairs", "what GET_QUEUE_NUM counts"),
};
#undef D

static const struct opt_group group = {
        .title = "of a device only", .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options
};

static const struct opt_group *const groups[] = { &end_group, &group, &log_options };

static const struct opt_page page = {
        .command = "vwire device",
        .usage = "--socket-path=PATH --port=PORT [options]",
        .about = "Serves one virtio-net device over vhost-user: gives a VM a NIC whose frames go to PORT.",
        .examples =
                "  vwire device --socket-path=/run/vm1.sock --port=tap:tap0\n"
                "  qemu-system-x86_64 ... -object memory-backend-memfd,id=m,size=1G,share=on -numa node,memdev=m \\\n"
                "      -chardev socket,id=c,path=/run/vm1.sock -netdev vhost-user,id=n,chardev=c \\\n"
                "      -device virtio-net-pci,netdev=n\n"
                "  linux.uml mem=512M ... virtio_uml.device=/run/vm1.sock:1\n",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
};

struct device {
        struct end end; /* first: the shared control callbacks begin here */
        struct vw_device *dev;
        struct sock_listener listener;
        bool once; /* a connected socket was inherited */
        /* client role */
        uint64_t retry_at, retry_after;
        bool said_waiting;
};

/* ---- control ---- */

static void on_stats(void *ctx, struct vw_stats *ret_stats)
{
        struct device *d = ctx;

        vw_device_stats(d->dev, ret_stats);
}

static int on_get(void *ctx, int queue, enum vw_key key, int64_t *ret_value)
{
        struct device *d = ctx;

        return vw_device_get(d->dev, queue, key, ret_value);
}

static int on_set(void *ctx, const struct vw_setting *settings, unsigned n, const char **ret_why)
{
        struct device *d = ctx;

        return vw_device_set(d->dev, settings, n, ret_why);
}

static int on_why(void *ctx, unsigned index, char *buf, size_t len)
{
        struct device *d = ctx;

        return vw_device_why(d->dev, index, buf, len);
}

static int on_link(void *ctx, bool up)
{
        struct device *d = ctx;

        return vw_device_link(d->dev, up);
}

static const struct ctl_ops ctl_ops = {
        .stats = on_stats,
        .get = on_get,
        .set = on_set,
        .why = on_why,
        .link = on_link,
        .pcap = end_capture,
        .stop = end_stop,
};

/* ---- the front end comes and goes ---- */

/* True if it is served now; the fd is gone in either case. */
static bool serve(struct device *d, int fd)
{
        int r = vw_device_serve(d->dev, fd);

        if (r == 0) {
                log_say(VW_LOG_INFO, "device", "a front end connected");
                return true;
        }
        if (r == -EBUSY)
                log_say(VW_LOG_WARN, "device",
                        "refused a second front end: this socket serves one at a time");
        else
                log_say(VW_LOG_ERROR, "device", "cannot serve the front end: %s", strerror(-r));
        close(fd);
        return false;
}

/* A front end that comes again has left before: what it said last and its end may wait to be read. */
static void hear_out(struct device *d)
{
        struct pollfd peer = { .fd = vw_device_fd(d->dev), .events = POLLIN };

        for (unsigned i = 0; i < HEAR_OUT_MAX && vw_device_serving(d->dev) && poll(&peer, 1, 0) > 0; i++)
                vw_device_dispatch(d->dev);
}

static void accept_one(struct device *d)
{
        int fd = sock_accept(&d->listener);

        if (fd >= 0) {
                hear_out(d);
                serve(d, fd);
        }
        if (fd < 0 && fd != -EAGAIN)
                log_say(VW_LOG_WARN, "device", "a front end could not be accepted: %s", strerror(-fd));
}

static void dial(struct device *d)
{
        int fd = sock_dial(end_options.socket_path);

        if (fd >= 0 && serve(d, fd)) {
                d->retry_after = RETRY_LEAST_NS;
                d->said_waiting = false;
                return;
        }
        if (!d->said_waiting)
                log_say(VW_LOG_INFO, "device", "nobody listens yet, trying on: %s path=%s",
                        strerror(fd < 0 ? -fd : EIO), end_options.socket_path);
        d->said_waiting = true;
        d->retry_at = end_now() + d->retry_after;
        d->retry_after = d->retry_after * 2 > RETRY_MOST_NS ? RETRY_MOST_NS : d->retry_after * 2;
}

static int loop(struct device *d)
{
        enum { PEER, LISTENER, N };

        for (;;) {
                struct pollfd own[N] = {
                        [PEER] = {.fd = vw_device_fd(d->dev), .events = POLLIN},
                        [LISTENER] = { .fd = d->listener.fd,      .events = POLLIN},
                };
                bool dialling = options.client && !vw_device_serving(d->dev);

                if (end_turn(&d->end, own, N, dialling ? d->retry_at : END_NEVER))
                        return STATUS_OK;
                if (own[PEER].revents && vw_device_dispatch(d->dev) < 0 && d->once)
                        return STATUS_OK;
                if (own[LISTENER].revents)
                        accept_one(d);
                if (options.client && !vw_device_serving(d->dev) && end_now() >= d->retry_at)
                        dial(d);
        }
}

/* ---- set-up ---- */

static int make_device(struct device *d)
{
        const struct end_options *o = &end_options;
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        const char *why = "";
        int r;

        config.port = d->end.port;
        config.pairs = o->queues;
        config.workers = o->workers;
        memcpy(config.mac, o->mac, sizeof(config.mac));
        config.mtu = options.mtu;
        config.features = o->features;
        config.count_vrings = options.count_vrings;
        config.nice = o->nice;
        config.cpus = o->cpus.cpu;
        config.n_cpus = o->cpus.n;
        config.poll_us = o->poll_us;
        config.tx_usecs = o->tx_usecs;
        config.tx_frames = o->tx_frames;
        config.rx_usecs = o->rx_usecs;
        config.rx_frames = o->rx_frames;
        config.adaptive = (enum vw_adaptive)o->adaptive;
        r = vw_device_new(&config, &d->dev, &why);
        if (r == 0)
                return -1;
        log_say(VW_LOG_ERROR, "device", "no device: %s", *why ? why : strerror(-r));
        return STATUS_FAILED;
}

static int inherit(struct device *d)
{
        int listens;
        socklen_t len = sizeof(listens);

        if (getsockopt(options.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
                return opts_refuse("vwire device", "--fd=%d is not a socket: %s", options.fd,
                                   strerror(errno));
        if (listens) {
                sock_inherit(&d->listener, options.fd);
                log_say(VW_LOG_INFO, "device", "listening fd=%d", options.fd);
                return -1;
        }
        d->once = true;
        fcntl(options.fd, F_SETFL, fcntl(options.fd, F_GETFL) | O_NONBLOCK);
        fcntl(options.fd, F_SETFD, FD_CLOEXEC);
        return serve(d, options.fd) ? -1 : STATUS_FAILED;
}

static int find_peer(struct device *d)
{
        const char *path = end_options.socket_path, *why;

        if (options.fd >= 0)
                return inherit(d);
        if (options.client) {
                log_say(VW_LOG_INFO, "device", "connecting path=%s", path);
                return -1;
        }
        if (sock_listen(&d->listener, path, options.socket_mode, options.socket_group, &why) < 0) {
                log_say(VW_LOG_ERROR, "device", "%s", why);
                return STATUS_FAILED;
        }
        stop_removes(path);
        log_say(VW_LOG_INFO, "device", "listening path=%s", path);
        return -1;
}

static int check_options(void)
{
        if (!end_options.port)
                return opts_refuse("vwire device", "--port=PORT is missing: see vwire device --help");
        if (!end_options.socket_path == (options.fd < 0))
                return opts_refuse("vwire device",
                                   "give one of --socket-path=PATH and --fd=N: see vwire device --help");
        if (options.client && !end_options.socket_path)
                return opts_refuse("vwire device", "--client needs --socket-path=PATH");
        return -1;
}

static int run(void)
{
        struct device d = {
                .end = {.component = "device", .command = "vwire device"},
                .listener = SOCK_LISTENER_NONE,
                .retry_after = RETRY_LEAST_NS,
        };
        int status = check_options();

        if (status < 0)
                status = end_start(&d.end);
        if (status < 0)
                status = end_open_port(&d.end, options.mtu);
        if (status < 0)
                status = make_device(&d);
        if (status < 0)
                status = end_open_ctl(&d.end, &ctl_ops, &d);
        if (status < 0)
                status = find_peer(&d);
        if (status < 0) {
                end_ready(&d.end);
                status = loop(&d);
        }
        sock_close(&d.listener);
        vw_device_free(d.dev);
        end_close(&d.end);
        return status;
}

int cmd_device(int argc, char **argv)
{
        struct opts *opts;
        int status = opts_start(&page, argc, argv, &opts);

        if (status < 0 && options.print_capabilities) {
                puts("{\"type\":\"net\",\"features\":[]}");
                status = STATUS_OK;
        }
        if (status < 0)
                status = run();
        opts_free(opts);
        return status;
}
