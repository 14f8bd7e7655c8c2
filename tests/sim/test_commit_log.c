/*
 * test_commit_log.c - commit.h with a log of several copies, which delays records, refuses them and loses them, while other copies lead in
 * between.
 *
 *   commands ─► batch ─► commit_log.append ─► the group: waits ─► own WAL ─► committed ─► commit_ended ─► answered
 *                                                │                 │
 *                                                └── step-down ────┴─► the next leader has it, or another record in its place, or none
 *                                                                      ─► commit_follow, PROBE ─► this copy leads again
 *
 * The group's log is the truth: what was answered is in it, and this copy shows its rows and no others, whenever no batch is in flight;
 * also after crashes, after tables could not be written, and after batches that the log refuses. When a cut is made, the tables have the
 * group's rows as of its record.
 */
#include "backend/format/effects.h"
#include "backend/format/encoding.h"
#include "backend/storage/commit.h"
#include "backend/storage/partition_store.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 200,
    STEPS = 400,
    KEYS = 30,
    RECORDS_MAX = STEPS * 8,
    RECORD_MAX = 600, /* bytes of a batch */
    BUFFER_BYTES = 8 << 10,
    SECOND_US = 1000 * 1000,
};

static struct {
    struct store_env *env;
    struct storage *storage;
    struct loop *loop;
    struct overlay *overlay;
    struct commit *commit;
    uint64_t term;
    uint64_t numbers; /* values that were written */
    bool is_full;     /* the log takes no records */
    bool is_cutting, is_leading;
    char error[256];
} world;

/* What the copies have agreed on. */
static struct {
    struct bytes records[RECORDS_MAX]; /* by index, copies */
    uint64_t committed;
    uint64_t values[KEYS];            /* 0: no row */
    uint64_t past[RECORDS_MAX][KEYS]; /* by index: the values then */
} group;

/* The record on its way; bytes.data NULL: none. */
static struct {
    struct bytes bytes;
    uint64_t index;
    bool is_written, is_committed;
} sent;

static struct {
    unsigned answered, failed, dropped, kept, replaced, early, crashes, too_large, waited, stalled;
    unsigned cuts_led, cuts_followed, cuts_failed;
} seen;

/* ---- records ----------------------------------------------------------------------------------- */

static struct bytes key_of(uint64_t number)
{
    static char keys[KEYS][4];
    (void)snprintf(keys[number], sizeof keys[number], "k%02u", (unsigned)number);
    return (struct bytes){keys[number], 3};
}

static struct bytes value_of(uint64_t number)
{
    static char value[32];
    return (struct bytes){
        value, (size_t)snprintf(value, sizeof value, "v%llu", (unsigned long long)number)};
}

static uint64_t number_of(struct bytes text)
{
    uint64_t number = 0;
    for (size_t i = 1; i < text.len; i++)
        if (text.data[i] >= '0' && text.data[i] <= '9')
            number = number * 10 + (uint64_t)(text.data[i] - '0');
    return number;
}

static struct bytes copy_of(struct bytes bytes)
{
    char *copy = malloc(bytes.len);
    CHECK(copy);
    memcpy(copy, bytes.data, bytes.len);
    return (struct bytes){copy, bytes.len};
}

static struct effects_header header_of(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
    return header;
}

static void agree_effect(const struct effect *effect)
{
    if (effect->cf != CF_DATA)
        return;
    uint64_t from = number_of(effect->key);
    if (effect->kind == EFFECT_DELETE_RANGE)
        for (uint64_t key = from; key < number_of(effect->to); key++)
            group.values[key] = 0;
    else
        group.values[from] = effect->kind == EFFECT_PUT ? number_of(effect->value) : 0;
}

/* The next record of all copies. */
static void agree(struct bytes record)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ &&
          header.index == group.committed + 1 && header.index < RECORDS_MAX);
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        agree_effect(&effect);
    group.records[++group.committed] = copy_of(record);
    memcpy(group.past[group.committed], group.values, sizeof group.values);
}

static void write_record(struct bytes record)
{
    uint64_t index;
    CHECK(storage_append(world.storage, record, &index, world.error, sizeof world.error) == OK);
    CHECK(index == header_of(record).index);
    CHECK(storage_sync(world.storage, world.error, sizeof world.error) == OK);
}

/* ---- the group, as the commit sees it ---------------------------------------------------------- */

static void write_sent(void)
{
    write_record(sent.bytes);
    sent.is_written = true;
}

static void commit_sent(void)
{
    agree(sent.bytes);
    sent.is_committed = true;
}

static int refuse(int err, char *error, size_t size)
{
    (void)snprintf(error, size, "refused");
    return err;
}

