/*
 * test_overlay.c - the overlay compared with a model: random effects, batches, buffers, failures and rollbacks over few
 * keys. After every step, reads and iterations in both directions must give the model's rows. One detached iterator at
 * a time stays open over many steps, and must give the rows that the model had when it was opened. With most seeds,
 * reader threads read rows for it. What is borrowed and written in a view must be gone at its end.
 *
 *   test_overlay [seed [steps]]      one seed, or a range of fixed ones
 */
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "backend/storage/range_cache.h"
#include "backend/storage/reader.h"
#include "backend/storage/view.h"
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "tests/sim/sim.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 40, COLLECTION = 10, SEEDS = 150, STEPS = 400, MUCH = 64 << 10 };

/* The rows belong to some collections, so that the range cache keeps runs of them. */
#define NAME_HEAD "\1n\0\0\0\0\0\1k\0\0\0\0\0\0\0"
enum { PREFIX = sizeof NAME_HEAD - 1 + 1, NAME_BYTES = PREFIX + 2 };

static const struct store_options OPTIONS = {.path = "overlay"};

/* The value of each key in one state: -1: no row, else a number. */
struct state {
    int values[KEYS];
    bool are_secured[KEYS]; /* the last effect was */
    bool are_in_view[KEYS]; /* they were borrowed, or changed in a view */
};

struct world {
    struct store_env *env;
    struct storage *storage;
    struct store *store; /* its tables */
    struct overlay *overlay;
    struct loop *loop;
    struct worker_pool *pool;
    struct reader *reader; /* NULL: none */
    struct effects *effects;
    struct store_batch *batch;
    struct state durable; /* in the WAL */
    struct state closed;  /* including the batch being written */
    struct state now;     /* including the batch being filled */
    struct state saved;   /* at the savepoint */
    const struct batch *in_flight;
    bool fills_buffer;             /* it fills the write buffer, which is immutable from now on */
    bool is_applied;               /* the immutable buffer has been applied to the tables */
    int applied;                   /* number of applied buffers */
    struct overlay_iter *detached; /* NULL: none */
    struct state seen;             /* the rows that it must give */
    int low, high;                 /* its range: rows from `low` up to, but not including, `high` */
    int at;                        /* the row where it is */
    int begun;                     /* the row where it was when it was detached */
    bool is_under_way;             /* it waits for a row */
    bool is_told;                  /* on_rows was called: it may continue */
    bool has_failed;               /* a read of the store failed */
    bool reverse;
    bool is_securing; /* effects are secured */
    uint64_t random;
    uint64_t seed;
    int next_value;
};

static uint32_t chance(struct world *world, uint32_t below)
{
    world->random = world->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(world->random >> 33) % below;
}

static struct bytes key_of(int index, char text[NAME_BYTES])
{
    memcpy(text, NAME_HEAD, PREFIX - 1);
    text[PREFIX - 1] = (char)(index / COLLECTION);
    text[PREFIX] = (char)('0' + index / 10);
    text[PREFIX + 1] = (char)('0' + index % 10);
    return (struct bytes){text, NAME_BYTES};
}

/* The bounds of the collection of this row. */
static struct bytes lower_of(int index, char text[NAME_BYTES])
{
    return (struct bytes){key_of(index, text).data, PREFIX};
}
static struct bytes upper_of(int index, char text[NAME_BYTES])
{
    return lower_of(index + COLLECTION, text);
}

static void state_clear(struct state *state)
{
    for (int i = 0; i < KEYS; i++)
        state->values[i] = -1;
}

static void step_put(struct world *world)
{
    char key[NAME_BYTES];
    char value[16];
    int index = (int)chance(world, KEYS);
    world->now.values[index] = ++world->next_value;
    world->now.are_in_view[index] = true;
    world->now.are_secured[index] = world->is_securing;
    size_t len = (size_t)sprintf(value, "%d", world->next_value);
    overlay_put(world->overlay, CF_DATA, key_of(index, key), (struct bytes){value, len});
}

static void step_delete(struct world *world)
{
    char key[NAME_BYTES];
    int index = (int)chance(world, KEYS);
    world->now.values[index] = -1;
    world->now.are_in_view[index] = true;
    world->now.are_secured[index] = world->is_securing;
    overlay_delete(world->overlay, CF_DATA, key_of(index, key));
}

static void step_delete_range(struct world *world)
{
    char from[NAME_BYTES];
    char to[NAME_BYTES];
    int a = (int)chance(world, KEYS);
    int b = a + 1 + (int)chance(world, KEYS / 2);
    bool to_the_end = b >= KEYS;
    for (int i = a; i < KEYS && i < b; i++) {
        world->now.values[i] = -1;
        world->now.are_in_view[i] = true;
        world->now.are_secured[i] = false;
    }
    overlay_delete_range(world->overlay, CF_DATA, key_of(a, from),
                         to_the_end ? (struct bytes){"", 0} : key_of(b, to));
}

/* A command: a few effects, which are sometimes rolled back. */
/* The command reads its own effects. */
static void step_read(struct world *world)
{
    char key[NAME_BYTES];
    struct slice value;
    for (int i = 0; i < KEYS; i++)
        if (overlay_get(world->overlay, CF_DATA, key_of(i, key), &value) == OK)
            slice_release(&value);
}

