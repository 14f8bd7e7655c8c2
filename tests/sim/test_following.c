/*
 * test_following.c - a partition gets the records of another one, as a copy that follows (backend/partition/leadership.h), and then leads.
 *
 *   commands ─► leader ─► log ──some records──► the follower's log ─ leadership_committed ─► the same replies to READONLY clients
 *
 *   test_following [seed]      one seed, or SEEDS
 *
 * (1) after each record the follower replies to reads what the leader replied when it was the last one;
 * (2) it writes nothing, whatever clients send and however much time passes: expired keys are hidden, and stay;
 * (3) writes, and reads without READONLY, are sent to the leader;
 * (4) its tables fail, and its process ends, at any time: it goes on behind what it has;
 * (5) when it serves, it has all, its batches are of its term, and counters go on;
 * (6) a transaction over shards of which the leader had applied a part is applied when it serves, and not before;
 *     with replica-reads = fresh its keys are not read at the follower, and others by the time of the leader's answer;
 * (7) it starts on tables that have a part of a batch;
 * (8) a backup that the follower makes, and that ends at a moment of the leader (backend/backup/backup_moment.h) has what the leader had then, however far the
 *     follower is when its tables are linked, and when the log is copied.
 */
#include "backend/backup/backup_moment.h"
#include "backend/backup/store_cut.h"
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/fresh_reads.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/format/transaction_record.h"
#include "backend/partition/leadership.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 60,
    COMMANDS = 120,
    RECORDS_MAX = 1000,
    KEYS = 6,
    TEXT_BYTES = 1 << 16,
    STEPS_MAX = 20000000,
    SECOND_US = 1000000,
    TERM = 7,
    BACKUPS = 3, /* of a seed */
};

struct client {
    struct stream *stream;
    struct resp_skip skip;
    bool is_open, is_answered;
    size_t len;
    char reply[TEXT_BYTES];
};

struct node {
    const char *host, *address;
    unsigned index;
    struct loop *loop;
    struct partition *partition;
    struct client client;
};

static struct backend_config config;
static struct process *process;
static struct loop *clients;
static struct timer *turns; /* of the clients' loop: streams send at the end of a turn */
static struct node leader, follower;
static struct wal_cursor
    *tail; /* of the leader's log, at the first record that the follower has not */
static char
    *expected[RECORDS_MAX]; /* replies of the leader after this record; NULL: it was not asked */

static void take_turn(void *owner)
{
    (void)owner;
}

/* ---- clients ----------------------------------------------------------------------------------- */

static void on_open(void *owner, int err)
{
    struct client *client = owner;
    CHECK(!err);
    client->is_open = true;
    stream_send(client->stream);
}

static void on_end(void *owner, int err)
{
    struct client *client = owner;
    (void)err;
    stream_close(client->stream);
    client->stream = NULL;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct client *client = owner;
    (void)block;
    enum resp_result result = resp_skip(&client->skip, data, len);
    CHECK(result != RESP_BAD);
    if (result == RESP_MORE) {
        *need = client->skip.need;
        return 0;
    }
    CHECK(client->skip.size == len && client->len + len < sizeof client->reply);
    memcpy(client->reply + client->len, data, len);
    client->len += len;
    client->is_answered = true;
    return len;
}

static void connect_client(struct node *node)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    node->client = (struct client){0};
    node->client.stream =
        stream_connect(clients, node->address, 1000, &events, on_open, &node->client);
}

static bool is_answered(void *owner)
{
    const struct client *client = owner;
    return client->is_answered;
}

static void send_request(struct client *client, const char *text)
{
    client->is_answered = false;
    client->skip = (struct resp_skip){0};
    out_printf(stream_out(client->stream), "%s\r\n", text);
    if (client->is_open)
        stream_send(client->stream);
}

/* Appends the reply to those that the client has got. */
static void ask_more(struct node *node, const char *format, va_list args)
{
    struct client *client = &node->client;
    char text[512];
    (void)vsnprintf(text, sizeof text, format, args);
    send_request(client, text);
    CHECK(sim_run_until(is_answered, client, STEPS_MAX));
    client->reply[client->len] = 0;
}

