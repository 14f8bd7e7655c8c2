/*
 * test_parameter.c - Redis' configuration parameters: the table, and what values they take.
 */
#include "backend/context/parameter.h"
#include "config/redis_units.h"

#include "shared/check.h"

#include <strings.h>

static const struct parameter *find(const char *name)
{
    const struct parameter *parameter = parameter_find(bytes_of(name));
    CHECK(parameter);
    return parameter;
}

static bool takes(const char *name, const char *value)
{
    char error[256];
    return parameter_check(find(name), bytes_of(value), error, sizeof error);
}

static const char *reason(const char *name, const char *value)
{
    static char error[256];
    CHECK(!parameter_check(find(name), bytes_of(value), error, sizeof error));
    return error;
}

static void test_the_table_is_sorted_and_its_own_values_are_good(void)
{
    CHECK(parameters_count <= PARAMETER_MAX);
    for (size_t i = 0; i < parameters_count; i++) {
        const struct parameter *parameter = &parameters[i];
        CHECK(i == 0 || strcasecmp(parameters[i - 1].name, parameter->name) < 0);
        if (parameter->kind == PARAMETER_ALIAS)
            CHECK(find(parameter->name) == find(parameter->initial));
        else if (parameter->kind != PARAMETER_FIXED && parameter->kind != PARAMETER_OWN)
            CHECK(takes(parameter->name, parameter->initial));
    }
}

static void test_names_are_found_in_any_case_and_as_a_whole(void)
{
    CHECK(find("HZ") == find("hz"));
    CHECK(find("hash-max-ziplist-entries") == find("hash-max-listpack-entries"));
    CHECK(!parameter_find(BYTES("h")));
    CHECK(!parameter_find(BYTES("hzz")));
    CHECK(!parameter_find(BYTES("")));
}

static void test_sizes_are_read_as_redis_does(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"100", 100},
                {"5b", 5},
                {"1k", 1000},
                {"1kb", 1024},
                {"2m", 2000000},
                {"2MB", 2097152},
                {"1g", 1000000000},
                {"1gb", 1073741824},
                {"", 0},
                {"mb", 0},
                {"007", 7},
                {"18446744073709551615", UINT64_MAX},
                {"18446744073709551616", UINT64_MAX},
                {"99999999999gb", UINT64_MAX}};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(redis_bytes(bytes_of(good[i].text), &bytes));
        CHECK(bytes == good[i].bytes);
    }
    CHECK(!redis_bytes(BYTES("-1"), &bytes));
    CHECK(!redis_bytes(BYTES("1 mb"), &bytes));
    CHECK(!redis_bytes(BYTES("1tb"), &bytes));
}

static void test_refusals_say_what_was_expected(void)
{
    CHECK(takes("appendonly", "YES"));
    CHECK(takes("maxmemory-policy", "noeviction"));
    CHECK(strcmp(reason("maxmemory-policy", "allkeys-lru"),
                 "only 'noeviction' is possible: keys are never evicted") == 0);
    CHECK(strcmp(reason("min-replicas-to-write", "x"),
                 "argument couldn't be parsed into an integer") == 0);
    CHECK(strcmp(reason("appendonly", "maybe"), "argument must be 'yes' or 'no'") == 0);
    CHECK(strcmp(reason("hz", "x"), "argument couldn't be parsed into an integer") == 0);
    CHECK(strcmp(reason("hz", "-1"), "argument must be between 0 and 2147483647 inclusive") == 0);
    CHECK(strcmp(reason("maxmemory", "x"), "argument must be a memory value") == 0);
    CHECK(strcmp(reason("oom-score-adj", "a"),
                 "argument(s) must be one of the following: no, yes, relative, absolute") == 0);
    CHECK(strcmp(reason("daemonize", "no"), "can't set immutable config") == 0);
    CHECK(!takes("oom-score-adj", "ye"));
    CHECK(!takes("oom-score-adj", "no, yes"));
}

int main(void)
{
    test_the_table_is_sorted_and_its_own_values_are_good();
    test_names_are_found_in_any_case_and_as_a_whole();
    test_sizes_are_read_as_redis_does();
    test_refusals_say_what_was_expected();
    return 0;
}
