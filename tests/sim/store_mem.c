/*
 * store_mem.c - store.h in memory, for simulations: a tree (tree.h) for each column family.
 *
 *   registry ─► disk (a path) ─► files                     outlive the stores
 *                 ▲
 *               store ──────────► tables, used by reads      until store_close or a crash
 */
#include "tests/sim/store_mem.h"

#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/tree.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- states and disks -------------------------------------------------------------------- */

struct state {
    struct node *roots[CF_COUNT];
};

/* The contents of a path: rows in files, each column family's as of some moment. */
struct disk {
    struct disk *next;
    char *path;
    bool is_open;
    struct state files;
};

struct store_env {
    uint64_t cache_bytes;
};

struct store {
    struct disk *disk;  /* NULL after a crash */
    struct state state; /* rows in the tables, used by reads; empty while it is shut */
    bool is_shut;
    bool is_replayed;
    bool wants_order; /* store_mem_expect_order */
    int stopped;      /* OK, or the error for every further batch to be applied */
    int fail_kind;
    uint64_t fail_apply_in, fail_read_in, fail_reopens;
    /* store_get_cached reports one row in this many as uncached; 0: none */
    uint64_t uncached_one_in;
    uint64_t unapplied_ms;
    uint64_t iters_now;
    store_drop_fn *drop;
    void *drop_owner;
};

static struct disk *disks;
static uint64_t chance_state = 1;

static uint64_t chance(uint64_t limit)
{
    chance_state += UINT64_C(0x9e3779b97f4a7c15);
    return row_mix(chance_state) % limit;
}

static void state_share(struct state *to, const struct state *from)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        to->roots[cf] = tree_ref(from->roots[cf]);
}

static void state_drop(struct state *state)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        tree_unref(state->roots[cf]);
        state->roots[cf] = NULL;
    }
}

static void state_set(struct state *to, const struct state *from)
{
    struct state old = *to;
    state_share(to, from);
    state_drop(&old);
}

static struct disk *disk_find(const char *path)
{
    for (struct disk *disk = disks; disk; disk = disk->next)
        if (strcmp(disk->path, path) == 0)
            return disk;
    return NULL;
}

static struct disk *disk_new(const char *path)
{
    struct disk *disk = calloc(1, sizeof *disk);
    CHECK(disk);
    disk->path = strdup(path);
    CHECK(disk->path);
    disk->next = disks;
    disks = disk;
    return disk;
}

/* ---- hooks ------------------------------------------------------------------------------- */

void store_mem_reset(void)
{
    while (disks) {
        struct disk *disk = disks;
        CHECK(!disk->is_open);
        disks = disk->next;
        state_drop(&disk->files);
        free(disk->path);
        free(disk);
    }
}

void store_mem_seed(uint64_t seed)
{
    chance_state = seed;
}

void store_mem_crash(struct store *store)
{
    struct disk *disk = store->disk;
    CHECK(disk);
    disk->is_open = false;
    store->disk = NULL;
    store->stopped = ERR_STORE;
}

void store_mem_fail_apply(struct store *store, uint64_t n, int kind)
{
    CHECK(kind == ERR_DISK_FULL || kind == ERR_STORE);
    store->fail_apply_in = n;
    store->fail_kind = kind;
}

void store_mem_fail_reopen(struct store *store, uint64_t times)
{
    store->fail_reopens = times;
}

void store_mem_expect_order(struct store *store)
{
    store->wants_order = true;
}

void store_mem_fail_read(struct store *store, uint64_t n)
{
    store->fail_read_in = n;
}

void store_mem_be_uncached(struct store *store, uint64_t one_in)
{
    store->uncached_one_in = one_in;
}

/* Counts down to a failure. True: this call must fail. */
static bool due(uint64_t *countdown)
{
    return *countdown && --*countdown == 0;
}

/* ---- open and close ---------------------------------------------------------------------- */

const struct store_engine *store_engine(void)
{
    static const struct store_engine engine = {
        .version = "simulated", .assertions = "on", .crc32c = "software"};
    return &engine;
}

struct store_env *store_env_new(const struct store_env_options *options)
{
    struct store_env *env = calloc(1, sizeof *env);
    CHECK(env);
    env->cache_bytes = options->block_cache_bytes;
    return env;
}

void store_env_free(struct store_env *env)
{
    free(env);
}

bool store_is_damaged(const char *reason)
{
    (void)reason;
    return false;
}

