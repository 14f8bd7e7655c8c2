#include "backend/storage/storage.h"

#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/storage/copied_batch.h"
#include "backend/storage/replay_rows.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAL_BYTES_LEFT = 8 << 20,   /* replayed in about 0.1 s at the next start */
    WAL_SEGMENTS = 4,           /* least number of segments of a WAL that has reached its limit */
    WAL_SEGMENT_MAX = 16 << 20, /* a backup copies a segment even if only a part is needed */
    /* free bytes that a reopen needs besides those for the rows in the WAL */
    RECOVER_BYTES_FREE = 4 << 20,
};

struct storage {
    char *path;
    struct store *store;
    struct wal *wal;
    uint64_t wal_bytes_max;
    _Atomic uint64_t committed; /* index of the last committed batch */
    _Atomic uint64_t applied;   /* of the last batch in RocksDB's memtables */
    _Atomic uint64_t whole_at;  /* storage_whole_at */
    _Atomic uint64_t filed;     /* of the last batch in its files: the WAL up to it is not needed */
    /* shared: flush and checkpoint; exclusive: the database was reopened and has not all rows yet */
    pthread_rwlock_t lock;
    pthread_mutex_t trim_lock; /* keeps the WAL whole during a checkpoint; taken after `lock` */
    struct replay_rows *rows;  /* while the WAL is replayed */
    int replay_error;          /* of the last batch that could not be applied */
    bool is_behind;            /* the tables lack the rows of the WAL */
    /* this store is one of several copies: the end of its WAL is not its own; set by home, read by all threads */
    atomic_bool is_replicated;
    bool is_copy;  /* storage_checkpoint made it, and nothing was written since */
    bool has_lost; /* batches that were committed are not there */
};

/* ---- the WAL ----------------------------------------------------------------------------- */

int storage_append(struct storage *storage, struct bytes record, uint64_t *index, char *error,
                   size_t size)
{
    return wal_write(storage->wal, record, index, error, size);
}

int storage_log(struct storage *storage, struct effects *effects, bool sync, uint64_t *index,
                char *error, size_t size)
{
    if (storage->is_replicated && !copied_batch_fits(effects_bytes(effects).len, error, size))
        return ERR_STORE;
    *index = wal_written(storage->wal) + 1;
    effects_set_index(effects, *index);
    return wal_append(storage->wal, effects_bytes(effects), sync, error, size);
}

uint64_t storage_logged(const struct storage *storage)
{
    return wal_last(storage->wal);
}

uint64_t storage_written(const struct storage *storage)
{
    return wal_written(storage->wal);
}

int storage_truncate(struct storage *storage, uint64_t after, char *error, size_t size)
{
    if (after < storage_committed(storage)) {
        (void)snprintf(error, size, "batches after %" PRIu64 " are committed up to %" PRIu64, after,
                       storage_committed(storage));
        return ERR_STORE;
    }
    if (after < atomic_load(&storage->whole_at))
        atomic_store(&storage->whole_at, after);
    pthread_mutex_lock(&storage->trim_lock);
    int err = wal_truncate(storage->wal, after, error, size);
    pthread_mutex_unlock(&storage->trim_lock);
    return err;
}

int storage_sync(struct storage *storage, char *error, size_t size)
{
    return wal_sync(storage->wal, error, size);
}

int storage_sync_upto(struct storage *storage, uint64_t index, char *error, size_t size)
{
    return wal_sync_upto(storage->wal, index, error, size);
}

void storage_commit(struct storage *storage, uint64_t index)
{
    if (atomic_load(&storage->committed) < index)
        atomic_store(&storage->committed, index);
}

uint64_t storage_committed(const struct storage *storage)
{
    return atomic_load(&storage->committed);
}

uint64_t storage_whole_at(const struct storage *storage)
{
    return atomic_load(&storage->whole_at);
}

/* Makes logging possible again after a failure. */
typedef int renew_fn(struct storage *storage, char *error, size_t size);

/* Continues in a new segment, and proves that the disk takes data. A batch that failed is void from then on, also after
 * a power loss. */
