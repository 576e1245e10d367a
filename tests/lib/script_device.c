#include "script_device.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/iov.h"
#include "net/hdr.h"

void sd_lock(struct sd *d)
{
        check(pthread_mutex_lock(&d->mutex) == 0);
}

void sd_unlock(struct sd *d)
{
        check(pthread_mutex_unlock(&d->mutex) == 0);
}

void sd_ctrl(struct sd *d, enum sd_ctrl how)
{
        sd_lock(d);
        d->ctrl = how;
        sd_unlock(d);
}

/* ---- the session's view of the device; under the lock ---- */

static uint64_t on_features(void *ctx)
{
        return ((struct sd *)ctx)->features;
}

static int on_set_features(void *ctx, uint64_t features, const char **ret_why)
{
        (void)ret_why;
        ((struct sd *)ctx)->acked = features;
        return 0;
}

static int on_set_map(void *ctx, struct mem_map *map)
{
        struct sd *d = ctx;

        mem_map_put(d->map);
        d->map = mem_map_get(map);
        return 0;
}

static int on_start(void *ctx, unsigned index, const struct vq_config *cfg, int kick, const char **ret_why)
{
        struct sd *d = ctx;
        struct sd_ring *r = &d->ring[index];
        int e;

        *ret_why = "not this ring";
        if ((int)index == d->refused_ring)
                return -EINVAL;
        e = vq_device_init(&r->vq, cfg, d->map, ret_why);
        if (e)
                return e;
        r->cfg = *cfg;
        r->kick = kick;
        r->n_held = 0;
        r->pool.used = 0;
        r->desc = mem_map_uva(d->map, cfg->desc, split_desc_bytes(cfg->size));
        r->avail = mem_map_uva(d->map, cfg->avail, split_avail_bytes(cfg->size));
        r->used = mem_map_uva(d->map, cfg->used, split_used_bytes(cfg->size));
        r->running = true;
        return 0;
}

static uint32_t on_stop(void *ctx, unsigned index)
{
        struct sd_ring *r = &((struct sd *)ctx)->ring[index];
        uint32_t base = vq_device_base(&r->vq);

        vq_device_done(&r->vq);
        r->running = false;
        r->kick = -1;
        return base;
}

static void on_enable(void *ctx, unsigned index, bool on)
{
        ((struct sd *)ctx)->ring[index].enabled = on;
}

static void on_call(void *ctx, unsigned index, int fd)
{
        struct sd_ring *r = &((struct sd *)ctx)->ring[index];

        if (r->call >= 0)
                close(r->call);
        r->call = fd;
}

static void on_err(void *ctx, unsigned index, int fd)
{
        (void)ctx;
        (void)index;
        if (fd >= 0)
                close(fd);
}

static uint32_t on_get_config(void *ctx, uint8_t *buf, uint32_t offset, uint32_t size)
{
        struct sd *d = ctx;
        uint32_t n = offset < d->config_size ? MIN(size, d->config_size - offset) : 0;

        if (d->config_restless)
                d->config.mac[5]++;
        memcpy(buf, (uint8_t *)&d->config + offset, n);
        return n;
}

static void on_set_status(void *ctx, uint8_t status)
{
        struct sd *d = ctx;

        d->status = d->forgets_status ? 0 : status;
}

static uint8_t on_get_status(void *ctx)
{
        return ((struct sd *)ctx)->status;
}

static void on_reset(void *ctx)
{
        (void)ctx;
}

static const struct vu_backend_ops ops = {
        .features = on_features,
        .set_features = on_set_features,
        .set_map = on_set_map,
        .vring_start = on_start,
        .vring_stop = on_stop,
        .vring_enable = on_enable,
        .vring_call = on_call,
        .vring_err = on_err,
        .get_config = on_get_config,
        .set_status = on_set_status,
        .get_status = on_get_status,
        .reset = on_reset,
};

/* ---- rings; under the lock ---- */

static void call_now(struct sd_ring *r)
{
        uint64_t one = 1;

        if (r->call >= 0 && write(r->call, &one, sizeof(one)) == sizeof(one))
                r->calls++;
}

static int pop(struct sd_ring *r, unsigned max)
{
        unsigned before = r->n_held;
        int n = 0;

        if (!r->n_held)
                r->pool.used = 0;
        while (r->running && r->n_held - before < max &&
               (n = vq_device_pop(&r->vq, &r->pool, r->held + r->n_held, max - (r->n_held - before))) > 0)
                r->n_held += (unsigned)n;
        if (r->running)
                vq_device_kick_enable(&r->vq);
        return n < 0 ? n : (int)(r->n_held - before);
}

