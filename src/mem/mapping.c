/* Mappings of files that somebody else owns.
 *
 * The owner may shrink such a file at any time; touching what is no longer there raises SIGBUS in whatever thread did it.
 * The handler must find the mapping without locks, while another thread adds or drops one.  So descriptors of mappings live
 * on a list that only grows: a dropped one is marked empty and used again, never freed.  Address and length are
 * two words; `version` is odd while they change, and a reader that sees it odd or changed passes on.  It can afford to:
 * a mapping that faults is in use, so its own words do not change. */
#include "mem/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "mem/map.h"
#include "vwire/types.h"

static struct mem_mapping *mappings;                              /* atomic; only ever grows at its head */
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER; /* writers of the list; readers need none */
static bool any_gone;                                             /* atomic; sticky */

static void set_range(struct mem_mapping *m, uintptr_t start, uintptr_t end, uintptr_t page)
{
        __atomic_fetch_add(&m->version, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&m->start, start, __ATOMIC_SEQ_CST);
        __atomic_store_n(&m->end, end, __ATOMIC_SEQ_CST);
        __atomic_store_n(&m->page, page, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&m->version, 1, __ATOMIC_SEQ_CST);
}

/* Is `addr` inside?  Then *ret_page is the size of its page. */
static bool holds(const struct mem_mapping *m, uintptr_t addr, uintptr_t *ret_page)
{
        uint32_t version = __atomic_load_n(&m->version, __ATOMIC_SEQ_CST);
        uintptr_t start = __atomic_load_n(&m->start, __ATOMIC_SEQ_CST);
        uintptr_t end = __atomic_load_n(&m->end, __ATOMIC_SEQ_CST);
        uintptr_t page = __atomic_load_n(&m->page, __ATOMIC_SEQ_CST);

        if (version & 1 || version != __atomic_load_n(&m->version, __ATOMIC_SEQ_CST))
                return false;
        *ret_page = page;
        return addr >= start && addr < end;
}

static struct mem_mapping *claim_slot(void)
{
        struct mem_mapping *m;

        pthread_mutex_lock(&mappings_lock);
        for (m = mappings; m; m = m->next)
                if (!load_acquire(&m->taken))
                        break;
        if (!m && (m = calloc(1, sizeof(*m)))) {
                m->next = mappings;
                store_release(&mappings, m);
        }
        if (m) {
                store_relaxed(&m->taken, true);
                store_relaxed(&m->refs, 1);
        }
        pthread_mutex_unlock(&mappings_lock);
        return m;
}

/* The release is for whoever claims it next: it is done with. */
static void release_slot(struct mem_mapping *m)
{
        store_release(&m->taken, false);
}

static int check_file(int fd, uint64_t offset, uint64_t size, struct stat *ret_st, uint64_t *ret_page,
                      const char **ret_why)
{
        struct statfs fs;
        int flags = fcntl(fd, F_GETFL);

        if (flags < 0 || fstat(fd, ret_st) < 0 || fstatfs(fd, &fs) < 0) {
                *ret_why = "memory region: no usable file descriptor";
                return -EBADF;
        }
        if (!S_ISREG(ret_st->st_mode)) {
                *ret_why = "memory region: not a file that holds memory";
                return -EBADF;
        }
        if ((flags & O_ACCMODE) != O_RDWR) {
                *ret_why = "memory region: file not open for reading and writing";
                return -EBADF;
        }
        if (offset + size < offset) {
                *ret_why = "memory region: offset and size wrap";
                return -EINVAL;
        }
        if (ret_st->st_size < 0 || offset + size > (uint64_t)ret_st->st_size) {
                *ret_why = "memory region: larger than its file";
                return -EINVAL;
        }
        *ret_page = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : (uint64_t)sysconf(_SC_PAGESIZE);
        return 0;
}

int mapping_new(int fd, uint64_t offset, uint64_t size, struct mem_mapping **ret_mapping,
                const char **ret_why)
{
        struct mem_mapping *m;
        struct stat st;
        uint64_t page, below, len;
        uint8_t *start;
        int r = check_file(fd, offset, size, &st, &page, ret_why);

        if (r < 0)
                return r;
        below = offset % page; /* mmap() takes whole pages; the caller's byte is that far into the first */
        len = ALIGN_UP(below + size, page);
        m = claim_slot();
        if (!m) {
                *ret_why = "memory region: out of memory";
                return -ENOMEM;
        }
        start = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                     (off_t)(offset - below));
        if (start == MAP_FAILED) {
                r = -errno;
                release_slot(m);
                *ret_why = r == -EPERM ? "memory region: file sealed against writing"
                                       : "memory region: mmap failed";
                return r == -EPERM ? -EBADF : r;
        }
        madvise(start, len, MADV_DONTDUMP); /* a core file is no place for a guest's memory */
        m->data = start + below;
        m->st_dev = st.st_dev;
        m->st_ino = st.st_ino;
        store_relaxed(&m->gone, false);
        set_range(m, (uintptr_t)start, (uintptr_t)start + len, page);
        *ret_mapping = m;
        return 0;
}

struct mem_mapping *mapping_get(struct mem_mapping *m)
{
        if (m)
                __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
        return m;
}

void mapping_put(struct mem_mapping *m)
{
        uintptr_t start, end;

        if (!m || __atomic_fetch_sub(&m->refs, 1, __ATOMIC_ACQ_REL) != 1)
                return;
        start = m->start;
        end = m->end;
        set_range(m, 0, 0, 0); /* before the addresses can belong to something else */
        munmap((void *)start, end - start);
        release_slot(m);
}

bool mapping_any_gone(void)
{
        return load_relaxed(&any_gone);
}

/* Zeros in place of the page at `addr`, as the mapping's own pages. */
static bool replace_page(uintptr_t addr, uintptr_t page)
{
        void *start = (void *)(addr / page * page);
        void *zeros =
                mmap(start, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

        return zeros == start; /* cppcheck-suppress memleak; it is the mapping's */
}

bool mem_sigbus(const void *addr)
{
        int saved_errno = errno;
        bool replaced = false;
        uintptr_t page;

        for (struct mem_mapping *m = load_acquire(&mappings); m && !replaced; m = m->next) {
                if (!holds(m, (uintptr_t)addr, &page))
                        continue;
                store_relaxed(&m->gone, true);
                store_relaxed(&any_gone, true);
                replaced = replace_page((uintptr_t)addr, page);
        }
        errno = saved_errno;
        return replaced;
}

bool vw_sigbus(const void *fault_address)
{
        return mem_sigbus(fault_address);
}
