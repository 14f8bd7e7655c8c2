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

static void on_commit(void *owner, uint64_t ticket, int err)
{
    (void)owner, (void)ticket;
    CHECK(err == OK);
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

static bool rest(struct commit *commit)
{
    commit_rest(commit);
    commit_rest(commit);
    return true;
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
    store_env_free(world.env);
    loop_free(world.loop);
    sim_fini();
    printf("2 passed, 0 failed\n");
    return 0;
}