static void give_back(struct sd_ring *r, unsigned n)
{
        vq_device_push(&r->vq, r->held, n);
        vq_device_publish(&r->vq);
        r->n_held -= n;
        memmove(r->held, r->held + n, r->n_held * sizeof(*r->held));
}

static struct sd_ring *ctrl_ring(struct sd *d)
{
        unsigned i = 2;

        if (d->acked & F(mq))
                i = 2 * le16_to_cpu(d->config.max_virtqueue_pairs);
        return d->acked & F(ctrl_vq) && i < SD_RINGS && d->ring[i].running ? &d->ring[i] : NULL;
}

static void answer(struct sd *d, struct sd_ring *r, uint8_t ack, bool write_it)
{
        struct vq_chain *c = &r->held[0];
        uint8_t bytes[sizeof(d->answer) + 1];
        uint32_t n = MIN(c->len_in - 1, sizeof(d->answer));

        memcpy(bytes, d->answer, n);
        bytes[n] = ack;
        if (write_it)
                iov_from_buf(c->iov + c->n_out, c->n_in, 0, bytes, n + 1);
        c->written = write_it ? n + 1 : 0;
        give_back(r, 1);
        call_now(r);
}

static void serve_ctrl(struct sd *d, struct sd_ring *r)
{
        int n = pop(r, 64);

        for (int i = 0; i < n; i++) {
                const struct vq_chain *c = &r->held[r->n_held - (unsigned)n + (unsigned)i];
                struct sd_command *cmd = &d->command[d->n_commands % SD_COMMANDS];

                cmd->len = (uint32_t)iov_to_buf(c->iov, c->n_out, 0, cmd->bytes, sizeof(cmd->bytes));
                d->n_commands++;
        }
        while (d->ctrl != SD_SILENT && r->n_held) {
                uint8_t class_id = 0;

                iov_to_buf(r->held[0].iov, r->held[0].n_out, 0, &class_id, 1);
                answer(d, r,
                       d->ctrl == SD_NACK || d->refused_classes & BIT(class_id % 64) ? VIRTIO_NET_ERR
                                                                                     : VIRTIO_NET_OK,
                       d->ctrl != SD_EMPTY);
        }
}

/* ---- its thread ---- */

static void *run(void *arg)
{
        struct sd *d = arg;
        const char *why;
        bool alive = true;

        while (alive) {
                struct pollfd p[3] = {
                        {.fd = vu_backend_fd(d->be), .events = POLLIN},
                        { .fd = d->stop,             .events = POLLIN},
                        { .fd = -1,                  .events = POLLIN},
                };
                struct sd_ring *ctrl;
                uint64_t n;
                int life;

                sd_lock(d);
                ctrl = ctrl_ring(d);
                p[2].fd = ctrl ? ctrl->kick : -1;
                life = d->life_ms;
                sd_unlock(d);
                n = (uint64_t)poll(p, 3, life);
                sd_lock(d);
                if (p[1].revents || n == 0) {
                        alive = false;
                } else if (p[0].revents && vu_backend_dispatch(d->be, &why)) {
                        snprintf(d->why, sizeof(d->why), "%s", why);
                        alive = false;
                }
                ctrl = alive ? ctrl_ring(d) : NULL;
                if (ctrl && p[2].revents && read(ctrl->kick, &n, sizeof(n)) > 0)
                        serve_ctrl(d, ctrl);
                sd_unlock(d);
        }
        sd_lock(d);
        vu_backend_free(d->be);
        d->be = NULL;
        sd_unlock(d);
        return NULL;
}

void sd_init(struct sd *d)
{
        *d = (struct sd){
                .features = features_device(),
                .protocol_features = VU_BACKEND_PROTOCOL_FEATURES,
                .queue_num = SD_PAIRS,
                .config = {.mac = { 0x52, 0x54, 0, 1, 2, 3 },
                           .status = cpu_to_le16(VIRTIO_NET_S_LINK_UP),
                           .max_virtqueue_pairs = cpu_to_le16(SD_PAIRS),
                           .mtu = cpu_to_le16(1500)},
                .config_size = sizeof(struct virtio_net_config),
                .stop = eventfd(0, EFD_CLOEXEC),
                .life_ms = -1,
                .refused_ring = -1,
        };
        check(d->stop >= 0 && pthread_mutex_init(&d->mutex, NULL) == 0);
        for (unsigned i = 0; i < SD_RINGS; i++) {
                struct sd_ring *r = &d->ring[i];

                r->kick = r->call = -1;
                r->held = calloc(SD_HELD, sizeof(*r->held));
                r->pool.size = UINT16_MAX;
                r->pool.iov = calloc(r->pool.size, sizeof(*r->pool.iov));
                check(r->held && r->pool.iov);
        }
}

