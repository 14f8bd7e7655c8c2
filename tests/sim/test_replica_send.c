/*
 * test_replica_send.c - the log of a leader reaches a learner over links that fail (sim_peer.h): connections that are cut or lose a direction,
 * hosts that are down or frozen, frames that are doubled, exchanged or late, copies that end and start again, and a log whose beginning
 * is trimmed before the learner has it.
 *
 *   a: batches ─► wal ─► core ─► replica_send ══ link ══► replica_receive ─► core ─► wal :b        replies go the same way back
 *
 *   test_replica_send [seed]      one world, or SEEDS of them
 *
 * In half of the worlds batches are in the leader's memory too (own_records.h), so they leave before they are durable there.
 *
 * In the end the learner's log is equal to the leader's, byte for byte, and has the same commit index. In worlds without faults it has heard
 * each record once.
 */
#include "backend/context/backend_metrics.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/replica/own_records.h"
#include "backend/replica/replica_receive.h"
#include "backend/replica/replica_send.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/metrics.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_peer.h"
#include "tests/sim/wal_mem.h"
#include "tests/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 300,
    SIDES = 2,
    LEADER_ID = 1,
    LEARNER_ID = 2,
    E_US = 500000,
    TURNS = 400, /* of a world, before faults end */
    TURNS_MAX = 60000,
    TURN_US_MAX = 5000,
    CONNECTIONS_MAX = 64,
    SECOND_US = 1000000,
};

static const struct replica_group group = {1, 77};

/* What a connection to a side has received. */
struct connection {
    const struct peer_incoming *incoming;
    struct replica_receive *receive;
};

/* A copy and its process. */
struct side {
    const char *name;
    uint64_t id;
    struct sim_peer host;
    struct wal *wal;
    char path[16];
    struct consensus core;
    uint64_t term, vote;      /* durable */
    uint64_t base, base_term; /* likewise: the log begins behind it */
    uint64_t filed;           /* commit index that is stored */
    struct replica_send *send;
    struct connection connections[CONNECTIONS_MAX];
    unsigned saved; /* saves that the core has not heard of yet */
    bool was_up, needs_sync, must_cut;
    uint64_t gone_before; /* as replica_send has reported; 0: not */
    struct consensus_message snapshot;
    uint64_t records_heard;
    struct own_records own;
};

static struct side sides[SIDES];
static struct side *const leader = &sides[0], *const learner = &sides[1];
static struct sim_relays relays;
static struct shard_map *map;
static struct labels *links;
static struct arena arena;
static uint32_t window;
static bool is_faulty, has_own;                                   /* is this world, has it? */
static uint64_t snapshots, restarts, breaks, long_records, early; /* in all worlds */

/* ---- records ----------------------------------------------------------------------------------- */

static struct bytes members_row(void)
{
    const struct members members = {
        .generation = group.generation,
        .group = group.group,
        .epoch = 1,
        .count = SIDES,
        .list = {{.id = LEADER_ID, .kind = MEMBER_VOTER, .address = {"a:1", 3}},
                 {.id = LEARNER_ID, .kind = MEMBER_LEARNER, .address = {"b:1", 3}}}};
    return members_row_write(&arena, &members);
}

static void keep_own(struct side *side, uint64_t index, struct bytes bytes)
{
    struct own_record *record = own_record_new(bytes);
    own_records_add(&side->own, index, record);
    own_record_end(record);
}

static void write_record(struct side *side, const struct effects_header *header, size_t len)
{
    char error[200];
    uint64_t index;
    char *value = malloc(len + 1);
    CHECK(value);
    memset(value, (int)sim_random(256), len);
    struct effects *effects = effects_new();
    effects_begin(effects, header);
    if (header->type == EFFECTS_MEMBERS)
        effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row());
    else if (header->type == EFFECTS_BATCH)
        effects_put(effects, CF_SYSTEM, BYTES("x"), (struct bytes){value, len});
    effects_set_numbers(effects, wal_last(side->wal) + 1, header->term, side->core.committed);
    CHECK(wal_write(side->wal, effects_bytes(effects), &index, error, sizeof error) == OK);
    wal_show(side->wal);
    if (has_own && header->type == EFFECTS_BATCH)
        keep_own(side, index, effects_bytes(effects));
    effects_free(effects);
    free(value);
    side->needs_sync = true;
}

