/*
 * backup_inner.h - what the files of a backup share (backup.h).
 *
 *   backup.c ──────► states and commands, on the partition's thread
 *   backup_show.c ─► STATUS, LIST, DELETE, likewise
 *   backup_job.c ──► files, on the worker's thread
 */
#pragma once

#include "backend/backup/backup.h"
#include "backend/backup/backup_moment.h"
#include "backend/backup/backup_record.h"
#include "backend/backup/backup_slots.h"
#include "backend/backup/disk_file.h"
#include "backend/backup/manifest.h"
#include "backend/backup/store_cut.h"
#include "shared/net/worker.h"

enum { REASON_MAX = 512, BACKUP_OPEN_MAX = 512 };

enum backup_state {
    BACKUP_IDLE,
    BACKUP_PREPARING,
    BACKUP_READY,
    BACKUP_QUIESCING,
    BACKUP_DRAINING,
    BACKUP_COPYING,
    BACKUP_COPIED,
    BACKUP_SEALING,
    BACKUP_DELETING,
};

/* The proxy that controls a backup. */
struct backup_leader {
    uint64_t session;    /* that has sent the last step */
    uint64_t here_ms;    /* when that session was seen last; monotonic */
    uint64_t lost_at_ms; /* when the proxy is considered lost; monotonic */
};

struct backup_cut {
    char *dir;
    struct cut *files; /* from PREPARING until they were copied; NULL: none */
    bool is_of_copy;   /* this copy follows: it holds nothing, and its cut ends with the moment */
    bool is_elsewhere; /* this copy leads and only holds: another one makes the files */
    bool is_released;  /* the hold has lasted until RELEASE, and this copy has led until then */
    uint64_t term;     /* in which this copy has led at PREPARE */
    struct backup_moment moment; /* of a copy that follows */
    uint64_t linked_upto;        /* of a copy that follows: its tables have no later record */
    uint64_t named_ms; /* of a copy that follows: when it was told the moment; monotonic */
    uint64_t bytes;    /* of the files elsewhere */
    uint64_t copy;     /* id of this copy (backup_copy_id) */
};

struct backup {
    struct job job; /* one at a time */
    struct partition *partition;
    struct worker *worker;
    enum backup_state state;
    bool is_led;       /* a proxy controls the backup */
    bool is_confirmed; /* the manifest may be written */
    bool is_full;
    bool is_held;
    int64_t keep;
    uint64_t held_until_ms; /* monotonic */
    struct backup_leader leader;
    struct backup_cut cut;
    char *dir;     /* the directory of backups when the backup began */
    char *to;      /* the directory that is being filled; during a deletion: the shard's name */
    bool has_more; /* files were deleted since the deletion began */
    struct manifest *manifest;
    struct backup_slots slots;
    struct disk_progress progress;
    uint64_t bytes_shared; /* of the files that are links */
    uint64_t changes;      /* space_changes() when the cut began; for partition_saved */
    bool good;             /* result of the job */
    char reason[REASON_MAX];
    char cancel_reason[REASON_MAX]; /* why the job was cancelled */
    uint64_t begun_ms;              /* monotonic */
    struct backup_record *record;   /* the last backup that ended */
};

extern const char backup_in_progress[];
/* The directory of backups: `backup-dir`, or by default one beside the data. The caller frees the text. */
char *backup_catalog_of(const struct partition *partition);
/* Has no shard a record of a transaction of this partition, nor this partition of others? Else writes the reason. */
bool backup_is_quiet(const struct backup *backup, char why[BACKUP_OPEN_MAX]);
/* Enters a state in which the worker works. */
void backup_work(struct backup *backup, enum backup_state state);
/* job.work: does the part of the state that it is in. */
void backup_run_job(struct job *job);
/* Removes the files of a backup that failed. */
void backup_remove_partial(const struct backup *backup);
