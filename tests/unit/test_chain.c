/* The one check of every descriptor: pieces in order, across regions, and the faults that cost a packet. */
#include "ring/chain.h"

#include "test.h"

#define LOW  UINT64_C(0x1000)
#define HIGH UINT64_C(0x9000000000)

/* Two regions that touch at LOW + 4096 but lie apart for us, a third one elsewhere. */
struct fixture {
        uint8_t memory[3][4096];
        struct iovec iov[16];
        struct iov_pool pool;
        struct chain_map map;
        struct vq_chain c;
};

static void set_up(struct fixture *f)
{
        struct mem_region regions[] = {
                {.gpa = LOW,         .size = 4096, .va = f->memory[2]},
                { .gpa = LOW + 4096, .size = 4096, .va = f->memory[0]},
                { .gpa = HIGH,       .size = 4096, .va = f->memory[1]},
        };

        *f = (struct fixture){
                .pool = {.iov = f->iov, .size = ARRAY_SIZE(f->iov)}
        };
        EXPECT_EQ(mem_map_borrow(regions, ARRAY_SIZE(regions), &f->map.map), 0);
        f->map.near = f->map.map->region;
        chain_begin(&f->c, &f->pool, 7);
}

static void tear_down(struct fixture *f)
{
        mem_map_put(f->map.map);
}

static int add(struct fixture *f, uint64_t addr, uint32_t len, bool writable)
{
        return chain_add(&f->c, &f->pool, &f->map, addr, len, writable);
}

TEST(chain, keeps_readable_then_writable_pieces_in_order)
{
        struct fixture f;

        set_up(&f);
        EXPECT_EQ(add(&f, LOW, 10, false), 0);
        EXPECT_EQ(add(&f, HIGH + 100, 20, false), 0);
        EXPECT_EQ(add(&f, LOW + 50, 30, true), 0);
        EXPECT_EQ(f.c.id, 7);
        EXPECT_EQ(f.c.fault, 0);
        EXPECT_EQ(f.c.n_out, 2);
        EXPECT_EQ(f.c.n_in, 1);
        EXPECT_EQ(f.c.len_out, 30);
        EXPECT_EQ(f.c.len_in, 30);
        EXPECT(f.c.iov == f.iov + 1);
        EXPECT(f.c.iov[0].iov_base == f.memory[2]);
        EXPECT(f.c.iov[1].iov_base == f.memory[1] + 100);
        EXPECT(f.c.iov[2].iov_base == f.memory[2] + 50);
        EXPECT_EQ(f.c.iov[2].iov_len, 30);
        tear_down(&f);
}

TEST(chain, leaves_a_spare_slot_before_each_chain)
{
        struct fixture f;
        struct vq_chain second;

        set_up(&f);
        EXPECT_EQ(add(&f, LOW, 10, false), 0);
        chain_begin(&second, &f.pool, 8);
        EXPECT(second.iov - 1 == f.c.iov + 1);
        tear_down(&f);
}

/* hostile C18, T-VH-25 */
TEST(chain, refuses_readable_after_writable_even_when_empty)
{
        struct fixture f;

        set_up(&f);
        EXPECT_EQ(add(&f, LOW, 10, true), 0);
        EXPECT_EQ(add(&f, LOW, 10, false), -EPROTO);
        EXPECT_EQ(add(&f, LOW, 0, false), -EPROTO);
        tear_down(&f);

        set_up(&f);
        EXPECT_EQ(add(&f, LOW, 0, true), 0);
        EXPECT_EQ(add(&f, LOW, 10, false), -EPROTO);
        tear_down(&f);
}

/* hostile C14, T-VH-25 */
TEST(chain, skips_empty_pieces_wherever_they_point)
{
        struct fixture f;

        set_up(&f);
        EXPECT_EQ(add(&f, 0, 0, false), 0);
        EXPECT_EQ(add(&f, LOW, 10, false), 0);
        EXPECT_EQ(add(&f, UINT64_MAX, 0, false), 0);
        EXPECT_EQ(add(&f, LOW, 0, true), 0);
        EXPECT_EQ(f.c.n_out, 1);
        EXPECT_EQ(f.c.n_in, 0);
        EXPECT_EQ(f.c.fault, 0);
        tear_down(&f);
}

/* hostile B25 */
TEST(chain, cuts_a_piece_that_crosses_into_the_next_region)
{
        struct fixture f;

        set_up(&f);
        EXPECT_EQ(add(&f, LOW + 4000, 200, true), 0);
        EXPECT_EQ(f.c.fault, 0);
        EXPECT_EQ(f.c.n_in, 2);
        EXPECT_EQ(f.c.len_in, 200);
        EXPECT(f.c.iov[0].iov_base == f.memory[2] + 4000);
        EXPECT_EQ(f.c.iov[0].iov_len, 96);
        EXPECT(f.c.iov[1].iov_base == f.memory[0]);
        EXPECT_EQ(f.c.iov[1].iov_len, 104);
        tear_down(&f);
}

