/* The table of guest memory.
 *
 * A look-up is the most frequent question in the device: once a descriptor.  Most guests have one region, or one large and
 * a few small ones, so the largest is tried first and the rest is found by halving.  Nothing in a map changes after
 * it was made; that is why no look-up takes a lock. */
#include "mem/map.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/atomics.h"
#include "base/check.h"
#include "mem/mapping.h"

/* ---- making ---- */

static struct mem_map *map_alloc(unsigned n)
{
        struct mem_map *map = calloc(1, sizeof(*map) + n * sizeof(map->region[0]));

        if (map)
                map->refs = 1;
        return map;
}

/* By address.  They come one by one or in order, so that little has to be moved; and qsort() asks the system how much memory there is,
 * which a sandbox does not let it. */
static void sort(struct mem_region *region, unsigned n)
{
        for (unsigned i = 1; i < n; i++) {
                struct mem_region r = region[i];
                unsigned at = i;

                for (; at > 0 && region[at - 1].gpa > r.gpa; at--)
                        region[at] = region[at - 1];
                region[at] = r;
        }
}

/* Sorts the regions and looks for overlap, which only neighbours can have then. */
static int map_finish(struct mem_map *map, const char **ret_why)
{
        sort(map->region, map->n);
        for (unsigned i = 0; i < map->n; i++) {
                const struct mem_region *r = &map->region[i];

                if (i && r->gpa - r[-1].gpa < r[-1].size) {
                        *ret_why = "memory region: overlaps another";
                        return -EINVAL;
                }
                if (r->size > map->region[map->largest].size)
                        map->largest = i;
        }
        return 0;
}

static int check_numbers(const struct mem_region_spec *spec, const char **ret_why)
{
        if (!spec->size)
                *ret_why = "memory region: size 0";
        else if (spec->gpa + spec->size < spec->gpa)
                *ret_why = "memory region: guest address and size wrap";
        else if (spec->uva + spec->size < spec->uva)
                *ret_why = "memory region: user address and size wrap";
        else
                return 0;
        return -EINVAL;
}

static int region_init(struct mem_region *region, const struct mem_region_spec *spec, const char **ret_why)
{
        struct mem_mapping *mapping;
        int r = check_numbers(spec, ret_why);

        if (!r)
                r = mapping_new(spec->fd, spec->offset, spec->size, &mapping, ret_why);
        if (!r)
                *region = (struct mem_region){
                        .gpa = spec->gpa,
                        .uva = spec->uva,
                        .size = spec->size,
                        .va = mapping->data,
                        .mapping = mapping,
                        .offset = spec->offset,
                };
        return r;
}

/* The old map's regions but one (`without` < n), with room for `more` at the end. */
static struct mem_map *map_copy(const struct mem_map *old, unsigned without, unsigned more)
{
        unsigned n = old ? old->n : 0;
        struct mem_map *map = map_alloc(n + more);

        for (unsigned i = 0; map && i < n; i++) {
                if (i == without)
                        continue;
                map->region[map->n] = old->region[i];
                mapping_get(map->region[map->n++].mapping);
        }
        return map;
}

static int too_many(const char **ret_why)
{
        *ret_why = "memory table: too many regions";
        return -E2BIG;
}

static int no_memory(const char **ret_why)
{
        *ret_why = "memory table: out of memory";
        return -ENOMEM;
}

int mem_map_new(const struct mem_region_spec *spec, unsigned n, struct mem_map **ret_map,
                const char **ret_why)
{
        struct mem_map *map;
        int r = 0;

        if (n > VHOST_USER_REGIONS_MAX)
                return too_many(ret_why);
        map = map_alloc(n);
        if (!map)
                return no_memory(ret_why);
        while (!r && map->n < n) {
                r = region_init(&map->region[map->n], &spec[map->n], ret_why);
                if (!r)
                        map->n++;
        }
        if (!r)
                r = map_finish(map, ret_why);
        if (r < 0)
                mem_map_put(map);
        else
                *ret_map = map;
        return r;
}

static bool same_file(int fd, const struct mem_mapping *mapping)
{
        struct stat st;

        return !mapping || (!fstat(fd, &st) && st.st_dev == mapping->st_dev && st.st_ino == mapping->st_ino);
}

/* The region with spec's addresses and size, or old->n. */
static unsigned find(const struct mem_map *old, const struct mem_region_spec *spec)
{
        unsigned i, n = old ? old->n : 0;

        for (i = 0; i < n; i++) {
                const struct mem_region *r = &old->region[i];

                if (r->gpa == spec->gpa && r->uva == spec->uva && r->size == spec->size)
                        break;
        }
        return i;
}

/* The same table, with region i added once more or removed once less. */
static int map_repeat(const struct mem_map *old, unsigned i, int step, struct mem_map **ret_map,
                      const char **ret_why)
{
        struct mem_map *map = map_copy(old, old->n, 0);

        if (!map)
                return no_memory(ret_why);
        map->largest = old->largest;
        map->region[i].repeats += (unsigned)step;
        *ret_map = map;
        return 0;
}