static int renew_wal(struct storage *storage, char *error, size_t size)
{
    int err = wal_rotate(storage->wal, error, size);
    return err == OK ? wal_probe(storage->wal, error, size) : err;
}

/* ---- from the WAL into the tables -------------------------------------------------------- */

int storage_write(struct storage *storage, struct effects *effects, bool sync, char *error,
                  size_t size)
{
    uint64_t index;
    if (storage->is_replicated) {
        (void)snprintf(error, size, "the store is one of several copies");
        return ERR_STORE;
    }
    int err = storage_log(storage, effects, sync, &index, error, size);
    if (err != OK)
        return err;
    storage_commit(storage, index);
    struct store_batch *batch = store_batch_new();
    CHECK(store_batch_add_effects(batch, storage->store, effects_bytes(effects), error, size));
    err = store_apply(storage->store, batch, error, size);
    store_batch_free(batch);
    if (err != OK)
        return err;
    storage_applied(storage, index);
    return storage_wal_is_long(storage) ? storage_flush(storage, error, size) : OK;
}

void storage_applied(struct storage *storage, uint64_t index)
{
    atomic_store(&storage->applied, index);
}

bool storage_wal_is_long(const struct storage *storage)
{
    return wal_bytes(storage->wal) >= storage->wal_bytes_max &&
           atomic_load(&storage->applied) > atomic_load(&storage->filed) &&
           !store_is_stopped(storage->store);
}

/* A store with copies keeps the newest of these records: its log begins with a record that is committed and has a term, whatever
 * the log shows of the later ones. */
static uint64_t not_needed(const struct storage *storage, uint64_t applied)
{
    uint64_t last = wal_last(storage->wal), upto = applied < last ? applied : last;
    return storage->is_replicated && upto ? upto - 1 : upto;
}

/* What was applied before the flush began is in files afterwards, and the WAL does not need it. */
static int flush_and_trim(struct storage *storage, char *error, size_t size)
{
    uint64_t applied = atomic_load(&storage->applied);
    int err = store_flush(storage->store, error, size);
    if (err != OK)
        return err;
    pthread_mutex_lock(&storage->trim_lock);
    atomic_store(&storage->filed, applied);
    wal_trim(storage->wal, not_needed(storage, applied));
    pthread_mutex_unlock(&storage->trim_lock);
    return OK;
}

int storage_flush(struct storage *storage, char *error, size_t size)
{
    pthread_rwlock_rdlock(&storage->lock);
    int err = flush_and_trim(storage, error, size);
    pthread_rwlock_unlock(&storage->lock);
    return err;
}

/* Copies the files of the tables first, then the WAL, which must not be trimmed in between. With several copies of the
 * data no later batch shows that the last ones are committed, so the copy says it. */
int storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size)
{
    pthread_rwlock_rdlock(&storage->lock);
    pthread_mutex_lock(&storage->trim_lock);
    int err = store_checkpoint(storage->store, path, error, size);
    uint64_t committed = storage_committed(storage); /* no row in the copied tables is newer */
    if (err == OK)
        err = wal_copy(storage->wal, path, committed, error, size);
    pthread_mutex_unlock(&storage->trim_lock);
    pthread_rwlock_unlock(&storage->lock);
    return err;
}

int storage_link_tables(struct storage *storage, const char *path, char *error, size_t size)
{
    pthread_rwlock_rdlock(&storage->lock);
    int err = store_checkpoint(storage->store, path, error, size);
    pthread_rwlock_unlock(&storage->lock);
    return err;
}

/* Flushes the tables to files. If these have all batches, the WAL of a store without copies continues in a new segment, so that
 * nothing is replayed twice. */
static int leave_wal(struct storage *storage, char *error, size_t size)
{
    uint64_t last = wal_last(storage->wal);
    int err = flush_and_trim(storage, error, size);
    if (err != OK || storage->is_replicated || atomic_load(&storage->applied) != last)
        return err;
    err = wal_rotate(storage->wal, error, size);
    if (err == OK)
        wal_trim(storage->wal, last);
    return err;
}

