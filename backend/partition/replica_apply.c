#include "backend/partition/replica_apply.h"

#include "backend/context/partition.h"
#include "backend/dispatch/blocking.h"
#include "backend/format/compare_row.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"
#include "backend/partition/compare.h"
#include "backend/partition/copy_age.h"
#include "backend/partition/copy_pause.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/shards.h"
#include "backend/session/reply_stream.h"
#include "backend/session/tracking.h"
#include "backend/storage/orphan_hold.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    STEP_US = 2000,
    STEP_RECORDS = 1024, /* where the clock stands still during a turn */
    TICKS_PER_SECOND = 10,
};

struct replica_apply {
    struct task task;
    struct partition *partition;
    replica_apply_fn *on_step;
    struct orphan_hold hold;
    struct wal_cursor *cursor; /* at the record `next`; NULL: none */
    uint64_t next;
    uint64_t upto;
    uint64_t ticks;
    bool is_posted, is_freed;
    bool is_ended;     /* a record cannot be read */
    bool has_counts;   /* records were added since counters were read last */
    bool has_settings; /* one of them has records of slots, libraries or stored options */
    bool is_compared;  /* the record that is being added asks for sums of all rows */
    struct compare_row compared;
};

bool replica_apply_is_behind(const struct replica_apply *apply)
{
    return storage_committed(apply->partition->storage) < apply->upto;
}

static void drop_cursor(struct replica_apply *apply)
{
    wal_cursor_free(apply->cursor);
    apply->cursor = NULL;
}

/* ---- one record -------------------------------------------------------------------------------- */

static bool is_of_settings(struct bytes key)
{
    return key.len && !strchr("cjhv2g=", key.data[0]);
}

static bool asks_for_sums(const struct effect *effect, struct compare_row *row)
{
    return effect->cf == CF_SYSTEM && effect->kind == EFFECT_PUT &&
           bytes_equal(effect->key, BYTES(SYSTEM_COMPARE)) && compare_row_read(effect->value, row);
}

/* Does the record change rows of CF_SYSTEM of which something is kept in memory, but counters? Has it rows of other shards? */
static void note_record(struct replica_apply *apply, struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    bool has_moved = false, has_transactions = false;
    apply->is_compared = false;
    if (effects_open(record, &header, &reader) != EFFECTS_READ)
        return;
    while (effects_next(&reader, &effect) == EFFECTS_READ) {
        bool is_system = effect.cf == CF_SYSTEM;
        apply->has_settings |=
            is_system && effect.kind != EFFECT_NOTE && is_of_settings(effect.key);
        has_transactions |= is_system && effect.key.len && *effect.key.data == '2';
        apply->is_compared |= asks_for_sums(&effect, &apply->compared);
        has_moved |= !is_system && effect.kind == EFFECT_PUT && effect.is_internal;
    }
    fresh_reads_note(apply->partition, header.origin_ms, has_transactions);
    orphan_hold_hear(&apply->hold, header.origin_ms, has_moved,
                     loop_mono_ms(apply->partition->loop));
}

static void end_applying(struct replica_apply *apply, const char *reason)
{
    apply->is_ended = true;
    log_event(LOG_ERROR, "replica_apply_ended",
              "partition=%u after_batch=%" PRIu64 " reason=\"%s\"", apply->partition->index,
              storage_committed(apply->partition->storage), reason);
}

static int read_at_cursor(struct replica_apply *apply, uint64_t *index, struct bytes *record,
                          char *error, size_t size)
{
    int err = wal_cursor_next(apply->cursor, index, record, error, size);
    apply->next += err == OK;
    return err;
}

/* ERR_NOT_FOUND: the log does not show the record yet. */
static int read_next(struct replica_apply *apply, uint64_t *index, struct bytes *record,
                     char *error, size_t size)
{
    const struct storage *storage = apply->partition->storage;
    uint64_t next = storage_committed(storage) + 1;
    if (apply->next != next) /* the partition has written records itself */
        drop_cursor(apply);
    if (!apply->cursor)
        apply->cursor = wal_cursor_new(storage_wal(storage), next);
    apply->next = next;
    if (apply->cursor)
        return read_at_cursor(apply, index, record, error, size);
    (void)snprintf(error, size, "the log does not have the next record");
    return ERR_STORE;
}

/* False: nothing can be added now. */
static bool add_next(struct replica_apply *apply)
{
    struct partition *partition = apply->partition;
    struct bytes record;
    uint64_t index;
    char error[256];
    const char *reason = error;
    int err = read_next(apply, &index, &record, error, sizeof error);
    if (err == ERR_NOT_FOUND)
        return false;
    if (err == OK) {
        note_record(apply, record);
        err = commit_follow(partition->commit, record, index);
        if (err == OK && apply->is_compared)
            compare_follow(partition, &apply->compared, index);
        if (err == OK)
            return true;
        (void)commit_is_failed(partition->commit, &reason);
    }
    drop_cursor(apply);
    if (!commit_follow_is_stopped(partition->commit))
        end_applying(apply, reason);
    return false;
}

/* ---- what is derived from rows ----------------------------------------------------------------- */

