/*
 * backup_record.h - the result of a partition's last backup, kept over restarts, and whether backup-dir can be written.
 *
 *   backup.c ─ backup_record_ended ─► STATUS, metrics ─► file <data>/backup-partition-N.status, on the backup's thread
 *   once a minute, partition 0 only:  backup-dir: writable? free bytes? pushed until? archive-dir: pushed until? ─► metrics, log
 */
#pragma once

#include "shared/backup_name.h"

#include <stdbool.h>
#include <stdint.h>

enum { BACKUP_RECORD_REASON_MAX = 512 };

struct backup_record;
struct partition;
struct worker;

/* Times are of the wall clock. */
struct backup_result {
    char name[BACKUP_NAME_MAX + 1];
    char reason[BACKUP_RECORD_REASON_MAX]; /* why it failed */
    bool is_good;
    uint64_t ended_ms;    /* 0: no backup has ended yet */
    uint64_t duration_ms; /* from PREPARE until its end */
    uint64_t bytes;       /* of the last good backup */
    uint64_t success_ms;  /* when the last good backup ended; 0: there was none */
};

/* Reads the file. The worker must not be freed before the record. */
struct backup_record *backup_record_new(struct partition *partition, struct worker *worker);
/* Before the worker is freed: submits no more jobs. */
void backup_record_close(struct backup_record *record);
/* After the worker has ended; writes a result that is not written yet. NULL is allowed. */
void backup_record_free(struct backup_record *record);
const struct backup_result *backup_record_result(const struct backup_record *record);
/* A backup has ended; bytes and success_ms are ignored for one that failed. */
void backup_record_ended(struct backup_record *record, const struct backup_result *result);
/* True once a minute, when backup-dir has to be checked; to be called ten times a second. */
bool backup_record_wants_check(const struct backup_record *record);
/* Checks on a thread of its own whether this directory, the path of backup-dir, can be written, and how far it and archive-dir (empty: there is none)
 * are in an object store. */
void backup_record_check(struct backup_record *record, const char *directory, const char *archive);
