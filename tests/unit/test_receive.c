/*
 * The frames in these tests are lines. A line that begins with a digit announces its own length, like a bulk string.
 */
#include "shared/check.h"
#include "shared/receive.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct receive receive;
    struct block *shared;
    char *lines; /* all lines seen, one after another */
    size_t len;
    int max;  /* lines to take in each call; after them the reader is paused */
    bool ref; /* takes a reference to the block of every line, as a proxy does */
    int calls;
    const char *last; /* address of the last line in its block */
    struct kept {
        struct block *block;
        const char *line; /* address in the block */
        size_t at;        /* offset of its copy in `lines` */
        size_t len;
    } refs[5000];
    int ref_count;
};

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct reader *reader = owner;
    size_t used = 0;
    reader->calls++;
    for (int taken = 0; taken < reader->max; taken++) {
        const char *end = memchr(data + used, '\n', len - used);
        if (!end) {
            if (used < len && data[used] >= '1' && data[used] <= '9')
                *need = strtoul(data + used, NULL, 10);
            break;
        }
        size_t size = (size_t)(end - data) + 1 - used;
        reader->last = data + used;
        memcpy(reader->lines + reader->len, data + used, size);
        if (reader->ref)
            reader->refs[reader->ref_count++] =
                (struct kept){block_ref(block), data + used, reader->len, size};
        reader->len += size;
        used += size;
    }
    return used;
}

/* A reader with room for `lines_max` bytes of lines. */
static struct reader *reader_new(size_t lines_max)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    CHECK(reader);
    receive_init(&reader->receive);
    reader->max = INT32_MAX;
    reader->lines = malloc(lines_max);
    CHECK(reader->lines);
    return reader;
}

/* Checks that the referenced bytes have not changed, and drops the references. */
static void drop_refs(struct reader *reader)
{
    while (reader->ref_count > 0) {
        struct kept *kept = &reader->refs[--reader->ref_count];
        ck_assert_mem_eq(kept->line, reader->lines + kept->at, kept->len);
        block_unref(kept->block);
    }
}

static void reader_free(struct reader *reader)
{
    drop_refs(reader);
    receive_fini(&reader->receive);
    block_unref(reader->shared);
    free(reader->lines);
    free(reader);
}

/* One read of at most `len` bytes; returns how many fit. */
static size_t feed(struct reader *reader, const char *data, size_t len)
{
    struct block *block = receive_room(&reader->receive, &reader->shared, 1024);
    ck_assert_ptr_nonnull(block);
    size_t room = block->size - block->used;
    ck_assert_uint_gt(room, 0);
    if (len > room)
        len = room;
    memcpy(block->data + block->used, data, len);
    receive_filled(&reader->receive, block, len, on_data, reader);
    return len;
}

static void pass_in_pieces(struct reader *reader, const char *data, size_t len, size_t step)
{
    for (size_t at = 0; at < len;)
        at += feed(reader, data + at, len - at < step ? len - at : step);
}

START_TEST(complete_frames_leave_nothing_behind)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "one\ntwo\n", 8);
    ck_assert_uint_eq(reader->len, 8);
    ck_assert_ptr_null(reader->receive.partial);
    ck_assert_uint_eq(receive_held(&reader->receive), 0);
    ck_assert_uint_eq(reader->shared->refs, 1);
    reader_free(reader);
}
END_TEST

START_TEST(the_shared_block_is_filled_from_its_start_without_references)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "one\n", 4);
    const char *first = reader->last;
    feed(reader, "two\n", 4);
    ck_assert_ptr_eq(reader->last, first);
    reader->ref = true;
    feed(reader, "three\n", 6);
    feed(reader, "four\n", 5);
    ck_assert_ptr_eq(reader->last, first + 6);
    reader_free(reader);
}
END_TEST

START_TEST(a_full_shared_block_is_replaced_while_its_frames_live_on)
{
    struct reader *reader = reader_new(1 << 20);
    static char line[1001];
    memset(line, 'x', 1000);
    line[1000] = '\n';
    reader->ref = true;
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(feed(reader, line, 1001), 1001);
    ck_assert_uint_eq(reader->len, 100 * 1001);
    ck_assert_ptr_ne(reader->refs[0].block, reader->refs[99].block);
    reader_free(reader);
}
END_TEST

START_TEST(an_incomplete_frame_moves_once_and_pins_no_shared_block)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "one\ntw", 6);
    ck_assert_uint_eq(receive_held(&reader->receive), 2);
    ck_assert_uint_eq(reader->shared->refs, 1);
    ck_assert_uint_le(reader->receive.partial->size, 4096);
    feed(reader, "o\n", 2);
    ck_assert_uint_eq(reader->len, 8);
    ck_assert_mem_eq(reader->lines, "one\ntwo\n", 8);
    ck_assert_ptr_null(reader->receive.partial);
    reader_free(reader);
}
END_TEST

