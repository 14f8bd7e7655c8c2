#include "backend/partition/row_sums.h"

#include "backend/format/encoding.h"
#include "backend/format/xxh3.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>
#include <time.h>

enum { LOOK_ROWS = 64, WORK_US = 5000 };

/* ---- sums -------------------------------------------------------------------------------------- */

/* Whoever stops the sums may wait for the end of a nap. */
static void take_nap(struct row_sums *sums)
{
    static const struct timespec nap = {.tv_nsec = WORK_US * 1000};
    uint64_t now_us = clock_mono_us();
    if (!sums->nap_us)
        sums->nap_us = now_us;
    if (now_us - sums->nap_us < WORK_US)
        return;
    (void)nanosleep(&nap, NULL);
    sums->nap_us = clock_mono_us();
}

static uint64_t hash_of_row(enum cf cf, struct bytes key, struct bytes value)
{
    struct xxh3 hash;
    char head[5] = {(char)cf};
    put_be32(head + 1, (uint32_t)key.len);
    xxh3_init(&hash);
    xxh3_add(&hash, (struct bytes){head, sizeof head});
    xxh3_add(&hash, key);
    xxh3_add(&hash, value);
    return xxh3_result(&hash);
}

static void add_row(struct row_sums *sums, enum cf cf, uint64_t *to)
{
    const struct store_iter *iter = sums->iters[cf];
    *to += hash_of_row(cf, store_iter_key(iter), store_iter_value(iter));
    if (++sums->rows % LOOK_ROWS == 0)
        take_nap(sums);
}

static bool is_stopped(const struct row_sums *sums)
{
    return atomic_load_explicit(&sums->is_stopped, memory_order_relaxed);
}

static bool is_at_row(const struct row_sums *sums, enum cf cf)
{
    return !is_stopped(sums) && store_iter_valid(sums->iters[cf]);
}

/* ---- rows of a key ----------------------------------------------------------------------------- */

static bool is_in(const struct store_iter *iter, struct bytes prefix)
{
    struct bytes key = store_iter_key(iter);
    return key.len >= prefix.len && memcmp(key.data, prefix.data, prefix.len) == 0;
}

/* A new position forgets that the one before could not be read. */
static void seek(struct row_sums *sums, enum cf cf, struct bytes key)
{
    sums->is_failed |= store_iter_failed(sums->iters[cf]);
    store_iter_seek(sums->iters[cf], key);
}

static void add_collection(struct row_sums *sums, enum cf cf, struct bytes prefix, uint64_t *to)
{
    struct store_iter *iter = sums->iters[cf];
    seek(sums, cf, prefix);
    while (is_at_row(sums, cf) && is_in(iter, prefix)) {
        add_row(sums, cf, to);
        store_iter_next(iter);
    }
}

static bool has_collection(const struct row_sums *sums, const struct metadata *meta)
{
    return !type_is_inline(meta->type) && (!meta->expire_ms || meta->expire_ms > sums->now_ms);
}

static void add_collections(struct row_sums *sums, struct arena *arena, struct bytes space,
                            uint16_t slot, struct bytes key)
{
    struct metadata meta;
    struct bytes value = store_iter_value(sums->iters[CF_METADATA]);
    if (!decode_metadata(value, &meta) || !has_collection(sums, &meta))
        return;
    struct bytes prefix = encode_collection_prefix(arena, space, slot, key, meta.version);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        if (cf_has_collections(cf))
            add_collection(sums, cf, prefix, &sums->of[slot]);
}

/* ---- keys -------------------------------------------------------------------------------------- */

/* To the first key of these slots in the key's storage namespace, or in the next one. */
static void leave_out(struct row_sums *sums, struct arena *arena, struct bytes space, uint16_t slot)
{
    struct bytes to = slot < sums->first
                          ? encode_slot_prefix(arena, space, sums->first)
                          : encode_prefix_end(arena, encode_space_prefix(arena, space));
    seek(sums, CF_METADATA, to);
}

static void add_row_of_key(struct row_sums *sums, struct arena *arena)
{
    struct store_iter *iter = sums->iters[CF_METADATA];
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (!decode_metadata_key(store_iter_key(iter), &space, &slot, &key) || slot >= SLOT_COUNT) {
        add_row(sums, CF_METADATA, &sums->system); /* equal damage is no difference */
    } else if (slot < sums->first || slot > sums->last) {
        leave_out(sums, arena, space, slot);
        return;
    } else {
        add_row(sums, CF_METADATA, &sums->of[slot]);
        add_collections(sums, arena, space, slot, key);
    }
    store_iter_next(iter);
}

static void add_every_key(struct row_sums *sums)
{
    struct arena arena;
    arena_init(&arena);
    while (is_at_row(sums, CF_METADATA)) {
        struct arena_mark mark = arena_mark(&arena);
        add_row_of_key(sums, &arena);
        arena_release(&arena, &mark);
    }
    arena_fini(&arena);
}

static void add_family(struct row_sums *sums, enum cf cf)
{
    while (is_at_row(sums, cf)) {
        add_row(sums, cf, &sums->system);
        store_iter_next(sums->iters[cf]);
    }
}

/* ---- in order ---------------------------------------------------------------------------------- */

struct row_sums *row_sums_new(struct store *store, uint16_t first, uint16_t last, uint64_t now_ms)
{
    struct row_sums *sums = calloc(1, sizeof *sums);
    CHECK(sums);
    sums->first = first;
    sums->last = last;
    sums->now_ms = now_ms;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        sums->iters[cf] = store_iter_new_passing(store, cf);
    return sums;
}

static void close_iters(struct row_sums *sums)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++) {
        if (sums->iters[cf])
            sums->is_failed |= store_iter_failed(sums->iters[cf]);
        store_iter_free(sums->iters[cf]);
        sums->iters[cf] = NULL;
    }
}

void row_sums_run(struct row_sums *sums)
{
    for (enum cf cf = 0; cf < CF_COUNT && !is_stopped(sums); cf++)
        store_iter_seek_first(sums->iters[cf]);
    add_family(sums, CF_SYSTEM);
    if (sums->first == 0 && sums->last == SLOT_COUNT - 1)
        add_family(sums, CF_EXPIRE);
    add_every_key(sums);
    close_iters(sums); /* files that nothing else needs can be deleted */
}

void row_sums_stop(struct row_sums *sums)
{
    atomic_store(&sums->is_stopped, true);
}

void row_sums_free(struct row_sums *sums)
{
    if (!sums)
        return;
    close_iters(sums);
    free(sums);
}
