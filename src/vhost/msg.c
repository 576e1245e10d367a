/* Framing.  A message is a header of three words, a payload of the size that the header states, and file descriptors that
 * may arrive with any of its bytes.  Nothing past the end of a message is ever read with it: a read that did could attach
 * the next message's descriptors to this one. */
#include "vhost/msg.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/iov.h"

static_assert(offsetof(struct vu_msg, size) + 4 == VU_HEADER_SIZE,
              "the header's words come first, in the wire's order");

/* ---- receiving ---- */

void *vu_reader_room(struct vu_reader *r, size_t *ret_len)
{
        if (r->have < VU_HEADER_SIZE) {
                *ret_len = VU_HEADER_SIZE - r->have;
                return (uint8_t *)&r->msg + r->have;
        }
        *ret_len = VU_HEADER_SIZE + r->msg.size - r->have;
        return r->msg.bytes + (r->have - VU_HEADER_SIZE);
}

int vu_reader_add(struct vu_reader *r, size_t len, const char **ret_why)
{
        r->have += (uint32_t)len;
        if (r->have < VU_HEADER_SIZE)
                return 0;
        if ((r->msg.flags & VU_FLAG_VERSION_MASK) != VU_FLAG_VERSION) {
                *ret_why = "message of an unknown version";
                return -EPROTO;
        }
        if (r->msg.size > VU_PAYLOAD_MAX) {
                *ret_why = "message too long";
                return -EPROTO;
        }
        return r->have == VU_HEADER_SIZE + r->msg.size;
}

/* Moves the descriptors of one recvmsg() into the message.  Those that do not fit any more are closed. */
static int add_fds(struct vu_msg *msg, struct msghdr *mh, const char **ret_why)
{
        bool overflow = mh->msg_flags & MSG_CTRUNC;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
                        if (msg->n_fds < VU_FDS_MAX) {
                                msg->fds[msg->n_fds++] = fd;
                        } else {
                                close(fd);
                                overflow = true;
                        }
                }
        }
        if (overflow)
                *ret_why = "message with too many file descriptors";
        return overflow ? -EPROTO : 0;
}

/* The stream's end, an error, or (0) nothing there at the moment. */
static int read_nothing(const struct vu_reader *r, ssize_t n, const char **ret_why)
{
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return 0;
        if (n < 0 && errno != ECONNRESET) {
                *ret_why = "cannot read from the socket";
                return -errno;
        }
        if (!r->have)
                *ret_why = "the peer has left";
        else if (r->have < VU_HEADER_SIZE)
                *ret_why = "the peer has left within a message: short header";
        else
                *ret_why = "the peer has left within a message: short payload";
        return r->have ? -EPROTO : -ECONNRESET;
}

static int read_some(struct vu_reader *r, int sock, const char **ret_why)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(VU_FDS_MAX * sizeof(int))];
        } control;
        struct iovec iov;
        struct msghdr mh = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        ssize_t n;
        int ret;

        iov.iov_base = vu_reader_room(r, &iov.iov_len);
        do
                n = recvmsg(sock, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0) {
                ret = read_nothing(r, n, ret_why);
                return ret ? ret : -EAGAIN;
        }
        ret = add_fds(&r->msg, &mh, ret_why);
        return ret ? ret : vu_reader_add(r, (size_t)n, ret_why);
}

int vu_read(struct vu_reader *r, int sock, const char **ret_why)
{
        int ret;

        do
                ret = read_some(r, sock, ret_why);
        while (!ret);
        if (ret == -EAGAIN)
                return 0;
        if (ret < 0)
                vu_msg_done(r);
        return ret;
}

void vu_msg_done(struct vu_reader *r)
{
        for (unsigned i = 0; i < r->msg.n_fds; i++)
                if (r->msg.fds[i] >= 0)
                        close(r->msg.fds[i]);
        r->msg.n_fds = 0;
        r->have = 0;
}

int vu_take_fd(struct vu_msg *msg, unsigned i)
{
        int fd;

        if (i >= msg->n_fds)
                return -1;
        fd = msg->fds[i];
        msg->fds[i] = -1;
        return fd;
}

