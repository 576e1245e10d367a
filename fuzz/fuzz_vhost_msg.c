/* What a front end sends, in any pieces and with any file descriptors.  The input is a list of steps:
 *      u8 number of fds (0..15), that many u8 kinds of fd, le16 length, bytes
 * Each step is one sendmsg(); after it the session serves what has come and its replies are read.  Checked: the session calls
 * the device only as backend.h says, replies are framed, and nothing is left open at the end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "fuzz.h"
#include "fuzz_fds.h"
#include "vhost/backend.h"
#include "virtio/features.h"

#define VRINGS 3
#define PAGES  16
#define PAGE   4096

struct device {
        struct mem_map *map;
        uint64_t features;
        struct {
                int kick, call, err;
                bool running;
        } vring[VRINGS];
};

static uint64_t features(void *ctx)
{
        return features_device() | F(ring_packed);
}

static int set_features(void *ctx, uint64_t f, const char **ret_why)
{
        struct device *d = ctx;

        check(!(f & ~features(ctx)));
        for (unsigned i = 0; i < VRINGS; i++)
                check(!d->vring[i].running);
        if (features_closed(f) != f)
                return -1;
        d->features = f;
        return 0;
}

static int set_map(void *ctx, struct mem_map *map)
{
        struct device *d = ctx;

        check(!map || map->n);
        mem_map_put(d->map);
        d->map = mem_map_get(map);
        return 0;
}

/* Takes what a device would take, and touches the ring's memory as it would. */
static int vring_start(void *ctx, unsigned index, const struct vq_config *cfg, int kick, const char **ret_why)
{
        struct device *d = ctx;
        uint8_t *desc;

        check(index < VRINGS && !d->vring[index].running && d->map);
        check(cfg->size && cfg->size <= 32768 && cfg->features == d->features);
        check(kick < 0 || fcntl(kick, F_GETFL) & O_NONBLOCK);
        if (!(cfg->features & F(ring_packed)) && cfg->size & (cfg->size - 1))
                return -EINVAL;
        if (cfg->desc % 16)
                return -EINVAL;
        desc = mem_map_uva(d->map, cfg->desc, 16 * (uint64_t)cfg->size);
        if (!desc || !mem_map_uva(d->map, cfg->avail, 4) || !mem_map_uva(d->map, cfg->used, 4))
                return -EFAULT;
        desc[0]++;
        desc[16 * cfg->size - 1]++;
        d->vring[index].kick = kick;
        d->vring[index].running = true;
        return 0;
}

static uint32_t vring_stop(void *ctx, unsigned index)
{
        struct device *d = ctx;
        int kick = d->vring[index].kick;

        check(index < VRINGS && d->vring[index].running);
        check(kick < 0 || fcntl(kick, F_GETFD) >= 0);
        d->vring[index].running = false;
        return d->features & F(ring_packed) ? 0x80008000 : 7;
}

static void vring_enable(void *ctx, unsigned index, bool on)
{
        check(index < VRINGS);
}

static void replace(int *fd, int with)
{
        if (*fd >= 0)
                check(close(*fd) == 0);
        check(with < 0 || fcntl(with, F_GETFL) & O_NONBLOCK);
        *fd = with;
}

static void vring_call(void *ctx, unsigned index, int fd)
{
        struct device *d = ctx;

        check(index < VRINGS);
        replace(&d->vring[index].call, fd);
}

static void vring_err(void *ctx, unsigned index, int fd)
{
        struct device *d = ctx;

        check(index < VRINGS);
        replace(&d->vring[index].err, fd);
}

static uint32_t get_config(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size)
{
        static const uint8_t space[24];

        if (offset >= sizeof(space))
                return 0;
        size = MIN(size, (uint32_t)sizeof(space) - offset);
        memcpy(buf, space + offset, size);
        return size;
}