START_TEST(a_known_need_sizes_the_private_block_exactly)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "1000000 x", 9);
    ck_assert_uint_eq(reader->receive.partial->size, 1000000);
    const char *place = reader->receive.partial->data;
    static char rest[1000000];
    memset(rest, 'y', sizeof(rest));
    rest[sizeof(rest) - 10] = '\n';
    pass_in_pieces(reader, rest, sizeof(rest) - 9, 50000);
    ck_assert_ptr_null(reader->receive.partial);
    ck_assert_uint_eq(reader->len, 1000000);
    ck_assert_ptr_eq(reader->last, place); /* the block was not moved */
    reader_free(reader);
}
END_TEST

START_TEST(a_need_that_becomes_known_later_gets_its_room_at_once)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "1", 1);
    feed(reader, "00000 x", 7);
    struct block *block = receive_room(&reader->receive, &reader->shared, 1024);
    ck_assert_uint_eq(block->size, 100000);
    ck_assert_mem_eq(block->data, "100000 x", 8);
    reader_free(reader);
}
END_TEST

START_TEST(frames_of_a_private_block_that_are_referred_to_stay_in_place)
{
    static char lines[200000];
    for (size_t i = 0; i < sizeof(lines); i++)
        lines[i] = i % 3001 == 3000 ? '\n' : (char)('a' + i % 26);
    struct reader *reader = reader_new(1 << 20);
    reader->ref = true;
    pass_in_pieces(reader, lines, sizeof(lines), 50000);
    ck_assert_int_eq(reader->ref_count, sizeof(lines) / 3001);
    reader_free(reader);
}
END_TEST

START_TEST(announced_bytes_that_are_not_sent_take_at_most_a_megabyte)
{
    struct reader *reader = reader_new(1 << 20);
    feed(reader, "18446744073709551600 x", 22);
    struct block *block = receive_room(&reader->receive, &reader->shared, 1024);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(block->size, 1024 * 1024);
    reader_free(reader);
}
END_TEST

START_TEST(an_announced_frame_of_megabytes_arrives_whole)
{
    enum { SIZE = 80 << 20 };
    struct reader *reader = reader_new(SIZE + 100);
    char *line = malloc(SIZE);
    ck_assert_ptr_nonnull(line);
    int head = snprintf(line, SIZE, "%d x", SIZE);
    for (size_t i = (size_t)head; i < SIZE; i++)
        line[i] = (char)('a' + i / 1021 % 26);
    line[SIZE - 1] = '\n';
    feed(reader, "before\n", 7);
    pass_in_pieces(reader, line, SIZE, 256 * 1024);
    feed(reader, "after\n", 6);
    ck_assert_uint_eq(reader->len, SIZE + 13);
    ck_assert(memcmp(reader->lines + 7, line, SIZE) == 0);
    free(line);
    reader_free(reader);
}
END_TEST

START_TEST(a_long_frame_of_unknown_size_is_copied_a_bounded_number_of_times)
{
    enum { SIZE = 8 << 20 };
    struct reader *reader = reader_new(SIZE);
    char *line = malloc(SIZE);
    memset(line, 'x', SIZE);
    line[SIZE - 1] = '\n';
    size_t moves = 0;
    const struct block *before = NULL;
    for (size_t at = 0; at < SIZE;) {
        at += feed(reader, line + at, SIZE - at < 1000 ? SIZE - at : 1000);
        moves += reader->receive.partial != before;
        before = reader->receive.partial;
    }
    ck_assert_uint_eq(reader->len, SIZE);
    ck_assert_uint_lt(moves, 20);
    free(line);
    reader_free(reader);
}
END_TEST

START_TEST(every_cut_gives_the_same_frames)
{
    static const char text[] = "a\nbb\n20 bytes 456789012\n\nccc\n";
    for (size_t cut = 0; cut < sizeof(text); cut++)
        for (size_t second = cut; second < sizeof(text); second++) {
            struct reader *reader = reader_new(100);
            size_t len = sizeof(text) - 1;
            pass_in_pieces(reader, text, cut, 100);
            pass_in_pieces(reader, text + cut, second - cut, 100);
            pass_in_pieces(reader, text + second, len - (second < len ? second : len), 100);
            ck_assert_uint_eq(reader->len, len);
            ck_assert_mem_eq(reader->lines, text, len);
            reader_free(reader);
        }
}
END_TEST

/* 60 kB of short lines. */
static size_t many_lines(char *to)
{
    size_t len = 0;
    for (int i = 0; len < 60000; i++)
        len += (size_t)sprintf(to + len, "line %d\n", i);
    return len;
}

START_TEST(a_paused_reader_gets_a_long_rest_again_from_where_it_lay)
{
    static char text[61000];
    size_t len = many_lines(text);
    struct reader *reader = reader_new(1 << 20);
    reader->max = 1;
    feed(reader, text, len);
    ck_assert_ptr_eq(reader->receive.partial, reader->shared);
    ck_assert_uint_eq(reader->shared->refs, 2);
    ck_assert_uint_eq(receive_held(&reader->receive), len - reader->len);
    const char *next = reader->last + reader->len;
    receive_again(&reader->receive, on_data, reader);
    ck_assert_ptr_eq(reader->last, next);
    reader_free(reader);
}
END_TEST

