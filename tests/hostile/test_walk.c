/* P07: every chain of one and of two descriptors over boundary values, directly and inside an indirect table, and many random
 * longer ones, get the same verdict from the device half and from the reference: broken for the same rule, or unmapped, or
 * the same pieces.
 *
 * The memory: a region with the ring and some bytes, one that touches it but lies apart for us, a hole, a third region. */
#include <string.h>
#include <sys/mman.h>

#include "ref_walk.h"
#include "rng.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define SIZE     4 /* entries: small, so that links and lengths meet their limits */

struct arena {
        struct wire w;
        uint8_t *apart;
        struct mem_map *map;
        struct vq_device fresh; /* what each trial begins with */
        struct ref_region region[3];
        struct ref_memory mem;
        uint64_t trials, broken, unmapped, fine; /* by verdict, so that no kind is missing */
};

static void set_up(struct arena *a, uint64_t features)
{
        uint64_t touch, hole, third;
        const char *why;

        *a = (struct arena){ .w = wire_new(SIZE, features) };
        a->apart = mmap(NULL, a->w.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->w.fd, 0);
        EXPECT(a->apart != MAP_FAILED);
        touch = a->w.buf + 0x1000;
        hole = touch + 0x1000;
        third = hole + 0x1000;

        struct mem_region regions[] = {
                {.gpa = WIRE_GPA,          .uva = WIRE_GPA,         .size = touch,  .va = a->w.dev_va     },
                { .gpa = WIRE_GPA + touch, .uva = WIRE_GPA + touch, .size = 0x1000, .va = a->apart + touch},
                { .gpa = WIRE_GPA + third, .uva = WIRE_GPA + third, .size = 0x1000, .va = a->apart + third},
        };
        EXPECT_EQ(mem_map_borrow(regions, ARRAY_SIZE(regions), &a->map), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(regions); i++)
                a->region[i] = (struct ref_region){ regions[i].gpa, regions[i].gpa + regions[i].size - 1,
                                                    regions[i].va };
        a->mem = (struct ref_memory){ a->region, ARRAY_SIZE(regions) };
        EXPECT_EQ(vq_device_remap(&a->w.dev, &a->w.cfg, a->map, &why), 0);
        a->fresh = a->w.dev;
}

static void tear_down(struct arena *a)
{
        EXPECT(a->broken && a->unmapped && a->fine);
        a->w.dev = a->fresh;
        vq_device_done(&a->w.dev);
        mem_map_put(a->map);
        munmap(a->apart, a->w.bytes);
        wire_free(&a->w);
}

/* ---- one trial ---- */

static bool same_pieces(const struct vq_chain *c, const struct ref_verdict *ref)
{
        unsigned n = (unsigned)c->n_out + c->n_in;

        if (n != ref->n)
                return false;
        for (unsigned i = 0; i < n; i++)
                if (c->iov[i].iov_base != ref->piece[i].bytes || c->iov[i].iov_len != ref->piece[i].len ||
                    (i >= c->n_out) != ref->piece[i].writable)
                        return false;
        return true;
}

static void explain(struct arena *a, int r, const struct ref_verdict *ref, uint16_t head)
{
        print_message("# head %u: device %d broken %s fault %d; reference broken %s unmapped %d pieces %u\n",
                      head, r, a->w.dev.broken ? a->w.dev.broken : "-", a->w.chains[0].fault,
                      ref->broken ? ref->broken : "-", ref->unmapped, ref->n);
        for (unsigned i = 0; i < SIZE; i++) {
                struct vring_desc d = split_desc_load(&a->w.drv.split.ring.desc[i]);

                print_message("# desc %u: addr %jx len %u flags %x next %u\n", i, (uintmax_t)d.addr, d.len,
                              d.flags, d.next);
        }
}

static void trial(struct arena *a, uint16_t head)
{
        struct ref_verdict ref;
        bool same;
        int r;

        a->trials++;
        a->w.dev = a->fresh;
        wire_raw_avail(&a->w, 0, head);
        wire_raw_avail_idx(&a->w, 1);
        r = wire_pop(&a->w, 1);
        ref_walk(&a->mem, a->w.cfg.desc, SIZE, a->w.dev.indirect, head, &ref);

        a->broken += !!ref.broken;
        a->unmapped += !ref.broken && ref.unmapped;
        a->fine += !ref.broken && !ref.unmapped;
        if (ref.broken)
                same = r == -EPROTO && !strcmp(a->w.dev.broken, ref.broken);
        else if (ref.unmapped)
                same = r == 1 && a->w.chains[0].fault == -EFAULT;
        else
                same = r == 1 && !a->w.chains[0].fault && same_pieces(&a->w.chains[0], &ref);
        if (!same)
                explain(a, r, &ref, head);
        EXPECT(same);
}

/* ---- the values ---- */

struct values {
        uint64_t addr[10];
        uint32_t len[10];
        uint16_t flags[9], next[5];
        unsigned n_addr, n_len, n_flags, n_next;
};

static struct values boundary_values(const struct arena *a)
{
        uint64_t touch = a->region[1].first, hole = a->region[1].last + 1, third = a->region[2].first;

