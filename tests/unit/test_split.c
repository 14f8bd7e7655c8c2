#include "proxy/core/split.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARGS_MAX = 16, PARTS_MAX = 4, TEXT_MAX = 512 };

/* A request: its frame in a block, its keys, its split. The shard of a key is its first byte modulo 3. */
struct sample {
    struct split split;
    struct key_list keys;
    struct resp_scan scan;
    struct block *block;
    uint16_t shards[ARGS_MAX];
    uint16_t order[ARGS_MAX];
    struct split_parts parts;
    uint32_t step; /* keys of a range */
};

/* The range that begins at key `from`. */
static struct split_range range_at(const struct sample *sample, uint32_t from)
{
    uint32_t left = sample->keys.count - from;
    return (struct split_range){from, from + (left < sample->step ? left : sample->step)};
}

static void group(struct sample *sample, uint16_t *order)
{
    split_parts_init(&sample->parts);
    for (uint32_t i = 0; i < sample->keys.count; i = range_at(sample, i).to)
        split_group(&sample->split, range_at(sample, i), order, &sample->parts);
}

static void sample_init(struct sample *sample, const char *line)
{
    static const struct resp_limits limits = {1024, 1024, 1024, false};
    struct bytes argv[ARGS_MAX];
    memset(sample, 0, sizeof(*sample));
    command_init();
    keys_list_init(&sample->keys);
    resp_scan_init(&sample->scan);

    char text[TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s\r\n", line);
    ck_assert_int_eq(resp_scan(&sample->scan, &limits, text, strlen(text)), RESP_FRAME);
    sample->block = block_new_exact(sample->scan.inline_len);
    memcpy(sample->block->data, sample->scan.inline_text, sample->scan.inline_len);
    for (uint32_t i = 0; i < sample->scan.argc; i++)
        argv[i] =
            (struct bytes){sample->block->data + sample->scan.args[i].at, sample->scan.args[i].len};
    const struct command *command = command_find_argv(argv, sample->scan.argc);
    ck_assert_int_eq(keys_find(command, argv, sample->scan.argc, &sample->keys), 0);
    for (uint32_t i = 0; i < sample->keys.count; i++)
        sample->shards[i] = (unsigned char)argv[sample->keys.refs[i].index].data[0] % 3;
    sample->split = (struct split){.command = command,
                                   .block = sample->block,
                                   .base = sample->block->data,
                                   .args = sample->scan.args,
                                   .argc = sample->scan.argc,
                                   .keys = &sample->keys,
                                   .shards = sample->shards};
    sample->step = UINT32_MAX;
    group(sample, sample->order);
}

static void sample_fini(struct sample *sample)
{
    keys_list_fini(&sample->keys);
    resp_scan_fini(&sample->scan);
    block_unref(sample->block);
}

/* Writes every part that has an output, with its header. */
static void write_parts(const struct sample *sample, struct out *const *outs)
{
    for (uint32_t i = 0; i < sample->parts.count; i++) {
        if (outs[i])
            out_printf(outs[i], "*%u\r\n", sample->parts.argcs[i]);
    }
    for (uint32_t i = 0; i < sample->keys.count; i = range_at(sample, i).to)
        split_write(&sample->split, range_at(sample, i), sample->order, sample->parts.count, outs);
}

/* Writes all parts and compares each with the expected words. */
static void expect_parts(struct sample *sample, const char *const *expected)
{
    struct out made[PARTS_MAX];
    struct out *outs[PARTS_MAX];
    for (uint32_t i = 0; i < sample->parts.count; i++) {
        out_init(&made[i]);
        outs[i] = &made[i];
    }
    write_parts(sample, outs);
    for (uint32_t i = 0; i < sample->parts.count; i++) {
        char text[TEXT_MAX] = "";
        char frame[TEXT_MAX];
        struct resp_scan scan;
        static const struct resp_limits limits = {1024, 1024, 1024, false};
        ck_assert_uint_lt(made[i].bytes, sizeof(frame));
        out_copy(&made[i], frame);
        resp_scan_init(&scan);
        ck_assert_int_eq(resp_scan(&scan, &limits, frame, made[i].bytes), RESP_FRAME);
        ck_assert_uint_eq(scan.size, made[i].bytes);
        for (uint32_t arg = 0; arg < scan.argc; arg++) {
            strcat(text, arg ? " " : "");
            strncat(text, frame + scan.args[arg].at, scan.args[arg].len);
        }
        ck_assert_str_eq(text, expected[i]);
        resp_scan_fini(&scan);
        out_clear(&made[i]);
    }
}

/* Shards by the first byte: a 1, b 2, c 0, d 1, e 2. */

START_TEST(keys_are_grouped_in_the_order_of_their_first_key)
{
    struct sample sample;
    sample_init(&sample, "MGET a b d c a");
    ck_assert_uint_eq(sample.parts.count, 3);
    ck_assert_uint_eq(sample.parts.shards[0], 1);
    ck_assert_uint_eq(sample.parts.shards[1], 2);
    ck_assert_uint_eq(sample.parts.shards[2], 0);
    const uint16_t order[] = {0, 1, 0, 2, 0};
    ck_assert_mem_eq(sample.order, order, sizeof(order));
    expect_parts(&sample, (const char *const[]){"MGET a d a", "MGET b", "MGET c"});
    sample_fini(&sample);
}
END_TEST

START_TEST(values_travel_with_their_keys)
{
    struct sample sample;
    sample_init(&sample, "MSET a 1 b \"\" d 3 a 4");
    expect_parts(&sample, (const char *const[]){"MSET a 1 d 3 a 4", "MSET b "});
    sample_fini(&sample);
}
END_TEST

START_TEST(arguments_after_the_keys_go_to_every_shard)
{
    struct sample sample;
    sample_init(&sample, "JSON.MGET a b d $.x");
    expect_parts(&sample, (const char *const[]){"JSON.MGET a d $.x", "JSON.MGET b $.x"});
    sample_fini(&sample);
}
END_TEST

START_TEST(order_may_overwrite_the_shards)
{
    struct sample sample;
    sample_init(&sample, "DEL a b c d e");
    group(&sample, sample.shards);
    ck_assert_uint_eq(sample.parts.count, 3);
    ck_assert_mem_eq(sample.shards, sample.order, 5 * sizeof(uint16_t));
    sample_fini(&sample);
}
END_TEST

START_TEST(a_request_may_be_split_range_by_range)
{
    struct sample sample;
    sample_init(&sample, "JSON.MGET a b d e c $.x");
    for (sample.step = 1; sample.step < 6; sample.step++) {
        group(&sample, sample.order);
        expect_parts(&sample, (const char *const[]){"JSON.MGET a d $.x", "JSON.MGET b e $.x",
                                                    "JSON.MGET c $.x"});
    }
    sample_fini(&sample);
}
END_TEST

START_TEST(a_part_nobody_wants_is_left_out)
{
    struct sample sample;
    struct out made;
    sample_init(&sample, "DEL a b");
    out_init(&made);
    struct out *outs[] = {NULL, &made};
    write_parts(&sample, outs);
    char text[64] = "";
    out_copy(&made, text);
    ck_assert_str_eq(text, "*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n");
    out_clear(&made);
    sample_fini(&sample);
}
END_TEST

START_TEST(without_a_block_everything_is_copied)
{
    struct sample sample;
    sample_init(&sample, "TOUCH a b d");
    sample.split.block = NULL;
    expect_parts(&sample, (const char *const[]){"TOUCH a d", "TOUCH b"});
    sample_fini(&sample);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("split");
    TCase *tests = tcase_create("split");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, keys_are_grouped_in_the_order_of_their_first_key);
    tcase_add_test(tests, values_travel_with_their_keys);
    tcase_add_test(tests, arguments_after_the_keys_go_to_every_shard);
    tcase_add_test(tests, order_may_overwrite_the_shards);
    tcase_add_test(tests, a_request_may_be_split_range_by_range);
    tcase_add_test(tests, a_part_nobody_wants_is_left_out);
    tcase_add_test(tests, without_a_block_everything_is_copied);
    return suite_run(suite);
}
