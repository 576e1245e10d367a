/* Addresses to pointers: regions, holes, sums that wrap, files that are too short or vanish. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "mem/map.h"
#include "mem/mapping.h"
#include "scale.h"
#include "test.h"
#include "vwire/types.h"

#define PAGE UINT64_C(4096)

static int new_file(uint64_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        EXPECT(fd >= 0);
        EXPECT_EQ(ftruncate(fd, (off_t)size), 0);
        return fd;
}

static struct mem_map *new_map(const struct mem_region_spec *spec, unsigned n)
{
        struct mem_map *map = NULL;
        const char *why = "";

        EXPECT_EQ(mem_map_new(spec, n, &map, &why), 0);
        return map;
}

/* The map is refused with `err` and a reason that contains `word`. */
static void expect_refused(struct mem_region_spec spec, int err, const char *word)
{
        struct mem_map *map = NULL;
        const char *why = "";

        EXPECT_EQ(mem_map_new(&spec, 1, &map, &why), err);
        EXPECT(!map);
        if (!strstr(why, word))
                fail_msg("\"%s\" does not say \"%s\"", why, word);
}

static unsigned count_lines(const char *path)
{
        FILE *f = fopen(path, "re");
        unsigned n = 0;

        for (int c = getc(f); c != EOF; c = getc(f))
                n += c == '\n';
        fclose(f);
        return n;
}

TEST(map, translates_guest_and_user_addresses_of_one_region)
{
        int fd = new_file(4 * PAGE);
        struct mem_map *map = new_map(
                &(struct mem_region_spec){
                        .gpa = 0x10000, .uva = 0x7f0000000000, .size = 4 * PAGE, .fd = fd },
                1);
        uint8_t *p = mem_map_ptr(map, 0x10000, 4 * PAGE);
        char c = 0;

        EXPECT(p);
        p[PAGE + 7] = 'x';
        EXPECT_EQ(pread(fd, &c, 1, PAGE + 7), 1);
        EXPECT_EQ(c, 'x');
        EXPECT(mem_map_ptr(map, 0x10000 + PAGE, 1) == p + PAGE);
        EXPECT(mem_map_uva(map, 0x7f0000000000 + PAGE, 3 * PAGE) == p + PAGE);
        EXPECT(!mem_map_ptr(map, 0x10000, 4 * PAGE + 1));
        EXPECT(!mem_map_ptr(map, 0xffff, 1));
        EXPECT(!mem_map_ptr(map, 0x10000 + 4 * PAGE, 0));
        EXPECT(!mem_map_ptr(map, 0x10001, UINT64_MAX));
        EXPECT(!mem_map_uva(map, 0x7f0000000000 + PAGE, 3 * PAGE + 1));
        EXPECT(!mem_map_uva(map, 0x10000, 1));
        mem_map_put(map);
        close(fd);
}

TEST(map, finds_every_byte_of_many_regions_and_no_other)
{
        struct mem_region_spec spec[64];
        int fd = new_file(64 * PAGE);
        struct mem_map *map;

        for (unsigned i = 0; i < 64; i++) /* given in a scattered order, with a page's hole after each */
                spec[i] = (struct mem_region_spec){ .gpa = (i * 37 % 64 + 1) * 2 * PAGE,
                                                    .uva = UINT64_C(0x100000000) + (i * 37 % 64) * 2 * PAGE,
                                                    .offset = (i * 37 % 64) * PAGE,
                                                    .size = PAGE,
                                                    .fd = fd };
        map = new_map(spec, 64);
        EXPECT(!mem_map_ptr(map, 0, 1));
        for (uint64_t i = 1; i <= 64; i++) {
                uint32_t *p = mem_map_ptr(map, 2 * i * PAGE, PAGE);

                EXPECT(p);
                *p = (uint32_t)i;
                EXPECT(mem_map_ptr(map, 2 * i * PAGE + PAGE - 1, 1) == (uint8_t *)p + PAGE - 1);
                EXPECT(!mem_map_ptr(map, 2 * i * PAGE + PAGE - 1, 2));
                EXPECT(!mem_map_ptr(map, 2 * i * PAGE + PAGE, 1));
                EXPECT(mem_map_uva(map, UINT64_C(0x100000000) + (i - 1) * 2 * PAGE, PAGE) == p);
        }
        for (uint32_t i = 1; i <= 64; i++) {
                uint32_t v;

                EXPECT_EQ(pread(fd, &v, sizeof(v), (off_t)((i - 1) * PAGE)), sizeof(v));
                EXPECT_EQ(v, i);
        }
        mem_map_put(map);
        close(fd);
}

