/*
 * store.h - the storage engine in our words: column families of ordered bytes, atomic batches,
 * point reads without copies, ordered iteration. The only access to RocksDB.
 *
 *   store_env   one per process: block cache and background threads, shared by all stores
 *   store       one per partition: one database directory
 *
 *   store_log ──► the WAL: durable, in order     store_apply ──► the tables: what reads see
 *
 * A batch is logged first, and its rows go into the tables later, maybe together with those of many others. What is in
 * the WAL and not in the tables' files yet goes into the tables when the store is opened.
 *
 * Reads may come from any thread; logging from one thread at a time (the commit thread), applying from one at a time
 * too. Figures, compaction and checkpoints may be asked for by any thread. store_open, store_close, store_recover: by
 * the partition's thread. Implementations: store_rocksdb*.c | tests/sim/store_mem.c (crash = unsynced writes are lost).
 */
#pragma once

#include "backend/format/column_family.h"
#include "shared/bytes.h"
#include "shared/out.h"

struct effects;
struct pace;
struct store_env;
struct store;
struct store_iter;
struct store_batch;

struct store_env_options {
    uint64_t block_cache_bytes;
    uint32_t background_threads;
    struct pace *pace; /* compactions keep to it; outlives the environment; NULL: none */
};

/* Says whether a row of `cf` may be dropped by compaction. Called on background threads; reads
 * through store_get are allowed. When in doubt: false. */
typedef bool store_drop_fn(void *owner, struct store *store, enum cf cf, struct bytes key);

struct store_options {
    const char *path;        /* directory; created with its parents */
    uint64_t memtable_bytes; /* per column family */
    uint32_t memtables;
    uint64_t wal_bytes_max;
    uint32_t bloom_bits; /* 0 = none */
    int32_t max_open_files;
    uint64_t blob_threshold_bytes; /* 0 = no blob files */
    const char *compression;       /* none | lz4 | zstd */
    store_drop_fn *drop;           /* may be NULL */
    void *drop_owner;
};

struct store_env *store_env_new(const struct store_env_options *options);
/* The block cache gets another size, at once; any thread. */
void store_env_resize(struct store_env *env, uint64_t block_cache_bytes);
void store_env_free(struct store_env *env); /* after all its stores are closed */

/* NULL and a one-line reason in error[size]. A database in use by another process is refused. */
struct store *store_open(struct store_env *env, const struct store_options *options, char *error,
                         size_t size);
/* Syncs nothing; every iterator must be freed before. */
void store_close(struct store *store);

/* Takes over memtable_bytes, memtables, compression and blob_threshold_bytes of `options`, for what is written from now
 * on. Blocks, and holds writes up for some milliseconds. */
bool store_set_options(struct store *store, const struct store_options *options, char *error,
                       size_t size);

/* A value borrowed from the engine (pinned) or from an overlay write buffer (pin NULL) until
 * slice_release. A pinned one may outlive the store, but not its environment. */
struct slice {
    const char *data;
    size_t len;
    void *pin;
};
static inline struct bytes slice_bytes(const struct slice *slice)
{
    return (struct bytes){slice->data, slice->len};
}

/* 0 and the value, ERR_NOT_FOUND, or ERR_STORE (logged). On failure `value` is left alone. */
int store_get(struct store *store, enum cf cf, struct bytes key, struct slice *value);
/* The same without going to the disk: ERR_UNCACHED when the row, or whether it exists, is not known in memory. */
int store_get_cached(struct store *store, enum cf cf, struct bytes key, struct slice *value);
/* The same as store_get on a thread of the readers: store_recover waits for it, and it for store_recover. */
int store_fetch(struct store *store, enum cf cf, struct bytes key, struct slice *value);
void slice_release(struct slice *slice);

/* Iterates keys k with lower <= k < upper (empty upper: to the end). Sees one consistent state,
 * that of its creation. After every move: store_iter_valid. The bounds are copied. */
struct store_iter *store_iter_new(struct store *store, enum cf cf, struct bytes lower,
                                  struct bytes upper);
/* The same without going to the disk: where it would have to, it is not valid any more, and uncached. Where ranges were
 * deleted lately, it does go to the disk. */
struct store_iter *store_iter_new_cached(struct store *store, enum cf cf, struct bytes lower,
                                         struct bytes upper);
