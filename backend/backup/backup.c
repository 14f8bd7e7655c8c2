#include "backend/backup/backup.h"

#include "backend/backup/backup_catalog.h"
#include "backend/backup/backup_inner.h"
#include "backend/backup/backup_record.h"
#include "backend/backup/backup_slots.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/space.h"
#include "backend/session/pause.h"
#include "backend/session/session.h"
#include "backend/slots/slot_moves.h"
#include "backend/storage/commit.h"
#include "backend/transaction/coordinator.h"
#include "backend/transaction/participant.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/worker.h"
#include "shared/number.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PATIENCE_MS = 60 * 1000,
    GONE_MS = 1000, /* in which a proxy whose connection has ended may continue on another one */
    LEASE_MAX_MS = 60 * 1000,
};

static void next(struct backup *backup);

static uint64_t now_ms(const struct backup *backup)
{
    return loop_mono_ms(backup->partition->loop);
}

/* ---- steps, on the partition's thread ---- */

static bool is_working(const struct backup *backup)
{
    return backup->state == BACKUP_PREPARING || backup->state == BACKUP_COPYING ||
           backup->state >= BACKUP_SEALING;
}

void backup_work(struct backup *backup, enum backup_state state)
{
    backup->state = state;
    worker_submit(backup->worker, &backup->job);
}

static void resume_partition(struct backup *backup)
{
    struct partition *partition = backup->partition;
    if (!partition->pause.is_quiescing)
        return;
    backup->is_held = partition->pause.is_held = partition->pause.is_quiescing = false;
    coordinator_go_on(partition->shards.coordinator);
    partition_resume(partition);
}

bool backup_is_quiet(const struct backup *backup, char why[BACKUP_OPEN_MAX])
{
    const struct partition_shards *shards = &backup->partition->shards;
    *why = 0;
    return coordinator_is_quiet(shards->coordinator, why, BACKUP_OPEN_MAX) &&
           participant_is_quiet(shards->participant, why, BACKUP_OPEN_MAX);
}

static void become_idle(struct backup *backup)
{
    manifest_free(backup->manifest);
    backup->manifest = NULL;
    cut_free(backup->cut.files);
    backup->cut.files = NULL;
    free(backup->to);
    free(backup->dir);
    backup->to = backup->dir = NULL;
    backup_slots_forget(&backup->slots);
    backup->state = BACKUP_IDLE;
    slot_moves_go_on(backup->partition->shards.moves);
}

/* Ends the backup, whether it succeeded or failed. */
static void finish_backup(struct backup *backup, bool good)
{
    resume_partition(backup);
    if (good) {
        log_event(LOG_INFO, "backup_done",
                  "partition=%u backup=%s shard=%s bytes=%llu shared_bytes=%llu",
                  backup->partition->index, backup->manifest->backup, backup->manifest->shard,
                  (unsigned long long)manifest_bytes(backup->manifest),
                  (unsigned long long)backup->bytes_shared);
    } else {
        log_event(LOG_ERROR, "backup_failed", "partition=%u backup=%s reason=" LOG_QUOTED,
                  backup->partition->index, backup->manifest->backup, backup->reason);
    }
    struct backup_result result = {
        .is_good = good,
        .ended_ms = loop_wall_ms(backup->partition->loop),
        .duration_ms = now_ms(backup) - backup->begun_ms,
        .bytes = manifest_bytes(backup->manifest) + backup->cut.bytes,
    };
    result.success_ms = result.ended_ms;
    (void)snprintf(result.name, sizeof result.name, "%s", backup->manifest->backup);
    (void)snprintf(result.reason, sizeof result.reason, "%s", good ? "" : backup->reason);
    backup_record_ended(backup->record, &result);
    partition_saved(backup->partition, good, backup->changes);
    become_idle(backup);
}

static void abort_backup(struct backup *backup, const char *reason)
{
    if (is_working(backup)) {
        (void)snprintf(backup->cancel_reason, sizeof backup->cancel_reason, "%s", reason);
        atomic_store(&backup->progress.is_cancelled, true);
        resume_partition(backup);
    } else {
        (void)snprintf(backup->reason, sizeof backup->reason, "%s", reason);
        backup_remove_partial(backup);
        finish_backup(backup, false);
    }
}