/* False: the rows cannot be read. */
static bool read_settings(struct partition *partition)
{
    if (!space_reload(partition->spaces) || !shards_reload_slots(partition))
        return false;
    partition->shards.libraries_changed(partition);
    return true;
}

static void show_settings(struct replica_apply *apply)
{
    apply->has_settings = apply->has_counts = false;
    if (!read_settings(apply->partition))
        end_applying(apply, "rows of the partition cannot be read");
}

static void show_counts(struct replica_apply *apply)
{
    apply->has_counts = false;
    if (!space_reload(apply->partition->spaces))
        end_applying(apply, "counters of keys cannot be read");
}

static void tell_clients(struct partition *partition)
{
    tracking_forget_all(partition);
    blocking_check_all(partition->watchers.blocking);
    blocking_resume(partition->watchers.blocking);
}

/* ---- steps ------------------------------------------------------------------------------------- */

static bool may_add(const struct replica_apply *apply)
{
    const struct partition *partition = apply->partition;
    const struct partition_running *running = &partition->running;
    return !apply->is_ended && partition->copies.is_following && replica_apply_is_behind(apply) &&
           !running->aside && !running->busy_error && !compare_holds(partition) &&
           !copy_pause_holds(partition) && !commit_follow_is_stopped(partition->commit) &&
           !partition_is_full(partition);
}

static void plan_step(struct replica_apply *apply)
{
    if (apply->is_posted || !may_add(apply))
        return;
    apply->is_posted = true;
    loop_post(apply->partition->loop, &apply->task);
}

static void add_some(struct replica_apply *apply)
{
    uint64_t until_us = clock_mono_us() + STEP_US;
    for (unsigned i = 0; i < STEP_RECORDS && may_add(apply) && add_next(apply); i++)
        if (clock_mono_us() >= until_us)
            break;
}

static void apply_step(struct task *task)
{
    struct replica_apply *apply = container_of(task, struct replica_apply, task);
    struct partition *partition = apply->partition;
    uint64_t before = storage_committed(partition->storage);
    apply->is_posted = false;
    if (apply->is_freed) {
        free(apply);
        return;
    }
    add_some(apply);
    if (apply->has_settings)
        show_settings(apply);
    if (storage_committed(partition->storage) != before) {
        apply->has_counts = true;
        tell_clients(partition);
    }
    plan_step(apply);
    fresh_reads_applied(partition);
    apply->on_step(partition);
}

void replica_apply_upto(struct replica_apply *apply, uint64_t index)
{
    if (apply->upto < index)
        apply->upto = index;
    plan_step(apply);
}

void replica_apply_go_on(struct replica_apply *apply)
{
    plan_step(apply);
}

/* The tables may have records that were not added one by one. No iterator of the store may be left. */
static void recover_tables(struct replica_apply *apply)
{
    struct partition *partition = apply->partition;
    reply_streams_abort(partition);
    compare_stop(partition);
    drop_cursor(apply);
    if (!commit_follow_recover(partition->commit))
        return;
    tell_clients(partition);
    fresh_reads_note(partition, 0, true);
    fresh_reads_applied(partition);
    apply->on_step(partition);
}

/* To read the counters of all slots takes a millisecond. */
static void do_each_second(struct replica_apply *apply)
{
    if (commit_follow_is_broken(apply->partition->commit))
        recover_tables(apply);
    if (apply->has_counts)
        show_counts(apply);
}

void replica_apply_tick(struct replica_apply *apply)
{
    fresh_reads_tick(apply->partition);
    orphan_hold_tick(&apply->hold, loop_mono_ms(apply->partition->loop));
    if (!apply->partition->copies.is_following) {
        drop_cursor(apply); /* a leader reads no records, and trims its log */
        return;
    }
    if (++apply->ticks % TICKS_PER_SECOND == 0)
        do_each_second(apply);
    copy_pause_tick(apply->partition);
    plan_step(apply);
}

void replica_apply_new_role(struct replica_apply *apply, bool follows)
{
    compare_forget(apply->partition);
    fresh_reads_refuse(apply->partition);
    if (!follows)
        copy_pause_end(apply->partition, "role");
    plan_step(apply);
}

void replica_apply_stop_sums(struct replica_apply *apply)
{
    compare_stop(apply->partition);
}

/* ---- life -------------------------------------------------------------------------------------- */

struct replica_apply *replica_apply_new(struct partition *partition, replica_apply_fn *on_step)
{
    struct replica_apply *apply = calloc(1, sizeof *apply);
    CHECK(apply);
    apply->task.run = apply_step;
    apply->partition = partition;
    apply->on_step = on_step;
    partition->copies.age.fresh = fresh_reads_new(partition, leader_line_ask_index);
    copy_age_tick(partition); /* reads may come before the first tick */
    orphan_hold_begin(&apply->hold, storage_store(partition->storage),
                      storage_is_replicated(partition->storage), loop_mono_ms(partition->loop));
    return apply;
}

/* A step that is posted belongs to the loop, which frees it. */
void replica_apply_free(struct replica_apply *apply)
{
    if (!apply)
        return;
    drop_cursor(apply);
    fresh_reads_end(apply->partition);
    apply->is_freed = true;
    if (!apply->is_posted)
        free(apply);
}
