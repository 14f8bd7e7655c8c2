#include "proxy/core/handlers.h"
#include "proxy/core/route.h"
#include "shared/command/arguments.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { ARGS_MAX = 32 };

static struct shard_map *map; /* shard a: slots 0-5461; the next ones: b, c */
static struct route_keys keys;

static void setup(void)
{
    const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"};
    command_init();
    map = shard_map_even(addresses, 3);
    route_keys_init(&keys);
}

static void teardown(void)
{
    shard_map_unref(map);
    route_keys_fini(&keys);
}

static uint32_t words_of(const char *line, struct bytes *argv)
{
    uint32_t argc = 0;
    while (*line) {
        size_t len = strcspn(line, " ");
        argv[argc++] = (struct bytes){line, len};
        line += len + (line[len] == ' ');
    }
    return argc;
}

/* The route of the request in `line`. */
static struct route route_with(const struct route_rules *rules, const char *line)
{
    struct bytes argv[ARGS_MAX];
    uint32_t argc = words_of(line, argv);
    const struct command *command = command_find_argv(argv, argc);
    ck_assert_ptr_nonnull(command);
    ck_assert(command_arity_ok(command, argc));
    return route_plan(rules, command, argv, argc, &keys);
}

static struct route route_line(const char *line, bool is_strict, const struct namespace *entry)
{
    struct route_rules rules = {.map = map, .entry = entry, .is_strict = is_strict};
    return route_with(&rules, line);
}

/* With cross-slot = any. */
static struct route route_any(const char *line)
{
    struct route_rules rules = {.map = map, .is_any = true};
    return route_with(&rules, line);
}

static enum route_kind kind_of(const char *line)
{
    return route_line(line, false, NULL).kind;
}

/* Slots: a 15495 (shard c), b 3300 (shard a), c 7365 (shard b); {a}x has the slot of a. */

START_TEST(one_key_goes_to_the_shard_of_its_slot)
{
    ck_assert_uint_eq(route_line("GET a", false, NULL).shard, 2);
    ck_assert_uint_eq(route_line("GET b", false, NULL).shard, 0);
    struct route route = route_line("SET c 1", false, NULL);
    ck_assert_int_eq(route.kind, ROUTE_KIND_ONE);
    ck_assert_uint_eq(route.shard, 1);
    ck_assert_uint_eq(route.slot, 7365);
}
END_TEST

START_TEST(split_commands_are_cut_only_when_they_must_be)
{
    ck_assert_int_eq(kind_of("MGET a {a}x {a}y"), ROUTE_KIND_ONE);
    ck_assert_int_eq(kind_of("MGET a b a"), ROUTE_KIND_PARTS);
    ck_assert_uint_eq(keys.list.count, 3);
    ck_assert_uint_eq(keys.shards[0], 2);
    ck_assert_uint_eq(keys.shards[1], 0);
    ck_assert_uint_eq(keys.shards[2], 2);
    ck_assert_int_eq(kind_of("MSET a 1 b 2"), ROUTE_KIND_PARTS);
    ck_assert_int_eq(kind_of("DEL a b"), ROUTE_KIND_PARTS);
}
END_TEST

START_TEST(a_key_without_its_value_is_refused_by_a_backend)
{
    ck_assert_int_eq(kind_of("MSET a 1 b"), ROUTE_KIND_ANY);
}
END_TEST

START_TEST(several_keys_of_one_command_must_share_a_shard)
{
    ck_assert_int_eq(kind_of("RENAME a b"), ROUTE_KIND_CROSSSLOT);
    ck_assert_int_eq(kind_of("RENAME a {a}b"), ROUTE_KIND_ONE);
    ck_assert_int_eq(kind_of("MSETNX a 1 b 2"), ROUTE_KIND_CROSSSLOT);
}
END_TEST

/* Key foo has slot 12182, key a has 15495: both on shard c. */
START_TEST(one_shard_is_enough_unless_the_rule_is_strict)
{
    ck_assert_int_eq(route_line("RENAME a foo", false, NULL).kind, ROUTE_KIND_ONE);
    ck_assert_int_eq(route_line("RENAME a foo", true, NULL).kind, ROUTE_KIND_CROSSSLOT);
    ck_assert_int_eq(route_line("RENAME a {a}b", true, NULL).kind, ROUTE_KIND_ONE);
    ck_assert_int_eq(route_line("MGET a foo", true, NULL).kind, ROUTE_KIND_ONE);
}
END_TEST

