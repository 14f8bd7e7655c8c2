/*
 * test_keys.c - which arguments are keys. differential/test_command_info.py compares the same requests with redis-
 * server.
 */
#include "shared/command/keys.h"

#include "shared/check.h"
#include "shared/command/arguments.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARGS_MAX = 64 };

static struct key_list list;

/* The positions of a request's keys as "1 3 4", or "invalid". Exactly one space separates two arguments. */
static const char *keys_of(const char *request)
{
    static char text[256];
    struct bytes argv[ARGS_MAX];
    uint32_t argc = 0;
    for (const char *at = request;; at += argv[argc - 1].len + 1) {
        argv[argc++] = (struct bytes){at, strcspn(at, " ")};
        if (at[argv[argc - 1].len] == '\0')
            break;
    }
    const struct command *command = command_find_argv(argv, argc);
    CHECK(command && command_arity_ok(command, argc));
    if (keys_find(command, argv, argc, &list) == KEYS_INVALID)
        return "invalid";
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < list.count; i++)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, i ? " %u" : "%u", list.refs[i].index);
    int32_t first = keys_first(command, argc);
    if (first >= 0)
        CHECK(first == 0 ? list.count == 0
                         : list.count == 1 && list.refs[0].index == (uint32_t)first);
    return text;
}

static bool is(const char *request, const char *expected)
{
    const char *got = keys_of(request);
    if (strcmp(got, expected) == 0)
        return true;
    (void)fprintf(stderr, "%s: got %s, expected %s\n", request, got, expected);
    return false;
}

static void test_ranges(void)
{
    CHECK(is("GET k", "1"));
    CHECK(is("PING", ""));
    CHECK(is("DEL a", "1"));
    CHECK(is("DEL a b c", "1 2 3"));
    CHECK(is("MSET a 1 b 2", "1 3"));
    CHECK(is("MSET a 1 b", "1 3"));
    CHECK(is("BLPOP a b 0", "1 2"));
    CHECK(is("BITOP AND d a b", "2 3 4"));
    CHECK(is("RENAME a b", "1 2"));
    CHECK(is("SMOVE a b m", "1 2"));
    CHECK(is("PFMERGE d a", "1 2"));
    CHECK(is("PFMERGE d", "1"));
    CHECK(is("OBJECT ENCODING k", "2"));
    CHECK(is("MEMORY USAGE k SAMPLES 5", "2"));
    CHECK(is("XGROUP CREATE k g $", "2"));
    CHECK(is("JSON.MGET a b $", "1 2"));
    CHECK(is("JSON.MSET a $ 1 b $ 2", "1 4"));
    CHECK(is("JSON.DEBUG MEMORY k", "2"));
}

static void test_counted_keys(void)
{
    CHECK(is("EVAL s 2 a b c", "3 4"));
    CHECK(is("EVAL s 0 a", ""));
    CHECK(is("EVAL s x a", ""));
    CHECK(is("EVAL s 9 a", ""));
    CHECK(is("FCALL f 1 a", "3"));
    CHECK(is("ZUNION 2 a b WEIGHTS 1 2", "2 3"));
    CHECK(is("ZUNIONSTORE d 2 a b", "1 3 4"));
    CHECK(is("ZUNION 3 a b", "invalid"));
    CHECK(is("ZUNION 0 a", "invalid"));
    CHECK(is("SINTERCARD 1 a LIMIT 5", "2"));
    CHECK(is("LMPOP 2 a b LEFT", "2 3"));
    CHECK(is("BLMPOP 0 2 a b LEFT", "3 4"));
    CHECK(is("BZMPOP 0 1 a MIN", "3"));
    CHECK(is("MSETEX 2 a 1 b 2 NX", "2 4"));
    CHECK(is("CMS.MERGE d 2 a b WEIGHTS 1 2", "1 3 4"));
    CHECK(is("ZUNION 99999999999999999999 a", "invalid"));
    CHECK(is("ZUNION 9223372036854775807 a", "invalid"));
}

/* COMMAND GETKEYS of Redis reports keys behind such counts, because it reads them as atoi of C does. */
static void test_counts_that_the_command_refuses_have_no_keys(void)
{
    CHECK(is("ZUNION +2 a b", "invalid"));
    CHECK(is("ZUNION 01 a", "invalid"));
    CHECK(is("ZUNION 1x a", "invalid"));
    CHECK(is("ZUNION -1 a", "invalid"));
    CHECK(is("ZUNION x a", "invalid"));
    CHECK(is("ZINTERSTORE d +2 a b", "invalid"));
    CHECK(is("BLMPOP 0 2x a b LEFT", "invalid"));
    const struct bytes argv[] = {BYTES("ZUNION"), BYTES("1x"), BYTES("a")};
    CHECK(keys_report(command_find(BYTES("zunion")), argv, 3, &list) == 0 && list.count == 1);
}

