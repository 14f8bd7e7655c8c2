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
#include "shared/reply.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    OPEN_MAX = 512,
    PATIENCE_MS = 60 * 1000,
    GONE_MS = 1000, /* in which a proxy whose connection has ended may continue on another one */
    LEASE_MAX_MS = 60 * 1000,
};

static const char *const state_names[] = {"idle",      "preparing", "ready",
                                          "quiescing", "draining",  "copying",
                                          "copied",    "sealing",   "deleting"};

static void next(struct backup *backup);
static char *backup_catalog_of(const struct partition *partition);

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

static void work(struct backup *backup, enum backup_state state)
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

/* Has no shard a record of a transaction of this partition, nor this partition of others? Else writes the reason. */
static bool is_quiet(const struct backup *backup, char why[OPEN_MAX])
{
    const struct partition_shards *shards = &backup->partition->shards;
    *why = 0;
    return coordinator_is_quiet(shards->coordinator, why, OPEN_MAX) &&
           participant_is_quiet(shards->participant, why, OPEN_MAX);
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
        .bytes = manifest_bytes(backup->manifest),
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
        backup->state = backup->is_led ? BACKUP_READY : BACKUP_DRAINING;
        break;
    case BACKUP_COPYING:
    case BACKUP_COPIED:
        backup->state = BACKUP_COPIED;
        if (backup->is_confirmed)
            work(backup, BACKUP_SEALING);
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
            work(backup, BACKUP_DELETING);
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
static void name_moment(struct backup *backup)
{
    const struct partition *partition = backup->partition;
    backup->manifest->batch_index = partition->batch.index;
    backup->manifest->log_id = partition->batch.log_id;
    backup->manifest->hybrid_us = partition->batch.hybrid.last;
    backup->manifest->taken_ms = loop_wall_ms(partition->loop);
    backup->changes = space_changes(partition->spaces);
}

static bool is_held_drained(struct backup *backup)
{
    char why[OPEN_MAX];
    if (!commit_is_idle(backup->partition->commit) || !is_quiet(backup, why))
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
    return storage_committed(backup->partition->storage) >= backup->manifest->batch_index;
}

static void take_cut(struct backup *backup)
{
    if (backup->cut.files &&
        cut_end(backup->cut.files, backup->reason, sizeof backup->reason) != OK) {
        backup_remove_partial(backup);
        finish_backup(backup, false);
        return;
    }
    work(backup, BACKUP_COPYING);
}

/* While the log cannot be written, the batch in flight does not end, and a backup that waits keeps space from being freed. */
void backup_turn_end(struct backup *backup)
{
    if (backup->state != BACKUP_DRAINING)
        return;
    if (has_last_batch(backup))
        take_cut(backup);
    else if (!backup->is_held && commit_is_failed(backup->partition->commit, NULL))
        abort_backup(backup, "the log cannot be written");
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
    if (backup->partition->copies.is_closed) {
        abort_backup(backup, "another copy of the shard leads now");
        return;
    }
    if (backup->partition->pause.is_quiescing && now_ms(backup) >= backup->held_until_ms) {
        log_event(LOG_WARN, "backup_hold_expired", "partition=%u", backup->partition->index);
        resume_partition(backup);
        if (backup->state == BACKUP_QUIESCING)
            backup->state = BACKUP_READY;
    }
    if (!backup->is_led || backup->is_confirmed)
        return;
    if (is_leader_gone(backup))
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

/* The directory of backups: `backup-dir`, or by default one beside the data. The caller frees the text. */
static char *backup_catalog_of(const struct partition *partition)
{
    const struct backend_config *config = &partition->snapshot->config;
    char *dir;
    if (*config->backup_dir)
        CHECK((dir = strdup(config->backup_dir)));
    else
        CHECK(asprintf(&dir, "%s/backups", config->data) > 0);
    return dir;
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
    "ERR this copy of the shard does not lead: backups are made of the leader's data";

static const char *begin_backup(struct backup *backup, const struct backup_plan *plan)
{
    char path[PATH_MAX];
    char id[BACKUP_ID_LEN + 1];
    if (backup->partition->copies.is_closed)
        return not_leading;
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
    if (!refused)
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
    work(backup, BACKUP_PREPARING);
    return NULL;
}

static const char in_progress[] = "ERR a backup is in progress";
static const char not_that_one[] = "ERR that backup is not in progress here";

const char *backup_start(struct backup *backup, const struct backup_plan *plan)
{
    if (backup->state != BACKUP_IDLE)
        return in_progress;
    backup->is_led = false;
    backup->is_confirmed = true;
    return begin_backup(backup, plan);
}

const char *backup_prepare(struct backup *backup, const struct backup_plan *plan)
{
    if (backup->state != BACKUP_IDLE)
        return in_progress;
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
    const char *refused = set_lease(backup, lease_ms);
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
    const char *refused = set_lease(backup, lease_ms);
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
    if (partition_lease_is_over(backup->partition))
        return "ERR this copy does not know whether it still leads: another one may have served "
               "writes during the hold";
    if (!was_held || backup->state < BACKUP_COPYING)
        return "ERR the hold expired before its release: start the backup again";
    backup->leader.lost_at_ms = now_ms(backup) + PATIENCE_MS;
    return NULL;
}

const char *backup_confirm(struct backup *backup, struct bytes id)
{
    if (!is_that(backup, id) || backup->is_held || backup->state < BACKUP_COPYING)
        return not_that_one;
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

void backup_reply_status(const struct backup *backup, struct reply *reply)
{
    uint64_t done = atomic_load(&backup->progress.bytes_done);
    uint64_t total = atomic_load(&backup->progress.bytes_total);
    bool is_busy = backup->manifest != NULL;
    const struct backup_result *last = backup_record_result(backup->record);
    char why[OPEN_MAX] = "";
    bool has_no_open = backup->partition->pause.is_quiescing && is_quiet(backup, why);
    bool is_now_quiet = has_no_open && backup->state == BACKUP_QUIESCING;
    reply_map(reply, 13);
    reply_pair_text(reply, "state", is_now_quiet ? "quiet" : state_names[backup->state]);
    reply_pair_text(reply, "backup", is_busy ? backup->manifest->backup : "");
    reply_pair_text(reply, "id", is_busy ? backup->manifest->id : "");
    reply_pair_text(reply, "held", backup->is_held ? "yes" : "no");
    reply_pair_text(reply, "waits-for", why);
    reply_progress(reply, done, total);
    reply_pair_text(reply, "last-backup", last->name);
    reply_pair_text(reply, "last-status", !last->ended_ms ? "" : last->is_good ? "ok" : "err");
    reply_pair_text(reply, "last-error", last->reason);
    reply_pair_int(reply, "last-time", last->ended_ms / 1000);
    reply_pair_int(reply, "last-success", last->success_ms / 1000);
}

void backup_info(const struct backup *backup, struct out *out)
{
    const struct backup_result *last = backup_record_result(backup->record);
    out_printf(out,
               "backup_in_progress:%d\r\nbackup_last_status:%s\r\nbackup_last_time:%" PRIu64
               "\r\nbackup_last_success_time:%" PRIu64 "\r\n",
               backup_is_running(backup),
               !last->ended_ms ? "none"
               : last->is_good ? "ok"
                               : "err",
               last->ended_ms / 1000, last->success_ms / 1000);
}

static void shard_name(const struct backup *backup, struct bytes shard,
                       char name[BACKUP_NAME_MAX + 1])
{
    if (!shard.len)
        shard = bytes_of(backup->partition->name);
    (void)snprintf(name, BACKUP_NAME_MAX + 1, "%.*s", (int)shard.len, shard.data);
}

void backup_reply_list(const struct backup *backup, struct bytes shard, struct reply *reply)
{
    struct backup_catalog_entry *entries;
    char name[BACKUP_NAME_MAX + 1];
    char *dir = backup_catalog_of(backup->partition);
    shard_name(backup, shard, name);
    size_t count = backup_catalog_list(dir, name, &entries);
    reply_array(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        reply_map(reply, 6);
        reply_pair_text(reply, "backup", entries[i].name);
        reply_pair_text(reply, "id", entries[i].id);
        reply_pair_int(reply, "taken-ms", entries[i].taken_ms);
        reply_pair_int(reply, "bytes", entries[i].bytes);
        reply_pair_text(reply, "slots", entries[i].slots);
        reply_pair_int(reply, "parts", entries[i].parts);
    }
    free(entries);
    free(dir);
}

const char *backup_delete(struct backup *backup, struct bytes name, struct bytes shard)
{
    static const char unknown[] = "NOBACKUP there is no such backup";
    char of_shard[BACKUP_NAME_MAX + 1];
    char of_backup[BACKUP_NAME_MAX + 1];
    if (!backup_name_valid(name) || (shard.len && !backup_name_valid(shard)))
        return unknown;
    shard_name(backup, shard, of_shard);
    if (backup->state != BACKUP_IDLE &&
        (backup->state != BACKUP_DELETING || strcmp(backup->to, of_shard) != 0))
        return in_progress;
    (void)snprintf(of_backup, sizeof of_backup, "%.*s", (int)name.len, name.data);
    char *dir = backup_catalog_of(backup->partition);
    if (!backup_catalog_unlist(dir, of_backup, of_shard, backup->reason, sizeof backup->reason)) {
        free(dir);
        return unknown;
    }
    backup->has_more = backup->state == BACKUP_DELETING;
    if (backup->has_more) {
        free(dir);
        return NULL;
    }
    backup->dir = dir;
    manifest_set(&backup->to, of_shard);
    work(backup, BACKUP_DELETING);
    return NULL;
}
