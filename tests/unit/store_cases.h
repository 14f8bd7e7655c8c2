/*
 * store_cases.h - tests of what store.h and storage.h promise, for both implementations: RocksDB and the WAL
 * (tests/unit/test_store.c), and those in memory (tests/sim/test_store_mem.c).
 *
 * The including file calls cases_begin(path) and cases_end() around each test.
 */
#pragma once

#include "backend/format/effects.h"
#include "backend/storage/storage.h"
#include "shared/error.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct store_env *env;
static struct storage *storage;
static struct store *store; /* its tables */
static struct effects *batch;
static char store_path[128];
static char error[512];

static struct store_options cases_options(void)
{
    return (struct store_options){
        .path = store_path,
        .memtable_bytes = 1 << 20,
        .memtables = 4,
        .bloom_bits = 10,
        .max_open_files = -1,
        .compression = "lz4",
    };
}

static uint64_t wal_bytes_max = 8 << 20;

static void open_as(const struct store_options *options)
{
    storage = storage_open(env, options, wal_bytes_max, error, sizeof error);
    ck_assert_msg(storage != NULL, "%s", error);
    store = storage_store(storage);
}

static void open_with(store_drop_fn *drop, void *owner)
{
    struct store_options options = cases_options();
    options.drop = drop;
    options.drop_owner = owner;
    open_as(&options);
}

static void cases_begin(const char *path)
{
    struct store_env_options options = {.block_cache_bytes = 8 << 20, .background_threads = 2};
    snprintf(store_path, sizeof store_path, "%s", path);
    env = store_env_new(&options);
    batch = effects_new();
    open_with(NULL, NULL);
}

static void cases_end(void)
{
    effects_free(batch);
    storage_close(storage);
    store_env_free(env);
}

/* ---- helpers ----------------------------------------------------------------------------- */

static void put(enum cf cf, const char *key, const char *value)
{
    effects_put(batch, cf, bytes_of(key), bytes_of(value));
}

static int try_commit(bool sync)
{
    int err = storage_write(storage, batch, sync, error, sizeof error);
    effects_clear(batch);
    return err;
}

static void commit(void)
{
    int err = try_commit(false);
    ck_assert_msg(err == OK, "%s", error);
}

/* The value as text, "(none)" for an absent row. */
static const char *get(enum cf cf, const char *key)
{
    static char text[4][256];
    static unsigned turn;
    char *to = text[turn++ % 4];
    struct slice value;
    int err = store_get(store, cf, bytes_of(key), &value);
    if (err == ERR_NOT_FOUND)
        return "(none)";
    ck_assert_int_eq(err, OK);
    ck_assert_uint_lt(value.len, sizeof text[0]);
    memcpy(to, value.data, value.len);
    to[value.len] = 0;
    slice_release(&value);
    return to;
}

/* All keys of [lower, upper), forwards or backwards, with a blank after each. */
static const char *walk(enum cf cf, const char *lower, const char *upper, bool is_forward)
{
    static char text[1024];
    size_t len = 0;
    struct store_iter *iter = store_iter_new(store, cf, bytes_of(lower), bytes_of(upper));
    if (is_forward)
        store_iter_seek_first(iter);
    else
        store_iter_seek_last(iter);
    while (store_iter_valid(iter)) {
        struct bytes key = store_iter_key(iter);
        ck_assert_uint_lt(len + key.len + 2, sizeof text);
        memcpy(text + len, key.data, key.len);
        len += key.len;
        text[len++] = ' ';
        if (is_forward)
            store_iter_next(iter);
        else
            store_iter_prev(iter);
    }
    ck_assert(!store_iter_failed(iter));
    store_iter_free(iter);
    text[len] = 0;
    return text;
}

static void put_letters(enum cf cf)
{
    for (const char *letter = "bdfhj"; *letter; letter++)
        put(cf, (char[]){*letter, 0}, "v");
    commit();
}