static void step_command(struct world *world)
{
    overlay_observe_begin(world->overlay);
    overlay_savepoint(world->overlay);
    world->saved = world->now;
    for (uint32_t i = 0, n = 1 + chance(world, 5); i < n; i++) {
        uint32_t kind = chance(world, 20);
        if (kind < 12)
            step_put(world);
        else if (kind < 18)
            step_delete(world);
        else
            step_delete_range(world);
    }
    if (chance(world, 2) == 0)
        step_read(world);
    if (chance(world, 4) == 0) {
        overlay_rollback(world->overlay);
        world->now = world->saved;
    }
    /* A reply must not wait when there is no batch to be written. */
    if (!overlay_dirty(world->overlay))
        CHECK(overlay_observed(world->overlay) != overlay_ticket(world->overlay));
}

/* A new row behind all others, with a value of this size. */
static void put_big(struct world *world, size_t size)
{
    char key[NAME_BYTES];
    char *value = calloc(1, size);
    CHECK(value);
    overlay_put(world->overlay, CF_DATA, key_of(KEYS + (int)chance(world, COLLECTION), key),
                (struct bytes){value, size});
    free(value);
}

static void check_collection(struct world *world, bool reverse);

/* A script that writes much and is rolled back, as some of its commands are. */
static void step_much(struct world *world)
{
    struct state before = world->now;
    overlay_savepoint(world->overlay);
    overlay_script_begin(world->overlay);
    for (uint32_t i = 0, n = 1 + chance(world, 3); i < n; i++) {
        overlay_savepoint(world->overlay);
        world->saved = world->now;
        step_put(world);
        put_big(world, MUCH / (1 + chance(world, 4)));
        step_delete(world);
        check_collection(world, chance(world, 2));
        if (chance(world, 2))
            continue;
        overlay_rollback(world->overlay);
        world->now = world->saved;
    }
    put_big(world, MUCH);
    overlay_script_end(world->overlay, false);
    world->now = before;
}

/* Some effects that need not be written soon, unless something waits for them. They may be rolled back before they are
 * complete. */
static void step_secured(struct world *world)
{
    bool was_due = overlay_is_due(world->overlay);
    bool is_good = chance(world, 4) > 0;
    overlay_observe_begin(world->overlay);
    overlay_savepoint(world->overlay);
    world->saved = world->now;
    overlay_secured_begin(world->overlay);
    world->is_securing = true;
    step_put(world);
    step_delete(world);
    world->is_securing = false;
    if (!is_good) {
        overlay_rollback(world->overlay);
        world->now = world->saved;
    }
    overlay_secured_end(world->overlay);
    CHECK(overlay_is_due(world->overlay) == was_due);
    if (!is_good)
        return;
    CHECK(overlay_observed(world->overlay) == overlay_ticket(world->overlay));
    overlay_await(world->overlay, overlay_ticket(world->overlay) - 1);
    CHECK(overlay_is_due(world->overlay) == was_due);
    if (chance(world, 2))
        overlay_await(world->overlay, overlay_ticket(world->overlay));
    else
        overlay_await_secured(world->overlay);
    CHECK(overlay_is_due(world->overlay));
}

/* Applies the immutable buffer to the store's tables. */
static void step_apply(struct world *world)
{
    char error[128];
    _Atomic size_t written = 0;
    if (!overlay_immutable(world->overlay) && !world->in_flight && !overlay_dirty(world->overlay))
        overlay_switch_buffers(world->overlay);
    const struct write_buffer *buffer = overlay_immutable(world->overlay);
    if (!buffer || (world->in_flight && world->fills_buffer))
        return;
    if (!world->is_applied) {
        store_batch_clear(world->batch);
        CHECK(write_buffer_apply(buffer, world->store, world->batch, &written, error,
                                 sizeof error) == OK);
        world->is_applied = true;
    }
    if (!overlay_applied(world->overlay, 1 + chance(world, KEYS)))
        return;
    world->is_applied = false;
    world->applied++;
}

static void step_commit(struct world *world)
{
    char error[128];
    if (!world->in_flight) {
        if (!overlay_dirty(world->overlay))
            return;
        world->in_flight = overlay_close_batch(world->overlay);
        world->fills_buffer = overlay_is_full(world->overlay) && !overlay_immutable(world->overlay);
        if (world->fills_buffer)
            overlay_switch_buffers(world->overlay);
        world->closed = world->now;
        return;
    }
    batch_write(world->in_flight, world->effects);
    world->in_flight = NULL;
    if (chance(world, 8) == 0) { /* the write fails: both batches are dropped */
        overlay_discard(world->overlay);
        world->now = world->durable;
        return;
    }
    CHECK(storage_log(world->storage, world->effects, true, &(uint64_t){0}, error, sizeof error) ==
          OK);
    overlay_batch_committed(world->overlay);
    world->durable = world->closed;
}