static const char *ask(struct node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *ask(struct node *node, const char *format, ...)
{
    va_list args;
    node->client.len = 0;
    va_start(args, format);
    ask_more(node, format, args);
    va_end(args);
    return node->client.reply;
}

static void add_reply(struct node *node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_reply(struct node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ask_more(node, format, args);
    va_end(args);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* All that is compared. */
static const char *look(struct node *node)
{
    node->client.len = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        add_reply(node, "GET s%u", key);
        add_reply(node, "HGETALL h%u", key);
        add_reply(node, "ZRANGE z%u 0 -1 WITHSCORES", key);
        add_reply(node, "ZRANK z%u m3", key);
        add_reply(node, "LRANGE l%u 0 -1", key);
        add_reply(node, "EVAL_RO \"return redis.call('SCARD', KEYS[1])\" 1 t%u", key);
    }
    return node->client.reply;
}

/* ---- the partitions ---------------------------------------------------------------------------- */

static void start_node(struct node *node)
{
    char error[256];
    bool is_damaged;
    sim_set_host(node->host);
    node->loop = loop_new();
    node->partition =
        partition_new(process, node->index, node->loop, &is_damaged, error, sizeof error);
    CHECK(node->partition);
    const struct listen_options options = {.address = node->address, .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    node->partition->listeners.tcp =
        listener_new(node->loop, fd, &options, partition_accept, node->partition);
}

static void become(enum replica_phase phase, const char *address, uint64_t committed)
{
    struct replica_role role = {.phase = phase, .term = TERM, .leader = 1, .committed = committed};
    (void)snprintf(role.leader_address, sizeof role.leader_address, "%s", address);
    leadership_role(follower.partition, &role);
}

static uint64_t written(void)
{
    return storage_written(follower.partition->storage);
}

static void start_copy(void)
{
    start_node(&follower);
    storage_join_group(follower.partition->storage);
    leadership_new(follower.partition);
    connect_client(&follower);
}

static void start_follower(void)
{
    start_copy();
    become(REPLICA_PHASE_FOLLOWING, leader.address, 0);
    leadership_committed(follower.partition, written());
    CHECK(begins(ask(&follower, "READONLY"), "+OK"));
}

static void end_node(struct node *node)
{
    if (node->client.stream)
        stream_abort(node->client.stream);
    node->client.stream = NULL;
    partition_free(node->partition);
    loop_free(node->loop);
}

static void crash_follower(void)
{
    sim_crash_host(follower.host);
    storage_mem_crash(follower.partition->storage);
    end_node(&follower);
}

/* ---- records ----------------------------------------------------------------------------------- */

static bool has_added_all(void *owner)
{
    (void)owner;
    return storage_committed(follower.partition->storage) == written();
}

/* Copies records of the leader, up to this one, and waits until the follower has added them. */
static void copy_upto(uint64_t upto)
{
    struct storage *storage = follower.partition->storage;
    struct bytes record;
    uint64_t index;
    char error[256];
    while (written() < upto) {
        CHECK(wal_cursor_next(tail, &index, &record, error, sizeof error) == OK);
        CHECK(storage_append(storage, record, &index, error, sizeof error) == OK);
    }
    CHECK(storage_sync(storage, error, sizeof error) == OK);
    leadership_committed(follower.partition, upto);
    CHECK(sim_run_until(has_added_all, NULL, STEPS_MAX));
}

static void compare(void)
{
    uint64_t index = written();
    if (expected[index] && strcmp(expected[index], look(&follower)) != 0) {
        fprintf(stderr, "record %llu: expected\n%s\ngot\n%s\n", (unsigned long long)index,
                expected[index], follower.client.reply);
        abort();
    }
    CHECK(written() == index && !overlay_dirty(follower.partition->overlay));
}

static void copy_some(void)
{
    uint64_t upto = storage_committed(leader.partition->storage);
    while (written() < upto) {
        copy_upto(written() + 1 + sim_random(sim_random(4) ? 1 : upto - written()));
        compare();
    }
}

/* ---- what is sent ------------------------------------------------------------------------------ */

static void write_once(void)
{
    unsigned key = (unsigned)sim_random(KEYS), number = (unsigned)sim_random(40);
    switch (sim_random(10)) {
    case 0:
        (void)ask(&leader, "SET s%u %u EX 100000", key, number);
        break;
    case 1:
        (void)ask(&leader, "INCRBY s%u %u", key, number);
        break;
    case 2:
        (void)ask(&leader, "HSET h%u f%u %u f%u %u", key, number, number, number + 1, key);
        break;
    case 3:
        (void)ask(&leader, "HDEL h%u f%u f%u", key, number, number + 1);
        break;
    case 4:
    case 5:
        (void)ask(&leader, "ZADD z%u %u m%u 5 m3", key, number, number);
        break;
    case 6:
        (void)ask(&leader, "RPUSH l%u %u %u", key, number, number + 1);
        break;
    case 7:
        (void)ask(&leader, "SADD t%u %u %u", key, number, number + 1);
        break;
    case 8:
        (void)ask(&leader, "DEL %c%u", "shzlt"[sim_random(5)], key);
        break;
    default:
        if (sim_random(8) == 0)
            (void)ask(&leader, "SWAPDB 0 1");
        else
            (void)ask(&leader, "EVAL \"redis.call('SET', KEYS[1], ARGV[1])\" 1 s%u %u", key,
                      number);
    }
    CHECK(leader.client.reply[0] != '-');
}

static void write_and_look(void)
{
    for (uint64_t left = 1 + sim_random(5); left; left--) {
        write_once();
        uint64_t index = storage_committed(leader.partition->storage);
        CHECK(index < RECORDS_MAX);
        free(expected[index]);
        expected[index] = strdup(look(&leader));
    }
}

/* Nothing that a client sends is written, or served without READONLY. */
static void refuses_what_it_should(void)
{
    uint64_t before = written();
    CHECK(begins(ask(&follower, "SET s1 wrong"), "-MOVED "));
    CHECK(strstr(follower.client.reply, leader.address));
    CHECK(begins(ask(&follower, "FLUSHALL"), "-READONLY "));
    CHECK(begins(ask(&follower, "EVAL \"return 1\" 0"), "-TRYAGAIN "));
    CHECK(begins(ask(&follower, "BGSAVE"), "-ERR "));
    CHECK(begins(ask(&follower, "PING"), "+PONG"));
    (void)ask(&follower, "READWRITE");
    CHECK(begins(ask(&follower, "GET s1"), "-MOVED "));
    CHECK(begins(ask(&follower, "DBSIZE"), "-TRYAGAIN "));
    (void)ask(&follower, "READONLY");
    CHECK(begins(ask(&follower, "MULTI"), "+OK"));
    CHECK(begins(ask(&follower, "GET s1"), "+QUEUED"));
    CHECK(begins(ask(&follower, "SET s1 wrong"), "-MOVED "));
    CHECK(begins(ask(&follower, "EXEC"), "-EXECABORT "));
    CHECK(written() == before);
}

/* The leader deletes the key; the follower hides it before. */
static void hides_what_has_expired(void)
{
    (void)ask(&leader, "SET gone 1 PX 60");
    copy_upto(storage_committed(leader.partition->storage));
    uint64_t before = written();
    sim_run_for(SECOND_US);
    CHECK(begins(ask(&follower, "GET gone"), "$-1"));
    CHECK(begins(ask(&follower, "EXISTS gone"), ":0"));
    CHECK(written() == before);
    CHECK(begins(ask(&leader, "EXISTS gone"), ":0"));
}

/* A client that waits for a key is woken by a record. */
static void wakes_who_waits(void)
{
    send_request(&follower.client, "XREAD BLOCK 0 STREAMS x $");
    sim_run_for(SECOND_US);
    CHECK(!follower.client.is_answered);
    follower.client.len = 0;
    (void)ask(&leader, "XADD x * name value");
    copy_upto(storage_committed(leader.partition->storage));
    CHECK(sim_run_until(is_answered, &follower.client, STEPS_MAX));
    CHECK(strstr(follower.client.reply, "value"));
}

/* A copy reads its counters once a second. */
static void counts_keys(void)
{
    char count[64];
    sim_run_for(SECOND_US * 3 / 2);
    (void)snprintf(count, sizeof count, "%s", ask(&leader, "DBSIZE"));
    CHECK(strcmp(ask(&follower, "DBSIZE"), count) == 0);
}

static void disturb(void)
{
    switch (sim_random(6)) {
    case 0:
        crash_follower();
        start_follower();
        break;
    case 1:
        store_mem_fail_apply(storage_store(follower.partition->storage), 1 + sim_random(3),
                             sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        break;
    case 2:
        sim_run_for(20ULL * SECOND_US); /* buffers are applied */
        break;
    case 3:
        refuses_what_it_should();
        break;
    case 4:
        hides_what_has_expired();
        break;
    default:
        break;
    }
}

/* ---- backups ----------------------------------------------------------------------------------- */

/* Opens the files as a partition of their own. */
static void compare_backup(unsigned number, uint64_t moment)
{
    struct node restored = {.host = "c", .address = "c:1", .index = 2 + number};
    start_node(&restored);
    connect_client(&restored);
    if (strcmp(expected[moment], look(&restored)) != 0) {
        fprintf(stderr, "backup of record %llu: expected\n%s\ngot\n%s\n",
                (unsigned long long)moment, expected[moment], restored.client.reply);
        abort();
    }
    end_node(&restored);
}

static void flush_sometimes(void)
{
    char error[256];
    if (sim_random(2) == 0)
        return;
    sim_run_for(20ULL * SECOND_US); /* buffers are applied */
    CHECK(storage_flush(follower.partition->storage, error, sizeof error) == OK);
}

static void copy_to(const struct backup_moment *moment)
{
    uint64_t upto = storage_committed(leader.partition->storage);
    while (!backup_moment_is_reached(moment, storage_committed(follower.partition->storage)))
        copy_upto(written() + 1 + sim_random(upto - written()));
}

static void back_up(unsigned number)
{
    char path[64], error[256];
    struct backup_moment moment;
    (void)snprintf(path, sizeof path, "%s/partition-%u", config.data, 2 + number);
    flush_sometimes();
    struct cut *cut = cut_begin(follower.partition->storage, path, error, sizeof error);
    CHECK(cut);
    write_and_look();
    if (sim_random(2))
        copy_some();
    flush_sometimes();
    write_and_look();
    CHECK(backup_moment_here(leader.partition, &moment));
    write_and_look();
    copy_to(&moment);
    CHECK(cut_end_at(cut, moment.committed, error, sizeof error) == OK);
    if (sim_random(2))
        copy_some();
    flush_sometimes();
    CHECK(cut_write(cut, path, error, sizeof error) == OK);
    cut_free(cut);
    compare_backup(number, moment.committed);
}

/* ---- leading ----------------------------------------------------------------------------------- */

static bool is_open(void *owner)
{
    (void)owner;
    return !follower.partition->copies.is_closed;
}

static void write_probe(void)
{
    struct effects *effects = effects_new();
    uint64_t index;
    char error[256];
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, written() + 1, TERM, written());
    struct storage *storage = follower.partition->storage;
    CHECK(storage_append(storage, effects_bytes(effects), &index, error, sizeof error) == OK);
    CHECK(storage_sync(storage, error, sizeof error) == OK);
    effects_free(effects);
}

static uint64_t term_of(uint64_t index)
{
    struct wal_cursor *cursor = wal_cursor_new(storage_wal(follower.partition->storage), index);
    struct effects_header header;
    struct effects_reader reader;
    struct bytes record;
    char error[256];
    CHECK(wal_cursor_next(cursor, &index, &record, error, sizeof error) == OK);
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
    wal_cursor_free(cursor);
    return header.term;
}

/* A process that has just started: requests wait until it leads, or another copy does. */
static void leads_after_a_start(void)
{
    crash_follower();
    start_copy();
    send_request(&follower.client, "INCR counter");
    sim_run_for(SECOND_US);
    CHECK(!follower.client.is_answered);
    become(REPLICA_PHASE_FOLLOWING, "", 0);
    sim_run_for(SECOND_US);
    CHECK(!follower.client.is_answered);
    write_probe();
    become(REPLICA_PHASE_SERVING, follower.address, written());
    CHECK(sim_run_until(is_answered, &follower.client, STEPS_MAX));
}

static void leads_at_once(void)
{
    write_probe();
    become(REPLICA_PHASE_SERVING, follower.address, written());
    CHECK(sim_run_until(is_open, NULL, STEPS_MAX));
    (void)ask(&follower, "INCR counter");
}

static bool writes_itself(void *owner)
{
    (void)owner;
    return !follower.partition->copies.is_following;
}

static struct bytes make_members(struct arena *arena)
{
    const struct members members = {.generation = 2,
                                    .group = 1,
                                    .epoch = 1,
                                    .count = 1,
                                    .list = {{1, MEMBER_VOTER, bytes_of(follower.address)}}};
    return members_row_write(arena, &members);
}

static void write_members(void)
{
    struct overlay *overlay = follower.partition->overlay;
    struct arena arena;
    arena_init(&arena);
    overlay_put(overlay, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), make_members(&arena));
    overlay_set_members(overlay);
    arena_fini(&arena);
}

/* The metadata rows of the leader's last record. */
static void take_last_keys(struct effects *effects)
{
    uint64_t index = storage_committed(leader.partition->storage);
    struct wal_cursor *cursor = wal_cursor_new(storage_wal(leader.partition->storage), index);
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct bytes record;
    char error[256];
    CHECK(wal_cursor_next(cursor, &index, &record, error, sizeof error) == OK);
    CHECK(effects_open(record, &header, &reader) == EFFECTS_READ);
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_BATCH});
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        if (effect.cf == CF_METADATA)
            effects_put(effects, effect.cf, effect.key, effect.value);
    wal_cursor_free(cursor);
}

