/* A hostile or faulty front end's memory tables.  The map itself is tested in unit/test_map.c; here the session must answer, keep
 * the old table, and leave no file descriptor and no mapping behind. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mock_vhost.h"
#include "scale.h"
#include "test.h"

#define ALL  VU_BACKEND_PROTOCOL_FEATURES
#define ASK  (VU_FLAG_VERSION | VU_FLAG_NEED_REPLY)
#define PAGE MOCK_PAGE

static struct vhost_user_region region(uint64_t gpa, uint64_t size, uint64_t offset)
{
        return (struct vhost_user_region){
                .guest_addr = gpa, .size = size, .user_addr = MOCK_UVA + gpa, .mmap_offset = offset
        };
}

/* The table is refused, for a reason that the session would also end with, and the old one stays. */
static void expect_refused(const struct vhost_user_region *regions, const int *fds, unsigned n,
                           const char *why)
{
        struct mock_session s;
        struct mem_map *before;
        int memory;

        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        before = s.dev.map;
        EXPECT_EQ(mock_mem_table(&s, regions, fds, n), REFUSED);
        EXPECT(s.dev.map == before && s.dev.maps == 1 && s.dev.vring[0].running);
        /* without acknowledgements it ends */
        EXPECT_EQ(mock_u64(&s, VHOST_USER_SET_PROTOCOL_FEATURES, 0), ACCEPTED);
        EXPECT_EQ(mock_mem_table(&s, regions, fds, n), CLOSED);
        if (!strstr(s.why, why))
                fail_msg("\"%s\" does not say \"%s\"", s.why, why);
        close(memory);
        mock_close(&s);
}

/* hostile B01 B02 */
TEST(memory, table_of_no_or_of_too_many_regions_is_refused)
{
        static const uint32_t counts[] = { 0, 9, 0x10001, 0x20000001, UINT32_MAX };
        struct vhost_user_region r = region(0, PAGE, 0);
        int memory = mock_memfd(PAGE);

        expect_refused(&r, &memory, 0, "without regions");
        for (unsigned i = 0; i < 5; i++) {
                struct {
                        uint32_t n, padding;
                        struct vhost_user_region region[8];
                } table = { .n = counts[i], .region = { r } };
                struct mock_session s;

                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(
                        mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, sizeof(table), &memory, 1, NULL),
                        REFUSED);
                EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, sizeof(table), NULL, 0, NULL),
                          REFUSED);
                EXPECT_EQ(s.dev.maps, 0);
                mock_close(&s);
        }
        close(memory);
}

TEST(memory, table_shorter_than_it_says_or_without_an_fd_for_each_region_is_refused)
{
        struct {
                uint32_t n, padding;
                struct vhost_user_region region[8];
        } table = {
                .n = 2, .region = {region(0, PAGE, 0), region(PAGE, PAGE, 0)}
        };
        int memory = mock_memfd(PAGE), fds[3] = { memory, memory, memory };
        struct mock_session s;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, 8 + 32 + 31, fds, 2, NULL), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, 8 + 64, fds, 1, NULL), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, 8 + 64, fds, 3, NULL), REFUSED);
        EXPECT_EQ(mock_say(&s, VHOST_USER_SET_MEM_TABLE, ASK, &table, 8 + 64, fds, 2, NULL), ACCEPTED);
        mock_close(&s);
        close(memory);
}

/* hostile B03 B04 B06 B07 B08 */
TEST(memory, region_that_is_empty_wraps_or_is_larger_than_its_file_is_refused)
{
        /* clang-format off */
        const struct {
                struct vhost_user_region region;
                const char *why;
        } bad[] = {
                { region(0, 0, 0),                                    "size 0" },
                { region(-PAGE, PAGE, 0),                             "guest address and size wrap" },
                { region(UINT64_MAX, 2, 0),                           "guest address and size wrap" },
                { { .size = PAGE, .user_addr = -PAGE },               "user address and size wrap" },
                { region(0, PAGE, -PAGE),                             "offset and size wrap" },
                { { .size = UINT64_MAX, .mmap_offset = 1 },           "offset and size wrap" },
                { region(0, 4 * PAGE + 1, 0),                         "larger than its file" },
                { region(0, 4 * PAGE, 1),                             "larger than its file" },
                { region(0, 1, 4 * PAGE),                             "larger than its file" },
                { region(0, UINT64_MAX / 2, 0),                       "larger than its file" },
        };
        /* clang-format on */
        int memory = mock_memfd(4 * PAGE);

        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
                expect_refused(&bad[i].region, &memory, 1, bad[i].why);
        close(memory);
}

/* hostile B06 B08 */
TEST(memory, region_at_any_offset_up_to_its_files_last_byte_is_taken)
{
        int memory = mock_memfd(4 * PAGE + 100);
        static const uint64_t offsets[] = { 0, 1, 100, 4095, 4096, 4097, 4 * 4096, 4 * 4096 + 99 };

        for (unsigned i = 0; i < ARRAY_SIZE(offsets); i++) {
                struct vhost_user_region r = region(MOCK_GPA, 4 * PAGE + 100 - offsets[i], offsets[i]);
                struct mock_session s;
                char c = 0, *p;

                mock_open(&s, ALL);
                mock_hello(&s, ALL);
                EXPECT_EQ(mock_mem_table(&s, &r, &memory, 1), ACCEPTED);
                p = mem_map_ptr(s.dev.map, MOCK_GPA, r.size);
                EXPECT(p);
                p[r.size - 1] = (char)('a' + i);
                EXPECT_EQ(pread(memory, &c, 1, 4 * PAGE + 99), 1);
                EXPECT_EQ(c, 'a' + (int)i);
                mock_close(&s);
        }
        close(memory);
}