        /* the first ones of each list are the most telling, for the everyday run */
        return (struct values){
                .addr = {touch - 16, hole - 1, UINT64_MAX - 15, touch,         0,                                            third, hole, touch - 17, third - 1,
                         UINT64_MAX },
                .len = { 16,      0,    17,          16 * (SIZE + 1),                                           UINT32_MAX,                                                                                      32, 16 * SIZE, 1, 2, 15 },
                .flags = { 0,    NEXT,       WRITE,NEXT | WRITE,INDIRECT,INDIRECT | NEXT, INDIRECT | WRITE, 7,
                         0xFFF8 },
                .next = { 1,         0,                SIZE,                             SIZE - 1,                                         0xFFFF                                                                                   },
                .n_addr = (unsigned)test_scale(5, 10),
                .n_len = (unsigned)test_scale(6, 10),
                .n_flags = (unsigned)test_scale(8, 9),
                .n_next = (unsigned)test_scale(4, 5),
        };
}

static uint64_t n_descs(const struct values *v)
{
        return (uint64_t)v->n_addr * v->n_len * v->n_flags * v->n_next;
}

/* Descriptor number i of all that the values make. */
static struct vring_desc desc_number(const struct values *v, uint64_t i)
{
        struct vring_desc d;

        d.addr = v->addr[i % v->n_addr];
        i /= v->n_addr;
        d.len = v->len[i % v->n_len];
        i /= v->n_len;
        d.flags = v->flags[i % v->n_flags];
        i /= v->n_flags;
        d.next = v->next[i];
        return d;
}

static void put(struct arena *a, unsigned at, struct vring_desc d)
{
        wire_raw_desc(&a->w, at, d.addr, d.len, d.flags, d.next);
}

static const uint64_t features[] = { 0, F(indirect_desc) };

/* hostile P07 */
TEST(walk, all_chains_of_one_or_two_descriptors_get_the_reference_verdict)
{
        for (unsigned f = 0; f < ARRAY_SIZE(features); f++) {
                struct arena a;
                struct values v;
                uint64_t n;

                set_up(&a, features[f]);
                v = boundary_values(&a);
                n = n_descs(&v);
                for (uint64_t i = 0; i < n; i++) {
                        put(&a, 0, desc_number(&v, i));
                        for (uint64_t k = 0; k < n; k++) {
                                put(&a, 1, desc_number(&v, k));
                                trial(&a, 0);
                        }
                        for (unsigned head = 1; head <= SIZE; head++)
                                trial(&a, (uint16_t)head);
                        trial(&a, 0xFFFF);
                }
                EXPECT(a.trials > n * n);
                tear_down(&a);
        }
}

/* hostile P07: the same inside a table, which lies in one region, across two, crooked, or partly in the hole */
TEST(walk, all_tables_of_two_entries_get_the_reference_verdict)
{
        struct arena a;
        struct values v;
        uint64_t n;

        set_up(&a, F(indirect_desc));
        v = boundary_values(&a);
        n = n_descs(&v);

        const uint64_t tables[] = { a.region[0].first + a.w.buf, a.region[1].first - 16,
                                    a.region[1].first - 9,       a.region[1].last - 31,
                                    a.region[1].last - 30,       a.region[1].last - 15 };
        const struct {
                uint32_t bytes;
                uint16_t flags;
        } pointers[] = {
                {32,  INDIRECT        },
                { 16, INDIRECT | WRITE},
                { 64, INDIRECT        }
        };

        for (unsigned t = 0; t < ARRAY_SIZE(tables); t++) {
                for (uint64_t i = 0; i < n; i++) {
                        struct vring_desc first = desc_number(&v, i);
                        uint64_t step = test_scale(7, 1);

                        for (uint64_t k = i % step; k < n; k += step) {
                                struct vring_desc second = desc_number(&v, k);
                                unsigned p = (unsigned)((i + k) % ARRAY_SIZE(pointers));

                                wire_raw_table(&a.w, tables[t], 0, first.addr, first.len, first.flags,
                                               first.next);
                                wire_raw_table(&a.w, tables[t], 1, second.addr, second.len, second.flags,
                                               second.next);
                                wire_raw_desc(&a.w, 0, wire_gpa(&a.w, 0), 1, NEXT | (k & 1 ? WRITE : 0), 1);
                                wire_raw_desc(&a.w, 1, tables[t], pointers[p].bytes, pointers[p].flags, 0);
                                trial(&a, i & 1);
                        }
                }
        }
        tear_down(&a);
}

/* Longer ones, in which the links mostly stay inside. */
TEST(walk, random_chains_get_the_reference_verdict)
{
        uint64_t n = test_scale(200000, 20000000), rng = 99;

        for (unsigned f = 0; f < ARRAY_SIZE(features); f++) {
                struct arena a;
                struct values v;

                set_up(&a, features[f]);
                v = boundary_values(&a);
                for (uint64_t i = 0; i < n; i++) {
                        uint64_t table = a.region[rng_below(&rng, 2)].last - 15 - rng_below(&rng, 64);

                        for (unsigned k = 0; k < SIZE; k++) {
                                struct vring_desc d = desc_number(&v, rng_next(&rng) % n_descs(&v));

                                d.next = rng_below(&rng, 8) ? (uint16_t)rng_below(&rng, SIZE) : d.next;
                                if (d.flags & INDIRECT && rng_below(&rng, 4))
                                        d.addr = table;
                                put(&a, k, d);
                                d = desc_number(&v, rng_next(&rng) % n_descs(&v));
                                d.next = rng_below(&rng, 8) ? (uint16_t)rng_below(&rng, SIZE) : d.next;
                                wire_raw_table(&a.w, table, k, d.addr, d.len, d.flags, d.next);
                        }
                        trial(&a, (uint16_t)rng_below(&rng, SIZE));
                }
                tear_down(&a);
        }
}