static int set_config(void *ctx, const uint8_t *buf, uint32_t offset, uint32_t size, uint32_t flags)
{
        uint8_t copy[256];

        check(size && size <= sizeof(copy));
        memcpy(copy, buf, size);
        return copy[size - 1] & 1 ? 0 : -1;
}

static int set_mtu(void *ctx, uint64_t mtu)
{
        check(mtu >= 68 && mtu <= 65535);
        return 0;
}

static void set_status(void *ctx, uint8_t status)
{
}

static uint8_t get_status(void *ctx)
{
        return 15;
}

static void reset(void *ctx)
{
        struct device *d = ctx;

        for (unsigned i = 0; i < VRINGS; i++)
                check(!d->vring[i].running);
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

/* One fd of each kind, made once; the target sends copies. */
static int fd_of_kind(unsigned kind)
{
        static int fds[8];
        int pair[2];

        if (!fds[0]) {
                fds[0] = memfd_create("fuzz", MFD_CLOEXEC);
                check(ftruncate(fds[0], PAGES * PAGE) == 0);
                fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                check(pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
                fds[2] = pair[0];
                fds[3] = pair[1];
                check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
                fds[4] = pair[0];
                fds[5] = open("/dev/null", O_RDWR | O_CLOEXEC);
                fds[6] = memfd_create("fuzz", MFD_CLOEXEC);
                check(ftruncate(fds[6], PAGE + 100) == 0);
                fds[7] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        }
        return fds[kind % ARRAY_SIZE(fds)];
}

/* Sends the step at `data`; returns the bytes that it took, 0 at the end of the input. */
static size_t send_step(int sock, const uint8_t *data, size_t size)
{
        unsigned n_fds = size ? data[0] & FUZZ_FDS_MAX : 0;
        size_t head = 1 + n_fds + 2, len;
        int fds[FUZZ_FDS_MAX];

        if (size < head)
                return 0;
        for (unsigned i = 0; i < n_fds; i++)
                fds[i] = fd_of_kind(data[1 + i]);
        len = MIN(data[head - 2] | (size_t)data[head - 1] << 8, size - head);
        fuzz_send(sock, data + head, len, fds, n_fds);
        return head + len;
}

static void read_replies(int sock)
{
        struct vu_reader r = { 0 };
        const char *why;

        while (vu_read(&r, sock, &why) == 1) {
                check(r.msg.flags == (VU_FLAG_VERSION | VU_FLAG_REPLY) && !r.msg.n_fds);
                vu_msg_done(&r);
        }
        check(!r.have);
}

static bool serve(struct vu_backend *be, int sock)
{
        const char *why = NULL;
        char c;

        do {
                int r = vu_backend_dispatch(be, &why);

                read_replies(sock);
                if (r < 0) {
                        check(why && *why);
                        return false;
                }
        } while (recv(vu_backend_fd(be), &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0);
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct vu_backend_config config = { .vrings_max = VRINGS,
                                                  .queue_num = 1,
                                                  .protocol_features = VU_BACKEND_PROTOCOL_FEATURES };
        struct device d = { 0 };
        struct vu_backend *be;
        int pair[2], lowest;
        size_t n;

        fd_of_kind(0); /* they are made, and stay */
        lowest = fuzz_lowest_fd();
        for (unsigned i = 0; i < VRINGS; i++)
                d.vring[i].kick = d.vring[i].call = d.vring[i].err = -1;
        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        check(vu_backend_new(&config, &ops, &d, pair[1], &be) == 0);
        while ((n = send_step(pair[0], data, size)) && serve(be, pair[0])) {
                data += n;
                size -= n;
        }
        vu_backend_free(be);
        close(pair[0]);
        check(!d.map);
        for (unsigned i = 0; i < VRINGS; i++)
                check(d.vring[i].call < 0 && d.vring[i].err < 0 && !d.vring[i].running);
        check(fuzz_lowest_fd() == lowest);
        return 0;
}