struct store *store_open(struct store_env *env, const struct store_options *options, char *error,
                         size_t size)
{
    CHECK(env);
    struct disk *disk = disk_find(options->path);
    if (!disk)
        disk = disk_new(options->path);
    if (disk->is_open) {
        snprintf(error, size, "%s: in use", options->path);
        return NULL;
    }
    struct store *store = calloc(1, sizeof *store);
    CHECK(store);
    disk->is_open = true;
    store->disk = disk;
    store->drop = options->drop;
    store->drop_owner = options->drop_owner;
    state_share(&store->state, &disk->files);
    return store;
}

void store_replayed(struct store *store)
{
    store->is_replayed = true;
}

void store_close(struct store *store)
{
    CHECK(store->iters_now == 0);
    if (store->disk)
        store->disk->is_open = false;
    state_drop(&store->state);
    free(store);
}

/* ---- reads ------------------------------------------------------------------------------- */

int store_get(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    CHECK(cf < CF_COUNT);
    if (due(&store->fail_read_in) || store->is_shut)
        return ERR_STORE;
    struct row *row = tree_at_or_after(store->state.roots[cf], key, true);
    if (!row || !bytes_equal(row_key(row), key))
        return ERR_NOT_FOUND;
    row->refs++;
    *value = (struct slice){row_value(row).data, row->value_len, row};
    return OK;
}

int store_get_cached(struct store *store, enum cf cf, struct bytes key, struct slice *value)
{
    if (store->uncached_one_in && chance(store->uncached_one_in) == 0)
        return ERR_UNCACHED;
    return store_get(store, cf, key, value);
}

int store_fetch(struct store *store, enum cf cf, struct bytes key, bool keeps_blocks,
                struct slice *value)
{
    (void)keeps_blocks;
    return store_get(store, cf, key, value);
}

void slice_release(struct slice *slice)
{
    if (slice->pin)
        row_unref(slice->pin);
    slice->pin = NULL;
}

struct store_iter {
    struct store *store;
    struct node *root;
    struct row *lower, *upper; /* bounds: rows of which only the key is used */
    struct row *at;            /* a row in the tree; NULL: not valid */
    bool is_failed;
    bool is_cached; /* a cached iterator: moves may report ERR_UNCACHED */
    bool is_uncached;
};

struct store_iter *store_iter_new(struct store *store, enum cf cf, struct bytes lower,
                                  struct bytes upper)
{
    CHECK(cf < CF_COUNT);
    struct store_iter *iter = calloc(1, sizeof *iter);
    CHECK(iter);
    iter->store = store;
    iter->is_failed = due(&store->fail_read_in) || store->is_shut;
    iter->root = iter->is_failed ? NULL : tree_ref(store->state.roots[cf]);
    iter->lower = row_new(lower, BYTES(""));
    iter->upper = row_new(upper, BYTES(""));
    store->iters_now++;
    return iter;
}

struct store_iter *store_iter_new_cached(struct store *store, enum cf cf, struct bytes lower,
                                         struct bytes upper)
{
    struct store_iter *iter = store_iter_new(store, cf, lower, upper);
    iter->is_cached = true;
    return iter;
}

struct store_iter *store_iter_new_passing(struct store *store, enum cf cf)
{
    return store_iter_new(store, cf, BYTES(""), BYTES(""));
}

bool store_iter_is_uncached(const struct store_iter *iter)
{
    return iter->is_uncached;
}

int store_fetch_range(struct store *store, const struct store_range *range)
{
    (void)range;
    return due(&store->fail_read_in) ? ERR_STORE : OK;
}

void store_iter_free(struct store_iter *iter)
{
    if (!iter)
        return;
    CHECK(iter->store->iters_now > 0);
    iter->store->iters_now--;
    tree_unref(iter->root);
    row_unref(iter->lower);
    row_unref(iter->upper);
    free(iter);
}

/* Sets the row; a row outside of the bounds makes the iterator invalid. */
static void iter_set(struct store_iter *iter, struct row *row)
{
    struct bytes upper = row_key(iter->upper);
    bool is_below = row && bytes_compare(row_key(row), row_key(iter->lower)) < 0;
    bool is_above = row && upper.len && bytes_compare(row_key(row), upper) >= 0;
    uint64_t one_in = iter->is_cached ? iter->store->uncached_one_in : 0;
    iter->is_uncached = one_in && chance(one_in) == 0;
    iter->at = is_below || is_above || iter->is_uncached ? NULL : row;
}

