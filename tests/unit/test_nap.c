/* Naps of a worker that has its CPU to itself, and of one that has not. */
#include "device/nap.h"

#include "base/clock.h"
#include "test.h"

#define US NSEC_PER_USEC

/* `of` a hundred times somebody else runs for 15 us first; returns how many of 10,000 chances in a second were taken. */
static unsigned naps_of(struct nap *n, unsigned disturbed, uint64_t *now, uint64_t *work)
{
        unsigned taken = 0;

        for (unsigned i = 0; i < 10000; i++) {
                uint64_t before = *now += 100 * US;

                ++*work;
                if (!nap_may(n, *work, before))
                        continue;
                *now += i * 7 % 100 < disturbed ? 15 * US : US / 2;
                taken += nap_alone(n, before, *now);
        }
        return taken;
}

TEST(nap, is_taken_once_for_each_time_that_there_was_work)
{
        struct nap n = { 0 };

        EXPECT(!nap_may(&n, 0, 1));
        EXPECT(nap_may(&n, 5, 1));
        EXPECT(!nap_may(&n, 5, 2));
        EXPECT(nap_may(&n, 6, 3));
}

TEST(nap, is_taken_by_who_is_alone_or_seldom_disturbed)
{
        struct nap n = { 0 };
        uint64_t now = NSEC_PER_SEC, work = 0;

        EXPECT_EQ(naps_of(&n, 0, &now, &work), 10000);
        EXPECT(naps_of(&n, 3, &now, &work) >= 9500);
}

TEST(nap, is_given_up_beside_a_neighbour_and_tried_again_after_a_second)
{
        struct nap n = { 0 };
        uint64_t now = NSEC_PER_SEC, work = 0;

        EXPECT(naps_of(&n, 20, &now, &work) <= 100);
        EXPECT(naps_of(&n, 20, &now, &work) <= 100);
        EXPECT(naps_of(&n, 50, &now, &work) <= 10);
        now += 2 * NSEC_PER_SEC;
        EXPECT_EQ(naps_of(&n, 0, &now, &work), 10000);
}