/* ---- rows -------------------------------------------------------------------------------- */

START_TEST(a_row_is_read_back_replaced_and_deleted)
{
    ck_assert_str_eq(get(CF_DATA, "k"), "(none)");
    put(CF_DATA, "k", "one");
    commit();
    ck_assert_str_eq(get(CF_DATA, "k"), "one");
    put(CF_DATA, "k", "");
    commit();
    ck_assert_str_eq(get(CF_DATA, "k"), "");
    effects_delete(batch, CF_DATA, BYTES("k"));
    commit();
    ck_assert_str_eq(get(CF_DATA, "k"), "(none)");
}
END_TEST

START_TEST(keys_and_values_are_any_bytes)
{
    struct bytes key = BYTES("\0\xff\n"), value = BYTES("\xff\0");
    struct slice slice;
    effects_put(batch, CF_METADATA, key, value);
    commit();
    ck_assert_int_eq(store_get(store, CF_METADATA, key, &slice), OK);
    ck_assert(bytes_equal(slice_bytes(&slice), value));
    slice_release(&slice);
    ck_assert_int_eq(store_get(store, CF_METADATA, BYTES("\0\xff"), &slice), ERR_NOT_FOUND);
}
END_TEST

START_TEST(column_families_are_apart)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        put(cf, "k", (char[]){(char)('0' + cf), 0});
    commit();
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        ck_assert_str_eq(get(cf, "k"), ((char[]){(char)('0' + cf), 0}));
}
END_TEST

START_TEST(a_batch_applies_in_order_and_only_when_written)
{
    put(CF_DATA, "a", "1");
    put(CF_DATA, "b", "1");
    effects_delete_range(batch, CF_DATA, BYTES("a"), BYTES("c"));
    put(CF_DATA, "b", "2");
    ck_assert_uint_gt(effects_bytes(batch).len, 9);
    ck_assert_str_eq(get(CF_DATA, "b"), "(none)");
    commit();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "b ");
    ck_assert_str_eq(get(CF_DATA, "b"), "2");
    put(CF_DATA, "never", "written");
    effects_clear(batch);
    commit();
    ck_assert_str_eq(get(CF_DATA, "never"), "(none)");
}
END_TEST

START_TEST(a_big_batch_is_written_and_cleared)
{
    char key[16];
    static char value[1024];
    memset(value, 'x', sizeof value);
    for (int i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "%06d", i);
        effects_put(batch, CF_METADATA, bytes_of(key), (struct bytes){value, 1024});
    }
    ck_assert_uint_gt(effects_bytes(batch).len, 3000 * 1024);
    commit();
    ck_assert_uint_lt(effects_bytes(batch).len, 100);
    struct slice slice;
    ck_assert_int_eq(store_get(store, CF_METADATA, BYTES("002999"), &slice), OK);
    ck_assert_uint_eq(slice.len, 1024);
    slice_release(&slice);
}
END_TEST

START_TEST(a_deleted_range_has_its_from_but_not_its_to)
{
    put_letters(CF_DATA);
    effects_delete_range(batch, CF_DATA, BYTES("d"), BYTES("h"));
    commit();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "b h j ");
    effects_delete_range(batch, CF_DATA, BYTES("z"), BYTES("a"));
    effects_delete_range(batch, CF_DATA, BYTES("b"), BYTES("b"));
    commit();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "b h j ");
    put(CF_DATA, "\xff\xff\xff", "v");
    effects_delete_range(batch, CF_DATA, BYTES("c"), BYTES(""));
    commit();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "b ");
    ck_assert_str_eq(get(CF_DATA, "h"), "(none)");
}
END_TEST

