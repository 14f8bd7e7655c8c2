/*
 * test_leaders.c - three copies of a partition lead in turn: they are elected, step down, follow, crash, and lead again
 * (backend/partition/step_down.h), with writes and reads of clients in flight.
 *
 *   clients ─► the partition that leads ─► commit_log: its own log ─► the logs of the others ─► on two of three: committed
 *                                                     the test is the group: it copies records, counts them, and elects
 *
 *   test_leaders [--seed N] …      sim_seeds.h; controls: tests/controls/leaders.c
 *
 * Each write appends a number to two lists at once, each read reads one of them. At the end, with the list as the leader has it then:
 *
 * (1) a number whose write was acknowledged is there, and one whose write was refused is not;
 * (2) every read, also one of a copy that follows, was a beginning of this list: nothing was seen that was rolled back;
 * (3) a read that began later than another read or write had ended shows at least what that one did; in odd seeds also at copies that follow, which
 *     ask the leader (replica-reads = fresh): questions and answers take their time, and are lost with the process that has them;
 * (4) both lists are equal, on all copies;
 * (5) the times of batches never go back, although the clocks of the copies differ.
 *
 * A leader whose successor is elected has no lease (partition_lease_is_over), and hears of its new role some time later.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/fresh_reads.h"
#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/partition/leader_line.h"
#include "backend/partition/leadership.h"
#include "backend/partition_new.h"
#include "backend/partition_run.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 100,
    NODES = 3,
    CLIENTS = 4,    /* of each node; two only read, the last one, or both, also while it follows */
    FLYING_MAX = 4, /* reads of one client at a copy */
    TURNS = 1500,
    NUMBERS_MAX = 400,
    READS_MAX = 4000,
    RECORDS_MAX = 4000,
    TEXT_BYTES = 1 << 14,
    STEPS_MAX = 20000000,
    STEP_US = 500,
    LATE = 100, /* a leader that is cut off hears of the next one in one of so many turns */
    SETTLED_US = 20 * 1000000,
    SKEW_US = 25 * 1000000, /* of a clock */
};

enum kind { NOTHING, GREETING, WRITE, READ, BLOCK };

struct client {
    struct node *node;
    struct stream *stream;
    struct resp_skip skip;
    bool is_open, only_reads, reads_old;
    enum kind kind; /* of the request without a reply */
    unsigned number;
    uint64_t sent[FLYING_MAX]; /* of the requests without a reply, the oldest first */
    unsigned flying;
    size_t len;
    char reply[TEXT_BYTES];
};

struct record {
    uint64_t term;
    char *bytes;
    size_t len;
};

/* What a copy has asked its leader. */
struct question {
    bool is_out, is_answered, is_good;
    struct node *to;
    unsigned starts; /* of that process */
    struct read_index answer;
};

struct node {
    char host[8], address[8];
    unsigned index;
    struct loop *loop;
    struct partition *partition;
    _Atomic uint64_t lease_us;
    uint64_t term;         /* of the last role that it was told */
    struct node *believed; /* by it to lead; NULL: none */
    struct question question;
    unsigned starts;
    uint64_t elected; /* the last term in which it was elected */
    bool is_serving;
    struct record log[RECORDS_MAX + 1]; /* by index */
    uint64_t last, told_committed;
    struct record given; /* to the log, and not in it yet; len 0: none */
    struct client clients[CLIENTS];
};

/* A write of a client, by its number. */
struct write {
    uint64_t done; /* when it was acknowledged; 0: it was not */
    bool is_refused;
};

struct seen {
    uint64_t sent, done;
    bool is_old;
    unsigned count;
    uint16_t *numbers;
};

