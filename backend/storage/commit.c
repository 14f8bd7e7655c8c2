/*
 * commit.c - group commit: closes batches, writes and syncs them on the commit thread, and reports the result.
 *
 * Normally: commit_turn_end closes the open batch ─► log_batch on the commit thread appends it to the WAL and syncs ─►
 * batch_done on the partition's thread calls on_commit. When the batch that filled a write buffer is in the WAL, the buffer
 * is applied (apply.h).
 *
 * With a commit_log, log_batch gives the record to the log instead. Two things end the batch then, in any order: batch_done (the commit
 * thread does not read it any more) and commit_ended (it is committed). A small batch is given to the log at once, on the partition's
 * thread: the log writes it on threads of its own, and to wake the commit thread in between costs more than to encode it.
 *
 * When writing or applying fails, effects that are not durable are rolled back, and writes are refused until storage_recover
 * succeeds. Reads continue: durable rows are in the buffers and in the store. A partition that starts on a full disk begins like
 * this (overlay_replay.h).
 */
#include "backend/storage/commit.h"

#include "backend/format/effects.h"
#include "backend/storage/commit_inner.h"
#include "backend/storage/overlay_replay.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BUFFER_AGE_MS = 10000,     /* age at which a buffer is applied, however small it is */
    APPLY_NOW_BYTES = 1 << 20, /* at most this many bytes are applied on the partition's thread */
    SMALL_BYTES = 16 << 10,    /* a batch up to this size is encoded on it, if there is a log */
    SYNC_INTERVAL_MS = 1000,
    RETRY_INTERVAL_MS = 1000,
};

#define FOLLOWS "this copy follows"

/* storage_recover, or storage_recover_tables */
typedef int recover_fn(struct storage *storage, bool *is_reopened, char *error, size_t size);

/* Only the batch itself is not committed yet: another one is never in flight. */
static int give_to_log(struct commit *commit)
{
    struct commit_job *current = &commit->current;
    effects_set_numbers(commit->effects, current->index, current->term, current->index - 1);
    return commit->log.append(commit->log.owner, effects_bytes(commit->effects), current->reason,
                              sizeof current->reason);
}

static int write_to_wal(struct commit *commit)
{
    struct commit_job *current = &commit->current;
    int err = storage_log(commit->storage, commit->effects, current->sync, &current->index,
                          current->reason, sizeof current->reason);
    current->sync_us = clock_mono_us() - current->begun_us;
    if (err == OK)
        atomic_store(&current->durable, current->ticket);
    return err;
}

static void log_batch(struct job *job)
{
    struct commit *commit = container_of(job, struct commit, job);
    if (!commit->current.batch) {
        commit->current.result =
            storage_sync(commit->storage, commit->current.reason, sizeof commit->current.reason);
        return;
    }
    batch_write(commit->current.batch, commit->effects);
    commit->current.count = effects_count(commit->effects);
    commit->current.bytes = effects_bytes(commit->effects).len;
    commit->current.begun_us = clock_mono_us();
    commit->current.result = commit->current.has_log ? give_to_log(commit) : write_to_wal(commit);
}

/* ---- cuts: a moment at which the tables have the rows up to one record, and no newer ones ---------- */
/*
 *   leader:   batch closed, the last one of its buffer ─► committed ─► buffer applied ─► the function ─► the next buffer
 *   follower: record added ─► older buffer applied ─► its buffer applied ─► the function ─► the next record
 *
 * The commands of a leader go on: later batches go into the other buffer, which is applied afterwards.
 */

static void finish_cut(struct commit *commit, uint64_t index)
{
    const struct commit_cut cut = commit->cut;
    commit->cut.state = CUT_NONE;
    cut.fn(cut.owner, index);
}

static void fail_cut(struct commit *commit)
{
    if (commit->cut.state != CUT_NONE)
        finish_cut(commit, 0);
}

/* ---- batches ----------------------------------------------------------------------------------- */

static void commit_fail(struct commit *commit)
{
    log_event(LOG_ERROR, "commit_failed", "reason=\"%s\" ticket=%llu", commit->current.reason,
              (unsigned long long)commit->current.ticket);
    commit->state = COMMIT_FAILED;
    commit->retries = 0;
    overlay_discard(commit->overlay);
    fail_cut(commit);
    timer_start(commit->timer, RETRY_INTERVAL_MS, RETRY_INTERVAL_MS);
    commit->options.on_commit(commit->options.owner, commit->current.ticket, 0,
                              commit->current.result);
}