/* The leader has committed a transaction over shards that sets the key `half`, and applied nothing of it that can be seen. The rows are in
 * its next batch. */
static void begin_transaction(void)
{
    const struct transaction_id id = {.shard = "elsewhere", .run_id = "1", .number = 1};
    struct overlay *overlay = leader.partition->overlay;
    struct effects *effects = effects_new();
    struct arena arena;
    arena_init(&arena);
    (void)ask(&leader, "SET half whole");
    take_last_keys(effects);
    CHECK(effects_count(effects) == 1);
    (void)ask(&leader, "DEL half");
    overlay_put(overlay, CF_SYSTEM, encode_transaction_key(&arena, TRANSACTION_PREPARED, &id),
                encode_prepared(&arena, effects_bytes(effects), BYTES("")));
    overlay_put(overlay, CF_SYSTEM, encode_transaction_key(&arena, TRANSACTION_APPLYING, &id),
                encode_applying(&arena, 0));
    effects_free(effects);
    arena_fini(&arena);
}

/* The record of its new group is its own, and the next one is of its log again. */
static void leads_a_group_of_its_own(void)
{
    uint64_t before = written();
    become(REPLICA_PHASE_NONE, "", 0);
    CHECK(sim_run_until(writes_itself, NULL, STEPS_MAX));
    write_members();
    sim_run_for(SECOND_US);
    CHECK(written() == before + 1 && has_added_all(NULL));
    become(REPLICA_PHASE_FOLLOWING, "", 0);
    leads_at_once();
}

