/* `vwire device`: the back end of one virtio-net device, for a VM monitor or another vhost-user front end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "end.h"
#include "log.h"
#include "sandbox/door.h"
#include "sandbox/sandbox.h"
#include "stop.h"
#include "vwire/device.h"

#define RETRY_LEAST_NS 10000000   /* 10 ms: a front end that restarts is back soon */
#define RETRY_MOST_NS  1000000000 /* 1 s: promised in the interface */
#define HEAR_OUT_MAX   256 /* messages; a whole set-up of a large device waits for none of its own answers */

/* the workers: this one, a capture's writer, and one that has ended and still counts */
#define THREADS_BESIDES 3
#define FDS_PER_QUEUE   4 /* kick, call, err, and a new one on its way */
/* regions of memory (509), messages' fds, clients, the port and what a thread needs */
#define FDS_BESIDES 640

static struct device_options {
        bool client, print_capabilities;
        int fd;
        unsigned mtu, socket_mode;
        gid_t socket_group;
        int count_vrings;
        uint32_t sandbox; /* layers */
} options = { .fd = -1, .socket_mode = 0600, .socket_group = (gid_t)-1, .sandbox = VW_SANDBOX_ALL };

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
        ROW_OTHER(
                D, sandbox, "sandbox", "-LAYER,-LAYER", value_sandbox, "all layers",
                "layers to do without: user, network, ipc, mount, rlimits, capabilities, dumpable, no_new_privs, "
                "landlock, seccomp; or off. One that the system refuses and that is not named here ends the program"),
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
        struct sandbox sandbox;
        int nice;  /* of this thread, when there is a sandbox */
        int door;  /* who connects and removes sockets for us, or -1 */
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
        ret_stats->has_sandbox = true;
        ret_stats->sandbox_on = d->sandbox.on;
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

static int on_trace(void *ctx, int fd)
{
        struct device *d = ctx;

        return vw_device_trace(d->dev, fd);
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
        .trace = on_trace,
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
        char quoted[256];
        int fd = d->door >= 0 ? door_dial(d->door) : sock_dial(end_options.socket_path);

        if (fd >= 0 && serve(d, fd)) {
                d->retry_after = RETRY_LEAST_NS;
                d->said_waiting = false;
                return;
        }
        if (!d->said_waiting)
                log_say(VW_LOG_INFO, "device", "nobody listens yet, trying on: %s path=%s",
                        strerror(fd < 0 ? -fd : EIO),
                        vw_log_value(end_options.socket_path, quoted, sizeof(quoted)));
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

/* The inherited socket: it listens, or its front end is there already. */
static int take_socket(struct device *d, int fd)
{
        int listens, domain = 0, type = 0;
        socklen_t len = sizeof(int), none = 0;
        struct sockaddr nobody;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
                return opts_refuse("vwire device", "--fd=%d is not a socket: %s", fd, strerror(errno));
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
        if (domain != AF_UNIX || type != SOCK_STREAM)
                return opts_refuse("vwire device", "--fd=%d is not a Unix stream socket", fd);
        if (!listens && getpeername(fd, &nobody, &none) < 0)
                return opts_refuse("vwire device", "--fd=%d neither listens nor is connected", fd);
        d->once = !listens;
        if (listens) {
                sock_inherit(&d->listener, fd);
                return -1;
        }
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        return -1;
}

/* Finds the socket; what is done with it waits until the device is there. */
static int open_socket(struct device *d)
{
        const char *path = end_options.socket_path, *why;

        if (options.fd >= 0)
                return take_socket(d, options.fd);
        if (options.client)
                return -1;
        if (sock_listen(&d->listener, path, options.socket_mode, options.socket_group, &why) < 0) {
                log_say(VW_LOG_ERROR, "device", "%s", why);
                return STATUS_FAILED;
        }
        stop_removes(path);
        return -1;
}

static int meet_peers(struct device *d)
{
        char quoted[256];

        if (d->once)
                return serve(d, options.fd) ? -1 : STATUS_FAILED;
        if (options.fd >= 0)
                log_say(VW_LOG_INFO, "device", "listening fd=%d", options.fd);
        else
                log_say(VW_LOG_INFO, "device", "%s path=%s", options.client ? "connecting" : "listening",
                        vw_log_value(end_options.socket_path, quoted, sizeof(quoted)));
        return -1;
}

/* ---- the sandbox ---- */

static int door_dials(void *ctx)
{
        (void)ctx;
        return sock_dial(end_options.socket_path);
}

static void door_clears(void *ctx)
{
        const struct device *d = ctx;

        sock_remove(&d->listener);
        if (d->end.ctl)
                sock_remove(ctl_server_listener(d->end.ctl));
}

static int make_door(struct device *d)
{
        static const struct door_ops ops = { .dial = door_dials, .clear = door_clears };

        if (!options.client && !*d->listener.path && !d->end.ctl)
                return -1; /* nothing to ask for */
        d->door = door_open(&ops, d);
        if (d->door < 0) {
                log_say(VW_LOG_ERROR, "device", "no process can be made for the sandbox's door: %s",
                        strerror(-d->door));
                return STATUS_FAILED;
        }
        sock_keep(&d->listener);
        if (d->end.ctl)
                sock_keep(ctl_server_listener(d->end.ctl));
        stop_asks(d->door);
        return -1;
}

static int say_missing(const struct sandbox *sb)
{
        uint32_t missing = 0;
        char names[200];

        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT; l++)
                if (sb->error[l]) {
                        missing |= 1u << l;
                        log_say(VW_LOG_ERROR, "device", "no sandbox layer %s: %s: %s",
                                vw_sandbox_layer_name(l), sb->why[l], strerror(-sb->error[l]));
                }
        sandbox_names(missing, "-", names, sizeof(names));
        log_say(VW_LOG_ERROR, "device", "the sandbox is not whole: --sandbox=%s goes without", names);
        return STATUS_FAILED;
}

