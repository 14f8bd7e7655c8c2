/*
 * test_import.c - rows of a backup that no backend would write: a restore refuses them or leaves them out, and ends.
 *
 * A backup's checksums prove only that its files are those of whoever made it. The stores here are made row by row.
 */
#include "backend/backup/import.h"

#include "backend/context/hybrid_clock.h"
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/partition_store.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/path.h"
#include "shared/slot.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 6, WORLDS = 500 };

static struct backend_config config;
static struct store_env *env;
static struct arena arena;
static bool wanted[SLOT_COUNT];

static void set_up(void)
{
    char dir[] = "/tmp/scree-import-XXXXXX";
    char error[OPTION_REASON_MAX];
    const struct store_env_options options = {.block_cache_bytes = 1 << 20,
                                              .background_threads = 1};
    ck_assert(mkdtemp(dir) != NULL);
    config_init_defaults(&config.head, &backend_schema);
    ck_assert(config_set(&config.head, config_find(&config.head, BYTES("data")), bytes_of(dir),
                         error, sizeof error));
    arena_init(&arena);
    env = store_env_new(&options);
    memset(wanted, 1, sizeof wanted);
}

static void tear_down(void)
{
    store_env_free(env);
    arena_fini(&arena);
    (void)path_remove(config.data);
    config_fini(&config.head);
}

static struct storage *open_store(const char *name)
{
    char error[512];
    char dir[512];
    (void)snprintf(dir, sizeof dir, "%s/%s", config.data, name);
    struct storage *storage = partition_store_open_raw(env, &config, dir, error, sizeof error);
    ck_assert_msg(storage != NULL, "%s", error);
    return storage;
}

/* Puts one row; deletes it when value.data is NULL. */
static void put_row(struct storage *storage, enum cf cf, struct bytes key, struct bytes value)
{
    char error[512];
    struct effects *batch = effects_new();
    if (value.data)
        effects_put(batch, cf, key, value);
    else
        effects_delete(batch, cf, key);
    ck_assert_int_eq(storage_write(storage, batch, false, error, sizeof error), OK);
    effects_free(batch);
}

static bool goes_on(void *owner, uint64_t keys, uint64_t rows, uint64_t bytes)
{
    (void)owner;
    (void)keys;
    (void)rows;
    (void)bytes;
    return true;
}

static bool import_all(struct storage *from, struct storage *to, char *error, size_t size)
{
    struct import *import = import_new(to, goes_on, NULL);
    bool good = import_from(import, storage_store(from), wanted, error, size) &&
                import_end(import, error, size);
    import_free(import);
    return good;
}

struct pair {
    struct storage *from, *to;
};

static struct pair open_pair(void)
{
    return (struct pair){open_store("from"), open_store("to")};
}

static void close_pair(const struct pair *stores)
{
    storage_close(stores->from);
    storage_close(stores->to);
}

static void check_header(const struct pair *stores, struct batch_header header, bool is_good)
{
    char error[512] = "";
    put_row(stores->from, CF_SYSTEM, BYTES(SYSTEM_HEADER), encode_batch_header(&arena, &header));
    ck_assert_int_eq(import_check_header(storage_store(stores->from), error, sizeof error),
                     is_good);
    ck_assert_int_eq(import_all(stores->from, stores->to, error, sizeof error), is_good);
    ck_assert(is_good || strstr(error, "more than 100 years ahead"));
}

START_TEST(a_header_with_far_times_is_refused)
{
    uint64_t now_us = clock_wall_us();
    const struct pair stores = open_pair();
    char error[512];
    ck_assert(import_check_header(storage_store(stores.from), error, sizeof error));
    check_header(&stores, (struct batch_header){.hybrid = HYBRID_MAX}, false);
    check_header(&stores, (struct batch_header){.hybrid = now_us + 2 * HYBRID_AHEAD_US}, false);
    check_header(&stores, (struct batch_header){.version = UINT64_MAX}, false);
    check_header(&stores,
                 (struct batch_header){.hybrid = now_us, .version = now_us << VERSION_SHIFT}, true);
    put_row(stores.from, CF_SYSTEM, BYTES(SYSTEM_HEADER), BYTES("short"));
    ck_assert(!import_check_header(storage_store(stores.from), error, sizeof error));
    close_pair(&stores);
}
END_TEST

