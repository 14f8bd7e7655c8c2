/*
 * test_rank.c - ranks compared with a sorted array: rows are added and removed one by one and in large numbers, some
 * changes are rolled back, and some of the commits between them fail. The tree's rows must keep their invariants. Seeds
 * differ in how many blocks stay in memory: only the last one, a few, or all. Now and then the tree becomes one of an older program,
 * with wrong counts: ranks stay right, and it is replaced.
 *
 *   test_rank [seed]      one seed, or SEEDS
 */
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/rank/range_bound.h"
#include "backend/rank/rank.h"
#include "backend/rank/rank_cache.h"
#include "backend/rank/rank_rebuild.h"
#include "backend/session/internal_call.h"
#include "backend/storage/partition_store.h"
#include "shared/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 6,
    STEPS = 60,
    MODEL_MAX = 110000,
    CROWD_MAX = 4000,
    STEPS_MAX = 200000000,
    BIG = 100000,
    NODE_MAX = 4096
};

static struct sim_partition world;
static uint32_t model[MODEL_MAX]; /* sorted numbers; row_of makes their rows */
static size_t model_count;
static uint64_t highest; /* highest tree so far */
static enum type key_type;
static uint64_t rebuilt; /* trees of older programs that were replaced */

static void world_begin(uint64_t seed)
{
    static const uint64_t CACHE_BYTES[] = {0, 8 * 1024, 32 * 1024 * 1024};
    model_count = 0;
    key_type = TYPE_SET;
    sim_partition_init(&world, seed);
    world.config.store_rank_cache_bytes = CACHE_BYTES[seed % 3];
    world.config.partitions = 1;
    sim_partition_start(&world, false);
}