bool store_iter_is_uncached(const struct store_iter *iter);
void store_iter_free(struct store_iter *iter);                            /* NULL is allowed */
void store_iter_seek(struct store_iter *iter, struct bytes key);          /* first k >= key */
void store_iter_seek_for_prev(struct store_iter *iter, struct bytes key); /* last k <= key */
void store_iter_seek_first(struct store_iter *iter);
void store_iter_seek_last(struct store_iter *iter);
void store_iter_next(struct store_iter *iter);
void store_iter_prev(struct store_iter *iter);
/* In one direction: to the first row from `from` on; has_from false: to the end of the bounds that it comes from. */
static inline void store_iter_begin(struct store_iter *iter, bool is_reverse, struct bytes from,
                                    bool has_from)
{
    if (is_reverse && has_from)
        store_iter_seek_for_prev(iter, from);
    else if (is_reverse)
        store_iter_seek_last(iter);
    else if (has_from)
        store_iter_seek(iter, from);
    else
        store_iter_seek_first(iter);
}
static inline void store_iter_step(struct store_iter *iter, bool is_reverse)
{
    if (is_reverse)
        store_iter_prev(iter);
    else
        store_iter_next(iter);
}
bool store_iter_valid(const struct store_iter *iter);
struct bytes store_iter_key(const struct store_iter *iter);   /* borrowed until the next move */
struct bytes store_iter_value(const struct store_iter *iter); /* likewise */
bool store_iter_failed(const struct store_iter *iter);        /* a read error ended it */

/* What an iterator passes: from `from` on, or from the end of the bounds that it comes from. */
struct store_range {
    enum cf cf;
    bool is_reverse;
    bool has_from;
    struct bytes lower;
    struct bytes upper;
    struct bytes from;
    uint64_t rows;  /* are passed over first, */
    uint64_t bytes; /* then so many are read into memory */
};
/* On a thread of the readers, as store_fetch. OK or ERR_STORE. */
int store_fetch_range(struct store *store, const struct store_range *range);

/* What goes into the tables: operations apply in order, all or nothing. */
struct store_batch *store_batch_new(void);
void store_batch_free(struct store_batch *batch);
void store_batch_clear(struct store_batch *batch);
void store_batch_put(struct store_batch *batch, struct store *store, enum cf cf, struct bytes key,
                     struct bytes value);
void store_batch_delete(struct store_batch *batch, struct store *store, enum cf cf,
                        struct bytes key);
/* Deletes from <= k < to; an empty `to` means to the end of the column family (no key begins with
 * 32 bytes 0xff). An empty range is no operation. */
void store_batch_delete_range(struct store_batch *batch, struct store *store, enum cf cf,
                              struct bytes from, struct bytes to);
/* Adds the effects of a batch as the WAL has it. False and a one-line reason: they cannot be read, and some may have
 * been added. */
bool store_batch_add_effects(struct store_batch *batch, struct store *store, struct bytes effects,
                             char *error, size_t size);
size_t store_batch_bytes(const struct store_batch *batch);

/* Gives the batch the next index and appends it to the WAL; with `sync` it is on the disk when this returns, and all
 * before it. 0, ERR_DISK_FULL or ERR_STORE, then a one-line reason in error[size], and nothing is logged any more until
 * store_recover. */
int store_log(struct store *store, struct effects *effects, bool sync, char *error, size_t size);
/* Logged batches are numbered: the newest one; any thread. */
uint64_t store_logged(const struct store *store);
/* Makes everything logged so far durable; on a thread that may log. */
int store_sync(struct store *store, char *error, size_t size);
/* The same up to a batch, unless it is; any thread. */
int store_sync_upto(struct store *store, uint64_t logged, char *error, size_t size);
/* Writes rows of logged batches into the tables: from now on reads see them. Metadata of a collection before its other
 * rows, or they may be taken for orphans. 0, ERR_DISK_FULL or ERR_STORE and a reason; then no more
 * until store_recover. */
int store_apply(struct store *store, struct store_batch *batch, char *error, size_t size);
/* All rows of batches up to this one are in the tables. */
void store_applied(struct store *store, uint64_t logged);
/* The log has grown as long as it may, and store_flush would shorten it. */
bool store_wal_is_long(const struct store *store);
/* For store_drop_fn: effects made since this time, in ms of the wall clock, may not be in the tables; 0: all are. Set
 * by the partition's thread. */
