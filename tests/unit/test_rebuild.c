/*
 * test_rebuild.c - every row of a store can be rebuilt from its WAL: random effects of every kind are read from the WAL
 * while the store is open, and applied to an empty store.
 */
#include "backend/format/effects.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCHES = 3000, KEYS = 400, KEY_BYTES = 3 };

static char dir[] = "/tmp/scree-rebuild-XXXXXX";
static char error[512];
static uint64_t state = 7;

static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

static struct storage *open_storage(struct store_env *env, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const struct store_options options = {
        .path = path,
        .memtable_bytes = 64 << 20,
        .memtables = 4,
        .max_open_files = -1,
        .compression = "lz4",
    };
    struct storage *storage = storage_open(env, &options, 1 << 30, error, sizeof error);
    if (!storage)
        fprintf(stderr, "%s\n", error);
    CHECK(storage);
    return storage;
}

/* A random key: one byte of namespace, a slot, KEY_BYTES. */
static struct bytes any_key(char key[1 + 1 + KEY_BYTES])
{
    uint64_t number = any(KEYS);
    memcpy(key, (char[]){1, (char)('a' + number % 3), 0, (char)(number % 5), (char)number}, 5);
    return (struct bytes){key, 5};
}

static void write_batch(struct storage *storage, struct effects *effects)
{
    char key[8], to[8], value[300];
    memset(value, (int)('a' + any(26)), sizeof value);
    effects_clear(effects);
    for (uint64_t count = any(20); count; count--) {
        enum cf cf = (enum cf)any(CF_COUNT);
        switch (any(12)) {
        case 0:
            effects_delete_range(effects, cf, any_key(key), any_key(to));
            break;
        case 1:
        case 2:
            effects_delete(effects, cf, any_key(key));
            break;
        default:
            effects_put(effects, cf, any_key(key), (struct bytes){value, any(sizeof value)});
        }
    }
    CHECK(storage_write(storage, effects, false, error, sizeof error) == OK);
}

/* wal_fn */
static bool apply(void *owner, uint64_t index, struct bytes record, char *reason, size_t size)
{
    static uint64_t last;
    struct store *store = owner;
    CHECK(index == ++last);
    struct store_batch *batch = store_batch_new();
    bool good = store_batch_add_effects(batch, store, record, reason, size) &&
                store_apply(store, batch, reason, size) == OK;
    store_batch_free(batch);
    return good;
}

static uint64_t compare(struct store *one, struct store *other, enum cf cf)
{
    uint64_t rows = 0;
    struct store_iter *a = store_iter_new(one, cf, BYTES(""), BYTES(""));
    struct store_iter *b = store_iter_new(other, cf, BYTES(""), BYTES(""));
    store_iter_seek_first(a);
    store_iter_seek_first(b);
    for (; store_iter_valid(a) && store_iter_valid(b); store_iter_next(a), store_iter_next(b)) {
        CHECK(bytes_equal(store_iter_key(a), store_iter_key(b)));
        CHECK(bytes_equal(store_iter_value(a), store_iter_value(b)));
        rows++;
    }
    CHECK(!store_iter_valid(a) && !store_iter_valid(b));
    CHECK(!store_iter_failed(a) && !store_iter_failed(b));
    store_iter_free(a);
    store_iter_free(b);
    return rows;
}

int main(void)
{
    char path[128];
    uint64_t rows = 0;
    CHECK(mkdtemp(dir));
    struct store_env *env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 8 << 20, .background_threads = 1});
    struct storage *running = open_storage(env, "running"), *empty = open_storage(env, "empty");
    struct effects *effects = effects_new();
    for (uint64_t batch = 0; batch < sized(BATCHES); batch++)
        write_batch(running, effects);
    snprintf(path, sizeof path, "%s/running", dir);
    if (!wal_read_only(path, apply, storage_store(empty), error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        CHECK(false);
    }
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rows += compare(storage_store(running), storage_store(empty), cf);
    CHECK(rows > KEYS / 4); /* fewer batches are written under sanitizers */
    effects_free(effects);
    storage_close(running);
    storage_close(empty);
    store_env_free(env);
    CHECK(path_remove(dir));
    printf("%llu rows\n", (unsigned long long)rows);
    return EXIT_SUCCESS;
}