START_TEST(a_slice_stays_valid_when_its_row_is_removed)
{
    struct slice slice;
    put(CF_DATA, "k", "kept");
    commit();
    ck_assert_int_eq(store_get(store, CF_DATA, BYTES("k"), &slice), OK);
    effects_delete(batch, CF_DATA, BYTES("k"));
    commit();
    store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    ck_assert(bytes_equal(slice_bytes(&slice), BYTES("kept")));
    slice_release(&slice);
    slice_release(&slice);
}
END_TEST

/* ---- iterators --------------------------------------------------------------------------- */

START_TEST(an_iterator_keeps_its_bounds)
{
    put_letters(CF_ZSET_SCORE);
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "", "", true), "b d f h j ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "", "", false), "j h f d b ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "d", "h", true), "d f ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "d", "h", false), "f d ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "c", "i", true), "d f h ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "c", "i", false), "h f d ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "f", "", true), "f h j ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "", "f", false), "d b ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "e", "e", true), "");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "k", "z", true), "");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "k", "z", false), "");
}
END_TEST

static const char *key_at(struct store_iter *iter)
{
    static char text[16];
    if (!store_iter_valid(iter))
        return "(end)";
    struct bytes key = store_iter_key(iter);
    memcpy(text, key.data, key.len);
    text[key.len] = 0;
    return text;
}

START_TEST(seeks_land_beside_their_key_and_inside_the_bounds)
{
    put_letters(CF_DATA);
    struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES("d"), BYTES("j"));
    const struct {
        const char *key, *after, *before;
    } rows[] = {
        {"a", "d", "(end)"}, {"d", "d", "d"},     {"e", "f", "d"},     {"h", "h", "h"},
        {"i", "(end)", "h"}, {"j", "(end)", "h"}, {"z", "(end)", "h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        store_iter_seek(iter, bytes_of(rows[i].key));
        ck_assert_str_eq(key_at(iter), rows[i].after);
        store_iter_seek_for_prev(iter, bytes_of(rows[i].key));
        ck_assert_str_eq(key_at(iter), rows[i].before);
    }
    store_iter_seek(iter, BYTES("f"));
    store_iter_next(iter);
    store_iter_prev(iter);
    store_iter_prev(iter);
    ck_assert_str_eq(key_at(iter), "d");
    ck_assert(bytes_equal(store_iter_value(iter), BYTES("v")));
    store_iter_free(iter);
    store_iter_free(NULL);
}
END_TEST

START_TEST(an_iterator_sees_the_state_of_its_creation)
{
    put_letters(CF_DATA);
    struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES(""), BYTES(""));
    put(CF_DATA, "c", "new");
    put(CF_DATA, "d", "new");
    effects_delete_range(batch, CF_DATA, BYTES("f"), BYTES(""));
    commit();
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "b c d ");
    store_iter_seek(iter, BYTES("c"));
    ck_assert_str_eq(key_at(iter), "d");
    ck_assert(bytes_equal(store_iter_value(iter), BYTES("v")));
    store_iter_seek_last(iter);
    ck_assert_str_eq(key_at(iter), "j");
    store_iter_free(iter);
}
END_TEST

START_TEST(many_iterators_live_side_by_side)
{
    struct store_iter *iters[20];
    put_letters(CF_DATA);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            const char *lower = i % 2 ? "d" : "a long lower bound, longer than any before it";
            iters[i] = store_iter_new(store, CF_DATA, bytes_of(lower), BYTES("h"));
            store_iter_seek_first(iters[i]);
        }
        for (int i = 0; i < 20; i++)
            ck_assert_str_eq(key_at(iters[i]), i % 2 ? "d" : "b");
        for (int i = 0; i < 20; i++)
            store_iter_free(iters[i]);
    }
}
END_TEST

/* ---- a model: the same random operations on a plain sorted array ------------------------- */

enum { MODEL_KEYS = 64 };

static uint64_t model_state;

static unsigned model_random(unsigned limit)
{
    model_state = model_state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)((model_state >> 33) % limit);
}

static struct bytes model_key(unsigned index, char *text)
{
    snprintf(text, 8, "%03u", index);
    return bytes_of(text);
}