uint64_t commit_buffered_ms(const struct commit *commit)
{
    return commit->immutable_ms ? commit->immutable_ms : commit->active_ms;
}

/* Passes the time of the oldest unapplied row to the store. The tables may lack a newer TTL since then, so
 * compaction must not drop a key that expired after this time. A copy that follows lacks later records: with all rows applied, the time
 * is that of its last one. */
static void tell_age(struct commit *commit)
{
    uint64_t buffered_ms = commit_buffered_ms(commit);
    store_set_unapplied(storage_store(commit->storage),
                        buffered_ms ? buffered_ms : commit->followed_ms);
}

/* The active buffer becomes immutable and an empty one active. */
static void switch_buffers(struct commit *commit)
{
    overlay_switch_buffers(commit->overlay);
    commit->immutable_ms = commit->active_ms;
    commit->active_ms = 0;
}

/* Applies the immutable buffer; later batches are in the active one. */
static void begin_apply(struct commit *commit)
{
    apply_begin(commit->apply, commit->immutable_upto);
}

/* All batches of the immutable buffer are committed, and it has the rows of all committed ones (storage.h). The log may have batches
 * after them. */
static void note_committed(struct commit *commit)
{
    commit->immutable_upto = storage_committed(commit->storage);
}

static void apply_active(struct commit *commit)
{
    switch_buffers(commit);
    note_committed(commit);
    begin_apply(commit);
}

/* Of a copy that follows, or between two batches of a leader. */
static void go_on_cutting(struct commit *commit)
{
    bool is_empty = overlay_is_empty(commit->overlay);
    bool is_applying = overlay_immutable(commit->overlay) != NULL;
    commit->cut.state = is_applying && !is_empty ? CUT_WAITS : CUT_APPLYING;
    if (!is_applying && is_empty)
        finish_cut(commit, storage_committed(commit->storage));
    else if (!is_applying)
        apply_active(commit);
}

/* The rows of the batch are behind those of an older buffer that is still there: it would hold the batch up. */
static bool must_cut(struct commit *commit)
{
    if (commit->cut.state != CUT_WANTED)
        return false;
    commit->cut.state = CUT_APPLYING;
    if (!overlay_immutable(commit->overlay))
        return true;
    finish_cut(commit, 0);
    return false;
}

static void cut_when_applied(struct commit *commit)
{
    if (commit->cut.state == CUT_APPLYING)
        finish_cut(commit, commit->immutable_upto);
    else if (commit->cut.state == CUT_WAITS)
        go_on_cutting(commit);
}

/* Called when no batch is in flight. */
static void apply_failed(struct commit *commit, int err)
{
    (void)snprintf(commit->current.reason, sizeof commit->current.reason, "%s",
                   apply_reason(commit->apply));
    commit->current.result = err;
    commit->current.ticket = overlay_ticket(commit->overlay);
    commit_fail(commit);
}

/* apply_fn. commit_turn_end handles an error when no batch is in flight, because a batch in flight may still become
 * durable. */
static void on_applied(void *owner, int err)
{
    struct commit *commit = owner;
    if (err != OK) {
        if (commit->state == COMMIT_FOLLOWING) { /* commit_follow reports it */
            log_event(LOG_ERROR, "apply_failed", "reason=\"%s\"", apply_reason(commit->apply));
            fail_cut(commit);
            commit->options.on_room(commit->options.owner);
        }
        return;
    }
    commit->immutable_ms = 0;
    tell_age(commit);
    cut_when_applied(commit);
    commit->options.on_room(commit->options.owner);
}