/* ---- reads that must be fresh ------------------------------------------------------------------ */

static unsigned questions;

/* fresh_reads.ask */
static bool take_question(struct partition *partition)
{
    CHECK(partition == follower.partition);
    questions++;
    return true;
}

static bool has_asked(void *owner)
{
    (void)owner;
    return questions == 1;
}

/* The reply to a read that the leader's answer lets run: as of all that it has, at this time. */
static const char *read_at(const char *text, uint64_t time_us)
{
    const struct read_index answer = {
        .term = TERM, .index = storage_committed(leader.partition->storage), .time_us = time_us};
    struct client *client = &follower.client;
    questions = 0;
    client->len = 0;
    send_request(client, text);
    CHECK(sim_run_until(has_asked, NULL, STEPS_MAX) && !client->is_answered);
    fresh_reads_answered(follower.partition, &answer);
    CHECK(sim_run_until(is_answered, client, STEPS_MAX));
    client->reply[client->len] = 0;
    return client->reply;
}

/* A read that the follower does not ask for: it is the leader's. */
static void check_not_read(const char *text)
{
    questions = 0;
    CHECK(begins(ask(&follower, "%s", text), "-MOVED ") && !questions);
}

/* It is refused without a wait, and without another question: the leader reads it. */
static void check_left_at_once(const char *text)
{
    uint64_t before_us = sim_now_us();
    check_not_read(text);
    CHECK(sim_now_us() < before_us + FRESH_WAIT_MS * 1000 / 2);
}

