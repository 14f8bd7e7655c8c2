/*
 * storage.h - a partition's data on the disk: the WAL and the store's tables, which are opened, recovered and closed together.
 *
 *   storage_log ──► the WAL: durable, in order     store_apply ──► the tables: what reads see
 *
 *   batches     1   2   3   4 │ 5   6   7 │ 8   9   10    │ 11  12
 *   rows are    in files      │ in mem-   │ in the WAL and │ in the WAL    files and memtables together: the tables
 *               (WAL trimmed) │ tables    │ a write buffer │ only
 *                           filed       applied       committed  logged
 *
 * A batch is logged first; its rows are applied to the tables later, usually together with those of many batches. A start
 * replays the WAL into the tables; so does a recovery that reopens the database, since its memtables are lost then. Only
 * the index `filed` decides what is trimmed; the store has no access to the WAL.
 *
 * Only committed batches are applied. With one copy of the data a batch is committed as soon as it is logged; with several, the
 * last ones in the log may not be committed yet, and may be replaced by others. So each batch has the index that the log
 * gave it, and no one concludes from the end of the log what was applied. A store with copies has the row 'g' or the file
 * `replica`; its log keeps the batches that are not committed, whoever opens it.
 *
 * `committed` is also the index up to which the write buffers have the rows: a buffer that is applied is taken to reach this far, and
 * the WAL is trimmed up to there. So storage_commit is called by the partition's thread only, and only when the rows of the batch are
 * in the overlay (overlay.h) or in the tables. A copy may have heard of a higher commit index; that is another number.
 *
 * Logging: one thread at a time (the commit thread). storage_sync_upto, storage_logged, figures, flush and checkpoint: any
 * thread. Open, close, recover, commit: the partition's thread.
 */
#pragma once

#include "backend/storage/replay.h"
#include "backend/store/store.h"

struct storage;
struct wal;

/* Opens both; a start of a long WAL takes a while. The WAL is shortened when it has reached wal_bytes_max. NULL and a
 * one-line reason in error[size]. A database that another process uses is refused. On a full disk nothing is written:
 * storage_is_behind. */
struct storage *storage_open(struct store_env *env, const struct store_options *options,
                             uint64_t wal_bytes_max, char *error, size_t size);
/* The disk was full when the tables were opened: they can only be read, and lack the rows of the WAL, which the caller must show
 * (overlay_replay). Until storage_recover succeeds, which replays the WAL into the tables. */
bool storage_is_behind(const struct storage *storage);
/* While storage_is_behind: calls the function for each committed batch of the WAL, in order. OK, or ERR_STORE and a reason: the WAL
 * cannot be read, or the function has failed. */
int storage_read_wal(struct storage *storage, replay_fn *read, void *owner, char *error,
                     size_t size);
/* Without a sync; all iterators must be freed before. */
void storage_close(struct storage *storage);
/* The tables and the WAL; the same until storage_close. */
struct store *storage_store(const struct storage *storage);
struct wal *storage_wal(const struct storage *storage);

/* Gives the batch the next index, *index, and appends it to the WAL; with `sync` it and all before are on the disk on return.
 * 0, ERR_DISK_FULL or ERR_STORE with a one-line reason in error[size]; after an error no batch is logged until
 * storage_recover. */
int storage_log(struct storage *storage, struct effects *effects, bool sync, uint64_t *index,
                char *error, size_t size);
/* Appends a batch whose header already has its numbers, as another copy has sent it; *index is its place. It is neither
 * durable nor shown by storage_logged before storage_sync. Errors as for storage_log. */
int storage_append(struct storage *storage, struct bytes record, uint64_t *index, char *error,
                   size_t size);
/* Index of the newest logged batch. */
uint64_t storage_logged(const struct storage *storage);
/* Index of the newest batch that was appended, logged or not: the next one gets the index after it. On a thread that may log, or while
 * none logs. */
uint64_t storage_written(const struct storage *storage);
/* Removes the batches after `after`, durably; on a thread that may log. OK, or ERR_DISK_FULL or ERR_STORE with a reason: storage_recover
 * completes it. Committed batches are refused with ERR_STORE, and nothing changes. */