/* ---- replay ------------------------------------------------------------------------------ */

/* replay_fn */
static bool apply_again(void *owner, struct bytes record, char *error, size_t size)
{
    struct storage *storage = owner;
    replay_rows_count(storage->rows, record.len);
    if (!effects_is_write_batch(record)) {
        storage->replay_error = replay_rows_add(storage->rows, record, error, size);
        return storage->replay_error == OK;
    }
    storage->replay_error = replay_rows_apply(storage->rows, error, size);
    if (storage->replay_error == OK)
        storage->replay_error = store_apply_write_batch(storage->store, record, error, size);
    return storage->replay_error == OK;
}

/* In a copy that was made by storage_checkpoint, nothing after the committed batches is needed: it becomes a store of its
 * own. */
static bool keeps_tail(const struct storage *storage)
{
    return storage->is_replicated && !storage->is_copy;
}

/* What was trimmed is committed and in the tables' files. */
static uint64_t left_out(const struct storage *storage)
{
    uint64_t trimmed = wal_trimmed(storage->wal), before = wal_first(storage->wal) - 1;
    return trimmed > before ? trimmed : before;
}

/* Batches after the last committed one were not applied, and with one copy of the data they can never be committed:
 * truncates them, so that a later batch does not commit them. */
static int drop_uncommitted(struct storage *storage, const struct replay *replay, char *error,
                            size_t size)
{
    uint64_t committed = storage_committed(storage);
    if (!replay_uncommitted(replay))
        return OK;
    log_event(LOG_WARN, "wal_uncommitted",
              "path=%s after_batch=%" PRIu64 " dropped_batches=%" PRIu64, storage->path, committed,
              replay_uncommitted(replay));
    return wal_truncate(storage->wal, committed, error, size);
}

/* The end of a copy's WAL may be damaged: then fewer batches are there than were committed. The next ones get their indexes. */
static void believe_what_is_there(struct storage *storage)
{
    uint64_t last = wal_last(storage->wal), filed = left_out(storage);
    uint64_t there = last > filed ? last : filed;
    if (storage_committed(storage) <= there)
        return;
    storage->has_lost = true;
    atomic_store(&storage->committed, there);
}

/* All batches were read. The tables get the last rows, and have all committed rows of the WAL then. A store without copies moves them to files and drops what is not
 * committed; in a store with copies the tail stays as it is, because other copies may have committed it. */
static int end_replay(struct storage *storage, const struct replay *replay, char *error,
                      size_t size)
{
    int err = replay_rows_apply(storage->rows, error, size);
    if (err != OK)
        return err;
    storage_commit(storage, left_out(storage));
    storage_commit(storage, replay_committed(replay));
    believe_what_is_there(storage);
    if (!keeps_tail(storage))
        err = drop_uncommitted(storage, replay, error, size);
    if (err != OK)
        return err;
    atomic_store(&storage->applied, storage_committed(storage));
    atomic_store(&storage->filed, left_out(storage));
    if (!keeps_tail(storage) && wal_last(storage->wal))
        err = leave_wal(storage, error, size);
    if (err == OK && storage->is_copy)
        err = wal_copy_ends(storage->wal, error, size);
    if (err == OK) {
        storage->is_copy = storage->is_behind = false;
        store_replayed(storage->store);
        replay_rows_end(storage->rows);
    }
    return err;
}

/* wal_fn: the batch is read later. */
static bool skip_batch(void *owner, uint64_t index, struct bytes batch, char *error, size_t size)
{
    (void)owner, (void)index, (void)batch, (void)error, (void)size;
    return true;
}

static struct wal *open_segments(const struct storage *storage, wal_fn *read, void *owner,
                                 char *error, size_t size)
{
    uint64_t bytes = storage->wal_bytes_max / WAL_SEGMENTS;
    const struct wal_options options = {
        .path = storage->path,
        .file_bytes = bytes < WAL_SEGMENT_MAX ? bytes : WAL_SEGMENT_MAX,
    };
    return wal_open(&options, read, owner, error, size);
}

