/*
 * test_replica_log.c - the log of a copy's core: updates are carried out in order, on a disk that fails.
 */
#include "backend/replica/replica_log.h"

#include "backend/replica/own_records.h"
#include "shared/byte_order.h"
#include "shared/net/loop.h"
#include "tests/sized.h"
#include "tests/unit/await.h"
#include "tests/unit/replica_log_fixture.h"

enum { RECORDS_MAX = 4096, SENT_MAX = 20 };

/* ---- updates ----------------------------------------------------------------------------------- */

static struct loop *loop;
static struct await await;
static struct timer *tick;
static struct replica_log *log_of_core;
/* The core: the term of each record, how often the end was cut, and what it was told. */
static uint64_t core_terms[RECORDS_MAX], core_last, core_durable;
static uint32_t core_cuts;
static unsigned syncs, failures, rooms;
static bool is_full, is_over, is_pausing;

static void on_synced(void *owner, uint64_t upto, uint32_t cuts)
{
    ck_assert_ptr_eq(owner, &await);
    syncs++;
    if (cuts != core_cuts)
        return;
    ck_assert_uint_le(upto, core_last);
    ck_assert_uint_ge(upto, core_durable);
    core_durable = upto;
}

static void on_not_written(void *owner, uint64_t last, bool is_for_space)
{
    ck_assert_ptr_eq(owner, &await);
    ck_assert_uint_le(core_durable, last);
    ck_assert_uint_le(last, core_last);
    failures++;
    is_full = is_for_space;
    if (last < core_last) {
        core_last = last;
        core_cuts++;
    }
    replica_log_sync(log_of_core, core_cuts);
}

static void on_room(void *owner)
{
    ck_assert_ptr_eq(owner, &await);
    rooms++;
}

static void set_flag(void *owner)
{
    *(bool *)owner = true;
}

static void setup(void)
{
    static const struct replica_log_events events = {on_synced, on_not_written, on_room};
    replica_setup();
    loop = loop_new();
    await_init(&await, loop);
    tick = timer_new(loop, set_flag, &is_over);
    log_of_core = replica_log_new(loop, storage, &events, &await);
    core_last = core_durable = 0;
    core_cuts = 0;
    syncs = failures = rooms = 0;
    is_pausing = false;
}

static void teardown(void)
{
    disk_heal();
    replica_log_free(log_of_core);
    timer_free(tick);
    loop_free(loop);
    replica_teardown();
}

/* The core cuts its log behind `after`, and appends records; it was given `known` ones before them. */
static void give(uint64_t after, unsigned count, uint64_t term, unsigned known)
{
    static char records[64 << 10];
    struct consensus_update update = {.has_truncate = after < core_last, .truncate_after = after};
    struct consensus_message message = {.index = after - known, .count = known + count};
    size_t len = 0;
    core_cuts += update.has_truncate;
    core_last = after;
    core_durable = core_durable < after ? core_durable : after;
    for (unsigned i = 1; i <= known + count; i++) {
        struct bytes record = record_of(message.index + i, term, 0, 0);
        ck_assert_uint_le(len + 4 + record.len, sizeof records);
        put_le32(records + len, (uint32_t)record.len);
        memcpy(records + len + 4, record.data, record.len);
        len += 4 + record.len;
        if (i > known)
            core_terms[++core_last] = term;
    }
    update.append = count ? CONSENSUS_APPEND_RECORDS : CONSENSUS_APPEND_NONE;
    update.append_first = after + 1;
    update.append_last = core_last;
    update.cuts = core_cuts;
    const struct replica_heard heard = {.message = &message, .records = {records, len}};
    replica_log_obey(log_of_core, &update, &heard);
}

/* A record of the copy itself, which leads. */
static void give_own(uint64_t term)
{
    struct own_record *record = own_record_new(record_of(core_last + 1, term, 0, 0));
    core_terms[++core_last] = term;
    replica_log_append(log_of_core, core_last, record, core_cuts);
    own_record_end(record);
}

static void end_pause(void *owner)
{
    *(bool *)owner = false;
    replica_log_go_on(log_of_core);
}

/* The next attempt, without its wait. */
static void hurry(void)
{
    if (is_pausing)
        return;
    is_pausing = true;
    replica_log_pause(log_of_core, end_pause, &is_pausing);
}