START_TEST(a_script_without_keys_may_go_anywhere)
{
    ck_assert_int_eq(kind_of("EVAL x 0"), ROUTE_KIND_ANY);
    ck_assert_int_eq(kind_of("EVAL x 2 a"), ROUTE_KIND_ANY);
    ck_assert_int_eq(kind_of("EVAL x 1 a"), ROUTE_KIND_ONE);
    ck_assert_int_eq(kind_of("EVAL x 2 a b"), ROUTE_KIND_CROSSSLOT);
}
END_TEST

/* The words may stand anywhere: as options, as names of groups and consumers, as streams. */
START_TEST(a_command_over_shards_that_waits_has_one_id_for_each_stream)
{
    static const char *const words[] = {"BLOCK", "block", "STREAMS", "GROUP", "NOACK", "COUNT",
                                        "0",     "5",     "a",       "b",     "c",     "$"};
    uint32_t waiting = 0;
    srand(1);
    for (int round = 0; round < 200000; round++) {
        char line[200] = "XREADGROUP";
        if (rand() % 2)
            strcpy(line, "XREAD");
        if (rand() % 2)
            strcat(line, " GROUP g BLOCK BLOCK 5 STREAMS a b");
        for (int i = 7 + rand() % 6; i > 0; i--)
            strcat(strcat(line, " "), words[(size_t)rand() % (sizeof words / sizeof words[0])]);
        if (route_any(line).kind != ROUTE_KIND_BLOCKING_ACROSS)
            continue;
        waiting++;
        struct stream_arguments found;
        struct bytes argv[ARGS_MAX];
        uint32_t argc = words_of(line, argv);
        ck_assert(stream_arguments_find(argv, argc, &found));
        ck_assert_uint_ne(found.block_at, 0);
        ck_assert_uint_eq(found.count, keys.list.count);
        ck_assert_uint_eq(found.streams_at, keys.list.refs[0].index);
        ck_assert_uint_eq(found.streams_at + 2 * found.count, argc);
    }
    ck_assert_uint_gt(waiting, 100);
}
END_TEST

START_TEST(requests_that_the_command_refuses_go_to_any_shard)
{
    ck_assert_int_eq(route_any("XREAD BLOCK 5 STREAMS a b 0").kind, ROUTE_KIND_ANY);
    ck_assert_int_eq(route_any("XREAD BLOCK 5 STREAMS a b c 0 0 0 0").kind, ROUTE_KIND_ANY);
    ck_assert_int_eq(route_any("XREADGROUP GROUP g BLOCK STREAMS a b 0 0").kind, ROUTE_KIND_ACROSS);
    ck_assert_int_eq(route_any("LMPOP 2x a b LEFT").kind, ROUTE_KIND_ANY);
    ck_assert_int_eq(route_any("ZUNION 2x a b").kind, ROUTE_KIND_ANY);
}
END_TEST

static void check_across(const char *line, uint32_t shard)
{
    struct route route = route_any(line);
    ck_assert_msg(route.kind == ROUTE_KIND_ACROSS, "%s", line);
    ck_assert_msg(route.is_across, "%s", line);
    ck_assert_msg(route.shard == shard, "%s: shard %u", line, route.shard);
}

START_TEST(with_any_the_first_written_key_decides)
{
    check_across("RENAME a b", 2);
    check_across("COPY a b", 0);
    check_across("SINTERSTORE c a b", 1);
    check_across("SORT a STORE c", 1);
    check_across("PFCOUNT b a", 0);
    check_across("EVAL x 2 c a", 1);
    check_across("XREAD STREAMS b c 0 0", 0);
    ck_assert_int_eq(route_any("RENAME a {a}b").kind, ROUTE_KIND_ONE);
    ck_assert(!route_any("RENAME a {a}b").is_across);
    ck_assert_int_eq(route_any("MGET a b").kind, ROUTE_KIND_PARTS);
    ck_assert_int_eq(route_any("BLPOP a b 0").kind, ROUTE_KIND_BLOCKING_PARTS);
    ck_assert_int_eq(route_any("BLMOVE a b LEFT LEFT 0").kind, ROUTE_KIND_BLOCKING_ACROSS);
    ck_assert_uint_eq(route_any("BLMOVE a b LEFT LEFT 0").shard, 2);
    ck_assert_int_eq(route_any("XREAD BLOCK 0 STREAMS a b 0 0").kind, ROUTE_KIND_BLOCKING_ACROSS);
}
END_TEST