void store_iter_seek(struct store_iter *iter, struct bytes key)
{
    struct bytes lower = row_key(iter->lower);
    iter_set(iter, tree_at_or_after(iter->root, bytes_compare(key, lower) < 0 ? lower : key, true));
}

void store_iter_seek_for_prev(struct store_iter *iter, struct bytes key)
{
    struct bytes upper = row_key(iter->upper);
    bool is_above = upper.len && bytes_compare(key, upper) >= 0;
    iter_set(iter, tree_at_or_before(iter->root, is_above ? upper : key, !is_above));
}

void store_iter_seek_first(struct store_iter *iter)
{
    store_iter_seek(iter, row_key(iter->lower));
}

void store_iter_seek_last(struct store_iter *iter)
{
    struct bytes upper = row_key(iter->upper);
    iter_set(iter, upper.len ? tree_at_or_before(iter->root, upper, false) : tree_last(iter->root));
}

void store_iter_next(struct store_iter *iter)
{
    CHECK(iter->at);
    iter_set(iter, tree_at_or_after(iter->root, row_key(iter->at), false));
}

void store_iter_prev(struct store_iter *iter)
{
    CHECK(iter->at);
    iter_set(iter, tree_at_or_before(iter->root, row_key(iter->at), false));
}

bool store_iter_valid(const struct store_iter *iter)
{
    return iter->at != NULL;
}

struct bytes store_iter_key(const struct store_iter *iter)
{
    return row_key(iter->at);
}

struct bytes store_iter_value(const struct store_iter *iter)
{
    return row_value(iter->at);
}

bool store_iter_failed(const struct store_iter *iter)
{
    return iter->is_failed || iter->is_uncached;
}

/* ---- batches ----------------------------------------------------------------------------- */

struct operation {
    struct operation *next;
    enum { PUT, DELETE, DELETE_RANGE } kind;
    enum cf cf;
    struct row *row; /* key and value, or first and last key of a range */
};

struct store_batch {
    struct operation *first;
    struct operation **end;
    size_t bytes;
};

struct store_batch *store_batch_new(void)
{
    struct store_batch *batch = calloc(1, sizeof *batch);
    CHECK(batch);
    batch->end = &batch->first;
    return batch;
}

void store_batch_clear(struct store_batch *batch)
{
    while (batch->first) {
        struct operation *operation = batch->first;
        batch->first = operation->next;
        row_unref(operation->row);
        free(operation);
    }
    batch->end = &batch->first;
    batch->bytes = 0;
}

void store_batch_free(struct store_batch *batch)
{
    store_batch_clear(batch);
    free(batch);
}

static void batch_add(struct store_batch *batch, int kind, enum cf cf, struct bytes key,
                      struct bytes value)
{
    CHECK(cf < CF_COUNT);
    struct operation *operation = malloc(sizeof *operation);
    CHECK(operation);
    *operation = (struct operation){.kind = kind, .cf = cf, .row = row_new(key, value)};
    *batch->end = operation;
    batch->end = &operation->next;
    batch->bytes += key.len + value.len;
}

void store_batch_put(struct store_batch *batch, struct store *store, enum cf cf, struct bytes key,
                     struct bytes value)
{
    (void)store;
    batch_add(batch, PUT, cf, key, value);
}

void store_batch_delete(struct store_batch *batch, struct store *store, enum cf cf,
                        struct bytes key)
{
    (void)store;
    batch_add(batch, DELETE, cf, key, BYTES(""));
}

void store_batch_delete_range(struct store_batch *batch, struct store *store, enum cf cf,
                              struct bytes from, struct bytes to)
{
    (void)store;
    if (!to.len || bytes_compare(from, to) < 0)
        batch_add(batch, DELETE_RANGE, cf, from, to);
}

size_t store_batch_bytes(const struct store_batch *batch)
{
    return batch->bytes;
}

static void state_apply(struct state *state, const struct store_batch *batch)
{
    for (const struct operation *op = batch->first; op; op = op->next) {
        struct bytes key = row_key(op->row), value = row_value(op->row);
        switch (op->kind) {
        case PUT:
            tree_replace(&state->roots[op->cf], key, key, true, op->row);
            break;
        case DELETE:
            tree_replace(&state->roots[op->cf], key, key, true, NULL);
            break;
        case DELETE_RANGE:
            tree_replace(&state->roots[op->cf], key, value, false, NULL);
            break;
        }
    }
}

