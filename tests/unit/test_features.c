/* Which sets of feature bits hold together, against the standard's rules written down a second time. */
#include <errno.h>

#include "rng.h"
#include "scale.h"
#include "test.h"
#include "virtio/features.h"
#include "vwire/types.h"

/* Section 5.1.3.1 of the standard written down a second time: `bit` needs one of `needs`, for each line. */
static const struct {
        unsigned bit;
        uint64_t needs;
} table[] = {
        {7,   BIT(1)           }, /* GUEST_TSO4: GUEST_CSUM */
        { 8,  BIT(1)           }, /* GUEST_TSO6 */
        { 9,  BIT(7) | BIT(8)  }, /* GUEST_ECN: GUEST_TSO4 or GUEST_TSO6 */
        { 10, BIT(1)           }, /* GUEST_UFO */
        { 54, BIT(1)           }, /* GUEST_USO4 */
        { 55, BIT(1)           }, /* GUEST_USO6 */
        { 11, BIT(0)           }, /* HOST_TSO4: CSUM */
        { 12, BIT(0)           }, /* HOST_TSO6 */
        { 13, BIT(11) | BIT(12)}, /* HOST_ECN: HOST_TSO4 or HOST_TSO6 */
        { 14, BIT(0)           }, /* HOST_UFO */
        { 56, BIT(0)           }, /* HOST_USO */
        { 2,  BIT(17)          }, /* CTRL_GUEST_OFFLOADS: CTRL_VQ */
        { 18, BIT(17)          }, /* CTRL_RX */
        { 19, BIT(17)          }, /* CTRL_VLAN */
        { 20, BIT(17)          }, /* CTRL_RX_EXTRA */
        { 21, BIT(17)          }, /* GUEST_ANNOUNCE */
        { 22, BIT(17)          }, /* MQ */
        { 23, BIT(17)          }, /* CTRL_MAC_ADDR */
        { 60, BIT(17)          }, /* RSS */
        { 57, BIT(17)          }, /* HASH_REPORT */
        { 53, BIT(17)          }, /* NOTF_COAL */
        { 52, BIT(17)          }, /* VQ_NOTF_COAL */
        { 61, BIT(11) | BIT(12)}, /* RSC_EXT: HOST_TSO4 or HOST_TSO6 */
  /* bits above 31 do not exist without VERSION_1; those that change rings and memory are held to it */
        { 33, BIT(32)          }, /* ACCESS_PLATFORM */
        { 34, BIT(32)          }, /* RING_PACKED */
        { 35, BIT(32)          }, /* IN_ORDER */
        { 36, BIT(32)          }, /* ORDER_PLATFORM */
        { 40, BIT(32)          }, /* RING_RESET */
};

/* The largest subset in which every line holds. */
static uint64_t reference(uint64_t set)
{
        for (unsigned round = 0; round < 64; round++)
                for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                        if (!(set & table[i].needs))
                                set &= ~BIT(table[i].bit);
        return set;
}

/* Every subset of `bits` (a mask), with `others` around it. */
static void expect_all_subsets(uint64_t bits, uint64_t others)
{
        uint64_t subset = 0;

        do {
                uint64_t set = subset | others;

                EXPECT_EQ(features_closed(set), reference(set));
                subset = (subset - bits) & bits;
        } while (subset);
}

TEST(features, every_set_of_transmit_offloads_closes_right)
{
        expect_all_subsets(BIT(0) | BIT(11) | BIT(12) | BIT(13) | BIT(14) | BIT(56) | BIT(61), 0);
}

TEST(features, every_set_of_receive_offloads_closes_right)
{
        expect_all_subsets(BIT(1) | BIT(7) | BIT(8) | BIT(9) | BIT(10) | BIT(54) | BIT(55), BIT(32));
}

TEST(features, every_set_of_control_features_closes_right)
{
        expect_all_subsets(BIT(17) | BIT(2) | BIT(16) | BIT(18) | BIT(19) | BIT(20) | BIT(21) | BIT(22) |
                                   BIT(23) | BIT(60) | BIT(57) | BIT(53) | BIT(52),
                           BIT(0));
}

TEST(features, every_set_of_ring_features_closes_right)
{
        expect_all_subsets(BIT(28) | BIT(29) | BIT(32) | BIT(33) | BIT(34) | BIT(35) | BIT(36) | BIT(40), 0);
}

TEST(features, any_set_closes_right)
{
        uint64_t rng = 11;

        for (uint64_t i = 0; i < test_scale(100000, 10000000); i++) {
                uint64_t set = (uint64_t)rng_next(&rng) << 32 | rng_next(&rng);

                EXPECT_EQ(features_closed(set), reference(set));
                EXPECT_EQ(features_closed(features_closed(set)), features_closed(set));
        }
}

/* hostile M20 */
TEST(features, both_ends_take_and_offer_whole_sets)
{
        EXPECT_EQ(features_closed(features_device()), features_device());
        EXPECT_EQ(features_closed(features_driver()), features_driver());
        EXPECT(features_device() & F(version_1));
        EXPECT(features_driver() & F(version_1));
        EXPECT_EQ(features_closed(UINT64_MAX), UINT64_MAX);
        EXPECT_EQ(features_closed(0), 0);
}

TEST(features, names_and_bits_are_one_to_one)
{
        unsigned n = 0;

        for (unsigned bit = 0; bit < 64; bit++) {
                const char *name = vw_feature_name(bit);

                if (!name)
                        continue;
                n++;
                EXPECT_EQ(vw_feature_bit(name), bit);
        }
        EXPECT(n > 35);
        EXPECT_STR(vw_feature_name(15), "mrg_rxbuf");
        EXPECT_STR(vw_feature_name(29), "event_idx");
        EXPECT_EQ(vw_feature_bit("ring_packed"), 34);
        EXPECT_EQ(vw_feature_bit("notf_coal"), 53);
        EXPECT_EQ(vw_feature_bit("MRG_RXBUF"), -ENOENT);
        EXPECT_EQ(vw_feature_bit(""), -ENOENT);
        EXPECT(!vw_feature_name(64));
        EXPECT(!vw_feature_name(4));
}
