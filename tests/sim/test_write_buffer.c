/*
 * test_write_buffer.c - write buffers of any size and shape of keys are applied to the tables completely and in order
 * (store_apply of store_mem.c checks the order), and an emptied buffer keeps no row. Iterations over a collection, a part of
 * one, or several of them pass over the same rows as a sorted array, also when rows are added between them: few, or many at once in
 * rising, falling or random order. The effects of many batches leave the same rows through a buffer as one after the other.
 */
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHAPES = 5, KEY_MAX = 96, ROUNDS = 12, COLLECTIONS = 7, ORDERED_MAX = 1500, BATCHES = 200 };

static const size_t sizes[] = {0, 1, 2, 127, 128, 129, 1000, 40000};

static struct write_buffer buffer;
static struct store_env *env;
static struct store *store;
static struct store_batch *batch;
static uint64_t seed = 88172645463325252;

static uint64_t any(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed * 0x2545f4914f6cdd1d >> 32) % below;
}

/* Key number i of the shape. */
static struct bytes key_of(int shape, uint64_t i, char *room)
{
    int len = 0;
    uint64_t mixed = i * 0x9e3779b97f4a7c15;
    switch (shape) {
    case 0: /* a name, then a counter */
        len = snprintf(room, KEY_MAX, "key:%012" PRIu64, i);
        break;
    case 1: /* random bytes, including NUL */
        memcpy(room, &mixed, sizeof mixed);
        len = sizeof mixed;
        break;
    case 2: /* the first eight bytes are one of few values */
        len = snprintf(room, KEY_MAX, "%" PRIu64 "-long-and-the-same-for-many-%" PRIu64, i % 3,
                       mixed);
        break;
    case 3: /* each is a prefix of another one */
        len = (int)(i % 64);
        memset(room, 'a', (size_t)len);
        len += snprintf(room + len, KEY_MAX - (size_t)len, "%" PRIu64, i / 64);
        break;
    default: /* keys of equal length and with a common prefix: only the last bytes differ */
        memset(room, 'z', 40);
        len = 40 + snprintf(room + 40, KEY_MAX - 40, "%08" PRIx64, i);
    }
    return (struct bytes){room, (size_t)len};
}

static enum cf cf_of(uint64_t i)
{
    return i % 4 ? CF_DATA : CF_METADATA;
}

static enum row_state state_of(uint64_t i)
{
    return i % 7 == 0 ? ROW_ABSENT : i % 5 == 0 ? ROW_DELETED : ROW_VALUE;
}

static void fill(int shape, size_t count)
{
    char room[KEY_MAX];
    for (uint64_t n = 0, i = any(count + 1); n < count; n++, i = (i + 1) % count) {
        struct bytes key = key_of(shape, i, room);
        struct row *row = write_buffer_get_or_add(&buffer, cf_of(i), key, hash_row(cf_of(i), key));
        CHECK(row->state == ROW_ABSENT && row->value.len == 0);
        row->state = state_of(i);
        if (row->state == ROW_VALUE)
            row->value = arena_copy(&buffer.arena, key_of(shape, i + 1, room));
    }
    CHECK(buffer.rows_count == count);
}

static void check_stored(int shape, size_t count)
{
    char room[KEY_MAX], next[KEY_MAX];
    struct slice value;
    for (uint64_t i = 0; i < count; i++) {
        int err = store_get(store, cf_of(i), key_of(shape, i, room), &value);
        CHECK(err == (state_of(i) == ROW_VALUE ? OK : ERR_NOT_FOUND));
        if (err != OK)
            continue;
        CHECK(bytes_equal(slice_bytes(&value), key_of(shape, i + 1, next)));
        slice_release(&value);
    }
}

static void clear_store(void)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        store_batch_delete_range(batch, store, cf, BYTES(""), BYTES(""));
    CHECK(store_apply(store, batch, NULL, 0) == OK);
    store_batch_clear(batch);
}

static void play(int shape, size_t count)
{
    _Atomic size_t written = 0;
    char error[256], room[KEY_MAX];
    fill(shape, count);
    CHECK(write_buffer_apply(&buffer, store, batch, &written, error, sizeof error) == OK);
    check_stored(shape, count);
    write_buffer_reset(&buffer);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes key = key_of(shape, i, room);
        CHECK(!write_buffer_find(&buffer, cf_of(i), key, hash_row(cf_of(i), key)));
    }
    clear_store();
}

/* ---- order ---- */

/* Keys in the buffer, sorted. */
static struct {
    struct arena arena;
    struct bytes prefixes[COLLECTIONS];
    struct bytes keys[ORDERED_MAX];
    size_t count;
} model;