static struct backend_config config;
static struct process *process;
static struct loop *world;
static struct timer *turns; /* of the clients' loop: streams send at the end of a turn */
static struct node nodes[NODES];
static struct write writes[NUMBERS_MAX];
static struct seen reads[READS_MAX];
static unsigned write_count, read_count;
static uint64_t clock_now; /* counts what clients see */
static uint64_t term, committed;
static struct node *leader;   /* elected; NULL: none */
static unsigned answer_turns; /* an answer arrives in one of so many turns */
static struct node
    *late;             /* the copy that hears of a new leader late, with fresh reads; NULL: none */
static bool is_probed; /* its first record is committed, and it was told to serve */

static void take_turn(void *owner)
{
    (void)owner;
}

static bool reads_fresh(void)
{
    return config.replica_reads == REPLICA_READS_FRESH;
}

/* ---- logs -------------------------------------------------------------------------------------- */

static void forget(struct record *record)
{
    free(record->bytes);
    *record = (struct record){0};
}

static struct record copy_of(struct bytes bytes, uint64_t of_term)
{
    struct record record = {.term = of_term, .bytes = malloc(bytes.len), .len = bytes.len};
    CHECK(record.bytes);
    memcpy(record.bytes, bytes.data, bytes.len);
    return record;
}

static void cut(struct node *node, uint64_t after)
{
    char error[256];
    CHECK(after >= storage_committed(node->partition->storage));
    CHECK(storage_truncate(node->partition->storage, after, error, sizeof error) == OK);
    while (node->last > after)
        forget(&node->log[node->last--]);
}

static void append(struct node *node, struct record record)
{
    struct storage *storage = node->partition->storage;
    uint64_t index;
    char error[256];
    CHECK(storage_append(storage, (struct bytes){record.bytes, record.len}, &index, error,
                         sizeof error) == OK);
    CHECK(storage_sync(storage, error, sizeof error) == OK);
    CHECK(index == node->last + 1 && index < RECORDS_MAX);
    node->log[++node->last] = copy_of((struct bytes){record.bytes, record.len}, record.term);
}

static uint64_t origin_ms(const struct record *record)
{
    struct effects_header header;
    struct effects_reader reader;
    CHECK(effects_open((struct bytes){record->bytes, record->len}, &header, &reader) ==
          EFFECTS_READ);
    return header.origin_ms;
}

/* Of the newest batch in its log; a first record of a leader has no time. */
static uint64_t newest_ms(const struct node *node)
{
    uint64_t index = node->last;
    while (index && (!node->log[index].len || !origin_ms(&node->log[index])))
        index--;
    return index ? origin_ms(&node->log[index]) : 0;
}

/* commit_log.append */
static int give(void *owner, struct bytes bytes, char *error, size_t size)
{
    struct node *node = owner;
    struct effects_header header;
    struct effects_reader reader;
    CHECK(effects_open(bytes, &header, &reader) == EFFECTS_READ && !node->given.len);
    CHECK(header.origin_ms >= newest_ms(node));
    node->given = copy_of(bytes, header.term);
    (void)error;
    (void)size;
    return OK;
}

/* commit_log.may_append */
static int may_append(void *owner, char *error, size_t size)
{
    (void)owner;
    (void)error;
    (void)size;
    return OK;
}

static bool has_committed(void *owner, uint64_t index, uint64_t of_term)
{
    const struct node *node = owner;
    return index <= node->told_committed && node->log[index].term == of_term;
}

static void append_given(struct node *node)
{
    if (!node->given.len)
        return;
    CHECK(node->given.term == node->term); /* no batch of an older term */
    if (node->given.term >= node->elected) /* else its log refuses it */
        append(node, node->given);
    forget(&node->given);
}

static void write_probe(struct node *node)
{
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, node->last + 1, term, storage_committed(node->partition->storage));
    struct bytes bytes = effects_bytes(effects);
    append(node, (struct record){.term = term, .bytes = (char *)bytes.data, .len = bytes.len});
    effects_free(effects);
}

/* ---- roles ------------------------------------------------------------------------------------- */

