/* The mean of packet lengths: where it settles, to the byte. */
#include "driver/ewma.h"

#include "scale.h"
#include "test.h"

static uint32_t line_up(uint32_t len)
{
        return (len + 63) / 64 * 64;
}

/* T-RX-13 */
TEST(ewma, settles_on_every_constant_length_after_one_odd_packet)
{
        for (uint32_t p = 1540; p <= 4083; p += (uint32_t)test_scale(7, 1)) {
                struct ewma e = { 0 };

                ewma_add(&e, 60);
                for (unsigned i = 0; i < 5000; i++)
                        ewma_add(&e, p);
                EXPECT_EQ(ewma_read(&e), p);
                EXPECT(line_up(12 + ewma_read(&e)) >= 12 + p);
        }
}

TEST(ewma, settles_from_above_too)
{
        for (uint32_t p = 14; p <= 4083; p += 13) {
                struct ewma e = { 0 };

                ewma_add(&e, 65549);
                for (unsigned i = 0; i < 5000; i++)
                        ewma_add(&e, p);
                EXPECT_EQ(ewma_read(&e), p);
        }
}

/* T-RX-15 */
TEST(ewma, averages_whole_packets_of_nine_thousand)
{
        struct ewma e = { 0 };

        for (unsigned i = 0; i < 5000; i++)
                ewma_add(&e, 9000); /* 4084 + 4096 + 820 in three buffers is one sample */
        EXPECT_EQ(ewma_read(&e), 9000);
}

TEST(ewma, takes_the_first_sample_whole)
{
        struct ewma e = { 0 };

        EXPECT_EQ(ewma_read(&e), 0);
        ewma_add(&e, 1514);
        EXPECT_EQ(ewma_read(&e), 1514);
}

TEST(ewma, a_first_sample_of_zero_is_a_sample)
{
        struct ewma e = { 0 };

        ewma_add(&e, 0);
        ewma_add(&e, 6400);
        EXPECT_EQ(ewma_read(&e), 100);
}

TEST(ewma, one_sample_counts_a_sixty_fourth)
{
        struct ewma e = { 0 };

        ewma_add(&e, 1000);
        ewma_add(&e, 7400);
        EXPECT_EQ(ewma_read(&e), 1100);
}

TEST(ewma, bears_the_longest_samples)
{
        struct ewma e = { 0 };

        for (unsigned i = 0; i < 1000; i++)
                ewma_add(&e, UINT32_MAX);
        EXPECT(ewma_read(&e) >= UINT32_MAX - 1);
}

/* Against the definition in floating point. */
TEST(ewma, agrees_with_the_definition_within_one)
{
        uint64_t rng = 5;
        struct ewma e = { 0 };
        double mean = 0;

        for (uint64_t i = 0; i < test_scale(100000, 10000000); i++) {
                uint32_t len;

                rng = rng * 6364136223846793005u + 1442695040888963407u;
                len = rng >> 63 ? 60 + (uint32_t)(rng >> 40) % 1500 : (uint32_t)(rng >> 40) % 65550;
                mean = i ? mean + ((double)len - mean) / EWMA_WEIGHT : len;
                ewma_add(&e, len);
                EXPECT((double)ewma_read(&e) > mean - 1 && (double)ewma_read(&e) < mean + 1);
        }
}
