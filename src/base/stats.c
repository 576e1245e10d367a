/* Names of counters, drop reasons and sandbox layers, and which of the counters each role and kind of queue shows. */
#include "vwire/stats.h"

#include "base/check.h"

/* The queues of one role and kind; a counter's `where` is a set of them. */
enum {
        DEVICE_RX = 1 << 0,
        DEVICE_TX = 1 << 1,
        DEVICE_CTRL = 1 << 2,
        DRIVER_RX = 1 << 3,
        DRIVER_TX = 1 << 4,
        DRIVER_CTRL = 1 << 5,
};

enum {
        D = DEVICE_RX | DEVICE_TX | DEVICE_CTRL,
        B = DRIVER_RX | DRIVER_TX | DRIVER_CTRL,
        R = DRIVER_RX,
        T = DRIVER_TX,
        C = DEVICE_CTRL | DRIVER_CTRL,
};

static const struct {
        const char *name;
        unsigned where;
} counters[VW_C_COUNT] = {
#define COUNTER(name, where) [VW_C_##name] = { #name, where },
        VW_COUNTERS(COUNTER)
#undef COUNTER
};

static const char *const drop_names[] = {
        [VW_DROP_NONE] = "none",
        [VW_DROP_SHORT] = "short",
        [VW_DROP_TOO_LONG] = "too-long",
        [VW_DROP_DIRECTION] = "direction",
        [VW_DROP_UNMAPPED] = "unmapped",
        [VW_DROP_BAD_GSO] = "bad-gso",
        [VW_DROP_BAD_CSUM] = "bad-csum",
        [VW_DROP_NOT_NEGOTIATED] = "not-negotiated",
        [VW_DROP_MTU] = "mtu",
        [VW_DROP_BAD_LEN] = "bad-len",
        [VW_DROP_BAD_HDR] = "bad-hdr",
        [VW_DROP_MISSING_BUFFERS] = "missing-buffers",
        [VW_DROP_NO_BUFFERS] = "no-buffers",
        [VW_DROP_PORT_DOWN] = "port-down",
        [VW_DROP_PORT_ERROR] = "port-error",
        [VW_DROP_DISABLED] = "disabled",
        [VW_DROP_FILTERED] = "filtered",
};

static_assert(ARRAY_SIZE(drop_names) == VW_DROP_COUNT, "a name for each reason");

const char *vw_counter_name(enum vw_counter c)
{
        return counters[c].name;
}

const char *vw_drop_name(enum vw_drop d)
{
        return drop_names[d];
}

bool vw_counter_shown(enum vw_counter c, bool driver, enum vw_queue_kind kind)
{
        static const unsigned device_of[] = {
                [VW_RX] = DEVICE_RX, [VW_TX] = DEVICE_TX, [VW_CTRL] = DEVICE_CTRL
        };
        static const unsigned driver_of[] = {
                [VW_RX] = DRIVER_RX, [VW_TX] = DRIVER_TX, [VW_CTRL] = DRIVER_CTRL
        };

        return counters[c].where & (driver ? driver_of : device_of)[kind];
}

const char *vw_version(void)
{
        return VW_VERSION;
}

static const char *const sandbox_names[] = {
#define LAYER(name, text) [VW_SANDBOX_##name] = text,
        VW_SANDBOX_LAYERS(LAYER)
#undef LAYER
};

const char *vw_sandbox_layer_name(enum vw_sandbox_layer layer)
{
        return sandbox_names[layer];
}
