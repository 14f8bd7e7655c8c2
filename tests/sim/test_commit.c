/*
 * test_commit.c - commit.h and apply.h beside a log that has more than what is committed.
 */
#include "backend/format/effects.h"
#include "backend/storage/commit.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>

static struct {
    struct store_env *env;
    struct storage *storage;
    struct loop *loop;
    struct overlay *overlay;
    struct commit *commit;
    int committed;
    char error[256];
} world;

static void on_close(void *owner)
{
    (void)owner;
}

static void on_commit(void *owner, uint64_t ticket, uint64_t index, int err)
{
    (void)owner, (void)ticket;
    CHECK(err == OK && index == storage_logged(world.storage));
    world.committed++;
}

static bool on_recover(void *owner)
{
    (void)owner;
    return true;
}

static void start(void)
{
    const struct commit_options options = {
        .durability = DURABILITY_ALWAYS,
        .on_close = on_close,
        .on_commit = on_commit,
        .on_recover = on_recover,
        .on_room = on_close,
    };
    world.storage = storage_open(world.env, &(struct store_options){.path = "commit"},
                                 WAL_MEM_LIMIT, world.error, sizeof world.error);
    CHECK(world.storage);
    world.overlay = overlay_new(storage_store(world.storage));
    world.commit = commit_new(world.loop, world.overlay, world.storage, &options);
}

static void stop(void)
{
    commit_free(world.commit);
    overlay_free(world.overlay);
    storage_close(world.storage);
}

static void commit_row(const char *key)
{
    int before = world.committed;
    overlay_put(world.overlay, CF_DATA, (struct bytes){key, strlen(key)}, BYTES("v"));
    CHECK(commit_turn_end(world.commit));
    sim_run_for(1000 * 1000);
    CHECK(world.committed == before + 1 && commit_is_idle(world.commit));
}

/* Appends a batch that other copies may replace. Returns its index. */
static uint64_t append_tail(void)
{
    uint64_t index;
    struct effects *batch = effects_new();
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_BATCH,
                                                  .index = storage_logged(world.storage) + 1,
                                                  .commit = storage_committed(world.storage)});
    effects_put(batch, CF_DATA, BYTES("tail"), BYTES("v"));
    CHECK(storage_append(world.storage, effects_bytes(batch), &index, world.error,
                         sizeof world.error) == OK);
    CHECK(storage_sync(world.storage, world.error, sizeof world.error) == OK);
    effects_free(batch);
    return index;
}

/* Applying a buffer while the log has a tail: the tail is neither applied nor trimmed. */
static void check_tail(bool (*apply)(struct commit *commit))
{
    start();
    commit_row("a");
    uint64_t tail = append_tail();
    (void)apply(world.commit);
    sim_run_for(1000 * 1000);
    CHECK(overlay_is_empty(world.overlay));
    CHECK(storage_flush(world.storage, world.error, sizeof world.error) == OK);
    CHECK(wal_trimmed(storage_wal(world.storage)) == tail - 1);
    CHECK(wal_first(storage_wal(world.storage)) == tail);
    CHECK(storage_logged(world.storage) == tail);
    stop();
}

/* A batch that is written and not durable yet has its index: the next one gets another. */
static void check_next_index(void)
{
    start();
    uint64_t index;
    struct effects *batch = effects_new();
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_BATCH,
                                                  .index = storage_logged(world.storage) + 1});
    effects_put(batch, CF_DATA, BYTES("first"), BYTES("v"));
    CHECK(storage_append(world.storage, effects_bytes(batch), &index, world.error,
                         sizeof world.error) == OK);
    effects_free(batch);
    CHECK(storage_logged(world.storage) == index - 1);
    CHECK(storage_written(world.storage) == index);
    CHECK(commit_next_index(world.commit) == index + 1);
    commit_row("second");
    CHECK(storage_committed(world.storage) == index + 1);
    stop();
    start(); /* reads the indexes in the batches */
    stop();
}

static bool rest(struct commit *commit)
{
    commit_rest(commit);
    commit_rest(commit);
    return true;
}

/* The type of the record with this index. */
static enum effects_type type_of(uint64_t index)
{
    struct bytes record;
    struct effects_header header;
    struct effects_reader reader;
    struct wal_cursor *cursor = wal_cursor_new(storage_wal(world.storage), index);
    CHECK(cursor &&
          wal_cursor_next(cursor, &index, &record, world.error, sizeof world.error) == OK);
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
    wal_cursor_free(cursor);
    return header.type;
}