/* The WAL must contain exactly the durable state. */
static void check_log(struct world *world)
{
    char error[128];
    storage_mem_crash(world->storage);
    storage_close(world->storage);
    world->storage = storage_open(world->env, &OPTIONS, WAL_MEM_LIMIT, error, sizeof error);
    CHECK(world->storage);
    world->store = storage_store(world->storage);
    for (int i = 0; i < KEYS; i++) {
        char key[NAME_BYTES];
        char want[16];
        struct slice value;
        int err = store_get(world->store, CF_DATA, key_of(i, key), &value);
        CHECK((err == OK) == (world->durable.values[i] >= 0));
        if (err != OK)
            continue;
        size_t len = (size_t)sprintf(want, "%d", world->durable.values[i]);
        CHECK(bytes_equal(slice_bytes(&value), (struct bytes){want, len}));
        slice_release(&value);
    }
}

static void check_gets(struct world *world)
{
    for (int i = 0; i < KEYS; i++) {
        char key[NAME_BYTES];
        char want[16];
        struct slice value;
        int err = overlay_get(world->overlay, CF_DATA, key_of(i, key), &value);
        CHECK((err == OK) == (world->now.values[i] >= 0));
        if (err != OK)
            continue;
        size_t len = (size_t)sprintf(want, "%d", world->now.values[i]);
        CHECK(bytes_equal(slice_bytes(&value), (struct bytes){want, len}));
        slice_release(&value);
    }
}

/* Prefetches rows: the commands that read them must not look them up in the store again. */
static void step_ask(struct world *world)
{
    if (!world->reader || chance(world, 3))
        return;
    char key[NAME_BYTES];
    struct slice value;
    struct bytes name = key_of((int)chance(world, KEYS), key);
    CHECK(overlay_prefetch(world->overlay, CF_DATA, name, NULL));
    store_mem_fail_read(world->store, 1);
    int err = overlay_get(world->overlay, CF_DATA, name, &value);
    store_mem_fail_read(world->store, 0);
    CHECK(err != ERR_STORE);
    if (err == OK)
        slice_release(&value);
}

static void check_row(struct world *world, struct overlay_iter *iter, int index)
{
    char key[NAME_BYTES];
    CHECK(overlay_iter_valid(iter));
    CHECK(bytes_equal(overlay_iter_key(iter), key_of(index, key)));
    char want[16];
    size_t len = (size_t)sprintf(want, "%d", world->now.values[index]);
    CHECK(bytes_equal(overlay_iter_value(iter), (struct bytes){want, len}));
}

/* Iterates from `from` in one direction over the rows low to high - 1, which lie within the iterator's bounds. */
static void iterate_from(struct world *world, struct overlay_iter *iter, int low, int high,
                         int from, bool reverse)
{
    char from_text[NAME_BYTES];
    if (reverse) {
        overlay_iter_seek_for_prev(iter, key_of(from, from_text));
        for (int i = from < KEYS ? from : KEYS - 1; i >= low; i--)
            if (world->now.values[i] >= 0) {
                check_row(world, iter, i);
                overlay_iter_prev(iter);
            }
    } else {
        overlay_iter_seek(iter, key_of(from, from_text));
        for (int i = from; i < high && i < KEYS; i++)
            if (world->now.values[i] >= 0) {
                check_row(world, iter, i);
                overlay_iter_next(iter);
            }
    }
    CHECK(!overlay_iter_valid(iter));
    CHECK(overlay_iter_error(iter) == OK);
    overlay_iter_free(iter);
}

static void check_iteration(struct world *world, bool reverse)
{
    char low_text[NAME_BYTES];
    char high_text[NAME_BYTES];
    int low = (int)chance(world, KEYS);
    int high = low + 1 + (int)chance(world, KEYS);
    int from = low + (int)chance(world, (uint32_t)(high - low));
    struct bytes upper = high >= KEYS ? (struct bytes){"", 0} : key_of(high, high_text);
    /* it may begin with the bound of a collection, and go beyond that */
    bool is_first = low % COLLECTION == 0;
    struct bytes lower =
        is_first && chance(world, 2) ? lower_of(low, low_text) : key_of(low, low_text);
    struct overlay_iter *iter = overlay_iter_new(world->overlay, CF_DATA, lower, upper);
    iterate_from(world, iter, low, high, from, reverse);
}

static int some_collection(struct world *world)
{
    return (int)chance(world, KEYS / COLLECTION) * COLLECTION;
}

/* Iterates over some or all rows of a collection, for which the range cache is made. */
static void check_collection(struct world *world, bool reverse)
{
    char low_text[NAME_BYTES];
    char high_text[NAME_BYTES];
    int low = some_collection(world);
    int high = low + COLLECTION;
    int from = low + (int)chance(world, COLLECTION);
    struct overlay_iter *iter = overlay_iter_new(world->overlay, CF_DATA, lower_of(low, low_text),
                                                 upper_of(low, high_text));
    if (chance(world, 6) == 0) {
        iterate_from(world, iter, low, high, from, reverse);
        return;
    }
    if (reverse)
        overlay_iter_seek_last(iter);
    else
        overlay_iter_seek_first(iter);
    for (uint32_t i = chance(world, 4); i > 0 && overlay_iter_valid(iter); i--) {
        struct bytes key = overlay_iter_key(iter);
        check_row(world, iter, (key.data[PREFIX] - '0') * 10 + key.data[PREFIX + 1] - '0');
        if (reverse)
            overlay_iter_prev(iter);
        else
            overlay_iter_next(iter);
    }
    overlay_iter_free(iter);
}