/* commit_log.append */
static int append(void *owner, struct bytes record, char *error, size_t size)
{
    struct effects_header header = header_of(record);
    CHECK(owner == &world && !sent.bytes.data);
    if (world.is_full || record.len > RECORD_MAX)
        return refuse(world.is_full ? ERR_DISK_FULL : ERR_STORE, error, size);
    CHECK(header.term == world.term && header.index == group.committed + 1 &&
          header.commit == group.committed);
    sent.bytes = copy_of(record);
    sent.index = header.index;
    sent.is_written = sent.is_committed = false;
    if (sim_random(8))
        return OK;
    seen.early++; /* it is committed before the commit thread has done its job */
    write_sent();
    commit_sent();
    commit_ended(world.commit, sent.index);
    return OK;
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    CHECK(owner == &world);
    seen.waited += world.is_full;
    return world.is_full ? refuse(ERR_DISK_FULL, error, size) : OK;
}

/* commit_log.has_committed */
static bool has_committed(void *owner, uint64_t index, uint64_t term)
{
    CHECK(owner == &world && term == world.term && index == group.committed + !sent.is_committed);
    return sent.is_committed;
}

static void forget_sent(void)
{
    free((char *)sent.bytes.data);
    memset(&sent, 0, sizeof sent);
}

/* ---- the partition ----------------------------------------------------------------------------- */

static void on_close(void *owner)
{
    (void)owner;
    const struct batch_header header = {.index = commit_next_index(world.commit),
                                        .epoch = world.term,
                                        .origin_ms = loop_wall_ms(world.loop)};
    overlay_set_header(world.overlay, (struct bytes){SYSTEM_HEADER, 1}, &header);
}

/* A batch is answered only when the group has this very record. */
static void on_commit(void *owner, uint64_t ticket, uint64_t index, int err)
{
    (void)owner, (void)ticket;
    if (err != OK) {
        CHECK(!sent.bytes.data && !index);
        seen.failed++;
        return;
    }
    CHECK(commit_went_through_log(world.commit) && sent.is_committed && index == sent.index);
    CHECK(bytes_equal(group.records[index], sent.bytes));
    CHECK(!commit_is_stalled(world.commit));
    seen.answered++;
    forget_sent();
}

static bool on_recover(void *owner)
{
    (void)owner;
    return true;
}

static void on_room(void *owner)
{
    (void)owner;
}

static void use_log(void)
{
    commit_use_log(world.commit, &(struct commit_log){.append = append,
                                                      .may_append = may_append,
                                                      .has_committed = has_committed,
                                                      .owner = &world});
}

static void start(void)
{
    const struct commit_options options = {
        .durability = DURABILITY_ALWAYS,
        .on_close = on_close,
        .on_commit = on_commit,
        .on_recover = on_recover,
        .on_room = on_room,
    };
    world.storage = storage_open(world.env, &(struct store_options){.path = "commit"},
                                 WAL_MEM_LIMIT, world.error, sizeof world.error);
    CHECK(world.storage && storage_is_replicated(world.storage));
    CHECK(storage_committed(world.storage) <= group.committed);
    world.overlay = overlay_new(storage_store(world.storage));
    overlay_use_buffers(world.overlay, BUFFER_BYTES);
    world.commit = commit_new(world.loop, world.overlay, world.storage, &options);
    commit_set_following(world.commit, true);
}

static void stop(void)
{
    commit_cut_cancel(world.commit);
    world.is_cutting = false;
    commit_free(world.commit);
    overlay_free(world.overlay);
    storage_close(world.storage);
}

/* ---- cuts -------------------------------------------------------------------------------------- */

static void check_table(const uint64_t *values, uint64_t key)
{
    struct slice value;
    int err = store_get(storage_store(world.storage), CF_DATA, key_of(key), &value);
    CHECK(err == (values[key] ? OK : ERR_NOT_FOUND));
    if (err != OK)
        return;
    CHECK(number_of(slice_bytes(&value)) == values[key]);
    slice_release(&value);
}

/* commit_cut_fn */
static void on_cut(void *owner, uint64_t index)
{
    CHECK(owner == &world && world.is_cutting && index <= group.committed);
    world.is_cutting = false;
    for (uint64_t key = 0; index && key < KEYS; key++)
        check_table(group.past[index], key);
    seen.cuts_failed += !index;
    seen.cuts_led += index && world.is_leading;
    seen.cuts_followed += index && !world.is_leading;
}

static void cut(void)
{
    if (world.is_cutting)
        return;
    world.is_cutting = true;
    commit_cut(world.commit, on_cut, &world);
}

/* ---- other leaders ----------------------------------------------------------------------------- */

static struct effects *record_begin(enum effects_type type)
{
    struct effects *effects = effects_new();
    effects_begin(effects,
                  &(struct effects_header){.type = type, .origin_ms = loop_wall_ms(world.loop)});
    return effects;
}

