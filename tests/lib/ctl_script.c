#include "ctl_script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say_stats(void *ctx, struct vw_stats *ret_stats)
{
        struct ctl_script *s = ctx;

        *ret_stats = s->stats;
}

static int say_value(void *ctx, int queue, enum vw_key key, int64_t *ret_value)
{
        struct ctl_script *s = ctx;

        if (s->error)
                return s->error;
        if (queue >= (int)s->n_queues)
                return -EINVAL;
        *ret_value = key == VW_KEY_ADAPTIVE ? VW_ADAPTIVE_BOTH : 10 * ((int)key + 1) + queue + 1;
        return 0;
}

static int take_settings(void *ctx, const struct vw_setting *settings, unsigned n, const char **ret_why)
{
        struct ctl_script *s = ctx;

        if (s->error) {
                *ret_why = "the script says no";
                return s->error;
        }
        memcpy(s->set, settings, (n < 8 ? n : 8) * sizeof(*settings));
        s->n_set = n;
        return 0;
}

static int say_why(void *ctx, unsigned index, char *buf, size_t len)
{
        (void)ctx;
        return snprintf(buf, len, "queue %u waits for a \"kick\"", index);
}

static int take_link(void *ctx, bool up)
{
        struct ctl_script *s = ctx;

        if (!s->error)
                s->link = up;
        return s->error;
}

static int take_file(void *ctx, int fd)
{
        struct ctl_script *s = ctx;

        if (s->error)
                return s->error;
        if (s->file >= 0)
                close(s->file);
        s->file = fd;
        s->capture_ended = fd < 0;
        return 0;
}

static void take_stop(void *ctx)
{
        struct ctl_script *s = ctx;

        s->stopped = true;
}

const struct ctl_ops ctl_script_ops = {
        .stats = say_stats,
        .get = say_value,
        .set = take_settings,
        .why = say_why,
        .link = take_link,
        .pcap = take_file,
        .stop = take_stop,
};

const struct ctl_ops ctl_script_driver_ops = {
        .driver = true,
        .stats = say_stats,
        .get = say_value,
        .set = take_settings,
};

static void init_queue(struct vw_queue_stats *q, unsigned index)
{
        *q = (struct vw_queue_stats){
                .index = index,
                .pair = index / 2,
                .kind = index % 2 ? VW_TX : VW_RX,
                .ring = "split",
                .size = 256,
                .enabled = true,
                .settings = {.poll_us = 50, .usecs = 64, .frames = 32},
        };
        for (unsigned c = 0; c < VW_C_COUNT; c++)
                q->counters[c] = 1000 * (index + 1) + c;
        q->drops[VW_DROP_BAD_GSO] = index;
        q->ring_state.avail = 7;
        q->ring_state.last_used = 5;
}

void ctl_script_init(struct ctl_script *s)
{
        *s = (struct ctl_script){ .link = -1, .file = -1, .n_queues = 2 };
        s->stats = (struct vw_stats){
                .state = VW_RUNNING,
                .uptime_ns = 3723000001000,
                .features = UINT64_C(1) << 32 | UINT64_C(1) << 15,
                .has_port = true,
                .port = {.kind = "tap", .name = "tap0", .link_up = true, .dropped = 3, .capture_lost = 4},
                .n_queues = 2,
        };
        init_queue(&s->stats.queues[0], 0);
        init_queue(&s->stats.queues[1], 1);
}

void ctl_script_done(struct ctl_script *s)
{
        if (s->file >= 0)
                close(s->file);
}