/* ---- writes ------------------------------------------------------------------------------ */

static int refuse(int err, char *error, size_t size)
{
    snprintf(error, size, "%s", err == ERR_DISK_FULL ? "no space left" : "input/output error");
    return err;
}

/* Moves tables to files at random, each column family for itself. */
static void flush_some(struct store *store)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (chance(8) == 0) {
            tree_unref(store->disk->files.roots[cf]);
            store->disk->files.roots[cf] = tree_ref(store->state.roots[cf]);
        }
}

static void check_order(const struct store_batch *batch)
{
    for (const struct operation *op = batch->first; op && op->next; op = op->next)
        CHECK(op->kind == DELETE_RANGE || op->next->kind == DELETE_RANGE ||
              op->cf != op->next->cf ||
              bytes_compare(row_key(op->row), row_key(op->next->row)) < 0);
}

int store_apply(struct store *store, struct store_batch *batch, char *error, size_t size)
{
    if (store->wants_order && store->is_replayed)
        check_order(batch);
    if (!store->disk || store->is_shut)
        return refuse(ERR_STORE, error, size);
    if (due(&store->fail_apply_in))
        store->stopped = store->fail_kind;
    if (store->stopped)
        return refuse(store->stopped, error, size);
    state_apply(&store->state, batch);
    flush_some(store);
    return OK;
}

int store_apply_write_batch(struct store *store, struct bytes record, char *error, size_t size)
{
    (void)store, (void)record;
    return refuse(ERR_STORE, error, size);
}

bool store_is_stopped(const struct store *store)
{
    return !store->disk || store->is_shut || store->stopped;
}

void store_set_unapplied(struct store *store, uint64_t since_ms)
{
    store->unapplied_ms = since_ms;
}

uint64_t store_unapplied(const struct store *store)
{
    return store->unapplied_ms;
}

/* This store has no compaction. */
void store_set_keeps_orphans(struct store *store, bool keeps)
{
    (void)store;
    (void)keeps;
}

enum store_state store_state(struct store *store)
{
    if (store->is_shut)
        return STORE_CLOSED;
    return store_is_stopped(store) ? STORE_FAILED : STORE_SOUND;
}

int store_try_disk(struct store *store, uint64_t bytes, char *error, size_t size)
{
    (void)bytes;
    if (!store->disk)
        return refuse(ERR_STORE, error, size);
    if (store->fail_reopens == 0 || chance(2))
        return OK;
    store->fail_reopens--;
    return refuse(store->stopped, error, size);
}

/* Rows that are in no file are lost. */
void store_shut(struct store *store)
{
    CHECK(store->iters_now == 0);
    state_drop(&store->state);
    store->is_shut = true;
    store->is_replayed = false;
}

static void open_files(struct store *store, int stopped)
{
    CHECK(store->is_shut);
    state_share(&store->state, &store->disk->files);
    store->is_shut = false;
    store->stopped = stopped;
}

int store_reopen(struct store *store, char *error, size_t size)
{
    if (!store->disk)
        return refuse(ERR_STORE, error, size);
    if (store->fail_reopens) {
        store->fail_reopens--;
        return refuse(chance(2) ? ERR_DISK_FULL : ERR_STORE, error, size);
    }
    open_files(store, OK);
    return OK;
}

int store_reopen_read_only(struct store *store, char *error, size_t size)
{
    if (!store->disk)
        return refuse(ERR_STORE, error, size);
    open_files(store, ERR_DISK_FULL);
    return OK;
}

/* ---- control ----------------------------------------------------------------------------- */

/* Removes the row from the tables and from the files. */
static void drop_row(struct store *store, enum cf cf, struct bytes key)
{
    tree_replace(&store->state.roots[cf], key, key, true, NULL);
    tree_replace(&store->disk->files.roots[cf], key, key, true, NULL);
}

/* Asks drop_fn about every row of a column family with collections, as the engine does. */
static void drop_orphans(struct store *store, enum cf cf, struct bytes from, struct bytes to)
{
    struct store_iter *iter = store_iter_new(store, cf, from, to);
    for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter)) {
        struct bytes key = store_iter_key(iter);
        if (store->drop(store->drop_owner, store, cf, key))
            drop_row(store, cf, key);
    }
    store_iter_free(iter);
}

