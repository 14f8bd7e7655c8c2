/*
 * test_transaction_record.c - records of prepared transactions and the changes in them: golden bytes, records of older programs,
 * and refusal of everything that is cut.
 */
#include "backend/format/change_list.h"
#include "backend/format/transaction_record.h"
#include "shared/out.h"
#include "tests/unit/suite.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena);
}

static void teardown(void)
{
    arena_fini(&arena);
}

static const struct bytes CHANGES = {"\4self\1\3\1\0\0\0\3key\2\0\0\0\0\0\0", 22};

static struct bytes written_changes(void)
{
    struct out out;
    out_init(&out);
    change_list_begin(&out, BYTES("self"));
    change_list_put(&out, &(struct listed_change){1, 3, true, BYTES("key")});
    change_list_put(&out, &(struct listed_change){2, 0, false, BYTES("")});
    struct bytes bytes = {arena_alloc(&arena, out.bytes), out.bytes};
    out_copy(&out, (char *)bytes.data);
    out_clear(&out);
    return bytes;
}

START_TEST(changes_have_these_bytes)
{
    struct change_list list;
    struct listed_change change;
    ck_assert(bytes_equal(written_changes(), CHANGES));
    ck_assert(change_list_open(CHANGES, &list));
    ck_assert(bytes_equal(list.client, BYTES("self")));
    ck_assert(change_list_next(&list, &change));
    ck_assert(change.kind == 1 && change.type == 3 && change.by_client);
    ck_assert(bytes_equal(change.row_key, BYTES("key")));
    ck_assert(change_list_next(&list, &change));
    ck_assert(change.kind == 2 && change.type == 0 && !change.by_client && !change.row_key.len);
    ck_assert(!change_list_next(&list, &change) && !list.rest.len);
}
END_TEST

START_TEST(a_record_of_a_part_that_is_applied_has_these_bytes)
{
    static const struct bytes RECORD = {"\1\0\1\0\2", 5};
    uint32_t reported = 0;
    ck_assert(bytes_equal(encode_applying(&arena, 0x10002), RECORD));
    ck_assert(decode_applying(RECORD, &reported));
    ck_assert_uint_eq(reported, 0x10002);
    for (size_t len = 0; len < RECORD.len; len++)
        ck_assert(!decode_applying((struct bytes){RECORD.data, len}, &reported));
}
END_TEST

START_TEST(cut_changes_are_refused)
{
    for (size_t len = 1; len < CHANGES.len; len++) {
        struct change_list list;
        struct listed_change change;
        bool is_open = change_list_open((struct bytes){CHANGES.data, len}, &list);
        while (is_open && change_list_next(&list, &change))
            ;
        bool is_whole_change = len == 5 || len == 15;
        ck_assert(is_open == (len >= 5));
        ck_assert(!is_open || !list.rest.len == is_whole_change);
    }
}
END_TEST

START_TEST(a_prepared_transaction_keeps_its_changes)
{
    struct bytes effects;
    struct bytes changes;
    struct bytes row = encode_prepared(&arena, BYTES("effects"), CHANGES);
    ck_assert(bytes_equal((struct bytes){row.data, 5}, BYTES("\2\0\0\0\x16")));
    ck_assert(decode_prepared(row, &effects, &changes));
    ck_assert(bytes_equal(effects, BYTES("effects")) && bytes_equal(changes, CHANGES));
    for (size_t len = 0; len < 5 + CHANGES.len; len++)
        ck_assert(!decode_prepared((struct bytes){row.data, len}, &effects, &changes));
}
END_TEST

START_TEST(a_record_of_an_older_program_has_no_changes)
{
    struct bytes effects;
    struct bytes changes;
    struct change_list list;
    struct listed_change change;
    ck_assert(decode_prepared(BYTES("\1effects"), &effects, &changes));
    ck_assert(bytes_equal(effects, BYTES("effects")));
    ck_assert(change_list_open(changes, &list) && !change_list_next(&list, &change));
    ck_assert(!list.rest.len);
    ck_assert(!decode_prepared(BYTES("\3effects"), &effects, &changes));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transaction_record");
    TCase *tests = tcase_create("prepared");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, changes_have_these_bytes);
    tcase_add_test(tests, a_record_of_a_part_that_is_applied_has_these_bytes);
    tcase_add_test(tests, cut_changes_are_refused);
    tcase_add_test(tests, a_prepared_transaction_keeps_its_changes);
    tcase_add_test(tests, a_record_of_an_older_program_has_no_changes);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