/* The batch is committed, or it failed. */
static void end_batch(struct commit *commit)
{
    bool was_batch = commit->current.batch != NULL;
    bool fills_buffer = commit->fills_buffer;
    commit->current.is_stalled = false;
    commit->current.batch = NULL;
    commit->fills_buffer = false;
    if (was_batch && commit->current.result == OK)
        storage_commit(commit->storage, commit->current.index);
    if (fills_buffer)
        note_committed(commit);
    if (commit->current.result != OK) {
        commit->has_failed = true;
        return;
    }
    commit->state = COMMIT_IDLE;
    commit->unsynced = was_batch && !commit->current.sync && !commit->current.has_log;
    if (commit->current.has_log)
        commit->current.sync_us = clock_mono_us() - commit->current.begun_us;
    if (was_batch) {
        overlay_batch_committed(commit->overlay);
        commit->options.on_commit(commit->options.owner, commit->current.ticket,
                                  commit->current.index, OK);
    }
    if (fills_buffer)
        begin_apply(commit);
}

static void batch_done(struct job *job)
{
    struct commit *commit = container_of(job, struct commit, job);
    struct commit_job *current = &commit->current;
    current->is_running = false;
    if (current->is_given_up)
        return;
    if (!current->has_log || current->is_committed || current->result != OK)
        end_batch(commit);
}

static void run_at_once(struct job *job)
{
    job->work(job);
    job->done(job);
}

/* The batch of so many bytes has got its header, and thereby its index. */
static void submit(struct commit *commit, const struct batch *batch, size_t bytes)
{
    commit->state = COMMIT_WRITING;
    commit->current.batch = batch;
    commit->current.is_running = true;
    commit->current.is_committed = false;
    commit->current.has_log = batch && commit->log.append;
    if (commit->current.has_log) {
        commit->current.index = storage_committed(commit->storage) + 1;
        commit->current.term = batch_term(batch);
        commit->current.closed_us = clock_mono_us();
    }
    commit->current.sync = commit->options.durability == DURABILITY_ALWAYS || commit->sync_is_due;
    if (batch) /* the open batch may still have to be synced: commit_sync_next */
        commit->sync_is_due = false;
    if (commit->current.has_log && bytes <= SMALL_BYTES)
        run_at_once(&commit->job);
    else
        worker_submit(commit->worker, &commit->job);
}

/* The database was reopened: the rows of all durable batches are in the tables, or the disk was full again, and the buffer shows those
 * of the WAL. */
static int take_reopened(struct commit *commit)
{
    fail_cut(commit);
    overlay_forget(commit->overlay);
    apply_forget(commit->apply);
    commit->active_ms = commit->immutable_ms = 0;
    tell_age(commit);
    if (!storage_is_behind(commit->storage) ||
        overlay_replay(commit->overlay, commit->storage, commit->current.reason,
                       sizeof commit->current.reason))
        return OK;
    store_shut(storage_store(commit->storage)); /* rather no reads than wrong ones */
    return ERR_STORE;
}

/* Recovery is tried every second, so ever fewer of its failures are logged: the 1st, 2nd, 4th, 8th ... */
static void note_retry(struct commit *commit)
{
    uint64_t nth = ++commit->retries;
    if ((nth & (nth - 1)) == 0)
        log_event(LOG_WARN, "recover_failed", "reason=\"%s\" nth=%llu", commit->current.reason,
                  (unsigned long long)nth);
}

/* Makes applying work again, and reads anew what is cached from the store. No batch is in flight. */
static bool recover_with(struct commit *commit, recover_fn *recover)
{
    bool is_reopened;
    if (apply_is_running(commit->apply) || overlay_has_read_aheads(commit->overlay))
        return false;
    int err = recover(commit->storage, &is_reopened, commit->current.reason,
                      sizeof commit->current.reason);
    if (is_reopened && take_reopened(commit) != OK)
        err = ERR_STORE;
    overlay_store_changed(commit->overlay);
    if (err == OK && !commit->options.on_recover(commit->options.owner)) {
        (void)snprintf(commit->current.reason, sizeof commit->current.reason,
                       "the store cannot be read");
        err = ERR_STORE;
    }
    commit->current.result = err;
    if (err != OK)
        note_retry(commit);
    return err == OK;
}

static bool is_log_ready(struct commit *commit)
{
    if (!commit->log.append)
        return true;
    commit->current.result = commit->log.may_append(commit->log.owner, commit->current.reason,
                                                    sizeof commit->current.reason);
    if (commit->current.result != OK)
        note_retry(commit);
    return commit->current.result == OK;
}

