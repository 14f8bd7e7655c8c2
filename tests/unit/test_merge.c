#include "proxy/core/merge.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { PARTS_MAX = 4, TEXT_MAX = 8192 };

/* The merge of these replies (NULL ends them), as text. */
static const char *merged(enum command_merge rule, const char *const *frames, const uint16_t *order,
                          uint32_t order_count, uint8_t resp)
{
    static char text[TEXT_MAX];
    static const char *const names[PARTS_MAX] = {"a", "b", "c", "d"};
    struct shard_reply replies[PARTS_MAX];
    uint32_t count = 0;
    for (; frames[count]; count++) {
        struct block *block = block_new_exact(strlen(frames[count]));
        memcpy(block->data, frames[count], block->size);
        replies[count] = (struct shard_reply){
            .shard = names[count], .frame = {block->data, block->size}, .block = block};
    }
    struct out out;
    out_init(&out);
    struct reply reply = {.out = &out, .resp = resp};
    struct merge merge = {.rule = rule,
                          .replies = replies,
                          .count = count,
                          .order = order,
                          .order_count = order_count};
    merge_replies(&merge, &reply);
    ck_assert_uint_lt(out.bytes, sizeof(text));
    memset(text, 0, sizeof(text));
    out_copy(&out, text);
    out_clear(&out);
    for (uint32_t i = 0; i < count; i++)
        block_unref(replies[i].block);
    return text;
}

#define FRAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *merged2(enum command_merge rule, const char *const *frames)
{
    return merged(rule, frames, NULL, 0, 2);
}

START_TEST(elements_return_to_the_order_of_the_keys)
{
    const uint16_t order[] = {0, 1, 0, 1, 0};
    ck_assert_str_eq(
        merged(MERGE_ARRAY,
               FRAMES("*3\r\n$1\r\nx\r\n$-1\r\n$0\r\n\r\n", "*2\r\n$-1\r\n$1\r\ny\r\n"), order, 5,
               2),
        "*5\r\n$1\r\nx\r\n$-1\r\n$-1\r\n$1\r\ny\r\n$0\r\n\r\n");
}
END_TEST

START_TEST(a_large_element_survives_its_block)
{
    static char frame[6000];
    const uint16_t order[] = {1, 0};
    char value[4001];
    memset(value, 'v', 4000);
    value[4000] = '\0';
    (void)snprintf(frame, sizeof(frame), "*1\r\n$4000\r\n%s\r\n", value);
    const char *text = merged(MERGE_ARRAY, FRAMES(frame, "*1\r\n$-1\r\n"), order, 2, 2);
    ck_assert_mem_eq(text, "*2\r\n$-1\r\n$4000\r\nvv", 18);
    ck_assert_uint_eq(strlen(text), 4 + 5 + 7 + 4000 + 2);
}
END_TEST

START_TEST(a_shard_with_too_few_elements_is_an_error)
{
    const uint16_t order[] = {0, 1, 0};
    ck_assert_str_eq(merged(MERGE_ARRAY, FRAMES("*1\r\n:1\r\n", "*1\r\n:2\r\n"), order, 3, 2),
                     "-ERR shard 'a' sent a reply of an unexpected type\r\n");
    ck_assert_str_eq(merged(MERGE_ARRAY, FRAMES("*2\r\n:1\r\n:1\r\n", ":2\r\n"), order, 3, 2),
                     "-ERR shard 'b' sent a reply of an unexpected type\r\n");
}
END_TEST

START_TEST(integers_are_combined)
{
    ck_assert_str_eq(merged2(MERGE_SUM, FRAMES(":2\r\n", ":1\r\n", ":0\r\n")), ":3\r\n");
    ck_assert_str_eq(merged2(MERGE_MIN, FRAMES(":2\r\n", ":-1\r\n", ":5\r\n")), ":-1\r\n");
    ck_assert_str_eq(merged2(MERGE_MAX, FRAMES(":2\r\n", ":7\r\n", ":5\r\n")), ":7\r\n");
    ck_assert_str_eq(merged2(MERGE_SUM, FRAMES(":2\r\n", "+OK\r\n")),
                     "-ERR shard 'b' sent a reply of an unexpected type\r\n");
}
END_TEST