START_TEST(a_paused_reader_may_take_one_frame_at_a_time)
{
    static char text[61000];
    size_t len = many_lines(text);
    struct reader *reader = reader_new(1 << 20);
    reader->max = 1;
    feed(reader, text, len);
    size_t moves = 0;
    const struct block *before = reader->receive.partial;
    while (reader->receive.partial) {
        receive_again(&reader->receive, on_data, reader);
        moves += reader->receive.partial != before;
        before = reader->receive.partial;
    }
    ck_assert_uint_eq(reader->len, len);
    ck_assert_mem_eq(reader->lines, text, len);
    ck_assert_uint_le(moves, 2); /* once out of the shared block, and once at the end */
    int calls = reader->calls;
    receive_again(&reader->receive, on_data, reader);
    ck_assert_int_eq(reader->calls, calls);
    reader_free(reader);
}
END_TEST

START_TEST(a_short_rest_of_a_pause_does_not_pin_the_shared_block)
{
    struct reader *reader = reader_new(1 << 20);
    reader->max = 1;
    feed(reader, "one\ntwo\nthree\n", 14);
    ck_assert_uint_eq(reader->shared->refs, 1);
    ck_assert_uint_eq(receive_held(&reader->receive), 10);
    reader->max = 100;
    receive_again(&reader->receive, on_data, reader);
    ck_assert_mem_eq(reader->lines, "one\ntwo\nthree\n", 14);
    ck_assert_ptr_null(reader->receive.partial);
    reader_free(reader);
}
END_TEST

START_TEST(reading_after_a_long_rest_keeps_the_order)
{
    static char text[61000];
    size_t len = many_lines(text);
    struct reader *reader = reader_new(1 << 20);
    reader->max = 3;
    for (int round = 0; round < 5; round++)
        pass_in_pieces(reader, text, len, len);
    reader->max = INT32_MAX;
    receive_again(&reader->receive, on_data, reader);
    ck_assert_uint_eq(reader->len, 5 * len);
    for (size_t round = 0; round < 5; round++)
        ck_assert_mem_eq(reader->lines + round * len, text, len);
    reader_free(reader);
}
END_TEST

/* A random stream, read in random pieces, with random pauses and random references to blocks. */
START_TEST(random_reads_pauses_and_references_lose_nothing)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    unsigned state = 1;
    for (size_t i = 0; i < SIZE; i++) {
        state = state * 1103515245 + 12345;
        text[i] = (state >> 16) % (i / 100000 * 500 + 20) == 0 ? '\n' : 'x';
    }
    text[SIZE - 1] = '\n';
    struct reader *reader = reader_new(SIZE);
    for (size_t at = 0; at < SIZE;) {
        state = state * 1103515245 + 12345;
        reader->max = (state >> 16) % 3 ? INT32_MAX : (int)((state >> 20) % 20);
        reader->ref = (state >> 18) % 2;
        size_t step = (state >> 12) % 3 ? (state >> 16) % 300 + 1 : 60000;
        at += feed(reader, text + at, SIZE - at < step ? SIZE - at : step);
        if ((state >> 22) % 8 == 0 || reader->ref_count > 2000)
            drop_refs(reader);
    }
    reader->max = INT32_MAX;
    reader->ref = false;
    receive_again(&reader->receive, on_data, reader);
    ck_assert_uint_eq(reader->len, SIZE);
    ck_assert_mem_eq(reader->lines, text, SIZE);
    free(text);
    reader_free(reader);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("receive");
    TCase *tests = tcase_create("receive");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, complete_frames_leave_nothing_behind);
    tcase_add_test(tests, the_shared_block_is_filled_from_its_start_without_references);
    tcase_add_test(tests, a_full_shared_block_is_replaced_while_its_frames_live_on);
    tcase_add_test(tests, an_incomplete_frame_moves_once_and_pins_no_shared_block);
    tcase_add_test(tests, a_known_need_sizes_the_private_block_exactly);
    tcase_add_test(tests, a_need_that_becomes_known_later_gets_its_room_at_once);
    tcase_add_test(tests, frames_of_a_private_block_that_are_referred_to_stay_in_place);
    tcase_add_test(tests, announced_bytes_that_are_not_sent_take_at_most_a_megabyte);
    tcase_add_test(tests, an_announced_frame_of_megabytes_arrives_whole);
    tcase_add_test(tests, a_long_frame_of_unknown_size_is_copied_a_bounded_number_of_times);
    tcase_add_test(tests, every_cut_gives_the_same_frames);
    tcase_add_test(tests, a_paused_reader_gets_a_long_rest_again_from_where_it_lay);
    tcase_add_test(tests, a_paused_reader_may_take_one_frame_at_a_time);
    tcase_add_test(tests, a_short_rest_of_a_pause_does_not_pin_the_shared_block);
    tcase_add_test(tests, reading_after_a_long_rest_keeps_the_order);
    tcase_add_test(tests, random_reads_pauses_and_references_lose_nothing);
    return suite_run(suite);
}