/* The group's next record, on this disk too. */
static void record_end(struct effects *effects)
{
    effects_set_numbers(effects, group.committed + 1, world.term, group.committed);
    write_record(effects_bytes(effects));
    agree(effects_bytes(effects));
    effects_free(effects);
}

static void write_other(void)
{
    struct effects *effects = record_begin(EFFECTS_BATCH);
    uint64_t key = sim_random(KEYS);
    if (sim_random(4))
        effects_put(effects, CF_DATA, key_of(key), value_of(++world.numbers));
    else
        effects_delete(effects, CF_DATA, key_of(key));
    record_end(effects);
}

/* What the next leader makes of the record that was on its way, and of this copy's log. */
static void decide_sent(void)
{
    bool is_kept = sent.bytes.data && (sent.is_committed || sim_random(2));
    if (is_kept && !sent.is_written)
        write_sent();
    if (is_kept && !sent.is_committed)
        commit_sent();
    seen.kept += is_kept;
    seen.replaced += sent.bytes.data && !is_kept;
    if (storage_written(world.storage) > group.committed)
        CHECK(storage_truncate(world.storage, group.committed, world.error, sizeof world.error) ==
              OK);
    forget_sent();
}

/* Adds the next record to the rows, also for a while when the tables' disk is full. After a recovery the tables may have more records. */
static void follow_next(void)
{
    uint64_t index = storage_committed(world.storage) + 1;
    bool is_added = commit_follow(world.commit, group.records[index], index) == OK;
    if (is_added && (!commit_follow_is_broken(world.commit) || sim_random(4)))
        return;
    CHECK(commit_follow_is_broken(world.commit));
    sim_run_for(SECOND_US);
    (void)commit_follow_recover(world.commit);
}

static void follow_all(void)
{
    world.is_leading = false;
    while (storage_committed(world.storage) < group.committed) {
        if (sim_random(4) == 0)
            cut();
        if (world.is_cutting || commit_is_full(world.commit, WAL_MEM_LIMIT) || sim_random(3) == 0)
            sim_run_for(sim_random(SECOND_US));
        else
            follow_next();
    }
}

/* Follows other leaders, then leads itself. */
static void lead_again(void)
{
    decide_sent();
    for (uint64_t leaders = sim_random(3); leaders; leaders--) {
        world.term++;
        record_end(record_begin(EFFECTS_PROBE));
        for (uint64_t count = sim_random(4); count; count--)
            write_other();
        follow_all();
    }
    world.term++;
    record_end(record_begin(EFFECTS_PROBE));
    follow_all();
    CHECK(!commit_uses_log(world.commit));
    commit_set_following(world.commit, false);
    use_log();
    world.is_leading = true;
}

static void step_down(void)
{
    uint64_t open = overlay_ticket(world.overlay);
    uint64_t ticket = commit_step_down(world.commit);
    CHECK(ticket == 0 || ticket == open - 1);
    CHECK(ticket || !sent.bytes.data);
    CHECK(commit_is_failed(world.commit, NULL) && !overlay_dirty(world.overlay));
    seen.dropped += ticket != 0;
    lead_again();
}

static void crash(void)
{
    seen.crashes++;
    sim_crash_host("backend");
    storage_mem_crash(world.storage);
    stop();
    loop_free(world.loop);
    sim_set_host("backend");
    world.loop = loop_new();
    start();
    lead_again();
}

/* ---- steps ------------------------------------------------------------------------------------- */

static void write_rows(void)
{
    if (commit_is_failed(world.commit, NULL) || commit_is_full(world.commit, WAL_MEM_LIMIT))
        return;
    bool is_large = sim_random(40) == 0;
    uint64_t from = sim_random(KEYS);
    seen.too_large += is_large;
    for (uint64_t count = is_large ? RECORD_MAX : 1 + sim_random(3); count; count--) {
        uint64_t key = is_large ? count % KEYS : sim_random(KEYS);
        overlay_put(world.overlay, CF_DATA, key_of(key), value_of(++world.numbers));
    }
    if (is_large) {
        static const char bytes[RECORD_MAX];
        overlay_put(world.overlay, CF_SYSTEM, BYTES("large"), (struct bytes){bytes, sizeof bytes});
    }
    if (sim_random(8) == 0)
        overlay_delete(world.overlay, CF_DATA, key_of(sim_random(KEYS)));
    if (sim_random(16) == 0)
        overlay_delete_range(world.overlay, CF_DATA, key_of(from),
                             key_of(from + sim_random(KEYS - from)));
    if (sim_random(16) == 0)
        cut();
    overlay_savepoint(world.overlay);
}

