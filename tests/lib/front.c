#include "front.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "net/hdr.h"

#define TIMEOUT_MS 5000
#define GUARD      ((size_t)64 << 10) /* bytes on either side of the memory that fault when they are touched */
#define PATTERN    0xc5

uint64_t front_now(void)
{
        return clock_now();
}

/* ---- the device's control thread ---- */

static void *run_control(void *arg)
{
        struct front *f = arg;
        struct pollfd p[2] = {
                {.fd = vw_device_fd(f->dev), .events = POLLIN},
                { .fd = f->bell,             .events = POLLIN}
        };

        while (!load_relaxed(&f->stop)) {
                poll(p, 2, -1);
                pthread_mutex_lock(&f->lock);
                if (vw_device_dispatch(f->dev) == -ENOTCONN)
                        counter_add(&f->left, 1);
                pthread_mutex_unlock(&f->lock);
                sched_yield(); /* the lock is not fair */
        }
        return NULL;
}

void front_open(struct front *f, const struct vw_device_config *config)
{
        const char *why = NULL;

        *f = (struct front){ .memfd = -1, .pairs = config->pairs };
        check(config->pairs <= FRONT_QUEUES / 2);
        check(vw_device_new(config, &f->dev, &why) == 0);
        f->bell = eventfd(0, EFD_CLOEXEC);
        check(f->bell >= 0);
        pthread_mutex_init(&f->lock, NULL);
        check(pthread_create(&f->control, NULL, run_control, f) == 0);
}

void front_close(struct front *f)
{
        front_disconnect(f);
        store_relaxed(&f->stop, true);
        check(write(f->bell, &(uint64_t){ 1 }, 8) == 8);
        pthread_join(f->control, NULL);
        close(f->bell);
        vw_device_free(f->dev);
        pthread_mutex_destroy(&f->lock);
}

/* ---- the session ---- */

static size_t ring_bytes(const struct front *f)
{
        return ALIGN_UP(vq_driver_bytes(VQ_SPLIT, f->size, f->features), (size_t)4096);
}

static void map_memory(struct front *f)
{
        f->bufs = f->n_queues * ring_bytes(f);
        f->bytes = f->bufs + (size_t)f->n_queues * FRONT_SLOTS * FRONT_SLOT;
        f->memfd = memfd_create("front", MFD_CLOEXEC);
        check(f->memfd >= 0 && ftruncate(f->memfd, (off_t)f->bytes) == 0);
        f->va = mmap(NULL, f->bytes + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0);
        check(f->va != MAP_FAILED);
        f->va += GUARD;
        check(mmap(f->va, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->memfd, 0) == f->va);
}

static void unmap_memory(struct front *f)
{
        munmap(f->va - GUARD, f->bytes + 2 * GUARD);
        close(f->memfd);
        f->memfd = -1;
        free(f->shadow);
        free(f->loose);
        f->shadow = f->loose = NULL;
}

void front_hello(struct front *f, uint64_t features, unsigned size)
{
        struct vhost_user_region region;
        uint64_t protocol = BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |
                            BIT(VHOST_USER_PROTOCOL_F_CONFIG) | BIT(VHOST_USER_PROTOCOL_F_BACKEND_REQ) |
                            BIT(VHOST_USER_PROTOCOL_F_STATUS) | BIT(VHOST_USER_PROTOCOL_F_MTU) |
                            BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS);
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        pthread_mutex_lock(&f->lock);
        check(vw_device_serve(f->dev, pair[1]) == 0);
        pthread_mutex_unlock(&f->lock);
        f->features = features | F(version_1) | F(protocol_features);
        f->size = size;
        f->n_queues = 2 * (features & F(mq) ? f->pairs : 1) + !!(features & F(ctrl_vq));
        vu_frontend_init(&f->fe, pair[0], TIMEOUT_MS);
        check(vu_frontend_hello(&f->fe, protocol) == 0);
        check(vu_frontend_backend_channel(&f->fe) == 0);
        check(vu_frontend_set_features(&f->fe, f->features) == 0);
        map_memory(f);
        region = (struct vhost_user_region){ .guest_addr = FRONT_GPA,
                                             .size = f->bytes,
                                             .user_addr = FRONT_UVA };
        check(vu_frontend_set_mem(&f->fe, &region, &f->memfd, 1) == 0);
}

static void end_ring(struct front_queue *q)
{
        if (q->cfg.size == 0)
                return;
        vq_driver_done(&q->vq);
        close(q->kick);
        close(q->call);
        close(q->err);
        *q = (struct front_queue){ 0 };
}

