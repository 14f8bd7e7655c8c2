/*
 * micro_store.c - cost of the store: CPU time of the whole process (background threads too) per operation.
 *
 *   micro_store put COMMANDS sync|async       one writer, COMMANDS rows a batch
 *   micro_store get                           hot rows, all rows, absent rows
 *   micro_store iter                          a short iteration over a collection, and per row
 *   micro_store                               all of them
 *
 * The database is in a folder of its own in TMPDIR, which is removed. Each case runs SECONDS.
 */
#include "backend/format/effects.h"
#include "backend/storage/storage.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum {
    SECONDS = 4,
    KEYS = 300 * 1000,
    HOT_KEYS = 1000,
    COLLECTIONS = 20 * 1000,
    FIELDS = 10,
    VALUE_BYTES = 64,
};

static struct store_env *env;
static char dir[256];

/* ---- clocks and figures ------------------------------------------------------------------ */

struct lap {
    double wall, cpu; /* seconds */
};

static struct lap lap_now(void)
{
    struct timespec wall;
    struct rusage usage;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    getrusage(RUSAGE_SELF, &usage);
    return (struct lap){
        (double)wall.tv_sec + (double)wall.tv_nsec / 1e9,
        (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
    };
}

static void report(const char *name, struct lap start, uint64_t count)
{
    struct lap end = lap_now();
    double wall = end.wall - start.wall, cpu = end.cpu - start.cpu, ops = (double)count;
    printf("%-34s %10.0f /s  wall %8.2f us  cpu %8.2f us\n", name, ops / wall, wall / ops * 1e6,
           cpu / ops * 1e6);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return *state >> 33;
}

/* ---- the database ------------------------------------------------------------------------ */

static struct storage *open_storage(int number)
{
    char path[300], error[256];
    snprintf(path, sizeof path, "%s/%d", dir, number);
    struct store_options options = {
        .path = path,
        .memtable_bytes = 8 << 20,
        .memtables = 4,
        .bloom_bits = 10,
        .max_open_files = -1,
        .compression = "lz4",
    };
    struct storage *storage = storage_open(env, &options, 64 << 20, error, sizeof error);
    if (!storage)
        fprintf(stderr, "%s\n", error);
    CHECK(storage);
    return storage;
}

static void put_row(struct effects *batch, uint64_t number)
{
    char key[32], value[VALUE_BYTES];
    int len = snprintf(key, sizeof key, "key:%020llu", (unsigned long long)number);
    memset(value, (int)('a' + number % 26), sizeof value);
    effects_put(batch, CF_METADATA, (struct bytes){key, (size_t)len},
                (struct bytes){value, sizeof value});
}

static void write_batch(struct storage *storage, struct effects *batch, bool sync)
{
    char error[256];
    int err = storage_write(storage, batch, sync, error, sizeof error);
    CHECK(err == 0);
    effects_clear(batch);
}

static void fill(struct storage *storage)
{
    struct effects *batch = effects_new();
    for (uint64_t i = 0; i < KEYS; i++) {
        put_row(batch, i * 2);
        if (i % 256 == 255)
            write_batch(storage, batch, false);
    }
    write_batch(storage, batch, true);
    effects_free(batch);
    store_compact(storage_store(storage), CF_METADATA, BYTES(""), BYTES(""));
}

/* ---- put --------------------------------------------------------------------------------- */

static void run_put(unsigned commands, bool sync)
{
    char name[64];
    uint64_t count = 0, state = 1;
    struct storage *storage = open_storage(0);
    struct effects *batch = effects_new();
    struct lap start = lap_now();
    while (lap_now().wall - start.wall < SECONDS) {
        for (unsigned i = 0; i < commands; i++)
            put_row(batch, next_random(&state) % (KEYS * 4));
        write_batch(storage, batch, sync);
        count += commands;
    }
    snprintf(name, sizeof name, "put, batch of %u, %s", commands, sync ? "sync" : "no sync");
    report(name, start, count);
    effects_free(batch);
    storage_close(storage);
}

/* ---- get --------------------------------------------------------------------------------- */

static void run_get_over(struct store *store, const char *name, uint64_t keys, uint64_t odd)
{
    uint64_t count = 0, found = 0, state = 1;
    struct lap start = lap_now();
    while (lap_now().wall - start.wall < SECONDS) {
        for (int i = 0; i < 1000; i++) {
            char key[32];
            struct slice value;
            unsigned long long number = next_random(&state) % keys * 2 + odd;
            int len = snprintf(key, sizeof key, "key:%020llu", number);
            if (store_get(store, CF_METADATA, (struct bytes){key, (size_t)len}, &value) != 0)
                continue;
            found++;
            slice_release(&value);
        }
        count += 1000;
    }
    CHECK(found == (odd ? 0 : count));
    report(name, start, count);
}

static void run_get(void)
{
    struct storage *storage = open_storage(0);
    fill(storage);
    run_get_over(storage_store(storage), "get, hot 1 k rows", HOT_KEYS, 0);
    run_get_over(storage_store(storage), "get, all rows, in cache", KEYS, 0);
    run_get_over(storage_store(storage), "get, absent rows", KEYS, 1);
    storage_close(storage);
}

/* ---- iterators --------------------------------------------------------------------------- */

static struct bytes collection_prefix(uint64_t number, char *text, size_t size)
{
    int len = snprintf(text, size, "collection:%08llu:", (unsigned long long)number);
    return (struct bytes){text, (size_t)len};
}

static void fill_collections(struct storage *storage)
{
    struct effects *batch = effects_new();
    for (uint64_t i = 0; i < COLLECTIONS; i++) {
        char key[64];
        size_t len = collection_prefix(i, key, sizeof key).len;
        for (int field = 0; field < FIELDS; field++) {
            snprintf(key + len, sizeof key - len, "%02d", field);
            effects_put(batch, CF_DATA, bytes_of(key), BYTES("a value of some bytes"));
        }
        if (i % 16 == 15)
            write_batch(storage, batch, false);
    }
    effects_free(batch);
    store_compact(storage_store(storage), CF_DATA, BYTES(""), BYTES(""));
}

static void run_iter_over(struct store *store, const char *name, int rows)
{
    uint64_t count = 0, state = 1;
    struct lap start = lap_now();
    while (lap_now().wall - start.wall < SECONDS) {
        for (int i = 0; i < 100; i++) {
            char text[64], end[64];
            struct bytes lower =
                collection_prefix(next_random(&state) % COLLECTIONS, text, sizeof text);
            memcpy(end, text, lower.len);
            end[lower.len - 1]++;
            struct store_iter *iter =
                store_iter_new(store, CF_DATA, lower, (struct bytes){end, lower.len});
            store_iter_seek_first(iter);
            for (int row = 1; row < rows; row++)
                store_iter_next(iter);
            CHECK(store_iter_valid(iter));
            store_iter_free(iter);
        }
        count += 100;
    }
    report(name, start, count);
}

static void run_iter(void)
{
    struct storage *storage = open_storage(0);
    fill_collections(storage);
    run_iter_over(storage_store(storage), "iterator: create, seek, destroy", 1);
    run_iter_over(storage_store(storage), "iterator: the same and 10 rows", FIELDS);
    storage_close(storage);
}

/* ------------------------------------------------------------------------------------------ */

static bool run(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[0], "put") == 0)
        run_put((unsigned)atoi(argv[1]), strcmp(argv[2], "sync") == 0);
    else if (argc == 1 && strcmp(argv[0], "get") == 0)
        run_get();
    else if (argc == 1 && strcmp(argv[0], "iter") == 0)
        run_iter();
    else
        return false;
    return true;
}

/* False: there is no case of this name. */
static bool run_in_folder(int argc, char **argv)
{
    const char *parent = getenv("TMPDIR");
    char command[300];
    snprintf(dir, sizeof dir, "%s/micro-store-XXXXXX", parent ? parent : "/tmp");
    CHECK(!strchr(dir, '\'') && mkdtemp(dir));
    env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 256 << 20, .background_threads = 2});
    bool is_known = run(argc, argv);
    store_env_free(env);
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    CHECK(system(command) == 0);
    return is_known;
}

int main(int argc, char **argv)
{
    static char *cases[][4] = {{"put", "1", "async"}, {"put", "16", "sync"}, {"get"}, {"iter"}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc == 1 && i < sizeof cases / sizeof cases[0]; i++) {
        int count = 0;
        while (cases[i][count])
            count++;
        CHECK(run_in_folder(count, cases[i]));
    }
    if (argc > 1 && !run_in_folder(argc - 1, argv + 1)) {
        fprintf(stderr, "usage: micro_store [put COMMANDS sync|async | get | iter]\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
