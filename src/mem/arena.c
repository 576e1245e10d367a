/* The seals are what makes the memory safe to share: a device that holds the memfd can neither shrink it under us (SIGBUS)
 * nor grow it, nor take the seals away. */
#include "mem/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

/* not 0, which some devices take for "no address"; says nothing about our pointers */
#define ARENA_GPA UINT64_C(0x40000000)

int arena_init(struct arena *a, size_t size)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        int r = 0;

        *a = (struct arena){ .fd = -1 };
        if (!size || size > SIZE_MAX - page)
                return -EINVAL;
        a->size = ALIGN_UP(size, page);
        a->gpa = ARENA_GPA;
        a->fd = memfd_create("vwire-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (a->fd < 0 || ftruncate(a->fd, (off_t)a->size) < 0 ||
            fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                r = -errno;
        if (!r) {
                a->va = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
                if (a->va == MAP_FAILED) {
                        r = -errno;
                        a->va = NULL;
                }
        }
        if (!r)
                madvise(a->va, a->size, MADV_DONTDUMP);
        else
                arena_done(a);
        return r;
}

void arena_done(struct arena *a)
{
        if (a->va)
                munmap(a->va, a->size);
        if (a->size && a->fd >= 0) /* a zero-filled arena owns no fd, and 0 is one */
                close(a->fd);
        *a = (struct arena){ .fd = -1 };
}

void *arena_alloc(struct arena *a, size_t size, size_t align)
{
        size_t start;

        check(align && !(align & (align - 1)));
        start = ALIGN_UP(a->used, align);
        if (start > a->size || size > a->size - start) /* one that was never set up has size 0 */
                return NULL;
        a->used = start + size;
        return a->va + start;
}
