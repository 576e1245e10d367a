/* The device half of the split ring against a driver that writes anything.  The input is
 *      u8 size (its logarithm), u8 features, u8 n, n times u8 operation, then what the memory holds
 * Whatever is popped must be what the reference walker makes of it, and lie inside the memory. */
#include <stdlib.h>
#include <string.h>

#include "../tests/hostile/ref_walk.h"
#include "base/check.h"
#include "fuzz.h"
#include "ring/vq.h"
#include "virtio/features.h"

#define GPA    UINT64_C(0x10000)
#define HALF   2048u /* bytes of each of two regions that touch in the driver's eyes */
#define AVAIL  256u  /* offsets in the first: 16 descriptors before it ... */
#define USED   320u
#define CHAINS 16

struct driver {
        uint8_t *region[2]; /* each of exactly its size, so that ASan sees the ends */
        struct mem_map *map;
        struct ref_region ref[2];
        struct vq_config cfg;
};

static struct driver driver_new(unsigned log_size, unsigned features, const uint8_t *image, size_t len)
{
        struct driver d = { .cfg = {
                                    .size = 1u << log_size % 5,
                                    .desc = GPA,
                                    .avail = GPA + AVAIL,
                                    .used = GPA + USED,
                                    .features = F(version_1) | (features & 1 ? F(indirect_desc) : 0) |
                                                (features & 2 ? F(event_idx) : 0),
                            } };
        struct mem_region regions[2];

        for (unsigned i = 0; i < 2; i++) {
                size_t n = MIN(len, HALF);

                d.region[i] = aligned_alloc(16, HALF);
                check(d.region[i]);
                memset(d.region[i], 0, HALF);
                if (n)
                        memcpy(d.region[i], image, n);
                image += n;
                len -= n;
                regions[i] = (struct mem_region){
                        .gpa = GPA + i * HALF, .uva = GPA + i * HALF, .size = HALF, .va = d.region[i]
                };
                d.ref[i] = (struct ref_region){ GPA + i * HALF, GPA + i * HALF + HALF - 1, d.region[i] };
        }
        check(mem_map_borrow(regions, 2, &d.map) == 0);
        return d;
}

static void driver_free(struct driver *d)
{
        mem_map_put(d->map);
        free(d->region[0]);
        free(d->region[1]);
}

static uint16_t word(const struct driver *d, unsigned off)
{
        return (uint16_t)(d->region[0][off] | d->region[0][off + 1] << 8);
}

static void advance(struct driver *d, unsigned n)
{
        unsigned idx = word(d, AVAIL + 2) + n;

        d->region[0][AVAIL + 2] = (uint8_t)idx;
        d->region[0][AVAIL + 3] = (uint8_t)(idx >> 8);
}

/* The chain at position `pos` of the avail ring, as the reference sees it. */
static void refer(const struct driver *d, unsigned pos, struct ref_verdict *ret)
{
        struct ref_memory mem = { d->ref, 2 };

        ref_walk(&mem, GPA, d->cfg.size, d->cfg.features & F(indirect_desc),
                 word(d, AVAIL + 4 + 2 * (pos % d->cfg.size)), ret);
}

static void compare(const struct vq_chain *c, const struct ref_verdict *ref)
{
        volatile uint8_t sink;

        check(!ref->broken && (c->fault == -EFAULT) == ref->unmapped);
        if (c->fault)
                return;
        check((unsigned)c->n_out + c->n_in == ref->n);
        for (unsigned i = 0; i < ref->n; i++) {
                const uint8_t *bytes = c->iov[i].iov_base;

                check(bytes == ref->piece[i].bytes && c->iov[i].iov_len == ref->piece[i].len);
                check((i >= c->n_out) == ref->piece[i].writable);
                sink = bytes[0];
                sink = bytes[c->iov[i].iov_len - 1];
                (void)sink;
        }
}

static unsigned pop(struct driver *d, struct vq_device *vq, unsigned max, struct vq_chain *chains)
{
        static struct ref_verdict ref; /* large */
        static struct iovec iov[1024];
        struct iov_pool pool = { .iov = iov, .size = ARRAY_SIZE(iov) };
        uint16_t pos = (uint16_t)vq_device_base(vq);
        int n = vq_device_pop(vq, &pool, chains, max);

        if (n == -EPROTO) {
                check(vq->broken);
                if (!strcmp(vq->broken, "bad-avail-idx"))
                        return 0;
                refer(d, pos, &ref);
                check(ref.broken && !strcmp(ref.broken, vq->broken));
                return 0;
        }
        check(n >= 0 && n <= CHAINS);
        for (unsigned i = 0; i < (unsigned)n; i++) {
                refer(d, pos + i, &ref);
                compare(&chains[i], &ref);
        }
        return (unsigned)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct vq_chain held[CHAINS];
        unsigned n_ops, n = 0;
        struct vq_device vq;
        struct driver d;
        const char *why;

        if (size < 3 || size - 3 < data[2])
                return 0;
        n_ops = data[2];
        d = driver_new(data[0], data[1], data + 3 + n_ops, size - 3 - n_ops);
        d.cfg.base = word(&d, USED + 2);
        check(vq_device_init(&vq, &d.cfg, d.map, &why) == 0);
        for (unsigned i = 0; i < n_ops && !vq.broken; i++) {
                unsigned op = data[3 + i] % 8, arg = data[3 + i] / 8;

                switch (op) {
                case 0:
                case 1:
                        n += pop(&d, &vq, MIN(arg + 1, CHAINS - n), held + n);
                        break;
                case 2:
                        vq_device_push(&vq, held, n);
                        vq_device_publish(&vq);
                        n = 0;
                        break;
                case 3:
                        vq_device_rewind(&vq, held, MIN(n, arg));
                        n -= MIN(n, arg);
                        break;
                case 4:
                        vq_device_call_needed(&vq);
                        break;
                case 5:
                        vq_device_kick_enable(&vq);
                        break;
                case 6:
                        vq_device_kick_disable(&vq);
                        break;
                case 7:
                        advance(&d, arg);
                        break;
                }
        }
        vq_device_done(&vq);
        driver_free(&d);
        return 0;
}
