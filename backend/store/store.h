/*
 * store.h - interface of the storage engine: column families of ordered bytes, atomic batches, point reads without copies,
 * ordered iteration. The only access to RocksDB.
 *
 *   store_env   one per process: block cache and background threads, shared by all stores
 *   store       one per partition: one database directory
 *
 *   store_apply ──► memtables ──store_flush, or when they are full──► files        reads see both
 *
 * Rows in memtables are lost with the process, and when the database is reopened. So the owner has every row in a log
 * (storage.h), applies what files may not have again after each opening, and then calls store_replayed.
 *
 * Reads may come from any thread, rows are applied by one at a time. Figures, compaction, flushes and checkpoints: any
 * thread. Open, close, shut and reopen: by the partition's thread. Implementations: store_rocksdb*.c | tests/sim/store_mem.c.
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
    struct pace *pace; /* limits compactions; outlives the environment; NULL: none */
};

/* May compaction drop this row of `cf`? Called on background threads; may call store_get. When in doubt: false. */
typedef bool store_drop_fn(void *owner, struct store *store, enum cf cf, struct bytes key);

struct store_options {
    const char *path;        /* directory; created with its parents */
    uint64_t memtable_bytes; /* per column family */
    uint32_t memtables;
    /* of all column families together, from the next opening on; 0: no limit */
    uint64_t memtables_bytes;
    uint32_t bloom_bits; /* 0 = none */
    int32_t max_open_files;
    uint64_t blob_threshold_bytes; /* 0 = no blob files */
    const char *compression;       /* none | lz4 | zstd */
    store_drop_fn *drop;           /* may be NULL */
    void *drop_owner;
};

/* The library that this program is linked with. */
struct store_engine {
    const char *version;    /* "RocksDB 7.8.3" */
    const char *assertions; /* "on": the library checks its own invariants, which costs CPU */
    const char *crc32c;     /* "hardware": checksums by the CPU's instructions; or "software" */
};

const struct store_engine *store_engine(void);

struct store_env *store_env_new(const struct store_env_options *options);
/* Changes the size of the block cache at once; any thread. */
void store_env_resize(struct store_env *env, uint64_t block_cache_bytes);
void store_env_free(struct store_env *env); /* after all its stores are closed */

/* NULL and a one-line reason in error[size]. A database that another process uses is refused. If the disk is full, it is opened by
 * store_reopen_read_only. */
struct store *store_open(struct store_env *env, const struct store_options *options, char *error,
                         size_t size);
/* Does this reason of store_open mean that files are damaged or missing, so that opening them again cannot succeed? RocksDB's
 * C interface has no error codes, only text. */
bool store_is_damaged(const char *reason);
/* Rows that were in memtables only are lost; all iterators must be freed before. */
void store_close(struct store *store);
/* The rows of the log are in the tables: from now on everything can be compacted, and compaction may drop rows. */
void store_replayed(struct store *store);

/* Applies memtable_bytes, memtables, compression and blob_threshold_bytes of `options` to what is written from now on.
 * Blocks, and delays writes by some milliseconds. */
bool store_set_options(struct store *store, const struct store_options *options, char *error,
                       size_t size);

/* A value borrowed from RocksDB (pinned) or from a write buffer (pin NULL) until slice_release. A pinned one may
 * outlive the store, but not its environment. */
struct slice {
    const char *data;
    size_t len;
    void *pin;
};
static inline struct bytes slice_bytes(const struct slice *slice)
{
    return (struct bytes){slice->data, slice->len};
}
/* Are these bytes part of the value? */
static inline bool slice_covers(const struct slice *slice, struct bytes part)
{
    return part.data >= slice->data && part.data + part.len <= slice->data + slice->len;
}

/* 0 and the value, ERR_NOT_FOUND, or ERR_STORE (logged). On failure `value` is unchanged. */
int store_get(struct store *store, enum cf cf, struct bytes key, struct slice *value);
/* As store_get, without disk access: ERR_UNCACHED when memory shows neither the row nor that it does not exist. */
int store_get_cached(struct store *store, enum cf cf, struct bytes key, struct slice *value);
/* As store_get, on a reader thread: store_shut waits until it has ended. The blocks that it reads stay in the block cache if
 * keeps_blocks is true. */
int store_fetch(struct store *store, enum cf cf, struct bytes key, bool keeps_blocks,
                struct slice *value);
void slice_release(struct slice *slice);

