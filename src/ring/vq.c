/* What both layouts and both halves do alike: the trust gate's common checks, breaking, and words for humans. */
#include "ring/vq.h"

#include <inttypes.h>
#include <stdio.h>

#include "virtio/features.h"
#include "vwire/types.h"

static bool size_ok(uint32_t size)
{
        return size >= 1 && size <= VW_QUEUE_SIZE_MAX;
}

/* ---- the device half ---- */

static int device_init(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why)
{
        if (!size_ok(cfg->size)) {
                *ret_why = "ring: size out of range";
                return -EINVAL;
        }
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_init(vq, cfg, ret_why);
        }
        unreachable();
}

int vq_device_init(struct vq_device *vq, const struct vq_config *cfg, struct mem_map *map,
                   const char **ret_why)
{
        int r;

        *vq = (struct vq_device){
                .layout = VQ_SPLIT,
                .mem = {.map = map, .near = map->region},
                .size = (uint16_t)cfg->size,
                .indirect = cfg->features & F(indirect_desc),
        };
        r = device_init(vq, cfg, ret_why);
        if (r < 0)
                *vq = (struct vq_device){ 0 };
        else
                mem_map_get(map);
        return r;
}

void vq_device_done(struct vq_device *vq)
{
        mem_map_put(vq->mem.map);
        *vq = (struct vq_device){ 0 };
}

static int device_map(struct vq_device *vq, const struct vq_config *cfg, const char **ret_why)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_map(vq, cfg, ret_why);
        }
        unreachable();
}

int vq_device_remap(struct vq_device *vq, const struct vq_config *cfg, struct mem_map *map,
                    const char **ret_why)
{
        int r;

        mem_map_put(vq->mem.map);
        vq->mem = (struct chain_map){ .map = mem_map_get(map), .near = map->region };
        r = device_map(vq, cfg, ret_why);
        if (r < 0) {
                vq_device_break(vq, "ring-unmapped", 0);
                mem_map_put(vq->mem.map);
                vq->mem = (struct chain_map){ 0 };
        }
        return r;
}

uint32_t vq_device_base(const struct vq_device *vq)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_device_base(vq);
        }
        unreachable();
}

int vq_device_break(struct vq_device *vq, const char *reason, uint32_t number)
{
        if (!vq->broken) {
                vq->broken = reason;
                vq->broken_at = number;
        }
        return -EPROTO;
}

/* ---- the driver half ---- */

size_t vq_driver_bytes(enum vq_layout layout, unsigned size, uint64_t features)
{
        switch (layout) {
        case VQ_SPLIT:
                return split_driver_bytes(size, features);
        }
        unreachable();
}

static int driver_init(struct vq_driver *vq, struct vq_config *cfg, void *ring_mem, uint64_t gpa)
{
        if (!size_ok(cfg->size) || (uintptr_t)ring_mem % CACHE_LINE)
                return -EINVAL;
        switch (vq->layout) {
        case VQ_SPLIT:
                return split_driver_init(vq, cfg, ring_mem, gpa);
        }
        unreachable();
}

int vq_driver_init(struct vq_driver *vq, enum vq_layout layout, struct vq_config *cfg, void *ring_mem,
                   uint64_t gpa)
{
        int r;

        *vq = (struct vq_driver){
                .layout = layout,
                .size = (uint16_t)cfg->size,
                .indirect = cfg->features & F(indirect_desc),
        };
        r = driver_init(vq, cfg, ring_mem, gpa);
        if (r < 0)
                *vq = (struct vq_driver){ 0 };
        return r;
}

void vq_driver_done(struct vq_driver *vq)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                split_driver_done(vq);
                break;
        }
        *vq = (struct vq_driver){ 0 };
}

int vq_driver_break(struct vq_driver *vq, const char *reason, uint32_t number)
{
        if (!vq->broken) {
                vq->broken = reason;
                vq->broken_at = number;
        }
        return -EPROTO;
}

/* ---- for humans ---- */

void vq_device_state(const struct vq_device *vq, struct vq_state *ret_state)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                split_device_state(vq, ret_state);
                return;
        }
        unreachable();
}

void vq_driver_state(const struct vq_driver *vq, struct vq_state *ret_state)
{
        switch (vq->layout) {
        case VQ_SPLIT:
                split_driver_state(vq, ret_state);
                return;
        }
        unreachable();
}

static int dump(const char *half, unsigned size, const struct vq_state *s, const char *broken,
                uint32_t broken_at, char *buf, size_t len)
{
        int n = snprintf(buf, len,
                         "%s size=%u avail=%" PRIu32 " last_avail=%" PRIu32 " used=%" PRIu32
                         " last_used=%" PRIu32 " event_ours=%" PRIu32 " event_peer=%" PRIu32,
                         half, size, s->avail, s->last_avail, s->used, s->last_used, s->event_ours,
                         s->event_peer);

        if (broken && n >= 0 && (size_t)n < len)
                n += snprintf(buf + n, len - (size_t)n, " broken=%s at=%" PRIu32, broken, broken_at);
        return n;
}

int vq_device_dump(const struct vq_device *vq, char *buf, size_t len)
{
        struct vq_state s;

        if (!vq->size)
                return snprintf(buf, len, "device off");
        vq_device_state(vq, &s);
        return dump("device", vq->size, &s, vq->broken, vq->broken_at, buf, len);
}

int vq_driver_dump(const struct vq_driver *vq, char *buf, size_t len)
{
        struct vq_state s;

        if (!vq->size)
                return snprintf(buf, len, "driver off");
        vq_driver_state(vq, &s);
        return dump("driver", vq->size, &s, vq->broken, vq->broken_at, buf, len);
}
