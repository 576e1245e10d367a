/* vwire: ports, where frames come from and go to outside a virtqueue.
 *
 * A port has one lane for each queue pair.  A lane belongs to the worker thread of its pair; opening, closing and the link
 * are the control thread's.  Calls are synchronous: when they return, the port is done with the memory. */
#pragma once
#include "vwire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vw_port;

struct vw_port_config {
        unsigned pairs; /* lanes wanted */
        uint8_t mac[6]; /* of the far end: where a port that makes frames sends them; zero: broadcast */
        unsigned mtu;   /* what a network interface that is opened by name is set to; 0: leave its own */
};

/* Opens the port that `spec` describes (see vwire(1), PORT).  Control thread.  Returns 0 or -errno; on failure *ret_why is a
 * sentence that says what to do (static or thread-local storage). */
VW_API int vw_port_open(const char *spec, const struct vw_port_config *config, struct vw_port **ret_port,
                        const char **ret_why);

/* Control thread, when no worker uses it any more.  NULL is fine. */
VW_API void vw_port_close(struct vw_port *port);

/* What any port can be asked.  Control thread. */
struct vw_port_info {
        char kind[16], name[64];
        bool link_up;
        unsigned mtu;         /* bytes after the Ethernet header; 0: no limit of its own */
        uint32_t tx_offloads; /* VW_OFFLOAD_*: what it takes */
        uint32_t rx_offloads; /* what it may hand over now */
        uint64_t dropped;     /* frames that were lost before vw_port_rx() could hand them over */
        uint8_t mac[6];
        bool bridged; /* it carries frames of other addresses than its own */
};
VW_API void vw_port_info(struct vw_port *port, struct vw_port_info *ret_info);

/* Which offloads frames from the port may carry from now on; a port that cannot make them never does.  Control thread. */
VW_API int vw_port_set_rx_offloads(struct vw_port *port, uint32_t offloads);

/* Sets the port's own address (NULL: leave), MTU (0: leave) and carrier, where it is a network interface.  Control thread.  -EOPNOTSUPP elsewhere. */
VW_API int vw_port_set_identity(struct vw_port *port, const uint8_t mac[6], unsigned mtu);
VW_API int vw_port_set_carrier(struct vw_port *port, bool up);

/* A fd that becomes readable when link, MTU or existence of the port may have changed, or -1; after that read vw_port_info(). */
VW_API int vw_port_event_fd(const struct vw_port *port);
VW_API void vw_port_event_ack(struct vw_port *port);

/* Number of pairs of lanes that are read; a port with several lanes spreads flows over them.  Control thread. */
VW_API int vw_port_set_active(struct vw_port *port, unsigned pairs);

/* ---- the lane's worker thread ---- */

/* Two kinds of ports.  One with a fd: a frame waits when the fd is readable, and there is room again when it is writable.
 * One without (fd -1: null, loop, gen): it changes by its own lane's calls and by time alone, so that two rules suffice:
 *   - a frame waits for vw_port_rx() if and only if vw_port_deadline() <= now; look after vw_port_tx() and before sleeping,
 *     and sleep no longer than to the deadline, unless the worker has no room for a frame anyway;
 *   - when vw_port_tx() took fewer than n, frames wait (the deadline is 0), and each vw_port_rx() that returns 1 makes room: then
 *     ask again.  A worker without room for the waiting frame waits for that room; both directions stand still and nothing is lost. */

/* The fd to sleep on, or -1.  On EPOLLERR or EPOLLHUP, which no mask keeps away, call vw_port_rx() (without room, if need be)
 * and ask for the fd anew: a port that has ceased to exist has none. */
VW_API int vw_port_fd(const struct vw_port *port, unsigned lane);

/* Frames out, in order.  Returns how many were taken or dropped: fewer than n means the port is full, ask again when it
 * is writable.  A frame that failed is counted by its pkt: result[i] is 0 or -errno (-ENETDOWN: port down, others: port error). */
VW_API int vw_port_tx(struct vw_port *port, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result);

/* One frame in, into pkt->iov (room for the longest frame): one at a time, since where the next begins depends on the
 * length of this.  1: pkt->len and pkt->hdr are set, and pkt->hdr asks for nothing that vw_port_set_rx_offloads() did not
 * allow; 0: none waits; -ENODEV: the port has ceased to exist; other -errno: try again when the fd says so. */
VW_API int vw_port_rx(struct vw_port *port, unsigned lane, struct vw_pkt *pkt);

/* When a frame comes that the fd does not announce, in nanoseconds of the monotonic clock: 0 now, UINT64_MAX none.  Reads no clock. */
VW_API uint64_t vw_port_deadline(const struct vw_port *port, unsigned lane);

/* The longest frame that vw_port_rx() can hand over now. */
VW_API uint32_t vw_port_rx_max(const struct vw_port *port, unsigned lane);

/* ---- ports of your own ---- */

/* The same calls by the same names; NULL where the default will do.  `vw_port_new` gives a port whose calls go to `ops`. */
struct vw_port_ops {
        void (*close)(void *self);
        void (*info)(void *self, struct vw_port_info *ret_info);
        int (*set_rx_offloads)(void *self, uint32_t offloads);
        int (*set_identity)(void *self, const uint8_t mac[6], unsigned mtu);
        int (*set_carrier)(void *self, bool up);
        int (*event_fd)(const void *self);
        void (*event_ack)(void *self);
        int (*set_active)(void *self, unsigned pairs);
        int (*fd)(const void *self, unsigned lane);
        int (*tx)(void *self, unsigned lane, struct vw_pkt *pkts, unsigned n, int *result);
        int (*rx)(void *self, unsigned lane, struct vw_pkt *pkt);
        uint64_t (*deadline)(const void *self, unsigned lane);
        uint32_t (*rx_max)(const void *self, unsigned lane);
};

/* Copies `ops`; `self` is yours until vw_port_close() calls `close`.  NULL: no memory. */
VW_API struct vw_port *vw_port_new(const struct vw_port_ops *ops, void *self);

/* A capture of what crosses the port, in pcap format with nanoseconds; fd -1 stops it.  Takes the fd on success only and writes to it from
 * a thread of its own.  Control thread, while the lanes run: they need not be told.  A full disk or slow pipe loses captured frames
 * (counted), never traffic.  0 or -errno. */
VW_API int vw_port_capture(struct vw_port *port, int fd);
VW_API uint64_t vw_port_capture_lost(const struct vw_port *port);

#ifdef __cplusplus
}
#endif
