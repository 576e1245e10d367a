/* vwire: statistics and settings, the same for both ends.  Names are those of the interface contract; the lists below
 * are the only place where they stand. */
#pragma once
#include "vwire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* COUNTER(name, where): D any queue of a device, B any queue of a driver, R its rx and T its tx queues, C control queues of
 * either.  The driver has the poll_ counters besides those of the contract, since it has poll-us as well. */
#define VW_COUNTERS(COUNTER)                                                                                 \
        COUNTER(packets, D | B)                                                                              \
        COUNTER(bytes, D | B)                                                                                \
        COUNTER(bursts, D)                                                                                   \
        COUNTER(kicks, D | B)                                                                                \
        COUNTER(calls, D)                                                                                    \
        COUNTER(calls_suppressed, D)                                                                         \
        COUNTER(calls_coalesced, D)                                                                          \
        COUNTER(coalesce_frames, D)                                                                          \
        COUNTER(coalesce_timer, D)                                                                           \
        COUNTER(poll_hits, D | B)                                                                            \
        COUNTER(poll_misses, D | B)                                                                          \
        COUNTER(poll_ns, D | B)                                                                              \
        COUNTER(naps, D)                                                                                     \
        COUNTER(no_buffers, D)                                                                               \
        COUNTER(port_full, D)                                                                                \
        COUNTER(call_errors, D)                                                                              \
        COUNTER(kicks_suppressed, B)                                                                         \
        COUNTER(interrupts, B)                                                                               \
        COUNTER(spurious_interrupts, B)                                                                      \
        COUNTER(polls, B)                                                                                    \
        COUNTER(poll_rearms, B)                                                                              \
        COUNTER(reaped_by_poll, T)                                                                           \
        COUNTER(reaped_by_rx, T)                                                                             \
        COUNTER(reaped_by_xmit, T)                                                                           \
        COUNTER(stops, T)                                                                                    \
        COUNTER(wakes, T)                                                                                    \
        COUNTER(bql_limit, T)                                                                                \
        COUNTER(bql_inflight, T)                                                                             \
        COUNTER(watchdogs, T)                                                                                \
        COUNTER(buffer_size, R)                                                                              \
        COUNTER(average_length, R)                                                                           \
        COUNTER(refills, R)                                                                                  \
        COUNTER(refill_failures, R)                                                                          \
        COUNTER(merged_packets, R)                                                                           \
        COUNTER(coalesced_frags, R)                                                                          \
        COUNTER(truesize, R)                                                                                 \
        COUNTER(holes, R)                                                                                    \
        COUNTER(commands, C)                                                                                 \
        COUNTER(nacks, C)

enum vw_counter {
#define COUNTER(name, where) VW_C_##name,
        VW_COUNTERS(COUNTER)
#undef COUNTER
                VW_C_COUNT
};

enum vw_drop {
        VW_DROP_NONE,
        VW_DROP_SHORT,           /* "short" */
        VW_DROP_TOO_LONG,        /* "too-long" */
        VW_DROP_DIRECTION,       /* "direction" */
        VW_DROP_UNMAPPED,        /* "unmapped" */
        VW_DROP_BAD_GSO,         /* "bad-gso" */
        VW_DROP_BAD_CSUM,        /* "bad-csum" */
        VW_DROP_NOT_NEGOTIATED,  /* "not-negotiated" */
        VW_DROP_MTU,             /* "mtu" */
        VW_DROP_BAD_LEN,         /* "bad-len" */
        VW_DROP_BAD_HDR,         /* "bad-hdr" */
        VW_DROP_MISSING_BUFFERS, /* "missing-buffers" */
        VW_DROP_NO_BUFFERS,      /* "no-buffers" */
        VW_DROP_PORT_DOWN,       /* "port-down" */
        VW_DROP_PORT_ERROR,      /* "port-error" */
        VW_DROP_DISABLED,        /* "disabled" */
        VW_DROP_FILTERED,        /* "filtered": the receive mode, MAC or VLAN table does not want it */
        VW_DROP_COUNT
};

