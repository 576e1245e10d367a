/* Guest memory: an immutable, sorted table from the peer's addresses to our pointers.  A new table is a new map;
 * whoever may touch the old one holds a reference, so nothing is unmapped under a worker's feet.
 *
 * A region that its owner shrinks faults when touched: mem_sigbus() then puts zeros in its place and marks
 * the map `gone`; users look at that flag between bursts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "virtio/spec.h"

struct mem_region {
        uint64_t gpa;  /* guest-physical address, as in descriptors */
        uint64_t uva;  /* the front end's virtual address, as in SET_VRING_ADDR */
        uint64_t size; /* bytes */
        uint8_t *va;   /* ours */
        /* the mapping behind it: page-aligned, and refcounted apart, since add and remove make new tables of old regions;
         * NULL: borrowed */
        struct mem_mapping *mapping;
        uint64_t offset;  /* in its file */
        unsigned repeats; /* how often it was added again: so many removals leave it in place */
};

struct mem_map {
        int refs; /* atomic */
        unsigned n;
        unsigned largest; /* index of the region where a look-up starts: most of a guest's memory is in one */
        struct mem_region region[]; /* sorted by gpa, none overlaps */
};

/* A region as the peer describes it; `fd` stays the caller's. */
struct mem_region_spec {
        uint64_t gpa, size, uva, offset;
        int fd;
};

/* Maps all regions or none; no region at all is a map that holds nothing.  -EINVAL: zero size, wrap, overlap, beyond the file's
 * end (fstat); -EBADF: not a file that can be mapped for reading and writing; -E2BIG: over VHOST_USER_REGIONS_MAX; -ENOMEM ...
 * On failure *ret_why names the rule. */
int mem_map_new(const struct mem_region_spec *spec, unsigned n, struct mem_map **ret_map,
                const char **ret_why);

/* A new map: the old one's regions (old may be NULL) with one more, or without the one that has spec's gpa, uva and size and,
 * if an fd is given (not -1), lies in that file.  -ENOENT if there is none such.  A region that is the same in everything, file and
 * offset too, may be added again and then has to be removed as often: QEMU 7.2 does both once for each queue pair. */
int mem_map_with(const struct mem_map *old, const struct mem_region_spec *spec, struct mem_map **ret_map,
                 const char **ret_why);
int mem_map_without(const struct mem_map *old, const struct mem_region_spec *spec, struct mem_map **ret_map,
                    const char **ret_why);

/* A map over memory that is already mapped by the caller (an arena, a test): not unmapped at the end. */
int mem_map_borrow(const struct mem_region *regions, unsigned n, struct mem_map **ret_map);

struct mem_map *mem_map_get(struct mem_map *map); /* NULL is passed through */
void mem_map_put(struct mem_map *map);            /* unmaps with the last reference; NULL is fine */

/* True once a page of it was found missing. */
bool mem_map_gone(const struct mem_map *map);

/* The region that holds the byte at `gpa`, or NULL. */
const struct mem_region *mem_map_region(const struct mem_map *map, uint64_t gpa);

/* Contiguous bytes at a guest address, or NULL; never crosses a region.  The hot path's look-up. */
void *mem_map_ptr(const struct mem_map *map, uint64_t gpa, uint64_t len);

/* Contiguous bytes at a front-end address, or NULL. */
void *mem_map_uva(const struct mem_map *map, uint64_t uva, uint64_t len);

/* The pieces behind [gpa, gpa + len), which may lie across adjacent regions.  Returns their number, -EFAULT when a
 * byte is unmapped or the sum wraps, -ENOBUFS when they are more than `max`. */
int mem_map_iov(const struct mem_map *map, uint64_t gpa, uint32_t len, struct iovec *iov, int max);

/* For a SIGBUS handler: true if `addr` lay in some map's memory; the page now reads as zeros. */
bool mem_sigbus(const void *addr);
