/* `vwire driver`: a virtio-net driver with a NIC of its own, for any vhost-user device. */
#include <string.h>

#include "attach/attach.h"
#include "cli.h"
#include "end.h"
#include "log.h"
#include "stop.h"

enum { RING_AUTO, RING_SPLIT, RING_PACKED };

static struct driver_options {
        bool server;
        unsigned queue_size, ctrl_timeout_ms, watchdog_ms;
        int ring, tx_mode, clean_tx_from_rx, shared_interrupt, tx_interrupts, kick, bql, rx_buffers;
} options = {
        .queue_size = 256, .ctrl_timeout_ms = 1000, .watchdog_ms = 5000, .clean_tx_from_rx = -1, .bql = 1
};

static const char *const ring_words[] = { "auto", "split", "packed", NULL };
static const char *const tx_mode_words[] = { "napi", "orphan", NULL };
static const char *const switch_words[] = { "off", "on", NULL };
static const char *const interrupt_words[] = { "lazy", "eager", NULL };
static const char *const kick_words[] = { "burst", "each", NULL };
static const char *const buffer_words[] = { "auto", "mtu", "page", NULL };

#define D struct driver_options
static const struct opt rows[] = {
        ROW_FLAG(D, server, "server", "listen on PATH instead of connecting"),
        ROW_OTHER(D, queue_size, "queue-size", "N", value_ring_size, "256",
                  "entries of a ring, a power of two, 2..32768"),
        ROW_WORD(D, ring, "ring", ring_words, "auto", "ring layout"),
        ROW_WORD(
                D, tx_mode, "tx-mode", tx_mode_words, "napi",
                "napi: completions drive the queue and release packets; orphan: packets are released at transmission"),
        ROW_WORD(D, clean_tx_from_rx, "clean-tx-from-rx", switch_words, "on in napi mode, off in orphan mode",
                 "reap tx completions in the rx poll"),
        ROW_WORD(D, shared_interrupt, "shared-interrupt", switch_words, "off",
                 "one interrupt for both queues of a pair instead of one each"),
        ROW_WORD(D, tx_interrupts, "tx-interrupts", interrupt_words, "lazy",
                 "in napi mode: for completions that something waits for, or for each"),
        ROW_WORD(D, kick, "kick", kick_words, "burst", "wake the device once a burst, or for each packet"),
        ROW_WORD(D, bql, "bql", switch_words, "on", "byte queue limit"),
        ROW_WORD(D, rx_buffers, "rx-buffers", buffer_words, "auto",
                 "size of receive buffers: by the average length, one packet of the MTU, a page"),
        ROW_NUMBER(D, ctrl_timeout_ms, "ctrl-timeout-ms", 1, 60000, "1000",
                   "milliseconds that a control command may take"),
        ROW_NUMBER(D, watchdog_ms, "watchdog-ms", 1, 600000, "5000",
                   "milliseconds after which a device that completes nothing is given up"),
};
#undef D

static const struct opt_group group = {
        .title = "of a driver only", .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &options
};

static const struct opt_group *const groups[] = { &end_group, &group, &log_options };

static const struct opt_page page = {
        .command = "vwire driver",
        .usage = "--socket-path=PATH --port=PORT [options]",
        .about =
                "Drives a vhost-user network device: gives a container or a namespace a NIC on any vhost-user back end. With a "
                "TAP as PORT the kernel's network stack uses it.",
        .examples =
                "  vwire driver --socket-path=/run/net.sock --port=tap:eth0,netns=web\n"
                "  vwire driver --socket-path=/run/net.sock --port=tap:eth0 --queues=4 --queue-size=1024\n",
        .groups = groups,
        .n_groups = ARRAY_LEN(groups),
};

struct driver {
        struct end end; /* first: the shared control callbacks begin here */
        struct attach *attach;
        struct sock_listener listener;
};

/* ---- control ---- */

static void on_stats(void *ctx, struct vw_stats *ret_stats)
{
        struct driver *d = ctx;

        attach_stats(d->attach, ret_stats);
}

static int on_get(void *ctx, int queue, enum vw_key key, int64_t *ret_value)
{
        struct driver *d = ctx;

        return vw_driver_get(attach_driver(d->attach), queue, key, ret_value);
}

static int on_set(void *ctx, const struct vw_setting *settings, unsigned n, const char **ret_why)
{
        struct driver *d = ctx;

        return vw_driver_set(attach_driver(d->attach), settings, n, ret_why);
}

static int on_why(void *ctx, unsigned index, char *buf, size_t len)
{
        struct driver *d = ctx;

        return vw_driver_why(attach_driver(d->attach), index, buf, len);
}

static int on_link(void *ctx, bool up)
{
        struct driver *d = ctx;

        attach_link(d->attach, up);
        return 0;
}

static const struct ctl_ops ctl_ops = {
        .driver = true,
        .stats = on_stats,
        .get = on_get,
        .set = on_set,
        .why = on_why,
        .link = on_link,
        .pcap = end_capture,
        .stop = end_stop,
};