/* ---- sending ---- */

static int wait_writable(int sock, uint64_t deadline)
{
        struct pollfd p = { .fd = sock, .events = POLLOUT };
        uint64_t left = clock_until(deadline, clock_now());
        int r;

        if (!left)
                return -ETIMEDOUT;
        r = poll(&p, 1, (int)(left / NSEC_PER_MSEC) + 1);
        return r < 0 && errno != EINTR ? -errno : 0;
}

int vu_write(int sock, const struct vu_msg *msg, const int *fds, unsigned n_fds, int timeout_ms)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(VU_FDS_MAX * sizeof(int))];
        } control = { 0 };
        struct iovec iov[2] = {
                {.iov_base = (void *)(uintptr_t)msg,         .iov_len = VU_HEADER_SIZE},
                { .iov_base = (void *)(uintptr_t)msg->bytes, .iov_len = msg->size     }
        };
        struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };
        uint64_t deadline = clock_now() + (uint64_t)timeout_ms * NSEC_PER_MSEC;

        check(n_fds <= VU_FDS_MAX && msg->size <= VU_PAYLOAD_MAX);
        if (n_fds) {
                control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
                control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
                mh.msg_control = &control;
                mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        }
        while (mh.msg_iovlen) {
                ssize_t n = sendmsg(sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n >= 0) {
                        unsigned done = iov_skip(mh.msg_iov, (unsigned)mh.msg_iovlen, (size_t)n);

                        mh.msg_iov += done;
                        mh.msg_iovlen -= done;
                        mh.msg_control = NULL; /* they went with the first byte */
                        mh.msg_controllen = 0;
                } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                        int r = wait_writable(sock, deadline);

                        if (r < 0)
                                return r;
                } else if (errno != EINTR) {
                        return errno == EPIPE ? -ECONNRESET : -errno;
                }
        }
        return 0;
}

/* ---- names ---- */

static const char *const request_names[] = {
#define NAME(r) [VHOST_USER_##r] = #r
        NAME(GET_FEATURES),
        NAME(SET_FEATURES),
        NAME(SET_OWNER),
        NAME(RESET_OWNER),
        NAME(SET_MEM_TABLE),
        NAME(SET_LOG_BASE),
        NAME(SET_LOG_FD),
        NAME(SET_VRING_NUM),
        NAME(SET_VRING_ADDR),
        NAME(SET_VRING_BASE),
        NAME(GET_VRING_BASE),
        NAME(SET_VRING_KICK),
        NAME(SET_VRING_CALL),
        NAME(SET_VRING_ERR),
        NAME(GET_PROTOCOL_FEATURES),
        NAME(SET_PROTOCOL_FEATURES),
        NAME(GET_QUEUE_NUM),
        NAME(SET_VRING_ENABLE),
        NAME(SEND_RARP),
        NAME(NET_SET_MTU),
        NAME(SET_BACKEND_REQ_FD),
        NAME(IOTLB_MSG),
        NAME(SET_VRING_ENDIAN),
        NAME(GET_CONFIG),
        NAME(SET_CONFIG),
        NAME(CREATE_CRYPTO_SESSION),
        NAME(CLOSE_CRYPTO_SESSION),
        NAME(POSTCOPY_ADVISE),
        NAME(POSTCOPY_LISTEN),
        NAME(POSTCOPY_END),
        NAME(GET_INFLIGHT_FD),
        NAME(SET_INFLIGHT_FD),
        NAME(GPU_SET_SOCKET),
        NAME(RESET_DEVICE),
        NAME(VRING_KICK),
        NAME(GET_MAX_MEM_SLOTS),
        NAME(ADD_MEM_REG),
        NAME(REM_MEM_REG),
        NAME(SET_STATUS),
        NAME(GET_STATUS),
        NAME(GET_SHARED_OBJECT),
#undef NAME
};
static_assert(ARRAY_SIZE(request_names) == VHOST_USER_REQUEST_MAX, "a name for each request");

const char *vu_request_name(uint32_t request)
{
        if (request >= ARRAY_SIZE(request_names) || !request_names[request])
                return "unknown request";
        return request_names[request];
}