/* The data lack a record that counts: one read waits for it, and the others are the leader's at once until it is there. */
static void reads_while_it_lags(void)
{
    (void)ask(&leader, "SET counter 41");
    CHECK(begins(read_at("GET counter", 0), "-MOVED "));
    check_left_at_once("GET counter");
    check_left_at_once("GET short");
    copy_upto(storage_committed(leader.partition->storage));
    CHECK(begins(read_at("GET counter", 0), "$2\r\n41"));
}

/* Likewise while the leader owes an answer. */
static void reads_while_leader_is_silent(void)
{
    questions = 0;
    CHECK(begins(ask(&follower, "GET counter"), "-MOVED ") && questions == 1);
    check_left_at_once("GET counter");
    fresh_reads_answered(follower.partition, NULL);
    CHECK(begins(read_at("GET counter", 0), "$2\r\n41"));
}

static void reads_fresh(void)
{
    uint64_t now_us = loop_wall_us(leader.loop);
    follower.partition->snapshot->config.replica_reads = REPLICA_READS_FRESH;
    follower.partition->copies.age.fresh->ask = take_question;
    CHECK(begins(read_at("GET counter", 0), "$2\r\n41"));
    CHECK(begins(read_at("GET short", now_us), "$1\r\n1"));
    CHECK(begins(read_at("GET short", now_us + (uint64_t)200 * SECOND_US), "$-1"));
    check_not_read("GET half"); /* the coordinator may have committed it */
    check_not_read("MGET counter half");
    check_not_read("EVAL_RO \"return 1\" 1 counter");
    check_not_read("XREAD STREAMS counter 0");
    reads_while_it_lags();
    reads_while_leader_is_silent();
    follower.partition->snapshot->config.replica_reads = REPLICA_READS_STALE;
}

