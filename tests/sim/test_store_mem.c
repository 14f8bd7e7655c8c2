/*
 * test_store_mem.c - the store and the log in memory keep the promises of store.h and storage.h, and their crashes are as
 * store_mem.h and wal_mem.h describe.
 */
#include "tests/sim/storage_mem.h"
#include "tests/unit/store_cases.h"
#include "tests/unit/suite.h"

static void setup(void)
{
    storage_mem_seed(1);
    wal_bytes_max = WAL_MEM_LIMIT;
    cases_begin("db");
}

static void teardown(void)
{
    cases_end();
    storage_mem_reset();
}

static void reopen_after_crash(void)
{
    storage_mem_crash(storage);
    ck_assert_int_eq(try_commit(true), ERR_STORE);
    struct storage *dead = storage;
    open_with(NULL, NULL);
    storage_close(dead);
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
    ck_assert_int_eq(storage_sync(storage, error, sizeof error), OK);
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
        storage_mem_seed(7);
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
    storage_mem_fail_next(storage, 2, ERR_DISK_FULL);
    put(CF_DATA, "a", "");
    commit();
    for (int i = 0; i < 3; i++) {
        put(CF_DATA, "b", "");
        ck_assert_int_eq(try_commit(true), ERR_DISK_FULL);
    }
    ck_assert_uint_eq(wal_mem_writes(storage_wal(storage)), 4);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
    storage_mem_fail_recover(storage, 1);
    ck_assert_int_eq(storage_recover(storage, &is_reopened, error, sizeof error), ERR_DISK_FULL);
    ck_assert_int_eq(storage_sync(storage, error, sizeof error), ERR_DISK_FULL);
    ck_assert_int_eq(storage_recover(storage, &is_reopened, error, sizeof error), OK);
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
        storage_mem_fail_next(storage, 1, ERR_STORE);
        put(CF_DATA, "a", "");
        put(CF_DATA, "b", "");
        ck_assert_int_eq(try_commit(true), ERR_STORE);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "");
        if (round % 2)
            reopen_after_crash();
        else
            ck_assert_int_eq(storage_recover(storage, &is_reopened, error, sizeof error), OK);
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

/* A batch whose apply failed is in the log, so the recovery applies it. */
START_TEST(a_reopened_database_has_the_rows_of_the_log)
{
    bool is_reopened, was_lost = false, was_refused = false;
    struct slice value;
    for (int round = 0; round < 20; round++) {
        effects_delete_range(batch, CF_DATA, BYTES(""), BYTES(""));
        put(CF_DATA, "a", "");
        commit();
        store_mem_fail_apply(store, 1, ERR_STORE);
        put(CF_DATA, "b", "");
        ck_assert_int_eq(try_commit(false), ERR_STORE);
        ck_assert_int_eq(try_commit(false), ERR_STORE);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "a ");
        storage_mem_fail_recover(storage, 3);
        while (storage_recover(storage, &is_reopened, error, sizeof error) != OK) {
            ck_assert(!is_reopened || storage_is_behind(storage));
            int err = store_get(store, CF_DATA, BYTES("a"), &value);
            if (err == OK)
                slice_release(&value);
            was_refused |= err == OK;
            was_lost |= err == ERR_STORE;
        }
        ck_assert(is_reopened);
        ck_assert_str_eq(walk(CF_DATA, "", "", true), "a b ");
    }
    ck_assert(was_lost && was_refused);
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
    tcase_add_test(tests, a_reopened_database_has_the_rows_of_the_log);
    tcase_add_test(tests, the_nth_read_fails_once);
    Suite *suite = suite_create("store_mem");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