static struct replay *new_replay(const struct storage *storage, replay_fn *read, void *owner)
{
    struct replay *replay = replay_new(read, owner);
    replay_commit(replay, storage_committed(storage));
    return replay;
}

/* Begins a replay into the tables. */
static struct replay *begin_replay(struct storage *storage)
{
    storage->rows = replay_rows_new(storage->store, storage->path);
    return new_replay(storage, apply_again, storage);
}

static void free_replay(struct storage *storage, struct replay *replay)
{
    replay_rows_free(storage->rows);
    storage->rows = NULL;
    replay_free(replay);
}

/* Opens the WAL, and replays it into the tables. */
static int open_wal(struct storage *storage, char *error, size_t size)
{
    struct replay *replay = begin_replay(storage);
    storage->replay_error = OK;
    storage->wal = open_segments(storage, replay_batch, replay, error, size);
    int err = storage->replay_error != OK ? storage->replay_error : ERR_STORE;
    if (storage->wal)
        err = end_replay(storage, replay, error, size);
    free_replay(storage, replay);
    return err;
}

/* Reads the batches of the open WAL. ERR_NOT_FOUND: all were read. */
static int read_batches(struct storage *storage, struct replay *replay, char *error, size_t size)
{
    struct bytes batch;
    uint64_t index;
    int err;
    storage->replay_error = OK;
    struct wal_cursor *cursor = wal_cursor_new(storage->wal, left_out(storage) + 1);
    CHECK(cursor); /* only a flush trims, and none runs */
    while ((err = wal_cursor_next(cursor, &index, &batch, error, size)) == OK)
        if (!replay_batch(replay, index, batch, error, size))
            break;
    wal_cursor_free(cursor);
    storage_commit(storage, replay_committed(replay));
    if (err == OK && storage->replay_error != OK)
        return storage->replay_error;
    return err == ERR_NOT_FOUND ? ERR_NOT_FOUND : ERR_STORE;
}

/* Replays the open WAL into the tables. */
static int replay_wal(struct storage *storage, char *error, size_t size)
{
    struct replay *replay = begin_replay(storage);
    int err = read_batches(storage, replay, error, size);
    if (err == ERR_NOT_FOUND)
        err = end_replay(storage, replay, error, size);
    free_replay(storage, replay);
    return err;
}

int storage_read_wal(struct storage *storage, replay_fn *read, void *owner, char *error,
                     size_t size)
{
    struct replay *replay = new_replay(storage, read, owner);
    int err = read_batches(storage, replay, error, size);
    replay_free(replay);
    return err == ERR_NOT_FOUND ? OK : err;
}

bool storage_has_lost(const struct storage *storage)
{
    return storage->has_lost || wal_has_lost(storage->wal);
}

bool storage_has_lost_durable(const struct storage *storage)
{
    return storage->has_lost || wal_has_lost_durable(storage->wal);
}

bool storage_is_replicated(const struct storage *storage)
{
    return storage->is_replicated;
}

void storage_join_group(struct storage *storage)
{
    storage->is_replicated = true;
}

void storage_leave_group(struct storage *storage)
{
    storage->is_replicated = false;
}

bool storage_is_behind(const struct storage *storage)
{
    return storage->is_behind;
}

/* ---- open and close ---------------------------------------------------------------------- */

static void storage_free(struct storage *storage)
{
    wal_close(storage->wal);
    store_close(storage->store);
    pthread_rwlock_destroy(&storage->lock);
    pthread_mutex_destroy(&storage->trim_lock);
    free(storage->path);
    free(storage);
}

/* The tables are open for reading only: opens the WAL, whose batches storage_read_wal reads. */
static int open_behind(struct storage *storage, char *error, size_t size)
{
    storage->is_behind = true;
    storage->wal = open_segments(storage, skip_batch, NULL, error, size);
    if (!storage->wal)
        return ERR_STORE;
    log_event(LOG_ERROR, "store_read_only", "path=%s wal_bytes=%" PRIu64, storage->path,
              wal_bytes(storage->wal));
    return OK;
}