/* Only the batch with the row of the members has their type, not the next one. */
static void check_members(void)
{
    start();
    overlay_set_members(world.overlay);
    commit_row("members");
    CHECK(type_of(storage_logged(world.storage)) == EFFECTS_MEMBERS);
    commit_row("other");
    CHECK(type_of(storage_logged(world.storage)) == EFFECTS_BATCH);
    stop();
}

/* ---- a copy that follows ---- */

/* The copy has world.overlay and the rest; the leader's log has random batches of rows, deleted rows and deleted ranges. */
enum { FOLLOW_SEEDS = 60, FOLLOW_ROUNDS = 60, KEYS = 40, LEADER_BATCHES = 120 };

static struct storage *leader;
static bool commits_early; /* control: the copy commits what it has not added yet */

static struct bytes key_of(uint64_t number)
{
    static char keys[KEYS + 1][4];
    snprintf(keys[number], sizeof keys[number], "k%02u", (unsigned)number);
    return (struct bytes){keys[number], 3};
}

static void add_random_effect(struct effects *batch, uint64_t number)
{
    char value[32];
    uint64_t key = sim_random(KEYS);
    int len = snprintf(value, sizeof value, "v%llu", (unsigned long long)number);
    effects_set_internal(batch, sim_random(4) == 0);
    if (sim_random(8) == 0)
        effects_delete(batch, CF_DATA, key_of(key));
    else
        effects_put(batch, CF_DATA, key_of(key), (struct bytes){value, (size_t)len});
}

/* With ranges before the rows. */
static void write_leader_batch(uint64_t number)
{
    struct effects *batch = effects_new();
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_BATCH,
                                                  .term = 1,
                                                  .origin_ms = loop_wall_ms(world.loop)});
    uint64_t from = sim_random(KEYS);
    if (sim_random(10) == 0)
        effects_delete_range(batch, CF_DATA, key_of(from),
                             key_of(from + sim_random(KEYS - from) + 1));
    for (uint64_t count = 1 + sim_random(3); count; count--)
        add_random_effect(batch, number);
    CHECK(storage_write(leader, batch, true, world.error, sizeof world.error) == OK);
    effects_free(batch);
}

/* Appends some of the records that the copy lacks, and syncs them. */
static void receive(void)
{
    uint64_t index;
    struct bytes record;
    struct wal_cursor *from =
        wal_cursor_new(storage_wal(leader), storage_written(world.storage) + 1);
    CHECK(from);
    for (uint64_t count = 1 + sim_random(3); count; count--)
        if (wal_cursor_next(from, &index, &record, world.error, sizeof world.error) == OK)
            CHECK(storage_append(world.storage, record, &(uint64_t){0}, world.error,
                                 sizeof world.error) == OK);
    wal_cursor_free(from);
    if (sim_random(4))
        CHECK(storage_sync(world.storage, world.error, sizeof world.error) == OK);
    if (commits_early)
        storage_commit(world.storage, storage_logged(world.storage));
}

/* The next record that the overlay lacks; the control has a number of its own, as a replica that only knows the log. */
static uint64_t added;

static void add_next(void)
{
    uint64_t index;
    struct bytes record;
    if (added == storage_logged(world.storage) || commit_is_full(world.commit, WAL_MEM_LIMIT))
        return;
    struct wal_cursor *from = wal_cursor_new(storage_wal(world.storage), added + 1);
    if (commits_early && !from) { /* it was trimmed before it was added */
        added = storage_logged(world.storage);
        return;
    }
    CHECK(from && wal_cursor_next(from, &index, &record, world.error, sizeof world.error) == OK);
    int err = commits_early
                  ? overlay_add_committed(world.overlay, record, world.error, sizeof world.error)
                  : commit_follow(world.commit, record, index);
    CHECK(err == OK && !commit_turn_end(world.commit));
    wal_cursor_free(from);
    added++;
}

static void start_following(void)
{
    start();
    overlay_use_buffers(world.overlay, 16 << 10);
    commit_set_following(world.commit, true);
    CHECK(commit_is_failed(world.commit, NULL) && commit_error(world.commit) == ERR_READONLY);
    added = storage_committed(world.storage);
}

static void crash_copy(void)
{
    sim_crash_host("backend");
    storage_mem_crash(world.storage);
    stop();
    loop_free(world.loop);
    sim_set_host("backend");
    world.loop = loop_new();
    start_following();
}