/* Starts the next step, after a job has ended or the proxy sent the next command. */
static void next(struct backup *backup)
{
    switch (backup->state) {
    case BACKUP_PREPARING:
        backup->cut.linked_upto = storage_committed(backup->partition->storage);
        backup->state = backup->is_led ? BACKUP_READY : BACKUP_DRAINING;
        break;
    case BACKUP_COPYING:
    case BACKUP_COPIED:
        backup->state = BACKUP_COPIED;
        if (backup->is_confirmed)
            backup_work(backup, BACKUP_SEALING);
        break;
    case BACKUP_SEALING:
        finish_backup(backup, true);
        break;
    case BACKUP_DELETING:
    case BACKUP_IDLE:
    case BACKUP_READY:
    case BACKUP_QUIESCING:
    case BACKUP_DRAINING:
        break;
    }
}

static void backup_job_ended(struct job *job)
{
    struct backup *backup = container_of(job, struct backup, job);
    bool is_cancelled = atomic_load(&backup->progress.is_cancelled);
    if (backup->state == BACKUP_DELETING) {
        if (backup->has_more)
            backup_work(backup, BACKUP_DELETING);
        else
            become_idle(backup);
        backup->has_more = false;
        return;
    }
    if (backup->state == BACKUP_SEALING && backup->good)
        is_cancelled = false; /* too late: the backup is complete */
    backup->leader.lost_at_ms = now_ms(backup) + PATIENCE_MS;
    if (backup->good && !is_cancelled) {
        next(backup);
        return;
    }
    if (is_cancelled) {
        (void)snprintf(backup->reason, sizeof backup->reason, "%s",
                       *backup->cancel_reason ? backup->cancel_reason : "cancelled");
        backup_remove_partial(backup);
    }
    finish_backup(backup, false);
}

/* The manifest names the last batch. */
static void set_moment(struct backup *backup, const struct backup_moment *moment)
{
    backup->cut.moment = *moment;
    backup->cut.named_ms = now_ms(backup);
    backup->manifest->batch_index = moment->batch;
    backup->manifest->log_id = moment->log_id;
    backup->manifest->hybrid_us = moment->hybrid_us;
    backup->manifest->taken_ms = moment->taken_ms;
    backup->changes = space_changes(backup->partition->spaces);
}

static void name_moment(struct backup *backup)
{
    struct backup_moment moment;
    if (backup_moment_here(backup->partition, &moment))
        set_moment(backup, &moment);
    else
        abort_backup(backup, "rows of the partition cannot be read");
}

static bool is_held_drained(struct backup *backup)
{
    char why[BACKUP_OPEN_MAX];
    if (!commit_is_idle(backup->partition->commit) || !backup_is_quiet(backup, why))
        return false;
    name_moment(backup);
    return true;
}

/* Is the last batch committed, so that it will be in the cut? Without a hold there may be later ones by then, and the cut may have them, too. */
static bool has_last_batch(struct backup *backup)
{
    if (backup->is_held)
        return is_held_drained(backup);
    if (!backup->manifest->taken_ms)
        name_moment(backup);
    if (!backup->manifest)
        return false; /* it has failed */
    uint64_t committed = storage_committed(backup->partition->storage);
    return backup->cut.is_of_copy ? backup_moment_is_reached(&backup->cut.moment, committed)
                                  : committed >= backup->manifest->batch_index;
}

static int end_backup_cut(struct backup *backup)
{
    char *reason = backup->reason;
    if (!backup->cut.is_of_copy)
        return cut_end(backup->cut.files, reason, sizeof backup->reason);
    if (backup_moment_is_of(&backup->cut.moment, backup->partition))
        return cut_end_at(backup->cut.files, backup->cut.moment.committed, reason,
                          sizeof backup->reason);
    (void)snprintf(reason, sizeof backup->reason, "the log has another name since the cut");
    return ERR_STORE;
}

static void take_cut(struct backup *backup)
{
    if (backup->cut.files && end_backup_cut(backup) != OK) {
        backup_remove_partial(backup);
        finish_backup(backup, false);
        return;
    }
    backup_work(backup, BACKUP_COPYING);
}

/* While the log cannot be written, the batch in flight does not end, and a backup that waits keeps space from being freed. */
void backup_turn_end(struct backup *backup)
{
    if (backup->state != BACKUP_DRAINING)
        return;
    bool has_last = has_last_batch(backup);
    if (backup->state != BACKUP_DRAINING)
        return; /* it has failed */
    if (has_last)
        take_cut(backup);
    else if (!backup->is_held && !backup->cut.is_of_copy &&
             commit_is_failed(backup->partition->commit, NULL))
        abort_backup(backup, "the log cannot be written");
}

