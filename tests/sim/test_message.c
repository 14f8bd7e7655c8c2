/*
 * test_message.c - Pub/Sub messages while commits fail and the process crashes: no message is sent for a write that did
 * not happen.
 *
 *   test_message [seed]      one world, or SEEDS
 *
 *   writer i: MULTI, SET k<i> n, PUBLISH news <i>:<n>, EXEC; n grows ─► partition ─► listeners of news
 *
 * (1) a message is received at most once, in the order of the numbers, and never when its EXEC was an error;
 * (2) the write of a received message is visible to every read that begins later, also after a crash;
 * (3) a RESP3 listener that also writes gets all its replies, in order, between whole messages.
 */
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/storage_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 30,
    CLIENTS = 5, /* the first WRITERS write, the others listen; listener 4 also writes k4 */
    WRITERS = 3,
    PENDING_MAX = 64,
    NUMBERS = 65536,
    ROUNDS = 60,
    ROUND_US = 20 * 1000
};

enum wanted { WANT_OK, WANT_QUEUED, WANT_EXEC, WANT_VALUE, WANT_HELLO, WANT_SUBSCRIBED };
enum { TOLD = 1, FAILED = 2 };

struct request {
    enum wanted wanted;
    int of;
    /* EXEC: the number written; VALUE: the lowest number that the reply may have */
    uint64_t number;
};

struct client {
    int index;
    struct sim_connection connection;
    struct request pending[PENDING_MAX]; /* a ring buffer, the oldest at `first` */
    uint64_t first;
    uint64_t last;
    uint64_t heard[CLIENTS]; /* the last number received on this connection, by writer */
};

static struct sim_partition world;
static struct client clients[CLIENTS];
static uint64_t sent[CLIENTS];                /* the last number that was sent for each key */
static uint64_t known[CLIENTS];               /* the highest number that any listener received */
static unsigned char fates[CLIENTS][NUMBERS]; /* TOLD, FAILED */
static uint64_t messages;

/* ---- received frames ---- */

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static uint64_t number_of(struct bytes text)
{
    char copy[32] = "";
    CHECK(text.len < sizeof copy);
    memcpy(copy, text.data, text.len);
    return strtoull(copy, NULL, 10);
}

static void know(int of, uint64_t number)
{
    CHECK(number <= sent[of]);
    if (number > known[of])
        known[of] = number;
    sim_note("known", number);
}

/* Checks the text "<i>:<n>" of a message. */
static void hear(struct client *client, struct bytes text)
{
    int of = text.data[0] - '0';
    uint64_t number = number_of((struct bytes){text.data + 2, text.len - 2});
    CHECK(of >= 0 && of < CLIENTS);
    CHECK(number > client->heard[of]);
    CHECK(!(fates[of][number] & FAILED));
    client->heard[of] = number;
    fates[of][number] |= TOLD;
    messages++;
    know(of, number);
}

/* Is the frame a message of the channel (and not a reply)? */
static bool is_message(struct client *client, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value head = next_value(frame, &pos);
    if ((head.type != '*' && head.type != '>') || head.count != 3)
        return false;
    struct resp_value word = next_value(frame, &pos);
    if (word.type != '$' || !bytes_equal(word.text, BYTES("message")))
        return false;
    (void)next_value(frame, &pos);
    hear(client, next_value(frame, &pos).text);
    return true;
}

static void check_reply(const struct request *request, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value = next_value(frame, &pos);
    if (value.type == '-') {
        CHECK(strncmp(value.text.data, "MISCONF", 7) == 0 ||
              strncmp(value.text.data, "EXECABORT", 9) == 0);
        if (request->wanted == WANT_EXEC) {
            CHECK(!(fates[request->of][request->number] & TOLD));
            fates[request->of][request->number] |= FAILED;
        }
        return;
    }
    switch (request->wanted) {
    case WANT_OK:
    case WANT_QUEUED:
        CHECK(value.type == '+');
        break;
    case WANT_EXEC:
        CHECK(value.type == '*' && value.count == 2);
        know(request->of, request->number);
        break;
    case WANT_VALUE:
        CHECK(value.type == '$' || value.type == '_');
        value.count = value.is_null || value.type == '_' ? 0 : (int64_t)number_of(value.text);
        CHECK((uint64_t)value.count >= request->number);
        know(request->of, (uint64_t)value.count);
        break;
    case WANT_HELLO:
        CHECK(value.type == '%');
        break;
    case WANT_SUBSCRIBED:
        CHECK((value.type == '*' || value.type == '>') && value.count == 3);
        break;
    }
}