static void try_recover(struct commit *commit)
{
    if (!is_log_ready(commit) ||
        !recover_with(commit, commit->log.append ? storage_recover_tables : storage_recover))
        return;
    log_event(LOG_WARN, "commit_recovered", "state=writing");
    commit->state = COMMIT_IDLE;
    commit->unsynced = false;
    timer_stop(commit->timer);
    commit_set_durability(commit, commit->options.durability);
    if (overlay_immutable(commit->overlay))
        begin_apply(commit);
}

/* The disk was full at the start. */
static void begin_failed(struct commit *commit)
{
    (void)snprintf(commit->current.reason, sizeof commit->current.reason,
                   "No space left on device: open for reading only");
    commit->current.result = ERR_DISK_FULL;
    commit->state = COMMIT_FAILED;
    timer_start(commit->timer, RETRY_INTERVAL_MS, RETRY_INTERVAL_MS);
}

static void on_timer(void *owner)
{
    struct commit *commit = owner;
    if (commit->state == COMMIT_FAILED)
        commit->retry_is_due = true;
    else if (commit->state == COMMIT_WRITING)
        commit->sync_is_due = true;
    else if (commit->unsynced)
        submit(commit, NULL, 0);
}

struct commit *commit_new(struct loop *loop, struct overlay *overlay, struct storage *storage,
                          const struct commit_options *options)
{
    struct commit *commit = calloc(1, sizeof *commit);
    CHECK(commit);
    commit->job = (struct job){.work = log_batch, .done = batch_done};
    commit->loop = loop;
    commit->overlay = overlay;
    commit->storage = storage;
    commit->options = *options;
    commit->disk.room = UINT64_MAX;
    commit->worker = worker_new(loop, "commit");
    commit->timer = timer_new(loop, on_timer, commit);
    commit->effects = effects_new();
    commit->apply = apply_new(loop, overlay, storage, on_applied, commit);
    if (storage_is_behind(storage))
        begin_failed(commit);
    commit_set_durability(commit, options->durability);
    return commit;
}

void commit_free(struct commit *commit)
{
    if (!commit)
        return;
    worker_free(commit->worker);
    timer_free(commit->timer);
    if (commit->unsynced &&
        storage_sync(commit->storage, commit->current.reason, sizeof commit->current.reason) != OK)
        log_event(LOG_ERROR, "sync_failed", "reason=\"%s\"", commit->current.reason);
    overlay_discard(commit->overlay);
    apply_free(commit->apply);
    effects_free(commit->effects);
    free(commit);
}

void commit_set_durability(struct commit *commit, enum durability durability)
{
    commit->options.durability = durability;
    if (commit->state == COMMIT_FAILED || commit->state == COMMIT_FOLLOWING)
        return;
    if (durability == DURABILITY_EVERYSEC)
        timer_start(commit->timer, SYNC_INTERVAL_MS, SYNC_INTERVAL_MS);
    else
        timer_stop(commit->timer);
}

/* Handles failures that events have noted: rolls back effects, and reads again what was cached from the store. That must
 * not happen while a command runs. During a slow script the loop serves events, so failures wait for the turn's end. */
static void meet_failures(struct commit *commit)
{
    if (commit->has_failed) {
        commit->has_failed = false;
        commit_fail(commit);
    } else if (commit->retry_is_due && commit->state == COMMIT_FAILED) {
        try_recover(commit);
    }
    commit->retry_is_due = false;
    if (commit->state == COMMIT_IDLE && apply_result(commit->apply) != OK)
        apply_failed(commit, apply_result(commit->apply));
}

/* Notes the time of a row that is added to the active buffer. True: the buffer is due to be applied. */
static bool note_row(struct commit *commit, uint64_t now_ms)
{
    if (!commit->active_ms || now_ms < commit->active_ms) /* the clock may go back */
        commit->active_ms = now_ms;
    bool is_due = overlay_is_full(commit->overlay) || now_ms > commit->active_ms + BUFFER_AGE_MS;
    return is_due && !overlay_immutable(commit->overlay);
}

