/*
 * backup.h - one backup of one partition at a time, made while it serves.
 *
 *   IDLE ─ prepare ─► PREPARING ──► READY ─ cut ─► DRAINING ──► CUTTING ──► COPYING ──► COPIED ─ confirm ─► SEALING
 *     ▲               memtables                    batch in     hard links  to the      (waits for           manifest
 *     │               to files                     flight ends              directory   confirm)               │
 *     └────── failed, cancelled, proxy lost, done ◄────────────────────────────────────────────────────────────┘
 *
 * Alone (backup_start) a partition runs all steps by itself without holding writes: its cut is consistent anyway.
 *
 * Over a cluster a proxy leads all shards (proxy/backup.h). `cut` with a lease holds all writes of this partition from
 * before the cut until `release`, or until the lease ends: then the reply to `release` says so, and the backup is not
 * confirmed. If all shards have cut and all holds lasted until their release, there was a moment at which every shard was
 * held and had cut: the backup has all writes before that moment and none after it, through any proxy.
 *
 * The files of the cut (links in `<data>/cut-partition-N`) are copied; unchanged ones become links to the newest
 * backup.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct backup;
struct partition;
struct reply;

struct backup_plan {
    struct bytes name;  /* of the backup */
    struct bytes shard; /* empty: the partition's name */
    struct bytes id;    /* empty: a new one is generated */
    struct bytes map;   /* shards.ini; empty: alone */
    bool is_full;       /* copy all files, without links to the last backup */
    int64_t keep;       /* alone: the number of backups to keep; 0: all */
};

struct backup *backup_new(struct partition *partition);
/* Cancels the backup and waits. NULL is allowed. */
void backup_free(struct backup *backup);
/* Backs up this partition alone. This and the next four functions return NULL, or the reason for a refusal. */
const char *backup_start(struct backup *backup, const struct backup_plan *plan);
const char *backup_prepare(struct backup *backup, const struct backup_plan *plan);
const char *backup_cut(struct backup *backup, struct bytes id, uint64_t lease_ms);
const char *backup_release(struct backup *backup, struct bytes id);
const char *backup_confirm(struct backup *backup, struct bytes id);
/* Cancels the backup with this id, or (empty) any. False: it is not in progress. */
bool backup_cancel(struct backup *backup, struct bytes id);
bool backup_is_running(const struct backup *backup);
/* Replies a map with the state of the current and the last backup. */
void backup_reply_status(const struct backup *backup, struct reply *reply);
void backup_reply_list(const struct backup *backup, struct bytes shard, struct reply *reply);
/* Deletes a backup; its files are removed in the background. NULL, or the reason for a refusal. */
const char *backup_delete(struct backup *backup, struct bytes name, struct bytes shard);
/* End of a turn: makes the cut if no batch is in flight. */
void backup_turn_end(struct backup *backup);
/* Ten times a second: checks leases and lost proxies. */
void backup_tick(struct backup *backup);