static int enter_sandbox(struct device *d)
{
        unsigned workers = end_options.workers ? end_options.workers : end_options.queues;
        int status;

        if (!options.sandbox)
                return -1;
        status = make_door(d);
        if (status >= 0)
                return status;
        d->sandbox.wanted = options.sandbox;
        d->sandbox.threads = workers + THREADS_BESIDES;
        d->sandbox.fds = FDS_BESIDES + FDS_PER_QUEUE * (2 * end_options.queues + 1);
        d->nice = getpriority(PRIO_PROCESS, 0);
        setpriority(PRIO_PROCESS, 0, end_options.nice); /* workers inherit it; later it cannot be had */
        return sandbox_enter(&d->sandbox) < 0 ? say_missing(&d->sandbox) : -1;
}

static int seal_worker(void *ctx)
{
        return sandbox_seal(ctx, SANDBOX_WORKER);
}

/* The control thread's own part, when nothing has to be set up any more. */
static int seal(struct device *d)
{
        if (options.sandbox)
                setpriority(PRIO_PROCESS, 0, d->nice);
        return sandbox_seal(&d->sandbox, SANDBOX_CONTROL) < 0 ? say_missing(&d->sandbox) : -1;
}

/* ---- life ---- */

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
        config.features = o->features.mask;
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
        config.worker_start = seal_worker;
        config.worker_ctx = &d->sandbox;
        r = vw_device_new(&config, &d->dev, &why);
        if (r == 0)
                return -1;
        if (d->sandbox.error[VW_SANDBOX_SECCOMP])
                return say_missing(&d->sandbox);
        log_say(VW_LOG_ERROR, "device", "no device: %s", *why ? why : strerror(-r));
        return STATUS_FAILED;
}

static int check_options(const struct device *d)
{
        if (!end_options.port)
                return opts_refuse("vwire device", "--port=PORT is missing: see vwire device --help");
        if (!end_options.socket_path == (options.fd < 0))
                return opts_refuse("vwire device",
                                   "give one of --socket-path=PATH and --fd=N: see vwire device --help");
        if (options.client && !end_options.socket_path)
                return opts_refuse("vwire device", "--client needs --socket-path=PATH");
        return end_check_options(&d->end, false);
}

static int set_up(struct device *d)
{
        int status = check_options(d);

        if (status < 0)
                status = end_start(&d->end);
        if (status < 0)
                status = end_open_port(&d->end, options.mtu);
        if (status < 0)
                status = end_open_ctl(&d->end, &ctl_ops, d);
        if (status < 0)
                status = open_socket(d);
        if (status < 0)
                status = enter_sandbox(d);
        if (status < 0)
                status = make_device(d);
        if (status < 0)
                status = seal(d);
        if (status < 0)
                status = end_start_capture(&d->end);
        return status < 0 ? meet_peers(d) : status;
}

static int run(const char *const *words)
{
        struct device d = {
                .end = END_INIT("device", "vwire device"),
                .listener = SOCK_LISTENER_NONE,
                .door = -1,
                .retry_after = RETRY_LEAST_NS,
        };
        int status;

        (void)words;
        if (options.print_capabilities) {
                puts("{\"type\":\"net\",\"features\":[]}");
                return STATUS_OK;
        }
        status = set_up(&d);
        if (status < 0) {
                end_ready(&d.end);
                status = loop(&d);
        }
        if (d.door >= 0)
                door_clear(d.door);
        sock_close(&d.listener);
        vw_device_free(d.dev);
        end_close(&d.end);
        return status;
}

int cmd_device(int argc, char **argv)
{
        return opts_run(&page, argc, argv, run);
}