bool commit_turn_end(struct commit *commit)
{
    meet_failures(commit);
    CHECK(commit->state != COMMIT_FOLLOWING || !overlay_dirty(commit->overlay));
    if (commit->state != COMMIT_IDLE || !overlay_is_due(commit->overlay))
        return false;
    commit->options.on_close(commit->options.owner);
    commit->current.ticket = overlay_ticket(commit->overlay);
    size_t bytes = overlay_bytes(commit->overlay);
    const struct batch *batch = overlay_close_batch(commit->overlay);
    bool is_due = note_row(commit, loop_wall_ms(commit->loop));
    commit->fills_buffer = must_cut(commit) || is_due;
    if (commit->fills_buffer)
        switch_buffers(commit);
    tell_age(commit);
    submit(commit, batch, bytes);
    return true;
}

/* ---- a log of several copies ---- */

void commit_use_log(struct commit *commit, const struct commit_log *log)
{
    commit->log = *log;
}

bool commit_uses_log(const struct commit *commit)
{
    return commit->log.append;
}

bool commit_went_through_log(const struct commit *commit)
{
    return commit->current.has_log;
}

static bool is_in_log(const struct commit *commit)
{
    return commit->state == COMMIT_WRITING && commit->current.has_log && commit->current.batch;
}

void commit_ended(struct commit *commit, uint64_t index)
{
    struct commit_job *current = &commit->current;
    if (!is_in_log(commit) || index < current->index || current->is_committed)
        return;
    current->is_committed = true;
    if (!current->is_running)
        end_batch(commit);
}

/* The commit thread reads the batch for a moment, or writes it to the WAL, and then it is in doubt. */
static void give_up_batch(struct commit *commit)
{
    if (!commit->current.is_running)
        return;
    commit->current.is_given_up = !commit->current.has_log;
    worker_free(commit->worker);
    commit->worker = worker_new(commit->loop, "commit");
    commit->current.is_given_up = false;
}

uint64_t commit_step_down(struct commit *commit)
{
    give_up_batch(commit);
    uint64_t ticket = commit->state == COMMIT_WRITING ? commit->current.ticket : 0;
    overlay_discard(commit->overlay);
    fail_cut(commit);
    if (commit->fills_buffer)
        note_committed(commit);
    commit->current.batch = NULL;
    commit->fills_buffer = commit->current.is_stalled = false;
    commit->log = (struct commit_log){0};
    commit->state = COMMIT_IDLE;
    commit_set_following(commit, true);
    if (overlay_immutable(commit->overlay) && !apply_is_running(commit->apply) &&
        apply_result(commit->apply) == OK)
        begin_apply(commit);
    return ticket;
}

/* ---- a copy that follows ---- */

void commit_set_following(struct commit *commit, bool is_following)
{
    CHECK(commit->state != COMMIT_WRITING && !overlay_dirty(commit->overlay));
    fail_cut(commit);
    timer_stop(commit->timer);
    commit->has_failed = commit->retry_is_due = commit->unsynced = false;
    commit->state = is_following ? COMMIT_FOLLOWING : COMMIT_IDLE;
    commit->followed_ms = is_following ? 1 : 0;
    (void)snprintf(commit->current.reason, sizeof commit->current.reason, FOLLOWS);
    if (!is_following && storage_is_behind(commit->storage))
        begin_failed(commit);
    commit_set_durability(commit, commit->options.durability);
    tell_age(commit);
}

bool commit_is_writing(const struct commit *commit)
{
    return commit->state == COMMIT_WRITING && !commit->current.has_log;
}

/* The wall clock of the leader that made the record; 0: it cannot be read. */
static uint64_t origin_ms_of(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    return effects_open(record, &header, &reader) == EFFECTS_READ ? header.origin_ms : 0;
}

int commit_follow(struct commit *commit, struct bytes record, uint64_t index)
{
    CHECK(commit->state == COMMIT_FOLLOWING && index == storage_committed(commit->storage) + 1);
    int err = commit_follow_is_stopped(commit) ? apply_result(commit->apply) : OK;
    if (err != OK)
        (void)snprintf(commit->current.reason, sizeof commit->current.reason, "%s",
                       apply_reason(commit->apply));
    else
        err = overlay_add_committed(commit->overlay, record, commit->current.reason,
                                    sizeof commit->current.reason);
    if (err != OK)
        return err;
    storage_commit(commit->storage, index);
    uint64_t origin_ms = origin_ms_of(record);
    if (origin_ms) /* a PROBE may have none */
        commit->followed_ms = origin_ms;
    if (!overlay_is_empty(commit->overlay) && note_row(commit, commit->followed_ms) &&
        !commit_follow_is_broken(commit))
        apply_active(commit);
    tell_age(commit);
    return OK;
}

