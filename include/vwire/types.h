/* vwire: types that both ends share.  Section numbers are those of the virtio standard, version 1.3. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the shared library exports. */
#define VW_API             __attribute__((visibility("default")))

#define VW_QUEUE_PAIRS_MAX 64    /* pairs of one device */
#define VW_QUEUE_SIZE_MAX  32768 /* entries of one ring (2.7, 2.8) */
#define VW_FRAME_MAX       65593 /* bytes: Ethernet 14 + VLAN tag 4 + IPv6 40 + payload 65535; no virtio header */

enum vw_log_level { VW_LOG_ERROR, VW_LOG_WARN, VW_LOG_INFO, VW_LOG_DEBUG };

/* One event: the component that speaks and a text that ends in pairs, key=value or key="some words"; no newline.  Any thread. */
typedef void vw_log_fn(void *ctx, enum vw_log_level level, const char *component, const char *text);

/* Sends the library's events to `fn` from now on; NULL silences it.  Call it before anything else of the library. */
VW_API void vw_set_log(enum vw_log_level least, vw_log_fn *fn, void *ctx);

/* A value as it may stand in such a pair: itself, if it is one plain word, else in quotes, in `buf`, with a backslash before each quote and
 * backslash.  Cut off where `len`, at least 3, is too short.  Any thread. */
VW_API const char *vw_log_value(const char *value, char *buf, size_t len);

/* For the program's own SIGBUS handler (SA_SIGINFO | SA_NODEFER not needed): true if the fault lies in memory that
 * a peer shares and has taken away; the page is then replaced by zeros, the device that owns it breaks with the
 * reason `memory-gone`, and the handler may return.  Async-signal-safe.  The library installs no handler itself. */
VW_API bool vw_sigbus(const void *fault_address);

/* "0.1.0".  Any thread. */
VW_API const char *vw_version(void);

/* Feature bits by their names in the standard, lower case without prefix ("mrg_rxbuf", "ring_packed", ...).
 * Returns the bit's number or -ENOENT; the name or NULL.  Any thread. */
VW_API int vw_feature_bit(const char *name);
VW_API const char *vw_feature_name(unsigned bit);
/* The bits that the library's device can offer, or its driver ("driver": true) can accept. */
VW_API uint64_t vw_features_built(bool driver);

/* The virtio-net header as it travels with a frame (5.1.6), in host byte order.  Twelve bytes. */
struct vw_net_hdr {
        uint8_t flags;        /* VW_HDR_F_* */
        uint8_t gso_type;     /* VW_GSO_*, perhaps | VW_GSO_ECN */
        uint16_t hdr_len;     /* bytes of headers before the payload; a hint */
        uint16_t gso_size;    /* payload bytes of one segment */
        uint16_t csum_start;  /* with NEEDS_CSUM: where summing starts, from the frame's first byte */
        uint16_t csum_offset; /* and where the sum goes, from csum_start */
        uint16_t num_buffers; /* receive with MRG_RXBUF; 0 in transmit */
};

enum { VW_HDR_F_NEEDS_CSUM = 1, VW_HDR_F_DATA_VALID = 2, VW_HDR_F_RSC_INFO = 4 };
enum {
        VW_GSO_NONE = 0,
        VW_GSO_TCPV4 = 1,
        VW_GSO_UDP = 3, /* UFO: never offered here, known so that it can be refused by name */
        VW_GSO_TCPV6 = 4,
        VW_GSO_UDP_L4 = 5, /* USO */
        VW_GSO_ECN = 0x80,
};

/* Offloads that a port understands in vw_net_hdr on frames given to it (tx) or makes on frames taken from it (rx). */
enum {
        VW_OFFLOAD_CSUM = 1u << 0,
        VW_OFFLOAD_TSO4 = 1u << 1,
        VW_OFFLOAD_TSO6 = 1u << 2,
        VW_OFFLOAD_ECN = 1u << 3,
        VW_OFFLOAD_USO = 1u << 4,
        VW_OFFLOAD_ALL = (1u << 5) - 1,
};

/* A frame on its way through a port.  The header is a private copy; the pieces point into memory that the
 * other side may be writing to.  iov[-1] belongs to the port while it has the packet: it may put the header there. */
struct vw_pkt {
        struct iovec *iov; /* tx: the frame; rx: room for one */
        unsigned n_iov;
        uint32_t len; /* frame bytes; rx: set by the port */
        struct vw_net_hdr hdr;
};

#ifdef __cplusplus
}
#endif
