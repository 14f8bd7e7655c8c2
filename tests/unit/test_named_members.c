/*
 * test_named_members.c - which arguments are members: of every kind of command, and of ZADD with any options.
 */
#include "backend/transaction/named_members.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

enum { ARGS_MAX = 16 };

/* The members of the command line, separated by spaces; "-": it may need any. */
static void check_members(const char *line, const char *expected)
{
    char words[200];
    char found[200] = "";
    struct bytes argv[ARGS_MAX];
    uint32_t argc = 0;
    struct named_members members;
    (void)snprintf(words, sizeof words, "%s", line);
    for (char *rest = words, *word; (word = strsep(&rest, " "));)
        argv[argc++] = bytes_of(word);
    const struct command *command = command_find_argv(argv, argc);
    ck_assert_ptr_nonnull(command);
    if (!named_members_find(command, argv, argc, &members)) {
        ck_assert_str_eq("-", expected);
        return;
    }
    for (uint32_t i = members.first; i < argc; i += members.step) {
        strcat(found, *found ? " " : "");
        strcat(found, argv[i].data);
    }
    ck_assert_str_eq(found, expected);
}

START_TEST(members_are_found)
{
    check_members("hset k f1 1 f2 2", "f1 f2");
    check_members("hsetnx k f 1", "f");
    check_members("hmget k a b c", "a b c");
    check_members("hincrby k f 5", "f");
    check_members("sadd k a b", "a b");
    check_members("smove k l m", "m");
    check_members("zincrby k 2 m", "m");
    check_members("zrem k a b", "a b");
    check_members("rpush k a b", "");
    check_members("expire k 60", "");
    check_members("del k l", "");
    check_members("set k v", "");
}
END_TEST

START_TEST(options_of_zadd_are_none)
{
    check_members("zadd k 1 a", "a");
    check_members("zadd k 1 a 2 b", "a b");
    check_members("zadd k NX CH 1 a 2 b", "a b");
    check_members("zadd k incr xx gt ch 1 a", "a");
    check_members("zadd k nx", "");
    check_members("zadd k xx xx 1 xx", "xx");
}
END_TEST

START_TEST(others_may_need_any)
{
    check_members("smembers k", "-");
    check_members("hgetall k", "-");
    check_members("lrange k 0 -1", "-");
    check_members("sunionstore k l", "-");
    check_members("rename k l", "-");
    check_members("eval s 1 k", "-");
}
END_TEST

int main(void)
{
    command_init();
    Suite *suite = suite_create("named_members");
    TCase *tests = tcase_create("members");
    tcase_add_test(tests, members_are_found);
    tcase_add_test(tests, options_of_zadd_are_none);
    tcase_add_test(tests, others_may_need_any);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