bool commit_follow_is_broken(const struct commit *commit)
{
    return commit->state == COMMIT_FOLLOWING &&
           (apply_result(commit->apply) != OK || storage_is_behind(commit->storage));
}

bool commit_follow_is_stopped(const struct commit *commit)
{
    int err = apply_result(commit->apply);
    return commit->state == COMMIT_FOLLOWING && err != OK && err != ERR_DISK_FULL;
}

bool commit_follow_recover(struct commit *commit)
{
    CHECK(commit->state == COMMIT_FOLLOWING);
    if (!recover_with(commit, storage_recover_tables))
        return false;
    log_event(LOG_WARN, "commit_recovered", "state=following");
    commit->retries = 0;
    (void)snprintf(commit->current.reason, sizeof commit->current.reason, FOLLOWS);
    if (overlay_immutable(commit->overlay))
        begin_apply(commit);
    return true;
}

/* After a start the tables may have rows of newer records than those that are known to be committed. */
static bool may_cut(const struct commit *commit)
{
    return commit->state != COMMIT_FAILED && !commit_follow_is_broken(commit) &&
           storage_committed(commit->storage) >= storage_whole_at(commit->storage);
}

void commit_cut(struct commit *commit, commit_cut_fn *fn, void *owner)
{
    CHECK(commit->cut.state == CUT_NONE);
    commit->cut = (struct commit_cut){.state = CUT_WANTED, .fn = fn, .owner = owner};
    if (!may_cut(commit))
        finish_cut(commit, 0);
    else if (commit->state == COMMIT_FOLLOWING)
        go_on_cutting(commit);
}

void commit_cut_cancel(struct commit *commit)
{
    commit->cut.state = CUT_NONE;
}

/* ---- applying early ---- */

/* No batch is in flight or open, and nothing has failed. */
static bool may_apply(const struct commit *commit)
{
    return (commit->state == COMMIT_IDLE || commit->state == COMMIT_FOLLOWING) &&
           !overlay_dirty(commit->overlay) && apply_result(commit->apply) == OK &&
           !storage_is_behind(commit->storage);
}

void commit_rest(struct commit *commit)
{
    uint64_t ticket = overlay_ticket(commit->overlay);
    bool is_idle = ticket == commit->rest_ticket && may_apply(commit);
    commit->rest_ticket = ticket;
    if (!is_idle || overlay_immutable(commit->overlay) || overlay_is_empty(commit->overlay))
        return;
    apply_active(commit);
}

bool commit_apply(struct commit *commit)
{
    if (!may_apply(commit) || overlay_immutable(commit->overlay))
        return false;
    bool is_big = overlay_active(commit->overlay)->arena.bytes > APPLY_NOW_BYTES;
    switch_buffers(commit);
    note_committed(commit);
    if (is_big ||
        store_holds_writes(storage_store(commit->storage))) { /* applying may take long then */
        begin_apply(commit);
        return false;
    }
    if (!apply_now(commit->apply, commit->immutable_upto))
        return false; /* commit_turn_end handles the failure */
    commit->immutable_ms = 0;
    tell_age(commit);
    return true;
}

bool commit_is_idle(const struct commit *commit)
{
    return commit->state != COMMIT_WRITING && !overlay_dirty(commit->overlay);
}

uint64_t commit_durable_in_flight(const struct commit *commit)
{
    const struct commit_job *current = &commit->current;
    bool is_durable = commit->state == COMMIT_WRITING && current->batch &&
                      atomic_load(&current->durable) == current->ticket;
    if (is_in_log(commit))
        is_durable = commit->log.has_committed(commit->log.owner, current->index, current->term);
    return is_durable ? current->ticket : 0;
}

void commit_sync_next(struct commit *commit)
{
    commit->sync_is_due = true;
}

uint64_t commit_next_index(const struct commit *commit)
{
    CHECK(commit->state == COMMIT_IDLE);
    uint64_t last =
        commit->log.append ? storage_committed(commit->storage) : storage_written(commit->storage);
    return last + 1;
}
