/* Memory tables.  The input is a list of operations, each a byte that says which, then its numbers:
 *      0 add, 1 remove:        u8 kind of file, le64 gpa, uva, size, offset
 *      2 look up, 3 by uva:    le64 address, le32 length
 *      4 a new table of n:     u8 n (1..8), n times as for add
 * The files hold their own offsets, so that every pointer shows whether it is the right one. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "fuzz.h"
#include "mem/map.h"

#define PAGE  4096
#define LARGE (UINT64_C(16) * PAGE)
#define SMALL (UINT64_C(1) * PAGE + 104)

struct input {
        const uint8_t *data;
        size_t size;
};

static uint64_t take(struct input *in, unsigned bytes)
{
        uint64_t v = 0;

        if (in->size < bytes) {
                in->size = 0;
                return 0;
        }
        for (unsigned i = 0; i < bytes; i++)
                v |= (uint64_t)in->data[i] << 8 * i;
        in->data += bytes;
        in->size -= bytes;
        return v;
}

/* Byte i of every file. */
static uint8_t content(uint64_t i)
{
        return (uint8_t)(i * 131 + (i >> 8) * 7);
}

static int new_file(uint64_t size)
{
        int fd = memfd_create("fuzz", MFD_CLOEXEC);
        uint8_t *p;

        check(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        check(p != MAP_FAILED);
        for (uint64_t i = 0; i < size; i++)
                p[i] = content(i);
        munmap(p, size);
        return fd;
}

static int file_of_kind(unsigned kind)
{
        static int large, small, pipes[2];

        if (!large) {
                large = new_file(LARGE);
                small = new_file(SMALL);
                check(pipe(pipes) == 0);
        }
        return kind % 4 == 3 ? -1 : kind % 4 == 2 ? pipes[0] : kind % 4 ? small : large;
}

static struct mem_region_spec take_spec(struct input *in)
{
        struct mem_region_spec s = { .fd = file_of_kind((unsigned)take(in, 1)) };

        s.gpa = take(in, 8);
        s.uva = take(in, 8);
        s.size = take(in, 8);
        s.offset = take(in, 8);
        return s;
}

/* What the map should be: regions in the order in which they came. */
struct model {
        struct mem_region_spec region[VHOST_USER_REGIONS_MAX];
        unsigned repeats[VHOST_USER_REGIONS_MAX];
        unsigned n;
};

/* The region with these addresses and size, or m->n. */
static unsigned find(const struct model *m, const struct mem_region_spec *s)
{
        unsigned i;

        for (i = 0; i < m->n; i++)
                if (m->region[i].gpa == s->gpa && m->region[i].uva == s->uva && m->region[i].size == s->size)
                        break;
        return i;
}

static bool fits(const struct model *m, const struct mem_region_spec *s)
{
        uint64_t file = s->fd == file_of_kind(0) ? LARGE : s->fd == file_of_kind(1) ? SMALL : 0;

        if (!s->size || s->size > file || s->offset > file - s->size || s->gpa > UINT64_MAX - s->size ||
            s->uva > UINT64_MAX - s->size)
                return false;
        for (unsigned i = 0; i < m->n; i++)
                if (s->gpa < m->region[i].gpa + m->region[i].size && m->region[i].gpa < s->gpa + s->size)
                        return false;
        return m->n < VHOST_USER_REGIONS_MAX;
}

/* The byte that should stand at `gpa`, or -1. */
static int byte_at(const struct model *m, uint64_t gpa)
{
        for (unsigned i = 0; i < m->n; i++)
                if (gpa >= m->region[i].gpa && gpa - m->region[i].gpa < m->region[i].size)
                        return content(m->region[i].offset + (gpa - m->region[i].gpa));
        return -1;
}

static void adopt(struct mem_map **map, struct mem_map *next)
{
        mem_map_put(*map);
        *map = next;
}

static void add(struct model *m, struct mem_map **map, struct input *in)
{
        struct mem_region_spec s = take_spec(in);
        unsigned i = find(m, &s);
        bool again = i < m->n && s.fd == m->region[i].fd && s.offset == m->region[i].offset;
        bool good = again || fits(m, &s);
        struct mem_map *next;
        const char *why = NULL;

        if (mem_map_with(*map, &s, &next, &why) < 0) {
                check(!good && why);
                return;
        }
        check(good);
        if (again) {
                m->repeats[i]++;
        } else {
                m->repeats[m->n] = 0;
                m->region[m->n++] = s;
        }
        adopt(map, next);
}

static void remove_one(struct model *m, struct mem_map **map, struct input *in)
{
        struct mem_region_spec s = take_spec(in);
        unsigned i = find(m, &s);
        bool good = i < m->n && (s.fd < 0 || s.fd == m->region[i].fd);
        struct mem_map *next;
        const char *why = NULL;

        if (mem_map_without(*map, &s, &next, &why) < 0) {
                check(!good && why);
                return;
        }
        check(good);
        if (m->repeats[i]) {
                m->repeats[i]--;
        } else {
                m->region[i] = m->region[--m->n];
                m->repeats[i] = m->repeats[m->n];
        }
        adopt(map, next);
}

static void new_table(struct model *m, struct mem_map **map, struct input *in)
{
        struct mem_region_spec s[8];
        static struct model fresh; /* large */
        unsigned n = 1 + take(in, 1) % 8;
        bool good = true;
        struct mem_map *next;
        const char *why = NULL;

        fresh = (struct model){ 0 };
        for (unsigned i = 0; i < n; i++) {
                s[i] = take_spec(in);
                good = good && fits(&fresh, &s[i]);
                fresh.region[fresh.n++] = s[i];
        }
        if (mem_map_new(s, n, &next, &why) == 0) {
                check(good);
                *m = fresh;
                adopt(map, next);
        } else {
                check(!good && why);
        }
}

static void check_piece(const struct model *m, uint64_t gpa, const struct iovec *piece)
{
        const uint8_t *bytes = piece->iov_base;
        size_t last = piece->iov_len - 1;

        for (size_t i = 0; i < last; i += 509)
                check(bytes[i] == byte_at(m, gpa + i));
        check(bytes[last] == byte_at(m, gpa + last));
}

static bool has_hole(const struct model *m, uint64_t gpa, uint32_t len)
{
        if (gpa > UINT64_MAX - len)
                return true;
        for (uint32_t i = 0; i < len; i++)
                if (byte_at(m, gpa + i) < 0)
                        return true;
        return false;
}

static void look_up(const struct model *m, const struct mem_map *map, struct input *in)
{
        uint64_t gpa = take(in, 8);
        uint32_t len = (uint32_t)take(in, 4), at = 0;
        struct iovec iov[16];
        uint8_t *p;
        int n;

        if (!map)
                return;
        n = mem_map_iov(map, gpa, len, iov, ARRAY_SIZE(iov));
        for (int i = 0; i < n; i++) {
                check(iov[i].iov_len && iov[i].iov_len <= len - at);
                check_piece(m, gpa + at, &iov[i]);
                at += (uint32_t)iov[i].iov_len;
        }
        check(n < 0 || at == len);
        check(n != -EFAULT || len > 4 * PAGE || has_hole(m, gpa, len));
        p = mem_map_ptr(map, gpa, len);
        check(p || n != 1);
        check(!p || *p == byte_at(m, gpa));
        check(!p || !len || p[len - 1] == byte_at(m, gpa + len - 1));
}

static void look_up_uva(const struct mem_map *map, struct input *in)
{
        uint64_t uva = take(in, 8), len = take(in, 4);
        uint8_t *p = map ? mem_map_uva(map, uva, len) : NULL;
        volatile uint8_t sink;

        if (p && len) {
                sink = p[0];
                sink = p[len - 1];
                (void)sink;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct input in = { data, size };
        static struct model m;
        struct mem_map *map = NULL;

        m.n = 0;
        while (in.size) {
                switch (take(&in, 1) % 5) {
                case 0:
                        add(&m, &map, &in);
                        break;
                case 1:
                        remove_one(&m, &map, &in);
                        break;
                case 2:
                        look_up(&m, map, &in);
                        break;
                case 3:
                        look_up_uva(map, &in);
                        break;
                case 4:
                        new_table(&m, &map, &in);
                        break;
                }
        }
        mem_map_put(map);
        return 0;
}