/* The row after `at` that the iterator must give, or one outside of [low, high). */
static int next_seen(const struct world *world)
{
    int i = world->at;
    do
        i += world->reverse ? -1 : 1;
    while (i >= world->low && i < world->high && world->seen.values[i] < 0);
    return i;
}

static void detached_end(struct world *world)
{
    overlay_iter_free(world->detached);
    world->detached = NULL;
}

/* on_rows of the detached iterator */
static void on_rows(void *owner)
{
    struct world *world = owner;
    CHECK(world->detached);
    world->is_told = true;
}

/* The iterator was moved; it may have to wait for the row. */
static void detached_arrive(struct world *world)
{
    char key[NAME_BYTES];
    char want[16];
    struct overlay_iter *iter = world->detached;
    bool has_waited = overlay_iter_waits(iter);
    overlay_iter_go_on(iter);
    CHECK(!has_waited || world->is_told || overlay_iter_waits(iter));
    world->is_under_way = overlay_iter_waits(iter);
    world->is_told = false;
    if (world->is_under_way) {
        CHECK(!overlay_iter_valid(iter));
        return;
    }
    bool is_end = world->at < world->low || world->at >= world->high;
    if (world->has_failed && !overlay_iter_valid(iter)) {
        CHECK(is_end || overlay_iter_error(iter) == ERR_STORE);
        detached_end(world);
    }
    if (world->has_failed)
        return;
    CHECK(overlay_iter_valid(iter) == !is_end);
    if (is_end) {
        CHECK(overlay_iter_error(iter) == OK);
        detached_end(world);
        return;
    }
    size_t len = (size_t)sprintf(want, "%d", world->seen.values[world->at]);
    CHECK(bytes_equal(overlay_iter_key(iter), key_of(world->at, key)));
    CHECK(bytes_equal(overlay_iter_value(iter), (struct bytes){want, len}));
}

static void detached_next(struct world *world)
{
    if (!world->is_under_way) {
        world->at = next_seen(world);
        if (world->reverse)
            overlay_iter_prev(world->detached);
        else
            overlay_iter_next(world->detached);
    }
    detached_arrive(world);
}

/* Moves the iterator back to where it began, as KEYS does after counting. */
static void detached_again(struct world *world)
{
    char key[NAME_BYTES];
    world->at = world->begun;
    overlay_iter_seek(world->detached, key_of(world->at, key));
    detached_arrive(world);
}

static void detached_begin(struct world *world)
{
    char low_text[NAME_BYTES];
    char high_text[NAME_BYTES];
    bool is_one = chance(world, 2);
    struct retry wait;
    bool is_cached = world->reader && chance(world, 2); /* reads only rows that are in memory */
    retry_init(&wait, NULL);
    world->has_failed = world->is_under_way = world->is_told = false;
    world->reverse = chance(world, 2);
    world->seen = world->now;
    world->low = is_one ? some_collection(world) : 0;
    world->high = is_one ? world->low + COLLECTION : KEYS;
    world->at = world->reverse ? world->high : world->low - 1;
    world->at = next_seen(world);
    if (world->at < world->low || world->at >= world->high)
        return;
    if (is_cached)
        overlay_nonblocking_begin(world->overlay, &wait);
    world->detached = overlay_iter_new(
        world->overlay, CF_DATA, is_one ? lower_of(world->low, low_text) : (struct bytes){"\1n", 2},
        is_one ? upper_of(world->low, high_text) : (struct bytes){"\1o", 2});
    if (world->reverse)
        overlay_iter_seek_last(world->detached);
    else
        overlay_iter_seek_first(world->detached);
    for (uint32_t i = chance(world, 6); i > 0 && world->detached; i--)
        detached_next(world);
    overlay_nonblocking_begin(world->overlay, NULL);
    if (!world->detached)
        return;
    overlay_observe_begin(world->overlay);
    world->has_failed = is_cached && chance(world, 16) == 0;
    if (world->has_failed)
        store_mem_fail_read(world->store, 1);
    overlay_iter_detach(world->detached, chance(world, 20), on_rows, world);
    world->begun = world->at;
    if (!world->in_flight && !overlay_dirty(world->overlay))
        CHECK(overlay_observed(world->overlay) == 0);
}

static void step_detached(struct world *world)
{
    if (!world->detached)
        detached_begin(world);
    if (world->detached && !world->reverse && chance(world, 8) == 0)
        detached_again(world);
    for (uint32_t i = chance(world, 12); i < 4 && world->detached; i++)
        detached_next(world);
    if (chance(world, 3))
        sim_run_for(100);
    if (world->detached && chance(world, 64) == 0)
        detached_end(world);
}