static size_t random_size(void)
{
    switch (sim_random(10)) {
    case 0:
        return REPLICA_RECORDS_BYTES - 100 + sim_random(100);
    case 1:
        return sim_random(6 * REPLICA_RECORDS_BYTES);
    case 2:
        return sim_random(REPLICA_RECORDS_BYTES);
    default:
        return sim_random(2000);
    }
}

/* ---- events ------------------------------------------------------------------------------------ */

static void write_heard(struct side *side, const struct consensus_update *update,
                        const struct replica_heard *heard)
{
    struct bytes rest = heard->records, record;
    char error[200];
    bool is_in_parts;
    uint64_t written;
    for (uint64_t index = heard->message->index + 1;
         replica_record_next(&rest, &record, &is_in_parts); index++) {
        if (index < update->append_first || index > update->append_last)
            continue;
        CHECK(wal_write(side->wal, record, &written, error, sizeof error) == OK);
        CHECK(written == index);
    }
    wal_show(side->wal);
    side->needs_sync = true;
}

/* A save is durable at once. */
static void obey(struct side *side, const struct consensus_update *update,
                 const struct replica_heard *heard)
{
    char error[200];
    CHECK(update->fault == CONSENSUS_WELL);
    if (update->has_save) {
        side->term = update->save_term;
        side->vote = update->save_vote;
        side->saved++;
    }
    if (update->has_truncate)
        CHECK(wal_truncate(side->wal, update->truncate_after, error, sizeof error) == OK);
    if (update->append == CONSENSUS_APPEND_PROBE)
        write_record(side, &(struct effects_header){.type = EFFECTS_PROBE, .term = update->term},
                     0);
    if (update->append == CONSENSUS_APPEND_RECORDS)
        write_heard(side, update, heard);
    for (unsigned i = 0; i < update->message_count; i++)
        replica_send_message(side->send, &update->messages[i]);
}

static void step_once(struct side *side, struct consensus_event event,
                      const struct replica_heard *heard)
{
    struct consensus_update update;
    event.now_us = clock_mono_us();
    consensus_step(&side->core, &event, &update);
    obey(side, &update, heard);
}

static void step(struct side *side, struct consensus_event event, const struct replica_heard *heard)
{
    step_once(side, event, heard);
    while (side->saved) {
        side->saved--;
        step_once(side, (struct consensus_event){.kind = CONSENSUS_SAVED}, NULL);
    }
}

static void note_reply(struct side *side, const struct consensus_message *message)
{
    if (message->kind == CONSENSUS_APPEND_REPLY && !message->is_good)
        replica_send_refused(side->send);
}

/* replica_receive_options */
static void on_heard(void *owner, const struct replica_heard *heard)
{
    struct side *side = owner;
    side->records_heard += heard->message->count;
    early += heard->message->count &&
             heard->message->index + heard->message->count > leader->core.synced;
    if (heard->message->kind == CONSENSUS_SNAPSHOT) {
        side->snapshot = *heard->message;
        return;
    }
    note_reply(side, heard->message);
    step(side,
         (struct consensus_event){
             .kind = CONSENSUS_MESSAGE, .message = heard->message, .members = heard->members},
         heard);
}

static void on_part(void *owner, uint64_t from, uint64_t term)
{
    long_records++;
    step(owner, (struct consensus_event){.kind = CONSENSUS_HEARD, .id = from, .term = term}, NULL);
}

/* replica_send_options */
static void on_gone(void *owner, uint64_t first)
{
    struct side *side = owner;
    side->gone_before = first;
}

/* ---- connections ------------------------------------------------------------------------------- */

static struct connection *connection_of(struct side *side, const struct peer_incoming *incoming)
{
    unsigned at = 0;
    while (at < CONNECTIONS_MAX && side->connections[at].incoming != incoming)
        at++;
    return at < CONNECTIONS_MAX ? &side->connections[at] : NULL;
}

static struct connection *connection_begin(struct side *side, const struct peer_incoming *incoming)
{
    struct connection *connection = connection_of(side, NULL);
    const struct replica_receive_options options = {
        .group = group, .id = side->id, .on_heard = on_heard, .on_part = on_part, .owner = side};
    CHECK(connection);
    *connection = (struct connection){incoming, replica_receive_new(&options)};
    return connection;
}

/* Frames are exchanged by faulty relays only: then a part is not the next one. */
static struct refusal handle(void *owner, struct peer_incoming *incoming,
                             const struct peer_frame *frame)
{
    struct side *side = owner;
    struct connection *connection = connection_of(side, incoming);
    if (!connection)
        connection = connection_begin(side, incoming);
    bool is_core = frame->kind == PEER_REPLICA_CORE;
    CHECK(is_core || frame->kind == PEER_REPLICA_PART);
    enum replica_received result = is_core
                                       ? replica_receive_core(connection->receive, frame->payload)
                                       : replica_receive_part(connection->receive, frame->payload);
    CHECK(result == REPLICA_RECEIVED || is_faulty);
    side->must_cut |= result != REPLICA_RECEIVED;
    return NO_REFUSAL;
}

