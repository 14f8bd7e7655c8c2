/*
 * test_replica_log_read.c - what the start of a copy finds in its WAL: terms, members, where the log begins, and that records are gone.
 */
#include "backend/wal/wal_number.h"
#include "tests/unit/replica_log_fixture.h"

enum { READ_TERMS_MAX = 300 };

/* The core has the term of each record, from the base on. */
static void check_terms(uint64_t base, const uint64_t *terms, uint64_t last)
{
    enum replica_log_found result = read_log();
    ck_assert_msg(result == REPLICA_LOG_READ, "%d: %s", result, error);
    struct consensus core = core_of_found();
    ck_assert_uint_eq(term_runs_base(&core.runs), base);
    ck_assert_uint_eq(core.last, last);
    for (uint64_t index = base; index <= last; index++)
        ck_assert_uint_eq(consensus_term_at(&core, index), terms[index]);
}

static void check_refused(enum replica_log_found wanted, const char *text)
{
    enum replica_log_found result = read_log();
    ck_assert_msg(result == wanted && strstr(error, text), "%d: %s", result, error);
}

START_TEST(a_store_without_a_group_has_an_empty_log)
{
    promised.group = 0;
    append_committed(0, 1);
    sync_log();
    ck_assert_int_eq(read_log(), REPLICA_LOG_READ);
    ck_assert_uint_eq(found.last, 0);
    ck_assert_uint_eq(core_of_found().members.count, 0);
}
END_TEST

START_TEST(a_store_of_a_group_with_the_file_of_none_is_lost)
{
    found_group(0);
    sync_log();
    reopen();
    promised.group = 0;
    check_refused(REPLICA_LOG_LOST, "is of a group");
}
END_TEST

/* Crashes between the steps of founding: the file, the record, the file again with its index. */
START_TEST(the_log_begins_with_the_record_that_founded_the_group)
{
    static const uint64_t terms[] = {0, 0, 0, 1};
    append_committed(0, 2);
    sync_log();
    check_refused(REPLICA_LOG_UNFOUNDED, "generation 2");
    ck_assert_uint_eq(found.last, 2);
    found_group(0);
    sync_log();
    reopen();
    check_terms(3, terms, 3);
    ck_assert_uint_eq(found.committed, 3);
    promised.base = promised.committed = 3;
    promised.base_term = 1;
    check_terms(3, terms, 3);
}
END_TEST

START_TEST(a_group_that_is_being_forced_is_unfounded_and_a_later_one_is_another)
{
    found_group(0);
    sync_log();
    reopen();
    promised.generation = GENERATION + 1;
    check_refused(REPLICA_LOG_UNFOUNDED, "generation 3");
    promised.generation = GENERATION - 1;
    check_refused(REPLICA_LOG_LOST, "another group");
    promised.generation = GENERATION;
    promised.group++;
    check_refused(REPLICA_LOG_LOST, "another group");
}
END_TEST

/* Records of random terms; some are big, so segments begin anywhere. */
START_TEST(each_record_has_its_term)
{
    static uint64_t terms[READ_TERMS_MAX];
    disk.random = (uint64_t)_i + 1;
    uint64_t last = 1 + disk_random(4);
    found_group((unsigned)last - 1);
    terms[last] = 1;
    for (uint64_t left = disk_random(READ_TERMS_MAX - 10); left; left--, last++) {
        terms[last + 1] = terms[last] + (disk_random(12) == 0) * (1 + disk_random(3));
        append_committed(terms[last + 1], 1);
        if (disk_random(4) == 0)
            sync_log();
    }
    sync_log();
    reopen();
    uint64_t base = wal_first(storage_wal(storage));
    check_terms(terms[base] ? base : last, terms, last);
}
END_TEST

