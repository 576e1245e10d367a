/* The session's rings: their set-up arrives in pieces and in any order, and whoever completes it starts the ring. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "vhost/session.h"
#include "virtio/features.h"
#include "vwire/types.h"

/* A fresh packed ring has both wrap counters at 1 (2.8.1). */
#define PACKED_BASE_FRESH (UINT32_C(1) << 15 | UINT32_C(1) << 31)

static bool packed(const struct vu_backend *be)
{
        return be->features & F(ring_packed);
}

static uint32_t ring_base(const struct vu_backend *be, const struct vu_vring *v)
{
        if (v->has_base)
                return v->cfg.base;
        return packed(be) ? PACKED_BASE_FRESH : 0;
}

static uint32_t answer_base(const struct vu_backend *be, const struct vu_vring *v)
{
        return v->was_reset && !v->has_base ? v->stopped_at : ring_base(be, v);
}

/* ---- starting and stopping ---- */

static unsigned index_of(const struct vu_backend *be, const struct vu_vring *v)
{
        return (unsigned)(v - be->vring);
}

/* Starts the ring if it has all it needs.  0 also when it has to wait; negative when the device refuses what it is given. */
static int start(struct vu_backend *be, struct vu_vring *v)
{
        unsigned index = index_of(be, v);
        const char *why = "the device does not start the ring";
        int r;

        if (v->running || !v->has_size || !v->has_addr || !v->has_kick || !be->has_features || !be->map)
                return 0;
        v->cfg.base = ring_base(be, v);
        v->cfg.features = be->features;
        r = be->ops->vring_start(be->ctx, index, &v->cfg, v->kick, &why);
        if (r == -EFAULT) {
                log_limited(&be->unready, clock_now(), VW_LOG_WARN, "vhost",
                            "ring waits for memory vring=%u why=\"%s\"", index, why);
                return 0;
        }
        if (r < 0)
                return vu_refuse(be, r, why);
        v->running = true;
        return 0;
}

static void stop(struct vu_backend *be, struct vu_vring *v)
{
        if (!v->running)
                return;
        v->cfg.base = be->ops->vring_stop(be->ctx, index_of(be, v));
        v->has_base = true;
        v->running = false;
}

/* As it was before a change that the device refused.  Should it refuse this too, the ring waits for the front end to set it up. */
static void restart(struct vu_backend *be, struct vu_vring *v)
{
        const char *rule = be->rule;

        if (start(be, v) < 0)
                log_limited(&be->unready, clock_now(), VW_LOG_WARN, "vhost",
                            "ring stopped vring=%u why=\"%s\"", index_of(be, v), be->rule);
        be->rule = rule;
}

static void set_kick(struct vu_vring *v, bool has, int fd)
{
        if (v->kick >= 0)
                close(v->kick);
        v->kick = fd;
        v->has_kick = has;
}

void vu_rings_start_ready(struct vu_backend *be)
{
        for (unsigned i = 0; i < be->config.vrings_max; i++)
                if (start(be, &be->vring[i]) < 0)
                        log_limited(&be->unready, clock_now(), VW_LOG_WARN, "vhost",
                                    "ring not started vring=%u why=\"%s\"", i, be->rule);
}

bool vu_rings_running(const struct vu_backend *be)
{
        for (unsigned i = 0; i < be->config.vrings_max; i++)
                if (be->vring[i].running)
                        return true;
        return false;
}

void vu_rings_stop(struct vu_backend *be)
{
        for (unsigned i = 0; i < be->config.vrings_max; i++)
                stop(be, &be->vring[i]);
}

void vu_rings_reset(struct vu_backend *be)
{
        vu_rings_stop(be);
        for (unsigned i = 0; i < be->config.vrings_max; i++) {
                struct vu_vring *v = &be->vring[i];

                set_kick(v, false, -1);
                *v = (struct vu_vring){ .kick = -1,
                                        .has_call = v->has_call,
                                        .has_err = v->has_err,
                                        .was_reset = true,
                                        .stopped_at = answer_base(be, v) };
        }
}

/* ---- numbers ---- */

/* Puts `changed` in place of the ring's set-up and starts the ring if that completes it; undone when the device refuses it. */
static int adopt(struct vu_backend *be, struct vu_vring *v, const struct vu_vring *changed)
{
        struct vu_vring old = *v;
        int r;

        *v = *changed;
        r = start(be, v);
        if (r < 0)
                *v = old;
        return r;
}

int vu_on_vring_num(struct vu_backend *be, struct vu_msg *msg)
{
        struct vu_vring *v = &be->vring[msg->state.index], changed = *v;
        uint32_t size = msg->state.num;

        if (!size || size > VW_QUEUE_SIZE_MAX)
                return vu_refuse(be, -EINVAL, "ring size out of range");
        if (be->has_features && !packed(be) && size & (size - 1))
                return vu_refuse(be, -EINVAL, "size of a split ring is no power of two");
        if (v->running)
                return size == v->cfg.size ? 0 : vu_refuse(be, -EBUSY, "the ring is running");
        changed.cfg.size = size;
        changed.has_size = true;
        return adopt(be, v, &changed);
}