/* hostile B25 */
TEST(map, descriptor_across_adjacent_regions_becomes_pieces_with_the_right_bytes)
{
        int fd = new_file(3 * PAGE);
        struct mem_region_spec spec[] = {
                {.gpa = PAGE,      .size = PAGE, .offset = 2 * PAGE, .fd = fd},
                { .gpa = 2 * PAGE, .size = PAGE, .offset = 0,        .fd = fd},
                { .gpa = 3 * PAGE, .size = PAGE, .offset = PAGE,     .fd = fd},
        };
        struct mem_map *map = new_map(spec, 3);
        struct iovec iov[4];

        for (unsigned i = 0; i < 3; i++)
                memset(mem_map_ptr(map, (1 + i) * PAGE, PAGE), 'a' + (int)i, PAGE);
        EXPECT_EQ(mem_map_iov(map, 2 * PAGE - 5, PAGE + 10, iov, 4), 3);
        EXPECT_EQ(iov[0].iov_len, 5);
        EXPECT_EQ(iov[1].iov_len, PAGE);
        EXPECT_EQ(iov[2].iov_len, 5);
        EXPECT_MEM(iov[0].iov_base, "aaaaa", 5);
        EXPECT_MEM(iov[1].iov_base, "bbbbb", 5);
        EXPECT_MEM(iov[2].iov_base, "ccccc", 5);
        EXPECT_EQ(mem_map_iov(map, 2 * PAGE - 5, PAGE + 10, iov, 2), -ENOBUFS);
        EXPECT_EQ(mem_map_iov(map, 2 * PAGE - 5, 5, iov, 1), 1);
        mem_map_put(map);
        close(fd);
}

/* hostile B24 */
TEST(map, descriptor_in_a_hole_over_an_end_or_past_the_top_is_unmapped)
{
        int fd = new_file(2 * PAGE);
        struct mem_region_spec spec[] = {
                {.gpa = PAGE,   .size = PAGE,   .fd = fd},
                { .gpa = 3 * PAGE, .size = PAGE, .offset = PAGE, .fd = fd },
        };
        struct mem_map *map = new_map(spec, 2);
        struct iovec iov[4];

        EXPECT_EQ(mem_map_iov(map, 2 * PAGE, 1, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, PAGE, PAGE + 1, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, PAGE, 3 * PAGE, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, 4 * PAGE - 1, 2, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, 0, 1, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, UINT64_MAX, UINT32_MAX, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, PAGE, UINT32_MAX, iov, 4), -EFAULT);
        EXPECT_EQ(mem_map_iov(map, 2 * PAGE, 0, iov, 4), 0);
        mem_map_put(map);
        close(fd);
}

TEST(map, without_regions_holds_nothing)
{
        struct mem_map *map = new_map(NULL, 0);
        struct iovec iov;

        EXPECT(!mem_map_ptr(map, 0, 0));
        EXPECT(!mem_map_uva(map, 0, 0));
        EXPECT_EQ(mem_map_iov(map, 0, 1, &iov, 1), -EFAULT);
        EXPECT(!mem_map_gone(map));
        mem_map_put(map);
        mem_map_put(NULL);
        EXPECT(!mem_map_get(NULL));
}