void store_compact(struct store *store, enum cf cf, struct bytes from, struct bytes to)
{
    bool has_orphans = cf == CF_DATA || cf == CF_ZSET_SCORE || cf == CF_STREAM || cf == CF_RANK;
    if (store_is_stopped(store) || !store->is_replayed)
        return;
    if (store->drop && has_orphans)
        drop_orphans(store, cf, from, to);
}

void store_env_resize(struct store_env *env, uint64_t block_cache_bytes)
{
    env->cache_bytes = block_cache_bytes;
}

bool store_set_options(struct store *store, const struct store_options *options, char *error,
                       size_t size)
{
    (void)store, (void)options, (void)error, (void)size;
    return true;
}

enum store_compacted store_compact_all(struct store *store, struct store_progress *progress)
{
    uint64_t bytes = store_figure(store, "disk_bytes");
    atomic_store(&progress->bytes_total, bytes);
    for (enum cf cf = 0; cf < CF_COUNT && !atomic_load(&progress->is_cancelled); cf++) {
        atomic_store(&progress->cf, cf);
        store_compact(store, cf, BYTES(""), BYTES(""));
    }
    if (atomic_load(&progress->is_cancelled))
        return STORE_COMPACT_CANCELLED;
    atomic_store(&progress->bytes_done, bytes);
    return !store_is_stopped(store) ? STORE_COMPACTED : STORE_COMPACT_FAILED;
}

void store_compact_cancel(struct store *store, struct store_progress *progress)
{
    (void)store;
    atomic_store(&progress->is_cancelled, true);
}

const char *store_family_name(enum cf cf)
{
    static const char *const names[CF_COUNT] = {"system", "metadata", "data",  "zset_score",
                                                "stream", "rank",     "expire"};
    return names[cf];
}

void store_maintain(struct store *store)
{
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    store_compact(store, CF_ZSET_SCORE, BYTES(""), BYTES(""));
    store_compact(store, CF_STREAM, BYTES(""), BYTES(""));
    store_compact(store, CF_RANK, BYTES(""), BYTES(""));
}

bool store_holds_writes(struct store *store)
{
    return store_is_stopped(store);
}

bool store_is_behind(struct store *store)
{
    (void)store;
    return false;
}

uint64_t store_figure(struct store *store, const char *name)
{
    uint64_t bytes = 0;
    if (strcmp(name, "stalled") == 0)
        return store_is_stopped(store);
    if (strcmp(name, "disk_free_bytes") == 0)
        return UINT64_MAX;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        bytes += tree_bytes(store->state.roots[cf]);
    return strcmp(name, "disk_bytes") == 0 || strcmp(name, "memtable_bytes") == 0 ? bytes : 0;
}

void store_range_bytes(struct store *store, enum cf cf, const struct bytes *from,
                       const struct bytes *to, size_t count, uint64_t *bytes)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = 0;
        struct store_iter *iter = store_iter_new(store, cf, from[i], to[i]);
        for (store_iter_seek_first(iter); store_iter_valid(iter); store_iter_next(iter))
            bytes[i] += store_iter_key(iter).len + store_iter_value(iter).len;
        store_iter_free(iter);
    }
}

void store_info(struct store *store, struct out *out)
{
    out_printf(out, "store_state:%s\r\n", store->disk && !store->is_shut ? "open" : "lost");
    out_printf(out, "store_stalled:%llu\r\n", (unsigned long long)store_figure(store, "stalled"));
}

int store_flush(struct store *store, char *error, size_t size)
{
    if (store_is_stopped(store))
        return refuse(ERR_STORE, error, size);
    state_set(&store->disk->files, &store->state);
    return OK;
}

void store_compact_ranges(struct store *store)
{
    (void)store;
}

void store_forget_blocks(struct store *store)
{
    (void)store; /* see store_mem_be_uncached */
}

void store_levels(struct store *store, struct store_level levels[STORE_LEVELS])
{
    memset(levels, 0, STORE_LEVELS * sizeof *levels);
    levels[0].bytes = store_figure(store, "disk_bytes");
}

void store_thread_blocks(uint64_t *hits, uint64_t *reads)
{
    *hits = *reads = 0;
}

int store_checkpoint(struct store *store, const char *path, char *error, size_t size)
{
    if (disk_find(path)) {
        snprintf(error, size, "%s: exists", path);
        return ERR_STORE;
    }
    state_share(&disk_new(path)->files, &store->disk->files);
    return OK;
}