static void tell(struct node *node, enum replica_phase phase)
{
    struct replica_role role = {.phase = phase, .term = term, .committed = node->last};
    if (leader && is_probed)
        (void)snprintf(role.leader_address, sizeof role.leader_address, "%s", leader->address);
    node->term = term;
    node->believed = leader && is_probed && leader != node ? leader : NULL;
    node->is_serving = phase == REPLICA_PHASE_SERVING;
    leadership_role(node->partition, &role);
    forget(&node->given); /* of an earlier term: the log refuses it */
}

static bool is_newer(const struct node *a, const struct node *b)
{
    uint64_t of_a = a->log[a->last].term, of_b = b->log[b->last].term;
    return of_a > of_b || (of_a == of_b && a->last >= b->last);
}

static bool may_win(const struct node *node)
{
    unsigned votes = 0;
    for (unsigned i = 0; i < NODES; i++)
        votes += is_newer(node, &nodes[i]);
    return votes > NODES / 2;
}

/* The leader before has no lease from now on, and has not heard why; unless it is elected again. */
static void elect(void)
{
    struct node *node = &nodes[sim_random(NODES)];
    if (!may_win(node))
        return;
    if (leader)
        atomic_store(&leader->lease_us, 0);
    leader = node;
    is_probed = false;
    late = reads_fresh() ? &nodes[sim_random(NODES)] : NULL;
    node->elected = ++term;
    if (!node->is_serving || sim_random(2))
        tell(node, REPLICA_PHASE_LEADING);
    write_probe(node);
}

static void serve(void)
{
    const struct commit_log log = {
        .append = give, .may_append = may_append, .has_committed = has_committed, .owner = leader};
    bool was_serving = leader->is_serving; /* in an earlier term: its log ends when it steps down */
    is_probed = true;
    if (!was_serving)
        commit_use_log(leader->partition->commit, &log);
    tell(leader, REPLICA_PHASE_SERVING);
    if (was_serving)
        commit_use_log(leader->partition->commit, &log);
    atomic_store(&leader->lease_us, sim_random(2) ? UINT64_MAX : sim_now_us() + sim_random(20000));
}

/* A copy that has not heard of the new term sends and takes nothing. */
static void hear_term(struct node *node)
{
    if (node->term == term)
        return;
    atomic_store(&node->lease_us, 0);
    tell(node, REPLICA_PHASE_FOLLOWING);
}

/* ---- copying ----------------------------------------------------------------------------------- */

static void copy_next(struct node *to)
{
    uint64_t index = 1;
    while (index <= to->last && index <= leader->last &&
           to->log[index].term == leader->log[index].term)
        index++;
    if (index > leader->last)
        return;
    if (index <= to->last)
        cut(to, index - 1);
    append(to, leader->log[index]);
}

static uint64_t matches(const struct node *node)
{
    uint64_t index = 0;
    while (index < node->last && index < leader->last &&
           node->log[index + 1].term == leader->log[index + 1].term)
        index++;
    return index;
}

static void count_copies(void)
{
    for (uint64_t index = leader->last; index > committed; index--) {
        unsigned copies = 0;
        for (unsigned i = 0; i < NODES; i++)
            copies += nodes[i].term == term && matches(&nodes[i]) >= index;
        if (copies <= NODES / 2 || leader->log[index].term != term)
            continue;
        committed = index;
        return;
    }
}

static void tell_committed(struct node *node)
{
    uint64_t index = node->term == term ? matches(node) : 0;
    index = index < committed ? index : committed;
    if (index <= node->told_committed)
        return;
    node->told_committed = index;
    leadership_committed(node->partition, index);
}

/* ---- questions --------------------------------------------------------------------------------- */

/* fresh_reads.ask */
static bool ask(struct partition *partition)
{
    struct node *node = &nodes[partition->index];
    CHECK(!node->question.is_out);
    if (node->term == term && leader && leader != node)
        node->believed = leader;
    if (!node->believed)
        return false;
    node->question =
        (struct question){.is_out = true, .to = node->believed, .starts = node->believed->starts};
    return true;
}

