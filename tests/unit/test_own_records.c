/*
 * test_own_records.c - the newest records of a leader: which are there, and how much memory they take.
 */
#include "backend/replica/own_records.h"

#include "shared/check.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct own_records records;

static struct own_record *record_of(size_t bytes)
{
    char *content = calloc(1, bytes + 1);
    CHECK(content);
    struct own_record *record = own_record_new((struct bytes){content, bytes});
    free(content);
    return record;
}

static void add(uint64_t index, size_t bytes)
{
    struct own_record *record = record_of(bytes);
    own_records_add(&records, index, record);
    own_record_end(record);
}

static void check_there(uint64_t first, uint64_t last)
{
    ck_assert_uint_eq(records.count, last + 1 - first);
    ck_assert_ptr_null(own_records_at(&records, first - 1));
    ck_assert_ptr_null(own_records_at(&records, last + 1));
    for (uint64_t index = first; index <= last; index++)
        ck_assert_ptr_nonnull(own_records_at(&records, index));
}

START_TEST(records_follow_each_other)
{
    add(7, 3);
    add(8, 5);
    check_there(7, 8);
    ck_assert_uint_eq(own_records_at(&records, 8)->bytes.len, 5);
    ck_assert_uint_eq(records.bytes, 8);
    own_records_drop(&records);
    ck_assert_uint_eq(records.bytes, 0);
    ck_assert_ptr_null(own_records_at(&records, 7));
}
END_TEST

/* One between them was appended by another way: those before it are never asked for. */
START_TEST(a_gap_drops_what_lies_before_it)
{
    add(7, 3);
    add(9, 3);
    check_there(9, 9);
    own_records_drop(&records);
}
END_TEST

START_TEST(the_oldest_make_room)
{
    for (uint64_t index = 1; index <= OWN_RECORDS_MAX + 5; index++)
        add(index, 1);
    check_there(6, OWN_RECORDS_MAX + 5);
    add(OWN_RECORDS_MAX + 6, OWN_RECORDS_BYTES - 2);
    check_there(OWN_RECORDS_MAX + 4, OWN_RECORDS_MAX + 6);
    own_records_drop(&records);
}
END_TEST

/* A record that is larger than the limit is kept only as long as it is not on the disk. */
START_TEST(a_large_record_goes_with_its_sync)
{
    add(1, 10);
    add(2, OWN_RECORDS_BYTES + 1);
    check_there(2, 2);
    own_records_synced(&records, 1);
    check_there(2, 2);
    own_records_synced(&records, 2);
    ck_assert_uint_eq(records.count, 0);
    add(3, 10);
    own_records_synced(&records, 3);
    check_there(3, 3);
    own_records_drop(&records);
}
END_TEST

START_TEST(a_record_in_use_outlives_its_place)
{
    add(1, 10);
    struct own_record *used = own_record_use(own_records_at(&records, 1));
    own_records_drop(&records);
    ck_assert_uint_eq(used->uses, 1);
    ck_assert_uint_eq(used->bytes.len, 10);
    own_record_end(used);
    own_record_end(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_records");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, records_follow_each_other);
    tcase_add_test(tests, a_gap_drops_what_lies_before_it);
    tcase_add_test(tests, the_oldest_make_room);
    tcase_add_test(tests, a_large_record_goes_with_its_sync);
    tcase_add_test(tests, a_record_in_use_outlives_its_place);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
