/*
 * test_output_limit.c - client-output-buffer-limit: read and printed as in Redis, and when it disconnects a client.
 */
#include "backend/context/output_limit.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct output_limit limits[OUTPUT_CLASSES];
static const char *error;

static void setup(void)
{
    memset(limits, 0, sizeof limits);
    limits[OUTPUT_PUBSUB] = (struct output_limit){.hard = 1000, .soft = 100, .soft_s = 10};
}

START_TEST(named_classes_change_and_the_others_stay)
{
    char text[OUTPUT_LIMITS_TEXT_MAX];
    ck_assert(output_limits_parse(BYTES("replica 1mb 2k 5"), limits, &error));
    ck_assert_uint_gt(output_limits_format(limits, text), 0);
    ck_assert_str_eq(text, "normal 0 0 0 slave 1048576 2000 5 pubsub 1000 100 10");
    ck_assert(output_limits_parse(BYTES(""), limits, &error));
    ck_assert(output_limits_parse(bytes_of(text), limits, &error));
}
END_TEST

START_TEST(a_mistake_changes_nothing)
{
    ck_assert(!output_limits_parse(BYTES("pubsub 1 2"), limits, &error));
    ck_assert_str_eq(error, "Wrong number of arguments in buffer limit configuration.");
    ck_assert(!output_limits_parse(BYTES("pubsub 1 2 3 master 1 2 3"), limits, &error));
    ck_assert_str_eq(error, "Invalid client class specified in buffer limit configuration.");
    ck_assert(!output_limits_parse(BYTES("pubsub 1 2 -3"), limits, &error));
    ck_assert(!output_limits_parse(BYTES("pubsub x 2 3"), limits, &error));
    ck_assert_uint_eq(limits[OUTPUT_PUBSUB].hard, 1000);
}
END_TEST

START_TEST(the_soft_limit_disconnects_only_after_its_time)
{
    uint64_t since_ms = 0;
    const struct output_limit *limit = &limits[OUTPUT_PUBSUB];
    ck_assert(output_limit_exceeded(limit, 1000, 5000, &since_ms));
    ck_assert(!output_limit_exceeded(limit, 999, 5000, &since_ms));
    ck_assert(!output_limit_exceeded(limit, 100, 15999, &since_ms));
    ck_assert(output_limit_exceeded(limit, 100, 16000, &since_ms));
    ck_assert(!output_limit_exceeded(limit, 99, 16000, &since_ms));
    ck_assert(!output_limit_exceeded(limit, 100, 17000, &since_ms));
    ck_assert(!output_limit_exceeded(&limits[OUTPUT_NORMAL], UINT64_MAX, 17000, &since_ms));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output_limit");
    TCase *cases = tcase_create("output_limit");
    tcase_add_checked_fixture(cases, setup, NULL);
    tcase_add_test(cases, named_classes_change_and_the_others_stay);
    tcase_add_test(cases, a_mistake_changes_nothing);
    tcase_add_test(cases, the_soft_limit_disconnects_only_after_its_time);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