void front_ring(struct front *f, unsigned index)
{
        struct front_queue *q = &f->q[index];
        size_t at = index * ring_bytes(f);

        end_ring(q);
        *q = (struct front_queue){
                .cfg = {.size = f->size, .features = f->features}
        };
        memset(f->va + at, 0, ring_bytes(f));
        check(vq_driver_init(&q->vq, VQ_SPLIT, &q->cfg, f->va + at, FRONT_GPA + at) == 0);
        q->cfg.desc += FRONT_UVA -
                       FRONT_GPA; /* rings are told in the front end's addresses, buffers in the guest's */
        q->cfg.avail += FRONT_UVA - FRONT_GPA;
        q->cfg.used += FRONT_UVA - FRONT_GPA;
        q->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        q->call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        q->err = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        check(q->kick >= 0 && q->call >= 0 && q->err >= 0);
}

void front_start(struct front *f, unsigned index)
{
        struct front_queue *q = &f->q[index];

        check(vu_frontend_vring(&f->fe, index, f->size, q->cfg.desc, q->cfg.avail, q->cfg.used,
                                q->cfg.base) == 0);
        check(vu_frontend_vring_fds(&f->fe, index, q->kick, q->call, q->err) == 0);
}

void front_connect(struct front *f, uint64_t features, unsigned size)
{
        front_hello(f, features, size);
        for (unsigned i = 0; i < f->n_queues; i++) {
                front_ring(f, i);
                front_start(f, i);
                check(vu_frontend_vring_enable(&f->fe, i, true) == 0);
        }
}

uint32_t front_stop(struct front *f, unsigned index)
{
        uint32_t base = UINT32_MAX;

        check(vu_frontend_vring_stop(&f->fe, index, &base) == 0);
        return base;
}

void front_renew(struct front *f, unsigned index)
{
        front_stop(f, index);
        front_ring(f, index);
        front_start(f, index);
        check(vu_frontend_vring_enable(&f->fe, index, true) == 0);
}

static bool serving(struct front *f)
{
        bool yes;

        pthread_mutex_lock(&f->lock);
        yes = vw_device_serving(f->dev);
        pthread_mutex_unlock(&f->lock);
        return yes;
}

void front_disconnect(struct front *f)
{
        if (f->memfd < 0)
                return;
        vu_frontend_done(&f->fe);
        while (serving(f))
                sched_yield();
        for (unsigned i = 0; i < f->n_queues; i++)
                end_ring(&f->q[i]);
        unmap_memory(f);
}

/* ---- the driver ---- */

uint64_t front_gpa(const struct front *f, unsigned index, unsigned slot)
{
        return FRONT_GPA + (uint64_t)(front_slot(f, index, slot) - f->va);
}

uint8_t *front_slot(const struct front *f, unsigned index, unsigned slot)
{
        check(slot < FRONT_SLOTS);
        return f->va + f->bufs + ((size_t)index * FRONT_SLOTS + slot) * FRONT_SLOT;
}

/* ---- what the device may write ---- */

static size_t buffer_bytes(const struct front *f)
{
        return f->bytes - f->bufs;
}

void front_shadow(struct front *f)
{
        f->shadow = malloc(buffer_bytes(f));
        f->loose = calloc(1, buffer_bytes(f));
        check(f->shadow && f->loose);
        memset(f->va + f->bufs, PATTERN, buffer_bytes(f));
        memset(f->shadow, PATTERN, buffer_bytes(f));
}

void front_wrote(struct front *f, const void *at, size_t len)
{
        if (f->shadow)
                memcpy(f->shadow + ((const uint8_t *)at - f->va - f->bufs), at, len);
}

void front_may_write(struct front *f, uint64_t gpa, uint64_t len)
{
        uint64_t at = gpa - FRONT_GPA - f->bufs;

        if (f->shadow && at < buffer_bytes(f)) /* an address that lies elsewhere wraps to a huge number */
                memset(f->loose + at, 1, MIN(len, buffer_bytes(f) - at));
}

bool front_intact(const struct front *f)
{
        for (size_t i = 0; i < buffer_bytes(f); i++) {
                if (i % FRONT_SLOT == 0 && memcmp(f->shadow + i, f->va + f->bufs + i, FRONT_SLOT) == 0)
                        i += FRONT_SLOT - 1;
                if (f->loose[i] || f->shadow[i] == f->va[f->bufs + i])
                        continue;
                fprintf(stderr, "# byte %zu of slot %zu was 0x%02x and is 0x%02x\n", i % FRONT_SLOT,
                        i / FRONT_SLOT, f->shadow[i], f->va[f->bufs + i]);
                return false;
        }
        return true;
}

bool front_add(struct front *f, unsigned index, const struct vq_piece *pieces, unsigned n_out, unsigned n_in,
               unsigned slot)
{
        for (unsigned i = n_out; i < n_out + n_in; i++)
                front_may_write(f, pieces[i].gpa, pieces[i].len);
        return vq_driver_add(&f->q[index].vq, pieces, n_out, n_in, (void *)(uintptr_t)(slot + 1)) == 0;
}