int mem_map_with(const struct mem_map *old, const struct mem_region_spec *spec, struct mem_map **ret_map,
                 const char **ret_why)
{
        unsigned n = old ? old->n : 0;
        unsigned i = find(old, spec);
        struct mem_map *map;
        int r;

        if (i < n && old->region[i].offset == spec->offset && same_file(spec->fd, old->region[i].mapping))
                return map_repeat(old, i, 1, ret_map, ret_why);
        if (n == VHOST_USER_REGIONS_MAX)
                return too_many(ret_why);
        map = map_copy(old, n, 1);
        if (!map)
                return no_memory(ret_why);
        r = region_init(&map->region[n], spec, ret_why);
        if (!r) {
                map->n++;
                r = map_finish(map, ret_why);
        }
        if (r < 0)
                mem_map_put(map);
        else
                *ret_map = map;
        return r;
}

int mem_map_without(const struct mem_map *old, const struct mem_region_spec *spec, struct mem_map **ret_map,
                    const char **ret_why)
{
        unsigned i = find(old, spec);
        struct mem_map *map;

        if (!old || i == old->n) {
                *ret_why = "memory region: not in the table";
                return -ENOENT;
        }
        if (spec->fd >= 0 && !same_file(spec->fd, old->region[i].mapping)) {
                *ret_why = "memory region: in the table with another file";
                return -ENOENT;
        }
        if (old->region[i].repeats)
                return map_repeat(old, i, -1, ret_map, ret_why);
        map = map_copy(old, i, 0);
        if (!map)
                return no_memory(ret_why);
        map_finish(map, ret_why); /* part of a table without overlap has none */
        *ret_map = map;
        return 0;
}

int mem_map_borrow(const struct mem_region *regions, unsigned n, struct mem_map **ret_map)
{
        struct mem_map *map = map_alloc(n);
        const char *why;
        int r;

        if (!map)
                return -ENOMEM;
        map->n = n;
        for (unsigned i = 0; i < n; i++) {
                map->region[i] = regions[i];
                map->region[i].mapping = NULL;
        }
        r = map_finish(map, &why);
        if (r < 0)
                mem_map_put(map);
        else
                *ret_map = map;
        return r;
}

struct mem_map *mem_map_get(struct mem_map *map)
{
        if (map)
                __atomic_fetch_add(&map->refs, 1, __ATOMIC_RELAXED);
        return map;
}

void mem_map_put(struct mem_map *map)
{
        if (!map || __atomic_fetch_sub(&map->refs, 1, __ATOMIC_ACQ_REL) != 1)
                return;
        for (unsigned i = 0; i < map->n; i++)
                mapping_put(map->region[i].mapping);
        free(map);
}

/* ---- looking up ---- */

bool mem_map_gone(const struct mem_map *map)
{
        if (likely(!mapping_any_gone()))
                return false;
        for (unsigned i = 0; i < map->n; i++) {
                const struct mem_mapping *m = map->region[i].mapping;

                if (m && load_relaxed(&m->gone))
                        return true;
        }
        return false;
}

const struct mem_region *mem_map_region(const struct mem_map *map, uint64_t gpa)
{
        const struct mem_region *r = &map->region[map->largest];
        unsigned lo = 0, hi = map->n;

        if (likely(hi && gpa - r->gpa < r->size)) /* below it the difference wraps to a huge number */
                return r;
        while (lo < hi) {
                unsigned mid = (lo + hi) / 2;

                r = &map->region[mid];
                if (gpa < r->gpa)
                        hi = mid;
                else if (gpa - r->gpa < r->size)
                        return r;
                else
                        lo = mid + 1;
        }
        return NULL;
}

void *mem_map_ptr(const struct mem_map *map, uint64_t gpa, uint64_t len)
{
        const struct mem_region *r = mem_map_region(map, gpa);

        if (!r || len > r->size - (gpa - r->gpa))
                return NULL;
        return r->va + (gpa - r->gpa);
}

void *mem_map_uva(const struct mem_map *map, uint64_t uva, uint64_t len)
{
        for (unsigned i = 0; i < map->n; i++) {
                const struct mem_region *r = &map->region[i];

                if (uva >= r->uva && uva - r->uva < r->size)
                        return len <= r->size - (uva - r->uva) ? r->va + (uva - r->uva) : NULL;
        }
        return NULL;
}

int mem_map_iov(const struct mem_map *map, uint64_t gpa, uint32_t len, struct iovec *iov, int max)
{
        const struct mem_region *r, *end = map->region + map->n;
        int n = 0;

        if (!len)
                return 0;
        r = mem_map_region(map, gpa);
        if (!r)
                return -EFAULT;
        for (;;) {
                uint64_t left = r->size - (gpa - r->gpa);
                uint32_t piece = left < len ? (uint32_t)left : len;

                if (n == max)
                        return -ENOBUFS;
                iov[n++] = (struct iovec){ .iov_base = r->va + (gpa - r->gpa), .iov_len = piece };
                len -= piece;
                if (likely(!len))
                        return n;
                gpa += piece; /* the last region ends below 2^64, so a sum that wraps finds no next one */
                if (++r == end || r->gpa != gpa)
                        return -EFAULT;
        }
}