static void follow_step(void)
{
    switch (sim_random(12)) {
    case 0:
        (void)commit_apply(world.commit);
        break;
    case 1:
        (void)rest(world.commit);
        break;
    case 2:
        CHECK(storage_flush(world.storage, world.error, sizeof world.error) == OK);
        break;
    case 3:
        crash_copy();
        break;
    case 4:
        sim_run_for(1000 * 1000);
        break;
    case 5:
    case 6:
    case 7:
        receive();
        break;
    default:
        add_next();
        break;
    }
}

/* Of both: the value, "": none. */
static bool is_equal(uint64_t number)
{
    struct slice there, here;
    int err = store_get(storage_store(leader), CF_DATA, key_of(number), &there);
    if (overlay_get(world.overlay, CF_DATA, key_of(number), &here) != err)
        return false;
    bool good = err != OK || bytes_equal(slice_bytes(&there), slice_bytes(&here));
    if (err == OK) {
        slice_release(&there);
        slice_release(&here);
    }
    return good;
}

/* Has the copy all rows of the leader in the end? */
static bool follow(uint64_t seed)
{
    bool good = true;
    storage_mem_reset();
    storage_mem_seed(seed);
    leader =
        storage_open(world.env, &(struct store_options){.path = "leader"},
                     (uint64_t)LEADER_BATCHES * WAL_MEM_LIMIT, world.error, sizeof world.error);
    CHECK(leader);
    for (uint64_t i = 1; i <= LEADER_BATCHES; i++)
        write_leader_batch(i);
    start_following();
    for (int i = 0; i < 4 * FOLLOW_ROUNDS; i++)
        follow_step();
    while (storage_logged(world.storage) < storage_logged(leader) ||
           added < storage_logged(world.storage)) {
        receive();
        add_next();
        sim_run_for(1000 * 1000);
    }
    crash_copy();
    for (uint64_t i = 0; i < KEYS; i++)
        good = is_equal(i) && good;
    stop();
    storage_close(leader);
    return good;
}

static struct bytes append_record(const struct effects *batch)
{
    CHECK(storage_append(world.storage, effects_bytes(batch), &(uint64_t){0}, world.error,
                         sizeof world.error) == OK);
    CHECK(storage_sync(world.storage, world.error, sizeof world.error) == OK);
    return effects_bytes(batch);
}

/* Of a record that is damaged at its end nothing is added, and a PROBE adds only its index. */
static void check_bad_records(void)
{
    storage_mem_reset();
    start_following();
    struct effects *batch = effects_new();
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_BATCH, .index = 1, .term = 1});
    effects_put(batch, CF_DATA, BYTES("first"), BYTES("v"));
    effects_put(batch, CF_DATA, BYTES("second"), BYTES("v"));
    struct bytes record = append_record(batch);
    record.len--;
    CHECK(commit_follow(world.commit, record, 1) == ERR_STORE);
    CHECK(overlay_get(world.overlay, CF_DATA, BYTES("first"), &(struct slice){0}) == ERR_NOT_FOUND);
    CHECK(!overlay_dirty(world.overlay) && storage_committed(world.storage) == 0);
    record.len++;
    CHECK(commit_follow(world.commit, record, 1) == OK);
    effects_begin(batch, &(struct effects_header){.type = EFFECTS_PROBE, .index = 2, .term = 1});
    CHECK(commit_follow(world.commit, append_record(batch), 2) == OK);
    CHECK(storage_committed(world.storage) == 2);
    CHECK(overlay_get(world.overlay, CF_DATA, BYTES("first"), &(struct slice){0}) == OK);
    effects_free(batch);
    stop();
}

static void check_following(void)
{
    for (uint64_t seed = 1; seed <= sized(FOLLOW_SEEDS); seed++)
        CHECK(follow(seed));
}

/* Rows that are committed and not added yet count as applied with the next buffer, and are lost with a crash. */
static void check_control(void)
{
    uint64_t bad = 0;
    commits_early = true;
    for (uint64_t seed = 1; seed <= FOLLOW_SEEDS && !bad; seed++)
        bad += !follow(seed);
    commits_early = false;
    CHECK(bad);
}

int main(void)
{
    sim_init(1);
    storage_mem_reset();
    storage_mem_seed(1);
    sim_set_host("backend");
    world.loop = loop_new();
    world.env = store_env_new(&(struct store_env_options){0});
    check_tail(commit_apply);
    check_tail(rest);
    check_next_index();
    check_members();
    check_bad_records();
    check_following();
    check_control();
    store_env_free(world.env);
    loop_free(world.loop);
    sim_fini();
    printf("7 passed, 0 failed\n");
    return 0;
}
