#include "ctl/stats_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"

static const char *const state_names[] = {
        [VW_LISTENING] = "listening", [VW_CONNECTED] = "connected", [VW_RUNNING] = "running"
};
static const char *const kind_names[] = { [VW_RX] = "rx", [VW_TX] = "tx", [VW_CTRL] = "ctrl" };

static unsigned long outermost_pid; /* 0: not known yet */

/* Our pid in the outermost namespace that can be seen: the first number after NSpid, where /proc is that namespace's. */
static unsigned long read_pid(void)
{
        FILE *status = fopen("/proc/self/status", "re");
        unsigned long pid = (unsigned long)getpid();
        char line[256];

        while (status && fgets(line, sizeof(line), status))
                if (sscanf(line, "NSpid: %lu", &pid) == 1)
                        break;
        if (status)
                fclose(status);
        return pid;
}

void stats_prepare(void)
{
        if (!outermost_pid)
                outermost_pid = read_pid();
        json_object_seed(0); /* from /dev/urandom */
}

const char *stats_kind_name(enum vw_queue_kind kind)
{
        return kind_names[kind];
}

static const char *true_or_false(bool b)
{
        return b ? "true" : "false";
}

static void add_number(struct text *t, const char *name, uint64_t value)
{
        text_next(t);
        text_add(t, "\"%s\":%" PRIu64, name, value);
}

static void add_string(struct text *t, const char *name, const char *value)
{
        text_next(t);
        text_add(t, "\"%s\":", name);
        text_add_json(t, value);
}

static void add_bits(struct text *t, const char *name, uint64_t bits, const char *(*bit_name)(unsigned bit))
{
        text_next(t);
        text_add(t, "\"%s\":[", name);
        for (unsigned bit = 0; bit < 64; bit++)
                if (bits & BIT(bit) && bit_name(bit)) {
                        text_next(t);
                        text_add_json(t, bit_name(bit));
                }
        text_add(t, "]");
}

static void add_port(struct text *t, const struct vw_stats *s)
{
        text_next(t);
        if (!s->has_port) {
                text_add(t, "\"port\":null");
                return;
        }
        text_add(t, "\"port\":{");
        add_string(t, "kind", s->port.kind);
        add_string(t, "name", s->port.name);
        add_string(t, "link", s->port.link_up ? "up" : "down");
        add_number(t, "dropped", s->port.dropped);
        add_number(t, "capture_lost", s->port.capture_lost);
        text_add(t, "}");
}

static void add_layers(struct text *t, const char *name, uint32_t layers)
{
        text_next(t);
        text_add(t, "\"%s\":[", name);
        for (enum vw_sandbox_layer l = 0; l < VW_SANDBOX_COUNT; l++)
                if (layers & BIT(l)) {
                        text_next(t);
                        text_add_json(t, vw_sandbox_layer_name(l));
                }
        text_add(t, "]");
}

static void add_sandbox(struct text *t, const struct vw_stats *s)
{
        text_next(t);
        if (!s->has_sandbox) {
                text_add(t, "\"sandbox\":null");
                return;
        }
        text_add(t, "\"sandbox\":{");
        add_layers(t, "on", s->sandbox_on);
        add_layers(t, "off", VW_SANDBOX_ALL & ~s->sandbox_on);
        text_add(t, "}");
}

/* The sizes that occur and how often: "1536":256. */
static void add_sizes(struct text *t, const struct vw_queue_stats *q)
{
        char size[16];

        text_add(t, ",\"buffer_sizes\":{");
        for (unsigned i = 0; i < VW_BUFFER_SIZES; i++)
                if (q->buffer_sizes[i]) {
                        snprintf(size, sizeof(size), "%u", i * VW_BUFFER_STEP);
                        add_number(t, size, q->buffer_sizes[i]);
                }
        text_add(t, "}");
}

static void add_queue(struct text *t, const struct vw_queue_stats *q, bool driver)
{
        text_next(t);
        text_add(t, "{");
        add_number(t, "index", q->index);
        add_string(t, "kind", kind_names[q->kind]);
        add_number(t, "pair", q->pair);
        add_string(t, "ring", q->ring);
        add_number(t, "size", q->size);
        text_add(t, ",\"enabled\":%s", true_or_false(q->enabled));
        add_string(t, "broken", q->broken);

        text_add(t, ",\"settings\":{");
        add_number(t, "poll_us", q->settings.poll_us);
        add_number(t, "usecs", q->settings.usecs);
        add_number(t, "frames", q->settings.frames);
        text_add(t, ",\"adaptive\":%s},\"counters\":{", true_or_false(q->settings.adaptive));
        for (enum vw_counter c = 0; c < VW_C_COUNT; c++)
                if (vw_counter_shown(c, driver, q->kind))
                        add_number(t, vw_counter_name(c), q->counters[c]);
        text_add(t, "},\"drops\":{");
        for (enum vw_drop d = VW_DROP_NONE + 1; d < VW_DROP_COUNT; d++)
                add_number(t, vw_drop_name(d), q->drops[d]);
        text_add(t, "}");
        if (driver && q->kind == VW_RX)
                add_sizes(t, q);
        text_add(t, ",\"ring_state\":{");
        add_number(t, "avail", q->ring_state.avail);
        add_number(t, "used", q->ring_state.used);
        add_number(t, "event_ours", q->ring_state.event_ours);
        add_number(t, "event_peer", q->ring_state.event_peer);
        add_number(t, "last_avail", q->ring_state.last_avail);
        add_number(t, "last_used", q->ring_state.last_used);
        text_add(t, "}}");
}

void stats_json(struct text *t, const struct vw_stats *s)
{
        text_add(t, "{");
        add_string(t, "role", s->driver ? "driver" : "device");
        stats_prepare();
        add_number(t, "pid", outermost_pid);
        add_number(t, "uptime_us", s->uptime_ns / 1000);
        add_string(t, "state", state_names[s->state]);
        add_bits(t, "features", s->features, vw_feature_name);
        add_bits(t, "protocol_features", s->protocol_features, vw_protocol_feature_name);
        add_port(t, s);
        add_string(t, "last_close", s->last_close);
        add_sandbox(t, s);
        text_next(t);
        text_add(t, "\"queues\":[");
        for (unsigned i = 0; i < s->n_queues; i++)
                add_queue(t, &s->queues[i], s->driver);
        text_add(t, "]}");
}
