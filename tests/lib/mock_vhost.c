#include "mock_vhost.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/iov.h"
#include "test.h"

#define TIMEOUT_MS 2000 /* nothing here should wait; this bounds a failing test */

/* ---- the device ---- */

static uint64_t features(void *ctx)
{
        struct mock_device *d = ctx;

        return d->offered;
}

static int set_features(void *ctx, uint64_t f, const char **ret_why)
{
        struct mock_device *d = ctx;

        if (features_closed(f) != f) {
                *ret_why = "a feature without its prerequisite";
                return -EINVAL;
        }
        d->features = f;
        return 0;
}

static int set_map(void *ctx, struct mem_map *map)
{
        struct mock_device *d = ctx;

        if (map && d->map_error)
                return d->map_error;
        d->maps++;
        mem_map_put(d->map);
        d->map = mem_map_get(map);
        return 0;
}

static bool mapped(const struct mock_device *d, const struct vq_config *cfg)
{
        return d->map && mem_map_uva(d->map, cfg->desc, 16 * cfg->size) &&
               mem_map_uva(d->map, cfg->avail, 6 + 2 * cfg->size) &&
               mem_map_uva(d->map, cfg->used, 6 + 8 * cfg->size);
}

static int vring_start(void *ctx, unsigned index, const struct vq_config *cfg, int kick, const char **ret_why)
{
        struct mock_device *d = ctx;
        struct mock_vring *v = &d->vring[index];
        int error = d->start_error;

        EXPECT(index < MOCK_VRINGS && !v->running);
        *ret_why = "the test says so";
        if (d->fails_once)
                d->start_error = 0;
        if (error)
                return error;
        *ret_why = "not aligned";
        if (cfg->desc % 16 || cfg->avail % 2 || cfg->used % 4)
                return -EINVAL;
        *ret_why = "not mapped";
        if (!mapped(d, cfg))
                return -EFAULT;
        v->cfg = *cfg;
        v->kick = kick;
        v->running = true;
        v->starts++;
        return 0;
}

static uint32_t vring_stop(void *ctx, unsigned index)
{
        struct mock_device *d = ctx;
        struct mock_vring *v = &d->vring[index];

        EXPECT(index < MOCK_VRINGS && v->running);
        EXPECT(v->kick < 0 || fcntl(v->kick, F_GETFD) >= 0); /* still open */
        v->running = false;
        v->stops++;
        return d->stop_base;
}

static void vring_enable(void *ctx, unsigned index, bool on)
{
        struct mock_device *d = ctx;

        EXPECT(index < MOCK_VRINGS);
        d->vring[index].enabled = on;
        d->vring[index].enables++;
}

static void replace_fd(int *fd, int with)
{
        if (*fd >= 0)
                close(*fd);
        *fd = with;
}

static void vring_call(void *ctx, unsigned index, int fd)
{
        struct mock_device *d = ctx;

        EXPECT(index < MOCK_VRINGS);
        replace_fd(&d->vring[index].call, fd);
        d->vring[index].calls++;
}

static void vring_err(void *ctx, unsigned index, int fd)
{
        struct mock_device *d = ctx;

        EXPECT(index < MOCK_VRINGS);
        replace_fd(&d->vring[index].err, fd);
        d->vring[index].errs++;
}

static uint32_t get_config(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size)
{
        struct mock_device *d = ctx;

        if (offset >= d->config_size)
                return 0;
        size = MIN(size, d->config_size - offset);
        memcpy(buf, d->config + offset, size);
        return size;
}

static int set_config(void *ctx, const uint8_t *buf, uint32_t offset, uint32_t size, uint32_t flags)
{
        struct mock_device *d = ctx;

        if (!d->config_writable || offset > d->config_size || size > d->config_size - offset)
                return -EINVAL;
        memcpy(d->config + offset, buf, size);
        return 0;
}

static int set_mtu(void *ctx, uint64_t mtu)
{
        struct mock_device *d = ctx;

        d->mtu = mtu;
        return 0;
}

static void set_status(void *ctx, uint8_t status)
{
        struct mock_device *d = ctx;

        d->status = status;
}

static uint8_t get_status(void *ctx)
{
        struct mock_device *d = ctx;

        return d->status;
}

static void reset(void *ctx)
{
        struct mock_device *d = ctx;

        for (unsigned i = 0; i < MOCK_VRINGS; i++)
                EXPECT(!d->vring[i].running);
        d->resets++;
        d->features = 0;
}

static const struct vu_backend_ops ops = {
        .features = features,
        .set_features = set_features,
        .set_map = set_map,
        .vring_start = vring_start,
        .vring_stop = vring_stop,
        .vring_enable = vring_enable,
        .vring_call = vring_call,
        .vring_err = vring_err,
        .get_config = get_config,
        .set_config = set_config,
        .set_mtu = set_mtu,
        .set_status = set_status,
        .get_status = get_status,
        .reset = reset,
};