void store_set_unapplied(struct store *store, uint64_t since_ms);
uint64_t store_unapplied(const struct store *store);
/* Logs and applies the batch; for callers without a commit thread. Errors as those of the two. */
int store_write(struct store *store, struct effects *effects, bool sync, char *error, size_t size);
/* Compacts where ranges were deleted, until nothing is left of them; blocks. */
void store_compact_ranges(struct store *store);
/* After a failure this tries to bring logging and applying back, and may reopen the database for it; called on the
 * partition's thread with neither under way and no slice or iterator alive; blocks. 0, or ERR_DISK_FULL or ERR_STORE
 * and a reason: try again later; reads go on as long as the database is there. Afterwards a batch whose logging failed
 * never was. *is_reopened: the database was, and the rows of all batches in the WAL are in the tables. */
int store_recover(struct store *store, bool *is_reopened, char *error, size_t size);

/* Compacts a column family's range; blocks. Empty bounds: everything. */
void store_compact(struct store *store, enum cf cf, struct bytes from, struct bytes to);
/* How far a compaction of everything is; any thread may look. Zeroed by its owner before. */
struct store_progress {
    _Atomic uint64_t bytes_total; /* data files when it began */
    _Atomic uint64_t bytes_done;  /* those of them that are through */
    _Atomic int cf;               /* enum cf: at work on this one */
    _Atomic bool is_cancelled;
};
enum store_compacted { STORE_COMPACTED, STORE_COMPACT_CANCELLED, STORE_COMPACT_FAILED };
/* Compacts everything, one column family after the other; blocks, for hours if there is much. Writes go on. One at a
 * time. */
enum store_compacted store_compact_all(struct store *store, struct store_progress *progress);
/* Has that one end soon, and waits for it if it is in the middle of something; on another thread. */
void store_compact_cancel(struct store *store, struct store_progress *progress);
/* For people: "system", "metadata" ... */
const char *store_family_name(enum cf cf);
/* Has compaction look for files that are due, which it does by itself only where rows are written: call
 * it about once an hour, or orphans stay where nothing is. May sync files; not for a busy loop. */
void store_maintain(struct store *store);
/* Appends "name:value\r\n" lines of engine figures (levels, memtables, pending compaction, cache).
 */
void store_info(struct store *store, struct out *out);
/* One number by name: "disk_bytes" (its parts: "sst_bytes", "blob_bytes", "wal_bytes"),
 * "memtable_bytes", "table_reader_bytes", "cache_bytes" (of the environment),
 * "pending_compaction_bytes", "stalled" (1 when writes are stopped), "delayed_write_rate" (bytes a second
 * that writes are held to while compaction is behind; 0: they are not), "disk_free_bytes" (0: none, or unknown),
 * "running_compactions", "running_flushes", "wal_damaged_batches" (whole ones of the WAL that were dropped at the
 * start). */
uint64_t store_figure(struct store *store, const char *name);
/* The engine takes no writes, or holds them to a rate, until compaction has followed: what writes, a flush too, may
 * take long. */
bool store_holds_writes(struct store *store);
/* Compaction is half as far behind as it may be before the engine holds writes back. Asks the engine a dozen
 * figures. */
bool store_is_behind(struct store *store);
/* What lies on each level, all column families together. */
enum { STORE_LEVELS = 7 };
struct store_level {
    uint64_t files;
    uint64_t bytes;
};
void store_levels(struct store *store, struct store_level levels[STORE_LEVELS]);
/* Blocks this thread found in the block cache, and those it read, since its first call. */
void store_thread_blocks(uint64_t *hits, uint64_t *reads);
/* Writes what is in memory tables to files and shortens the WAL; blocks, other writes go on. 0, ERR_DISK_FULL or
 * ERR_STORE. */
int store_flush(struct store *store, char *error, size_t size);
/* Forgets the blocks that were read, of all stores of the environment: who reads next goes to the disk. */
void store_forget_blocks(struct store *store);
/* A consistent copy made of hard links at `path` (must not exist): every batch that was logged is in it.
 * What is in no file yet goes along in the WAL, which is copied: flush before, and it is short.
 * 0, ERR_DISK_FULL or ERR_STORE with a reason. */
int store_checkpoint(struct store *store, const char *path, char *error, size_t size);