/* Changes a byte of a file of the store. */
static void damage_file(const char *name, off_t at)
{
    char path[512], byte;
    (void)snprintf(path, sizeof path, "%s/%s", db, name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

/* ... of the segment that begins with `first`. */
static void damage(uint64_t first, off_t at)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%020llu.batches", (unsigned long long)first);
    damage_file(name, at);
}

/* Six segments of the same term, and a damaged record in the middle of one: it is not read. */
START_TEST(segments_of_one_term_are_not_read_whole)
{
    static const uint64_t terms[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t firsts[6];
    found_group(0);
    for (unsigned i = 1; i < 18; i++) {
        append_committed(1, 1);
        sync_log();
    }
    ck_assert_uint_eq(wal_firsts(storage_wal(storage), firsts, 6), 6);
    reopen();
    damage(firsts[2], 2 * BIG_BYTES);
    check_terms(1, terms, 18);
    damage(firsts[5], BIG_BYTES / 2);
    check_refused(REPLICA_LOG_FAILED, "");
}
END_TEST

START_TEST(terms_that_fall_are_refused)
{
    found_group(0);
    append_committed(3, 2);
    append_committed(2, 1);
    sync_log();
    reopen();
    check_refused(REPLICA_LOG_FAILED, "term is too low");
}
END_TEST

/* Of the terms that are committed, the oldest are forgotten. */
START_TEST(too_many_terms_are_forgotten_if_they_are_committed)
{
    found_group(0);
    for (uint64_t term = 2; term <= TERM_RUNS_MAX + 10; term++)
        append_committed(term, 1);
    sync_log();
    reopen();
    ck_assert_int_eq(read_log(), REPLICA_LOG_READ);
    ck_assert_uint_eq(found.runs.count, TERM_RUNS_MAX);
    ck_assert_uint_eq(term_runs_base(&found.runs), 11);
    (void)core_of_found();
    for (uint64_t term = TERM_RUNS_MAX + 11; term <= 2 * TERM_RUNS_MAX + 10; term++)
        append_tail(term, 1);
    sync_log();
    check_refused(REPLICA_LOG_FAILED, "not known to be committed");
}
END_TEST

/* ---- members ----------------------------------------------------------------------------------- */

static void check_members(uint64_t index, uint64_t epoch, uint64_t epoch_before)
{
    ck_assert_int_eq(read_log(), REPLICA_LOG_READ);
    ck_assert_uint_eq(found.members.index, index);
    ck_assert_uint_eq(found.members.epoch, epoch);
    ck_assert_uint_eq(found.members.count, 2);
    ck_assert_uint_eq(found.members.list[1].id, OTHER_ID);
    ck_assert_int_eq(found.members.list[1].kind, CONSENSUS_LEARNER);
    ck_assert_uint_eq(found.members_before.epoch, epoch_before);
    if (epoch_before)
        ck_assert_uint_eq(found.named_before.named.epoch, epoch_before);
    ck_assert_uint_eq(found.named.named.epoch, epoch);
    ck_assert(bytes_equal(found.named.named.list[1].address, BYTES("host-of-b:7402")));
    (void)core_of_found();
}

START_TEST(the_newest_members_are_found_and_those_before_if_it_may_be_cut)
{
    found_group(3);
    append_committed(1, 2);
    sync_log();
    reopen();
    check_members(6, 5, 0);
    append_tail(1, 1);
    append(1, 0, 6);
    append_tail(2, 1);
    sync_log();
    reopen();
    check_members(8, 6, 5);
    append(2, 0, 7);
    sync_log();
    reopen();
    check_members(10, 7, 6);
    promised.committed = 10;
    check_members(10, 7, 0);
}
END_TEST

START_TEST(members_that_are_damaged_are_refused)
{
    found_group(0);
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(batch, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), BYTES("?"));
    effects_set_numbers(batch, 2, 1, 0);
    uint64_t index;
    ck_assert_int_eq(storage_append(storage, effects_bytes(batch), &index, error, sizeof error),
                     OK);
    sync_log();
    reopen();
    check_refused(REPLICA_LOG_FAILED, "members are damaged");
}
END_TEST

/* ---- base -------------------------------------------------------------------------------------- */

/* The tail is the first record of a segment, and all before are applied: the log begins with one of these all the same. */
START_TEST(a_trimmed_log_begins_with_a_record_that_is_committed)
{
    static uint64_t terms[32];
    uint64_t last = 1;
    found_group(0);
    for (terms[1] = 1; wal_firsts(storage_wal(storage), NULL, 0) < 3; last++) {
        sync_log();
        terms[last + 1] = 1 + last / 3;
        append(terms[last + 1], last, 0);
        sync_log();
    }
    reopen();
    ck_assert_uint_eq(storage_committed(storage), last - 1);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    reopen();
    uint64_t first = wal_first(storage_wal(storage));
    ck_assert_uint_gt(first, 1);
    ck_assert_uint_lt(first, last);
    check_terms(first, terms, last);
    ck_assert_uint_lt(found.committed, last);
}
END_TEST

/* Segments that were trimmed and are kept are a part of the log, unless they are damaged. */
START_TEST(a_log_begins_with_what_is_kept)
{
    static const uint64_t terms[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3};
    char path[256];
    storage_keep(storage, 1 << 30, 0, 0);
    found_group(2);
    for (uint64_t index = 4; index <= 12; index++) {
        append_committed(terms[index], 1);
        sync_log();
    }
    reopen();
    storage_keep(storage, 1 << 30, 0, 0);
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    reopen();
    uint64_t present = wal_first(storage_wal(storage));
    ck_assert_uint_gt(present, 6);
    check_terms(3, terms, 12);
    (void)snprintf(path, sizeof path, "kept/%020d.batches", 1);
    damage_file(path, BIG_BYTES);
    check_terms(present, terms, 12);
}
END_TEST

START_TEST(the_log_begins_behind_the_base_of_the_file)
{
    static const uint64_t terms[] = {0, 1, 1, 2, 2, 3};
    found_group(0);
    append_committed(1, 1);
    append_committed(2, 2);
    append_tail(3, 1);
    sync_log();
    reopen();
    promised.base = promised.committed = 3;
    promised.base_term = 2;
    check_terms(3, terms, 5);
    promised.base_term = 1;
    check_refused(REPLICA_LOG_LOST, "record 3");
}
END_TEST

/* As a snapshot without any record of the WAL leaves it. */
START_TEST(a_log_without_records_begins_where_the_file_says)
{
    static const uint64_t terms[] = {0, 0, 4};
    char command[256];
    found_group(1);
    sync_log();
    reopen();
    ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    storage_close(storage);
    (void)snprintf(command, sizeof command, "rm %s/*.batches", db);
    ck_assert_int_eq(system(command), 0);
    ck_assert(wal_number_write(db, WAL_FILED, 2, true));
    open_storage();
    promised.base = promised.committed = 2;
    promised.base_term = 4;
    check_terms(2, terms, 2);
    promised.base = 1;
    check_refused(REPLICA_LOG_LOST, "record 1");
}
END_TEST

START_TEST(a_log_that_is_shorter_than_what_was_committed_is_lost)
{
    found_group(0);
    append_committed(1, 3);
    sync_log();
    reopen();
    promised.committed = 5;
    check_refused(REPLICA_LOG_LOST, "records up to 5 were committed, and the log ends with 4");
    promised.committed = 0;
    promised.base = 5;
    promised.base_term = 1;
    check_refused(REPLICA_LOG_LOST, "ends with 4");
}
END_TEST

START_TEST(a_log_whose_end_was_damaged_before_it_was_durable_is_read)
{
    found_group(0);
    sync_log();
    append_tail(1, 8);
    sync_log(); /* the records were written before it */
    storage_close(storage);
    damage(1, BIG_BYTES);
    open_storage();
    ck_assert(storage_has_lost(storage) && !storage_has_lost_durable(storage));
    ck_assert_int_eq(read_log(), REPLICA_LOG_READ);
}
END_TEST

START_TEST(a_log_whose_durable_end_is_damaged_is_lost)
{
    found_group(0);
    for (unsigned i = 0; i < 8; i++) {
        append_committed(1, 1);
        sync_log();
    }
    storage_close(storage);
    damage(1, BIG_BYTES);
    open_storage();
    check_refused(REPLICA_LOG_LOST, "damaged");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica_log_read");
    TCase *tests = tcase_create("replica_log_read");
    tcase_add_checked_fixture(tests, replica_setup, replica_teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_store_without_a_group_has_an_empty_log);
    tcase_add_test(tests, a_store_of_a_group_with_the_file_of_none_is_lost);
    tcase_add_test(tests, the_log_begins_with_the_record_that_founded_the_group);
    tcase_add_test(tests, a_group_that_is_being_forced_is_unfounded_and_a_later_one_is_another);
    tcase_add_loop_test(tests, each_record_has_its_term, 0, 12);
    tcase_add_test(tests, segments_of_one_term_are_not_read_whole);
    tcase_add_test(tests, terms_that_fall_are_refused);
    tcase_add_test(tests, too_many_terms_are_forgotten_if_they_are_committed);
    tcase_add_test(tests, the_newest_members_are_found_and_those_before_if_it_may_be_cut);
    tcase_add_test(tests, members_that_are_damaged_are_refused);
    tcase_add_test(tests, a_trimmed_log_begins_with_a_record_that_is_committed);
    tcase_add_test(tests, a_log_begins_with_what_is_kept);
    tcase_add_test(tests, the_log_begins_behind_the_base_of_the_file);
    tcase_add_test(tests, a_log_without_records_begins_where_the_file_says);
    tcase_add_test(tests, a_log_that_is_shorter_than_what_was_committed_is_lost);
    tcase_add_test(tests, a_log_whose_end_was_damaged_before_it_was_durable_is_read);
    tcase_add_test(tests, a_log_whose_durable_end_is_damaged_is_lost);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
