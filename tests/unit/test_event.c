/* The one comparison that decides about notifications, over all positions. */
#include "ring/event.h"

#include "test.h"

/* What event_wants() means, entry by entry: `event` names an entry, and one of those filled from `old` up to `new_` is it. */
static bool names_one_of(uint16_t event, uint16_t new_, uint16_t old)
{
        for (uint16_t filled = old; filled != new_; filled++)
                if (filled == event)
                        return true;
        return false;
}

TEST(event, wants_waking_when_the_named_entry_is_among_those_filled)
{
        for (unsigned old = 0; old < 40; old++)
                for (unsigned n = 0; n < 40; n++)
                        for (unsigned event = 0; event < 120; event++)
                                EXPECT_EQ(event_wants((uint16_t)event, (uint16_t)(old + n), (uint16_t)old),
                                          names_one_of((uint16_t)event, (uint16_t)(old + n), (uint16_t)old));
}

/* hostile C28 */
TEST(event, wants_the_same_across_the_wrap)
{
        for (unsigned old = 65500; old < 65536 + 40; old++)
                for (unsigned n = 0; n < 40; n++)
                        for (unsigned event = 65480; event < 65536 + 100; event++)
                                EXPECT_EQ(event_wants((uint16_t)event, (uint16_t)(old + n), (uint16_t)old),
                                          names_one_of((uint16_t)event, (uint16_t)(old + n), (uint16_t)old));
}

TEST(event, is_never_wanted_when_nothing_was_filled)
{
        for (unsigned event = 0; event < 65536; event++)
                EXPECT(!event_wants((uint16_t)event, 5, 5));
}

TEST(event, is_wanted_once_in_a_whole_lap_but_for_one_entry)
{
        EXPECT(event_wants(0, 65535, 0));
        EXPECT(event_wants(65534, 65535, 0));
        EXPECT(!event_wants(65535, 65535, 0));
}