/* hostile B02 B03 B04 */
TEST(map, refuses_zero_sizes_and_sums_that_wrap)
{
        int fd = new_file(PAGE);

        expect_refused((struct mem_region_spec){ .gpa = PAGE, .fd = fd }, -EINVAL, "size 0");
        expect_refused((struct mem_region_spec){ .gpa = -PAGE + 1, .size = PAGE, .fd = fd }, -EINVAL,
                       "guest address");
        expect_refused((struct mem_region_spec){ .uva = -PAGE + 1, .size = PAGE, .fd = fd }, -EINVAL,
                       "user address");
        expect_refused((struct mem_region_spec){ .size = PAGE, .offset = -PAGE + 1, .fd = fd }, -EINVAL,
                       "offset");
        expect_refused((struct mem_region_spec){ .size = UINT64_MAX, .fd = fd }, -EINVAL, "larger");
        close(fd);
}

/* hostile B07 B08 */
TEST(map, refuses_a_region_that_its_file_does_not_fill)
{
        int fd = new_file(3 * PAGE);

        mem_map_put(new_map(&(struct mem_region_spec){ .size = 2 * PAGE, .offset = PAGE, .fd = fd }, 1));
        EXPECT_EQ(ftruncate(fd, 3 * PAGE - 1), 0);
        expect_refused((struct mem_region_spec){ .size = 2 * PAGE, .offset = PAGE, .fd = fd }, -EINVAL,
                       "larger");
        mem_map_put(new_map(&(struct mem_region_spec){ .size = 2 * PAGE - 1, .offset = PAGE, .fd = fd }, 1));
        close(fd);
}

/* hostile B06 */
TEST(map, offset_inside_a_page_is_mapped_from_the_page_below_and_never_short)
{
        int fd = new_file(4 * PAGE);
        struct mem_map *map = new_map(
                &(struct mem_region_spec){ .gpa = 0x1000, .size = 2 * PAGE, .offset = PAGE + 24, .fd = fd },
                1);
        uint8_t *p = mem_map_ptr(map, 0x1000, 2 * PAGE);
        char c = 0;

        EXPECT_EQ((uintptr_t)p % PAGE, 24);
        p[0] = 'f';
        p[2 * PAGE - 1] = 'l';
        EXPECT_EQ(pread(fd, &c, 1, PAGE + 24), 1);
        EXPECT_EQ(c, 'f');
        EXPECT_EQ(pread(fd, &c, 1, 3 * PAGE + 23), 1);
        EXPECT_EQ(c, 'l');
        mem_map_put(map);
        close(fd);
}

/* hostile B09 */
TEST(map, refuses_regions_that_overlap_in_any_way)
{
        int fd = new_file(4 * PAGE);
        const struct {
                uint64_t gpa, size;
        } other[] = {
                {4 * PAGE,  2 * PAGE    },
                { 5 * PAGE, PAGE        },
                { 3 * PAGE, PAGE + 1    },
                { 0,        4 * PAGE + 1}
        };

        for (unsigned i = 0; i < 4; i++) {
                struct mem_region_spec spec[] = {
                        {.gpa = 4 * PAGE,   .size = 2 * PAGE,      .fd = fd},
                        { .gpa = other[i].gpa, .uva = 64 * PAGE, .size = other[i].size, .fd = fd }
                };
                struct mem_map *map = NULL, *one = new_map(spec, 1);
                const char *why;

                EXPECT_EQ(ftruncate(fd, 5 * PAGE), 0);
                EXPECT_EQ(mem_map_new(spec, 2, &map, &why), -EINVAL);
                EXPECT(strstr(why, "overlap"));
                EXPECT_EQ(mem_map_with(one, &spec[1], &map, &why), -EINVAL);
                EXPECT(strstr(why, "overlap"));
                mem_map_put(one);
        }
        close(fd);
}