static void on_frame(void *owner, struct bytes frame)
{
    struct client *client = owner;
    if (is_message(client, frame))
        return;
    CHECK(client->first < client->last);
    check_reply(&client->pending[client->first++ % PENDING_MAX], frame);
}

/* ---- sent requests ---- */

static void request(struct client *client, struct request wanted, const char *text)
{
    CHECK(client->last - client->first < PENDING_MAX);
    client->pending[client->last++ % PENDING_MAX] = wanted;
    out_printf(stream_out(client->connection.stream), "%s\r\n", text);
}

static void request_change(struct client *client)
{
    char text[64];
    unsigned long long number = ++sent[client->index];
    CHECK(number < NUMBERS);
    request(client, (struct request){.wanted = WANT_OK}, "MULTI");
    (void)snprintf(text, sizeof text, "SET k%d %llu", client->index, number);
    request(client, (struct request){.wanted = WANT_QUEUED}, text);
    (void)snprintf(text, sizeof text, "PUBLISH news %d:%llu", client->index, number);
    request(client, (struct request){.wanted = WANT_QUEUED}, text);
    request(client, (struct request){.wanted = WANT_EXEC, .of = client->index, .number = number},
            "EXEC");
}

static void request_value(struct client *client)
{
    char text[64];
    int of = (int)sim_random(CLIENTS);
    (void)snprintf(text, sizeof text, "GET k%d", of);
    request(client, (struct request){.wanted = WANT_VALUE, .of = of, .number = known[of]}, text);
}

static void on_connect(void *owner)
{
    struct client *client = owner;
    client->first = client->last = 0;
    memset(client->heard, 0, sizeof client->heard);
    if (client->index == CLIENTS - 1)
        request(client, (struct request){.wanted = WANT_HELLO}, "HELLO 3");
    if (client->index >= WRITERS)
        request(client, (struct request){.wanted = WANT_SUBSCRIBED}, "SUBSCRIBE news");
}

static void on_turn(void *owner)
{
    struct client *client = owner;
    bool is_mute = client->index == WRITERS; /* a RESP2 listener may send no other commands */
    for (uint64_t i = is_mute ? 0 : sim_random(6);
         i > 0 && client->last - client->first + 4 <= PENDING_MAX; i--) {
        if (sim_random(2))
            request_change(client);
        else
            request_value(client);
    }
}

static const struct sim_connection_events client_events = {
    .on_connect = on_connect, .on_frame = on_frame, .on_turn = on_turn};

/* ---- the world ---- */

static void world_begin(uint64_t seed)
{
    memset(clients, 0, sizeof clients);
    memset(sent, 0, sizeof sent);
    memset(known, 0, sizeof known);
    memset(fates, 0, sizeof fates);
    messages = 0;
    sim_partition_init(&world, seed);
    sim_knobs_shuffle();
    world.config.durability = DURABILITY_ALWAYS;
    sim_partition_start(&world, true);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].index = i;
        sim_connection_begin(&clients[i].connection, &world, &client_events, &clients[i]);
    }
}

static void world_end(void)
{
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

static void run_world(uint64_t seed)
{
    world_begin(seed);
    for (int round = 0; round < ROUNDS; round++) {
        sim_run_for(1 + sim_random(ROUND_US));
        if (sim_chance(60000))
            sim_partition_crash(&world);
        else if (sim_chance(80000))
            storage_mem_fail_next(world.partition->storage, 1 + sim_random(3),
                                  sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        else if (sim_chance(40000))
            sim_run_for(1500 * 1000); /* long enough to recover from a failed write */
    }
    CHECK(messages > 0);
    world_end();
}

int main(int argc, char **argv)
{
    return sim_run_seeds(argc, argv, sized(SEEDS), run_world);
}
