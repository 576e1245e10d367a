#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WIRE_MAPPINGS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WIRE_MAPPINGS 1
#endif
#endif
#ifndef WIRE_MAPPINGS
#define WIRE_MAPPINGS 2
#endif

static uint8_t *map_shared(int fd, size_t bytes)
{
        void *va = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        check(va != MAP_FAILED);
        return va;
}

static void start_halves(struct wire *w, uint16_t base)
{
        const char *why = NULL;
        struct mem_region region = { .gpa = WIRE_GPA, .uva = WIRE_GPA, .size = w->bytes, .va = w->dev_va };

        check(vq_driver_init(&w->drv, VQ_SPLIT, &w->cfg, w->drv_va, WIRE_GPA) == 0);
        w->drv.split.avail = w->drv.split.published = w->drv.split.last_used = w->drv.split.used_seen = base;
        w->drv.split.call_event = base;
        wire_raw_avail_idx(w, base);
        wire_raw_used_idx(w, base);
        wire_raw_used_event(w, base);
        w->cfg.base = base;

        check(mem_map_borrow(&region, 1, &w->map) == 0);
        check(vq_device_init(&w->dev, &w->cfg, w->map, &why) == 0);
}

struct wire wire_new_at(unsigned size, uint64_t features, uint16_t base)
{
        struct wire w = {
                .cfg = {.size = size, .features = features | F(version_1)}
        };
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        w.buf = ALIGN_UP(vq_driver_bytes(VQ_SPLIT, size, w.cfg.features), page);
        w.bytes = w.buf + WIRE_BUF_BYTES;
        w.fd = memfd_create("wire", MFD_CLOEXEC);
        check(w.fd >= 0 && ftruncate(w.fd, (off_t)w.bytes) == 0);
        w.drv_va = map_shared(w.fd, w.bytes);
        w.dev_va = WIRE_MAPPINGS == 2 ? map_shared(w.fd, w.bytes) : w.drv_va;

        w.pool.size = MIN(2 * size + 2 * VQ_BURST, (unsigned)UINT16_MAX);
        w.pool.iov = calloc(w.pool.size, sizeof(*w.pool.iov));
        check(w.pool.iov);
        start_halves(&w, base);
        return w;
}

struct wire wire_new(unsigned size, uint64_t features)
{
        return wire_new_at(size, features, 0);
}

void wire_free(struct wire *w)
{
        vq_device_done(&w->dev);
        vq_driver_done(&w->drv);
        mem_map_put(w->map);
        if (w->dev_va != w->drv_va)
                munmap(w->dev_va, w->bytes);
        munmap(w->drv_va, w->bytes);
        close(w->fd);
        free(w->pool.iov);
        *w = (struct wire){ .fd = -1 };
}

uint64_t wire_gpa(const struct wire *w, size_t off)
{
        return WIRE_GPA + w->buf + off;
}

void *wire_drv_ptr(const struct wire *w, uint64_t gpa)
{
        return w->drv_va + (gpa - WIRE_GPA);
}

void *wire_dev_ptr(const struct wire *w, uint64_t gpa)
{
        return w->dev_va + (gpa - WIRE_GPA);
}

int wire_pop(struct wire *w, unsigned max)
{
        w->pool.used = 0;
        return vq_device_pop(&w->dev, &w->pool, w->chains, max);
}

/* ---- raw words, through the driver's mapping ---- */

static struct vring_split *ring(const struct wire *w)
{
        return (struct vring_split *)&w->drv.split.ring;
}

void wire_raw_desc(struct wire *w, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
        split_desc_store(&ring(w)->desc[i], addr, len, flags, next);
}

void wire_raw_table(struct wire *w, uint64_t gpa, unsigned i, uint64_t addr, uint32_t len, uint16_t flags,
                    uint16_t next)
{
        struct vring_desc d;

        split_desc_store(&d, addr, len, flags, next);
        memcpy(wire_drv_ptr(w, gpa + i * sizeof(d)), &d, sizeof(d));
}

void wire_raw_avail(struct wire *w, uint16_t pos, uint16_t head)
{
        store_relaxed(&ring(w)->avail->ring[pos & ring(w)->mask], cpu_to_le16(head));
}

void wire_raw_avail_idx(struct wire *w, uint16_t idx)
{
        store_release(&ring(w)->avail->idx, cpu_to_le16(idx));
}

void wire_raw_avail_flags(struct wire *w, uint16_t flags)
{
        store_relaxed(&ring(w)->avail->flags, cpu_to_le16(flags));
}

void wire_raw_used_event(struct wire *w, uint16_t event)
{
        store_relaxed(split_used_event(ring(w)), cpu_to_le16(event));
}

void wire_raw_used(struct wire *w, uint16_t pos, uint32_t id, uint32_t len)
{
        struct vring_used_elem *e = &ring(w)->used->ring[pos & ring(w)->mask];

        store_relaxed(&e->id, cpu_to_le32(id));
        store_relaxed(&e->len, cpu_to_le32(len));
}

void wire_raw_used_idx(struct wire *w, uint16_t idx)
{
        store_release(&ring(w)->used->idx, cpu_to_le16(idx));
}

void wire_raw_used_flags(struct wire *w, uint16_t flags)
{
        store_relaxed(&ring(w)->used->flags, cpu_to_le16(flags));
}

void wire_raw_avail_event(struct wire *w, uint16_t event)
{
        store_relaxed(split_avail_event(ring(w)), cpu_to_le16(event));
}

uint16_t wire_avail_idx(const struct wire *w)
{
        return le16_to_cpu(load_acquire(&ring(w)->avail->idx));
}

uint16_t wire_avail_flags(const struct wire *w)
{
        return le16_to_cpu(load_relaxed(&ring(w)->avail->flags));
}

uint16_t wire_used_event(const struct wire *w)
{
        return le16_to_cpu(load_relaxed(split_used_event(ring(w))));
}

uint16_t wire_used_idx(const struct wire *w)
{
        return le16_to_cpu(load_acquire(&ring(w)->used->idx));
}

uint16_t wire_used_flags(const struct wire *w)
{
        return le16_to_cpu(load_relaxed(&ring(w)->used->flags));
}

uint16_t wire_avail_event(const struct wire *w)
{
        return le16_to_cpu(load_relaxed(split_avail_event(ring(w))));
}

void wire_dump(const struct wire *w)
{
        char text[256];

        vq_driver_dump(&w->drv, text, sizeof(text));
        fprintf(stderr, "# %s\n", text);
        vq_device_dump(&w->dev, text, sizeof(text));
        fprintf(stderr, "# %s\n", text);
}
