#include "link.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "ctl/client.h"
#include "ctl/sock.h"
#include "end.h"
#include "netns.h"
#include "opts.h"
#include "stop.h"

#define STARTING_MS 10000 /* sanitizer builds on a busy machine are slow to start */
#define GRACE_MS    400   /* for an orderly stop */

static struct link_half half(const char *name, const char *address, unsigned number)
{
        struct link_half h = {
                .name = name, .address = address, .netns = -1, .config = -1, .ctl = -1, .child = CHILD_NONE
        };

        snprintf(h.log, sizeof(h.log), "/tmp/%s%u.log", name, number);
        snprintf(h.ctl_path, sizeof(h.ctl_path), "/tmp/%s%u.ctl", name, number);
        return h;
}

void link_init(struct link *l, const char *command, unsigned number)
{
        *l = (struct link){ .command = command,
                            .device = half("device", LINK_DEVICE_ADDRESS, number),
                            .driver = half("driver", LINK_DRIVER_ADDRESS, number) };
        snprintf(l->socket, sizeof(l->socket), "/tmp/vhost-user%u.sock", number);
}

/* ---- errors ---- */

static void print_log(const struct link_half *h)
{
        char line[512];
        FILE *f = fopen(h->log, "re");

        while (f && fgets(line, sizeof(line), f))
                fprintf(stderr, "%s| %s", h->name, line);
        if (f)
                fclose(f);
}

int link_fail(const struct link *l, const char *fmt, const char *detail)
{
        opts_refuse(l->command, fmt, detail);
        return STATUS_FAILED;
}

int link_check(struct link *l)
{
        struct pollfd stop = { .fd = stop_fd(), .events = POLLIN };
        struct link_half *halves[] = { &l->device, &l->driver };

        if (poll(&stop, 1, 0) > 0)
                return link_fail(l, "%s", "interrupted");
        for (unsigned i = 0; i < ARRAY_LEN(halves); i++) {
                bool started = halves[i]->child.name;

                if (started && !child_runs(&halves[i]->child)) {
                        print_log(halves[i]);
                        return link_fail(l, "the %s ended too early", halves[i]->name);
                }
        }
        return -1;
}

int link_wait(struct link *l, bool (*ready)(void *ctx), void *ctx, const char *what)
{
        uint64_t deadline = end_now() + STARTING_MS * 1000000ULL;
        int status;

        while ((status = link_check(l)) < 0) {
                if (ready(ctx))
                        return -1;
                if (end_now() > deadline) {
                        print_log(&l->device);
                        print_log(&l->driver);
                        return link_fail(l, "gave up waiting for %s", what);
                }
                poll(NULL, 0, 10);
        }
        return status;
}

/* ---- life ---- */

int link_make_namespaces(struct link *l)
{
        struct link_half *halves[] = { &l->device, &l->driver };

        for (unsigned i = 0; i < ARRAY_LEN(halves); i++) {
                struct link_half *h = halves[i];

                h->netns = netns_new();
                if (h->netns < 0)
                        return link_fail(l, "no network namespace may be made here: %s", strerror(-h->netns));
                h->config = netns_socket(h->netns);
                if (h->config < 0)
                        return link_fail(l, "no socket: %s", strerror(-h->config));
        }
        return -1;
}

int link_start_half(struct link *l, struct link_half *h, const char *const *options)
{
        static const char port[] = "--port=tap:" LINK_TAP;
        char socket[64], ctl[64];
        const char *argv[6 + LINK_ARGS] = { "/proc/self/exe", h->name, socket, port, ctl };
        int r;

        snprintf(socket, sizeof(socket), "--socket-path=%s", l->socket);
        snprintf(ctl, sizeof(ctl), "--ctl=%s", h->ctl_path);
        for (unsigned i = 0; options && options[i] && i < LINK_ARGS; i++)
                argv[5 + i] = options[i];
        r = child_start(&h->child, h->name, h->netns, h->log, false, argv);
        return r < 0 ? link_fail(l, "a process cannot be started: %s", strerror(-r)) : -1;
}

static bool ends_have_taps(void *ctx)
{
        struct link *l = ctx;

        return netif_set_address(l->device.config, LINK_TAP, l->device.address, 24) == 0 &&
               netif_set_address(l->driver.config, LINK_TAP, l->driver.address, 24) == 0;
}

bool link_half_runs(struct link_half *h)
{
        struct ctl_reply reply;
        const char *why, *state;
        bool running;

        if (h->ctl < 0)
                h->ctl = sock_dial(h->ctl_path);
        if (h->ctl < 0 || ctl_call(h->ctl, "stats", NULL, -1, &reply, &why) < 0)
                return false;
        state = json_string_value(json_object_get(reply.value, "state"));
        running = state && !strcmp(state, "running");
        ctl_reply_done(&reply);
        return running;
}

static bool frames_pass(void *ctx)
{
        struct link *l = ctx;

        return link_half_runs(&l->device) && link_half_runs(&l->driver) &&
               netif_running(l->device.config, LINK_TAP) && netif_running(l->driver.config, LINK_TAP);
}

int link_start(struct link *l, const char *const *device, const char *const *driver)
{
        int status = link_make_namespaces(l);

        if (status < 0)
                status = link_start_half(l, &l->device, device);
        if (status < 0)
                status = link_start_half(l, &l->driver, driver);
        if (status < 0)
                status = link_wait(l, ends_have_taps, l, "the TAPs");
        return status < 0 ? link_wait(l, frames_pass, l, "the link") : status;
}

void link_stop(struct link *l)
{
        struct link_half *halves[] = { &l->driver, &l->device };

        for (unsigned i = 0; i < ARRAY_LEN(halves); i++) {
                struct link_half *h = halves[i];

                child_stop(&h->child, GRACE_MS);
                if (h->ctl >= 0)
                        close(h->ctl);
                if (h->config >= 0)
                        close(h->config);
                if (h->netns >= 0)
                        close(h->netns);
                h->ctl = h->config = h->netns = -1;
        }
}
