/* The driver's shared memory: one memfd, sealed against shrinking, that holds rings and buffers.  Allocation is by
 * bump at set-up only; everything is given back at once by arena_done(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct arena {
        int fd;       /* memfd; -1 when off */
        uint8_t *va;  /* where we see it */
        uint64_t gpa; /* where the device sees it: any number that is not 0 */
        size_t size, used;
};

/* `size` is rounded up to pages.  Returns 0 or -errno. */
int arena_init(struct arena *a, size_t size);
void arena_done(struct arena *a); /* half-built and zero-filled arenas too */

/* Zeroed bytes, or NULL when it is full.  `align` is a power of two. */
void *arena_alloc(struct arena *a, size_t size, size_t align);

static inline uint64_t arena_gpa(const struct arena *a, const void *p)
{
        return a->gpa + (uint64_t)((const uint8_t *)p - a->va);
}