static bool is_lost(const struct question *question)
{
    return question->starts != question->to->starts;
}

static void carry(struct node *node)
{
    struct question *question = &node->question;
    if (!question->is_out || sim_random(question->is_answered ? answer_turns : 4))
        return;
    if (!question->is_answered && !is_lost(question)) {
        question->is_answered = true;
        question->is_good = leader_line_index(question->to->partition, &question->answer);
        return;
    }
    question->is_out = false;
    fresh_reads_answered(node->partition, question->is_good ? &question->answer : NULL);
}

static void work(void)
{
    for (unsigned i = 0; i < NODES; i++)
        carry(&nodes[i]);
    for (unsigned i = 0; i < NODES; i++)
        if (nodes[i].is_serving && sim_random(3))
            append_given(&nodes[i]);
    if (!leader)
        return;
    struct node *node = &nodes[sim_random(NODES)];
    if ((!node->is_serving && node != late) || node->term == term || sim_random(LATE) == 0)
        hear_term(node);
    if (node->term == term && node != leader)
        copy_next(node);
    count_copies();
    if (!is_probed && committed == leader->last && leader->term == term)
        serve();
    node = &nodes[sim_random(NODES)];
    if (!reads_fresh() || node == leader || sim_random(16) == 0)
        tell_committed(node);
    if (sim_random(8) == 0 && is_probed && leader->term == term)
        atomic_store(&leader->lease_us, sim_now_us() + sim_random(20000));
}

/* ---- clients ----------------------------------------------------------------------------------- */

static void see_read(struct client *client)
{
    struct seen *seen = &reads[read_count];
    const char *at = client->reply;
    if (*at != '*')
        return;
    CHECK(read_count++ < READS_MAX);
    *seen = (struct seen){.sent = client->sent[0],
                          .done = ++clock_now,
                          .is_old = client->reads_old && !reads_fresh()};
    seen->count = (unsigned)strtoul(at + 1, NULL, 10);
    seen->numbers = calloc(seen->count + 1, sizeof *seen->numbers);
    CHECK(seen->numbers);
    for (unsigned i = 0; i < seen->count; i++) {
        at = strchr(strchr(at, '$'), '\n') + 1;
        seen->numbers[i] = (uint16_t)strtoul(at, NULL, 10);
    }
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void see_write(const struct client *client)
{
    struct write *write = &writes[client->number];
    if (*client->reply == ':')
        write->done = ++clock_now;
    else if (begins(client->reply, "-TRYAGAIN ") || begins(client->reply, "-MOVED ") ||
             begins(client->reply, "-READONLY ") || begins(client->reply, "-NOREPLICAS "))
        write->is_refused = true;
    else
        CHECK(strstr(client->reply, "it may have been executed"));
}

static bool may_end_wait(const char *reply)
{
    return begins(reply, "-UNBLOCKED ") || begins(reply, "-TRYAGAIN ") ||
           begins(reply, "-MOVED ") || begins(reply, "-READONLY ") || begins(reply, "-NOREPLICAS ");
}

static void see(struct client *client)
{
    client->reply[client->len] = 0;
    enum kind kind = client->kind;
    CHECK(client->flying);
    if (kind == READ)
        see_read(client);
    memmove(client->sent, client->sent + 1, (FLYING_MAX - 1) * sizeof *client->sent);
    if (--client->flying == 0)
        client->kind = NOTHING;
    if (kind == WRITE)
        see_write(client);
    else if (kind == BLOCK && !may_end_wait(client->reply)) {
        (void)fprintf(stderr, "%s\n", client->reply);
        abort();
    }
}

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
    client->kind = NOTHING;
    client->flying = 0;
}

