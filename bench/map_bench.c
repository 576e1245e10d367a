/* What a look-up of guest memory costs.  One line a case, key=value.  Addresses are random: in the largest region, where most of
 * a guest's memory is, or anywhere in the table.
 *
 * usage: map_bench [MILLISECONDS]      of each case; 100 unless told */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "mem/map.h"

#define ADDRESSES 4096
#define SMALL     (UINT64_C(1) << 20) /* bytes of each region but the largest */
#define LARGE     (UINT64_C(1) << 30)

static struct mem_map *new_map(unsigned n)
{
        struct mem_region *r = calloc(n, sizeof(*r));
        struct mem_map *map = NULL;
        uint64_t gpa = 0;

        check(r);
        for (unsigned i = 0; i < n; i++) { /* addresses only: nothing here is touched */
                r[i] = (struct mem_region){ .gpa = gpa,
                                            .size = i == n / 2 ? LARGE : SMALL,
                                            .va = (uint8_t *)gpa };
                gpa += r[i].size;
        }
        check(mem_map_borrow(r, n, &map) == 0);
        free(r);
        return map;
}

static double measure(const struct mem_map *map, const uint64_t *gpa, uint64_t budget)
{
        uint64_t start = clock_now(), n = 0, now;
        struct iovec iov[2];

        do {
                for (unsigned i = 0; i < ADDRESSES; i++)
                        check(mem_map_iov(map, gpa[i], 1, iov, 2) == 1);
                n += ADDRESSES;
                now = clock_now();
        } while (now - start < budget);
        return (double)(now - start) / (double)n;
}

int main(int argc, char **argv)
{
        static const unsigned counts[] = { 1, 2, 3, 8, 64, VHOST_USER_REGIONS_MAX };
        uint64_t budget = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100) * NSEC_PER_MSEC;

        for (unsigned c = 0; c < ARRAY_SIZE(counts); c++) {
                struct mem_map *map = new_map(counts[c]);
                const struct mem_region *big = &map->region[map->largest];
                uint64_t in_big[ADDRESSES], anywhere[ADDRESSES];

                for (unsigned i = 0; i < ADDRESSES; i++) {
                        const struct mem_region *r = &map->region[(unsigned)random() % map->n];

                        in_big[i] = big->gpa + (uint64_t)random() % big->size;
                        anywhere[i] = r->gpa + (uint64_t)random() % r->size;
                }
                printf("bench=map regions=%u largest_ns=%.1f anywhere_ns=%.1f\n", counts[c],
                       measure(map, in_big, budget), measure(map, anywhere, budget));
                mem_map_put(map);
        }
        return 0;
}