/* Prefixes of collections that are easily confused: keys that begin with another one, versions whose end needs a carry. */
static void make_prefixes(void)
{
    const struct bytes names[] = {BYTES("k"), BYTES("ka"), BYTES("")};
    for (size_t i = 0; i < COLLECTIONS; i++)
        model.prefixes[i] =
            encode_collection_prefix(&model.arena, i == 5 ? BYTES("shop") : BYTES(""), 7,
                                     names[i % 3], i % 2 ? UINT64_MAX - i / 2 * 256 : i);
}

static struct bytes any_key(bool is_malformed)
{
    struct bytes prefix = model.prefixes[any(COLLECTIONS)];
    if (is_malformed)
        return arena_copy(&model.arena, (struct bytes){prefix.data, any(prefix.len)});
    char sub[2] = {(char)any(256), (char)any(4)};
    size_t len = any(20) ? sizeof sub : any(2);
    return encode_sub_key(&model.arena, prefix, (struct bytes){sub, len});
}

/* Number of the model's keys before `key`. */
static size_t model_before(struct bytes key)
{
    size_t at = 0;
    while (at < model.count && bytes_compare(model.keys[at], key) < 0)
        at++;
    return at;
}

static void add_key(struct bytes key)
{
    size_t at = model_before(key);
    if (model.count == ORDERED_MAX || (at < model.count && bytes_equal(model.keys[at], key)))
        return;
    memmove(model.keys + at + 1, model.keys + at, (model.count++ - at) * sizeof *model.keys);
    model.keys[at] = key;
    (void)write_buffer_get_or_add(&buffer, CF_DATA, key, hash_row(CF_DATA, key));
}

/* Compares the rows with lower <= key < upper, in both directions. */
static void check_range(struct bytes lower, struct bytes upper)
{
    const struct row_list *list = write_buffer_order(&buffer, CF_DATA, lower, upper);
    size_t from = model_before(lower);
    size_t to = upper.len ? model_before(upper) : model.count;
    const struct row *row = rows_at_or_after(list, lower);
    for (size_t i = from; i < to; i++, row = row->next[0])
        CHECK(row && bytes_equal(row->key, model.keys[i]));
    CHECK(!row || (upper.len && bytes_compare(row->key, upper) >= 0));
    row = rows_before(list, upper, false, upper.len == 0);
    for (size_t i = to; i > from; i--, row = rows_before(list, row->key, false, false))
        CHECK(row && bytes_equal(row->key, model.keys[i - 1]));
    CHECK(!row || bytes_compare(row->key, lower) < 0);
    if (to > from)
        CHECK(rows_before(list, model.keys[to - 1], true, false) ==
              rows_at_or_after(list, model.keys[to - 1]));
}

static void check_any_range(bool is_wide)
{
    struct bytes prefix = model.prefixes[any(COLLECTIONS)];
    struct bytes end = encode_prefix_end(&model.arena, prefix);
    struct bytes within =
        encode_sub_key(&model.arena, prefix, (struct bytes){(const char *)&seed, any(3)});
    if (is_wide)
        check_range(any(2) ? prefix : any_key(any(2)), any(2) ? any_key(any(2)) : BYTES(""));
    else
        check_range(any(2) ? prefix : within,
                    any(2) && bytes_compare(prefix, within) ? within : end);
}

static void play_order(bool has_wide)
{
    make_prefixes();
    for (size_t i = 0; i < ORDERED_MAX; i++) {
        add_key(any_key(!any(30)));
        if (!any(8))
            check_any_range(has_wide && !any(40));
        if (!any(50))
            write_buffer_place(&buffer, CF_DATA);
    }
    write_buffer_reset(&buffer);
    model.count = 0;
    check_range(model.prefixes[0], encode_prefix_end(&model.arena, model.prefixes[0]));
    check_range(BYTES(""), BYTES(""));
    write_buffer_reset(&buffer);
    arena_reset(&model.arena);
}

/* Key number i of two collections, in turns or one after the other. */
static struct bytes nth_key(uint64_t i, bool is_mixed)
{
    char sub[16];
    size_t collection = is_mixed ? i % 2 : i >= ORDERED_MAX / 2;
    size_t len = (size_t)snprintf(sub, sizeof sub, "%08" PRIu64, i);
    return encode_sub_key(&model.arena, model.prefixes[collection], (struct bytes){sub, len});
}

/* Many rows come between two iterations. `step`: how the number of the key changes from row to row, modulo ORDERED_MAX. */
static void play_many(uint64_t step, bool is_mixed, bool has_wide)
{
    enum { AT_ONCE = 400 };
    make_prefixes();
    for (uint64_t n = 0, i = any(ORDERED_MAX); n < ORDERED_MAX; n++, i = (i + step) % ORDERED_MAX) {
        add_key(nth_key(i, is_mixed));
        if (n % AT_ONCE == AT_ONCE - 1 && any(2))
            write_buffer_place(&buffer, CF_DATA);
        if (n % AT_ONCE == AT_ONCE - 1 || n + 1 == ORDERED_MAX)
            check_any_range(has_wide && any(2));
    }
    write_buffer_reset(&buffer);
    model.count = 0;
    arena_reset(&model.arena);
}