static size_t on_reply(struct client *client, const char *data, size_t len, size_t *need)
{
    enum resp_result result = resp_skip(&client->skip, data, len);
    CHECK(result != RESP_BAD);
    if (result == RESP_MORE) {
        *need = client->skip.need;
        return 0;
    }
    size_t size = client->skip.size;
    client->skip = (struct resp_skip){0};
    CHECK(size < sizeof client->reply);
    memcpy(client->reply, data, size);
    client->len = size;
    see(client);
    return size;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    size_t used = 0, size;
    (void)block;
    while (used < len && (size = on_reply(owner, data + used, len - used, need)))
        used += size;
    return used;
}

static void request(struct client *client, enum kind kind, const char *text)
{
    client->kind = kind;
    client->sent[client->flying++] = ++clock_now;
    out_printf(stream_out(client->stream), "%s\r\n", text);
    if (client->is_open)
        stream_send(client->stream);
}

static void begin_client(struct client *client)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    client->is_open = false;
    client->skip = (struct resp_skip){0};
    client->stream = stream_connect(world, client->node->address, 1000, &events, on_open, client);
    request(client, GREETING, client->reads_old ? "READONLY" : "READWRITE");
}

static void write_next(struct client *client)
{
    char text[200];
    client->number = write_count++;
    (void)snprintf(text, sizeof text,
                   "EVAL \"redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('RPUSH', "
                   "KEYS[2], ARGV[1])\" 2 l m %u",
                   client->number);
    request(client, WRITE, text);
}

static void read_next(struct client *client)
{
    request(client, READ, sim_random(2) ? "LRANGE l 0 -1" : "LRANGE m 0 -1");
}

static bool may_read_more(const struct client *client)
{
    return client->kind == READ && client->reads_old && client->flying < FLYING_MAX;
}

static void use_client(struct client *client)
{
    if (!client->stream)
        begin_client(client);
    if (may_read_more(client))
        read_next(client);
    if (client->kind != NOTHING)
        return;
    if (client->only_reads || write_count == NUMBERS_MAX || sim_random(3) == 0)
        read_next(client);
    else if (sim_random(20) == 0)
        request(client, BLOCK, "BLPOP never 0");
    else
        write_next(client);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* The row by which a store is known as a copy, whose log keeps its end at a start. */
static void make_copy(struct storage *storage)
{
    const struct members members = {.generation = 1,
                                    .group = 1,
                                    .epoch = 1,
                                    .count = 1,
                                    .list = {{1, MEMBER_VOTER, BYTES("a:1")}}};
    struct effects *effects = effects_new();
    struct arena arena;
    char error[256];
    arena_init(&arena);
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_MEMBERS});
    effects_put(effects, CF_SYSTEM, BYTES(SYSTEM_MEMBERS), members_row_write(&arena, &members));
    CHECK(storage_write(storage, effects, true, error, sizeof error) == OK);
    CHECK(storage_flush(storage, error, sizeof error) == OK);
    arena_fini(&arena);
    effects_free(effects);
}

static void start_node(struct node *node)
{
    char error[256];
    bool is_damaged;
    sim_set_host(node->host);
    node->loop = loop_new();
    node->partition =
        partition_new(process, node->index, node->loop, &is_damaged, error, sizeof error);
    if (!node->partition)
        (void)fprintf(stderr, "%s\n", error);
    CHECK(node->partition);
    const struct listen_options options = {.address = node->address, .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    node->partition->listeners.tcp =
        listener_new(node->loop, fd, &options, partition_accept, node->partition);
    if (!storage_is_replicated(node->partition->storage))
        make_copy(node->partition->storage);
    storage_join_group(node->partition->storage);
    leadership_new(node->partition);
    leadership_use_votes(node->partition);
    node->partition->copies.age.fresh->ask = ask;
    node->partition->copies.lease_us = &node->lease_us;
    node->lease_us = 0;
    node->is_serving = false;
    node->told_committed = node->term = 0;
    node->believed = NULL;
    node->question.is_out = false;
    node->starts++;
}

static void end_node(struct node *node)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &node->clients[i];
        if (client->stream)
            stream_abort(client->stream);
        client->stream = NULL;
        client->kind = NOTHING;
        client->flying = 0;
    }
    forget(&node->given);
    partition_free(node->partition);
    loop_free(node->loop);
}