/* A read that saw only durable rows or secured ones must not wait for a ticket; a read that saw another effect must. */
static void check_observed(struct world *world)
{
    for (int i = 0; i < KEYS; i++) {
        char key[NAME_BYTES];
        struct slice value;
        overlay_observe_begin(world->overlay);
        if (overlay_get(world->overlay, CF_DATA, key_of(i, key), &value) == OK)
            slice_release(&value);
        if (world->now.are_secured[i])
            CHECK(overlay_observed(world->overlay) == 0);
        else if (world->now.values[i] != world->durable.values[i])
            CHECK(overlay_observed(world->overlay) != 0);
        if (!world->in_flight && !overlay_dirty(world->overlay))
            CHECK(overlay_observed(world->overlay) == 0);
    }
}

/* ---- views ---- */

/* Some rows come from another shard. */
static void lend_rows(struct world *world, struct view *view, struct state *lent)
{
    char key[NAME_BYTES];
    char text[16];
    for (uint32_t i = chance(world, 8); i > 0; i--) {
        int index = (int)chance(world, KEYS);
        bool is_there = chance(world, 4);
        lent->values[index] = is_there ? ++world->next_value : -1;
        lent->are_in_view[index] = true;
        struct bytes value = {text, (size_t)sprintf(text, "%d", lent->values[index])};
        view_lend(view, CF_DATA, key_of(index, key), is_there ? &value : NULL);
    }
}

/* Rows of other shards are those of the view alone. */
static void check_borrowed(struct world *world)
{
    char key[NAME_BYTES];
    struct slice value;
    for (int i = 0; i < KEYS; i++) {
        int err = overlay_get_borrowed(world->overlay, CF_DATA, key_of(i, key), &value);
        int wanted = world->now.values[i] >= 0 ? OK : ERR_NOT_FOUND;
        CHECK(err == (world->now.are_in_view[i] ? wanted : ERR_RETRY));
    }
}

static void replay_range(void *owner, enum cf cf, struct bytes from, struct bytes to)
{
    char key[NAME_BYTES];
    struct state *state = owner;
    for (int i = 0; i < KEYS; i++)
        if (range_has(&(struct range){.cf = cf, .from = from, .to = to}, CF_DATA, key_of(i, key)))
            state->values[i] = -1;
}

static void replay_row(void *owner, enum cf cf, struct bytes key, const struct bytes *value)
{
    struct state *state = owner;
    char text[16] = "-1";
    int index = (key.data[PREFIX] - '0') * 10 + key.data[PREFIX + 1] - '0';
    CHECK(cf == CF_DATA && index < KEYS && (!value || value->len < sizeof text));
    if (value)
        (void)snprintf(text, sizeof text, "%.*s", (int)value->len, value->data);
    state->values[index] = atoi(text);
}

/* The effects that are collected lead from the state at the beginning to the present one. */
static void check_written(const struct world *world, struct state begun)
{
    overlay_each_written(world->overlay,
                         &(struct overlay_changes){replay_range, replay_row, &begun});
    CHECK(memcmp(begun.values, world->now.values, sizeof begun.values) == 0);
}

static void step_in_view(struct world *world)
{
    overlay_savepoint(world->overlay);
    world->saved = world->now;
    for (uint32_t i = chance(world, 4); i > 0; i--)
        step_put(world);
    if (chance(world, 2))
        step_delete(world);
    if (chance(world, 4) == 0)
        step_delete_range(world);
    check_gets(world);
    check_borrowed(world);
    check_iteration(world, chance(world, 2));
    check_collection(world, chance(world, 2));
    bool is_undone = chance(world, 4) == 0;
    if (!is_undone)
        return;
    put_big(world, MUCH / (1 + chance(world, 4)));
    overlay_rollback(world->overlay);
    world->now = world->saved;
}

/* The stamp of the collection of this key. */
static uint64_t stamp_of(const struct world *world, int index)
{
    char key[NAME_BYTES];
    struct bytes space, user_key, sub;
    uint16_t slot;
    uint64_t version;
    CHECK(decode_collection_key(key_of(index, key), &space, &slot, &user_key, &version, &sub));
    return overlay_stamp(world->overlay, version);
}

/* The transaction waits: others see nothing of the view, and afterwards it is as it was. What is cached of a collection whose rows differ
 * inside and outside may be used on neither side if it was made on the other one. */
static void step_leave(struct world *world, struct view *view, const struct state *outside)
{
    const struct state inside = world->now;
    uint64_t stamps[2][KEYS];
    for (int i = 0; i < KEYS; i++)
        stamps[0][i] = stamp_of(world, i);
    overlay_view_leave(world->overlay);
    world->now = *outside;
    check_gets(world);
    check_iteration(world, false);
    for (int i = 0; i < KEYS; i++) {
        stamps[1][i] = stamp_of(world, i);
        CHECK(inside.values[i] == outside->values[i] || stamps[1][i] != stamps[0][i]);
    }
    overlay_view_enter(world->overlay, view);
    world->now = inside;
    for (int i = 0; i < KEYS; i++)
        CHECK(inside.values[i] == outside->values[i] || stamp_of(world, i) != stamps[1][i]);
    check_gets(world);
    check_borrowed(world);
}