static bool is_durable(void *owner)
{
    (void)owner;
    return core_durable == core_last;
}

static void await_durable(void)
{
    hurry();
    ck_assert(await_until(&await, is_durable, NULL));
}

static bool has_failed(void *owner)
{
    return failures > *(unsigned *)owner;
}

static void await_failure(void)
{
    unsigned before = failures;
    hurry();
    ck_assert(await_until(&await, has_failed, &before));
}

static void run_a_turn(void)
{
    is_over = false;
    timer_start(tick, 1, 0);
    ck_assert(await_until(&await, await_flag, &is_over));
}

/* The WAL has the records of the core, before and after another start. */
static void check_wal(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct wal_cursor *cursor = wal_cursor_new(storage_wal(storage), 1);
        struct effects_header header;
        struct effects_reader reader;
        struct bytes record;
        uint64_t index;
        ck_assert_uint_eq(storage_written(storage), core_last);
        for (uint64_t wanted = 1; wanted <= core_last; wanted++) {
            ck_assert_int_eq(wal_cursor_next(cursor, &index, &record, error, sizeof error), OK);
            ck_assert_int_eq(effects_open(record, &header, &reader), EFFECTS_READ);
            ck_assert_uint_eq(header.index, wanted);
            ck_assert_uint_eq(header.term, core_terms[wanted]);
        }
        wal_cursor_free(cursor);
        if (i == 0)
            reopen();
    }
}

/* The log must not be used after it: the storage is another one. */
static void end_log(void)
{
    replica_log_free(log_of_core);
    log_of_core = NULL;
    check_wal();
}

START_TEST(updates_are_carried_out_in_order)
{
    give(0, 3, 1, 0);
    await_durable();
    give(3, 2, 2, 2);
    give(4, 3, 3, 1);
    give(6, 0, 3, 0);
    give(6, 1, 5, 0);
    await_durable();
    ck_assert_uint_eq(core_last, 7);
    ck_assert_uint_eq(failures, 0);
    end_log();
}
END_TEST

START_TEST(all_updates_of_a_turn_share_a_sync)
{
    for (unsigned i = 0; i < 20; i++)
        give(core_last, 1, 1, 0);
    give(core_last - 1, 1, 2, 0);
    ck_assert_uint_gt(replica_log_waiting(log_of_core), 20 * BIG_BYTES);
    await_durable();
    ck_assert_uint_eq(replica_log_waiting(log_of_core), 0);
    ck_assert_uint_eq(syncs, 1);
    end_log();
}
END_TEST

START_TEST(a_probe_has_its_numbers_and_no_rows)
{
    struct effects_header header;
    struct effects_reader reader;
    struct bytes record;
    uint64_t index;
    give(0, 2, 1, 0);
    await_durable();
    const struct consensus_update update = {.append = CONSENSUS_APPEND_PROBE,
                                            .append_first = 3,
                                            .append_last = 3,
                                            .term = 9,
                                            .committed = 2};
    core_terms[++core_last] = 9;
    replica_log_obey(log_of_core, &update, NULL);
    await_durable();
    struct wal_cursor *cursor = wal_cursor_new(storage_wal(storage), 3);
    ck_assert_int_eq(wal_cursor_next(cursor, &index, &record, error, sizeof error), OK);
    ck_assert_int_eq(effects_open(record, &header, &reader), EFFECTS_READ);
    ck_assert_int_eq(header.type, EFFECTS_PROBE);
    ck_assert_uint_eq(header.commit, 2);
    ck_assert_uint_eq(header.count, 0);
    wal_cursor_free(cursor);
    end_log();
}
END_TEST

START_TEST(an_update_that_changes_no_record_needs_no_sync)
{
    const struct consensus_update update = {.term = 3, .has_save = true};
    replica_log_obey(log_of_core, &update, NULL);
    run_a_turn();
    ck_assert_uint_eq(syncs, 0);
}
END_TEST

/* ---- failures ---------------------------------------------------------------------------------- */

static void fail_disk(int cause, bool fails_write)
{
    disk.fail_after = 0;
    if (fails_write)
        disk.fail_write = cause;
    else
        disk.fail_sync = cause;
    disk.fail_files = ".batches";
}