bool front_send(struct front *f, unsigned pair, const void *frame, uint32_t len, const struct vw_net_hdr *hdr)
{
        unsigned index = 2 * pair + 1, slot = f->q[index].next_slot;
        struct vq_piece piece = { front_gpa(f, index, slot), FRONT_HDR + len };
        struct vw_net_hdr none = { 0 };
        uint8_t *at = front_slot(f, index, slot);

        check(FRONT_HDR + len <= (FRONT_SLOTS - slot) * FRONT_SLOT);
        net_hdr_encode(hdr ? hdr : &none, FRONT_HDR, at);
        memcpy(at + FRONT_HDR, frame, len);
        front_wrote(f, at, FRONT_HDR + len);
        if (!front_add(f, index, &piece, 1, 0, slot))
                return false;
        slot += (FRONT_HDR + len + FRONT_SLOT - 1) / FRONT_SLOT;
        f->q[index].next_slot = slot + 33 > FRONT_SLOTS ? 0 : slot; /* so that the longest frame finds room */
        return true;
}

unsigned front_post(struct front *f, unsigned pair, unsigned n, uint32_t len)
{
        unsigned index = 2 * pair, i;

        check(len <= FRONT_SLOT);
        for (i = 0; i < n; i++) {
                unsigned slot = f->q[index].next_slot;
                struct vq_piece piece = { front_gpa(f, index, slot), len };

                if (!front_add(f, index, &piece, 0, 1, slot))
                        break;
                f->q[index].next_slot = (slot + 1) % FRONT_SLOTS;
        }
        return i;
}

void front_kick_raw(struct front *f, unsigned index)
{
        uint64_t one = 1;

        check(write(f->q[index].kick, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

void front_kick(struct front *f, unsigned index)
{
        vq_driver_publish(&f->q[index].vq);
        if (vq_driver_kick_needed(&f->q[index].vq))
                front_kick_raw(f, index);
}

struct vring_split *front_raw(struct front *f, unsigned index)
{
        return &f->q[index].vq.split.ring;
}

void front_raw_offer(struct front *f, unsigned index, uint16_t head)
{
        struct vring_avail *avail = front_raw(f, index)->avail;

        store_relaxed(&avail->ring[avail->idx & front_raw(f, index)->mask], head);
        store_release(&avail->idx, (uint16_t)(avail->idx + 1));
}

unsigned front_reap(struct front *f, unsigned index, struct vq_used *used, unsigned max)
{
        struct vq_used forgotten[64];
        int n = vq_driver_reap(&f->q[index].vq, used ? used : forgotten, used ? max : MIN(max, 64u));

        check(n >= 0);
        return (unsigned)n;
}

uint64_t front_calls(struct front *f, unsigned index)
{
        uint64_t n;

        if (read(f->q[index].call, &n, sizeof(n)) == sizeof(n))
                f->q[index].calls += n;
        return f->q[index].calls;
}

int front_command(struct front *f, const void *bytes, uint32_t len, void *reply, uint32_t reply_len)
{
        unsigned index = f->n_queues - 1;
        uint8_t *out = front_slot(f, index, 0), *in = front_slot(f, index, 512);
        struct vq_piece pieces[2] = {
                {front_gpa(f,  index, 0),   len          },
                { front_gpa(f, index, 512), reply_len + 1}
        };
        uint64_t until = clock_now() + TIMEOUT_MS * NSEC_PER_MSEC;

        memcpy(out, bytes, len);
        front_wrote(f, out, len);
        memset(in, 0xee, reply_len + 1);
        check(front_add(f, index, len ? pieces : pieces + 1, len ? 1 : 0, 1, 0));
        front_kick(f, index);
        while (front_reap(f, index, NULL, 1) == 0)
                if (clock_now() > until)
                        return -1;
        if (reply_len)
                memcpy(reply, in, reply_len);
        return in[reply_len];
}

/* ---- looking ---- */

void front_all_stats(struct front *f, struct vw_stats *ret_stats)
{
        pthread_mutex_lock(&f->lock);
        vw_device_stats(f->dev, ret_stats);
        pthread_mutex_unlock(&f->lock);
}

struct vw_queue_stats front_stats(struct front *f, unsigned index)
{
        static __thread struct vw_stats stats;

        front_all_stats(f, &stats);
        for (unsigned i = 0; i < stats.n_queues; i++)
                if (stats.queues[i].index == index)
                        return stats.queues[i];
        check(false);
}

uint64_t front_drops(const struct vw_queue_stats *s)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < VW_DROP_COUNT; i++)
                sum += s->drops[i];
        return sum;
}
