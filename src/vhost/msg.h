/* vhost-user messages: bytes and file descriptors <-> struct.  Framing only; what a message means is backend.c's and frontend.c's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vu_request {
        VHOST_USER_GET_FEATURES = 1,
        VHOST_USER_SET_FEATURES = 2,
        VHOST_USER_SET_OWNER = 3,
        VHOST_USER_RESET_OWNER = 4,
        VHOST_USER_SET_MEM_TABLE = 5,
        VHOST_USER_SET_LOG_BASE = 6,
        VHOST_USER_SET_LOG_FD = 7,
        VHOST_USER_SET_VRING_NUM = 8,
        VHOST_USER_SET_VRING_ADDR = 9,
        VHOST_USER_SET_VRING_BASE = 10,
        VHOST_USER_GET_VRING_BASE = 11,
        VHOST_USER_SET_VRING_KICK = 12,
        VHOST_USER_SET_VRING_CALL = 13,
        VHOST_USER_SET_VRING_ERR = 14,
        VHOST_USER_GET_PROTOCOL_FEATURES = 15,
        VHOST_USER_SET_PROTOCOL_FEATURES = 16,
        VHOST_USER_GET_QUEUE_NUM = 17,
        VHOST_USER_SET_VRING_ENABLE = 18,
        VHOST_USER_SEND_RARP = 19,
        VHOST_USER_NET_SET_MTU = 20,
        VHOST_USER_SET_BACKEND_REQ_FD = 21,
        VHOST_USER_IOTLB_MSG = 22,
        VHOST_USER_SET_VRING_ENDIAN = 23,
        VHOST_USER_GET_CONFIG = 24,
        VHOST_USER_SET_CONFIG = 25,
        VHOST_USER_CREATE_CRYPTO_SESSION = 26,
        VHOST_USER_CLOSE_CRYPTO_SESSION = 27,
        VHOST_USER_POSTCOPY_ADVISE = 28,
        VHOST_USER_POSTCOPY_LISTEN = 29,
        VHOST_USER_POSTCOPY_END = 30,
        VHOST_USER_GET_INFLIGHT_FD = 31,
        VHOST_USER_SET_INFLIGHT_FD = 32,
        VHOST_USER_GPU_SET_SOCKET = 33,
        VHOST_USER_RESET_DEVICE = 34,
        VHOST_USER_VRING_KICK = 35,
        VHOST_USER_GET_MAX_MEM_SLOTS = 36,
        VHOST_USER_ADD_MEM_REG = 37,
        VHOST_USER_REM_MEM_REG = 38,
        VHOST_USER_SET_STATUS = 39,
        VHOST_USER_GET_STATUS = 40,
        VHOST_USER_GET_SHARED_OBJECT = 41,
        VHOST_USER_REQUEST_MAX
};

/* On the back-end channel (device to front end) */
enum vu_backend_request { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG = 2, VHOST_USER_BACKEND_VRING_CALL = 4 };

enum vu_protocol_feature {
        VHOST_USER_PROTOCOL_F_MQ = 0,
        VHOST_USER_PROTOCOL_F_LOG_SHMFD = 1,
        VHOST_USER_PROTOCOL_F_RARP = 2,
        VHOST_USER_PROTOCOL_F_REPLY_ACK = 3,
        VHOST_USER_PROTOCOL_F_MTU = 4,
        VHOST_USER_PROTOCOL_F_BACKEND_REQ = 5,
        VHOST_USER_PROTOCOL_F_CONFIG = 9,
        VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD = 12,
        VHOST_USER_PROTOCOL_F_RESET_DEVICE = 13,
        VHOST_USER_PROTOCOL_F_INBAND_NOTIFICATIONS = 14,
        VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS = 15,
        VHOST_USER_PROTOCOL_F_STATUS = 16,
};

enum { VU_FLAG_VERSION = 1, VU_FLAG_VERSION_MASK = 3, VU_FLAG_REPLY = 4, VU_FLAG_NEED_REPLY = 8 };

#define VU_FDS_MAX     8    /* of one message */
#define VU_PAYLOAD_MAX 4096 /* bytes; the largest legal one is a configuration space of 256 with its header */

struct vhost_vring_state {
        uint32_t index, num;
};

struct vhost_vring_addr {
        uint32_t index, flags;
        uint64_t desc, used, avail, log;
};

struct vhost_user_region {
        uint64_t guest_addr, size, user_addr, mmap_offset;
};

struct vhost_user_config {
        uint32_t offset, size, flags;
        uint8_t region[256];
};

/* The kick, call and err messages carry the index in the low byte and this when no fd comes along. */
#define VU_VRING_INDEX_MASK 0xff
#define VU_VRING_NOFD       0x100

struct vu_msg {
        uint32_t request, flags, size;
        union {
                uint64_t u64;
                struct vhost_vring_state state;
                struct vhost_vring_addr addr;
                struct {
                        uint32_t nregions, padding;
                        struct vhost_user_region regions[8];
                } mem;
                struct {
                        uint64_t padding;
                        struct vhost_user_region region;
                } mem_reg;
                struct vhost_user_config config;
                uint8_t bytes[VU_PAYLOAD_MAX];
        };
        int fds[VU_FDS_MAX]; /* owned by the message until taken (then -1) */
        unsigned n_fds;
};

/* The first bytes of every message. */
#define VU_HEADER_SIZE 12

/* A message being received from a non-blocking socket, over as many reads as it takes.  Zeroed is ready. */
struct vu_reader {
        struct vu_msg msg;
        uint32_t have; /* bytes of header and payload so far */
};

/* 1: a whole message stands in r->msg (take its fds, then vu_msg_done()); 0: more is to come; -errno with *ret_why:
 * -ECONNRESET at an orderly end between messages, -EPROTO for an end inside one, a wrong version, a size over the limit, too many
 * fds.  After an error the reader holds no fds and the stream is of no use any more. */
int vu_read(struct vu_reader *r, int sock, const char **ret_why);

/* What vu_read() is made of, for whoever gets bytes elsewhere.  Room: where the next bytes go and how many at most (never past the
 * message's end).  Add: `len` bytes were put there; returns as vu_read(), without looking for an end. */
void *vu_reader_room(struct vu_reader *r, size_t *ret_len);
int vu_reader_add(struct vu_reader *r, size_t len, const char **ret_why);

/* Closes the fds that nobody took and readies the reader for the next message. */
void vu_msg_done(struct vu_reader *r);

/* Sends a whole message; waits for room until `timeout_ms`.  0 or -errno: -ETIMEDOUT, -ECONNRESET.  Never SIGPIPE.  After an
 * error a part of it may have been sent: the stream is of no use any more. */
int vu_write(int sock, const struct vu_msg *msg, const int *fds, unsigned n_fds, int timeout_ms);

/* Takes fd i out of the message: it is the caller's then. */
int vu_take_fd(struct vu_msg *msg, unsigned i);

/* "SET_OWNER" or "unknown request". */
const char *vu_request_name(uint32_t request);
