/*
 * test_session.c - sessions, dispatch and commit together: clients pipeline commands to a partition whose store fails
 * and whose process crashes.
 *
 *   test_session [seed]      one world, or SEEDS
 *
 * Every client increments its own two keys, always both in one transaction, reads those of others, and checks:
 *   (1) replies come in the order of the requests, one for each, also when commits are slow or fail;
 *   (2) a value that any client has read is never rolled back, by a failed commit or a crash;
 *   (3) both keys of a client always have equal values;
 *   (4) the counters of keys are right after every crash and at the end.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/space.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 60, CLIENTS = 6, PENDING_MAX = 64, ROUNDS = 60, ROUND_US = 20 * 1000 };

/* What a reply must be. */
enum wanted { WANT_OK, WANT_QUEUED, WANT_PAIR, WANT_ECHO, WANT_VALUE };

struct request {
    enum wanted wanted;
    int of;          /* VALUE, PAIR: the client whose key is read */
    uint64_t floor;  /* the highest value read by any client when this request was sent */
    uint64_t number; /* ECHO */
};

struct client {
    int index;
    struct sim_connection connection;
    struct request pending[PENDING_MAX]; /* a ring buffer, the oldest at `first` */
    uint64_t first;
    uint64_t last;
    uint64_t sent; /* increments sent on all connections */
    uint64_t echoes;
    uint64_t replies;
    uint64_t errors;
};

static struct sim_partition world;
static struct client clients[CLIENTS];
static uint64_t seen[CLIENTS]; /* the highest value of a client's key that any client has read */

/* ---- clients: replies ---- */

static void saw(int of, uint64_t value)
{
    CHECK(value <= clients[of].sent);
    if (value > seen[of])
        seen[of] = value;
    sim_note("saw", value);
}

static uint64_t number_of(struct bytes text)
{
    char copy[32] = "";
    CHECK(text.len < sizeof copy);
    memcpy(copy, text.data, text.len);
    return strtoull(copy, NULL, 10);
}

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static bool is_error(const struct resp_value *value, const char *code)
{
    return value->type == '-' && strncmp(value->text.data, code, strlen(code)) == 0;
}

static void check_reply(struct client *client, const struct request *request, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value = next_value(frame, &pos);
    client->replies++;
    if (is_error(&value, "MISCONF") || is_error(&value, "EXECABORT")) {
        client->errors++;
        return;
    }
    switch (request->wanted) {
    case WANT_OK:
        CHECK(value.type == '+' && bytes_equal(value.text, BYTES("OK")));
        break;
    case WANT_QUEUED:
        CHECK(value.type == '+' && bytes_equal(value.text, BYTES("QUEUED")));
        break;
    case WANT_ECHO:
        CHECK(value.type == '$' && number_of(value.text) == request->number);
        break;
    case WANT_VALUE:
        CHECK(value.type == '$');
        value.count = value.is_null ? 0 : (int64_t)number_of(value.text);
        CHECK((uint64_t)value.count >= request->floor);
        saw(request->of, (uint64_t)value.count);
        break;
    case WANT_PAIR:
        CHECK(value.type == '*' && value.count == 2);
        struct resp_value a = next_value(frame, &pos);
        struct resp_value b = next_value(frame, &pos);
        CHECK(a.type == ':' && b.type == ':' && a.count == b.count);
        CHECK((uint64_t)a.count > request->floor);
        saw(request->of, (uint64_t)a.count);
        break;
    }
}

static void on_reply(void *owner, struct bytes frame)
{
    struct client *client = owner;
    CHECK(client->first < client->last);
    check_reply(client, &client->pending[client->first++ % PENDING_MAX], frame);
}

/* ---- clients: requests ---- */

static void request(struct client *client, struct request wanted, const char *text)
{
    CHECK(client->last - client->first < PENDING_MAX);
    client->pending[client->last++ % PENDING_MAX] = wanted;
    out_printf(stream_out(client->connection.stream), "%s\r\n", text);
}

/* A command on a numbered key, e.g. "INCR a3". */
static const char *about(const char *command, uint64_t number)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s%llu", command, (unsigned long long)number);
    return text;
}

static void request_pair(struct client *client)
{
    client->sent++;
    request(client, (struct request){.wanted = WANT_OK}, "MULTI");
    request(client, (struct request){.wanted = WANT_QUEUED},
            about("INCR a", (uint64_t)client->index));
    request(client, (struct request){.wanted = WANT_QUEUED},
            about("INCR b", (uint64_t)client->index));
    request(
        client,
        (struct request){.wanted = WANT_PAIR, .of = client->index, .floor = seen[client->index]},
        "EXEC");
}

static void request_random(struct client *client)
{
    int of = (int)sim_random(CLIENTS);
    switch (sim_random(4)) {
    case 0:
        request_pair(client);
        break;
    case 1:
        client->echoes++;
        request(client, (struct request){.wanted = WANT_ECHO, .number = client->echoes},
                about("ECHO ", client->echoes));
        break;
    default:
        request(client, (struct request){.wanted = WANT_VALUE, .of = of, .floor = seen[of]},
                about(sim_random(2) ? "GET a" : "GET b", (uint64_t)of));
    }
}

static void on_connect(void *owner)
{
    struct client *client = owner;
    client->first = client->last = 0;
}

static void on_turn(void *owner)
{
    struct client *client = owner;
    for (uint64_t i = sim_random(8); i > 0 && client->last - client->first + 4 <= PENDING_MAX; i--)
        request_random(client);
}

static const struct sim_connection_events client_events = {
    .on_connect = on_connect, .on_frame = on_reply, .on_turn = on_turn};

/* ---- the world ---- */

/* Compares the counters with the rows in the store, when no write is outstanding. */
static void check_counters(void)
{
    const struct bytes all = BYTES("");
    uint64_t rows = 0;
    struct overlay_iter *iter = overlay_iter_new(world.partition->overlay, CF_METADATA, all, all);
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter))
        rows++;
    overlay_iter_free(iter);
    CHECK(rows == space_keys_total(world.partition->spaces));
}

static void world_begin(uint64_t seed)
{
    memset(clients, 0, sizeof clients);
    memset(seen, 0, sizeof seen);
    sim_partition_init(&world, seed);
    sim_knobs_shuffle();
    world.config.durability = DURABILITY_ALWAYS;
    bool is_tiny = sim_random(2);
    sim_partition_start(&world, true);
    if (is_tiny) /* less than the option allows: every effect fills the batch */
        world.process->snapshot->config.commit_batch_limit_bytes = 1;
    check_counters();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].index = i;
        sim_connection_begin(&clients[i].connection, &world, &client_events, &clients[i]);
    }
}

static void world_end(void)
{
    sim_partition_stop(&world);
    check_counters();
    sim_partition_fini(&world);
}

static void crash(void)
{
    sim_partition_crash(&world);
    check_counters();
}

static void run_world(uint64_t seed)
{
    world_begin(seed);
    for (int round = 0; round < ROUNDS; round++) {
        sim_run_for(1 + sim_random(ROUND_US));
        if (sim_chance(60000))
            crash();
        else if (sim_chance(60000))
            storage_mem_fail_next(world.partition->storage, 1 + sim_random(3),
                                  sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        else if (sim_chance(20000))
            sim_run_for(1500 * 1000); /* long enough to recover from a failed write */
    }
    uint64_t replies = 0;
    for (int i = 0; i < CLIENTS; i++)
        replies += clients[i].replies;
    CHECK(replies > 0);
    world_end();
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_world);
}