static void crash(struct node *node)
{
    sim_crash_host(node->host);
    storage_mem_crash(node->partition->storage);
    end_node(node);
    start_node(node);
    CHECK(storage_written(node->partition->storage) == node->last);
    if (leader == node)
        leader = NULL;
}

/* ---- at the end -------------------------------------------------------------------------------- */

static bool is_calm(void)
{
    if (!leader || !is_probed || leader->partition->copies.is_closed || leader->given.len)
        return false;
    for (unsigned i = 0; i < NODES; i++)
        if (nodes[i].term != term || matches(&nodes[i]) != leader->last ||
            storage_committed(nodes[i].partition->storage) != leader->last)
            return false;
    return commit_is_idle(leader->partition->commit);
}

/* Commands that wait for a key wait on, at the leader. */
static bool are_all_answered(void)
{
    for (unsigned i = 0; i < NODES * CLIENTS; i++) {
        const struct client *client = &nodes[i / CLIENTS].clients[i % CLIENTS];
        if (client->kind != NOTHING && (client->kind != BLOCK || client->node != leader))
            return false;
    }
    return true;
}

/* Nothing waits for ever. */
static void finish(void)
{
    uint64_t until_us = sim_now_us() + SETTLED_US;
    while (!is_calm() || !are_all_answered()) {
        CHECK(sim_now_us() < until_us);
        if (!leader)
            elect();
        work();
        if (leader && is_probed && leader->term == term)
            atomic_store(&leader->lease_us, UINT64_MAX);
        sim_run_for(STEP_US);
    }
}

static void wait_answered(struct client *client)
{
    uint64_t until_us = sim_now_us() + SETTLED_US;
    while (client->kind != NOTHING) {
        CHECK(sim_now_us() < until_us);
        for (unsigned i = 0; i < NODES; i++)
            carry(&nodes[i]);
        sim_run_for(STEP_US);
    }
}

static const struct seen *read_list(struct client *client, const char *text)
{
    if (client->stream && client->kind == BLOCK)
        stream_abort(client->stream);
    if (client->kind == BLOCK)
        client->stream = NULL;
    client->kind = NOTHING;
    client->flying = 0;
    if (!client->stream)
        begin_client(client);
    wait_answered(client);
    unsigned before = read_count;
    request(client, READ, text);
    wait_answered(client);
    CHECK(read_count == before + 1);
    return &reads[before];
}

static void check_equal(const struct seen *a, const struct seen *b)
{
    CHECK(a->count == b->count &&
          memcmp(a->numbers, b->numbers, a->count * sizeof *a->numbers) == 0);
}

static void check_writes(const struct seen *last, unsigned place[NUMBERS_MAX])
{
    for (unsigned i = 0; i < NUMBERS_MAX; i++)
        place[i] = UINT32_MAX;
    for (unsigned i = 0; i < last->count; i++) {
        CHECK(place[last->numbers[i]] == UINT32_MAX);
        place[last->numbers[i]] = i;
    }
    for (unsigned i = 0; i < write_count; i++) {
        CHECK(!writes[i].done || place[i] != UINT32_MAX);
        CHECK(!writes[i].is_refused || place[i] == UINT32_MAX);
    }
}

static void check_reads(const struct seen *last, const unsigned place[NUMBERS_MAX])
{
    for (unsigned i = 0; i < read_count; i++) {
        const struct seen *seen = &reads[i];
        CHECK(seen->count <= last->count);
        CHECK(memcmp(seen->numbers, last->numbers, seen->count * sizeof *seen->numbers) == 0);
        for (unsigned n = 0; n < write_count && !seen->is_old; n++)
            CHECK(!writes[n].done || writes[n].done > seen->sent || place[n] < seen->count);
        for (unsigned n = 0; n < read_count && !seen->is_old; n++)
            CHECK(reads[n].done > seen->sent || reads[n].count <= seen->count);
    }
}

