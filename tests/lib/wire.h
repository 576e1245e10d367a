/* A wire: one virtqueue with both its halves in this process, over shared memory that is mapped twice at different
 * addresses, so that nothing works by accident of equal pointers.  Under sanitizers there is one mapping, for they follow
 * addresses.  Behind the ring lies plain memory for buffers.
 *
 *      struct wire w = wire_new(8, F(event_idx));
 *      vq_driver_add(&w.drv, &(struct vq_piece){ wire_gpa(&w, 0), 100 }, 1, 0, &cookie);
 *      ...
 *      wire_free(&w);
 *
 * A test that plays one of the ends itself, by the raw calls, leaves that half alone. */
#pragma once
#include <stdint.h>

#include "ring/vq.h"
#include "virtio/features.h"

#define WIRE_GPA       UINT64_C(0x100000000) /* where the device sees the memory */
#define WIRE_BUF_BYTES (1u << 20)            /* behind the ring */

struct wire {
        int fd; /* the memory, for tests that map it in ways of their own */
        uint8_t *drv_va, *dev_va;
        size_t bytes, buf; /* all of it; where the buffers begin */
        struct vq_config cfg;
        struct mem_map *map;
        struct vq_driver drv;
        struct vq_device dev;
        struct iov_pool pool;
        struct vq_chain chains[VQ_BURST];
};

/* A split ring; the halves are ready.  `base` in wire_new_at() is where both indices start. */
struct wire wire_new(unsigned size, uint64_t features);
struct wire wire_new_at(unsigned size, uint64_t features, uint16_t base);
void wire_free(struct wire *w);

/* Byte `off` of the buffers, as the device calls it; and any address as each end sees it. */
uint64_t wire_gpa(const struct wire *w, size_t off);
void *wire_drv_ptr(const struct wire *w, uint64_t gpa);
void *wire_dev_ptr(const struct wire *w, uint64_t gpa);

/* A pop with an empty pool into w->chains. */
int wire_pop(struct wire *w, unsigned max);

/* The other end's words, written as they are. */
void wire_raw_desc(struct wire *w, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next);
void wire_raw_table(struct wire *w, uint64_t gpa, unsigned i, uint64_t addr, uint32_t len, uint16_t flags,
                    uint16_t next); /* gpa: of the table's first entry */
void wire_raw_avail(struct wire *w, uint16_t pos, uint16_t head);
void wire_raw_avail_idx(struct wire *w, uint16_t idx);
void wire_raw_avail_flags(struct wire *w, uint16_t flags);
void wire_raw_used_event(struct wire *w, uint16_t event);
void wire_raw_used(struct wire *w, uint16_t pos, uint32_t id, uint32_t len);
void wire_raw_used_idx(struct wire *w, uint16_t idx);
void wire_raw_used_flags(struct wire *w, uint16_t flags);
void wire_raw_avail_event(struct wire *w, uint16_t event);

/* And read. */
uint16_t wire_avail_idx(const struct wire *w);
uint16_t wire_avail_flags(const struct wire *w);
uint16_t wire_used_event(const struct wire *w);
uint16_t wire_used_idx(const struct wire *w);
uint16_t wire_used_flags(const struct wire *w);
uint16_t wire_avail_event(const struct wire *w);

/* Prints both halves, for the message of a failed test. */
void wire_dump(const struct wire *w);