static void closed(void *owner, struct peer_incoming *incoming)
{
    struct connection *connection = connection_of(owner, incoming);
    if (!connection)
        return;
    replica_receive_free(connection->receive);
    *connection = (struct connection){0};
}

static struct peer_link *link_of(const struct side *side)
{
    return peer_set_find(side->host.set, side == leader ? BYTES("b") : BYTES("a"));
}

/* An announcement may be lost with its connection. Without a report the core waits for the snapshot without end. */
static void report_snapshot(uint64_t index)
{
    step(
        leader,
        (struct consensus_event){.kind = CONSENSUS_SNAPSHOT_SENT, .id = LEARNER_ID, .index = index},
        NULL);
}

static void watch_link(struct side *side)
{
    bool is_up = link_of(side)->state == PEER_LINK_UP;
    if (!side->was_up && is_up && side == leader)
        report_snapshot(0);
    if (side->was_up && !is_up) {
        uint64_t other = side == leader ? LEARNER_ID : LEADER_ID;
        breaks++;
        replica_send_drop(side->send);
        step(side, (struct consensus_event){.kind = CONSENSUS_DISCONNECTED, .id = other}, NULL);
    }
    side->was_up = is_up;
}

/* ---- life of a copy ---------------------------------------------------------------------------- */

static unsigned read_runs(const struct side *side, struct term_run runs[TERM_RUNS_MAX],
                          struct consensus_members *members)
{
    char error[200];
    struct effects_header header;
    struct effects_reader reader;
    struct bytes record;
    struct members row;
    uint64_t index, term = side->base_term;
    unsigned count = 0;
    struct wal_cursor *cursor = wal_cursor_new(side->wal, side->base + 1);
    CHECK(cursor);
    while (wal_cursor_next(cursor, &index, &record, error, sizeof error) == OK) {
        CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
        if (header.type == EFFECTS_MEMBERS && members_of_record(record, &row))
            *members = replica_core_members(&row, index);
        if (header.term != term)
            runs[count++] = (struct term_run){index, header.term};
        term = header.term;
    }
    wal_cursor_free(cursor);
    return count;
}

/* The log begins behind its first record, whose term can be read. */
static void find_base(struct side *side)
{
    char error[200];
    struct effects_header header;
    struct effects_reader reader;
    struct bytes record;
    uint64_t first = wal_first(side->wal);
    if (first <= side->base + 1)
        return;
    struct wal_cursor *cursor = wal_cursor_new(side->wal, first);
    CHECK(cursor && wal_cursor_next(cursor, &side->base, &record, error, sizeof error) == OK);
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
    side->base_term = header.term;
    wal_cursor_free(cursor);
}

static void start_core(struct side *side)
{
    struct term_run runs[TERM_RUNS_MAX];
    struct members row;
    CHECK(members_row_read(members_row(), &row));
    find_base(side);
    struct consensus_start start = {
        .id = side->id,
        .random = sim_random(UINT64_MAX),
        .election_us = E_US,
        .window = window,
        .term = side->term,
        .vote = side->vote,
        .base = side->base,
        .base_term = side->base_term,
        .run = runs,
        .last = wal_last(side->wal) > side->base ? wal_last(side->wal) : side->base,
        .committed = side->filed > side->base ? side->filed : side->base,
        .members = replica_core_members(&row, 1),
    };
    start.run_count = read_runs(side, runs, &start.members);
    start.members_before = start.members;
    consensus_init(&side->core, &start, clock_mono_us());
    side->needs_sync = true;
    side->saved = 0;
}

static void start_send(struct side *side)
{
    const struct replica_send_options options = {.wal = side->wal,
                                                 .core = &side->core,
                                                 .own = &side->own,
                                                 .link = link_of(side),
                                                 .group = group,
                                                 .on_gone = on_gone,
                                                 .owner = side};
    side->send = replica_send_new(&options);
}

static bool no_record(void *owner, uint64_t index, struct bytes batch, char *error, size_t size)
{
    (void)owner, (void)index, (void)batch, (void)error, (void)size;
    return true;
}

