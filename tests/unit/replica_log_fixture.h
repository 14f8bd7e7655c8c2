/*
 * replica_log_fixture.h - the store of a copy whose WAL has segments of three or four records: its file `replica`, and the records of a
 * group. It is on a disk that may fail (faulty_disk.h). The including program calls replica_setup() and replica_teardown() around each
 * test.
 */
#pragma once

#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/replica_file.h"
#include "backend/replica/replica_log.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/error.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/suite.h"

enum {
    OWN_ID = 7,
    OTHER_ID = 8,
    GROUP = 77,
    GENERATION = 2,
    BIG_BYTES = 1500,
    WAL_BYTES_MAX = 4 << 12, /* four segments */
};

static struct store_env *env;
static struct storage *storage;
static struct effects *batch;
static struct replica_record promised; /* the file `replica` */
static struct replica_found_log found;
static char error[512];
static char db[128];

/* ---- the store --------------------------------------------------------------------------------- */

static inline void open_storage(void)
{
    const struct store_options options = {.path = db,
                                          .memtable_bytes = 1 << 20,
                                          .memtables = 4,
                                          .max_open_files = -1,
                                          .compression = "none"};
    storage = storage_open(env, &options, WAL_BYTES_MAX, error, sizeof error);
    ck_assert_msg(storage != NULL, "%s", error);
}

static inline void reopen(void)
{
    storage_close(storage);
    open_storage();
}

/* The store of a copy: it has the file `replica`. */
static inline void replica_setup(void)
{
    static const struct store_env_options options = {.block_cache_bytes = 1 << 20,
                                                     .background_threads = 1};
    disk.random = 1;
    disk_heal();
    disk.fail_files = NULL;
    (void)snprintf(disk.dir, sizeof disk.dir, "/dev/shm/scree-log-%d", getpid());
    (void)snprintf(db, sizeof db, "%s/db", disk.dir);
    CHECK(mkdir(disk.dir, 0700) == 0 && mkdir(db, 0700) == 0);
    promised = (struct replica_record){
        .generation = GENERATION, .group = GROUP, .id = OWN_ID, .term = 1, .vote = OWN_ID};
    replica_file_close(replica_file_make(db, &promised, error, sizeof error));
    env = store_env_new(&options);
    batch = effects_new();
    open_storage();
}

static inline void replica_teardown(void)
{
    char command[128];
    disk_heal();
    storage_close(storage);
    store_env_free(env);
    effects_free(batch);
    (void)snprintf(command, sizeof command, "rm -r %s", disk.dir);
    ck_assert_int_eq(system(command), 0);
}

/* ---- records ----------------------------------------------------------------------------------- */

static inline struct members members_with(uint64_t epoch)
{
    return (struct members){.generation = GENERATION,
                            .group = GROUP,
                            .epoch = epoch,
                            .count = 2,
                            .list = {{OWN_ID, MEMBER_VOTER, BYTES("a:1")},
                                     {OTHER_ID, MEMBER_LEARNER, BYTES("host-of-b:7402")}}};
}

/* A record that is valid until the next one is made. The members: with this epoch, 0: none. */
static inline struct bytes record_of(uint64_t index, uint64_t term, uint64_t commit, uint64_t epoch)
{
    static const char value[BIG_BYTES];
    effects_begin(batch, &(struct effects_header){.type = epoch ? EFFECTS_MEMBERS : EFFECTS_BATCH});
    if (epoch) {
        struct members members = members_with(epoch);
        struct arena arena;
        arena_init(&arena);
        effects_put(batch, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, &members));
        arena_fini(&arena);
    } else {
        effects_put(batch, CF_SYSTEM, BYTES("test"), (struct bytes){value, sizeof value});
    }
    effects_set_numbers(batch, index, term, commit);
    return effects_bytes(batch);
}

/* Appends a record with its numbers, which commits those up to `commit`. */
static inline void append(uint64_t term, uint64_t commit, uint64_t epoch)
{
    uint64_t index = storage_written(storage) + 1, written;
    ck_assert_int_eq(storage_append(storage, record_of(index, term, commit, epoch), &written, error,
                                    sizeof error),
                     OK);
    ck_assert_uint_eq(written, index);
}

/* Records that commit themselves. */
static inline void append_committed(uint64_t term, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        append(term, storage_written(storage) + 1, 0);
}

static inline void append_tail(uint64_t term, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        append(term, 0, 0);
}

/* Records of one-copy times, then that of the members, which begins the group in term 1. */
static inline void found_group(unsigned before)
{
    append_committed(0, before);
    append(1, storage_written(storage) + 1, 5);
}

static inline void sync_log(void)
{
    ck_assert_int_eq(storage_sync(storage, error, sizeof error), OK);
}

/* ---- what a start finds ------------------------------------------------------------------------ */

static inline enum replica_log_found read_log(void)
{
    return replica_log_read(storage, &promised, &found, error, sizeof error);
}

/* A core takes what was found. */
static inline struct consensus core_of_found(void)
{
    struct consensus core;
    struct consensus_start start = {
        .id = OWN_ID, .random = 1, .election_us = 500000, .window = 100, .term = promised.term};
    replica_log_start(&found, &start);
    consensus_init(&core, &start, 1);
    return core;
}