START_TEST(records_that_could_not_be_written_are_void)
{
    give(0, 4, 1, 0);
    await_durable();
    fail_disk(_i % 2 ? EIO : ENOSPC, _i < 2);
    give(4, 2, 2, 0);
    await_failure();
    ck_assert_uint_eq(core_last, 4);
    ck_assert(is_full == (_i % 2 == 0));
    give(4, 1, 3, 0);
    await_failure();
    ck_assert_uint_eq(core_last, 4);
    ck_assert_uint_eq(rooms, 0);
    disk_heal();
    give(4, 3, 4, 0);
    await_durable();
    ck_assert_uint_eq(core_last, 7);
    ck_assert_uint_eq(rooms, 1);
    end_log();
}
END_TEST

START_TEST(a_cut_that_waited_when_the_disk_failed_is_made_later)
{
    give(0, 4, 1, 0);
    await_durable();
    fail_disk(EIO, false);
    give(4, 2, 2, 0);
    await_failure();
    fail_disk(EIO, true);
    give(2, 0, 0, 0);
    await_failure();
    await_failure();
    ck_assert_uint_eq(core_last, 2);
    disk_heal();
    await_durable();
    ck_assert_uint_eq(core_last, 2);
    give(2, 1, 7, 0);
    await_durable();
    end_log();
}
END_TEST

START_TEST(a_sync_that_fails_alone_loses_no_record)
{
    give(0, 4, 1, 0);
    await_durable();
    replica_log_free(log_of_core);
    append(1, 0, 0);
    wal_show(storage_wal(storage));
    core_terms[++core_last] = 1;
    static const struct replica_log_events events = {on_synced, on_not_written, on_room};
    log_of_core = replica_log_new(loop, storage, &events, &await);
    fail_disk(EIO, false);
    replica_log_sync(log_of_core, core_cuts);
    await_failure();
    ck_assert_uint_eq(core_last, 5);
    disk_heal();
    await_durable();
    end_log();
}
END_TEST

START_TEST(own_records_are_written_in_order_with_others)
{
    give(0, 2, 1, 0);
    give_own(2);
    give_own(2);
    ck_assert_uint_gt(replica_log_waiting(log_of_core), 2 * BIG_BYTES);
    await_durable();
    give_own(2);
    give(4, 1, 3, 0);
    await_durable();
    ck_assert_uint_eq(replica_log_waiting(log_of_core), 0);
    end_log();
}
END_TEST

START_TEST(nothing_is_written_during_a_pause)
{
    bool is_paused = false, is_reopened;
    give(0, 2, 1, 0);
    run_a_turn();
    give(2, 1, 1, 0);
    replica_log_pause(log_of_core, set_flag, &is_paused);
    ck_assert(await_until(&await, await_flag, &is_paused));
    give(3, 2, 2, 0);
    uint64_t written = storage_written(storage);
    run_a_turn();
    ck_assert_uint_eq(storage_written(storage), written);
    ck_assert_uint_eq(storage_logged(storage), written);
    ck_assert_int_eq(storage_recover(storage, &is_reopened, error, sizeof error), OK);
    replica_log_go_on(log_of_core);
    await_durable();
    ck_assert_uint_eq(failures, 0);
    end_log();
}
END_TEST

START_TEST(the_end_waits_for_the_job_and_drops_what_waits)
{
    give(0, 2, 1, 0);
    run_a_turn();
    give(2, 1, 1, 0);
    replica_log_free(log_of_core);
    log_of_core = NULL;
    unsigned before = syncs;
    run_a_turn();
    ck_assert_uint_eq(syncs, before);
    ck_assert_uint_le(storage_written(storage), 2);
}
END_TEST

/* ---- at random --------------------------------------------------------------------------------- */

static void fail_at_random(void)
{
    fail_disk(disk_random(2) ? EIO : ENOSPC, disk_random(2));
    disk.fail_after = (unsigned)disk_random(8);
    disk.fail_half = disk_random(2);
}

static void step_at_random(uint64_t *term)
{
    uint64_t cut = disk_random(4) == 0 ? disk_random(4) : 0;
    uint64_t after = core_last - (cut < core_last ? cut : 0);
    unsigned known = (unsigned)disk_random(3);
    *term += disk_random(2);
    if (core_last + 8 < RECORDS_MAX)
        give(after, (unsigned)disk_random(6), *term, known < after ? known : 0);
    if (core_last + 8 < RECORDS_MAX && disk_random(2))
        give_own(*term);
    if (disk_random(3) == 0)
        run_a_turn();
    if (disk_random(6) == 0)
        fail_at_random();
    if (disk_random(3) == 0)
        disk_heal();
    if (disk_random(3) == 0)
        hurry();
}