static struct wal *open_wal(const struct side *side, uint64_t trimmed)
{
    char error[200];
    const struct wal_options options = {
        .path = side->path, .file_bytes = 1 << 20, .trimmed = trimmed};
    struct wal *wal = wal_open(&options, no_record, NULL, error, sizeof error);
    CHECK(wal);
    return wal;
}

/* The process of a copy is killed, and another one starts with what is on the disk and with new connections. */
static void restart(struct side *side)
{
    restarts++;
    replica_send_free(side->send);
    own_records_drop(&side->own);
    wal_mem_crash(side->wal);
    wal_close(side->wal);
    sim_cut(side->name);
    side->wal = open_wal(side, 0);
    side->was_up = false;
    start_core(side);
    start_send(side);
}

/* The learner gets the leader's state as of the announced record, at once. */
static void install(void)
{
    const struct consensus_message *message = &learner->snapshot;
    if (!consensus_may_install(&learner->core, message->term, message->index,
                               message->index_term)) {
        learner->snapshot.kind = 0;
        report_snapshot(0);
        return;
    }
    snapshots++;
    replica_send_free(learner->send);
    wal_close(learner->wal);
    learner->base = learner->filed = message->index;
    learner->base_term = message->index_term;
    (void)snprintf(learner->path, sizeof learner->path, "b%" PRIu64, snapshots);
    learner->wal = open_wal(learner, learner->base);
    start_core(learner);
    start_send(learner);
    learner->snapshot.kind = 0;
    report_snapshot(learner->base);
}

/* ---- turns ------------------------------------------------------------------------------------- */

static void sync_log(struct side *side)
{
    char error[200];
    if (!side->needs_sync)
        return;
    uint32_t cuts = side->core.cuts;
    CHECK(wal_sync(side->wal, error, sizeof error) == OK);
    side->needs_sync = false;
    step(side,
         (struct consensus_event){
             .kind = CONSENSUS_SYNCED, .index = wal_last(side->wal), .cuts = cuts},
         NULL);
    own_records_synced(&side->own, side->core.synced);
}

static void turn_of(struct side *side)
{
    sim_set_host(side->name);
    watch_link(side);
    if (clock_mono_us() >= consensus_next_us(&side->core))
        step(side, (struct consensus_event){.kind = CONSENSUS_TICK}, NULL);
    if (side->core.role == CONSENSUS_LEADING || sim_random(3) == 0)
        sync_log(side);
    if (side->core.role == CONSENSUS_SERVING)
        side->filed = side->core.committed;
    if (side->gone_before) {
        step(side,
             (struct consensus_event){.kind = CONSENSUS_TRIMMED, .index = side->gone_before - 1},
             NULL);
        side->gone_before = 0;
    }
    replica_send_turn(side->send);
}

static void write_batch(void)
{
    if (leader->core.role != CONSENSUS_SERVING)
        return;
    const struct effects_header header = {.type = EFFECTS_BATCH, .term = leader->core.term};
    write_record(leader, &header, random_size());
    step(leader,
         (struct consensus_event){
             .kind = CONSENSUS_APPENDED, .term = leader->core.term, .index = wal_last(leader->wal)},
         NULL);
}

static void turn(void)
{
    sim_run_for(sim_random(TURN_US_MAX));
    for (unsigned i = 0; i < SIDES; i++) {
        turn_of(&sides[i]);
        if (sides[i].must_cut)
            sim_cut("b");
        sides[i].must_cut = false;
    }
    if (learner->snapshot.kind)
        install();
}

static void make_fault(void)
{
    struct side *side = &sides[sim_random(SIDES)];
    switch (sim_random(7)) {
    case 0:
        sim_cut(side->name);
        break;
    case 1:
        sim_freeze(side->name, 1000 * sim_random(3000));
        break;
    case 2:
        sim_host_down("b");
        sim_run_for(sim_random(SECOND_US));
        sim_host_up("b");
        break;
    case 3:
        restart(side);
        break;
    case 4:
        if (leader->core.committed > 1)
            wal_trim(leader->wal, sim_random(leader->core.committed));
        break;
    default:
        sim_relays_mute(&relays);
        break;
    }
}

/* ---- worlds ------------------------------------------------------------------------------------ */

