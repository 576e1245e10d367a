#include "end.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "log.h"
#include "notify.h"
#include "stop.h"

static const char *const adaptive_words[] = { "off", "rx", "tx", "both", NULL };

struct end_options end_options = { .queues = 1, .features = { .mask = ~(uint64_t)0 }, .nice = -20 };

#define E struct end_options
static const struct opt rows[] = {
        ROW_OTHER(E, socket_path, "socket-path", "PATH", value_socket, NULL, "the vhost-user socket"),
        ROW_TEXT(
                E, port, "port", "PORT", NULL,
                "where frames go: tap:NAME[,netns=NETNS][,bridge=BRIDGE][,persist], tap:fd=N[+N...], loop, null or "
                "gen[:size=BYTES][,rate=PPS][,count=N][,clone]; required"),
        ROW_NUMBER(E, queues, "queues", 1, VW_QUEUE_PAIRS_MAX, "1", "queue pairs"),
        ROW_OTHER(E, mac, "mac", "MAC", value_mac, NULL, "address of the NIC"),
        ROW_OTHER(E, features, "features", "+NAME,-NAME", value_features, "all",
                  "mask of feature bits, by their names in the standard: -mrg_rxbuf,-event_idx"),
        ROW_NUMBER(E, poll_us, "poll-us", 0, VW_POLL_US_MAX, "0",
                   "microseconds of busy polling before sleeping"),
        ROW_NUMBER(E, tx_usecs, "tx-usecs", 0, VW_USECS_MAX, "0",
                   "microseconds that a tx interrupt may be held back"),
        ROW_NUMBER(E, tx_frames, "tx-frames", 0, VW_FRAMES_MAX, "0",
                   "packets that release it; either 0: no holding back"),
        ROW_NUMBER(E, rx_usecs, "rx-usecs", 0, VW_USECS_MAX, "0", "the same for rx"),
        ROW_NUMBER(E, rx_frames, "rx-frames", 0, VW_FRAMES_MAX, "0", "the same for rx"),
        ROW_WORD(E, adaptive, "adaptive", adaptive_words, "off",
                 "let the load choose these; a driver leaves them to a device that does"),
        ROW_NUMBER(E, workers, "workers", 1, VW_QUEUE_PAIRS_MAX, "as pairs, at most as CPUs",
                   "worker threads"),
        ROW_OTHER(E, cpus, "cpus", "LIST", value_cpus, NULL, "pin the workers, in order, as in 0,2-3"),
        ROW_SIGNED(E, nice, "nice", -20, 19, "-20, where allowed", "priority of the workers"),
        ROW_OTHER(E, ctl, "ctl", "PATH", value_socket, NULL, "control socket for vwire ctl"),
        ROW_TEXT(E, pcap, "pcap", "FILE", NULL, "capture what crosses the port"),
};
#undef E

const struct opt_group end_group = {
        .title = "options", .rows = rows, .n_rows = ARRAY_LEN(rows), .into = &end_options
};

static void say_not_told(const struct end *end, int error)
{
        log_say(VW_LOG_WARN, end->component, "the service manager was not told: %s", strerror(-error));
}

int end_check_options(const struct end *end, bool driver)
{
        uint64_t lacking = end_options.features.asked & ~vw_features_built(driver);

        if (!lacking)
                return -1;
        return opts_refuse(end->command, "--features=+%s is not built: this end has no such feature",
                           vw_feature_name((unsigned)__builtin_ctzll(lacking)));
}

int end_start(struct end *end)
{
        struct rlimit fds;
        int r;

        log_start();
        if (stop_start(STATUS_OK) < 0) {
                log_say(VW_LOG_ERROR, end->component, "no pipe: %s", strerror(errno));
                return STATUS_FAILED;
        }
        if (getrlimit(RLIMIT_NOFILE, &fds) == 0) {
                fds.rlim_cur = fds.rlim_max; /* each queue has three fds, each memory region one */
                setrlimit(RLIMIT_NOFILE, &fds);
        }
        r = notify_open(&end->notify);
        if (r < 0)
                say_not_told(end, r);
        return -1;
}