static void leads(void)
{
    char number[64];
    store_mem_fail_apply(storage_store(follower.partition->storage), 0, ERR_STORE);
    sim_run_for(2ULL * SECOND_US); /* it opens its tables again */
    begin_transaction();
    (void)ask(&leader, "SET counter 41");
    (void)ask(&leader, "SET short 1 EX 100");
    copy_upto(storage_committed(leader.partition->storage));
    reads_fresh();
    uint64_t before = written();
    switch (sim_random(3)) {
    case 0:
        leads_after_a_start();
        break;
    case 1:
        leads_a_group_of_its_own();
        break;
    default:
        leads_at_once();
    }
    CHECK(begins(follower.client.reply, ":42") && sim_run_until(has_added_all, NULL, STEPS_MAX));
    CHECK(written() > before + 1 && term_of(before + 2) == TERM);
    CHECK(begins(ask(&follower, "GET half"), "$5\r\nwhole")); /* it is locked until then */
    for (unsigned key = 0; key < KEYS; key++) {
        (void)snprintf(number, sizeof number, "%s", ask(&leader, "LLEN l%u", key));
        CHECK(atoi(ask(&follower, "RPUSH l%u x", key) + 1) == atoi(number + 1) + 1);
    }
    CHECK(begins(ask(&follower, "FLUSHALL"), "+OK"));
    CHECK(begins(ask(&follower, "DBSIZE"), ":0"));
}