void sd_start(struct sd *d, int fd)
{
        struct vu_backend_config config = {
                .vrings_max = SD_RINGS,
                .queue_num = d->queue_num,
                .protocol_features = d->protocol_features,
        };

        sd_leave(d);
        check(vu_backend_new(&config, &ops, d, fd, &d->be) == 0);
        d->started = true;
        check(pthread_create(&d->thread, NULL, run, d) == 0);
}

/* Without REPLY_ACK the driver goes on before its requests have been served. */
static void settle(struct sd *d)
{
        bool busy = true;

        while (busy) {
                struct pollfd p = { .events = POLLIN };

                sd_lock(d);
                p.fd = d->be ? vu_backend_fd(d->be) : -1;
                busy = poll(&p, 1, 0) > 0;
                sd_unlock(d);
                if (busy)
                        usleep(100);
        }
}

int sd_connect(struct sd *d, struct vw_driver *drv, const char **ret_why)
{
        int pair[2], r;

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        sd_start(d, pair[1]);
        r = vw_driver_connect(drv, pair[0], ret_why);
        if (r)
                close(pair[0]);
        settle(d);
        return r;
}

void sd_leave(struct sd *d)
{
        uint64_t one = 1;

        if (!d->started)
                return;
        check(write(d->stop, &one, sizeof(one)) == sizeof(one));
        pthread_join(d->thread, NULL);
        check(read(d->stop, &one, sizeof(one)) == sizeof(one));
        d->started = false;
}

void sd_leave_later(struct sd *d, int ms)
{
        sd_lock(d);
        d->life_ms = ms;
        sd_unlock(d);
}

void sd_done(struct sd *d)
{
        sd_leave(d);
        mem_map_put(d->map);
        for (unsigned i = 0; i < SD_RINGS; i++) {
                free(d->ring[i].held);
                free(d->ring[i].pool.iov);
                if (d->ring[i].call >= 0)
                        close(d->ring[i].call);
        }
        pthread_mutex_destroy(&d->mutex);
        close(d->stop);
}

/* ---- tx ---- */

int sd_take(struct sd *d, unsigned pair, unsigned max, struct sd_frame *ret_frames)
{
        struct sd_ring *r = &d->ring[2 * pair + 1];
        unsigned hdr_len = features_hdr_len(d->acked);
        int n;

        sd_lock(d);
        n = pop(r, max);
        for (int i = 0; ret_frames && i < n; i++) {
                const struct vq_chain *c = &r->held[r->n_held - (unsigned)n + (unsigned)i];
                struct sd_frame *f = &ret_frames[i];

                *f = (struct sd_frame){ .len = c->len_out - hdr_len };
                iov_to_buf(c->iov, c->n_out, 0, f->hdr, hdr_len);
                iov_to_buf(c->iov, c->n_out, hdr_len, f->bytes, sizeof(f->bytes));
        }
        sd_unlock(d);
        return n;
}

void sd_give_back(struct sd *d, unsigned ring, unsigned n, uint32_t len)
{
        struct sd_ring *r = &d->ring[ring];

        sd_lock(d);
        check(n <= r->n_held);
        for (unsigned i = 0; i < n; i++)
                r->held[i].written = len;
        give_back(r, n);
        sd_unlock(d);
}

unsigned sd_consume(struct sd *d, unsigned pair)
{
        unsigned total = 0;
        int n;

        while ((n = sd_take(d, pair, 256, NULL)) > 0) {
                sd_give_back(d, 2 * pair + 1, (unsigned)n, 0);
                total += (unsigned)n;
        }
        return total;
}

/* ---- rx ---- */

static void put_hdr(struct sd *d, struct vq_chain *c, const struct vw_net_hdr *hdr)
{
        unsigned hdr_len = features_hdr_len(d->acked);
        uint8_t bytes[12];

        net_hdr_encode(hdr, hdr_len, bytes);
        iov_from_buf(c->iov + c->n_out, c->n_in, 0, bytes, hdr_len);
}