int end_open_port(struct end *end, unsigned mtu)
{
        const struct end_options *o = &end_options;
        struct vw_port_config config = { .pairs = o->queues, .mtu = mtu };
        const char *why = "";
        int r;

        memcpy(config.mac, o->mac, sizeof(config.mac));
        r = vw_port_open(o->port, &config, &end->port, &why); /* whose sentences begin with the port */
        if (r == -EINVAL || r == -EBADF) /* what is wrong with the words, or with the fd that they name */
                return opts_refuse(end->command, "--port=%s", why);
        if (r < 0) {
                log_say(VW_LOG_ERROR, end->component, "port %s", *why ? why : strerror(-r));
                return STATUS_FAILED;
        }
        if (!o->pcap)
                return -1;
        end->capture = open(o->pcap, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (end->capture >= 0)
                return -1;
        log_say(VW_LOG_ERROR, end->component, "cannot write the capture %s: %s", o->pcap, strerror(errno));
        return STATUS_FAILED;
}

int end_start_capture(struct end *end)
{
        int r = end->capture >= 0 ? vw_port_capture(end->port, end->capture) : 0;

        if (r < 0) {
                log_say(VW_LOG_ERROR, end->component, "cannot capture to %s: %s", end_options.pcap,
                        strerror(-r));
                return STATUS_FAILED;
        }
        end->capture = -1; /* the port's now */
        return -1;
}

int end_open_ctl(struct end *end, const struct ctl_ops *ops, void *ctx)
{
        const char *why;

        if (!end_options.ctl)
                return -1;
        if (ctl_server_new(end_options.ctl, ops, ctx, &end->ctl, &why) < 0) {
                log_say(VW_LOG_ERROR, end->component, "control socket: %s", why);
                return STATUS_FAILED;
        }
        stop_removes(end_options.ctl);
        return -1;
}

void end_close(struct end *end)
{
        if (end->capture >= 0)
                close(end->capture);
        vw_port_close(end->port);
        ctl_server_free(end->ctl); /* last: `vwire ctl stop` waits for it */
}

void end_ready(struct end *end)
{
        int r = notify_ready(end->notify);

        end->notify = -1;
        if (r < 0)
                say_not_told(end, r);
}

uint64_t end_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int timeout_ms(uint64_t deadline)
{
        uint64_t now = end_now();

        if (deadline == END_NEVER)
                return -1;
        if (deadline <= now)
                return 0;
        return deadline - now > 1000000ULL * INT_MAX ? INT_MAX : (int)((deadline - now + 999999) / 1000000);
}

bool end_turn(struct end *end, struct pollfd *own, unsigned n_own, uint64_t deadline)
{
        enum { STOP, CTL, OWN };
        struct pollfd fds[8] = {
                [STOP] = {.fd = stop_fd(),                                .events = POLLIN},
                [CTL] = { .fd = end->ctl ? ctl_server_fd(end->ctl) : -1, .events = POLLIN},
        };

        memcpy(&fds[OWN], own, n_own * sizeof(*own));
        if (poll(fds, OWN + n_own, timeout_ms(deadline)) < 0)
                for (unsigned i = 0; i < OWN + n_own; i++)
                        fds[i].revents = 0; /* a signal; what it was about shows in the next turn */
        for (unsigned i = 0; i < n_own; i++)
                own[i].revents = fds[OWN + i].revents;
        if (fds[CTL].revents)
                ctl_server_dispatch(end->ctl);
        return fds[STOP].revents;
}

int end_capture(void *ctx, int fd)
{
        struct end *end = ctx;

        return vw_port_capture(end->port, fd);
}

void end_stop(void *ctx)
{
        (void)ctx;
        stop_now();
}