START_TEST(the_first_error_wins_and_names_its_shard)
{
    ck_assert_str_eq(merged2(MERGE_SUM, FRAMES(":2\r\n", "-ERR broken\r\n", "-ERR other\r\n")),
                     "-ERR broken (shard 'b')\r\n");
    ck_assert_str_eq(merged2(MERGE_ALL_OK, FRAMES("+OK\r\n", "-OOM no memory\r\n")),
                     "-OOM no memory (shard 'b')\r\n");
}
END_TEST

START_TEST(an_error_all_shards_agree_on_passes_as_it_is)
{
    ck_assert_str_eq(
        merged2(MERGE_ALL_OK, FRAMES("-ERR syntax error\r\n", "-ERR syntax error\r\n")),
        "-ERR syntax error\r\n");
}
END_TEST

START_TEST(the_merge_any_ok_ignores_errors)
{
    ck_assert_str_eq(merged2(MERGE_ANY_OK, FRAMES("-NOTBUSY x\r\n", "+OK\r\n")), "+OK\r\n");
    ck_assert_str_eq(merged2(MERGE_ANY_OK, FRAMES("-NOTBUSY x\r\n", "-NOTBUSY x\r\n")),
                     "-NOTBUSY x\r\n");
}
END_TEST

START_TEST(arrays_follow_one_another)
{
    ck_assert_str_eq(merged2(MERGE_CONCAT, FRAMES("*1\r\n$1\r\na\r\n", "*0\r\n",
                                                  "*2\r\n$1\r\nb\r\n*1\r\n:1\r\n")),
                     "*3\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n:1\r\n");
    ck_assert_str_eq(merged2(MERGE_CONCAT, FRAMES("*0\r\n", "*0\r\n")), "*0\r\n");
}
END_TEST

START_TEST(a_union_has_every_element_once)
{
    ck_assert_str_eq(merged2(MERGE_UNION, FRAMES("*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                                                 "*2\r\n$1\r\nb\r\n$1\r\nc\r\n")),
                     "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
}
END_TEST

START_TEST(the_merge_and_needs_every_shard)
{
    ck_assert_str_eq(
        merged2(MERGE_OR, FRAMES("*3\r\n:1\r\n:0\r\n:0\r\n", "*3\r\n:1\r\n:1\r\n:0\r\n")),
        "*3\r\n:1\r\n:1\r\n:0\r\n");
    ck_assert_str_eq(
        merged2(MERGE_LEAST, FRAMES("*3\r\n:1\r\n:2\r\n:0\r\n", "*3\r\n:1\r\n:1\r\n:2\r\n")),
        "*3\r\n:1\r\n:1\r\n:0\r\n");
}
END_TEST

START_TEST(numbers_of_one_name_are_added)
{
    ck_assert_str_eq(merged2(MERGE_MAP, FRAMES("*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n",
                                               "*4\r\n$1\r\nb\r\n:3\r\n$1\r\nc\r\n:0\r\n")),
                     "*6\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:5\r\n$1\r\nc\r\n:0\r\n");
    ck_assert_str_eq(
        merged(MERGE_MAP, FRAMES("%1\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"), NULL, 0, 3),
        "%1\r\n$1\r\na\r\n:2\r\n");
}
END_TEST

START_TEST(the_merge_takes_the_first_reply_that_is_not_null)
{
    ck_assert_str_eq(merged2(MERGE_FIRST_NONNULL, FRAMES("$-1\r\n", "$1\r\nk\r\n", "$1\r\nl\r\n")),
                     "$1\r\nk\r\n");
    ck_assert_str_eq(merged2(MERGE_FIRST_NONNULL, FRAMES("$-1\r\n", "$-1\r\n")), "$-1\r\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge");
    TCase *tests = tcase_create("merge");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, elements_return_to_the_order_of_the_keys);
    tcase_add_test(tests, a_large_element_survives_its_block);
    tcase_add_test(tests, a_shard_with_too_few_elements_is_an_error);
    tcase_add_test(tests, integers_are_combined);
    tcase_add_test(tests, the_first_error_wins_and_names_its_shard);
    tcase_add_test(tests, an_error_all_shards_agree_on_passes_as_it_is);
    tcase_add_test(tests, the_merge_any_ok_ignores_errors);
    tcase_add_test(tests, arrays_follow_one_another);
    tcase_add_test(tests, a_union_has_every_element_once);
    tcase_add_test(tests, the_merge_and_needs_every_shard);
    tcase_add_test(tests, numbers_of_one_name_are_added);
    tcase_add_test(tests, the_merge_takes_the_first_reply_that_is_not_null);
    return suite_run(suite);
}
