/*
 * suite.h - runs the suite of a test program.
 */
#pragma once

#include <check.h>
#include <stdlib.h>

/* Runs the suite and frees it; returns what main() returns. $CK_VERBOSITY says how much is printed. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
