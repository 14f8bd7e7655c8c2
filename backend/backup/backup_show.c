/*
 * backup_show.c - what a partition says of its backups, and their deletion; on the partition's thread.
 */
#include "backend/backup/backup.h"

#include "backend/backup/backup_catalog.h"
#include "backend/backup/backup_inner.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const state_names[] = {"idle",      "preparing", "ready",
                                          "quiescing", "draining",  "copying",
                                          "copied",    "sealing",   "deleting"};

char *backup_catalog_of(const struct partition *partition)
{
    const struct backend_config *config = &partition->snapshot->config;
    char *dir;
    if (*config->backup_dir)
        CHECK((dir = strdup(config->backup_dir)));
    else
        CHECK(asprintf(&dir, "%s/backups", config->data) > 0);
    return dir;
}

void backup_reply_status(const struct backup *backup, struct reply *reply)
{
    uint64_t done = atomic_load(&backup->progress.bytes_done);
    uint64_t total = atomic_load(&backup->progress.bytes_total);
    bool is_busy = backup->manifest != NULL;
    const struct backup_result *last = backup_record_result(backup->record);
    char why[BACKUP_OPEN_MAX] = "";
    bool has_no_open = backup->partition->pause.is_quiescing && backup_is_quiet(backup, why);
    bool is_now_quiet = has_no_open && backup->state == BACKUP_QUIESCING;
    bool has_cut = is_busy && backup->manifest->taken_ms;
    char moment[BACKUP_MOMENT_MAX] = "";
    if (has_cut)
        backup_moment_print(&backup->cut.moment, moment);
    const char *no_copy = backup_copy_refusal(backup->partition);
    reply_map(reply, 15);
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
    reply_pair_text(reply, "moment", moment);
    reply_pair_text(reply, "not-a-copy", no_copy ? no_copy : "");
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
        return backup_in_progress;
    (void)snprintf(of_backup, sizeof of_backup, "%.*s", (int)name.len, name.data);
    char *dir = backup_catalog_of(backup->partition);
    backup->cut.copy = backup_copy_id(backup->partition);
    if (backup_catalog_is_of_other(dir, of_backup, of_shard, backup->cut.copy) ||
        !backup_catalog_unlist(dir, of_backup, of_shard, backup->reason, sizeof backup->reason)) {
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
    backup_work(backup, BACKUP_DELETING);
    return NULL;
}