/* A copy that was told the moment needs its leader no more, whoever leads: it waits for records only. */
static void tick_copy(struct backup *backup)
{
    bool is_told = backup->state >= BACKUP_DRAINING;
    if (!is_told && !backup->partition->copies.is_closed)
        abort_backup(backup, "this copy leads now");
    else if (backup->state == BACKUP_DRAINING && backup->manifest->taken_ms &&
             now_ms(backup) >= backup->cut.named_ms + PATIENCE_MS)
        abort_backup(backup, "this copy has not got all records up to the cut");
}

/* Has the connection of the proxy ended that controls the backup, and came no step on another one? */
static bool is_leader_gone(struct backup *backup)
{
    struct backup_leader *leader = &backup->leader;
    const struct list *all = &backup->partition->clients.all;
    for (const struct list *at = all->next; at != all; at = at->next)
        if (container_of(at, struct session, link)->id == leader->session)
            leader->here_ms = now_ms(backup);
    return now_ms(backup) >= leader->here_ms + GONE_MS;
}

/* The hold has lasted until its release, and another copy makes the files. */
static bool is_waiting_for_copy(const struct backup *backup)
{
    return backup->cut.is_elsewhere && backup->state == BACKUP_COPIED && backup->cut.is_released;
}

/* The proxy is lost that would report the end, or another copy leads now. The copy that makes the files goes on alone, and has the result. */
static void leave_to_copy(struct backup *backup)
{
    log_event(LOG_WARN, "backup_end_unknown", "partition=%u backup=%s", backup->partition->index,
              backup->manifest->backup);
    become_idle(backup);
}

void backup_tick(struct backup *backup)
{
    if (backup_record_wants_check(backup->record)) {
        char *directory = backup_catalog_of(backup->partition);
        backup_record_check(backup->record, directory,
                            backup->partition->snapshot->config.archive_dir);
        free(directory);
    }
    if (!backup->manifest)
        return;
    if (backup->cut.is_of_copy) {
        tick_copy(backup);
    } else if (backup->partition->copies.is_closed) {
        if (is_waiting_for_copy(backup))
            leave_to_copy(backup);
        else
            abort_backup(backup, "another copy of the shard leads now");
        return;
    }
    if (backup->partition->pause.is_quiescing && now_ms(backup) >= backup->held_until_ms) {
        log_event(LOG_WARN, "backup_hold_expired", "partition=%u", backup->partition->index);
        resume_partition(backup);
        if (backup->state == BACKUP_QUIESCING)
            backup->state = BACKUP_READY;
    }
    if (!backup->manifest || !backup->is_led || backup->is_confirmed)
        return;
    if (is_waiting_for_copy(backup) && is_leader_gone(backup))
        leave_to_copy(backup);
    else if (is_waiting_for_copy(backup))
        return;
    else if (is_leader_gone(backup))
        abort_backup(backup, "the proxy that controlled the backup has disconnected");
    else if (!is_working(backup) && now_ms(backup) >= backup->leader.lost_at_ms)
        abort_backup(backup, "the proxy that controls the backup sent no command for too long");
}

/* ---- commands ---- */

struct backup *backup_new(struct partition *partition)
{
    struct backup *backup = calloc(1, sizeof *backup);
    CHECK(backup);
    backup->job = (struct job){.work = backup_run_job, .done = backup_job_ended};
    backup->partition = partition;
    backup->worker = worker_new(partition->loop, "backup");
    backup->record = backup_record_new(partition, backup->worker);
    CHECK(asprintf(&backup->cut.dir, "%s/cut-%s", partition->snapshot->config.data,
                   partition->name) > 0);
    return backup;
}

void backup_free(struct backup *backup)
{
    if (!backup)
        return;
    atomic_store(&backup->progress.is_cancelled, true);
    backup_record_close(backup->record);
    worker_free(backup->worker);
    if (backup->manifest)
        abort_backup(backup, "the server stops");
    backup_record_free(backup->record);
    free(backup->cut.dir);
    free(backup);
}

static const char *set_manifest_name(char **to, struct bytes name, const char *initial)
{
    char text[BACKUP_NAME_MAX + 1];
    if (!name.len) {
        manifest_set(to, initial);
        return NULL;
    }
    if (!backup_name_valid(name))
        return "ERR a name must have 1 to 64 letters, digits, '.', '_' and '-', and must not begin "
               "with '.'";
    (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.data);
    manifest_set(to, text);
    return NULL;
}

static const char not_leading[] =
    "ERR this copy of the shard does not lead, and the proxy takes it for the one that does";

