/*
 * test_store_mem.c - the store in memory keeps the promises of store.h, and its crashes are as store_mem.h describes.
 */
#include "tests/sim/store_mem.h"
#include "tests/unit/store_cases.h"
#include "tests/unit/suite.h"

static void setup(void)
{
    store_mem_seed(1);
    cases_begin("db");
}

static void teardown(void)
{
    cases_end();
    store_mem_reset();
}

static void reopen_after_crash(void)
{
    store_mem_crash(store);
    ck_assert_int_eq(try_commit(true), ERR_STORE);
    struct store *dead = store;
    open_with(NULL, NULL);
    store_close(dead);
}

START_TEST(a_crash_keeps_synced_writes_and_a_prefix_of_the_others)
{
    bool was_all_lost = false, was_part_kept = false, was_all_kept = false;
    for (int round = 0; round < 200; round++) {
        effects_delete_range(batch, CF_DATA, BYTES(""), BYTES(""));
        put(CF_DATA, "0", "");
        ck_assert_int_eq(try_commit(true), OK);
        for (char name = '1'; name <= '4'; name++) {
            put(CF_DATA, (char[]){name, 0}, "");
            put(CF_METADATA, "newest", (char[]){name, 0});
            ck_assert_int_eq(try_commit(false), OK);
        }
        reopen_after_crash();
        const char *kept = walk(CF_DATA, "", "", true);
        size_t count = strlen(kept) / 2;
        ck_assert_uint_ge(count, 1);
        ck_assert(memcmp("0 1 2 3 4 ", kept, count * 2) == 0);
        was_all_lost |= count == 1;
        was_part_kept |= count > 1 && count < 5;
        was_all_kept |= count == 5;
    }
    ck_assert(was_all_lost && was_part_kept && was_all_kept);
}
END_TEST

START_TEST(a_sync_makes_all_before_it_durable)
{
    put(CF_DATA, "a", "");
    commit();
    ck_assert_int_eq(store_sync(store, error, sizeof error), OK);
    reopen_after_crash();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
    put(CF_DATA, "b", "");
    commit();
    put(CF_DATA, "c", "");
    ck_assert_int_eq(try_commit(true), OK);
    reopen_after_crash();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b c ");
}
END_TEST

START_TEST(the_same_seed_gives_the_same_crash)
{
    char first[64] = "";
    for (int run = 0; run < 2; run++) {
        store_mem_seed(7);
        effects_delete_range(batch, CF_DATA, BYTES(""), BYTES(""));
        ck_assert_int_eq(try_commit(true), OK);
        for (char name = 'a'; name <= 'z'; name++) {
            put(CF_DATA, (char[]){name, 0}, "");
            commit();
        }
        reopen_after_crash();
        if (run == 0)
            strcpy(first, walk(CF_DATA, "", "", true));
    }
    ck_assert_str_eq(walk(CF_DATA, "", "", true), first);
}
END_TEST

START_TEST(more_unsynced_writes_than_are_remembered_reach_the_disk)
{
    char key[16];
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "%04d", i);
        put(CF_DATA, key, "");
        commit();
    }
    reopen_after_crash();
    ck_assert_str_eq(get(CF_DATA, "1900"), "");
}
END_TEST

START_TEST(the_nth_write_fails_and_all_behind_it)
{
    bool is_reopened;
    store_mem_fail_next(store, 2, ERR_DISK_FULL);
    put(CF_DATA, "a", "");
    commit();
    for (int i = 0; i < 3; i++) {
        put(CF_DATA, "b", "");
        ck_assert_int_eq(try_commit(true), ERR_DISK_FULL);
    }
    ck_assert_uint_eq(store_mem_writes(store), 4);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
    store_mem_fail_recover(store, 1);
    ck_assert_int_eq(store_recover(store, &is_reopened, error, sizeof error), ERR_DISK_FULL);
    ck_assert_int_eq(store_sync(store, error, sizeof error), ERR_DISK_FULL);
    ck_assert_int_eq(store_recover(store, &is_reopened, error, sizeof error), OK);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
    put(CF_DATA, "b", "");
    commit();
}
END_TEST

/* After a crash the batch is there completely or not at all; after a recovery it is not there. */
START_TEST(a_failed_sync_may_have_written)
{
    bool is_reopened;
    int there = 0, gone = 0;
    for (int round = 0; round < 40; round++) {
        effects_delete_range(batch, CF_DATA, BYTES(""), BYTES(""));
        ck_assert_int_eq(try_commit(true), OK);
        store_mem_fail_next(store, 1, ERR_STORE);
        put(CF_DATA, "a", "");
        put(CF_DATA, "b", "");
        ck_assert_int_eq(try_commit(true), ERR_STORE);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "");
        if (round % 2)
            reopen_after_crash();
        else
            ck_assert_int_eq(store_recover(store, &is_reopened, error, sizeof error), OK);
        const char *kept = walk(CF_DATA, "", "", true);
        ck_assert(round % 2 || strcmp(kept, "") == 0);
        there += strcmp(kept, "a b ") == 0;
        gone += strcmp(kept, "") == 0;
    }
    ck_assert_int_eq(there + gone, 40);
    ck_assert_int_gt(there, 0);
    ck_assert_int_gt(gone, 0);
}
END_TEST

START_TEST(the_nth_read_fails_once)
{
    struct slice value;
    put_letters(CF_DATA);
    store_mem_fail_read(store, 2);
    ck_assert_str_eq(get(CF_DATA, "b"), "v");
    ck_assert_int_eq(store_get(store, CF_DATA, BYTES("b"), &value), ERR_STORE);
    ck_assert_str_eq(get(CF_DATA, "b"), "v");
    store_mem_fail_read(store, 1);
    struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES(""), BYTES(""));
    store_iter_seek_first(iter);
    ck_assert(!store_iter_valid(iter));
    ck_assert(store_iter_failed(iter));
    store_iter_free(iter);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("store_mem");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    cases_add(tests);
    tcase_add_test(tests, a_crash_keeps_synced_writes_and_a_prefix_of_the_others);
    tcase_add_test(tests, a_sync_makes_all_before_it_durable);
    tcase_add_test(tests, the_same_seed_gives_the_same_crash);
    tcase_add_test(tests, more_unsynced_writes_than_are_remembered_reach_the_disk);
    tcase_add_test(tests, the_nth_write_fails_and_all_behind_it);
    tcase_add_test(tests, a_failed_sync_may_have_written);
    tcase_add_test(tests, the_nth_read_fails_once);
    Suite *suite = suite_create("store_mem");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