static void live_at_random(uint64_t seed)
{
    uint64_t term = 1;
    disk.random = seed;
    for (unsigned i = 0; i < 100; i++)
        step_at_random(&term);
    disk_heal();
    await_durable();
    end_log();
}

/* No record that the core was told is durable is lost, and in the end the WAL has what the core has. */
START_TEST(the_log_is_the_cores_on_a_disk_that_fails)
{
    for (unsigned seed = 1; seed <= sized(12); seed++) {
        live_at_random(seed);
        teardown();
        setup();
    }
}
END_TEST

/* ---- with a core ------------------------------------------------------------------------------- */

/* The core of a follower, and all that its leaders have said: the terms of the newest leader's records, and how many are committed. */
static struct consensus core;
static uint64_t leader_terms[RECORDS_MAX], leader_last, leader_term, leader_commit;
static uint64_t now_us;

/* The core takes the event, and all that it wants is done. */
static void step(struct consensus_event event, const struct replica_heard *heard)
{
    struct consensus_update update;
    event.now_us = ++now_us;
    consensus_step(&core, &event, &update);
    ck_assert_int_eq(update.fault, CONSENSUS_WELL);
    ck_assert_uint_le(core.committed, leader_commit);
    replica_log_obey(log_of_core, &update, heard);
    if (event.kind == CONSENSUS_NOT_WRITTEN)
        replica_log_sync(log_of_core, update.cuts);
    if (!update.has_save)
        return;
    promised.term = update.save_term;
    promised.vote = update.save_vote;
    step((struct consensus_event){.kind = CONSENSUS_SAVED}, NULL);
}

static void tell_synced(void *owner, uint64_t upto, uint32_t cuts)
{
    (void)owner;
    step((struct consensus_event){.kind = CONSENSUS_SYNCED, .index = upto, .cuts = cuts}, NULL);
}

static void tell_not_written(void *owner, uint64_t last, bool is_for_space)
{
    (void)owner, (void)is_for_space;
    step((struct consensus_event){.kind = CONSENSUS_NOT_WRITTEN, .index = last}, NULL);
}

static void tell_nothing(void *owner)
{
    (void)owner;
}

static void start_core(void)
{
    static const struct replica_log_events events = {tell_synced, tell_not_written, tell_nothing};
    enum replica_log_found result = read_log();
    ck_assert_msg(result == REPLICA_LOG_READ, "%d: %s", result, error);
    core = core_of_found();
    is_pausing = false;
    log_of_core = replica_log_new(loop, storage, &events, NULL);
    replica_log_sync(log_of_core, core.cuts);
}

/* A leader of a later term has all that is committed; then leaders append, and commit records of their own. */
static void lead_at_random(void)
{
    if (disk_random(5) == 0) {
        leader_last -= disk_random(leader_last - leader_commit + 1);
        leader_term += 1 + disk_random(2);
        leader_terms[++leader_last] = leader_term;
    }
    for (uint64_t left = disk_random(4); left && leader_last + 1 < RECORDS_MAX; left--)
        leader_terms[++leader_last] = leader_term;
    uint64_t index = leader_last - disk_random(4);
    if (disk_random(3) == 0 && index > leader_commit && leader_terms[index] == leader_term)
        leader_commit = index;
}

/* The last record that the core has too. */
static uint64_t end_of_equal(void)
{
    uint64_t at = core.last < leader_last ? core.last : leader_last;
    while (at > core.committed && consensus_term_at(&core, at) != leader_terms[at])
        at--;
    return at;
}