/* hostile B12 */
TEST(map, refuses_whatever_is_not_a_writable_file_of_memory)
{
        int pipes[2], sockets[2], ro, sealed = new_file(PAGE);
        int bad[6];
        char path[64];

        EXPECT_EQ(pipe(pipes), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        bad[0] = pipes[0];
        bad[1] = sockets[0];
        bad[2] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bad[3] = eventfd(0, EFD_CLOEXEC);
        bad[4] = open("/dev/zero", O_RDWR | O_CLOEXEC);
        bad[5] = -1;
        for (unsigned i = 0; i < 6; i++)
                expect_refused((struct mem_region_spec){ .size = PAGE, .fd = bad[i] }, -EBADF,
                               bad[i] < 0 ? "no usable" : "not a file");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", sealed);
        ro = open(path, O_RDONLY | O_CLOEXEC);
        expect_refused((struct mem_region_spec){ .size = PAGE, .fd = ro }, -EBADF, "reading and writing");
        EXPECT_EQ(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0);
        expect_refused((struct mem_region_spec){ .size = PAGE, .fd = sealed }, -EBADF, "sealed");
        for (unsigned i = 0; i < 5; i++)
                close(bad[i]);
        close(pipes[1]);
        close(sockets[1]);
        close(ro);
        close(sealed);
}

/* hostile B16 */
TEST(map, takes_up_to_509_regions_and_refuses_one_more)
{
        int fd = new_file(PAGE);
        struct mem_map *map = NULL, *bigger = NULL;
        const char *why = "";

        for (uint64_t i = 0; i < VHOST_USER_REGIONS_MAX; i++) {
                EXPECT_EQ(mem_map_with(map,
                                       &(struct mem_region_spec){ .gpa = i * PAGE, .size = PAGE, .fd = fd },
                                       &bigger, &why),
                          0);
                mem_map_put(map);
                map = bigger;
        }
        bigger = NULL;
        EXPECT_EQ(mem_map_with(map, &(struct mem_region_spec){ .gpa = 999 * PAGE, .size = PAGE, .fd = fd },
                               &bigger, &why),
                  -E2BIG);
        EXPECT(!bigger);
        EXPECT_EQ(map->n, VHOST_USER_REGIONS_MAX);
        EXPECT(mem_map_ptr(map, 508 * PAGE, PAGE));
        mem_map_put(map);
        close(fd);
}

/* hostile B18 */
TEST(map, without_takes_out_exactly_the_region_that_is_meant)
{
        int fd = new_file(2 * PAGE), other = new_file(PAGE);
        struct mem_region_spec spec[] = {
                {.gpa = 0,       .uva = 0x5000, .size = PAGE,   .fd = fd},
                { .gpa = PAGE, .uva = 0x6000,  .size = PAGE, .offset = PAGE, .fd = fd },
        };
        struct mem_map *map = new_map(spec, 2), *smaller = NULL;
        struct mem_region_spec wrong[] = { spec[1], spec[1], spec[1], spec[1] };
        const char *why = "";
        void *second;

        wrong[0].gpa += 1;
        wrong[1].uva += 1;
        wrong[2].size -= 1;
        wrong[3].fd = other;
        for (unsigned i = 0; i < 4; i++)
                EXPECT_EQ(mem_map_without(map, &wrong[i], &smaller, &why), -ENOENT);
        EXPECT_EQ(mem_map_without(NULL, &spec[1], &smaller, &why), -ENOENT);
        EXPECT(!smaller);
        EXPECT_EQ(mem_map_without(map, &spec[0], &smaller, &why), 0);
        second = mem_map_ptr(map, PAGE, PAGE);
        EXPECT(!mem_map_ptr(smaller, 0, 1));
        EXPECT(mem_map_ptr(smaller, PAGE, PAGE) == second); /* the very mapping, not a second one */
        mem_map_put(map);
        strcpy(second, "still there");
        spec[1].fd = -1;
        EXPECT_EQ(mem_map_without(smaller, &spec[1], &map, &why), 0);
        EXPECT_EQ(map->n, 0);
        mem_map_put(smaller);
        mem_map_put(map);
        close(fd);
        close(other);
}

TEST(map, references_keep_memory_mapped_and_the_last_one_unmaps_it)
{
        unsigned before = count_lines("/proc/self/maps");
        int fd = new_file(PAGE);
        struct mem_map *map = new_map(&(struct mem_region_spec){ .size = PAGE, .fd = fd }, 1);
        char *p = mem_map_ptr(map, 0, PAGE);

        close(fd); /* the mapping needs no fd */
        EXPECT(mem_map_get(map) == map);
        mem_map_put(map);
        *p = 1;
        mem_map_put(map);
        for (unsigned i = 0; i < 100; i++) {
                fd = new_file(PAGE);
                mem_map_put(new_map(&(struct mem_region_spec){ .size = PAGE, .fd = fd }, 1));
                close(fd);
        }
        EXPECT_EQ(count_lines("/proc/self/maps"), before);
}

TEST(map, failure_half_way_unmaps_what_was_mapped)
{
        int fd = new_file(2 * PAGE);
        struct mem_region_spec spec[] = {
                {.gpa = 0,         .size = PAGE, .fd = fd},
                { .gpa = PAGE,     .size = PAGE, .fd = fd},
                { .gpa = 2 * PAGE, .size = 0,    .fd = fd}
        };
        unsigned before = count_lines("/proc/self/maps");
        struct mem_map *map = NULL;
        const char *why;

        EXPECT_EQ(mem_map_new(spec, 3, &map, &why), -EINVAL);
        EXPECT(!map);
        EXPECT_EQ(count_lines("/proc/self/maps"), before);
        close(fd);
}

TEST(map, borrowed_memory_is_found_but_never_unmapped)
{
        static uint8_t memory[2][64];
        struct mem_region region[] = {
                {.gpa = 64, .uva = 0x1040, .size = 64, .va = memory[1]},
                { .gpa = 0, .uva = 0x1000, .size = 64, .va = memory[0]}
        };
        struct mem_map *map = NULL;

        EXPECT_EQ(mem_map_borrow(region, 2, &map), 0);
        EXPECT(mem_map_ptr(map, 70, 2) == &memory[1][6]);
        EXPECT(mem_map_uva(map, 0x1001, 2) == &memory[0][1]);
        mem_map_put(map);
        memory[0][0] = 1;
        region[1].size = 65;
        EXPECT_EQ(mem_map_borrow(region, 2, &map), -EINVAL);
}

/* hostile O08 */
TEST(map, is_left_out_of_core_dumps)
{
        int fd = new_file(PAGE);
        struct mem_map *map = new_map(&(struct mem_region_spec){ .size = PAGE, .fd = fd }, 1);
        uintptr_t want = (uintptr_t)mem_map_ptr(map, 0, 1), start = 0;
        char line[512];
        bool excluded = false;
        FILE *f = fopen("/proc/self/smaps", "re");

        while (fgets(line, sizeof(line), f)) {
                unsigned long s, e;

                if (sscanf(line, "%lx-%lx ", &s, &e) == 2)
                        start = s;
                else if (start == want && !strncmp(line, "VmFlags:", 8))
                        excluded = strstr(line, " dd");
        }
        fclose(f);
        EXPECT(excluded);
        mem_map_put(map);
        close(fd);
}

/* QEMU 7.2 with several queue pairs: each region is added, and removed, once a pair. */
TEST(map, counts_a_region_that_is_added_again_and_lets_it_go_with_the_last_removal)
{
        int fd = new_file(2 * PAGE), other = new_file(2 * PAGE);
        struct mem_region_spec spec = { .gpa = PAGE, .uva = PAGE, .size = PAGE, .fd = fd };
        struct mem_region_spec moved = spec, foreign = spec;
        struct mem_map *one = new_map(&spec, 1), *two, *left, *none;
        const char *why;

        moved.offset = PAGE;
        foreign.fd = other;
        EXPECT_EQ(mem_map_with(one, &moved, &two, &why), -EINVAL); /* the same place, other bytes */
        EXPECT_EQ(mem_map_with(one, &foreign, &two, &why), -EINVAL);
        EXPECT_EQ(mem_map_with(one, &spec, &two, &why), 0);
        EXPECT_EQ(two->n, 1);
        EXPECT_EQ(mem_map_without(two, &spec, &left, &why), 0);
        EXPECT_EQ(left->n, 1);
        EXPECT(mem_map_ptr(left, PAGE, PAGE) == mem_map_ptr(one, PAGE, PAGE));
        EXPECT_EQ(mem_map_without(left, &spec, &none, &why), 0);
        EXPECT_EQ(none->n, 0);
        mem_map_put(one);
        mem_map_put(two);
        mem_map_put(left);
        mem_map_put(none);
        close(fd);
        close(other);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
        if (!vw_sigbus(info->si_addr))
                _exit(99);
}

/* hostile B21 */
TEST(map, shrunk_file_reads_as_zeros_and_marks_every_map_with_it_gone)
{
        int fd = new_file(3 * PAGE), sound_fd = new_file(PAGE);
        struct mem_region_spec spec[] = {
                {.gpa = 0,          .size = 3 * PAGE, .fd = fd      },
                { .gpa = 16 * PAGE, .size = PAGE,     .fd = sound_fd}
        };
        struct mem_map *map = new_map(spec, 1), *both = NULL, *sound = new_map(&spec[1], 1), *after = NULL;
        struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, old;
        volatile uint8_t *p = mem_map_ptr(map, 0, 1);
        const char *why;

        EXPECT_EQ(mem_map_with(map, &spec[1], &both, &why), 0);
        sigaction(SIGBUS, &sa, &old);
        p[0] = p[PAGE] = p[2 * PAGE] = 7;
        EXPECT_EQ(ftruncate(fd, PAGE), 0);
        EXPECT_EQ(p[0], 7);
        EXPECT(!mem_map_gone(map));
        EXPECT_EQ(p[PAGE], 0);
        EXPECT(mem_map_gone(map) && mem_map_gone(both) && !mem_map_gone(sound));
        p[2 * PAGE] = 9; /* a write, on another page */
        EXPECT_EQ(p[2 * PAGE], 9);
        EXPECT_EQ(p[0], 7);
        EXPECT(!mem_sigbus(&spec));
        EXPECT(!mem_sigbus(NULL));
        mem_map_put(map);
        EXPECT_EQ(mem_map_without(both, &spec[0], &after, &why), 0);
        EXPECT(!mem_map_gone(after));
        mem_map_put(both);
        mem_map_put(after);
        mem_map_put(sound);
        map = new_map(&spec[1], 1); /* a new one in the slot of one that was gone */
        EXPECT(!mem_map_gone(map));
        mem_map_put(map);
        sigaction(SIGBUS, &old, NULL);
        close(fd);
        close(sound_fd);
}

static void *map_and_unmap(void *arg)
{
        bool *stop = arg;
        int fd = new_file(PAGE);

        while (!load_relaxed(stop)) {
                struct mem_map *map = new_map(&(struct mem_region_spec){ .size = PAGE, .fd = fd }, 1);

                *(volatile uint8_t *)mem_map_ptr(map, 0, 1) = 1;
                EXPECT(!mem_map_gone(map));
                mem_map_put(map);
        }
        close(fd);
        return NULL;
}

/* hostile B21: the handler walks the list while others change it */
TEST(map, faults_are_mended_while_another_thread_maps_and_unmaps)
{
        struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO }, old;
        const uint64_t n = test_scale(500, 100000);
        bool stop = false;
        pthread_t thread;

        sigaction(SIGBUS, &sa, &old);
        EXPECT_EQ(pthread_create(&thread, NULL, map_and_unmap, &stop), 0);
        for (uint64_t i = 0; i < n; i++) {
                int fd = new_file(2 * PAGE);
                struct mem_map *map = new_map(&(struct mem_region_spec){ .size = 2 * PAGE, .fd = fd }, 1);
                volatile uint8_t *p = mem_map_ptr(map, 0, 1);

                p[PAGE] = 1;
                EXPECT_EQ(ftruncate(fd, 0), 0);
                EXPECT_EQ(p[PAGE], 0);
                EXPECT(mem_map_gone(map));
                mem_map_put(map);
                close(fd);
        }
        store_relaxed(&stop, true);
        pthread_join(thread, NULL);
        sigaction(SIGBUS, &old, NULL);
}

