#include "shared/out.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

enum { IOVS = 1000 };

/* The out's bytes, checked against its iovecs; the caller frees. */
static char *flatten(const struct out *out)
{
    static struct iovec iov[IOVS];
    char *copied = calloc(1, out->bytes + 1);
    char *gathered = calloc(1, out->bytes + 1);
    out_copy(out, copied);
    size_t len = 0;
    int count = out_iov(out, iov, IOVS);
    for (int i = 0; i < count; i++) {
        memcpy(gathered + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    ck_assert_uint_eq(len, out->bytes);
    ck_assert_mem_eq(copied, gathered, len + 1);
    free(gathered);
    return copied;
}

static void expect(const struct out *out, const char *text)
{
    char *got = flatten(out);
    ck_assert_str_eq(got, text);
    free(got);
}

static int pieces(const struct out *out)
{
    struct iovec iov[IOVS];
    return out_iov(out, iov, IOVS);
}

/* A block filled with the repeated letters a to z. */
static struct block *alphabet(void)
{
    struct block *block = block_new(BLOCK_SIZE);
    for (size_t i = 0; i < block->size; i++)
        block->data[i] = (char)('a' + i % 26);
    return block;
}

START_TEST(small_writes_share_one_piece)
{
    struct out out;
    out_init(&out);
    out_write(&out, "abc", 3);
    out_write(&out, "", 0);
    out_write(&out, "def", 3);
    expect(&out, "abcdef");
    ck_assert_int_eq(pieces(&out), 1);
    out_clear(&out);
    ck_assert_ptr_null(out.head);
    ck_assert_uint_eq(out.bytes, 0);
}
END_TEST

START_TEST(writes_of_every_size_keep_their_bytes)
{
    struct block *block = alphabet();
    struct out out;
    out_init(&out);
    size_t total = 0;
    for (size_t len = 1; len < 300; len += 7, total += len - 7)
        out_write(&out, block->data + total, len);
    out_write(&out, block->data + total, 40000);
    total += 40000;
    char *got = flatten(&out);
    ck_assert_mem_eq(got, block->data, total);
    free(got);
    out_clear(&out);
    block_unref(block);
}
END_TEST

START_TEST(a_long_run_of_a_block_is_referenced_and_a_short_one_copied)
{
    struct block *block = alphabet();
    struct out out;
    out_init(&out);
    out_write_block(&out, block, block->data, OUT_COPY_MAX);
    ck_assert_uint_eq(block->refs, 1);
    out_write_block(&out, block, block->data + 5000, OUT_COPY_MAX + 1);
    ck_assert_uint_eq(block->refs, 2);
    ck_assert_int_eq(pieces(&out), 2);
    ck_assert_uint_eq(out.bytes, 2 * OUT_COPY_MAX + 1);
    out_clear(&out);
    ck_assert_uint_eq(block->refs, 1);
    block_unref(block);
}
END_TEST

START_TEST(adjacent_runs_of_a_block_become_one_piece)
{
    struct block *block = alphabet();
    struct out out;
    out_init(&out);
    out_write_block(&out, block, block->data, 2000);
    out_write_block(&out, block, block->data + 2000, 10);
    out_write_block(&out, block, block->data + 2010, 3000);
    ck_assert_int_eq(pieces(&out), 1);
    ck_assert_uint_eq(block->refs, 2);
    char *got = flatten(&out);
    ck_assert_mem_eq(got, block->data, 5010);
    free(got);
    out_clear(&out);
    block_unref(block);
}
END_TEST

START_TEST(a_reference_keeps_the_block_alive)
{
    struct out out;
    out_init(&out);
    struct block *block = alphabet();
    out_write_block(&out, block, block->data, 2600);
    block_unref(block);
    char *got = flatten(&out);
    ck_assert_int_eq(got[2599], 'z');
    free(got);
    out_consume(&out, 2600);
    ck_assert_ptr_null(out.head);
}
END_TEST

START_TEST(consuming_any_number_of_bytes_leaves_the_rest)
{
    struct block *block = alphabet();
    for (size_t cut = 0; cut <= 3400; cut += 17) {
        struct out out;
        out_init(&out);
        out_write(&out, block->data, 700);
        out_write_block(&out, block, block->data + 700, 2000);
        out_write(&out, block->data + 2700, 700);
        out_consume(&out, cut);
        out_write(&out, block->data + 3400, 10);
        char *got = flatten(&out);
        ck_assert_uint_eq(out.bytes, 3410 - cut);
        ck_assert_mem_eq(got, block->data + cut, 3410 - cut);
        free(got);
        out_consume(&out, out.bytes);
        ck_assert_ptr_null(out.head);
        ck_assert_ptr_null(out.tail);
        ck_assert_uint_eq(block->refs, 1);
    }
    block_unref(block);
}
END_TEST

START_TEST(a_reserved_place_takes_up_to_its_size)
{
    struct out out;
    out_init(&out);
    memcpy(out_reserve(&out, 10), "0123456789", 10);
    out_commit(&out, 4);
    memcpy(out_reserve(&out, OUT_COPY_MAX), "abc", 3);
    out_commit(&out, 3);
    expect(&out, "0123abc");
    out_clear(&out);
    (void)out_reserve(&out, 100);
    out_commit(&out, 0);
    ck_assert_ptr_null(out.head);
}
END_TEST

START_TEST(truncating_to_any_number_of_bytes_leaves_the_first)
{
    struct block *block = alphabet();
    for (size_t kept = 0; kept <= 3400; kept += 17) {
        struct out out;
        out_init(&out);
        out_write(&out, block->data, 200);
        out_write_block(&out, block, block->data + 200, 2000);
        out_write(&out, block->data + 2200, 1200);
        out_truncate(&out, kept);
        out_write(&out, block->data + kept, 30);
        char *got = flatten(&out);
        ck_assert_uint_eq(out.bytes, kept + 30);
        ck_assert_mem_eq(got, block->data, kept + 30);
        free(got);
        out_clear(&out);
        ck_assert_uint_eq(block->refs, 1);
    }
    block_unref(block);
}
END_TEST

START_TEST(cutting_anywhere_moves_the_rest_behind_what_is_there)
{
    struct block *block = alphabet();
    for (size_t at = 0; at <= 7004; at += at < 8 || at > 6990 ? 1 : 97) {
        struct out from;
        struct out to;
        out_init(&from);
        out_init(&to);
        out_write(&from, "abcd", 4);
        out_write_block(&from, block, block->data, 3000);
        out_write(&from, block->data, 2000);
        out_write_block(&from, block, block->data + 26, 2000);
        out_write(&to, "->", 2);
        char *whole = flatten(&from);
        out_cut(&from, at, &to);
        char *first = flatten(&from);
        char *rest = flatten(&to);
        ck_assert_uint_eq(from.bytes, at);
        ck_assert_mem_eq(first, whole, at);
        ck_assert_str_eq(rest + 2, whole + at);
        out_write(&from, "x", 1); /* both outputs are still writable */
        out_write(&to, "y", 1);
        free(whole);
        free(first);
        free(rest);
        out_clear(&from);
        out_clear(&to);
    }
    block_unref(block);
}
END_TEST

START_TEST(an_unused_place_is_not_seen_and_does_not_disturb)
{
    struct block *block = alphabet();
    struct iovec iov[4];
    struct out out;
    out_init(&out);
    (void)out_reserve(&out, 100);
    out_write_block(&out, block, block->data, 2000);
    ck_assert_int_eq(out_iov(&out, iov, 4), 1);
    ck_assert_ptr_eq(iov[0].iov_base, block->data);
    out_consume(&out, 1);
    ck_assert_int_eq(out_iov(&out, iov, 4), 1);
    ck_assert_ptr_eq(iov[0].iov_base, block->data + 1);
    out_clear(&out);
    block_unref(block);
}
END_TEST

START_TEST(move_appends_everything_and_empties_the_source)
{
    struct block *block = alphabet();
    struct out to;
    struct out from;
    out_init(&to);
    out_init(&from);
    out_move(&to, &from);
    ck_assert_uint_eq(to.bytes, 0);
    out_write(&from, "abc", 3);
    out_move(&to, &from);
    out_write(&from, "def", 3);
    out_move(&to, &from);
    ck_assert_int_eq(pieces(&to), 1);
    out_write_block(&from, block, block->data, 2000);
    out_write(&from, "ghi", 3);
    out_move(&to, &from);
    ck_assert_ptr_null(from.head);
    ck_assert_uint_eq(from.bytes, 0);
    out_write(&to, "jkl", 3);
    char *got = flatten(&to);
    ck_assert_uint_eq(to.bytes, 2012);
    ck_assert_mem_eq(got, "abcdefabcdef", 12);
    ck_assert_str_eq(got + 2006, "ghijkl");
    free(got);
    out_clear(&to);
    block_unref(block);
}
END_TEST

START_TEST(iov_gives_no_more_than_asked_for)
{
    struct block *block = alphabet();
    struct iovec iov[2];
    struct out out;
    out_init(&out);
    for (size_t i = 0; i < 5; i++)
        out_write_block(&out, block, block->data + i * 3000, 2000);
    ck_assert_int_eq(out_iov(&out, iov, 0), 0);
    ck_assert_int_eq(out_iov(&out, iov, 2), 2);
    ck_assert_uint_eq(iov[0].iov_len + iov[1].iov_len, 4000);
    ck_assert_int_eq(pieces(&out), 5);
    out_clear(&out);
    block_unref(block);
}
END_TEST

START_TEST(last_finds_any_number_of_the_bytes_that_were_written_last)
{
    char text[9000], all[9000];
    struct out out;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 % 251);
    struct block *block = block_new_exact(2000);
    memcpy(block->data, text, 2000);
    out_init(&out);
    out_write_run(&out, block, block->data, 1000);
    for (size_t at = 1000; at < sizeof text - 1000; at += 100)
        out_write(&out, text + at, 100);
    ck_assert_uint_eq(out_last(&out, 100).len, 100);
    ck_assert(memcmp(out_last(&out, 100).data, text + sizeof text - 1100, 100) == 0);
    out_write_run(&out, block, block->data, 1000);
    out_copy(&out, all);
    for (size_t back = 1; back <= sizeof text; back++) {
        struct bytes last = out_last(&out, back);
        ck_assert(last.len > 0 && last.len <= back);
        ck_assert(memcmp(last.data, all + sizeof all - back, last.len) == 0);
    }
    out_clear(&out);
    block_unref(block);
}
END_TEST

/* The last bytes are looked for from the end: from the beginning this takes minutes. */
START_TEST(last_bytes_of_a_long_out_are_found_as_fast_as_those_of_a_short_one)
{
    enum { PIECES = 200000 };
    static char text[1100];
    struct block *block = block_new_exact(sizeof text);
    struct out out, more;
    out_init(&out);
    out_init(&more);
    memset(block->data, 'b', sizeof text);
    for (int i = 0; i < PIECES; i++) {
        out_write(&more, "a", 1);
        out_write_block(&more, block, block->data, sizeof text);
        out_move(&out, &more);
        ck_assert(*out_last(&out, sizeof text + 1).data == 'a');
        out_write(&out, "surplus", 7);
        out_truncate(&out, out.bytes - 7);
    }
    out_consume(&out, out.bytes - 1101);
    ck_assert(*out_last(&out, 1101).data == 'a');
    out_clear(&out);
    block_unref(block);
}
END_TEST

START_TEST(printf_writes_short_and_long_texts)
{
    static char text[5001];
    memset(text, 'x', 5000);
    struct out out;
    out_init(&out);
    out_printf(&out, "%s", "");
    ck_assert_ptr_null(out.head);
    out_printf(&out, "a=%d ", 12);
    out_printf(&out, "%s", text);
    out_printf(&out, "%.*s", OUT_COPY_MAX, text);
    out_printf(&out, "%.*s", OUT_COPY_MAX - 1, text);
    char *got = flatten(&out);
    ck_assert_uint_eq(strlen(got), 5 + 5000 + 2 * OUT_COPY_MAX - 1);
    ck_assert_mem_eq(got, "a=12 xxx", 8);
    ck_assert_uint_eq(strspn(got + 5, "x"), strlen(got) - 5);
    free(got);
    out_clear(&out);
}
END_TEST

/* Writes beyond the limit by each of the functions that write. */
static void write_over(struct out *out, int way)
{
    struct block *block = block_new(BLOCK_SIZE);
    struct out more;
    out_init(&more);
    memset(block->data, 'x', 4096);
    switch (way) {
    case 0:
        out_write(out, "12345678", 8);
        break;
    case 1:
        out_write_block(out, block, block->data, 4096);
        break;
    case 2:
        memcpy(out_reserve(out, 8), "12345678", 8);
        out_commit(out, 8);
        break;
    case 3:
        out_write(&more, "12345678", 8);
        out_move(out, &more);
        ck_assert_uint_eq(more.bytes, 0);
        break;
    default:
        out_printf(out, "%s", "12345678");
    }
    block_unref(block);
}

START_TEST(bytes_beyond_the_limit_are_dropped_by_every_write_function)
{
    for (int way = 0; way < 5; way++) {
        struct out out;
        out_init(&out);
        out_write(&out, "abc", 3);
        out_limit(&out, 8);
        out_write(&out, "defgh", 5);
        ck_assert(!out_is_over(&out));
        write_over(&out, way);
        ck_assert(out_is_over(&out));
        out_write(&out, "", 0);
        expect(&out, "abcdefgh");
        out_truncate(&out, 0);
        ck_assert(out_is_over(&out));
        out_limit(&out, 0);
        out_write(&out, "error", 5);
        write_over(&out, 0);
        expect(&out, "error12345678");
        out_clear(&out);
    }
}
END_TEST

START_TEST(frames_that_follow_each_other_in_a_block_are_not_copied)
{
    struct block *block = alphabet();
    struct iovec iov[2];
    struct out out;
    out_init(&out);
    out_write(&out, "->", 2);
    for (size_t at = 0; at < 500; at += 50)
        out_write_run(&out, block, block->data + at, 50);
    ck_assert_int_eq(out_iov(&out, iov, 2), 2);
    ck_assert_ptr_eq(iov[1].iov_base, block->data);
    ck_assert_uint_eq(iov[1].iov_len, 500);
    ck_assert_uint_eq(block->refs, 2);
    ck_assert_int_eq(out_iov(&out, iov, 1), 1);
    out_consume(&out, 100);
    ck_assert_int_eq(out_iov(&out, iov, 2), 1);
    ck_assert_ptr_eq(iov[0].iov_base, block->data + 98);
    ck_assert_uint_eq(iov[0].iov_len, 402);
    out_clear(&out);
    ck_assert_uint_eq(block->refs, 1);
    block_unref(block);
}
END_TEST

START_TEST(a_run_that_ended_is_copied_if_it_is_short)
{
    struct block *block = alphabet();
    struct out out;
    out_init(&out);
    for (size_t at = 0; at < 500; at += 50)
        out_write_run(&out, block, block->data + at, 50);
    out_end_run(&out);
    ck_assert_uint_eq(block->refs, 1);
    ck_assert_uint_eq(out.bytes, 500);
    for (size_t at = 500; at < 2500; at += 50)
        out_write_run(&out, block, block->data + at, 50);
    out_end_run(&out);
    ck_assert_uint_eq(block->refs, 2);
    ck_assert_int_eq(pieces(&out), 2);
    char *got = flatten(&out);
    ck_assert_mem_eq(got, block->data, 2500);
    free(got);
    out_clear(&out);
    ck_assert_uint_eq(block->refs, 1);
    block_unref(block);
}
END_TEST

/* Does something to an out that ends with a run; `text` are the out's bytes before, and are changed likewise. */
static void act_after_run(struct out *out, struct block *block, char *text, int way)
{
    struct out more;
    size_t len = out->bytes;
    out_init(&more);
    switch (way) {
    case 0:
        out_write(out, "12345", 5);
        memcpy(text + len, "12345", 6);
        break;
    case 1:
        out_write_block(out, block, block->data, 2000);
        memcpy(text + len, block->data, 2000);
        break;
    case 2:
        memcpy(out_reserve(out, 5), "12345", 5);
        out_commit(out, 5);
        memcpy(text + len, "12345", 6);
        break;
    case 3:
        out_write_run(&more, block, block->data + 9, 30);
        out_move(out, &more);
        memcpy(text + len, block->data + 9, 30);
        break;
    case 4:
        out_truncate(out, len - 7);
        memset(text + len - 7, 0, 7);
        break;
    case 5:
        out_cut(out, len - 7, &more);
        memset(text + len - 7, 0, 7);
        break;
    case 6:
        out_write_run(out, block, block->data + 100, 10); /* not adjacent */
        memcpy(text + len, block->data + 100, 10);
        break;
    case 7:
        out_consume(out, 3);
        memmove(text, text + 3, len - 2);
        break;
    default:
        out_limit(out, len);
        out_write_run(out, block, block->data + 40, 10);
        ck_assert(out_is_over(out));
    }
    out_clear(&more);
}

START_TEST(every_function_finds_the_bytes_of_a_run)
{
    struct block *block = alphabet();
    for (int way = 0; way <= 8; way++)
        for (size_t run = 10; run <= 5000; run += 499)
            for (int has_before = 0; has_before < 2; has_before++) {
                static char text[20000];
                struct out out;
                memset(text, 0, sizeof text);
                out_init(&out);
                if (has_before)
                    out_write(&out, "->", 2);
                out_write_run(&out, block, block->data, run);
                out_copy(&out, text);
                act_after_run(&out, block, text, way);
                expect(&out, text);
                out_end_run(&out);
                expect(&out, text);
                out_clear(&out);
                ck_assert_uint_eq(block->refs, 1);
            }
    block_unref(block);
}
END_TEST

START_TEST(what_is_taken_is_one_text_and_leaves_the_out_empty)
{
    struct block *block = alphabet();
    struct out out;
    out_init(&out);
    out_write(&out, "->", 2);
    out_write_run(&out, block, block->data, 5000);
    char *text = flatten(&out);
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        struct bytes taken = out_take(&out);
        ck_assert_uint_eq(taken.len, is_empty ? 0 : 5002);
        ck_assert_str_eq(taken.data, is_empty ? "" : text);
        ck_assert_uint_eq(out.bytes, 0);
        free((char *)taken.data);
    }
    ck_assert_uint_eq(block->refs, 1);
    block_unref(block);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("out");
    TCase *tests = tcase_create("out");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, small_writes_share_one_piece);
    tcase_add_test(tests, writes_of_every_size_keep_their_bytes);
    tcase_add_test(tests, a_long_run_of_a_block_is_referenced_and_a_short_one_copied);
    tcase_add_test(tests, adjacent_runs_of_a_block_become_one_piece);
    tcase_add_test(tests, a_reference_keeps_the_block_alive);
    tcase_add_test(tests, consuming_any_number_of_bytes_leaves_the_rest);
    tcase_add_test(tests, a_reserved_place_takes_up_to_its_size);
    tcase_add_test(tests, truncating_to_any_number_of_bytes_leaves_the_first);
    tcase_add_test(tests, cutting_anywhere_moves_the_rest_behind_what_is_there);
    tcase_add_test(tests, an_unused_place_is_not_seen_and_does_not_disturb);
    tcase_add_test(tests, move_appends_everything_and_empties_the_source);
    tcase_add_test(tests, iov_gives_no_more_than_asked_for);
    tcase_add_test(tests, last_finds_any_number_of_the_bytes_that_were_written_last);
    tcase_add_test(tests, last_bytes_of_a_long_out_are_found_as_fast_as_those_of_a_short_one);
    tcase_add_test(tests, printf_writes_short_and_long_texts);
    tcase_add_test(tests, bytes_beyond_the_limit_are_dropped_by_every_write_function);
    tcase_add_test(tests, frames_that_follow_each_other_in_a_block_are_not_copied);
    tcase_add_test(tests, a_run_that_ended_is_copied_if_it_is_short);
    tcase_add_test(tests, every_function_finds_the_bytes_of_a_run);
    tcase_add_test(tests, what_is_taken_is_one_text_and_leaves_the_out_empty);
    return suite_run(suite);
}
