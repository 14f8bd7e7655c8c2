/*
 * backup.h - one backup of the whole cluster, led by one worker of one proxy.
 *
 *   PREPARE  every shard makes room and writes its memory to files                (seconds; no client waits)
 *   QUIESCE  every shard begins no transaction over shards, and ends those that run (milliseconds; new ones wait)
 *   CUT      when ALL shards are quiet: each holds new writes, finishes those in flight, makes its cut
 *                                                                                  (milliseconds; writes wait)
 *   RELEASE  when ALL shards have cut: everything continues; every shard replies whether it has held writes until now
 *   CONFIRM  when all shards have: each adds the manifest to its copy. Else CANCEL and another attempt.
 *   COPY     shards copy in the background; the leader polls their progress
 *
 * The backup contains the writes up to the moment at which the last reply to CUT arrived, and no later write, because no
 * shard executes a write between its cut and its release. The shards enforce this, so it is true for writes through any
 * proxy and for direct clients. At that moment no shard has a record of a transaction over shards (backend/backup/backup.h),
 * so the backup has all writes of each one or none. Shards hold transactions and writes for the time of the lease at most:
 * if the leader dies, both continue after that time, and its backup is never confirmed. If transactions do not end within
 * the lease, the backup fails. While one backup runs, shards refuse the PREPARE of another leader.
 *
 * With `backup-from = copy`, of a shard with several copies one that follows makes the files (backup_copies.h; why that is right: backend/backup/backup_moment.h):
 *
 * Between PREPARE and CONFIRM only leaders are asked, so that a copy that hangs lengthens no hold.
 *
 *   CHOOSE   before PREPARE: who follows closely? That copy is prepared, too, and its leader holds and cuts as above, but makes no files
 *   CONFIRM  the copy gets the moment at which its leader has cut, and waits until its data have that
 *   REPORT   when all have copied, these leaders are told, so that their record of the last backup is right
 *
 * If such a copy refuses, fails or does not answer, the next attempt is without it, at another moment, and, once files may exist, with another name.
 *
 * All commands are sent on control connections (LANE_CONTROL), where no held write is queued before them.
 */
#pragma once

#include "shared/backup_name.h"
#include "shared/net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct proxy_worker;
struct reply;
struct request;

enum {
    BACKUP_LEASE_MS = 3000,
    BACKUP_LEASE_MAX_MS = 60000,
    BACKUP_REASON_MAX = 512,
    BACKUP_COPIED_BY_MAX = 512,
};

/* The options of a backup. */
struct backup_wish {
    char name[BACKUP_NAME_MAX + 1];
    char slots[BACKUP_SLOTS_MAX + 1]; /* ranges (slot_ranges.h); empty: all */
    bool is_full;
    bool waits;         /* the reply comes when the backup has ended, and says whether it is good */
    uint32_t keep;      /* complete backups that are kept; 0: all */
    uint32_t keep_days; /* younger backups are kept; 0: their age does not count */
    /* the longest time for which shards may hold transactions over shards, and writes */
    uint32_t lease_ms;
};

/* State of the backup that a worker leads, and that workers exchange by value. */
struct backup_view {
    bool is_running;
    bool last_good;
    const char *step;
    char name[BACKUP_NAME_MAX + 1]; /* of the backup that runs, or ran last; "": there was none */
    char reason[BACKUP_REASON_MAX]; /* why the last backup failed */
    char copied_by
        [BACKUP_COPIED_BY_MAX]; /* "shard=address …" of copies that follow; may be cut off */
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint32_t shards;
    uint32_t shards_done;
    uint64_t ended_ms; /* wall clock of the last backup's end; 0: none has ended */
    uint64_t held_ms;  /* the longest time for which a shard held writes */
};

struct cluster_backup;

/* Begins to lead a backup: sends PREPARE for the client's request, and answers it when all shards have answered. */
void cluster_backup_lead(struct request *request, const struct backup_wish *wish);
/* Cancels the backup that this worker leads. False: it leads none. */
bool cluster_backup_stop(struct proxy_worker *worker, const char *reason);
void cluster_backup_look(const struct proxy_worker *worker, struct backup_view *view);
/* To be called when the worker is freed. */
void cluster_backup_free(struct proxy_worker *worker);