/* The attempts of a transaction over shards. What one has written is gone when it ends; what was borrowed stays. */
static void step_view(struct world *world)
{
    const struct state before = world->now;
    struct state lent = before;
    struct view *view = view_new();
    bool was_dirty = overlay_dirty(world->overlay);
    memset(lent.are_in_view, 0, sizeof lent.are_in_view);
    for (uint32_t attempt = 1 + chance(world, 3); attempt > 0; attempt--) {
        lend_rows(world, view, &lent);
        world->now = lent;
        overlay_view_begin(world->overlay, view);
        for (uint32_t i = chance(world, 4); i > 0; i--) {
            step_in_view(world);
            if (chance(world, 2))
                step_leave(world, view, &before);
        }
        if (chance(world, 8) == 0) {
            overlay_view_undo(world->overlay);
            world->now = lent;
        }
        check_written(world, lent);
        overlay_view_end(world->overlay);
        CHECK(overlay_dirty(world->overlay) == was_dirty);
        world->now = before;
        check_gets(world);
    }
    view_free(view);
}

static uint64_t walks_in_runs;

static void world_open(struct world *world, uint64_t seed)
{
    char error[128];
    *world = (struct world){.random = seed, .seed = seed};
    sim_init(seed);
    storage_mem_reset();
    storage_mem_seed(seed);
    world->loop = loop_new();
    world->pool = worker_pool_new("reader", 2);
    world->env = store_env_new(&(struct store_env_options){0});
    world->storage = storage_open(world->env, &OPTIONS, WAL_MEM_LIMIT, error, sizeof error);
    CHECK(world->storage);
    world->store = storage_store(world->storage);
    store_mem_expect_order(world->store);
    world->overlay = overlay_new(world->store);
    overlay_use_buffers(world->overlay, 256 << chance(world, 8)); /* in bytes: one batch or many */
    if (seed % 2)
        overlay_use_cache(world->overlay, 1);
    if (seed % 4)
        overlay_use_range_cache(world->overlay, seed % 4 == 1 ? 600 : 1 << 20);
    if (seed % 3) {
        world->reader = reader_new(world->loop, world->pool, world->store);
        overlay_use_reader(world->overlay, world->reader);
    }
    world->effects = effects_new();
    world->batch = store_batch_new();
    state_clear(&world->now);
    state_clear(&world->durable);
}

static void world_close(struct world *world, bool has_model)
{
    overlay_iter_free(world->detached);
    struct range_cache_figures figures;
    overlay_range_figures(world->overlay, &figures);
    walks_in_runs += figures.hits;
    overlay_free(world->overlay);
    reader_free(world->reader);
    if (has_model)
        check_log(world);
    effects_free(world->effects);
    store_batch_free(world->batch);
    storage_close(world->storage);
    store_env_free(world->env);
    worker_pool_free(world->pool);
    loop_free(world->loop);
    sim_fini();
}

static int run_seed(uint64_t seed, int steps)
{
    struct world world;
    world_open(&world, seed);
    for (int i = 0; i < steps; i++) {
        if (chance(&world, 4) == 0)
            step_commit(&world);
        else if (chance(&world, 4) == 0)
            step_secured(&world);
        else if (chance(&world, 16) == 0)
            step_much(&world);
        else if (chance(&world, 8) == 0)
            step_view(&world);
        else
            step_command(&world);
        if (chance(&world, 6) == 0)
            step_apply(&world);
        step_ask(&world);
        check_gets(&world);
        check_iteration(&world, false);
        check_iteration(&world, true);
        check_collection(&world, false);
        check_collection(&world, true);
        check_observed(&world);
        step_detached(&world);
    }
    world_close(&world, true);
    return world.applied;
}

/* Checks the results of reading a row and a range. */
static void check_reads(struct world *world, int wanted)
{
    struct slice value;
    struct bytes low = {"\1n", 2}, high = {"\1o", 2};
    CHECK(overlay_get(world->overlay, CF_DATA, BYTES("\1nkey"), &value) == wanted);
    struct overlay_iter *iter = overlay_iter_new(world->overlay, CF_DATA, low, high);
    if (wanted == ERR_STORE)
        store_mem_fail_read(world->store, 1);
    overlay_iter_seek_first(iter);
    CHECK(!overlay_iter_valid(iter));
    CHECK(overlay_iter_error(iter) == wanted);
    overlay_iter_free(iter);
}

/* A failing disk and a row that is not in memory are different errors: only the latter suspends the command. */
static void check_errors(uint64_t seed)
{
    struct world world;
    struct retry wait;
    world_open(&world, seed);
    CHECK(world.reader);
    retry_init(&wait, NULL);
    overlay_nonblocking_begin(world.overlay, &wait);
    store_mem_fail_read(world.store, 1);
    check_reads(&world, ERR_STORE);
    CHECK(!overlay_retries(world.overlay));
    store_mem_fail_read(world.store, 0);
    store_mem_be_uncached(world.store, 1);
    check_reads(&world, ERR_RETRY);
    CHECK(overlay_retries(world.overlay));
    store_mem_be_uncached(world.store, 0);
    retry_cancel(&wait);
    overlay_nonblocking_begin(world.overlay, NULL);
    world_close(&world, true);
}