bool sd_receive(struct sd *d, unsigned pair, const struct vw_net_hdr *hdr, const void *frame, uint32_t len)
{
        struct sd_ring *r = &d->ring[2 * pair];
        unsigned hdr_len = features_hdr_len(d->acked), n = 0;
        struct vw_net_hdr h = { 0 };
        uint32_t done = 0, room = 0;
        bool ok;

        sd_lock(d);
        while (room < hdr_len + len && pop(r, 1) == 1)
                room += r->held[n++].len_in;
        ok = room >= hdr_len + len && (n == 1 || d->acked & F(mrg_rxbuf));
        if (!ok) {
                vq_device_rewind(&r->vq, r->held, n);
                r->n_held = 0;
                sd_unlock(d);
                return false;
        }
        if (hdr)
                h = *hdr;
        h.num_buffers = (uint16_t)n;
        put_hdr(d, &r->held[0], &h);
        for (unsigned i = 0; i < n; i++) {
                struct vq_chain *c = &r->held[i];
                unsigned skip = i ? 0 : hdr_len;
                uint32_t part = MIN(len - done, c->len_in - skip);

                iov_from_buf(c->iov + c->n_out, c->n_in, skip, (const uint8_t *)frame + done, part);
                c->written = skip + part;
                done += part;
        }
        give_back(r, n);
        sd_unlock(d);
        return true;
}

bool sd_receive_raw(struct sd *d, unsigned pair, const struct vw_net_hdr *hdr, const uint32_t *lens,
                    unsigned n)
{
        struct sd_ring *r = &d->ring[2 * pair];
        bool ok;

        sd_lock(d);
        ok = pop(r, n) == (int)n;
        if (ok) {
                put_hdr(d, &r->held[0], hdr);
                for (unsigned i = 0; i < n; i++)
                        r->held[i].written = lens[i];
                give_back(r, n);
        }
        sd_unlock(d);
        return ok;
}

unsigned sd_offered(struct sd *d, unsigned ring)
{
        struct sd_ring *r = &d->ring[ring];
        unsigned n;

        sd_lock(d);
        n = (uint16_t)(le16_to_cpu(load_acquire(&r->avail->idx)) - r->vq.split.last_avail);
        sd_unlock(d);
        return n;
}

/* ---- notifications, configuration, lies ---- */

bool sd_call(struct sd *d, unsigned ring)
{
        bool wanted;

        sd_lock(d);
        wanted = vq_device_call_needed(&d->ring[ring].vq);
        if (wanted)
                call_now(&d->ring[ring]);
        sd_unlock(d);
        return wanted;
}

void sd_call_anyway(struct sd *d, unsigned ring)
{
        sd_lock(d);
        call_now(&d->ring[ring]);
        sd_unlock(d);
}

uint64_t sd_kicks(struct sd *d, unsigned ring)
{
        uint64_t n = 0;

        sd_lock(d);
        if (d->ring[ring].kick < 0 || read(d->ring[ring].kick, &n, sizeof(n)) < 0)
                n = 0;
        sd_unlock(d);
        return n;
}

unsigned sd_last_command(struct sd *d, struct sd_command *ret_command)
{
        unsigned n;

        sd_lock(d);
        n = d->n_commands;
        if (n)
                *ret_command = d->command[(n - 1) % SD_COMMANDS];
        sd_unlock(d);
        return n;
}

void sd_answer(struct sd *d, uint8_t ack)
{
        struct sd_ring *r;

        sd_lock(d);
        r = ctrl_ring(d);
        check(r && r->n_held);
        answer(d, r, ack, true);
        sd_unlock(d);
}

void sd_config_changed(struct sd *d)
{
        sd_lock(d);
        check(vu_backend_config_changed(d->be) == 0);
        sd_unlock(d);
}

void sd_raw_used(struct sd *d, unsigned ring, uint16_t pos, uint32_t id, uint32_t len)
{
        struct sd_ring *r = &d->ring[ring];
        struct vring_used_elem *e = &r->used->ring[pos & (r->cfg.size - 1)];

        store_relaxed(&e->id, cpu_to_le32(id));
        store_relaxed(&e->len, cpu_to_le32(len));
}

void sd_raw_used_idx(struct sd *d, unsigned ring, uint16_t idx)
{
        store_release(&d->ring[ring].used->idx, cpu_to_le16(idx));
}

uint16_t sd_used_idx(struct sd *d, unsigned ring)
{
        return le16_to_cpu(load_relaxed(&d->ring[ring].used->idx));
}