/* The disk was full while the WAL was replayed: opens the tables anew, as they were before. */
static int give_up_replay(struct storage *storage, char *error, size_t size)
{
    log_event(LOG_WARN, "wal_replay_failed", "path=%s reason=" LOG_QUOTED, storage->path, error);
    wal_close(storage->wal);
    storage->wal = NULL;
    store_shut(storage->store);
    return store_reopen_read_only(storage->store, error, size);
}

/* Opens the WAL beside the open tables. */
static int open_storage_wal(struct storage *storage, char *error, size_t size)
{
    int err = OK;
    if (!store_is_stopped(storage->store)) {
        err = open_wal(storage, error, size);
        if (err != ERR_DISK_FULL)
            return err;
        err = give_up_replay(storage, error, size);
    }
    return err == OK ? open_behind(storage, error, size) : err;
}

/* Is there a row with the members of a group, or a file with this copy's vote? Every opener of a store asks here, offline
 * tools too: one that cut the end of the log would forget what this copy has acknowledged to others. */
static bool is_of_group(const struct storage *storage)
{
    char path[PATH_MAX];
    struct slice value;
    (void)snprintf(path, sizeof path, "%s/replica", storage->path);
    int err = store_get(storage->store, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), &value);
    if (err == OK)
        slice_release(&value);
    return err != ERR_NOT_FOUND || path_exists(path);
}

/* The database's lock protects the WAL too, so the database is opened first and closed last. */
struct storage *storage_open(struct store_env *env, const struct store_options *options,
                             uint64_t wal_bytes_max, char *error, size_t size)
{
    struct store *store = store_open(env, options, error, size);
    if (!store)
        return NULL;
    struct storage *storage = calloc(1, sizeof *storage);
    CHECK(storage);
    storage->path = strdup(options->path);
    CHECK(storage->path);
    storage->store = store;
    storage->wal_bytes_max = wal_bytes_max;
    CHECK(pthread_rwlock_init(&storage->lock, NULL) == 0);
    CHECK(pthread_mutex_init(&storage->trim_lock, NULL) == 0);
    storage->is_replicated = is_of_group(storage);
    if (storage->is_replicated) /* until its orphan_hold ends */
        store_set_keeps_orphans(storage->store, true);
    storage_commit(storage, wal_committed_at(options->path));
    storage->is_copy = storage_committed(storage) > 0;
    if (open_storage_wal(storage, error, size) == OK) {
        atomic_store(&storage->whole_at, wal_last(storage->wal));
        return storage;
    }
    storage_free(storage);
    return NULL;
}

/* Moves rows to files if the WAL is long, so that the next start is fast. If that fails they are in the WAL. With copies
 * the WAL keeps its newest segment: its last record shows how far this copy is. */
static void shorten_wal(struct storage *storage)
{
    char reason[256];
    bool is_in_files = atomic_load(&storage->filed) == wal_last(storage->wal);
    if (store_is_stopped(storage->store) ||
        store_holds_writes(storage->store)) /* a flush would fail, or wait for compaction */
        return;
    if (!is_in_files && wal_bytes(storage->wal) < WAL_BYTES_LEFT)
        return;
    int err = leave_wal(storage, reason, sizeof reason);
    if (err != OK)
        log_event(LOG_WARN, "flush_failed", "path=%s reason=\"%s\"", storage->path, reason);
}

void storage_close(struct storage *storage)
{
    shorten_wal(storage);
    storage_free(storage);
}

struct store *storage_store(const struct storage *storage)
{
    return storage->store;
}

struct wal *storage_wal(const struct storage *storage)
{
    return storage->wal;
}

/* ---- recovery ---------------------------------------------------------------------------- */

/* Opens the database again, and replays the WAL into it. After an error the database is closed. */
static int reopen_once(struct storage *storage, char *error, size_t size)
{
    pthread_rwlock_wrlock(&storage->lock);
    int err = store_reopen(storage->store, error, size);
    if (err == OK)
        err = replay_wal(storage, error, size);
    if (err != OK)
        store_shut(storage->store);
    pthread_rwlock_unlock(&storage->lock);
    return err;
}