/* The rows of the first collection are in the tables. */
static void apply_collection(struct world *world)
{
    char key[NAME_BYTES];
    char error[128];
    for (int i = 0; i < COLLECTION; i++)
        overlay_put(world->overlay, CF_DATA, key_of(i, key), BYTES("v"));
    world->in_flight = overlay_close_batch(world->overlay);
    batch_write(world->in_flight, world->effects);
    world->in_flight = NULL;
    CHECK(storage_log(world->storage, world->effects, true, &(uint64_t){0}, error, sizeof error) ==
          OK);
    overlay_batch_committed(world->overlay);
    do
        step_apply(world);
    while (overlay_immutable(world->overlay));
}

/* Iterates from row 5 of the first collection to its end. */
static void check_second_half(struct overlay_iter *iter)
{
    char key[NAME_BYTES];
    int rows = 0;
    for (overlay_iter_seek(iter, key_of(5, key)); overlay_iter_valid(iter); overlay_iter_next(iter))
        rows++;
    CHECK(rows == COLLECTION - 5);
    CHECK(overlay_iter_error(iter) == OK);
}

/* An iterator that met an uncached row and then seeks to rows that are in a run has no error: SRANDMEMBER of a big set failed. */
static void check_seek_after_uncached_row(void)
{
    struct world world;
    struct retry wait;
    char low[NAME_BYTES], high[NAME_BYTES];
    world_open(&world, 1);
    apply_collection(&world);
    for (int i = 0; i < 3;
         i++) { /* a run is recorded when an iteration begins at a position again */
        struct overlay_iter *iter =
            overlay_iter_new(world.overlay, CF_DATA, lower_of(0, low), upper_of(0, high));
        check_second_half(iter);
        overlay_iter_free(iter);
    }
    retry_init(&wait, NULL);
    overlay_nonblocking_begin(world.overlay, &wait);
    store_mem_be_uncached(world.store, 1);
    struct overlay_iter *iter =
        overlay_iter_new(world.overlay, CF_DATA, lower_of(0, low), upper_of(0, high));
    overlay_iter_seek_first(iter);
    CHECK(!overlay_iter_valid(iter));
    check_second_half(iter);
    overlay_iter_free(iter);
    store_mem_be_uncached(world.store, 0);
    retry_cancel(&wait);
    overlay_nonblocking_begin(world.overlay, NULL);
    world_close(&world, false);
}

/* Deleted rows, which an iteration passes, are counted for its command. */
static void check_passed(void)
{
    struct world world;
    char key[NAME_BYTES], low[NAME_BYTES], high[NAME_BYTES];
    world_open(&world, 1);
    for (int i = 0; i < COLLECTION; i++)
        overlay_put(world.overlay, CF_DATA, key_of(i, key), BYTES("x"));
    for (int i = 0; i < COLLECTION - 1; i++)
        overlay_delete(world.overlay, CF_DATA, key_of(i, key));
    struct overlay_iter *iter =
        overlay_iter_new(world.overlay, CF_DATA, lower_of(0, low), upper_of(0, high));
    overlay_iter_seek_first(iter);
    CHECK(bytes_equal(overlay_iter_key(iter), key_of(COLLECTION - 1, key)));
    CHECK(overlay_iter_passed(iter) == COLLECTION - 1);
    CHECK(overlay_iter_passed(iter) == 0);
    overlay_iter_free(iter);
    world_close(&world, false);
}

enum { BUFFER_BYTES = 256 * 1024, VALUE_BYTES = 1000, OVERLOADED_STEPS = 60000 };

/* A batch with one new row. */
static void put_and_commit(struct world *world, int number)
{
    static char value[VALUE_BYTES];
    char key[NAME_BYTES + 16];
    char error[128];
    memcpy(key, NAME_HEAD, PREFIX);
    (void)snprintf(key + PREFIX, sizeof key - PREFIX, "%08d", number);
    overlay_put(world->overlay, CF_DATA, (struct bytes){key, PREFIX + 8},
                (struct bytes){value, sizeof value});
    world->in_flight = overlay_close_batch(world->overlay);
    if (overlay_is_full(world->overlay) && !overlay_immutable(world->overlay))
        overlay_switch_buffers(world->overlay);
    batch_write(world->in_flight, world->effects);
    world->in_flight = NULL;
    CHECK(storage_log(world->storage, world->effects, true, &(uint64_t){0}, error, sizeof error) ==
          OK);
    overlay_batch_committed(world->overlay);
}

/* Scripts that write much and are rolled back take no more memory one after the other than the first one. */
static void check_released(void)
{
    enum { SCRIPTS = 8, VALUES = 2000, BYTES = 10000 };
    static char value[BYTES];
    struct world world;
    char key[NAME_BYTES];
    world_open(&world, 1);
    overlay_use_buffers(world.overlay, BYTES * VALUES);
    for (int i = 0; i < SCRIPTS; i++) {
        put_and_commit(&world, i);
        overlay_savepoint(world.overlay);
        overlay_script_begin(world.overlay);
        for (int n = 0; n < VALUES; n++)
            overlay_put(world.overlay, CF_DATA, key_of(n % KEYS, key),
                        (struct bytes){value, sizeof value});
        overlay_script_end(world.overlay, false);
        CHECK(overlay_memory(world.overlay) < BYTES * VALUES / 4 * 3);
    }
    world_close(&world, false);
}