static void check(void)
{
    static unsigned place[NUMBERS_MAX];
    const struct seen *last = read_list(&leader->clients[0], "LRANGE l 0 -1");
    check_equal(last, read_list(&leader->clients[0], "LRANGE m 0 -1"));
    for (unsigned i = 0; i < NODES; i++)
        if (&nodes[i] != leader)
            check_equal(last, read_list(&nodes[i].clients[CLIENTS - 1], "LRANGE l 0 -1"));
    check_writes(last, place);
    check_reads(last, place);
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
    config.partitions = NODES;
    config.replica_reads = seed % 2 ? REPLICA_READS_FRESH : REPLICA_READS_STALE;
    process = process_new(&config, NULL, NULL);
    process->env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 1024 * 1024, .background_threads = 1});
    sim_set_host("clients");
    world = loop_new();
    turns = timer_new(world, take_turn, NULL);
    timer_start(turns, 1, 1);
    write_count = read_count = 0;
    clock_now = term = committed = 0;
    answer_turns = 4U << sim_random(4);
    leader = late = NULL;
    memset(writes, 0, sizeof writes);
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &nodes[i];
        memset(node, 0, sizeof *node);
        node->index = i;
        (void)snprintf(node->host, sizeof node->host, "%c", 'a' + i);
        (void)snprintf(node->address, sizeof node->address, "%c:1", 'a' + i);
        start_node(node);
        sim_clock_skew(node->host, (int64_t)sim_random(2 * SKEW_US) - SKEW_US);
        for (unsigned n = 0; n < CLIENTS; n++)
            node->clients[n] = (struct client){.node = node,
                                               .only_reads = n >= CLIENTS - 2,
                                               .reads_old = n >= CLIENTS - (reads_fresh() ? 2 : 1)};
    }
}

/* A new store has records of its own, which differ. */
static void copy_first_records(void)
{
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].last = storage_written(nodes[i].partition->storage);
    for (unsigned i = 1; i < NODES; i++)
        CHECK(nodes[i].last == nodes[0].last);
    committed = nodes[0].last;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].told_committed = committed;
}

static void end_world(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        end_node(&nodes[i]);
        for (uint64_t n = 1; n <= nodes[i].last; n++)
            forget(&nodes[i].log[n]);
    }
    sim_run_for(SETTLED_US);
    timer_free(turns);
    loop_free(world);
    store_env_free(process->env);
    process_free(process);
    config_fini(&config.head);
    for (unsigned i = 0; i < read_count; i++)
        free(reads[i].numbers);
    sim_fini();
}

static void disturb(void)
{
    uint64_t which = sim_random(60);
    if (which < 2 || !leader)
        elect();
    else if (which == 2 && sim_random(4) == 0)
        crash(&nodes[sim_random(NODES)]);
    else if (which == 3 && leader)
        atomic_store(&leader->lease_us, 0);
    else if (which == 4 && sim_random(4) == 0)
        sim_run_for(12 * 1000000ULL); /* buffers are applied */
}

/* sim_simulation.run; what is wrong ends the process. */
static void run(struct sim_result *result)
{
    begin_world(result->seed);
    copy_first_records();
    for (uint64_t turn = 0; turn < sim_options.steps; turn++) {
        disturb();
        work();
        use_client(&nodes[sim_random(NODES)].clients[sim_random(CLIENTS)]);
        sim_run_for(sim_random(STEP_US));
    }
    finish();
    check();
    result->hash = sim_hash();
    result->has_passed = true;
    end_world();
}

int main(int argc, char **argv)
{
    const struct sim_simulation simulation = {.run = run,
                                              .seeds = sized(SEEDS),
                                              .steps = TURNS,
                                              .first_break = BREAK_LEASE_ENDLESS,
                                              .end_break = BREAK_LEADERS_END,
                                              .break_seed = 1};
    return sim_seeds_main(argc, argv, &simulation);
}
