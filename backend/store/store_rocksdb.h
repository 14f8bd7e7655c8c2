/*
 * store_rocksdb.h - what the files store_rocksdb*.c share. For nobody else: they are the only ones
 * that know RocksDB (7.8, C API).
 *
 *   store_rocksdb.c          open, close, read
 *   store_rocksdb_write.c    log, apply, recover
 *   store_rocksdb_options.c  how each column family is tuned, and why
 *   store_rocksdb_filter.c   what compaction asks about rows, and where it pauses
 *   store_rocksdb_info.c     figures, maintenance, checkpoint
 *   store_rocksdb_compact.c  compaction by hand
 *   store_rocksdb_ranges.c   where ranges were deleted
 */
#pragma once

#include "backend/store/store.h"
#include "backend/wal/wal.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

enum { ITERS_KEPT = 8 }; /* unused iterators a store keeps */

struct store_env {
    rocksdb_env_t *env;
    rocksdb_cache_t *cache;
    struct pace *pace; /* of compactions; NULL: none */
    uint32_t threads;  /* for compaction; a few more flush */
};

static inline int store_flush_threads(const struct store_env *env)
{
    return 1 + (int)env->threads / 4;
}

/* Makes the filters of a column family's compactions. */
struct filter_maker {
    struct store *store;
    enum cf cf;
};

/* Ranges deleted in a column family, counted. */
struct ranges {
    _Atomic uint64_t begun;  /* put into a batch */
    _Atomic uint64_t landed; /* the batch was written, or failed */
    _Atomic uint64_t gone;   /* compaction has left nothing of so many */
};

struct store {
    struct store_env *env;
    char *path;
    rocksdb_t *db; /* NULL: a reopen failed and so did opening it for reading */
    rocksdb_column_family_handle_t *cfs[CF_COUNT];
    struct wal *wal; /* NULL: together with db */
    uint64_t wal_bytes_max;
    _Atomic uint64_t applied;      /* batches up to this one are in the tables, */
    _Atomic uint64_t unapplied_ms; /* store_set_unapplied */
    _Atomic uint64_t filed;        /* and up to this one in their files */
    _Atomic int stopped;      /* what every apply is refused with since one failed; 0 = works */
    char stopped_reason[256]; /* written before `stopped` */
    _Atomic bool is_open;     /* filters may read */
    _Atomic uint32_t iters_now;
    _Atomic(struct store_iter *) iters[ITERS_KEPT];
    rocksdb_readoptions_t *get_options;
    rocksdb_readoptions_t *cached_options; /* never wait for the disk */
    rocksdb_writeoptions_t *apply_options;
    rocksdb_options_t *options[CF_COUNT]; /* those of CF_SYSTEM are the database's too */
    struct filter_maker filter_makers[CF_COUNT];
    _Atomic bool has_blobs; /* big values go to blob files */
    struct ranges ranges[CF_COUNT];
    store_drop_fn *drop;
    void *drop_owner;
    pthread_mutex_t apply_lock; /* tables or what is left of the WAL change; taken behind `lock` */
    pthread_mutex_t options_lock; /* of what `options` point to; taken behind `lock` */
    pthread_rwlock_t lock; /* shared: control functions; exclusive: the database is reopened */
    pthread_mutex_t compact_lock;     /* of the next two; taken behind `lock` */
    bool is_compacting;               /* store_compact_all runs */
    _Atomic bool is_compact_disabled; /* and was cancelled: RocksDB refuses manual compactions until
                                         it has ended; filters look */
};

/* Name and value of the option that has old files compacted. */
extern const char *const store_age_option[2];
/* The name RocksDB knows the column family by. */
const char *store_cf_name(enum cf cf);
/* Fills store->options; store->env, drop and drop_owner are set. */
void store_make_options(struct store *store, const struct store_options *options);
void store_drop_options(struct store *store);
/* Compactions of the column family ask about rows, and keep the pace. */
void store_make_filter(struct store *store, enum cf cf, rocksdb_options_t *options);
/* Has the column family rows that drop() is asked about? */
bool store_has_orphans(const struct store *store, enum cf cf);
/* So many files in level 0 hold writes back. */
enum { LEVEL0_SLOW = 20 };
/* A batch deletes a range; batches with such were written; the database was opened. */
void store_range_begun(struct store *store, enum cf cf);
void store_ranges_landed(struct store *store);
void store_ranges_opened(struct store *store);
/* May there be deleted ranges? */
bool store_has_ranges(const struct store *store, enum cf cf);
/* Looks for those that are gone. The lock is held. */
void store_look_for_ranges(struct store *store);
/* Opens the database and brings what the WAL has into the tables. ERR_DISK_FULL or ERR_STORE, then there is none. */
int store_db_open(struct store *store, char *error, size_t size);
void store_db_close(struct store *store);
/* Writes the column family's memory tables to files; blocks. NULL, or RocksDB's reason. The lock is held. */
char *store_flush_cf(struct store *store, enum cf cf);
/* Takes RocksDB's reason: ERR_DISK_FULL or ERR_STORE, and the text in error[size]. */
int store_failure(char *reason, char *error, size_t size);
/* ERR_STORE and the reason: there is no database. */
int store_lost(char *error, size_t size);