/* Maps and unmaps, several at a time, so that the list grows too. */
static void *come_and_go(void *arg)
{
        const uint64_t rounds = test_scale(1000, 100000);
        struct mem_map *map[64];
        int fd = new_file(PAGE);
        bool *done = arg;

        for (uint64_t i = 0; i < rounds; i++) {
                unsigned n = i < ARRAY_SIZE(map) ? (unsigned)i : 2;

                for (unsigned k = 0; k < n; k++)
                        map[k] = new_map(&(struct mem_region_spec){ .size = PAGE, .fd = fd }, 1);
                for (unsigned k = 0; k < n; k++)
                        mem_map_put(map[k]);
        }
        close(fd);
        store_relaxed(done, true);
        return NULL;
}

/* A fault of the program's own is not to be taken for one of a mapping that is just being made or dropped. */
TEST(map, an_address_outside_is_nobodys_while_mappings_come_and_go)
{
        static uint8_t ours[2 * PAGE]; /* below all mappings */
        uint8_t *page = ours + PAGE - (uintptr_t)ours % PAGE;
        bool done[2] = { false };
        pthread_t thread[2];

        *page = 7;
        for (unsigned i = 0; i < 2; i++)
                EXPECT_EQ(pthread_create(&thread[i], NULL, come_and_go, &done[i]), 0);
        while (!load_relaxed(&done[0]) || !load_relaxed(&done[1])) {
                EXPECT(!mem_sigbus(page));
                EXPECT_EQ(*page, 7);
        }
        for (unsigned i = 0; i < 2; i++)
                pthread_join(thread[i], NULL);
}