/* Opens the database for reading only, if that is possible. */
static bool reopen_read_only(struct storage *storage)
{
    char reason[256];
    pthread_rwlock_wrlock(&storage->lock);
    bool is_open = store_reopen_read_only(storage->store, reason, sizeof reason) == OK;
    storage->is_behind = is_open;
    pthread_rwlock_unlock(&storage->lock);
    return is_open;
}

static int reopen(struct storage *storage, char *error, size_t size)
{
    /* without the lock, which a flush may hold until store_shut ends its wait */
    store_shut(storage->store);
    int err = reopen_once(storage, error, size);
    if (err == ERR_STORE)
        err = reopen_once(storage, error, size);
    if (err == ERR_DISK_FULL && reopen_read_only(storage))
        return err;
    if (err != OK)
        log_event(LOG_ERROR, "store_lost", "path=%s reason=\"%s\"", storage->path, error);
    return err;
}

/* Nothing is done to a log that another thread may write. */
static int log_stays(struct storage *storage, char *error, size_t size)
{
    (void)storage, (void)error, (void)size;
    return OK;
}

/* The disk is tried before the database is closed, since nothing can be read while it is closed. `renew`: renew_wal, or log_stays. */
static int recover(struct storage *storage, renew_fn *renew, bool *is_reopened, char *error,
                   size_t size)
{
    uint64_t bytes = wal_bytes(storage->wal) + RECOVER_BYTES_FREE;
    enum store_state state = store_state(storage->store);
    int err = OK;
    *is_reopened = false;
    if (state == STORE_FAILED)
        err = store_try_disk(storage->store, bytes, error, size);
    if (state != STORE_CLOSED && err == OK)
        err = renew(storage, error, size);
    if (state == STORE_SOUND || err != OK)
        return err;
    err = reopen(storage, error, size);
    *is_reopened = store_state(storage->store) != STORE_CLOSED;
    if (state == STORE_CLOSED && err == OK)
        err = renew(storage, error, size);
    return err;
}

int storage_recover(struct storage *storage, bool *is_reopened, char *error, size_t size)
{
    uint64_t bytes_min = wal_bytes(storage->wal) + RECOVER_BYTES_FREE;
    if (path_free_bytes(storage->path) < bytes_min) /* readers never hold back a writer */
        wal_keep_none(storage->wal);
    return recover(storage, renew_wal, is_reopened, error, size);
}

int storage_recover_tables(struct storage *storage, bool *is_reopened, char *error, size_t size)
{
    return recover(storage, log_stays, is_reopened, error, size);
}

void storage_keep(struct storage *storage, uint64_t bytes, uint64_t age_ms, uint64_t free_bytes_min)
{
    wal_keep(storage->wal, &(struct wal_keep){bytes, age_ms, free_bytes_min});
}

/* ---- figures ----------------------------------------------------------------------------- */

uint64_t storage_figure(struct storage *storage, const char *name)
{
    if (strcmp(name, "wal_bytes") == 0)
        return wal_bytes(storage->wal);
    if (strcmp(name, "wal_damaged_batches") == 0)
        return wal_damaged(storage->wal);
    const struct wal_kept kept = wal_kept(storage->wal);
    if (strcmp(name, "kept_bytes") == 0)
        return kept.bytes;
    if (strcmp(name, "kept_since") == 0)
        return kept.oldest_s;
    uint64_t value = store_figure(storage->store, name);
    return strcmp(name, "disk_bytes") == 0 ? value + wal_bytes(storage->wal) + kept.bytes : value;
}

void storage_info(struct storage *storage, struct out *out)
{
    static const char *const names[] = {"disk_bytes", "wal_bytes", "wal_damaged_batches"};
    store_info(storage->store, out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        out_printf(out, "store_%s:%" PRIu64 "\r\n", names[i], storage_figure(storage, names[i]));
}