/* Sets values[index] of key `index`; 0 = absent. */
static void model_change(unsigned *values, unsigned value)
{
    char from[8], to[8];
    unsigned index = model_random(MODEL_KEYS), end = model_random(MODEL_KEYS + 8);
    switch (model_random(8)) {
    case 0:
        effects_delete_range(batch, CF_DATA, model_key(index, from), model_key(end, to));
        for (unsigned i = index; i < end && i < MODEL_KEYS; i++)
            values[i] = 0;
        break;
    case 1:
    case 2:
        effects_delete(batch, CF_DATA, model_key(index, from));
        values[index] = 0;
        break;
    default:
        snprintf(to, sizeof to, "%u", value);
        effects_put(batch, CF_DATA, model_key(index, from), bytes_of(to));
        values[index] = value;
        break;
    }
}

static void model_compare(const unsigned *values)
{
    char text[8], key[8];
    unsigned seen = MODEL_KEYS;
    struct store_iter *iter = store_iter_new(store, CF_DATA, BYTES(""), BYTES(""));
    for (store_iter_seek_last(iter); store_iter_valid(iter); store_iter_prev(iter)) {
        const char *digits = store_iter_key(iter).data;
        unsigned index = (unsigned)(digits[1] - '0') * 10 + (unsigned)(digits[2] - '0');
        while (--seen > index)
            ck_assert_uint_eq(values[seen], 0);
        snprintf(text, sizeof text, "%u", values[index]);
        ck_assert(bytes_equal(store_iter_value(iter), bytes_of(text)));
        ck_assert_str_eq(get(CF_DATA, (model_key(index, key), key)), text);
    }
    while (seen-- > 0)
        ck_assert_uint_eq(values[seen], 0);
    store_iter_free(iter);
}

START_TEST(random_batches_agree_with_a_model)
{
    unsigned values[MODEL_KEYS] = {0};
    model_state = 42;
    for (unsigned i = 1; i < 500; i++) {
        for (unsigned n = model_random(6); n > 0; n--)
            model_change(values, i);
        commit();
        model_compare(values);
        if (i % 100 == 0)
            store_compact(store, CF_DATA, BYTES(""), BYTES(""));
    }
}
END_TEST

/* ---- the whole store --------------------------------------------------------------------- */

START_TEST(rows_outlive_a_close)
{
    put(CF_SYSTEM, "k", "v");
    commit();
    ck_assert_int_eq(storage_sync(storage, error, sizeof error), OK);
    put(CF_DATA, "not", "synced");
    commit();
    storage_close(storage);
    open_with(NULL, NULL);
    ck_assert_str_eq(get(CF_SYSTEM, "k"), "v");
    ck_assert_str_eq(get(CF_DATA, "not"), "synced");
}
END_TEST

START_TEST(a_database_in_use_is_refused)
{
    struct store_options options = cases_options();
    error[0] = 0;
    ck_assert_ptr_null(storage_open(env, &options, wal_bytes_max, error, sizeof error));
    ck_assert_int_gt((int)strlen(error), 0);
    ck_assert_ptr_null(strchr(error, '\n'));
}
END_TEST

START_TEST(a_checkpoint_is_a_copy_of_its_moment)
{
    char copy[sizeof store_path + 8];
    snprintf(copy, sizeof copy, "%s-copy", store_path);
    put(CF_METADATA, "before", "1");
    put(CF_EXPIRE, "before", "1");
    commit();
    ck_assert_int_eq(storage_checkpoint(storage, copy, error, sizeof error), OK);
    ck_assert_int_eq(storage_checkpoint(storage, copy, error, sizeof error), ERR_STORE);
    put(CF_METADATA, "after", "1");
    commit();
    storage_close(storage);
    snprintf(store_path, sizeof store_path, "%.*s", (int)sizeof store_path - 1, copy);
    open_with(NULL, NULL);
    ck_assert_str_eq(get(CF_METADATA, "before"), "1");
    ck_assert_str_eq(get(CF_EXPIRE, "before"), "1");
    ck_assert_str_eq(get(CF_METADATA, "after"), "(none)");
}
END_TEST