/* Huge pages: sizes and offsets are rounded to the file's page, not to ours.  Needs two of them free. */
#define OVERCOMMIT "/proc/sys/vm/nr_overcommit_hugepages"

/* A file of huge pages, which the kernel makes for it if it may, and which go with it; -1: there are none. */
static int huge_file(uint64_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB);
        int allowed = open(OVERCOMMIT, O_RDWR | O_CLOEXEC);
        char before[32], more[32];
        ssize_t n = allowed >= 0 ? pread(allowed, before, sizeof(before) - 1, 0) : 0;

        if (n > 0) {
                before[n] = '\0';
                snprintf(more, sizeof(more), "%lu", strtoul(before, NULL, 10) + size / (2 << 20));
                n = pwrite(allowed, more, strlen(more), 0);
        }
        if (fd >= 0 && (ftruncate(fd, (off_t)size) < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)) {
                close(fd);
                fd = -1;
        }
        if (n > 0)
                EXPECT(pwrite(allowed, before, strlen(before), 0) > 0);
        if (allowed >= 0)
                close(allowed);
        return fd;
}

TEST(map, huge_page_files_are_mapped_by_their_own_page_size)
{
        const uint64_t huge = UINT64_C(2) << 20;
        int fd = huge_file(2 * huge);
        struct mem_map *map = NULL;
        const char *why = "";
        uint8_t *p;

        if (fd < 0)
                SKIP("no free huge pages, and none may be made");
        EXPECT_EQ(mem_map_new(&(struct mem_region_spec){ .size = huge, .offset = huge - PAGE, .fd = fd }, 1,
                              &map, &why),
                  0);
        p = mem_map_ptr(map, 0, huge);
        EXPECT_EQ((uintptr_t)p % huge, huge - PAGE);
        p[0] = p[huge - 1] = 1;
        mem_map_put(map);
        close(fd);
}