static void world_end(void)
{
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

static bool is_failed(void *owner)
{
    (void)owner;
    return commit_is_failed(world.partition->commit, NULL);
}

/* All writes are in the store. */
static bool is_committed(void *owner)
{
    return !is_failed(owner) && !overlay_dirty(world.partition->overlay) &&
           !overlay_in_flight(world.partition->overlay);
}

/* Rows with long common prefixes, in the order of their numbers. */
static struct bytes row_of(uint32_t number, char text[32])
{
    int len = snprintf(text, 32, "%s%08x", number % 3 ? "member:" : "member:\x01", number / 3);
    return (struct bytes){text, (size_t)len};
}

static int compare_rows(uint32_t a, uint32_t b)
{
    char x[32];
    char y[32];
    struct bytes one = row_of(a, x);
    struct bytes other = row_of(b, y);
    size_t len = one.len < other.len ? one.len : other.len;
    int order = memcmp(one.data, other.data, len);
    return order ? order : (one.len > other.len) - (one.len < other.len);
}

static int by_row(const void *a, const void *b)
{
    return compare_rows(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* The index of the number, or where it would be inserted. */
static size_t model_place(uint32_t number, bool *is_there)
{
    size_t low = 0;
    size_t high = model_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_rows(model[middle], number) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = low < model_count && compare_rows(model[low], number) == 0;
    return low;
}

static void call_begin(struct call *call, struct entry *entry)
{
    internal_call_begin(world.partition, call);
    call->space = space_open(world.partition->spaces, BYTES(""), 0);
    CHECK(keyspace_open_type(call, BYTES("k"), key_type, OPEN_WRITE, entry));
    if (!entry->exists)
        entry_create(call, entry, key_type);
}

/* ---- changes ---- */

static void toggle(struct call *call, struct entry *entry, struct rank_edit *edit, uint32_t number,
                   bool add)
{
    char text[32];
    bool is_there;
    struct bytes row = row_of(number, text);
    size_t place = model_place(number, &is_there);
    if (is_there == add || (add && model_count == MODEL_MAX))
        return;
    if (add) {
        memmove(model + place + 1, model + place, (model_count++ - place) * sizeof *model);
        model[place] = number;
        sub_put(call, entry, CF_DATA, row, BYTES(""));
        entry->meta.size++;
        CHECK(edit ? rank_edit_add(edit, row) : rank_add(call, entry, CF_DATA, row));
    } else {
        memmove(model + place, model + place + 1, (--model_count - place) * sizeof *model);
        sub_delete(call, entry, CF_DATA, row);
        entry->meta.size--;
        CHECK(edit ? rank_edit_remove(edit, row) : rank_remove(call, entry, CF_DATA, row));
    }
}

/* Adds or removes neighbouring or random rows: mostly adds while `rising`, else mostly removes. */
static void change(struct call *call, struct entry *entry, bool rising)
{
    struct rank_edit edit;
    bool in_order = sim_random(2);
    bool together = sim_random(3) > 0;
    size_t count = sim_random(4) ? 1 + sim_random(20) : 1 + sim_random(CROWD_MAX);
    uint32_t number = (uint32_t)sim_random(200000);
    bool add = rising ? sim_random(5) > 0 : sim_random(5) == 0;
    if (!add && in_order && model_count)
        number = model[sim_random(3) ? 0 : sim_random(model_count)];
    rank_edit_begin(&edit, call, entry, CF_DATA);
    for (size_t i = 0; i < count; i++) {
        bool is_there;
        size_t place = model_place(number, &is_there);
        toggle(call, entry, together ? &edit : NULL, number, add);
        if (in_order && !add)
            number = place < model_count ? model[place] : number;
        else
            number = in_order ? number + 1 : (uint32_t)sim_random(200000);
    }
    CHECK(rank_edit_end(&edit));
    entry_save(call, entry);
}

/* A change that is rolled back, or whose commit fails, must have no effect. */
static void change_in_vain(bool rising)
{
    static uint32_t saved[MODEL_MAX];
    size_t saved_count = model_count;
    bool fails_late = sim_random(2);
    struct call call;
    struct entry entry;
    memcpy(saved, model, model_count * sizeof *model);
    if (fails_late) {
        CHECK(sim_run_until(is_committed, NULL, STEPS_MAX));
        storage_mem_fail_next(world.partition->storage, 1, ERR_DISK_FULL);
    }
    call_begin(&call, &entry);
    change(&call, &entry, rising);
    call.failed = !fails_late;
    internal_call_end(world.partition, &call);
    if (fails_late) {
        CHECK(!overlay_dirty(world.partition->overlay) ||
              sim_run_until(is_failed, NULL, STEPS_MAX));
        storage_mem_fail_next(world.partition->storage, 0, ERR_DISK_FULL);
        CHECK(sim_run_until(is_committed, NULL, STEPS_MAX));
    }
    memcpy(model, saved, saved_count * sizeof *model);
    model_count = saved_count;
}

/* ---- comparing with the model ---- */

static void compare_seek(struct call *call, struct entry *entry, size_t rank)
{
    struct bytes from;
    uint64_t skip;
    char text[32];
    struct sub_iter it;
    CHECK(rank_seek(call, entry, CF_DATA, rank, &from, &skip));
    bool is_stale;
    CHECK(rank_is_stale(call, entry, &is_stale) && (is_stale || skip <= RANK_LEAF_MAX));
    sub_iter_init(call, entry, CF_DATA, from, &it);
    do
        CHECK(sub_iter_next(&it));
    while (skip-- > 0);
    CHECK(bytes_equal(it.sub, row_of(model[rank], text)));
    CHECK(sub_iter_fini(&it));
}

static void compare_rank(struct call *call, struct entry *entry, uint32_t number)
{
    char text[32];
    bool is_there;
    uint64_t rank;
    CHECK(rank_of(call, entry, CF_DATA, row_of(number, text), &rank));
    CHECK(rank == model_place(number, &is_there));
}

/* Every level must count all rows, and no block may be too big. */
static void check_tree(struct call *call, struct entry *entry)
{
    struct sub_iter it;
    uint64_t rows[RANK_LEVELS_MAX + 1] = {0};
    uint64_t height = 0;
    uint64_t tops = 0;
    uint64_t blocks[RANK_LEVELS_MAX + 1] = {0};
    uint64_t children_of[RANK_LEVELS_MAX + 1] = {0};
    sub_iter_init(call, entry, CF_RANK, BYTES(""), &it);
    while (sub_iter_next(&it)) {
        uint64_t count;
        uint64_t children;
        unsigned level = (uint8_t)it.sub.data[0];
        bool is_stale = false;
        CHECK(level == 0 ? decode_rank_root(it.value, &count, &children, &is_stale)
                         : decode_rank_block(it.value, &count, &children));
        if (is_stale)
            break; /* its counts are not used */
        if (level == 0) {
            height = count;
            tops = children;
            continue;
        }
        CHECK(level == 1 ? count <= RANK_LEAF_MAX : children <= RANK_FAN_MAX);
        CHECK(blocks[level] > 0 || it.sub.len == 1);
        rows[level] += count;
        children_of[level] += children;
        blocks[level]++;
    }
    bool is_stale;
    CHECK(sub_iter_fini(&it));
    CHECK(rank_is_stale(call, entry, &is_stale));
    if (is_stale)
        return;
    CHECK(rank_cache_bytes(world.partition->caches.ranks) <=
          world.config.store_rank_cache_bytes + NODE_MAX);
    highest = height > highest ? height : highest;
    CHECK((height > 0) == (tops > 0) && (height == 0 || blocks[height] == tops));
    CHECK(model_count > RANK_SIZE_MIN || height == 0);
    CHECK(model_count <= RANK_LEAF_MAX || height > 0);
    CHECK(tops <= RANK_FAN_MAX);
    for (unsigned level = 1; level <= height; level++)
        CHECK(rows[level] == model_count);
    for (unsigned level = 2; level <= height; level++)
        CHECK(children_of[level] == blocks[level - 1]);
}

static void compare(void)
{
    struct call call;
    struct entry entry;
    call_begin(&call, &entry);
    CHECK(entry.meta.size == model_count);
    check_tree(&call, &entry);
    for (int i = 0; model_count && i < 6; i++) {
        compare_seek(&call, &entry, i == 0 ? 0 : sim_random(model_count));
        compare_rank(&call, &entry, model[sim_random(model_count)]);
        compare_rank(&call, &entry, (uint32_t)sim_random(200000));
    }
    internal_call_end(world.partition, &call);
}

/* Makes the tree one of an older program: its root has no format, and the counts of its leaves are wrong. */
static void make_stale(void)
{
    struct overlay *overlay = world.partition->overlay;
    struct call call;
    struct entry entry;
    struct bytes root;
    struct sub_iter it;
    struct bytes keys[3];
    unsigned count = 0;
    call_begin(&call, &entry);
    struct bytes prefix = arena_copy(call.arena, entry_prefix(&call, &entry));
    if (!entry.exists || sub_get(&call, &entry, CF_RANK, (struct bytes){"\0", 1}, &root) != OK) {
        internal_call_end(world.partition, &call);
        return;
    }
    root = arena_copy(call.arena, root);
    sub_iter_init(&call, &entry, CF_RANK, BYTES("\1"), &it);
    while (count < 3 && sub_iter_next(&it) && it.sub.data[0] == 1)
        keys[count++] = arena_copy(call.arena, it.sub);
    CHECK(sub_iter_fini(&it));
    for (unsigned i = 0; i < count; i++)
        overlay_put(overlay, CF_RANK, encode_sub_key(call.arena, prefix, keys[i]),
                    encode_rank_block(call.arena, sim_random(1000), 0));
    bool has_format = root.data[root.len - 1] == RANK_FORMAT && root.len > 2;
    overlay_put(overlay, CF_RANK, encode_sub_key(call.arena, prefix, (struct bytes){"\0", 1}),
                (struct bytes){root.data, root.len - has_format});
    internal_call_end(world.partition, &call);
}

static void rebuild_cycle(void)
{
    struct call call;
    internal_call_begin(world.partition, &call);
    rank_rebuild_cycle(&call);
    internal_call_end(world.partition, &call);
}

/* After some cycles there is no tree of an older program. */
static void finish_rebuilding(void)
{
    struct call call;
    struct entry entry;
    bool is_stale = true;
    for (int i = 0; is_stale; i++) {
        CHECK(i < 1000);
        call_begin(&call, &entry);
        uint64_t rank = 0;
        CHECK(rank_of(&call, &entry, CF_DATA, BYTES("zzz"), &rank) && rank == model_count);
        CHECK(rank_is_stale(&call, &entry, &is_stale));
        internal_call_end(world.partition, &call);
        rebuild_cycle();
    }
    compare();
    rebuilt += rank_rebuild_figures(world.partition->caches.rebuild).rebuilt;
}

/* Counting the rows again must give equal ranks. */
static void rebuild(void)
{
    struct call call;
    struct entry entry;
    char text[32];
    call_begin(&call, &entry);
    entry_create(&call, &entry, TYPE_SET);
    for (size_t i = 0; i < model_count; i++) {
        sub_put(&call, &entry, CF_DATA, row_of(model[i], text), BYTES(""));
        entry.meta.size++;
    }
    CHECK(rank_build(&call, &entry, CF_DATA));
    entry_save(&call, &entry);
    internal_call_end(world.partition, &call);
    compare();
}

/* Drops the tree and builds it again, with the same version. */
static void sink_and_rise(void)
{
    model_count = model_count < 200 ? model_count : 200;
    rebuild();
    for (size_t goal = 40; goal <= 400; goal += 360) {
        struct call call;
        struct entry entry;
        call_begin(&call, &entry);
        while (model_count > goal)
            toggle(&call, &entry, NULL, model[sim_random(model_count)], false);
        while (model_count < goal)
            toggle(&call, &entry, NULL, (uint32_t)sim_random(200000), true);
        entry_save(&call, &entry);
        internal_call_end(world.partition, &call);
        compare();
    }
}

/* Adds the rows n, n + step, n + 2 * step … of a sorted set, enough for a tree. */
static void fill(struct call *call, struct entry *entry, uint32_t first, uint32_t step)
{
    char text[32];
    for (uint32_t i = 0; i < 4 * RANK_LEAF_MAX; i++) {
        struct bytes row = row_of(first + i * step, text);
        sub_put(call, entry, CF_DATA, row, BYTES(""));
        entry->meta.size++;
        CHECK(rank_add(call, entry, CF_DATA, row));
    }
    range_bound_found_first(call, entry, row_of(first, text));
    range_bound_found_last(call, entry, row_of(first + 4 * RANK_LEAF_MAX * step, text));
    entry_save(call, entry);
}

/* Two partitions may give two collections the same version, and slots move between partitions: the blocks and bounds
 * of both must stay separate. */
static void compare_equal_versions(void)
{
    static const struct bytes KEYS[] = {{"one", 3}, {"two", 3}};
    const uint64_t saved = world.partition->batch.version;
    struct call call;
    struct entry entries[2];
    char text[32];
    internal_call_begin(world.partition, &call);
    call.space = space_open(world.partition->spaces, BYTES(""), 0);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(keyspace_open_type(&call, KEYS[i], TYPE_SET, OPEN_WRITE, &entries[i]));
        world.partition->batch.version = saved;
        entry_create(&call, &entries[i], TYPE_SET);
        CHECK(entries[i].meta.version == entries[0].meta.version);
        fill(&call, &entries[i], 300 + i * 300, 3 + i * 3);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t rank;
        uint32_t step = 3 + i * 3;
        for (uint32_t n = 0; n < 4 * RANK_LEAF_MAX; n += 7) {
            CHECK(rank_of(&call, &entries[i], CF_DATA, row_of(300 + i * 300 + n * step, text),
                          &rank));
            CHECK(rank == n);
        }
        CHECK(bytes_equal(range_bound_first(&call, &entries[i], BYTES("")), BYTES("")) ||
              bytes_equal(range_bound_first(&call, &entries[i], BYTES("")),
                          row_of(300 + i * 300, text)));
        entry_delete(&call, &entries[i]);
    }
    internal_call_end(world.partition, &call);
}

/* Rows of members come before those of scores, so an order of members instead of scores makes each rank the last one. */
static void fill_sorted_set(uint32_t members)
{
    struct call call;
    struct entry entry;
    char text[32];
    call_begin(&call, &entry);
    for (uint32_t i = 0; i < members; i++) {
        struct bytes row = row_of(i * 3, text);
        sub_put(&call, &entry, CF_ZSET_SCORE, row, BYTES(""));
        sub_put(&call, &entry, CF_DATA, (struct bytes){row.data + 1, row.len - 1}, BYTES(""));
        entry.meta.size++;
    }
    CHECK(rank_build(&call, &entry, CF_ZSET_SCORE));
    entry_save(&call, &entry);
    internal_call_end(world.partition, &call);
}

/* As the first start with a store of an older program. */
static void start_unwalked(void)
{
    overlay_delete(world.partition->overlay, CF_SYSTEM, BYTES(SYSTEM_RANKS));
    CHECK(sim_run_until(is_committed, NULL, STEPS_MAX));
    sim_partition_crash(&world);
}

static void test_ranks_of_a_sorted_set_whose_tree_was_just_found_stale(void)
{
    struct call call;
    struct entry entry;
    char text[32];
    uint64_t rank = 0;
    world_begin(1);
    key_type = TYPE_ZSET;
    fill_sorted_set(4 * RANK_LEAF_MAX);
    make_stale();
    start_unwalked();
    while (!rank_rebuild_figures(world.partition->caches.rebuild).checked)
        rebuild_cycle();
    for (uint32_t i = 0; i < 4 * RANK_LEAF_MAX; i += 50) {
        call_begin(&call, &entry);
        CHECK(rank_of(&call, &entry, CF_ZSET_SCORE, row_of(i * 3, text), &rank));
        CHECK(rank == i);
        internal_call_end(world.partition, &call);
    }
    world_end();
}

static void run_seed(uint64_t seed)
{
    bool rising = true;
    world_begin(seed);
    compare_equal_versions();
    if (seed % 2) {
        for (uint32_t number = 0; number < BIG; number++)
            model[number] = number * 2;
        model_count = BIG;
        qsort(model, BIG, sizeof *model, by_row);
        rebuild();
    }
    for (int step = 0; step < STEPS; step++) {
        struct call call;
        struct entry entry;
        if (sim_random(25) == 0)
            rising = !rising;
        if (sim_random(8) == 0) {
            change_in_vain(rising);
        } else {
            call_begin(&call, &entry);
            change(&call, &entry, rising);
            internal_call_end(world.partition, &call);
        }
        if (sim_random(10) == 0)
            make_stale();
        if (sim_random(4) == 0)
            rebuild_cycle();
        if (sim_random(2))
            sim_run_for(1 + sim_random(5000));
        compare();
        if (sim_random(40) == 0)
            rebuild();
    }
    finish_rebuilding();
    sink_and_rise();
    world_end();
}

int main(int argc, char **argv)
{
    test_ranks_of_a_sorted_set_whose_tree_was_just_found_stale();
    int code = sim_run_seeds(argc, argv, sized(SEEDS), run_seed);
    CHECK(argc > 1 || (highest >= 3 && rebuilt > 0));
    return code;
}