/* hostile B24, C16, D15, T-VH-25 */
TEST(chain, faults_when_a_byte_is_unmapped_or_the_sum_wraps)
{
        static const struct {
                uint64_t addr;
                uint32_t len;
        } lies[] = {
                {0,                1              },
                { LOW - 1,         1              },
                { LOW - 1,         2              },
                { LOW + 8192,      1              },
                { LOW + 8191,      2              },
                { HIGH + 4095,     2              },
                { HIGH,            UINT32_MAX - 10},
                { UINT64_MAX,      1              },
                { UINT64_MAX,      2              },
                { UINT64_MAX - 10, UINT32_MAX - 10},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
                struct fixture f;

                set_up(&f);
                EXPECT_EQ(add(&f, LOW, 10, false), 0);
                EXPECT_EQ(add(&f, lies[i].addr, lies[i].len, false), 0);
                EXPECT_EQ(f.c.fault, -EFAULT);
                EXPECT_EQ(add(&f, LOW, 10, false), 0);
                EXPECT_EQ(f.c.fault, -EFAULT);
                EXPECT_EQ(add(&f, LOW, 10, true), 0);
                EXPECT_EQ(add(&f, LOW, 10, false), -EPROTO);
                tear_down(&f);
        }
}

TEST(chain, keeps_the_first_fault_and_no_piece_after_it)
{
        struct fixture f;
        unsigned used;

        set_up(&f);
        EXPECT_EQ(add(&f, 0, 1, false), 0);
        used = f.pool.used;
        for (unsigned i = 0; i < 2 * ARRAY_SIZE(f.iov); i++)
                EXPECT_EQ(add(&f, LOW, 1, i > ARRAY_SIZE(f.iov)), 0);
        EXPECT_EQ(f.c.fault, -EFAULT);
        EXPECT_EQ(f.pool.used, used);
        tear_down(&f);
}

TEST(chain, faults_when_the_pool_is_too_small)
{
        struct fixture f;

        set_up(&f);
        for (unsigned i = 0; i < ARRAY_SIZE(f.iov) - 1; i++)
                EXPECT_EQ(add(&f, LOW + i, 1, false), 0);
        EXPECT_EQ(f.c.fault, 0);
        EXPECT_EQ(add(&f, LOW, 1, false), 0);
        EXPECT_EQ(f.c.fault, -E2BIG);
        EXPECT_EQ(f.pool.used, f.pool.size);
        tear_down(&f);

        set_up(&f);
        for (unsigned i = 0; i < ARRAY_SIZE(f.iov) - 2; i++)
                EXPECT_EQ(add(&f, LOW + i, 1, false), 0);
        EXPECT_EQ(add(&f, LOW + 4000, 200, false), 0);
        EXPECT_EQ(f.c.fault, -E2BIG);
        tear_down(&f);
}

/* A chain of 2^32 bytes does not exist (2.7.4.2), so its length fits 32 bits. */
TEST(chain, faults_when_the_bytes_of_one_direction_pass_32_bits)
{
        static uint8_t page[4096];
        struct mem_region huge = { .gpa = 0, .size = UINT64_C(1) << 32, .va = page };
        struct iovec iov[4];
        struct iov_pool pool = { .iov = iov, .size = ARRAY_SIZE(iov) };
        struct chain_map map;
        struct vq_chain c;

        EXPECT_EQ(mem_map_borrow(&huge, 1, &map.map), 0);
        map.near = map.map->region;
        chain_begin(&c, &pool, 0);
        EXPECT_EQ(chain_add(&c, &pool, &map, 0, UINT32_MAX, false), 0);
        EXPECT_EQ(c.fault, 0);
        EXPECT_EQ(chain_add(&c, &pool, &map, 0, 1, false), 0);
        EXPECT_EQ(c.fault, -E2BIG);
        mem_map_put(map.map);
}

TEST(chain, starts_its_look_ups_in_the_region_that_served_last)
{
        struct fixture f;

        set_up(&f);
        EXPECT_EQ(add(&f, HIGH, 10, false), 0);
        EXPECT(f.map.near->gpa == HIGH);
        EXPECT_EQ(add(&f, HIGH + 10, 10, false), 0);
        EXPECT(f.map.near->gpa == HIGH);
        EXPECT_EQ(add(&f, LOW, 10, false), 0);
        EXPECT(f.map.near->gpa == LOW);
        tear_down(&f);
}
