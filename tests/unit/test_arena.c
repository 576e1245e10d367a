/* The driver's memory: handed out once, sealed, known to the device by other addresses. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/arena.h"
#include "test.h"

TEST(arena, gives_zeroed_aligned_bytes_until_it_is_full)
{
        struct arena a;
        uint8_t *p, *q;

        EXPECT_EQ(arena_init(&a, 5000), 0);
        EXPECT_EQ(a.size, 8192);
        p = arena_alloc(&a, 3, 1);
        q = arena_alloc(&a, 100, 64);
        EXPECT(p && q && q >= p + 3);
        EXPECT_EQ((uintptr_t)q % 64, 0);
        for (int i = 0; i < 100; i++)
                EXPECT_EQ(q[i], 0);
        EXPECT(!arena_alloc(&a, 8192, 1));
        EXPECT(!arena_alloc(&a, SIZE_MAX, 1));
        EXPECT(!arena_alloc(&a, 1, (size_t)1 << 20)); /* aligned, it would lie behind the end */
        EXPECT(!arena_alloc(&a, 0, (size_t)1 << 63));
        EXPECT(arena_alloc(&a, a.size - a.used, 1));
        EXPECT(!arena_alloc(&a, 1, 1));
        arena_done(&a);
}

TEST(arena, tells_the_device_side_address_which_is_not_zero)
{
        struct arena a;
        uint8_t *p, *q;

        EXPECT_EQ(arena_init(&a, 4096), 0);
        p = arena_alloc(&a, 16, 16);
        q = arena_alloc(&a, 16, 16);
        EXPECT_NE(arena_gpa(&a, p), 0);
        EXPECT_EQ(arena_gpa(&a, q) - arena_gpa(&a, p), (uint64_t)(q - p));
        arena_done(&a);
}

TEST(arena, file_cannot_be_shrunk_grown_or_unsealed_by_whoever_holds_it)
{
        struct arena a;

        EXPECT_EQ(arena_init(&a, 8192), 0);
        EXPECT_EQ(ftruncate(a.fd, 0), -1);
        EXPECT_EQ(ftruncate(a.fd, 1 << 20), -1);
        EXPECT_EQ(fcntl(a.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        arena_done(&a);
}

TEST(arena, without_a_possible_size_opens_nothing)
{
        const size_t sizes[] = { 0, SIZE_MAX, SIZE_MAX - 4094 };
        int next = dup(0);
        struct arena a;

        close(next);
        for (unsigned i = 0; i < 3; i++) {
                EXPECT_EQ(arena_init(&a, sizes[i]), -EINVAL);
                EXPECT_EQ(dup(0), next);
                close(next);
        }
}

TEST(arena, done_accepts_zeroed_failed_and_done_ones)
{
        struct arena a = { 0 };
        struct stat st;

        arena_done(&a);
        EXPECT_EQ(fstat(0, &st), 0); /* fd 0 was not closed */
        EXPECT(arena_init(&a, 0) < 0);
        arena_done(&a);
        EXPECT(arena_init(&a, SIZE_MAX / 4) < 0);
        arena_done(&a);
        EXPECT(!arena_alloc(&a, 1, 1));
}