/* NULL: the part of the plan fits this copy's role. */
static const char *refuse_role(const struct backup *backup, const struct backup_plan *plan)
{
    bool is_alone = !backup->is_led;
    if (plan->is_of_copy && plan->is_elsewhere)
        return "ERR COPY and ELSEWHERE exclude each other";
    if (!plan->is_of_copy && !(is_alone && backup->partition->copies.is_closed))
        return backup->partition->copies.is_closed ? not_leading : NULL;
    return plan->slots.len ? "ERR SLOTS is for the copy that leads"
                           : backup_copy_refusal(backup->partition);
}

/* What holds for the cut of a plan that was accepted. */
static void plan_cut(struct backup *backup, const struct backup_plan *plan)
{
    struct backup_cut *cut = &backup->cut;
    cut->is_of_copy = backup->partition->copies.is_closed;
    cut->is_elsewhere = plan->is_elsewhere;
    cut->is_released = false;
    cut->term = backup->partition->copies.term;
    cut->copy = backup_copy_id(backup->partition);
    cut->bytes = cut->linked_upto = cut->named_ms = 0;
    cut->moment = (struct backup_moment){0};
}

static const char *begin_backup(struct backup *backup, const struct backup_plan *plan)
{
    char path[PATH_MAX];
    char id[BACKUP_ID_LEN + 1];
    const char *not_in_role = refuse_role(backup, plan);
    if (not_in_role)
        return not_in_role;
    struct manifest *manifest = manifest_new();
    backup_new_id(id);
    const char *refused = set_manifest_name(&manifest->backup, plan->name, "");
    if (!refused)
        refused = set_manifest_name(&manifest->shard, plan->shard, backup->partition->name);
    if (!refused)
        refused = set_manifest_name(&manifest->id, plan->id, id);
    char *dir = backup_catalog_of(backup->partition);
    if (!refused && !backup_catalog_path(path, dir, manifest->backup, manifest->shard,
                                         backup->reason, sizeof backup->reason))
        refused = "ERR the path of the backup is too long";
    if (!refused && plan->slots.len)
        refused = plan->keep || plan->is_full
                      ? "ERR KEEP and FULL are for backups of all slots"
                      : backup_slots_choose(&backup->slots, backup->partition, plan->slots,
                                            plan->map, plan->shard);
    if (!refused && !backup->partition->copies.is_closed)
        refused = slot_moves_hold(backup->partition->shards.moves, plan->map, plan->shard);
    if (refused) {
        backup_slots_forget(&backup->slots);
        manifest_free(manifest);
        free(dir);
        return refused;
    }
    free(manifest->map);
    manifest->map = strndup(plan->map.len ? plan->map.data : "", plan->map.len);
    CHECK(manifest->map);
    free(manifest->slots);
    manifest->slots = strndup(plan->slots.len ? plan->slots.data : "", plan->slots.len);
    CHECK(manifest->slots);
    plan_cut(backup, plan);
    manifest->copy = backup->cut.copy;
    manifest->partition = backup->partition->index;
    manifest->data_format = DATA_FORMAT;
    backup->manifest = manifest;
    backup->dir = dir;
    CHECK((backup->to = strdup(path)));
    backup->is_full = plan->is_full;
    backup->keep = plan->keep;
    backup->bytes_shared = 0;
    atomic_store(&backup->progress.bytes_done, 0);
    atomic_store(&backup->progress.bytes_total, 0);
    atomic_store(&backup->progress.is_cancelled, false);
    backup->cancel_reason[0] = 0;
    backup->begun_ms = now_ms(backup);
    backup_work(backup, BACKUP_PREPARING);
    return NULL;
}

const char backup_in_progress[] = "ERR a backup is in progress";
static const char not_that_one[] = "ERR that backup is not in progress here";

const char *backup_start(struct backup *backup, const struct backup_plan *plan)
{
    if (backup->state != BACKUP_IDLE)
        return backup_in_progress;
    backup->is_led = false;
    backup->is_confirmed = true;
    return begin_backup(backup, plan);
}

const char *backup_prepare(struct backup *backup, const struct backup_plan *plan)
{
    if (backup->state != BACKUP_IDLE)
        return backup_in_progress;
    backup->is_led = true;
    backup->is_confirmed = false;
    return begin_backup(backup, plan);
}

void backup_led_by(struct backup *backup, uint64_t session)
{
    backup->leader.session = session;
    backup->leader.here_ms = now_ms(backup);
}

static bool is_that(const struct backup *backup, struct bytes id)
{
    return backup->manifest && backup->is_led && bytes_equal(id, bytes_of(backup->manifest->id));
}