/* ---- what must not grow ---- */

unsigned mock_count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        EXPECT(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

unsigned mock_count_mappings(void)
{
        FILE *f = fopen("/proc/self/maps", "re");
        char line[512];
        unsigned n = 0;

        EXPECT(f);
        while (fgets(line, sizeof(line), f))
                n += strstr(line, "/memfd:") != NULL;
        fclose(f);
        return n;
}

int mock_memfd(uint64_t size)
{
        int fd = memfd_create("mock", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        EXPECT(fd >= 0);
        EXPECT_EQ(ftruncate(fd, (off_t)size), 0);
        return fd;
}

/* ---- the session ---- */

void mock_open(struct mock_session *s, uint64_t protocol_features)
{
        const struct vu_backend_config config = { .vrings_max = MOCK_VRINGS,
                                                  .queue_num = 2,
                                                  .protocol_features = protocol_features };
        int pair[2];

        *s = (struct mock_session){ .fds = mock_count_fds(), .mappings = mock_count_mappings() };
        s->dev.offered = features_device();
        s->dev.config_size = sizeof(struct virtio_net_config);
        for (unsigned i = 0; i < MOCK_VRINGS; i++)
                s->dev.vring[i].kick = s->dev.vring[i].call = s->dev.vring[i].err = -1;
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        s->sock = pair[0];
        EXPECT_EQ(vu_backend_new(&config, &ops, &s->dev, pair[1], &s->be), 0);
}

static void end(struct mock_session *s)
{
        vu_backend_free(s->be);
        s->be = NULL;
        EXPECT(!s->dev.map);
        for (unsigned i = 0; i < MOCK_VRINGS; i++) {
                const struct mock_vring *v = &s->dev.vring[i];

                EXPECT(!v->running && v->call < 0 && v->err < 0);
        }
}

void mock_close(struct mock_session *s)
{
        if (s->be)
                end(s);
        close(s->sock);
        EXPECT_EQ(mock_count_fds(), s->fds);
        EXPECT_EQ(mock_count_mappings(), s->mappings);
}

static void send_with_fds(struct mock_session *s, struct iovec *iov, unsigned n_iov, const int *fds,
                          unsigned n_fds)
{
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(253 * sizeof(int))];
        } control;
        struct msghdr mh = { .msg_iov = iov, .msg_iovlen = n_iov };

        if (n_fds) {
                memset(&control, 0, sizeof(control));
                control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
                control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
                memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
                mh.msg_control = &control;
                mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        }
        EXPECT_EQ(sendmsg(s->sock, &mh, MSG_NOSIGNAL), (ssize_t)iov_length(iov, n_iov));
}

void mock_send(struct mock_session *s, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
               const int *fds, unsigned n_fds)
{
        uint32_t header[3] = { request, flags, size };
        struct iovec iov[2] = {
                {header,                      sizeof(header)    },
                { (void *)(uintptr_t)payload, payload ? size : 0}
        };

        send_with_fds(s, iov, 2, fds, n_fds);
}

void mock_send_part(struct mock_session *s, const struct vu_msg *header, const void *payload, uint32_t bytes,
                    const int *fds, unsigned n_fds)
{
        uint32_t first = MIN(bytes, VU_HEADER_SIZE);
        struct iovec iov[2] = {
                {(void *)(uintptr_t)header,   first        },
                { (void *)(uintptr_t)payload, bytes - first}
        };

        send_with_fds(s, iov, 2, fds, n_fds);
}

