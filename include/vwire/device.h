/* vwire: the device half, a vhost-user-net back end in your program.
 *
 * One object serves one virtio-net device.  It makes its own worker threads; everything here is called by one control
 * thread (any, but one).  No call blocks longer than a worker needs for one burst. */
#pragma once
#include "vwire/port.h"
#include "vwire/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vw_device;

struct vw_device_config {
        struct vw_port *port; /* borrowed: lives longer than the device */
        unsigned pairs;       /* offered, 1..VW_QUEUE_PAIRS_MAX */
        unsigned workers;     /* 0: min(pairs, CPUs) */
        uint8_t mac[6];       /* zero: random local */
        unsigned mtu;         /* 0: not offered */
        uint64_t features;    /* mask of bits that may be offered; ~0 all */
        bool count_vrings;    /* GET_QUEUE_NUM counts vrings, not pairs */
        int nice;             /* of the workers; where not allowed it is left */
        const int *cpus;      /* pin worker i to cpus[i % n_cpus] */
        unsigned n_cpus;
        uint32_t poll_us, tx_usecs, tx_frames, rx_usecs, rx_frames;
        enum vw_adaptive adaptive;
        /* Called on each worker thread, one after the other, before it works: to take rights from it.  Not 0: there is no device.  Or NULL. */
        int (*worker_start)(void *ctx);
        void *worker_ctx;
};

#define VW_DEVICE_CONFIG_INIT                                                                                \
        {                                                                                                    \
                .pairs = 1, .features = ~(uint64_t)0, .nice = -20                                            \
        }

/* 0 or -errno (-EINVAL: *ret_why names the field).  The config may be forgotten afterwards. */
VW_API int vw_device_new(const struct vw_device_config *config, struct vw_device **ret_dev,
                         const char **ret_why);
/* Ends the session, stops the workers, closes what it owns.  NULL is fine. */
VW_API void vw_device_free(struct vw_device *dev);

/* ---- the session; control thread, as all that follows ---- */

/* Serves one vhost-user front end on the connected socket `fd`.  Takes the fd on success only.  -EBUSY: it has one already. */
VW_API int vw_device_serve(struct vw_device *dev, int fd);
/* Ends the session: rings stop at a packet's edge.  Nothing if there is none. */
VW_API void vw_device_disconnect(struct vw_device *dev);
/* Whether there is a front end. */
VW_API bool vw_device_serving(const struct vw_device *dev);

/* The fd is the device's, and readable when vw_device_dispatch() has work.  That call never waits: 0, -ENOTCONN once, when the front end
 * has left, or another -errno. */
VW_API int vw_device_fd(const struct vw_device *dev);
VW_API int vw_device_dispatch(struct vw_device *dev);

/* The guest sees its link go up or down; 0.  The port's own state counts besides. */
VW_API int vw_device_link(struct vw_device *dev, bool up);

/* ---- looking at it, and setting it; each waits for the workers to come to the end of a burst ---- */

/* Counters since the device was made, settings and rings; the numbers of a queue fit together. */
VW_API void vw_device_stats(struct vw_device *dev, struct vw_stats *ret_stats);
/* All of them or none.  0, or with a sentence (static or thread-local): -ENOENT: a device has no such setting, -ERANGE: the limits are in
 * VW_SETTINGS, -EINVAL: not one of that queue. */
VW_API int vw_device_set(struct vw_device *dev, const struct vw_setting *settings, unsigned n,
                         const char **ret_why);
/* What is in force for virtqueue `queue`; -1: for the first that the key fits.  0, -ENOENT, -EINVAL. */
VW_API int vw_device_get(struct vw_device *dev, int queue, enum vw_key key, int64_t *ret_value);
/* What virtqueue `index` does and waits for, in words; returns the length like snprintf. */
VW_API int vw_device_why(struct vw_device *dev, unsigned index, char *buf, size_t len);
/* Records what polling, its trials and moderation decide, from the beginning: what they have learned is forgotten.  With -1 the record ends and is
 * written.  Takes `fd`, a regular file, on success only.  -EBUSY: there is a recording; -EALREADY: there is none; -EINVAL. */
VW_API int vw_device_trace(struct vw_device *dev, int fd);
/* Makes all decisions of a record again; any thread.  Returns how many calls that were, or -EPROTO with a sentence when one comes out
 * otherwise or cannot be read.  Takes `fd`. */
VW_API int64_t vw_trace_replay(int fd, const char **ret_why);

#ifdef __cplusplus
}
#endif