/* NULL: this copy has led since PREPARE. Each step of the hold asks, because backup_tick comes later. */
static const char *refuse_hold(const struct backup *backup)
{
    const struct partition_copies *copies = &backup->partition->copies;
    if (backup->cut.is_of_copy || copies->is_closed || copies->term != backup->cut.term)
        return "ERR this copy has not led since PREPARE: another one may have served writes";
    return NULL;
}

/* NULL: no other copy can have served writes until now. */
static const char *refuse_release(const struct backup *backup)
{
    if (partition_lease_is_over(backup->partition))
        return "ERR this copy does not know whether it still leads: another one may have served "
               "writes during the hold";
    return refuse_hold(backup);
}

static const char *set_lease(struct backup *backup, uint64_t lease_ms)
{
    if (lease_ms == 0 || lease_ms > LEASE_MAX_MS)
        return "ERR the lease must be from 1 to 60000 milliseconds";
    backup->held_until_ms = now_ms(backup) + lease_ms;
    return NULL;
}

const char *backup_quiesce(struct backup *backup, struct bytes id, uint64_t lease_ms)
{
    if (!is_that(backup, id) || backup->state != BACKUP_READY)
        return not_that_one;
    const char *refused = refuse_hold(backup);
    if (!refused)
        refused = set_lease(backup, lease_ms);
    if (refused)
        return refused;
    backup->partition->pause.is_quiescing = true;
    backup->leader.lost_at_ms = now_ms(backup) + PATIENCE_MS;
    backup->state = BACKUP_QUIESCING;
    return NULL;
}

const char *backup_cut(struct backup *backup, struct bytes id, uint64_t lease_ms)
{
    if (!is_that(backup, id) ||
        (backup->state != BACKUP_READY && backup->state != BACKUP_QUIESCING))
        return not_that_one;
    if (backup->state == BACKUP_READY)
        return "ERR SCREE BACKUP QUIESCE must come before CUT, and its lease must not have ended: "
               "start the backup again, through a proxy that is not older than this backend";
    const char *refused = refuse_hold(backup);
    if (!refused)
        refused = set_lease(backup, lease_ms);
    if (refused)
        return refused;
    backup->is_held = backup->partition->pause.is_held = true;
    backup->state = BACKUP_DRAINING;
    return NULL;
}

const char *backup_release(struct backup *backup, struct bytes id)
{
    if (!is_that(backup, id))
        return not_that_one;
    bool was_held = backup->is_held;
    resume_partition(backup);
    const char *refused = refuse_release(backup);
    if (refused)
        return refused;
    if (!was_held || backup->state < BACKUP_COPYING)
        return "ERR the hold expired before its release: start the backup again";
    backup->cut.is_released = true;
    backup->leader.lost_at_ms = now_ms(backup) + PATIENCE_MS;
    return NULL;
}

/* The copy that leads has cut at this moment, and so have all shards: from now on this copy needs no proxy. */
static const char *confirm_at(struct backup *backup, struct bytes text)
{
    struct backup_moment moment;
    if (!backup_moment_parse(text, &moment))
        return "ERR invalid moment";
    if (!backup_moment_is_of(&moment, backup->partition))
        return "ERR the log of this copy has another name";
    if (moment.committed < backup->cut.linked_upto)
        return "ERR the data of this copy are beyond the cut";
    set_moment(backup, &moment);
    backup->is_confirmed = true;
    backup->state = BACKUP_DRAINING;
    return NULL;
}

const char *backup_confirm(struct backup *backup, struct bytes id, struct bytes what)
{
    bool is_copy = is_that(backup, id) && backup->cut.is_of_copy;
    if (is_copy)
        return backup->state == BACKUP_READY ? confirm_at(backup, what) : not_that_one;
    if (!is_that(backup, id) || backup->is_held || backup->state < BACKUP_COPYING)
        return not_that_one;
    if (what.len && !number_parse_uint64(what, &backup->cut.bytes))
        return "ERR invalid number of bytes";
    backup->is_confirmed = true;
    if (backup->state == BACKUP_COPIED)
        next(backup);
    return NULL;
}

bool backup_cancel(struct backup *backup, struct bytes id, struct bytes reason)
{
    char text[REASON_MAX];
    if (!backup->manifest || (id.len && !is_that(backup, id)))
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)(reason.len < 480 ? reason.len : 480),
                   reason.len ? reason.data : "");
    abort_backup(backup, *text ? text : "cancelled");
    return true;
}

bool backup_is_running(const struct backup *backup)
{
    return backup->manifest != NULL;
}