/* Iterates over keys with lower <= k < upper (empty upper: to the end), in the state of its creation. After every move
 * check store_iter_valid. The bounds are copied. */
struct store_iter *store_iter_new(struct store *store, enum cf cf, struct bytes lower,
                                  struct bytes upper);
/* As store_iter_new, without disk access: when it needs the disk, it becomes invalid and uncached. Exception: where ranges were
 * deleted recently it may access the disk. */
struct store_iter *store_iter_new_cached(struct store *store, enum cf cf, struct bytes lower,
                                         struct bytes upper);
/* As store_iter_new, for a long way through many rows: blocks that it reads do not stay in the block cache. */
struct store_iter *store_iter_new_passing(struct store *store, enum cf cf);
bool store_iter_is_uncached(const struct store_iter *iter);
void store_iter_free(struct store_iter *iter);                            /* NULL is allowed */
void store_iter_seek(struct store_iter *iter, struct bytes key);          /* first k >= key */
void store_iter_seek_for_prev(struct store_iter *iter, struct bytes key); /* last k <= key */
void store_iter_seek_first(struct store_iter *iter);
void store_iter_seek_last(struct store_iter *iter);
void store_iter_next(struct store_iter *iter);
void store_iter_prev(struct store_iter *iter);
/* Moves to the first row from `from` on in this direction; has_from false: from the lower bound, or in
 * reverse from the upper bound. */
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

/* Range of an iteration: from `from` on, or from the lower bound, or in reverse from the upper bound. */
struct store_range {
    enum cf cf;
    bool is_reverse;
    bool has_from;
    struct bytes lower;
    struct bytes upper;
    struct bytes from;
    uint64_t rows;  /* number of rows to skip first */
    uint64_t bytes; /* number of bytes to read into memory after these rows */
};
/* On a reader thread, as store_fetch. OK or ERR_STORE. */
int store_fetch_range(struct store *store, const struct store_range *range);

/* Operations for the tables: apply in order, all or none. */
struct store_batch *store_batch_new(void);
void store_batch_free(struct store_batch *batch);
void store_batch_clear(struct store_batch *batch);
void store_batch_put(struct store_batch *batch, struct store *store, enum cf cf, struct bytes key,
                     struct bytes value);
void store_batch_delete(struct store_batch *batch, struct store *store, enum cf cf,
                        struct bytes key);
/* Deletes from <= k < to; an empty `to` means the end of the column family (no key begins with 32 bytes 0xff). An
 * empty range does nothing. */
void store_batch_delete_range(struct store_batch *batch, struct store *store, enum cf cf,
                              struct bytes from, struct bytes to);
/* Adds the effects of a batch of the WAL. False and a one-line reason: they cannot be decoded, and some may have been
 * added. */
bool store_batch_add_effects(struct store_batch *batch, struct store *store, struct bytes effects,
                             char *error, size_t size);
size_t store_batch_bytes(const struct store_batch *batch);

/* Writes rows into memtables, where reads see them. The metadata row of a collection must precede its other rows, or
 * they may count as orphans. 0, ERR_DISK_FULL or ERR_STORE and a reason; after an error nothing is applied until
 * store_reopen. */
int store_apply(struct store *store, struct store_batch *batch, char *error, size_t size);
/* As store_apply, for a write batch of RocksDB, which format 1 of the WAL has. */
int store_apply_write_batch(struct store *store, struct bytes record, char *error, size_t size);
/* An apply has failed, or the database is not open. */
bool store_is_stopped(const struct store *store);
/* For store_drop_fn: effects made since this time (ms, wall clock) may not be in the tables yet; 0: all are. Set by
 * the partition's thread. */
void store_set_unapplied(struct store *store, uint64_t since_ms);
uint64_t store_unapplied(const struct store *store);
/* Compaction drops no rows, since rows of a collection come before its metadata row, until all that have set this have reset it. */
void store_set_keeps_orphans(struct store *store, bool keeps);
/* Compacts where ranges were deleted until the tombstones are gone; blocks. */
void store_compact_ranges(struct store *store);
/* SOUND: reads and writes work. FAILED: reads work, writes fail until the store is reopened. CLOSED: by store_shut. */
enum store_state { STORE_SOUND, STORE_FAILED, STORE_CLOSED };
enum store_state store_state(struct store *store);
/* Checks that the disk has `bytes` of free space and that a file can be written: otherwise a reopen would fail, and
 * then all reads. 0, ERR_DISK_FULL or ERR_STORE and a reason. */