int vu_on_vring_addr(struct vu_backend *be, struct vu_msg *msg)
{
        const struct vhost_vring_addr *a = &msg->addr;
        struct vu_vring *v = &be->vring[a->index], changed = *v;

        if (a->flags)
                return vu_refuse(be, -EINVAL, "logging of ring writes is not offered");
        if (v->running)
                return a->desc == v->cfg.desc && a->avail == v->cfg.avail && a->used == v->cfg.used
                               ? 0
                               : vu_refuse(be, -EBUSY, "the ring is running");
        changed.cfg.desc = a->desc;
        changed.cfg.avail = a->avail;
        changed.cfg.used = a->used;
        changed.has_addr = true;
        return adopt(be, v, &changed);
}

int vu_on_vring_base(struct vu_backend *be, struct vu_msg *msg)
{
        struct vu_vring *v = &be->vring[msg->state.index], changed = *v;

        if (v->running)
                return vu_refuse(be, -EBUSY, "the ring is running");
        if (be->has_features && !packed(be) && msg->state.num > UINT16_MAX)
                return vu_refuse(be, -EINVAL, "base of a split ring over 65535");
        changed.cfg.base = msg->state.num;
        changed.has_base = true;
        return adopt(be, v, &changed);
}

int vu_on_get_vring_base(struct vu_backend *be, struct vu_msg *msg)
{
        struct vu_vring *v = &be->vring[msg->state.index];

        stop(be, v);
        set_kick(v, false, -1);
        msg->state.num = answer_base(be, v);
        return 0;
}

int vu_on_vring_enable(struct vu_backend *be, struct vu_msg *msg)
{
        if (msg->state.num > 1)
                return vu_refuse(be, -EINVAL, "neither 0 nor 1");
        be->ops->vring_enable(be->ctx, msg->state.index, msg->state.num);
        return 0;
}

/* ---- file descriptors ---- */

/* Adding nothing to an eventfd's counter succeeds, or would have to wait; other files without a type cannot be written so. */
static bool is_eventfd(int fd)
{
        static const uint64_t nothing;

        return write(fd, &nothing, sizeof(nothing)) == sizeof(nothing) || errno == EAGAIN;
}

/* User Mode Linux makes its pipes with socketpair(). */
static bool is_local_stream(int fd)
{
        struct sockaddr_un peer;
        socklen_t len = sizeof(int), peer_len = sizeof(peer);
        int domain, type;

        return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
               !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM &&
               !getpeername(fd, (struct sockaddr *)&peer, &peer_len);
}

static bool is_notifier(int fd, const struct stat *st, int mode)
{
        switch (st->st_mode & S_IFMT) {
        case 0:
                return is_eventfd(fd);
        case S_IFIFO:
                return true;
        case S_IFSOCK:
                return mode == O_WRONLY && is_local_stream(fd);
        default:
                return false;
        }
}

/* Takes the message's fd, if there is one: an eventfd, or the end of a pipe that can be used in direction `mode`. */
static int take_notifier(struct vu_backend *be, struct vu_msg *msg, int mode, int *ret_fd)
{
        int fd = msg->n_fds ? msg->fds[0] : -1, flags;
        struct stat st;

        *ret_fd = -1;
        if (fd < 0)
                return 0;
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fstat(fd, &st) < 0)
                return vu_refuse(be, -EBADF, "no usable file descriptor");
        if ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != mode)
                return vu_refuse(be, -EBADF, "wrong end of a pipe");
        if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || !is_notifier(fd, &st, mode))
                return vu_refuse(be, -EBADF, "neither an eventfd nor a pipe");
        *ret_fd = vu_take_fd(msg, 0);
        return 0;
}

int vu_on_vring_kick(struct vu_backend *be, struct vu_msg *msg)
{
        struct vu_vring *v = &be->vring[msg->u64 & VU_VRING_INDEX_MASK], changed;
        int fd, old = v->kick, r = take_notifier(be, msg, O_RDONLY, &fd);
        bool was_running = v->running;

        if (r < 0)
                return r;
        stop(be, v);
        changed = *v;
        changed.kick = fd;
        changed.has_kick = true;
        r = adopt(be, v, &changed);
        if (r < 0) {
                old = fd; /* it is the new one that goes */
                if (was_running)
                        restart(be, v);
        }
        if (old >= 0)
                close(old);
        return r;
}

int vu_on_vring_call(struct vu_backend *be, struct vu_msg *msg)
{
        unsigned index = msg->u64 & VU_VRING_INDEX_MASK;
        int fd, r = take_notifier(be, msg, O_WRONLY, &fd);

        if (r < 0)
                return r;
        be->ops->vring_call(be->ctx, index, fd);
        be->vring[index].has_call = fd >= 0;
        return 0;
}

int vu_on_vring_err(struct vu_backend *be, struct vu_msg *msg)
{
        unsigned index = msg->u64 & VU_VRING_INDEX_MASK;
        int fd, r = take_notifier(be, msg, O_WRONLY, &fd);

        if (r < 0)
                return r;
        be->ops->vring_err(be->ctx, index, fd);
        be->vring[index].has_err = fd >= 0;
        return 0;
}