/* ---- set-up ---- */

static int make_listener(struct driver *d)
{
        const char *path = end_options.socket_path, *why;

        if (!options.server)
                return -1;
        if (sock_listen(&d->listener, path, 0600, (gid_t)-1, &why) < 0) {
                log_say(VW_LOG_ERROR, "driver", "%s", why);
                return STATUS_FAILED;
        }
        stop_removes(path);
        return -1;
}

static void fill_driver_config(struct vw_driver_config *config)
{
        const struct end_options *o = &end_options;

        config->pairs = o->queues;
        config->queue_size = options.queue_size;
        config->features = o->features.mask;
        if (options.ring == RING_SPLIT)
                config->features &= ~(UINT64_C(1) << vw_feature_bit("ring_packed"));
        memcpy(config->mac, o->mac, sizeof(config->mac));
        config->tx_mode = (enum vw_tx_mode)options.tx_mode;
        config->clean_tx_from_rx = options.clean_tx_from_rx;
        config->shared_call = options.shared_interrupt;
        config->tx_eager = options.tx_interrupts;
        config->kick = (enum vw_kick)options.kick;
        config->bql = options.bql;
        config->rx_buffers = (enum vw_rx_buffers)options.rx_buffers;
        config->poll_us = o->poll_us;
        config->tx_usecs = o->tx_usecs;
        config->tx_frames = o->tx_frames;
        config->rx_usecs = o->rx_usecs;
        config->rx_frames = o->rx_frames;
        config->adaptive = (enum vw_adaptive)o->adaptive;
        config->ctrl_timeout_ms = options.ctrl_timeout_ms;
        config->watchdog_ms = options.watchdog_ms;
}

static int join(struct driver *d)
{
        struct attach_config config = ATTACH_CONFIG_INIT;
        const char *why = "";
        int r;

        config.connect_path = options.server ? NULL : end_options.socket_path;
        config.listen_fd = d->listener.fd;
        config.port = d->end.port;
        fill_driver_config(&config.driver);
        config.workers = end_options.workers;
        config.nice = end_options.nice;
        config.cpus = end_options.cpus.cpu;
        config.n_cpus = end_options.cpus.n;
        config.log = log_event;
        r = attach_new(&config, &d->attach, &why);
        if (r == 0)
                return -1;
        log_say(VW_LOG_ERROR, "driver", "no driver: %s", *why ? why : strerror(-r));
        return STATUS_FAILED;
}

static int check_options(const struct driver *d)
{
        const struct end_options *o = &end_options;

        if (!end_options.socket_path)
                return opts_refuse("vwire driver", "--socket-path=PATH is missing: see vwire driver --help");
        if (!end_options.port)
                return opts_refuse("vwire driver", "--port=PORT is missing: see vwire driver --help");
        if (options.ring == RING_PACKED)
                return opts_refuse("vwire driver", "--ring=packed is not built yet: use split or auto");
        if (o->adaptive & VW_ADAPTIVE_RX && (o->rx_usecs || o->rx_frames))
                return opts_refuse("vwire driver",
                                   "--adaptive leaves --rx-usecs and --rx-frames to the device");
        if (o->adaptive & VW_ADAPTIVE_TX && (o->tx_usecs || o->tx_frames))
                return opts_refuse("vwire driver",
                                   "--adaptive leaves --tx-usecs and --tx-frames to the device");
        return end_check_options(&d->end, true);
}

static void loop(struct driver *d)
{
        for (;;) {
                struct pollfd own = { .fd = attach_fd(d->attach), .events = POLLIN };

                if (end_turn(&d->end, &own, 1, attach_deadline(d->attach)))
                        return;
                if (own.revents || end_now() >= attach_deadline(d->attach))
                        attach_step(d->attach);
        }
}

static int run(const char *const *words)
{
        struct driver d = {
                .end = END_INIT("driver", "vwire driver"),
                .listener = SOCK_LISTENER_NONE,
        };
        int status = check_options(&d);
        char quoted[256];

        (void)words;
        if (status < 0)
                status = end_start(&d.end);
        if (status < 0)
                status = end_open_port(&d.end, 0);
        if (status < 0)
                status = end_start_capture(&d.end);
        if (status < 0)
                status = make_listener(&d);
        if (status < 0)
                status = join(&d);
        if (status < 0)
                status = end_open_ctl(&d.end, &ctl_ops, &d);
        if (status < 0) {
                log_say(VW_LOG_INFO, "driver", "%s path=%s", options.server ? "listening" : "connecting",
                        vw_log_value(end_options.socket_path, quoted, sizeof(quoted)));
                end_ready(&d.end);
                loop(&d);
                status = STATUS_OK;
        }
        sock_close(&d.listener);
        attach_free(d.attach);
        end_close(&d.end);
        return status;
}

int cmd_driver(int argc, char **argv)
{
        return opts_run(&page, argc, argv, run);
}