int store_try_disk(struct store *store, uint64_t bytes, char *error, size_t size);
/* Closes the database, if it is open: reads fail until store_reopen. Ends compactions, and waits for control
 * functions and reader threads. To be called while nothing is applied and no slice or iterator exists. */
void store_shut(struct store *store);
/* After store_shut. 0, ERR_DISK_FULL or ERR_STORE and a reason. Until store_replayed nothing is compacted: on a disk that is nearly full
 * a compaction would take the room that the rows of the log need. */
int store_reopen(struct store *store, char *error, size_t size);
/* As store_reopen, without writing to the disk: rows in files can be read, and writes fail as after a failure. Other processes are
 * kept away as by store_reopen. */
int store_reopen_read_only(struct store *store, char *error, size_t size);

/* Compacts a range of a column family; blocks. Empty bounds: everything. */
void store_compact(struct store *store, enum cf cf, struct bytes from, struct bytes to);
/* Progress of store_compact_all, readable on any thread. Must be zero at the beginning. */
struct store_progress {
    _Atomic uint64_t bytes_total; /* of the data files at the beginning */
    _Atomic uint64_t bytes_done;  /* of those that were compacted */
    _Atomic int cf;               /* enum cf: the one being compacted */
    _Atomic bool is_cancelled;
};
enum store_compacted { STORE_COMPACTED, STORE_COMPACT_CANCELLED, STORE_COMPACT_FAILED };
/* Compacts everything, one column family after the other; blocks, possibly for hours. Writes continue. One at a time. */
enum store_compacted store_compact_all(struct store *store, struct store_progress *progress);
/* Cancels store_compact_all, and waits until its current step has ended. Called on another thread. */
void store_compact_cancel(struct store *store, struct store_progress *progress);
/* The name of the column family in texts: "system", "metadata" ... */
const char *store_family_name(enum cf cf);
/* Makes RocksDB check for files whose compaction is due. By itself RocksDB checks only after writes, so without
 * writes orphans would stay. To be called about once an hour. May sync files. */
void store_maintain(struct store *store);
/* Appends "name:value\r\n" lines with figures of RocksDB (levels, memtables, pending compaction, cache). */
void store_info(struct store *store, struct out *out);
/* One number by name: "disk_bytes" (its parts: "sst_bytes", "blob_bytes"),
 * "memtable_bytes", "table_reader_bytes", "cache_bytes" (of the environment),
 * "pending_compaction_bytes", "stalled" (1 when writes are stopped), "delayed_write_rate" (bytes a second
 * that writes are held to while compaction is behind; 0: they are not), "disk_free_bytes" (0: none, or unknown),
 * "running_compactions", "running_flushes". */
uint64_t store_figure(struct store *store, const char *name);
/* RocksDB accepts no writes, or limits their rate, until compaction has caught up: writes and flushes may take long. */
bool store_holds_writes(struct store *store);
/* True when compaction is half as far behind as it may be before RocksDB delays writes. Reads a dozen figures of RocksDB. */
bool store_is_behind(struct store *store);
/* Files on each level, over all column families. */
enum { STORE_LEVELS = 7 };
struct store_level {
    uint64_t files;
    uint64_t bytes;
};
void store_levels(struct store *store, struct store_level levels[STORE_LEVELS]);
/* bytes[i]: approximate size in files of the rows with from[i] <= k < to[i]; rows in memtables and values in blob files are
 * not counted. Takes some microseconds for each range. */
void store_range_bytes(struct store *store, enum cf cf, const struct bytes *from,
                       const struct bytes *to, size_t count, uint64_t *bytes);
/* Blocks that this thread found in the block cache, and that it read from files, since its first call. */
void store_thread_blocks(uint64_t *hits, uint64_t *reads);
/* Writes what is in memtables to files; blocks, other writes go on. 0, ERR_DISK_FULL or ERR_STORE. */
int store_flush(struct store *store, char *error, size_t size);
/* Drops all cached blocks, of all stores of the environment: later reads go to the disk. */
void store_forget_blocks(struct store *store);
/* Makes hard links to all files in a new directory `path`; rows in memtables are not included. 0, ERR_DISK_FULL or
 * ERR_STORE with a reason. */
int store_checkpoint(struct store *store, const char *path, char *error, size_t size);
