/* The driver's side: one request, one wait, one reply. */
#include "vhost/frontend.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "virtio/features.h"

#define CHANNEL_MAX 16 /* messages a call: a device must not keep us there */

static int fail(struct vu_frontend *fe, int error, const char *why)
{
        fe->why = why;
        return error;
}

static bool has(const struct vu_frontend *fe, enum vu_protocol_feature feature)
{
        return fe->protocol_features & BIT(feature);
}

/* ---- requests and replies ---- */

static int send_request(struct vu_frontend *fe, struct vu_msg *msg, uint32_t flags, const int *fds,
                        unsigned n_fds)
{
        int r;

        msg->flags = VU_FLAG_VERSION | flags;
        r = vu_write(fe->sock, msg, fds, n_fds, fe->timeout_ms);
        return r < 0 ? fail(fe, r, "cannot send to the device") : 0;
}

/* A time limit that has passed while we did not run, on a machine that is busy, is not the device's: there is always one look. */
static int wait_readable(struct vu_frontend *fe, uint64_t deadline)
{
        struct pollfd p = { .fd = fe->sock, .events = POLLIN };
        uint64_t left = clock_until(deadline, clock_now());
        int r = poll(&p, 1, left ? (int)(left / NSEC_PER_MSEC) + 1 : 0);

        if (r == 0 && !left)
                return fail(fe, -ETIMEDOUT, "the device does not reply");
        if (r < 0 && errno != EINTR)
                return fail(fe, -errno, "cannot wait for the device");
        return 0;
}

