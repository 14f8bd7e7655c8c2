/*
 * store_rocksdb.h - shared by the files store_rocksdb*.c, the only ones that use RocksDB (7.8, C API). No other file includes it.
 *
 *   store_rocksdb.c          open, close, read
 *   store_rocksdb_write.c    apply, flush, reopen
 *   store_rocksdb_full.c     open for reading only, when the disk is full
 *   store_rocksdb_options.c  how each column family is tuned, and why
 *   store_rocksdb_filter.c   compaction filters: dropping orphans, pausing
 *   store_rocksdb_info.c     figures, maintenance, checkpoint
 *   store_rocksdb_compact.c  compaction by hand
 *   store_rocksdb_ranges.c   counts of deleted ranges
 */
#pragma once

#include "backend/store/store.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

enum { ITERS_KEPT = 8 }; /* unused iterators that a store keeps */

struct store_env {
    rocksdb_env_t *env;
    rocksdb_cache_t *cache;
    struct pace *pace; /* of compactions; NULL: none */
    uint32_t threads;  /* for compaction; some more flush */
};

static inline int store_flush_threads(const struct store_env *env)
{
    return 1 + (int)env->threads / 4;
}

/* Factory of a column family's compaction filters. */
struct filter_maker {
    struct store *store;
    enum cf cf;
};

/* Counts of deleted ranges in a column family. */
struct ranges {
    _Atomic uint64_t begun;  /* ranges added to a batch */
    _Atomic uint64_t landed; /* ranges whose batch was written, or failed */
    _Atomic uint64_t gone;   /* ranges whose tombstones compaction has dropped */
    uint64_t opened; /* `begun` when the database was opened: later ranges may be in a memtable */
};

/* store_options: which rows compaction may drop. */
struct dropping {
    store_drop_fn *may_drop; /* NULL: none */
    void *owner;
};

/* store_compact_all, and compactions that begin by themselves. */
struct store_compacting {
    pthread_mutex_t lock;     /* guards this struct; taken after the store's `lock` */
    bool is_running;          /* store_compact_all runs */
    _Atomic bool is_disabled; /* by a cancel, until store_compact_all ends */
    bool waits_for_replay;    /* since store_reopen, until store_replayed: none begins by itself */
};

struct store {
    struct store_env *env;
    char *path;
    rocksdb_t *db; /* NULL: closed by store_shut */
    int lock_file; /* of a database that is open for reading only; else -1 */
    rocksdb_column_family_handle_t *cfs[CF_COUNT];
    _Atomic int stopped;      /* error of every apply since one failed; 0: none */
    char stopped_reason[256]; /* written before `stopped` */
    _Atomic bool is_ready; /* after store_replayed: everything can be compacted, filters may read */
    _Atomic uint32_t iters_now;
    _Atomic(struct store_iter *) iters[ITERS_KEPT];
    rocksdb_readoptions_t *get_options;
    rocksdb_readoptions_t *passing_options; /* blocks that are read do not stay in the cache */
    rocksdb_readoptions_t *cached_options;  /* without disk access */
    rocksdb_writeoptions_t *apply_options;
    rocksdb_options_t *options[CF_COUNT]; /* the options of CF_SYSTEM are also the database's */
    struct filter_maker filter_makers[CF_COUNT];
    _Atomic bool has_blobs; /* big values are in blob files */
    struct ranges ranges[CF_COUNT];
    struct dropping dropping;
    /* held while rows are applied, and by a checkpoint; taken after `lock` */
    pthread_mutex_t apply_lock;
    pthread_mutex_t options_lock; /* guards the options; taken after `lock` */
    /* shared: control functions; exclusive: the database is being reopened */
    pthread_rwlock_t lock;
    _Atomic uint64_t unapplied_ms;  /* store_set_unapplied */
    _Atomic uint32_t keeps_orphans; /* so many have set it */
    struct store_compacting compacting;
};

/* Compactions begin by themselves from the next opening on: is_on. */
void store_set_compaction(struct store *store, bool is_on);
/* Compactions begin by themselves from now on. */
void store_begin_compaction(struct store *store);
/* Name and value of the option that makes old files be compacted. */
extern const char *const store_age_option[2];
/* The name of the column family in RocksDB. */
const char *store_cf_name(enum cf cf);
/* Fills store->options; store->env and dropping are set. */
void store_make_options(struct store *store, const struct store_options *options);
void store_drop_options(struct store *store);
/* Gives the column family's compactions a filter, for drop() and pace. */
void store_make_filter(struct store *store, enum cf cf, rocksdb_options_t *options);
/* May the column family have orphans, which drop() detects? */
bool store_has_orphans(const struct store *store, enum cf cf);
/* Number of files in level 0 at which RocksDB delays writes. */
enum { LEVEL0_SLOW = 20 };
/* Calls when a batch deletes a range; when such batches were written; when the database was opened; when its log was
 * replayed. */
void store_range_begun(struct store *store, enum cf cf);
void store_ranges_landed(struct store *store);
void store_ranges_opened(struct store *store);
void store_ranges_replayed(struct store *store);
/* May there be tombstones of deleted ranges? */
bool store_has_ranges(const struct store *store, enum cf cf);
/* Checks which tombstones are gone. The lock is held. */
void store_look_for_ranges(struct store *store);
/* Flushes the column family's memtables to files; blocks. NULL, or RocksDB's reason. The lock is held. */
char *store_flush_cf(struct store *store, enum cf cf);
/* Takes over RocksDB's reason: returns ERR_DISK_FULL or ERR_STORE, and writes the text to error[size]. */
int store_failure(char *reason, char *error, size_t size);
/* Takes over an open database. */
void store_use_database(struct store *store, rocksdb_t *db,
                        rocksdb_column_family_handle_t *const cfs[CF_COUNT], int stopped);
/* Names and options of the column families, for opening the database. */
void store_families(const struct store *store, const char *names[CF_COUNT],
                    const rocksdb_options_t *options[CF_COUNT]);
/* Closes the lock file of a database that was open for reading only. */
void store_unlock(struct store *store);
/* ERR_STORE and the reason: the database is not open. */
int store_lost(char *error, size_t size);