/* hostile B09 */
TEST(memory, table_whose_regions_overlap_is_refused)
{
        struct vhost_user_region r[3] = { region(0, 2 * PAGE, 0), region(4 * PAGE, 2 * PAGE, 0),
                                          region(5 * PAGE, 2 * PAGE, 0) };
        int memory = mock_memfd(2 * PAGE), fds[3] = { memory, memory, memory };

        expect_refused(r, fds, 3, "overlaps");
        r[2].guest_addr = PAGE;
        expect_refused(r, fds, 3, "overlaps");
        close(memory);
}

/* hostile B12 */
TEST(memory, region_in_anything_but_a_writable_file_is_refused_by_name)
{
        struct vhost_user_region r = region(0, PAGE, 0);
        int pipes[2], sockets[2], memory = mock_memfd(PAGE);
        char path[64];
        struct {
                int fd;
                const char *why;
        } bad[7];

        EXPECT_EQ(pipe(pipes), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
        bad[0].fd = pipes[0];
        bad[1].fd = sockets[0];
        bad[2].fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bad[3].fd = eventfd(0, EFD_CLOEXEC);
        bad[4].fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
        bad[5].fd = open(path, O_RDONLY | O_CLOEXEC);
        bad[6].fd = memory;
        for (unsigned i = 0; i < 5; i++)
                bad[i].why = "not a file that holds memory";
        bad[5].why = "not open for reading and writing";
        bad[6].why = "sealed";
        EXPECT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), 0);
        for (unsigned i = 0; i < 7; i++)
                expect_refused(&r, &bad[i].fd, 1, bad[i].why);
        for (unsigned i = 0; i < 7; i++)
                close(bad[i].fd);
        close(pipes[1]);
        close(sockets[1]);
}

/* hostile B14; what the workers do meanwhile is the device's test */
TEST(memory, table_may_be_replaced_for_ever_and_the_old_one_goes)
{
        const uint64_t n = test_scale(1000, 10000);
        struct vhost_user_region r = region(MOCK_GPA, 4 * PAGE, 0);
        struct mock_session s;
        unsigned mappings;
        int memory;

        r.user_addr = MOCK_UVA;
        mock_open(&s, ALL);
        memory = mock_hello_with_memory(&s, ALL, 4);
        mock_ring_up(&s, 0);
        mappings = mock_count_mappings();
        for (uint64_t i = 0; i < n; i++)
                EXPECT_EQ(mock_mem_table(&s, &r, &memory, 1), ACCEPTED);
        EXPECT_EQ(mock_count_mappings(), mappings);
        EXPECT_EQ(s.dev.maps, n + 1);
        EXPECT(s.dev.vring[0].running);
        close(memory);
        mock_close(&s);
}

/* hostile B16 B17 B18 */
TEST(memory, regions_are_added_up_to_the_slots_and_removed_by_their_description)
{
        struct mock_session s;
        struct vhost_user_region r;
        int memory, other;

        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        memory = mock_memfd(2 * PAGE);
        other = mock_memfd(PAGE);
        for (uint64_t i = 0; i < VHOST_USER_REGIONS_MAX; i++) {
                r = region(i * PAGE, PAGE, 0);
                EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &r, memory), ACCEPTED);
        }
        r = region(1000 * PAGE, PAGE, 0);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &r, memory), REFUSED);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &r, -1), REFUSED);
        EXPECT_EQ(s.dev.map->n, VHOST_USER_REGIONS_MAX);
        r = region(7 * PAGE, PAGE, 0);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &r, other), REFUSED); /* another file's */
        /* its own, as some front ends send */
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &r, memory), ACCEPTED);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &r, -1), REFUSED);
        r = region(7 * PAGE, PAGE + 1, 0);
        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_ADD_MEM_REG, &r, memory), REFUSED); /* overlaps the next */
        EXPECT_EQ(s.dev.map->n, VHOST_USER_REGIONS_MAX - 1);
        for (uint64_t i = 0; i < VHOST_USER_REGIONS_MAX; i++) {
                r = region(i * PAGE, PAGE, i); /* the offset is not compared */
                if (i != 7)
                        EXPECT_EQ(mock_mem_reg(&s, VHOST_USER_REM_MEM_REG, &r, -1), ACCEPTED);
        }
        EXPECT(!s.dev.map); /* the last region's end is no table at all */
        close(memory);
        close(other);
        mock_close(&s);
}

static uint64_t resident_pages(void)
{
        unsigned long size, resident = 0;
        FILE *f = fopen("/proc/self/statm", "re");

        EXPECT_EQ(fscanf(f, "%lu %lu", &size, &resident), 2);
        fclose(f);
        return resident;
}

/* hostile B28 */
TEST(memory, eight_sparse_gigabytes_are_mapped_and_not_touched)
{
        struct vhost_user_region r[8];
        int fds[8], memory = mock_memfd(UINT64_C(8) << 30);
        struct mock_session s;
        uint64_t before;

        for (unsigned i = 0; i < 8; i++) {
                r[i] = region((uint64_t)i << 30, UINT64_C(1) << 30, (uint64_t)i << 30);
                fds[i] = memory;
        }
        mock_open(&s, ALL);
        mock_hello(&s, ALL);
        before = resident_pages();
        EXPECT_EQ(mock_mem_table(&s, r, fds, 8), ACCEPTED);
        EXPECT(resident_pages() < before + 100);
        EXPECT(mem_map_ptr(s.dev.map, (UINT64_C(8) << 30) - 1, 1));
        mock_close(&s);
        close(memory);
}