START_TEST(with_any_scripts_may_use_keys_that_they_do_not_name)
{
    ck_assert(route_any("EVAL x 1 a").is_across);
    ck_assert(route_any("EVAL x 0").is_across);
    ck_assert(route_any("FCALL_RO f 1 a").is_across);
    ck_assert(route_any("SORT a LIMIT 0 1 BY w_*").is_across);
    ck_assert(route_any("SORT_RO a GET w_*").is_across);
    ck_assert(!route_any("SORT a LIMIT 0 1").is_across);
    ck_assert(!route_any("SORT a BY nosort GET #").is_across);
    ck_assert(!route_line("EVAL x 1 a", false, NULL).is_across);
}
END_TEST

START_TEST(commands_without_keys_have_a_route)
{
    ck_assert_int_eq(kind_of("PING"), ROUTE_KIND_LOCAL);
    ck_assert_int_eq(kind_of("SCRIPT FLUSH"), ROUTE_KIND_ALL);
    ck_assert_int_eq(kind_of("DBSIZE"), ROUTE_KIND_LOCAL);
    ck_assert_int_eq(kind_of("SCAN 0"), ROUTE_KIND_LOCAL);
    ck_assert_int_eq(kind_of("RANDOMKEY"), ROUTE_KIND_LOCAL);
    ck_assert_int_eq(kind_of("MULTI"), ROUTE_KIND_TRANSACTION);
    ck_assert_int_eq(kind_of("WATCH a"), ROUTE_KIND_TRANSACTION);
    ck_assert_int_eq(kind_of("SHUTDOWN"), ROUTE_KIND_DENIED);
    ck_assert_int_eq(kind_of("SCREE AUTH x"), ROUTE_KIND_UNKNOWN);
}
END_TEST

START_TEST(every_row_has_a_kind)
{
    for (int id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++) {
        enum route_kind kind = route_by_row(command_of((enum command_id)id));
        ck_assert(kind <= ROUTE_KIND_CROSSSLOT);
        ck_assert(kind != ROUTE_KIND_PARTS && kind < ROUTE_KIND_ACROSS);
        const struct command *row = command_of((enum command_id)id);
        if (kind == ROUTE_KIND_LOCAL && !command_has_subs(row))
            ck_assert_msg(local_handlers[id] != NULL, "%s", row->full_name);
    }
}
END_TEST

START_TEST(a_namespace_has_its_own_slot_rule)
{
    struct namespace fixed = {.slot_rule = {.kind = SLOT_RULE_FIXED, .slot = 0}};
    ck_assert_uint_eq(route_line("GET a", false, &fixed).shard, 0);
    ck_assert_int_eq(route_line("MGET a b c", false, &fixed).kind, ROUTE_KIND_ONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("route");
    TCase *tests = tcase_create("route");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, one_key_goes_to_the_shard_of_its_slot);
    tcase_add_test(tests, split_commands_are_cut_only_when_they_must_be);
    tcase_add_test(tests, a_key_without_its_value_is_refused_by_a_backend);
    tcase_add_test(tests, several_keys_of_one_command_must_share_a_shard);
    tcase_add_test(tests, one_shard_is_enough_unless_the_rule_is_strict);
    tcase_add_test(tests, a_script_without_keys_may_go_anywhere);
    tcase_add_test(tests, with_any_the_first_written_key_decides);
    tcase_add_test(tests, with_any_scripts_may_use_keys_that_they_do_not_name);
    tcase_add_test(tests, commands_without_keys_have_a_route);
    tcase_add_test(tests, every_row_has_a_kind);
    tcase_add_test(tests, a_command_over_shards_that_waits_has_one_id_for_each_stream);
    tcase_add_test(tests, requests_that_the_command_refuses_go_to_any_shard);
    tcase_add_test(tests, a_namespace_has_its_own_slot_rule);
    return suite_run(suite);
}
