/* A test is a sentence:  TEST(suite, says_what_holds) { EXPECT_EQ(...); }
 * cmocka runs them and prints TAP; the macros register each test before main(), so no list can forget one. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void test_register(const char *suite, const char *name, CMUnitTestFunction fn);

#define TEST(suite, name)                                                                                    \
        static void suite##_##name(void **state);                                                            \
        __attribute__((constructor)) static void suite##_##name##_register(void)                             \
        {                                                                                                    \
                test_register(#suite, #suite "_" #name, suite##_##name);                                     \
        }                                                                                                    \
        static void suite##_##name(__attribute__((unused)) void **state)

#define EXPECT(cond)        assert_true(cond)
#define EXPECT_EQ(a, b)     assert_int_equal(a, b)
#define EXPECT_NE(a, b)     assert_int_not_equal(a, b)
#define EXPECT_STR(a, b)    assert_string_equal(a, b)
#define EXPECT_MEM(a, b, n) assert_memory_equal(a, b, n)
/* Leaves the test; tools/test counts it as skipped.  cmocka's own skip() prints what TAP readers take for a failure. */
#define SKIP(why)                                                                                            \
        do {                                                                                                 \
                print_message("# skipped: %s\n", why);                                                       \
                return;                                                                                      \
        } while (0)
