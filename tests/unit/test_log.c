/* Lines, their levels, and the limit of ten a second for one reason. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "test.h"

static struct {
        unsigned lines;
        enum vw_log_level level;
        char component[16], text[1024];
} seen;

static void collect(void *ctx, enum vw_log_level level, const char *component, const char *text)
{
        EXPECT(ctx == &seen);
        seen.lines++;
        seen.level = level;
        snprintf(seen.component, sizeof(seen.component), "%s", component);
        snprintf(seen.text, sizeof(seen.text), "%s", text);
}

static void start(enum vw_log_level least)
{
        memset(&seen, 0, sizeof(seen));
        vw_set_log(least, collect, &seen);
}

TEST(log, a_line_is_level_component_and_text)
{
        start(VW_LOG_INFO);
        log_warn("queue", "broken index=%d reason=%s", 3, "bad-id");
        EXPECT_EQ(seen.lines, 1);
        EXPECT_EQ(seen.level, VW_LOG_WARN);
        EXPECT_STR(seen.component, "queue");
        EXPECT_STR(seen.text, "broken index=3 reason=bad-id");
}

TEST(log, less_severe_lines_are_not_passed_on)
{
        static const enum vw_log_level levels[] = { VW_LOG_ERROR, VW_LOG_WARN, VW_LOG_INFO, VW_LOG_DEBUG };

        for (size_t least = 0; least < ARRAY_SIZE(levels); least++) {
                start(levels[least]);
                for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
                        log_line(levels[i], "x", "y");
                EXPECT_EQ(seen.lines, least + 1);
        }
}

TEST(log, without_a_callback_is_silent)
{
        struct log_limit limit = { 0 };

        vw_set_log(VW_LOG_DEBUG, NULL, NULL);
        log_error("x", "y");
        log_limited(&limit, 0, VW_LOG_ERROR, "x", "y");
}

/* hostile N05 */
TEST(log, ten_lines_a_second_then_one_with_the_number_suppressed)
{
        struct log_limit limit = { 0 };
        uint64_t second = 5 * NSEC_PER_SEC;

        start(VW_LOG_INFO);
        for (unsigned i = 0; i < 1000000; i++)
                log_limited(&limit, second + i * 999, VW_LOG_WARN, "ring", "bad descriptor id=%u", i);
        EXPECT_EQ(seen.lines, 10);
        EXPECT_STR(seen.text, "bad descriptor id=9");
        log_limited(&limit, second + NSEC_PER_SEC, VW_LOG_WARN, "ring", "bad descriptor id=%u", 7);
        EXPECT_EQ(seen.lines, 11);
        EXPECT_STR(seen.text, "bad descriptor id=7 suppressed=999990");
        log_limited(&limit, second + NSEC_PER_SEC, VW_LOG_WARN, "ring", "bad descriptor id=%u", 8);
        EXPECT_STR(seen.text, "bad descriptor id=8");
}

/* hostile N05 */
TEST(log, what_was_held_back_is_told_though_nothing_comes_after_it)
{
        struct log_limit limit = { 0 };

        start(VW_LOG_INFO);
        EXPECT(log_settle(&limit, NEVER) == NEVER);
        for (unsigned i = 0; i < 25; i++)
                log_limited(&limit, NSEC_PER_SEC + i, VW_LOG_WARN, "ring", "bad descriptor id=%u", i);
        EXPECT(log_settle(&limit, NSEC_PER_SEC + 25) == 2 * NSEC_PER_SEC);
        EXPECT_EQ(seen.lines, 10);
        EXPECT(log_settle(&limit, 2 * NSEC_PER_SEC) == NEVER);
        EXPECT_EQ(seen.lines, 11);
        EXPECT_STR(seen.text, "lines like the last were held back suppressed=15");
        EXPECT(log_settle(&limit, NEVER) == NEVER);
        EXPECT_EQ(seen.lines, 11);
}

TEST(log, each_reason_has_a_limit_of_its_own)
{
        struct log_limit a = { 0 }, b = { 0 };

        start(VW_LOG_INFO);
        for (unsigned i = 0; i < 100; i++) {
                log_limited(&a, 0, VW_LOG_WARN, "x", "one");
                log_limited(&b, 0, VW_LOG_WARN, "x", "other");
        }
        EXPECT_EQ(seen.lines, 20);
}

TEST(log, lines_that_nobody_wants_are_not_counted)
{
        struct log_limit limit = { 0 };

        start(VW_LOG_ERROR);
        for (unsigned i = 0; i < 100; i++)
                log_limited(&limit, 0, VW_LOG_INFO, "x", "y");
        EXPECT_EQ(seen.lines, 0);
        EXPECT_EQ(limit.suppressed, 0);
}

TEST(log, a_long_text_is_cut_and_keeps_the_number_suppressed)
{
        struct log_limit limit = { 0 };
        char text[2000];

        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        start(VW_LOG_INFO);
        for (unsigned i = 0; i < 15; i++)
                log_limited(&limit, 0, VW_LOG_WARN, "x", "%s", text);
        log_limited(&limit, NSEC_PER_SEC, VW_LOG_WARN, "x", "%s", text);
        EXPECT_EQ(strlen(seen.text), 511);
        EXPECT_STR(seen.text + 511 - strlen(" suppressed=5"), " suppressed=5");
}

TEST(log, a_value_is_in_quotes_where_it_is_not_one_plain_word)
{
        static const struct {
                const char *value, *said;
        } cases[] = {
                {"/run/a=b.sock", "/run/a=b.sock"    },
                { "",             "\"\""             },
                { "a b",          "\"a b\""          },
                { "say \"a\"",    "\"say \\\"a\\\"\""},
                { "a\\b",         "\"a\\\\b\""       },
        };
        char buf[20], least[3];

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                EXPECT_STR(vw_log_value(cases[i].value, buf, sizeof(buf)), cases[i].said);
        EXPECT_STR(vw_log_value("as long as it is, and longer", buf, sizeof(buf)), "\"as long as it is\"");
        EXPECT_STR(vw_log_value("\"\"\"\"\"\"\"\"\"\"\"\"", buf, sizeof(buf)),
                   "\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\"");
        EXPECT_STR(vw_log_value("a b", least, sizeof(least)), "\"\"");
}
