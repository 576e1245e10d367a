/* Texts put together in a caller's buffer. */
#include "base/words.h"
#include "test.h"

TEST(words, follow_one_another)
{
        char buf[32];
        struct words w = { .buf = buf, .len = sizeof(buf) };

        words_say(&w, "%u chains", 3);
        words_say(&w, "; %s", "idle");
        EXPECT_STR(buf, "3 chains; idle");
        EXPECT_EQ(w.n, 14);
}

TEST(words, that_do_not_fit_are_cut_and_counted)
{
        char buf[8];
        struct words w = { .buf = buf, .len = sizeof(buf) };

        words_say(&w, "%s", "0123456789");
        words_say(&w, "%s", "abc");
        EXPECT_STR(buf, "0123456");
        EXPECT_EQ(w.n, 13);
}

TEST(words, can_be_counted_without_a_buffer)
{
        struct words w = { .len = 0 };

        words_say(&w, "%s", "four");
        EXPECT_EQ(w.n, 4);
}