static void start_side(unsigned at)
{
    static const char *const names[SIDES] = {"a", "b"};
    struct side *side = &sides[at];
    char error[200];
    *side = (struct side){.name = names[at], .id = at + 1, .term = 1, .vote = LEADER_ID};
    const struct sim_peer_options options = {
        .name = side->name,
        .index = at,
        .links = links,
        .map = map,
        .relays = &relays,
        .options = {.output_max = 32 << 20, .requests_max = 64},
        .requests = {.handle = handle, .on_closed = closed},
        .owner = side,
    };
    (void)snprintf(side->path, sizeof side->path, "%s", side->name);
    sim_peer_start(&side->host, &options);
    side->wal = open_wal(side, 0);
    write_record(side, &(struct effects_header){.type = EFFECTS_MEMBERS, .term = 1}, 0);
    CHECK(wal_sync(side->wal, error, sizeof error) == OK);
    side->filed = 1;
    start_core(side);
    start_send(side);
}

static void start_world(uint64_t seed)
{
    static const char *const addresses[] = {"relay-a:1", "relay-b:1"};
    sim_init(seed);
    sim_knobs_shuffle();
    sim_knobs()->delay_us_max = 5000;
    sim_knobs()->pipe_bytes = 256 << 10;
    if (!is_faulty)
        sim_knobs()->slow_ppm = 0;
    wal_mem_reset();
    wal_mem_seed(seed);
    map = shard_map_even(addresses, 2);
    links = labels_new(LINK_WORDS, SIDES);
    sim_relays_init(&relays);
    relays.is_faulty = is_faulty;
    window = 1 + (uint32_t)sim_random(64);
    for (unsigned i = 0; i < SIDES; i++)
        start_side(i);
}

static void end_world(void)
{
    for (unsigned i = 0; i < SIDES; i++) {
        sim_peer_stop(&sides[i].host);
        replica_send_free(sides[i].send);
        own_records_drop(&sides[i].own);
        wal_close(sides[i].wal);
    }
    sim_relays_stop(&relays);
    sim_run_for(SECOND_US);
    for (unsigned i = 0; i < SIDES; i++)
        sim_peer_fini(&sides[i].host);
    sim_relays_fini(&relays);
    shard_map_unref(map);
    labels_free(links);
    sim_fini();
    wal_mem_reset();
}

static bool is_level(void)
{
    const struct consensus *a = &leader->core, *b = &learner->core;
    return a->role == CONSENSUS_SERVING && a->committed == a->last && b->last == a->last &&
           b->committed == a->last && b->synced == a->last;
}

static void check_equal(void)
{
    char error[200];
    uint64_t first =
        wal_first(leader->wal) > learner->base + 1 ? wal_first(leader->wal) : learner->base + 1;
    uint64_t index[SIDES];
    struct bytes record[SIDES];
    struct wal_cursor *cursor[SIDES];
    for (unsigned i = 0; i < SIDES; i++)
        CHECK((cursor[i] = wal_cursor_new(sides[i].wal, first)));
    for (uint64_t at = first; at <= wal_last(leader->wal); at++) {
        for (unsigned i = 0; i < SIDES; i++)
            CHECK(wal_cursor_next(cursor[i], &index[i], &record[i], error, sizeof error) == OK);
        CHECK(index[0] == at && index[1] == at && bytes_equal(record[0], record[1]));
    }
    for (unsigned i = 0; i < SIDES; i++)
        wal_cursor_free(cursor[i]);
}

static void catch_up(void)
{
    unsigned turns = 0;
    relays.is_faulty = false;
    sim_knobs()->slow_ppm = 0;
    do {
        turn();
        CHECK(turns++ < TURNS_MAX);
    } while (!is_level());
}

static void run_world(uint64_t seed)
{
    is_faulty = seed % 3 != 0;
    has_own = seed % 2;
    start_world(seed);
    for (unsigned i = 0; i < TURNS; i++) {
        turn();
        if (sim_random(8) == 0)
            write_batch();
        if (is_faulty && sim_random(40) == 0)
            make_fault();
    }
    catch_up();
    check_equal();
    CHECK(is_faulty || learner->records_heard == wal_last(learner->wal) - 1);
    end_world();
}

int main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    arena_init(&arena);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t last = argc > 1 ? first : sized(SEEDS);
    for (uint64_t seed = first; seed <= last; seed++) {
        fflush(stdout);
        run_world(seed);
        arena_reset(&arena);
    }
    arena_fini(&arena);
    if (argc > 1)
        return 0;
    CHECK(snapshots && restarts && breaks && long_records && early);
    printf("test_replica_send: %" PRIu64 " breaks, %" PRIu64 " restarts, %" PRIu64
           " snapshots, %" PRIu64 " parts of long records, %" PRIu64 " messages before the sync\n",
           breaks, restarts, snapshots, long_records, early);
    return 0;
}