static void test_words_that_must_follow_the_keys_are_no_keys(void)
{
    CHECK(is("LMPOP 2 a LEFT", "invalid"));
    CHECK(is("LMPOP 2 LEFT LEFT LEFT", "2 3"));
    CHECK(is("BLMPOP 0 3 a b LEFT", "invalid"));
    CHECK(is("ZMPOP 2 a MIN", "invalid"));
    CHECK(is("BZMPOP 0 2 a MIN", "invalid"));
    CHECK(is("MSETEX 2 a 1 b", "invalid"));
    CHECK(is("ZDIFFSTORE d 2 a b", "1 3 4"));
    CHECK(is("EVAL s 1 a", "3"));
}

/* As find_counted needs it: the destination, if any, is argument 1. */
static void test_rows_with_counted_keys_have_the_rule_of_their_spec(void)
{
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = &command_rows[id];
        const struct key_spec *spec = counted_keys_spec(command);
        enum key_rule rule = command->key_rule;
        bool is_second = spec == &command->keys[1];
        CHECK(!spec == (rule != KEY_RULE_COUNT_AT_1 && rule != KEY_RULE_COUNT_AT_2 &&
                        rule != KEY_RULE_COUNT_PAIRS && rule != KEY_RULE_STORE_COUNT));
        CHECK(is_second == (rule == KEY_RULE_STORE_COUNT));
        CHECK(!spec || (spec->step == 2) == (rule == KEY_RULE_COUNT_PAIRS));
        CHECK(!is_second || (command->keys[0].at == 1 && command->keys[0].last == 0));
        CHECK(!spec || spec->begin == KEY_BEGIN_INDEX);
    }
}

static void test_keys_behind_words(void)
{
    CHECK(is("XREAD STREAMS a b 0 0", "2 3"));
    CHECK(is("XREAD COUNT 1 BLOCK 5 streams a $", "6"));
    CHECK(is("XREADGROUP GROUP g c STREAMS a b > >", "5 6"));
    CHECK(is("XREADGROUP GROUP STREAMS c STREAMS a >", "5"));
    CHECK(is("XREAD STREAMS a b 0", "invalid"));
    CHECK(is("XREAD BLOCK 5 STREAMS a b c 0 0 0 0", "invalid"));
    CHECK(is("XREAD WHAT 5 STREAMS a 0", "invalid"));
    CHECK(is("XREAD COUNT 1 STREAMS", "invalid"));
    CHECK(is("XREADGROUP streams a streams c b STREAMS d", "2 3 4"));
    CHECK(is("GEORADIUS k 0 0 1 m STORE d", "1 7"));
    CHECK(is("GEORADIUS k 0 0 1 m STORE d STOREDIST e", "1 9"));
    CHECK(is("GEORADIUSBYMEMBER k m 1 km ASC STOREDIST d", "1 7"));
    CHECK(is("GEORADIUS k 0 0 1 m STORE", "1"));
    CHECK(is("MIGRATE h 1 k 0 5", "3"));
    CHECK(is("MIGRATE h 1 k 0 5 COPY", "3"));
    CHECK(is("MIGRATE h 1  0 5 KEYS a b", "7 8"));
    CHECK(is("MIGRATE h 1  0 5 AUTH keys KEYS a b", "9 10"));
    CHECK(is("MIGRATE h 1 k 0 5 KEYS a b", "invalid"));
}

static void test_sort(void)
{
    CHECK(is("SORT k", "1"));
    CHECK(is("SORT k BY store GET x LIMIT 0 1 STORE d", "1 10"));
    CHECK(is("SORT k STORE a STORE b", "1 5"));
    CHECK(is("SORT k GET STORE", "1"));
    CHECK(is("SORT k STORE", "1"));
    CHECK(is("SORT k STORE d WHAT", "1"));
    CHECK(is("SORT_RO k STORE d", "1"));
}

static uint32_t flags_of_first(const char *request)
{
    CHECK(strcmp(keys_of(request), "invalid") != 0);
    CHECK(list.count > 0);
    return list.refs[0].flags;
}

static void test_flags_that_depend_on_arguments(void)
{
    CHECK(flags_of_first("GET k") == (KEY_RO | KEY_ACCESS));
    CHECK(flags_of_first("SET k v") == (KEY_OW | KEY_UPDATE));
    CHECK(flags_of_first("SET k get") == (KEY_OW | KEY_UPDATE));
    CHECK(flags_of_first("SET k v EX 5 get") == (KEY_RW | KEY_ACCESS | KEY_UPDATE));
    CHECK(flags_of_first("BITFIELD k GET u8 0 OVERFLOW SAT GET u8 1") == (KEY_RO | KEY_ACCESS));
    CHECK(flags_of_first("BITFIELD k GET u8 0 SET u8 0 1") == (KEY_RW | KEY_ACCESS | KEY_UPDATE));
    CHECK(flags_of_first("BITFIELD k GET u8") == (KEY_RW | KEY_ACCESS | KEY_UPDATE));
}