int storage_truncate(struct storage *storage, uint64_t after, char *error, size_t size);
/* Makes everything logged so far durable; on a thread that may log. */
int storage_sync(struct storage *storage, char *error, size_t size);
/* Makes batches up to this one durable, if they are not yet. */
int storage_sync_upto(struct storage *storage, uint64_t index, char *error, size_t size);
/* Batches up to this one are committed, and their rows are in the overlay or in the tables; they never become fewer. */
void storage_commit(struct storage *storage, uint64_t index);
/* Index of the newest committed batch, as storage_commit or a replay of the WAL has found it; 0: none. */
uint64_t storage_committed(const struct storage *storage);
/* The tables may have some rows of batches up to this one, since the start: the end of the WAL then, or where it was cut since. Before as
 * many are committed, a reader could see a part of a batch. Any thread. */
uint64_t storage_whole_at(const struct storage *storage);
/* All rows of batches up to this one are in the tables. */
void storage_applied(struct storage *storage, uint64_t index);
/* storage_log, then store_apply; for callers without a commit thread. A store that is one of several copies is refused with ERR_STORE:
 * only the leader of its group appends. */
int storage_write(struct storage *storage, struct effects *effects, bool sync, char *error,
                  size_t size);

/* The WAL has reached its limit, and storage_flush would shorten it. */
bool storage_wal_is_long(const struct storage *storage);
/* Writes what is in RocksDB's memtables to files and shortens the WAL; blocks, other writes go on. 0, ERR_DISK_FULL or
 * ERR_STORE. */
int storage_flush(struct storage *storage, char *error, size_t size);
/* Makes a consistent copy of hard links at `path` (must not exist) with every logged batch. Batches that are in no
 * file yet are in the copied WAL: a flush before makes it short. 0, ERR_DISK_FULL or ERR_STORE with a reason. */
int storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size);
/* Only the links to the tables' files. What these lack is in the WAL, which the caller keeps whole from before the call (store_cut.h). */
int storage_link_tables(struct storage *storage, const char *path, char *error, size_t size);

/* After a failure: tries to make logging and applying work again, and may reopen the database for that. Called while
 * neither is in progress and no slice or iterator exists; blocks. 0, or ERR_DISK_FULL or ERR_STORE and a reason: try
 * again later; reads work as long as the database is open. Afterwards a batch whose logging failed is void.
 * *is_reopened: the database was reopened, and the rows of all batches in the WAL are in the tables, unless storage_is_behind. */
int storage_recover(struct storage *storage, bool *is_reopened, char *error, size_t size);

/* As storage_recover, but it leaves the log alone, which another thread may write: for a store that follows, when applying has failed. */
int storage_recover_tables(struct storage *storage, bool *is_reopened, char *error, size_t size);

/* Is the store one of several copies (the row 'g', or the file `replica`)? */
bool storage_is_replicated(const struct storage *storage);
/* From now on the store is one of several copies, because their group is being founded: before the record of its members is logged. Its WAL
 * keeps that record, also if its rows are in files before the file `replica` has its index. */
void storage_join_group(struct storage *storage);
/* From now on the store is the only copy, because it was restored. The caller deletes the row 'g' before anything else opens the store. */
void storage_leave_group(struct storage *storage);
/* Did the start drop batches of the WAL that readers may have seen (wal_has_lost), or lack batches that were committed? */
bool storage_has_lost(const struct storage *storage);
/* Likewise, without batches that were perhaps never durable (wal_has_lost_durable): what a power loss takes is no broken promise. */
bool storage_has_lost_durable(const struct storage *storage);

/* Limits for segments of the WAL that only readers of changes need (struct wal_keep); removes what is beyond them. On any thread; waits for
 * the disk. On a full disk everything kept is removed, before writes are refused for long. */
void storage_keep(struct storage *storage, uint64_t bytes, uint64_t age_ms,
                  uint64_t free_bytes_min);

/* As store_figure, with the WAL included in "disk_bytes", and with more names: "wal_bytes", "wal_damaged_batches" (intact
 * batches that were dropped at the start), "kept_bytes" and "kept_since" (Unix time, 0: nothing is kept). */
uint64_t storage_figure(struct storage *storage, const char *name);
/* Appends "name:value\r\n" lines with these figures and those of store_info. */
void storage_info(struct storage *storage, struct out *out);