/* ---- effects ---- */

/* The whole batch, until the next call: some rows of few keys, and ranges that delete others. */
static struct bytes any_batch(struct effects *effects, uint64_t index)
{
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH, .index = index});
    for (uint64_t left = 1 + any(30); left; left--) {
        enum cf cf = cf_of(any(8));
        struct bytes from = any_key(false), to = any(9) ? any_key(false) : BYTES("");
        if (!any(12) && (!to.len || bytes_compare(from, to) < 0))
            effects_delete_range(effects, cf, from, to);
        else if (any(4))
            effects_put(effects, cf, from, (struct bytes){(const char *)&seed, any(sizeof seed)});
        else
            effects_delete(effects, cf, from);
    }
    return effects_bytes(effects);
}

static void check_equal_rows(struct store *one, struct store *other, enum cf cf)
{
    struct store_iter *a = store_iter_new(one, cf, BYTES(""), BYTES(""));
    struct store_iter *b = store_iter_new(other, cf, BYTES(""), BYTES(""));
    store_iter_begin(a, false, BYTES(""), false);
    store_iter_begin(b, false, BYTES(""), false);
    for (; store_iter_valid(a) && store_iter_valid(b);
         store_iter_step(a, false), store_iter_step(b, false))
        CHECK(bytes_equal(store_iter_key(a), store_iter_key(b)) &&
              bytes_equal(store_iter_value(a), store_iter_value(b)));
    CHECK(!store_iter_valid(a) && !store_iter_valid(b));
    store_iter_free(a);
    store_iter_free(b);
}

/* `plain` gets the batches one after the other, and the store some of them at a time. */
static void play_effects(struct store *plain, struct effects *effects)
{
    char error[256];
    _Atomic size_t written = 0;
    make_prefixes();
    for (uint64_t index = 1; index <= BATCHES; index++) {
        struct bytes record = any_batch(effects, index);
        CHECK(store_batch_add_effects(batch, plain, record, error, sizeof error));
        CHECK(store_apply(plain, batch, error, sizeof error) == OK);
        store_batch_clear(batch);
        CHECK(write_buffer_add_effects(&buffer, record, error, sizeof error));
        if (index < BATCHES && any(20))
            continue;
        CHECK(write_buffer_apply(&buffer, store, batch, &written, error, sizeof error) == OK);
        write_buffer_reset(&buffer);
        check_equal_rows(store, plain, CF_DATA);
        check_equal_rows(store, plain, CF_METADATA);
    }
    struct bytes record = any_batch(effects, BATCHES + 1);
    CHECK(!write_buffer_add_effects(&buffer, (struct bytes){record.data, record.len - 1}, error,
                                    sizeof error));
    write_buffer_reset(&buffer);
    arena_reset(&model.arena);
}

static void compare_with_batches(int rounds)
{
    char error[256];
    struct effects *effects = effects_new();
    struct store *plain =
        store_open(env, &(struct store_options){.path = "batches"}, error, sizeof error);
    CHECK(plain);
    store_replayed(plain);
    for (int round = 0; round < rounds; round++)
        play_effects(plain, effects);
    store_close(plain);
    effects_free(effects);
}

int main(void)
{
    char error[256] = "";
    int rounds = (int)sized(ROUNDS);
    env = store_env_new(&(struct store_env_options){0});
    store = store_open(env, &(struct store_options){.path = "buffer"}, error, sizeof error);
    batch = store_batch_new();
    write_buffer_init(&buffer);
    CHECK(store);
    store_mem_expect_order(store);
    store_replayed(store);
    for (int round = 0; round < rounds;
         round++) /* small buffers after big ones and big after small ones */
        for (int shape = 0; shape < SHAPES; shape++)
            play(shape, sizes[any(sizeof sizes / sizeof *sizes)]);
    for (int round = 0; round < rounds; round++)
        play_order(round % 2);
    for (int round = 0; round < rounds; round++) {
        play_many(1, round % 2, round % 4 >= 2);
        play_many(ORDERED_MAX - 1, round % 2, round % 4 >= 2);
        play_many(997, round % 2, round % 4 >= 2);
    }
    compare_with_batches(rounds);
    arena_fini(&model.arena);
    write_buffer_fini(&buffer);
    store_batch_free(batch);
    store_close(store);
    store_env_free(env);
    store_mem_reset();
    (void)printf("%d buffers\n", rounds * SHAPES);
    return EXIT_SUCCESS;
}