static void let_group_work(void)
{
    if (!sent.bytes.data)
        return;
    if (!sent.is_written)
        write_sent();
    else if (!sent.is_committed && sim_random(3))
        commit_sent();
    else
        commit_ended(world.commit, group.committed); /* may be the record before */
}

static void check_key(uint64_t key)
{
    struct slice value;
    int err = overlay_get(world.overlay, CF_DATA, key_of(key), &value);
    CHECK(err == (group.values[key] ? OK : ERR_NOT_FOUND));
    if (err != OK)
        return;
    CHECK(number_of(slice_bytes(&value)) == group.values[key]);
    slice_release(&value);
}

/* The group takes the record late: no more is written until then. */
static void stall(void)
{
    enum { STALLS_US = 6 * SECOND_US };
    if (!sent.bytes.data)
        return;
    sim_run_for(STALLS_US);
    if (!commit_watch_log(world.commit))
        return;
    CHECK(sent.bytes.data && commit_is_failed(world.commit, NULL) &&
          commit_error(world.commit) == ERR_STALLED && !commit_is_full(world.commit, 0));
    seen.stalled++;
}

/* When no batch is in flight or open, this copy has the group's rows. */
static void check_rows(void)
{
    uint64_t ticket = commit_durable_in_flight(world.commit);
    CHECK(!ticket || (sent.is_committed && ticket == overlay_ticket(world.overlay) - 1));
    if (sent.bytes.data || !commit_is_idle(world.commit))
        return;
    for (uint64_t key = 0; key < KEYS; key++)
        check_key(key);
}

static void fail_tables(void)
{
    store_mem_fail_apply(storage_store(world.storage), 1 + sim_random(3),
                         sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
}

static void step(void)
{
    switch (sim_random(20)) {
    case 0:
        if (sim_random(4) == 0)
            crash();
        break;
    case 1:
        step_down();
        break;
    case 2:
        (void)commit_apply(world.commit);
        world.is_full = sim_random(4) == 0;
        break;
    case 3:
        if (sim_random(4) == 0)
            fail_tables();
        break;
    case 4:
        if (sim_random(2))
            stall();
        else
            commit_rest(world.commit);
        break;
    case 5:
        if (store_state(storage_store(world.storage)) == STORE_SOUND)
            (void)storage_flush(world.storage, world.error, sizeof world.error);
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        write_rows();
        break;
    case 10:
    case 11:
    case 12:
        sim_run_for(sim_random(sim_random(4) ? 2000 : SECOND_US));
        break;
    case 13:
    case 14:
    case 15:
    case 16:
        let_group_work();
        break;
    default:
        (void)commit_turn_end(world.commit);
        break;
    }
    check_rows();
}

/* The store is one of several copies: its row is in a file, and its log begins with that record. */
static void found(void)
{
    struct storage *storage = storage_open(world.env, &(struct store_options){.path = "commit"},
                                           WAL_MEM_LIMIT, world.error, sizeof world.error);
    CHECK(storage);
    struct effects *effects = record_begin(EFFECTS_BATCH);
    effects_put(effects, CF_SYSTEM, BYTES("g"), BYTES("members"));
    CHECK(storage_write(storage, effects, true, world.error, sizeof world.error) == OK);
    effects_set_numbers(effects, 1, 0, 1);
    agree(effects_bytes(effects));
    effects_free(effects);
    CHECK(storage_flush(storage, world.error, sizeof world.error) == OK);
    storage_close(storage);
}

static void run(uint64_t seed)
{
    sim_init(seed);
    storage_mem_reset();
    storage_mem_seed(seed);
    sim_set_host("backend");
    world.loop = loop_new();
    world.env = store_env_new(&(struct store_env_options){0});
    world.term = 1;
    found();
    start();
    lead_again();
    for (unsigned i = 0; i < STEPS; i++)
        step();
    step_down();
    check_rows();
    stop();
    store_env_free(world.env);
    loop_free(world.loop);
    sim_fini();
    for (uint64_t i = 1; i <= group.committed; i++)
        free((char *)group.records[i].data);
    memset(&group, 0, sizeof group);
}

int main(void)
{
    log_set_level(LOG_ERROR + 1);
    for (uint64_t seed = 1; seed <= sized(SEEDS); seed++)
        run(seed);
    CHECK(seen.answered && seen.failed && seen.dropped && seen.kept && seen.replaced &&
          seen.early && seen.crashes && seen.waited && seen.stalled && seen.cuts_led &&
          seen.cuts_followed && seen.cuts_failed);
    printf("answered %u failed %u dropped %u kept %u replaced %u early %u crashes %u\n",
           seen.answered, seen.failed, seen.dropped, seen.kept, seen.replaced, seen.early,
           seen.crashes);
    printf("1 passed, 0 failed\n");
    return 0;
}