enum vw_queue_kind { VW_RX, VW_TX, VW_CTRL }; /* from the driver's viewpoint, on both ends */

/* "packets" ..., "short" ...; both for any value below the count. */
VW_API const char *vw_counter_name(enum vw_counter c);
VW_API const char *vw_drop_name(enum vw_drop d);
/* Whether the role ("driver": true) shows this counter for queues of this kind. */
VW_API bool vw_counter_shown(enum vw_counter c, bool driver, enum vw_queue_kind kind);

enum vw_adaptive { VW_ADAPTIVE_OFF, VW_ADAPTIVE_RX, VW_ADAPTIVE_TX, VW_ADAPTIVE_BOTH };
enum vw_tx_mode { VW_TX_NAPI, VW_TX_ORPHAN };
enum vw_kick { VW_KICK_BURST, VW_KICK_EACH };
enum vw_rx_buffers { VW_BUFFERS_AUTO, VW_BUFFERS_MTU, VW_BUFFERS_PAGE };

#define VW_POLL_US_MAX 100000
#define VW_USECS_MAX   10000
#define VW_FRAMES_MAX  1024

/* Receive buffers by their size: bin i counts those of i * VW_BUFFER_STEP bytes. */
#define VW_BUFFER_STEP  64
#define VW_BUFFER_SIZES (4096 / VW_BUFFER_STEP + 1)

/* Settings of one queue as they are in force. */
struct vw_queue_settings {
        uint32_t poll_us, usecs, frames;
        bool adaptive;
};

struct vw_queue_stats {
        unsigned index, pair; /* virtqueue index */
        enum vw_queue_kind kind;
        const char *ring; /* "split", "packed" */
        unsigned size;
        bool enabled;
        const char *broken; /* NULL or the reason */
        struct vw_queue_settings settings;
        uint64_t counters[VW_C_COUNT];
        uint64_t drops[VW_DROP_COUNT];
        uint64_t buffer_sizes[VW_BUFFER_SIZES]; /* of a driver's rx queue, since it was connected */
        struct {
                uint32_t avail, used, event_ours, event_peer, last_avail, last_used;
        } ring_state;
};

enum vw_state { VW_LISTENING, VW_CONNECTED, VW_RUNNING };

/* What a program may have shut itself into, in the order of entering: LAYER(NAME, "name"). */
#define VW_SANDBOX_LAYERS(LAYER)                                                                             \
        LAYER(USER, "user")                                                                                  \
        LAYER(NETWORK, "network")                                                                            \
        LAYER(IPC, "ipc")                                                                                    \
        LAYER(MOUNT, "mount")                                                                                \
        LAYER(RLIMITS, "rlimits")                                                                            \
        LAYER(CAPABILITIES, "capabilities")                                                                  \
        LAYER(DUMPABLE, "dumpable")                                                                          \
        LAYER(NO_NEW_PRIVS, "no_new_privs")                                                                  \
        LAYER(LANDLOCK, "landlock")                                                                          \
        LAYER(SECCOMP, "seccomp")

enum vw_sandbox_layer {
#define LAYER(name, text) VW_SANDBOX_##name,
        VW_SANDBOX_LAYERS(LAYER)
#undef LAYER
                VW_SANDBOX_COUNT
};
#define VW_SANDBOX_ALL ((1u << VW_SANDBOX_COUNT) - 1)

VW_API const char *vw_sandbox_layer_name(enum vw_sandbox_layer layer);