/* Drops a row when metadata has no row of the same first letter. */
static bool drop_unknown(void *owner, struct store *from, enum cf cf, struct bytes key)
{
    struct slice value;
    ck_assert_ptr_eq(owner, &store_path);
    ck_assert(cf == CF_DATA || cf == CF_ZSET_SCORE || cf == CF_STREAM || cf == CF_RANK);
    int err = store_get(from, CF_METADATA, (struct bytes){key.data, 1}, &value);
    if (err == OK)
        slice_release(&value);
    return err == ERR_NOT_FOUND;
}

START_TEST(compaction_drops_orphans_of_collections_only)
{
    storage_close(storage);
    open_with(drop_unknown, &store_path);
    put(CF_METADATA, "a", "here");
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        put(cf, "a1", "v");
        put(cf, "b1", "v");
    }
    commit();
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        store_compact(store, cf, BYTES(""), BYTES(""));
    store_maintain(store);
    ck_assert_str_eq(walk(CF_DATA, "", "", true), "a1 ");
    ck_assert_str_eq(walk(CF_ZSET_SCORE, "", "", true), "a1 ");
    ck_assert_str_eq(walk(CF_STREAM, "", "", true), "a1 ");
    ck_assert_str_eq(walk(CF_EXPIRE, "", "", true), "a1 b1 ");
    ck_assert_str_eq(walk(CF_SYSTEM, "", "", true), "a1 b1 ");
    ck_assert_str_eq(walk(CF_METADATA, "", "", true), "a a1 b1 ");
}
END_TEST

START_TEST(figures_and_info_speak)
{
    struct out out;
    char *text;
    put_letters(CF_DATA);
    out_init(&out);
    storage_info(storage, &out);
    text = calloc(1, out.bytes + 1);
    out_copy(&out, text);
    ck_assert_ptr_nonnull(strstr(text, "store_state:open\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "store_disk_bytes:"));
    out_clear(&out);
    free(text);
    ck_assert_uint_gt(storage_figure(storage, "disk_bytes"), 0);
    ck_assert_uint_gt(store_figure(store, "memtable_bytes"), 0);
    ck_assert_uint_eq(store_figure(store, "stalled"), 0);
    ck_assert_uint_eq(store_figure(store, "unknown"), 0);
}
END_TEST

static void cases_add(TCase *tests)
{
    tcase_add_test(tests, a_row_is_read_back_replaced_and_deleted);
    tcase_add_test(tests, keys_and_values_are_any_bytes);
    tcase_add_test(tests, column_families_are_apart);
    tcase_add_test(tests, a_batch_applies_in_order_and_only_when_written);
    tcase_add_test(tests, a_big_batch_is_written_and_cleared);
    tcase_add_test(tests, a_deleted_range_has_its_from_but_not_its_to);
    tcase_add_test(tests, a_slice_stays_valid_when_its_row_is_removed);
    tcase_add_test(tests, an_iterator_keeps_its_bounds);
    tcase_add_test(tests, seeks_land_beside_their_key_and_inside_the_bounds);
    tcase_add_test(tests, an_iterator_sees_the_state_of_its_creation);
    tcase_add_test(tests, many_iterators_live_side_by_side);
    tcase_add_test(tests, random_batches_agree_with_a_model);
    tcase_add_test(tests, rows_outlive_a_close);
    tcase_add_test(tests, a_database_in_use_is_refused);
    tcase_add_test(tests, a_checkpoint_is_a_copy_of_its_moment);
    tcase_add_test(tests, compaction_drops_orphans_of_collections_only);
    tcase_add_test(tests, figures_and_info_speak);
}
