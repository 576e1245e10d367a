/* One mmap() of a peer's file, and the list of all of them that a SIGBUS handler walks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mem_mapping {
        /* written once, before anyone shares it */
        uint8_t *data; /* the file's byte at the offset that was asked for; somewhere in the first page */
        dev_t st_dev;  /* which file it is */
        ino_t st_ino;
        /* atomic */
        int refs;
        bool gone; /* a page of it was missing when touched */
        /* the list's own: see mapping.c */
        bool taken;
        uint32_t version;
        uintptr_t start, end;
        uintptr_t page; /* bytes; of the file, so that huge pages are replaced whole */
        struct mem_mapping *next;
};

/* Maps `size` bytes of `fd` from `offset` on, for reading and writing; any offset will do.  On failure *ret_why names the rule. */
int mapping_new(int fd, uint64_t offset, uint64_t size, struct mem_mapping **ret_mapping,
                const char **ret_why);
struct mem_mapping *mapping_get(struct mem_mapping *m); /* NULL is passed through */
void mapping_put(struct mem_mapping *m);                /* unmaps with the last reference; NULL is fine */

/* True once any mapping of the process has lost a page: the cheap question before the exact one. */
bool mapping_any_gone(void);