/* COMMAND GETKEYS of Redis does not report some of these keys. */
static void test_words_are_read_as_the_command_reads_them(void)
{
    CHECK(is("GEORADIUS k 1 2 3 km STORE a STORE b", "1 9"));
    CHECK(is("GEORADIUS k 1 2 3 km STOREDIST STORE STORE b", "1 9"));
    CHECK(is("GEORADIUSBYMEMBER k m 3 km COUNT 1 STOREDIST a STORE b", "1 10"));
    CHECK(is("GEORADIUSBYMEMBER k m 3 km STORE STORE", "1 6"));
    CHECK(is("SORT k STORE BY STORE a", "1 5"));
    CHECK(is("XREADGROUP GROUP g c GROUP streams c STREAMS k >", "8"));
    CHECK(is("XREADGROUP GROUP streams streams STREAMS k >", "5"));
    CHECK(is("XREAD COUNT 1 STREAMS streams x 0 0", "4 5"));
    CHECK(keys_report(command_find(BYTES("get")), (struct bytes[]){BYTES("GET"), BYTES("k")}, 2,
                      &list) == 0);
}

static void test_specs_are_named(void)
{
    CHECK(is("ZUNIONSTORE d 2 a b", "1 3 4"));
    CHECK(keys_number_at(command_find(BYTES("zunionstore"))) == 2);
    CHECK(keys_number_at(command_find(BYTES("lmpop"))) == 1);
    CHECK(keys_number_at(command_find(BYTES("blpop"))) == 0);
    CHECK(list.refs[0].spec == 0 && list.refs[1].spec == 1 && list.refs[2].spec == 1);
    CHECK(list.refs[0].flags == (KEY_OW | KEY_UPDATE) &&
          list.refs[1].flags == (KEY_RO | KEY_ACCESS));
}

static void test_channels_are_no_keys(void)
{
    CHECK(is("SPUBLISH c m", ""));
    CHECK(is("SSUBSCRIBE a b", ""));
    CHECK(!keys_possible(command_find(BYTES("spublish"))));
    CHECK(!keys_possible(command_find(BYTES("publish"))));
    CHECK(keys_possible(command_find(BYTES("eval"))));
}

static void test_one_key_takes_the_fast_path(void)
{
    CHECK(keys_first(command_find(BYTES("get")), 2) == 1);
    CHECK(keys_first(command_find(BYTES("set")), 5) == 1);
    CHECK(keys_first(command_of(COMMAND_object_encoding), 3) == 2);
    CHECK(keys_first(command_find(BYTES("del")), 2) == 1);
    CHECK(keys_first(command_find(BYTES("del")), 3) == KEYS_SEARCH);
    CHECK(keys_first(command_find(BYTES("mset")), 3) == 1);
    CHECK(keys_first(command_find(BYTES("mset")), 5) == KEYS_SEARCH);
    CHECK(keys_first(command_find(BYTES("blpop")), 3) == 1);
    CHECK(keys_first(command_find(BYTES("ping")), 1) == 0);
    CHECK(keys_first(command_find(BYTES("eval")), 3) == KEYS_SEARCH);
    CHECK(keys_first(command_find(BYTES("rename")), 3) == KEYS_SEARCH);
}

static void test_a_key_list_grows_and_is_reused(void)
{
    enum { MANY = 100000 };
    struct bytes *argv = calloc(MANY, sizeof(*argv));
    CHECK(argv);
    for (uint32_t i = 0; i < MANY; i++)
        argv[i] = BYTES("k");
    for (uint32_t argc = 2; argc <= MANY; argc = argc * 3 / 2 + 1) {
        CHECK(keys_find(command_find(BYTES("del")), argv, argc, &list) == 0);
        CHECK(list.count == argc - 1 && list.refs[argc - 2].index == argc - 1);
    }
    CHECK(list.refs != list.inline_refs);
    CHECK(is("GET k", "1"));
    CHECK(list.refs == list.inline_refs);
    free(argv);
}

int main(void)
{
    command_init();
    keys_list_init(&list);
    test_ranges();
    test_counted_keys();
    test_counts_that_the_command_refuses_have_no_keys();
    test_words_that_must_follow_the_keys_are_no_keys();
    test_rows_with_counted_keys_have_the_rule_of_their_spec();
    test_keys_behind_words();
    test_sort();
    test_flags_that_depend_on_arguments();
    test_words_are_read_as_the_command_reads_them();
    test_specs_are_named();
    test_channels_are_no_keys();
    test_one_key_takes_the_fast_path();
    test_a_key_list_grows_and_is_reused();
    keys_list_fini(&list);
    return 0;
}
