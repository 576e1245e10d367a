/* Collects the registered tests and hands them to cmocka.  `prog PATTERN` runs the tests whose name matches
 * (shell wildcards), `prog --list` prints the names.  VW_TEST_FULL=1 asks for the full counts of the cases: see test_scale(). */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"

#define TESTS_MAX 4096 /* registered in one program; a whole room has about a hundred */

static struct CMUnitTest tests[TESTS_MAX];
static size_t n_tests;
static const char *group;

void test_register(const char *suite, const char *name, CMUnitTestFunction fn)
{
        if (n_tests == TESTS_MAX)
                abort();
        group = suite;
        tests[n_tests++] = (struct CMUnitTest){ .name = name, .test_func = fn };
}

uint64_t test_scale(uint64_t everyday, uint64_t full)
{
        const char *v = getenv("VW_TEST_FULL");

        return v && *v == '1' ? full : everyday;
}

int main(int argc, char **argv)
{
        if (argc > 1 && !strcmp(argv[1], "--list")) {
                for (size_t i = 0; i < n_tests; i++)
                        puts(tests[i].name);
                return 0;
        }
        if (argc > 1)
                cmocka_set_test_filter(argv[1]);
        cmocka_set_message_output(CM_OUTPUT_TAP);
        return _cmocka_run_group_tests(group ? group : "none", tests, n_tests, NULL, NULL) ? 1 : 0;
}