void mock_send_bytes(struct mock_session *s, const void *bytes, size_t len)
{
        EXPECT_EQ(send(s->sock, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

bool mock_serve(struct mock_session *s)
{
        const char *why = "";

        EXPECT(s->be);
        s->error = vu_backend_dispatch(s->be, &why);
        if (!s->error)
                return true;
        EXPECT(s->error < 0 && *why);
        snprintf(s->why, sizeof(s->why), "%s", why);
        end(s);
        return false;
}

bool mock_receive(struct mock_session *s, struct vu_msg *ret_reply)
{
        struct vu_reader reader = { 0 };
        const char *why;
        int r = vu_read(&reader, s->sock, &why);

        if (r == 1)
                *ret_reply = reader.msg;
        vu_msg_done(&reader);
        return r == 1;
}

enum verdict mock_say(struct mock_session *s, uint32_t request, uint32_t flags, const void *payload,
                      uint32_t size, const int *fds, unsigned n_fds, struct vu_msg *ret_reply)
{
        struct vu_msg reply;

        mock_send(s, request, flags, payload, size, fds, n_fds);
        if (!mock_serve(s))
                return CLOSED;
        if (!mock_receive(s, &reply))
                return SILENT;
        EXPECT_EQ(reply.request, request);
        EXPECT_EQ(reply.flags, VU_FLAG_VERSION | VU_FLAG_REPLY);
        EXPECT(!mock_receive(s, &(struct vu_msg){ 0 })); /* never two */
        if (ret_reply)
                *ret_reply = reply;
        switch (request) {
        case VHOST_USER_GET_FEATURES:
        case VHOST_USER_GET_PROTOCOL_FEATURES:
        case VHOST_USER_GET_QUEUE_NUM:
        case VHOST_USER_GET_VRING_BASE:
        case VHOST_USER_GET_CONFIG:
        case VHOST_USER_GET_MAX_MEM_SLOTS:
        case VHOST_USER_GET_STATUS:
                return REPLIED;
        default:
                EXPECT_EQ(reply.size, 8);
                return reply.u64 ? REFUSED : ACCEPTED;
        }
}

#define ASK (VU_FLAG_VERSION | VU_FLAG_NEED_REPLY)

enum verdict mock_u64(struct mock_session *s, uint32_t request, uint64_t value)
{
        return mock_say(s, request, ASK, &value, sizeof(value), NULL, 0, NULL);
}

enum verdict mock_u64_fd(struct mock_session *s, uint32_t request, uint64_t value, int fd)
{
        return mock_say(s, request, ASK, &value, sizeof(value), &fd, 1, NULL);
}

enum verdict mock_state(struct mock_session *s, uint32_t request, uint32_t index, uint32_t num)
{
        struct vhost_vring_state state = { index, num };

        return mock_say(s, request, ASK, &state, sizeof(state), NULL, 0, NULL);
}

enum verdict mock_empty(struct mock_session *s, uint32_t request)
{
        return mock_say(s, request, ASK, NULL, 0, NULL, 0, NULL);
}

enum verdict mock_addr(struct mock_session *s, uint32_t index, uint64_t desc, uint64_t avail, uint64_t used)
{
        struct vhost_vring_addr addr = { .index = index, .desc = desc, .avail = avail, .used = used };

        return mock_say(s, VHOST_USER_SET_VRING_ADDR, ASK, &addr, sizeof(addr), NULL, 0, NULL);
}

enum verdict mock_mem_table(struct mock_session *s, const struct vhost_user_region *regions, const int *fds,
                            unsigned n)
{
        struct {
                uint32_t n, padding;
                struct vhost_user_region region[8];
        } table = { .n = n };

        EXPECT(n <= 8);
        if (n)
                memcpy(table.region, regions, n * sizeof(*regions));
        return mock_say(s, VHOST_USER_SET_MEM_TABLE, ASK, &table, 8 + n * (uint32_t)sizeof(*regions), fds, n,
                        NULL);
}

enum verdict mock_mem_reg(struct mock_session *s, uint32_t request, const struct vhost_user_region *region,
                          int fd)
{
        struct {
                uint64_t padding;
                struct vhost_user_region region;
        } payload = { .region = *region };

        return mock_say(s, request, ASK, &payload, sizeof(payload), &fd, fd >= 0, NULL);
}

void mock_hello(struct mock_session *s, uint64_t protocol_features)
{
        EXPECT_EQ(mock_empty(s, VHOST_USER_GET_FEATURES), REPLIED);
        EXPECT_EQ(mock_empty(s, VHOST_USER_GET_PROTOCOL_FEATURES), REPLIED);
        EXPECT(mock_u64(s, VHOST_USER_SET_PROTOCOL_FEATURES, protocol_features) <= ACCEPTED);
        EXPECT(mock_empty(s, VHOST_USER_SET_OWNER) <= ACCEPTED);
        EXPECT(mock_u64(s, VHOST_USER_SET_FEATURES, s->dev.offered) <= ACCEPTED);
}

int mock_hello_with_memory(struct mock_session *s, uint64_t protocol_features, unsigned pages)
{
        struct vhost_user_region region = { .guest_addr = MOCK_GPA,
                                            .user_addr = MOCK_UVA,
                                            .size = pages * MOCK_PAGE };
        int fd = mock_memfd(region.size);

        mock_hello(s, protocol_features);
        EXPECT(mock_mem_table(s, &region, &fd, 1) <= ACCEPTED);
        return fd;
}

void mock_ring_up(struct mock_session *s, uint32_t index)
{
        uint64_t at = MOCK_UVA + index * MOCK_PAGE;
        int kick = eventfd(0, EFD_CLOEXEC);

        EXPECT(mock_state(s, VHOST_USER_SET_VRING_NUM, index, 16) <= ACCEPTED);
        EXPECT(mock_state(s, VHOST_USER_SET_VRING_BASE, index, 0) <= ACCEPTED);
        EXPECT(mock_addr(s, index, at, at + 512, at + 1024) <= ACCEPTED);
        EXPECT(mock_u64_fd(s, VHOST_USER_SET_VRING_KICK, index, kick) <= ACCEPTED);
        close(kick);
}