struct vw_stats {
        bool driver;
        enum vw_state state;
        uint64_t uptime_ns;
        uint64_t features;
        uint64_t protocol_features;
        bool has_port;
        struct {
                char kind[16], name[64];
                bool link_up;
                uint64_t dropped;
                uint64_t capture_lost; /* frames that a capture had no room for */
        } port;
        const char *last_close; /* why the last connection ended, or NULL */
        bool has_sandbox;       /* the program's, not the library's: set by whoever has one */
        uint32_t sandbox_on;    /* 1 << enum vw_sandbox_layer; the others are off */
        unsigned n_queues;
        struct vw_queue_stats queues[2 * VW_QUEUE_PAIRS_MAX + 1];
};

VW_API const char *vw_protocol_feature_name(unsigned bit);

/* ---- settings by key ---- */

/* SETTING(NAME, "key", least, greatest, words, where): the words stand for 0, 1, ...; NULL: a number.  Where: DR rx and DT tx
 * queues of a device, R and T of a driver, W a driver as a whole. */
#define VW_SETTINGS(SETTING)                                                                                 \
        SETTING(POLL_US, "poll-us", 0, VW_POLL_US_MAX, NULL, DR | DT | R | T)                                \
        SETTING(TX_USECS, "tx-usecs", 0, VW_USECS_MAX, NULL, DT | T)                                         \
        SETTING(TX_FRAMES, "tx-frames", 0, VW_FRAMES_MAX, NULL, DT | T)                                      \
        SETTING(RX_USECS, "rx-usecs", 0, VW_USECS_MAX, NULL, DR | R)                                         \
        SETTING(RX_FRAMES, "rx-frames", 0, VW_FRAMES_MAX, NULL, DR | R)                                      \
        SETTING(ADAPTIVE, "adaptive", 0, 3, "off|rx|tx|both", DR | DT | R | T)                               \
        SETTING(TX_MODE, "tx-mode", 0, 1, "napi|orphan", T)                                                  \
        SETTING(CLEAN_TX_FROM_RX, "clean-tx-from-rx", 0, 1, "off|on", R | T)                                 \
        SETTING(SHARED_INTERRUPT, "shared-interrupt", 0, 1, "off|on", R | T)                                 \
        SETTING(TX_INTERRUPTS, "tx-interrupts", 0, 1, "lazy|eager", T)                                       \
        SETTING(KICK, "kick", 0, 1, "burst|each", T)                                                         \
        SETTING(BQL, "bql", 0, 1, "off|on", T)                                                               \
        SETTING(RX_BUFFERS, "rx-buffers", 0, 2, "auto|mtu|page", R)                                          \
        SETTING(QUEUES, "queues", 1, VW_QUEUE_PAIRS_MAX, NULL, W)

enum vw_key {
#define SETTING(name, key, least, greatest, words, where) VW_KEY_##name,
        VW_SETTINGS(SETTING)
#undef SETTING
                VW_KEY_COUNT
};

struct vw_setting {
        int queue; /* virtqueue index, or -1: all that it fits */
        enum vw_key key;
        int64_t value; /* a number, or the place in the key's list of words */
};

/* "q3.tx-usecs=64", "adaptive=both".  Returns 0, -ENOENT (no such key), -ERANGE or -EINVAL; on failure *ret_why is a sentence in
 * thread-local storage that names key, value and limit. */
VW_API int vw_setting_parse(const char *text, struct vw_setting *ret_setting, const char **ret_why);
/* "q3.tx-usecs": queue and key alone, with the same refusals; the value is 0. */
VW_API int vw_key_parse(const char *text, struct vw_setting *ret_setting, const char **ret_why);
/* "64", "both": into buf. */
VW_API void vw_setting_format(enum vw_key key, int64_t value, char *buf, size_t len);
VW_API const char *vw_key_name(enum vw_key key);
/* Whether the role ("driver": true) has this key; whether it can be said of one of its queues of this kind. */
VW_API bool vw_key_known(enum vw_key key, bool driver);
VW_API bool vw_key_fits(enum vw_key key, bool driver, enum vw_queue_kind kind);

#ifdef __cplusplus
}
#endif
