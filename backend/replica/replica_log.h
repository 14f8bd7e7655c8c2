/*
 * replica_log.h - the log of a copy's core on the disk: what it has at the start, and its changes in order on a thread of their own.
 *
 *   replica thread         update: truncate, append ──► waiting     update ──► waiting      what comes while a job runs is the next job
 *                                                          │                      │
 *   log's thread                                           └─► cut, write, sync   └─► cut, write, sync       one job at a time
 *                                                                           │
 *   replica thread                                               on_synced ◄┘     or on_not_written, if the disk fails
 *
 *   WORKS ──a job fails──► FAILED ──each second: cut, new segment, probe of the disk──► WORKS (on_room)
 *                                                   └─ no space: the spare segment, for small records ─┘
 *
 * A job carries out the updates that came while the one before ran, then syncs once: the slower the disk, the more records share a
 * sync. Nothing is left written and not synced between two jobs.
 *
 * When a job fails, none of its records that were not synced is in the log, nor is any record that came after them; the core hears
 * which one is the last. What it wants from then on waits for the next attempt, and is dropped likewise if that fails too.
 *
 * Only one thread may write to the WAL at a time (storage.h). While the leader's partition writes, the log is given no updates; a
 * recovery of the storage is done while the log is paused.
 */
#pragma once

#include "backend/consensus/consensus.h"
#include "backend/format/replica_record.h"
#include "backend/replica/replica_members.h"
#include "backend/replica/replica_receive.h"

#include <stddef.h>

struct loop;
struct own_record;
struct storage;

/* ---- at the start ------------------------------------------------------------------------------ */

/* Not to be copied: the addresses lie in the struct itself. */
struct replica_found_log {
    struct term_runs runs; /* from the base on, behind which the log begins */
    uint64_t last;
    uint64_t committed; /* as far as it is known here */
    /* The newest record, and the one before if the newest is not known to be committed (count 0: else). That of the row 'g' has an
     * index which is committed, not its own. */
    struct consensus_members members, members_before;
    struct replica_members named, named_before; /* these too, with addresses */
};

enum replica_log_found {
    REPLICA_LOG_READ,
    /* The file `replica` has a group that no record of the store has: the process ended while it founded the group. Only `last` counts. */
    REPLICA_LOG_UNFOUNDED,
    /* Records are gone that this copy may have acknowledged: it must not vote under its id. The caller makes that last, since a later start
     * may not see it: the WAL removes what lies behind a gap. */
    REPLICA_LOG_LOST,
    REPLICA_LOG_FAILED, /* the disk failed, or a record is damaged */
};

/* Reads what the open store has of the log of the group that `record` names, the newest of the file `replica`; without a group the log is
 * empty. Segments that the WAL keeps belong to the log. If it is long, most segments are read only at their beginning: those in which the
 * term does not change. Any thread, while nothing is written. Unless it is READ, error[size] has one line that says why. */
enum replica_log_found replica_log_read(struct storage *storage,
                                        const struct replica_record *record,
                                        struct replica_found_log *found, char *error, size_t size);
/* Fills base, runs, last, committed, synced and members of *start; the runs are borrowed from *found. */
void replica_log_start(const struct replica_found_log *found, struct consensus_start *start);

/* ---- jobs -------------------------------------------------------------------------------------- */

struct replica_log;

/* Called on the loop's thread, never inside a function of this file. They may call these functions, but not replica_log_free. */
struct replica_log_events {
    /* All records up to `upto` are durable: CONSENSUS_SYNCED, with the cuts of the newest update or replica_log_sync that counts. */
    void (*on_synced)(void *owner, uint64_t upto, uint32_t cuts);
    /* Records behind `last` could not be written: CONSENSUS_NOT_WRITTEN, then replica_log_sync. `is_full`: for want of space. Comes
     * again after each attempt that fails, until on_room. */
    void (*on_not_written)(void *owner, uint64_t last, bool is_full);
    /* The disk takes records again. */
    void (*on_room)(void *owner);
};

/* The storage is used until replica_log_free; `owner` is passed to the events. */
struct replica_log *replica_log_new(struct loop *loop, struct storage *storage,
                                    const struct replica_log_events *events, void *owner);
/* Waits for the job that runs; drops what waits, and calls no event. NULL is allowed. */
void replica_log_free(struct replica_log *log);
/* Cuts and appends what the update says, then syncs if it says anything. `heard`: what the core was given, if the update appends its
 * records; they are copied. */
void replica_log_obey(struct replica_log *log, const struct consensus_update *update,
                      const struct replica_heard *heard);
/* Appends a record of this leader, whose index and term the core has taken, and syncs it. Uses the record. */
void replica_log_append(struct replica_log *log, uint64_t index, struct own_record *record,
                        uint32_t cuts);
/* Makes all records durable, for on_synced with these cuts: at the start of a copy that has records, and after on_not_written. */
void replica_log_sync(struct replica_log *log, uint32_t cuts);
/* From now on the WAL keeps a spare segment, so that it takes small records when the disk has no space. Before the first job. */
void replica_log_keep_spare(struct replica_log *log);
/* Is all that it was given on the disk, and has nothing failed? Then its thread writes no more until it is given something. */
bool replica_log_is_idle(const struct replica_log *log);
/* For how long the present job has been at work; 0: none is. */
uint64_t replica_log_running_us(const struct replica_log *log);
/* Bytes of records that are not on the disk yet. The log takes any number: its owner hears no more records while there are too many. */
size_t replica_log_waiting(const struct replica_log *log);
/* Nothing is written from the call of `paused` on, which comes at once or when the running job has ended, until replica_log_go_on. Not
 * while it is paused or about to be. */
void replica_log_pause(struct replica_log *log, void (*paused)(void *owner), void *owner);
void replica_log_go_on(struct replica_log *log);
