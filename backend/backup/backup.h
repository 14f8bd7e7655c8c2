/*
 * backup.h - one backup at a time of a partition that continues to serve clients.
 *
 *   IDLE ─ prepare ─► PREPARING ──► READY ─ quiesce ─► QUIESCING ─ cut ─► DRAINING
 *     ▲               memtables                    transactions       batch in flight ends:
 *     │               to files,                    over shards end    the cut
 *     │               hard links                                         │
 *     │                                                                  ▼
 *     │                            SEALING ◄─ confirm ─ COPIED ◄───── COPYING
 *     │                            manifest          (waits for       the log up to the cut,
 *     │                               │               confirm)        all to the directory
 *     └─ failed, cancelled, proxy lost, done
 *
 * backup_start: a single partition runs all steps without holding writes, because its own cut is always consistent. Its last
 * batch is the one that was closed last when the drain began; the cut waits until it is committed, and may have later ones.
 *
 * For a cluster a proxy sends the steps to all shards (proxy/cluster/backup.h). If the connection ends that has sent the last one, and
 * no other comes soon, the backup is not confirmed any more: it fails. From `quiesce` on no transaction over shards
 * begins here; those that have begun end, and then STATUS says "quiet". `cut` also holds all writes of this partition,
 * from before the cut. Both last until `release`, or until their lease ends; in the second case the reply to `cut` or
 * `release` reports this, and the backup is not confirmed. If all shards have made their cuts and all holds lasted until
 * their release, there was a moment at which every shard held its writes and had made its cut: the backup has all writes
 * before that moment and none after it, through any proxy.
 *
 * No record of a transaction over shards is in the backup, so it has all writes of each one or none. `cut` comes when the
 * coordinators of all shards are quiet, so no PREPARE is sent any more. One that is still on its way belongs to a
 * transaction that has locks at its receiver, and the receiver makes its cut after that transaction has ended.
 *
 * A backup of some slots has only their rows: they are copied out of the cut (slot_copy.h). A shard that owns none of them
 * makes all steps with the others, and writes nothing.
 *
 * The slow steps lie outside of the hold: the links are made before it, and the log is copied after it, up to the batch that was the last
 * one during it (store_cut.h). So a hold lasts as long as the batch in flight and the messages of the proxy take. From PREPARING until the cut the
 * log is not trimmed; a proxy that does not go on is given a minute.
 *
 * Of a shard with several copies a copy that follows can make the files, so that the leader's clients do not feel it (backup_moment.h). It is
 * led by the same proxy: PREPARING, READY, then `confirm` names the moment at which the leader has cut, and it drains until its data have
 * that. The leader makes all steps and writes nothing; its `confirm` comes when the files are complete.
 *
 * The files of the cut (links in `<data>/cut-partition-N`) are copied; unchanged ones become links to the newest
 * backup.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct backup;
struct out;
struct partition;
struct reply;

struct backup_plan {
    struct bytes name;  /* of the backup */
    struct bytes shard; /* empty: the partition's name */
    struct bytes id;    /* empty: a new one is generated */
    struct bytes map;   /* shards.ini; empty: backup of one shard */
    struct bytes slots; /* ranges (slot_ranges.h); empty: all */
    bool is_full;       /* copy all files, without links to the last backup */
    bool is_elsewhere;  /* a copy that follows makes the files: this one only holds */
    bool is_of_copy;    /* this copy follows and makes the files */
    int64_t keep;       /* backup of one shard: number of backups to keep; 0: all */
};

struct backup *backup_new(struct partition *partition);
/* Cancels the backup, waits for its end and frees it. NULL is allowed. */
void backup_free(struct backup *backup);
/* Backs up only this partition. This and the steps of a cluster's backup return NULL, or the reason for a refusal. */
const char *backup_start(struct backup *backup, const struct backup_plan *plan);
const char *backup_prepare(struct backup *backup, const struct backup_plan *plan);
/* The session has sent the last step, without a refusal. */
void backup_led_by(struct backup *backup, uint64_t session);
const char *backup_quiesce(struct backup *backup, struct bytes id, uint64_t lease_ms);
const char *backup_cut(struct backup *backup, struct bytes id, uint64_t lease_ms);
const char *backup_release(struct backup *backup, struct bytes id);
/* `what`: for a copy that follows the moment at which its leader has cut; for that leader the bytes of the files; else empty. */
const char *backup_confirm(struct backup *backup, struct bytes id, struct bytes what);
/* Cancels the backup with this id, or (empty) with any id; the reason (empty: "cancelled") is shown as its error. False: no such backup is in progress. */
bool backup_cancel(struct backup *backup, struct bytes id, struct bytes reason);
bool backup_is_running(const struct backup *backup);
/* Replies a map with the state of the current and the last backup. */
void backup_reply_status(const struct backup *backup, struct reply *reply);
/* Prints fields of INFO persistence: about this backup and the last one. */
void backup_info(const struct backup *backup, struct out *out);
void backup_reply_list(const struct backup *backup, struct bytes shard, struct reply *reply);
/* Deletes a backup; its files are removed in the background. NULL, or the reason for a refusal. */
const char *backup_delete(struct backup *backup, struct bytes name, struct bytes shard);
/* Makes the cut if no batch is in flight; called at the end of each turn. */
void backup_turn_end(struct backup *backup);
/* Ends expired leases, and backups whose proxy is lost; called ten times a second. */
void backup_tick(struct backup *backup);