/* ---- tables with a part of a batch ------------------------------------------------------------- */

static void put_into_tables(struct store *store, struct effects *effects)
{
    struct store_batch *batch = store_batch_new();
    char error[256];
    CHECK(store_batch_add_effects(batch, store, effects_bytes(effects), error, sizeof error));
    CHECK(store_apply(store, batch, error, sizeof error) == OK);
    CHECK(store_flush(store, error, sizeof error) == OK);
    store_batch_free(batch);
}

/* The tables have the second transaction of a key already, and the first one still. */
static void starts_on_part_of_a_batch(void)
{
    struct transaction_id id = {.shard = "elsewhere", .run_id = "2"};
    struct effects *keys = effects_new();
    struct effects *rows = effects_new();
    struct arena arena;
    arena_init(&arena);
    (void)ask(&leader, "SET half whole");
    take_last_keys(keys);
    effects_begin(rows, &(struct effects_header){.type = EFFECTS_BATCH});
    effects_put(rows, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), make_members(&arena));
    while (id.number++ < 2)
        effects_put(rows, CF_SYSTEM, encode_transaction_key(&arena, TRANSACTION_PREPARED, &id),
                    encode_prepared(&arena, effects_bytes(keys), BYTES("")));
    put_into_tables(storage_store(follower.partition->storage), rows);
    crash_follower();
    start_copy();
    effects_free(rows);
    effects_free(keys);
    arena_fini(&arena);
}

/* ---- a seed ------------------------------------------------------------------------------------ */

static void begin_world(uint64_t seed)
{
    sim_init(seed);
    storage_mem_reset();
    storage_mem_seed(seed);
    sim_knobs_shuffle();
    config_init_defaults(&config.head, &backend_schema);
    config.store_wal_limit_bytes = WAL_MEM_LIMIT;
    config.store_memory_bytes = 640 << 20;
    config.partitions = 2 + BACKUPS;
    config.replica_reads = REPLICA_READS_STALE;
    process = process_new(&config, NULL, NULL);
    process->env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 1024 * 1024, .background_threads = 1});
    sim_set_host("clients");
    clients = loop_new();
    turns = timer_new(clients, take_turn, NULL);
    timer_start(turns, 1, 1);
    leader = (struct node){.host = "a", .address = "a:1", .index = 0};
    follower = (struct node){.host = "b", .address = "b:1", .index = 1};
    start_node(&leader);
    connect_client(&leader);
    start_follower();
    tail = wal_cursor_new(storage_wal(leader.partition->storage), written() + 1);
    CHECK(tail);
}

static void end_world(void)
{
    wal_cursor_free(tail);
    end_node(&follower);
    end_node(&leader);
    sim_run_for(SECOND_US);
    timer_free(turns);
    loop_free(clients);
    store_env_free(process->env);
    process_free(process);
    config_fini(&config.head);
    for (unsigned i = 0; i < RECORDS_MAX; i++) {
        free(expected[i]);
        expected[i] = NULL;
    }
    sim_fini();
}

static void run(uint64_t seed)
{
    begin_world(seed);
    for (unsigned i = 0; i < COMMANDS / 4; i++) {
        write_and_look();
        disturb();
        copy_some();
        if (i % (COMMANDS / 4 / BACKUPS) == 0)
            back_up(i / (COMMANDS / 4 / BACKUPS));
    }
    counts_keys();
    wakes_who_waits();
    leads();
    starts_on_part_of_a_batch();
    end_world();
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run);
}