static unsigned random_below(unsigned end)
{
    return (unsigned)rand() % end;
}

static struct bytes random_bytes(size_t max)
{
    size_t len = random_below((unsigned)max + 1);
    char *data = arena_alloc(&arena, len + 1);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(random_below(3) ? random_below(4) : random_below(256));
    return (struct bytes){data, len};
}

/* A row's key: of a metadata row or of a collection, or neither. */
static struct bytes random_key(enum cf cf)
{
    struct bytes key = random_below(2) ? BYTES("k") : BYTES("longer");
    uint16_t slot = (uint16_t)(random_below(8) ? random_below(3) : random_below(65536));
    if (random_below(8) == 0)
        return random_bytes(24);
    if (cf == CF_METADATA)
        return encode_metadata_key(&arena, random_bytes(3), slot, key);
    return encode_sub_key(
        &arena, encode_collection_prefix(&arena, random_bytes(1), slot, key, random_below(3)),
        random_bytes(20));
}

static struct bytes random_value(enum cf cf)
{
    static const enum type types[] = {TYPE_STRING, TYPE_HASH, TYPE_LIST,  TYPE_SET,
                                      TYPE_ZSET,   TYPE_JSON, TYPE_STREAM};
    const struct metadata meta = {.type = types[random_below(sizeof types / sizeof types[0])],
                                  .version = random_below(3),
                                  .size = random_below(2) ? random_below(5) : UINT64_MAX,
                                  .expire_ms = random_below(2) ? 0 : UINT64_MAX >> random_below(64),
                                  .payload = random_bytes(8)};
    if (cf == CF_METADATA && random_below(4))
        return encode_metadata(&arena, &meta);
    return random_bytes(40);
}

/* A row that the next world deletes. */
struct put {
    enum cf cf;
    struct bytes key;
};

static void put_random_rows(struct storage *from, struct put rows[ROWS])
{
    static const enum cf families[] = {CF_SYSTEM,     CF_METADATA, CF_METADATA, CF_DATA,
                                       CF_ZSET_SCORE, CF_STREAM,   CF_RANK,     CF_EXPIRE};
    for (unsigned i = 0; i < ROWS; i++) {
        struct put *row = &rows[i];
        row->cf = families[random_below(sizeof families / sizeof families[0])];
        bool is_map =
            row->cf == CF_SYSTEM && random_below(2); /* SWAPDB's rows have a letter and a name */
        row->key = is_map ? BYTES("d") : random_key(row->cf);
        if (row->key.len)
            put_row(from, row->cf, row->key, random_value(row->cf));
    }
}

START_TEST(rows_that_no_backend_writes_end_in_a_store_or_in_an_error)
{
    static struct put rows[ROWS];
    const struct pair stores = open_pair();
    unsigned good = 0;
    srand(1);
    for (unsigned world = 0; world < WORLDS; world++) {
        char error[512] = "";
        put_random_rows(stores.from, rows);
        (void)import_check_header(storage_store(stores.from), error, sizeof error);
        bool is_good = import_all(stores.from, stores.to, error, sizeof error);
        ck_assert(is_good || *error);
        good += is_good;
        for (unsigned i = 0; i < ROWS; i++)
            put_row(stores.from, rows[i].cf, rows[i].key, (struct bytes){0});
        arena_reset(&arena);
    }
    ck_assert_msg(good > 0 && good < WORLDS, "%u of %u imports are good", good, WORLDS);
    close_pair(&stores);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import");
    TCase *tests = tcase_create("import");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_header_with_far_times_is_refused);
    tcase_add_test(tests, rows_that_no_backend_writes_end_in_a_store_or_in_an_error);
    return suite_run(suite);
}