/* A whole reply to `request` with a payload of `size` bytes, or (if may_be_empty) none, into fe->reader.msg. */
static int receive_reply(struct vu_frontend *fe, uint32_t request, uint32_t size, bool may_be_empty)
{
        uint64_t deadline = clock_now() + (uint64_t)fe->timeout_ms * NSEC_PER_MSEC;
        struct vu_msg *msg = &fe->reader.msg;
        int r;

        while (!(r = vu_read(&fe->reader, fe->sock, &fe->why))) {
                r = wait_readable(fe, deadline);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        r = 0;
        if (msg->request != request)
                r = fail(fe, -EPROTO, "reply to another request");
        else if (!(msg->flags & VU_FLAG_REPLY))
                r = fail(fe, -EPROTO, "reply that is not marked as one");
        else if (msg->n_fds)
                r = fail(fe, -EPROTO, "reply with file descriptors");
        else if (msg->size != size && !(may_be_empty && !msg->size))
                r = fail(fe, -EPROTO, "reply of the wrong size");
        vu_msg_done(&fe->reader); /* the payload stays where it is */
        return r;
}

/* A request that has no reply of its own: acknowledged where that was negotiated, else only sent. */
static int request(struct vu_frontend *fe, struct vu_msg *msg, const int *fds, unsigned n_fds)
{
        bool ack = has(fe, VHOST_USER_PROTOCOL_F_REPLY_ACK);
        int r = send_request(fe, msg, ack ? VU_FLAG_NEED_REPLY : 0, fds, n_fds);

        if (r < 0 || !ack)
                return r;
        r = receive_reply(fe, msg->request, sizeof(msg->u64), false);
        if (!r && fe->reader.msg.u64)
                r = fail(fe, -EIO, "the device refused");
        return r;
}

static int request_u64(struct vu_frontend *fe, uint32_t number, uint64_t value)
{
        struct vu_msg msg = { .request = number, .size = sizeof(msg.u64), .u64 = value };

        return request(fe, &msg, NULL, 0);
}

static int request_state(struct vu_frontend *fe, uint32_t number, uint32_t index, uint32_t num)
{
        struct vu_msg msg = {
                .request = number, .size = sizeof(msg.state), .state = {index, num}
        };

        return request(fe, &msg, NULL, 0);
}

/* A request whose reply is a number. */
static int ask_u64(struct vu_frontend *fe, uint32_t number, uint64_t *ret_value)
{
        struct vu_msg msg = { .request = number };
        int r = send_request(fe, &msg, 0, NULL, 0);

        if (!r)
                r = receive_reply(fe, number, sizeof(*ret_value), false);
        if (!r)
                *ret_value = fe->reader.msg.u64;
        return r;
}

static int needs(struct vu_frontend *fe, enum vu_protocol_feature feature)
{
        return has(fe, feature) ? 0 : fail(fe, -EOPNOTSUPP, "the protocol feature was not negotiated");
}

/* ---- the session ---- */

static void close_channel(struct vu_frontend *fe)
{
        vu_msg_done(&fe->backend_reader);
        if (fe->backend_req >= 0)
                close(fe->backend_req);
        fe->backend_req = -1;
}

void vu_frontend_init(struct vu_frontend *fe, int sock, int timeout_ms)
{
        *fe = (struct vu_frontend){ .sock = sock, .backend_req = -1, .timeout_ms = timeout_ms, .why = "" };
}

void vu_frontend_done(struct vu_frontend *fe)
{
        if (!fe->why) /* zero-filled: its fds are none of ours */
                return;
        close_channel(fe);
        vu_msg_done(&fe->reader);
        if (fe->sock >= 0)
                close(fe->sock);
        *fe = (struct vu_frontend){ .sock = -1, .backend_req = -1 };
}

int vu_frontend_hello(struct vu_frontend *fe, uint64_t wanted_protocol_features)
{
        struct vu_msg owner = { .request = VHOST_USER_SET_OWNER };
        uint64_t offered = 0, agreed;
        int r = request(fe, &owner, NULL, 0);

        if (!r)
                r = ask_u64(fe, VHOST_USER_GET_FEATURES, &fe->features);
        if (r < 0 || !(fe->features & F(protocol_features)))
                return r;
        r = ask_u64(fe, VHOST_USER_GET_PROTOCOL_FEATURES, &offered);
        agreed = offered & wanted_protocol_features;
        if (!r)
                r = request_u64(fe, VHOST_USER_SET_PROTOCOL_FEATURES, agreed);
        if (!r)
                /* only now: the request that negotiates REPLY_ACK is not acknowledged */
                fe->protocol_features = agreed;
        return r;
}

int vu_frontend_set_features(struct vu_frontend *fe, uint64_t features)
{
        return request_u64(fe, VHOST_USER_SET_FEATURES, features);
}

int vu_frontend_queue_num(struct vu_frontend *fe, uint64_t *ret_num)
{
        int r = needs(fe, VHOST_USER_PROTOCOL_F_MQ);

        return r < 0 ? r : ask_u64(fe, VHOST_USER_GET_QUEUE_NUM, ret_num);
}

int vu_frontend_set_mem(struct vu_frontend *fe, const struct vhost_user_region *regions, const int *fds,
                        unsigned n)
{
        struct vu_msg msg = { .request = VHOST_USER_SET_MEM_TABLE, .mem.nregions = n };

        check(n && n <= ARRAY_SIZE(msg.mem.regions));
        memcpy(msg.mem.regions, regions, n * sizeof(regions[0]));
        msg.size = (uint32_t)(offsetof(struct vu_msg, mem.regions[n]) - offsetof(struct vu_msg, mem));
        return request(fe, &msg, fds, n);
}

int vu_frontend_vring(struct vu_frontend *fe, unsigned index, uint32_t size, uint64_t desc, uint64_t avail,
                      uint64_t used, uint32_t base)
{
        struct vu_msg addr = {
                .request = VHOST_USER_SET_VRING_ADDR,
                .size = sizeof(addr.addr),
                .addr = {.index = index, .desc = desc, .avail = avail, .used = used}
        };
        int r = request_state(fe, VHOST_USER_SET_VRING_NUM, index, size);

        if (!r)
                r = request_state(fe, VHOST_USER_SET_VRING_BASE, index, base);
        if (!r)
                r = request(fe, &addr, NULL, 0);
        return r;
}

static int vring_fd(struct vu_frontend *fe, uint32_t number, unsigned index, int fd)
{
        struct vu_msg msg = { .request = number, .size = sizeof(msg.u64), .u64 = index };

        if (fd < 0)
                msg.u64 |= VU_VRING_NOFD;
        return request(fe, &msg, &fd, fd >= 0);
}

int vu_frontend_vring_call(struct vu_frontend *fe, unsigned index, int call)
{
        return vring_fd(fe, VHOST_USER_SET_VRING_CALL, index, call);
}

int vu_frontend_vring_fds(struct vu_frontend *fe, unsigned index, int kick, int call, int err)
{
        int r = vu_frontend_vring_call(fe, index, call);

        if (!r)
                r = vring_fd(fe, VHOST_USER_SET_VRING_ERR, index, err);
        if (!r)
                r = vring_fd(fe, VHOST_USER_SET_VRING_KICK, index, kick);
        return r;
}

int vu_frontend_vring_enable(struct vu_frontend *fe, unsigned index, bool on)
{
        if (!(fe->features & F(protocol_features)))
                return 0;
        return request_state(fe, VHOST_USER_SET_VRING_ENABLE, index, on);
}

int vu_frontend_vring_stop(struct vu_frontend *fe, unsigned index, uint32_t *ret_base)
{
        struct vu_msg msg = {
                .request = VHOST_USER_GET_VRING_BASE, .size = sizeof(msg.state), .state = {index, 0}
        };
        int r = send_request(fe, &msg, 0, NULL, 0);

        if (!r)
                r = receive_reply(fe, msg.request, sizeof(msg.state), false);
        if (!r && fe->reader.msg.state.index != index)
                r = fail(fe, -EPROTO, "base of another ring");
        if (!r)
                *ret_base = fe->reader.msg.state.num;
        return r;
}

int vu_frontend_get_config(struct vu_frontend *fe, uint32_t offset, uint32_t size, void *buf)
{
        struct vu_msg msg = {
                .request = VHOST_USER_GET_CONFIG, .config = {.offset = offset, .size = size}
        };
        const struct vhost_user_config *got = &fe->reader.msg.config;
        int r = needs(fe, VHOST_USER_PROTOCOL_F_CONFIG);

        if (r < 0)
                return r;
        check(size && size <= sizeof(got->region));
        msg.size = (uint32_t)offsetof(struct vhost_user_config, region) + size;
        r = send_request(fe, &msg, 0, NULL, 0);
        if (!r)
                r = receive_reply(fe, msg.request, msg.size, true);
        if (r < 0)
                return r;
        if (!fe->reader.msg.size)
                return fail(fe, -EIO, "the device has no such configuration field");
        if (got->offset != offset || got->size != size)
                return fail(fe, -EPROTO, "another part of the configuration");
        memcpy(buf, got->region, size);
        return 0;
}

int vu_frontend_set_status(struct vu_frontend *fe, uint8_t status)
{
        int r = needs(fe, VHOST_USER_PROTOCOL_F_STATUS);

        return r < 0 ? r : request_u64(fe, VHOST_USER_SET_STATUS, status);
}

int vu_frontend_get_status(struct vu_frontend *fe, uint8_t *ret_status)
{
        uint64_t status;
        int r = needs(fe, VHOST_USER_PROTOCOL_F_STATUS);

        if (!r)
                r = ask_u64(fe, VHOST_USER_GET_STATUS, &status);
        if (!r && status > UINT8_MAX)
                r = fail(fe, -EPROTO, "status over 255");
        if (!r)
                *ret_status = (uint8_t)status;
        return r;
}

int vu_frontend_set_mtu(struct vu_frontend *fe, uint64_t mtu)
{
        int r = needs(fe, VHOST_USER_PROTOCOL_F_MTU);

        return r < 0 ? r : request_u64(fe, VHOST_USER_NET_SET_MTU, mtu);
}

/* ---- the back-end channel ---- */

/* Of all that a device may say there, a changed configuration is what was negotiated; the rest is answered, if it wants an answer,
 * with "no". */
static int serve_message(struct vu_frontend *fe, struct vu_msg *msg, bool *ret_changed)
{
        bool known = msg->request == VHOST_USER_BACKEND_CONFIG_CHANGE_MSG && !msg->size && !msg->n_fds &&
                     !(msg->flags & VU_FLAG_REPLY);
        bool ack = msg->flags & VU_FLAG_NEED_REPLY && has(fe, VHOST_USER_PROTOCOL_F_REPLY_ACK);

        if (known)
                *ret_changed = true;
        if (!ack)
                return known ? 0 : fail(fe, -EPROTO, "unknown message on the back-end channel");
        msg->flags = VU_FLAG_VERSION | VU_FLAG_REPLY;
        msg->size = sizeof(msg->u64);
        msg->u64 = !known;
        return vu_write(fe->backend_req, msg, NULL, 0, 0);
}

int vu_frontend_dispatch(struct vu_frontend *fe)
{
        bool changed = false;

        for (unsigned n = 0; fe->backend_req >= 0 && n < CHANNEL_MAX; n++) {
                int r = vu_read(&fe->backend_reader, fe->backend_req, &fe->why);

                if (!r)
                        break;
                if (r > 0) {
                        r = serve_message(fe, &fe->backend_reader.msg, &changed);
                        vu_msg_done(&fe->backend_reader);
                }
                if (r < 0) {
                        close_channel(fe);
                        return r;
                }
        }
        return changed;
}

int vu_frontend_backend_channel(struct vu_frontend *fe)
{
        struct vu_msg msg = { .request = VHOST_USER_SET_BACKEND_REQ_FD };
        int pair[2], r = needs(fe, VHOST_USER_PROTOCOL_F_BACKEND_REQ);

        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return fail(fe, -errno, "no sockets for the back-end channel");
        r = request(fe, &msg, &pair[1], 1);
        close(pair[1]);
        if (r < 0) {
                close(pair[0]);
                return r;
        }
        close_channel(fe);
        fe->backend_req = pair[0];
        return 0;
}

int vu_frontend_alive(struct vu_frontend *fe)
{
        char c;
        ssize_t n = recv(fe->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);

        if (n > 0)
                return fail(fe, -EPROTO, "the device speaks out of turn");
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
                return 0;
        return fail(fe, -ECONNRESET, "the device has left");
}