/* Clients write faster than the tables take: both buffers together stay within their part of the memory plan, and the clients
 * are slowed, but not stopped until a buffer is applied. */
static void check_memory(int applied_per_step)
{
    struct world world;
    size_t most = 0, applied = 0;
    int number = 0, waits = 0, longest_wait = 0, buffers = 0;
    world_open(&world, 1);
    overlay_use_buffers(world.overlay, BUFFER_BYTES);
    for (int i = 0; i < OVERLOADED_STEPS; i++) {
        const struct write_buffer *immutable = overlay_immutable(world.overlay);
        bool is_behind = overlay_is_behind(world.overlay, applied, 100);
        waits = is_behind ? waits + 1 : 0;
        longest_wait = waits > longest_wait ? waits : longest_wait;
        if (!is_behind)
            put_and_commit(&world, number++);
        size_t bytes =
            overlay_active(world.overlay)->arena.bytes + (immutable ? immutable->arena.bytes : 0);
        most = bytes > most ? bytes : most;
        applied = immutable ? applied + (size_t)applied_per_step : 0;
        if (!immutable || applied < immutable->arena.bytes)
            continue;
        while (overlay_immutable(world.overlay))
            step_apply(&world);
        applied = 0;
        buffers++;
    }
    CHECK(buffers > 10);
    CHECK(most > 2 * BUFFER_BYTES);
    CHECK(most <= 3 * BUFFER_BYTES + 2 * VALUE_BYTES);
    CHECK(longest_wait * applied_per_step < BUFFER_BYTES);
    world_close(&world, false);
}

/* A big value that waits to be applied stops those that bring another one, and not all writers. */
static void check_big_value(void)
{
    struct world world;
    size_t size = 4 * BIG_VALUE_BYTES;
    char *value = calloc(1, size);
    CHECK(value);
    world_open(&world, 1);
    overlay_use_buffers(world.overlay, BUFFER_BYTES);
    for (int i = 0; i < 2; i++) {
        CHECK(!overlay_has_big(world.overlay, size));
        overlay_put(world.overlay, CF_DATA, (struct bytes){NAME_HEAD, PREFIX},
                    (struct bytes){value, size});
        CHECK(overlay_bytes(world.overlay) >= size);
        CHECK(overlay_common_bytes(world.overlay) < size);
        CHECK(overlay_has_big(world.overlay, size - 1));
        put_and_commit(&world, i);
        CHECK(!overlay_is_behind(world.overlay, 0, 100));
    }
    CHECK(overlay_immutable(world.overlay));
    CHECK(overlay_has_big(world.overlay, size));
    for (int i = 2; !overlay_is_behind(world.overlay, 0, 100); i++) {
        CHECK(i < 4 * BUFFER_BYTES / VALUE_BYTES);
        put_and_commit(&world, i);
    }
    while (overlay_immutable(world.overlay))
        step_apply(&world);
    CHECK(!overlay_has_big(world.overlay, size));
    free(value);
    world_close(&world, false);
}

/* While the rows of a command that wrote very many are applied, big requests wait, and others do not. */
static void check_many_rows(void)
{
    static char value[VALUE_BYTES];
    struct world world;
    char key[NAME_BYTES + 16] = NAME_HEAD;
    world_open(&world, 1);
    overlay_use_buffers(world.overlay, BUFFER_BYTES);
    for (int i = 1; i < 4 * BUFFER_BYTES / VALUE_BYTES; i++) {
        CHECK(!overlay_has_big(world.overlay, SIZE_MAX));
        (void)snprintf(key + PREFIX, sizeof key - PREFIX, "%08d", i);
        overlay_put(world.overlay, CF_DATA, (struct bytes){key, PREFIX + 8},
                    (struct bytes){value, sizeof value});
    }
    put_and_commit(&world, 0);
    CHECK(overlay_immutable(world.overlay));
    CHECK(overlay_has_big(world.overlay, SIZE_MAX));
    CHECK(!overlay_is_behind(world.overlay, 0, 100));
    while (overlay_immutable(world.overlay))
        step_apply(&world);
    CHECK(!overlay_has_big(world.overlay, SIZE_MAX));
    world_close(&world, false);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        (void)run_seed(strtoull(argv[1], NULL, 10), argc > 2 ? atoi(argv[2]) : STEPS);
        printf("1 passed, 0 failed\n");
        return 0;
    }
    uint64_t applied = 0, seeds = sized(SEEDS);
    check_errors(1);
    check_errors(2);
    check_seek_after_uncached_row();
    check_memory(VALUE_BYTES / 4);
    check_memory(VALUE_BYTES / 10);
    check_big_value();
    check_many_rows();
    check_passed();
    check_released();
    for (uint64_t seed = 1; seed <= seeds; seed++)
        applied += (uint64_t)run_seed(seed, STEPS);
    CHECK(applied > seeds);
    CHECK(walks_in_runs > seeds * STEPS / 4);
    printf("%" PRIu64 " passed, 0 failed\n", seeds);
    return 0;
}