/* An APPEND with some records of one term, from anywhere or from where the core's log differs. */
static void send_at_random(void)
{
    static char records[SENT_MAX * (BIG_BYTES + 200)];
    size_t len = 0;
    uint64_t before = disk_random(3) ? end_of_equal() : 1 + disk_random(leader_last);
    struct consensus_message message = {.kind = CONSENSUS_APPEND,
                                        .from = OTHER_ID,
                                        .to = OWN_ID,
                                        .term = leader_term,
                                        .index = before,
                                        .index_term = leader_terms[before],
                                        .commit = leader_commit,
                                        .sent_us = ++now_us};
    for (uint64_t i = before + 1; i <= leader_last && message.count < SENT_MAX && disk_random(5);
         i++) {
        if (message.count && leader_terms[i] != message.records_term)
            break;
        message.count++;
        message.records_term = leader_terms[i];
        struct bytes record =
            record_of(i, leader_terms[i], core.committed < i ? core.committed : i, 0);
        put_le32(records + len, (uint32_t)record.len);
        memcpy(records + len + 4, record.data, record.len);
        len += 4 + record.len;
    }
    const struct replica_heard heard = {.message = &message, .records = {records, len}};
    step((struct consensus_event){.kind = CONSENSUS_MESSAGE, .message = &message}, &heard);
}

static bool is_core_durable(void *owner)
{
    (void)owner;
    return core.synced == core.last;
}

/* The process ends, at once or when all is durable, and another one starts: it finds what was durable, and everything if nothing waited. */
static void restart_at_random(void)
{
    bool waits = disk_random(2);
    disk_heal();
    hurry();
    if (waits)
        ck_assert(await_until(&await, is_core_durable, NULL));
    replica_log_free(log_of_core);
    struct consensus before = core;
    reopen();
    if (disk_random(2))
        storage_keep(storage, 1 << 30, 0, 0);
    if (disk_random(3) == 0)
        ck_assert_int_eq(storage_flush(storage, error, sizeof error), OK);
    start_core();
    ck_assert_uint_ge(core.last, before.synced);
    ck_assert_uint_le(core.committed, leader_commit);
    for (uint64_t i = term_runs_base(&core.runs); i <= before.synced; i++)
        if (i >= term_runs_base(&before.runs))
            ck_assert_uint_eq(consensus_term_at(&core, i), consensus_term_at(&before, i));
    if (waits)
        ck_assert_uint_eq(core.last, before.last);
}

/* What is committed has the leaders' terms. */
static void check_committed(void)
{
    for (uint64_t i = term_runs_base(&core.runs); i <= core.committed; i++)
        ck_assert_uint_eq(consensus_term_at(&core, i), leader_terms[i]);
}

static void follow_at_random(uint64_t seed)
{
    replica_log_free(log_of_core);
    found_group(0);
    sync_log();
    reopen();
    leader_terms[1] = leader_term = leader_last = leader_commit = now_us = 1;
    start_core();
    disk.random = seed;
    for (unsigned i = 0; i < 300; i++) {
        lead_at_random();
        send_at_random();
        if (disk_random(3) == 0)
            run_a_turn();
        if (disk_random(10) == 0)
            fail_at_random();
        if (disk_random(6) == 0)
            disk_heal();
        if (disk_random(4) == 0)
            hurry();
        if (disk_random(20) == 0)
            storage_commit(storage, core.committed);
        if (disk_random(50) == 0)
            restart_at_random();
        check_committed();
    }
}

START_TEST(a_core_follows_its_leaders_on_a_disk_that_fails)
{
    for (unsigned seed = 1; seed <= sized(12); seed++) {
        follow_at_random(seed);
        teardown();
        setup();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica_log");
    TCase *tests = tcase_create("replica_log");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, updates_are_carried_out_in_order);
    tcase_add_test(tests, all_updates_of_a_turn_share_a_sync);
    tcase_add_test(tests, a_probe_has_its_numbers_and_no_rows);
    tcase_add_test(tests, an_update_that_changes_no_record_needs_no_sync);
    tcase_add_loop_test(tests, records_that_could_not_be_written_are_void, 0, 4);
    tcase_add_test(tests, a_cut_that_waited_when_the_disk_failed_is_made_later);
    tcase_add_test(tests, a_sync_that_fails_alone_loses_no_record);
    tcase_add_test(tests, own_records_are_written_in_order_with_others);
    tcase_add_test(tests, nothing_is_written_during_a_pause);
    tcase_add_test(tests, the_end_waits_for_the_job_and_drops_what_waits);
    tcase_add_test(tests, the_log_is_the_cores_on_a_disk_that_fails);
    tcase_add_test(tests, a_core_follows_its_leaders_on_a_disk_that_fails);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
