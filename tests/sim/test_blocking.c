/*
 * test_blocking.c - clients push to three lists, pop from them and block for them, while the network cuts connections,
 * the store fails and the process crashes.
 *
 *   test_blocking [seed]      one world, or SEEDS
 *
 * Two of the connections are those of proxies. Each has blocked commands of many clients (waits.h), which it cancels
 * and unblocks.
 *
 * Every element is pushed once. It is checked that
 *   (1) replies come in the order of the requests, also when a request blocks or waits for a commit;
 *   (2) no element is given to two clients, and every element given was pushed;
 *   (3) a blocked command gets null only after its timeout;
 *   (4) in the end no client is blocked for a list that has elements, and the server's count of blocked clients is
 * right;
 *   (5) an element that a failed commit returns to its list is given to a client that is blocked by then;
 *   (6) in the end every acknowledged element was given to a client, or is in a list, or was in a reply that a fault
 * lost;
 *   (7) each blocked command of a proxy's connection gets one reply, with its number; a cancelled one gets at most one,
 * and none after the backend has seen the cancellation.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/dispatch/blocking.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"
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
    SEEDS = 60,
    CLIENTS = 8,
    PROXIES = 2,
    WAITS_MAX = 12, /* blocked commands of a proxy's connection at a time */
    GONE_MAX = 64,
    KEYS = 3,
    PENDING_MAX = 16,
    ROUNDS = 200,
    ROUND_US = 20 * 1000,
    ELEMENTS_MAX = 1 << 16
};

/* The form of a reply: an integer, +OK or +QUEUED, an array of integers, an element alone, or an element with its
 * key. */
enum wanted { WANT_INT, WANT_STATUS, WANT_INTS, WANT_ELEMENT, WANT_PAIR };

struct request {
    enum wanted wanted;
    bool is_waiting;       /* a blocking command */
    bool is_unblocked;     /* it was unblocked: null or an error may come at any time */
    unsigned keys;         /* lists that it may take from: a bit for each */
    uint64_t until_us;     /* earliest time of a null reply; 0: none may come */
    uint64_t first, count; /* elements it pushes */
};

struct client {
    struct sim_connection connection;
    struct request pending[PENDING_MAX]; /* a ring buffer, the oldest at `first` */
    uint64_t first;
    uint64_t last;
};

/* A connection with the blocked commands of many clients. */
struct proxy {
    struct sim_connection connection;
    uint64_t ids[WAITS_MAX]; /* number of each blocked command; 0: unused */
    struct request waits[WAITS_MAX];
    uint64_t gone[GONE_MAX]; /* numbers of commands cancelled since the last PING; 0: unused */
    bool is_asked;           /* a PING is outstanding */
    uint64_t last_id;
};

enum fate { UNKNOWN, ACKED, TAKEN };

static struct sim_partition world;
static struct client clients[CLIENTS];
static struct proxy proxies[PROXIES];
static uint8_t fates[ELEMENTS_MAX];
static uint64_t elements; /* pushed so far */
static uint64_t taken;
static uint64_t nulls;
static uint64_t answers; /* replies to blocked commands of proxies */
static uint64_t lost;    /* elements that may have been in lost replies */

/* ---- clients: replies ---- */

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static void take(struct bytes text)
{
    char copy[32] = "";
    CHECK(text.len < sizeof copy);
    memcpy(copy, text.data, text.len);
    uint64_t element = strtoull(copy, NULL, 10);
    CHECK(element < elements);
    CHECK(fates[element] != TAKEN);
    fates[element] = TAKEN;
    taken++;
    sim_note("took", element);
}

static void check_null(const struct request *request)
{
    nulls++;
    if (request->is_waiting && !request->is_unblocked)
        CHECK(request->until_us && sim_now_us() >= request->until_us);
}

static void check_reply(const struct request *request, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value = next_value(frame, &pos);
    if (value.type == '-' && request->is_unblocked && value.text.data[0] == 'U')
        return;
    if (value.type == '-') { /* the store failed, so the write may or may not have happened */
        CHECK(strncmp(value.text.data, "MISCONF", 7) == 0 ||
              strncmp(value.text.data, "EXECABORT", 9) == 0);
        lost += request->wanted >= WANT_ELEMENT;
        return;
    }
    switch (request->wanted) {
    case WANT_STATUS:
        CHECK(value.type == '+');
        break;
    case WANT_INTS:
        CHECK(value.type == '*' && value.count == (int64_t)request->count);
        break;
    case WANT_INT:
        CHECK(value.type == ':');
        break;
    case WANT_PAIR:
    case WANT_ELEMENT:
        if (value.is_null) {
            check_null(request);
            break;
        }
        if (request->wanted == WANT_PAIR) {
            CHECK(value.type == '*' && value.count == 2);
            value = next_value(frame, &pos);
            CHECK(value.text.len == 2 && value.text.data[0] == 'k');
            CHECK(request->keys & 1U << (value.text.data[1] - '0'));
            value = next_value(frame, &pos);
        }
        CHECK(value.type == '$');
        take(value.text);
        break;
    }
    for (uint64_t i = 0; i < request->count; i++)
        if (fates[request->first + i] == UNKNOWN && value.type != '+')
            fates[request->first + i] = ACKED;
}

static void on_reply(void *owner, struct bytes frame)
{
    struct client *client = owner;
    CHECK(client->first < client->last);
    check_reply(&client->pending[client->first++ % PENDING_MAX], frame);
}

/* ---- clients: requests ---- */

static void add(struct client *client, struct request request)
{
    CHECK(client->last - client->first < PENDING_MAX);
    client->pending[client->last++ % PENDING_MAX] = request;
}

static struct request push_of(uint64_t count)
{
    struct request request = {.wanted = WANT_INT, .first = elements, .count = count};
    elements += count;
    CHECK(elements <= ELEMENTS_MAX);
    return request;
}

static void send_push(struct client *client)
{
    struct request push = push_of(1 + sim_random(3));
    out_printf(stream_out(client->connection.stream), "%s k%d", sim_random(2) ? "LPUSH" : "RPUSH",
               (int)sim_random(KEYS));
    for (uint64_t i = 0; i < push.count; i++)
        out_printf(stream_out(client->connection.stream), " %d", (int)(push.first + i));
    out_printf(stream_out(client->connection.stream), "\r\n");
    add(client, push);
}

/* Sends a transaction that pushes one element to each of several lists. */
static void send_transaction(struct client *client)
{
    struct out *out = stream_out(client->connection.stream);
    struct request push = push_of(KEYS);
    push.wanted = WANT_INTS;
    out_printf(out, "MULTI\r\n");
    add(client, (struct request){.wanted = WANT_STATUS});
    for (uint64_t i = 0; i < push.count; i++) {
        out_printf(out, "RPUSH k%d %d\r\n", (int)sim_random(KEYS), (int)(push.first + i));
        add(client, (struct request){.wanted = WANT_STATUS});
    }
    out_printf(out, "EXEC\r\n");
    add(client, push);
}

static void send_wait(struct client *client)
{
    struct out *out = stream_out(client->connection.stream);
    int a = (int)sim_random(KEYS);
    int b = (int)sim_random(KEYS);
    int timeout_ms = sim_random(3) ? (int)sim_random(40) : 0;
    const char *name = sim_random(2) ? "BLPOP" : "BRPOP";
    out_printf(out, "%s k%d k%d %d.%03d\r\n", name, a, b, timeout_ms / 1000, timeout_ms % 1000);
    add(client, (struct request){
                    .wanted = WANT_PAIR,
                    .is_waiting = true,
                    .keys = 1U << a | 1U << b,
                    .until_us = timeout_ms ? sim_now_us() + (uint64_t)timeout_ms * 1000 : 0,
                });
}

static void send_random(struct client *client)
{
    switch (sim_random(10)) {
    case 0:
    case 1:
        send_push(client);
        break;
    case 2:
        if (client->last - client->first + KEYS + 2 <= PENDING_MAX)
            send_transaction(client);
        break;
    case 3: /* the moved element is not marked as taken: only (1) is checked for it */
        out_printf(stream_out(client->connection.stream), "LLEN k%d\r\n", (int)sim_random(KEYS));
        add(client, (struct request){.wanted = WANT_INT});
        break;
    case 4:
        out_printf(stream_out(client->connection.stream), "LPOP k%d\r\n", (int)sim_random(KEYS));
        add(client, (struct request){.wanted = WANT_ELEMENT});
        break;
    default:
        send_wait(client);
    }
}

/* Elements may have been in the replies to outstanding requests. */
static void on_client_lost(void *owner)
{
    struct client *client = owner;
    for (; client->first < client->last; client->first++)
        lost += client->pending[client->first % PENDING_MAX].wanted >= WANT_ELEMENT;
    client->first = client->last = 0;
}

static void on_client_turn(void *owner)
{
    struct client *client = owner;
    if (sim_chance(1500)) { /* the client disconnects, perhaps while it is blocked */
        sim_connection_drop(&client->connection);
        return;
    }
    for (uint64_t i = sim_random(3) == 0; i > 0 && client->last - client->first + 2 < PENDING_MAX;
         i--)
        send_random(client);
}

static const struct sim_connection_events client_events = {
    .on_frame = on_reply, .on_turn = on_client_turn, .on_lost = on_client_lost};

/* ---- proxies ---- */

static void on_proxy_lost(void *owner)
{
    struct proxy *proxy = owner;
    for (int i = 0; i < WAITS_MAX; i++)
        lost += proxy->ids[i] != 0;
    for (int i = 0; i < GONE_MAX; i++)
        lost += proxy->gone[i] != 0;
    memset(proxy->ids, 0, sizeof proxy->ids);
    memset(proxy->gone, 0, sizeof proxy->gone);
    proxy->is_asked = false;
}

/* The index of a number in an array, which must contain it. */
static int place_of(const uint64_t *ids, int count, uint64_t id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id)
            return i;
    return -1;
}

/* Handles a frame with a number: the command is blocked now, or this is its reply. */
static void take_numbered(struct proxy *proxy, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value head = next_value(frame, &pos);
    struct resp_value number = next_value(frame, &pos);
    CHECK(number.type == ':' && number.count > 0);
    int place = place_of(proxy->ids, WAITS_MAX, (uint64_t)number.count);
    int gone = place_of(proxy->gone, GONE_MAX, (uint64_t)number.count);
    CHECK(place >= 0 || gone >= 0);
    if (head.count == 1)
        return;
    static const struct request cancelled = {
        .wanted = WANT_PAIR, .keys = (1U << KEYS) - 1, .is_unblocked = true};
    CHECK(head.count == 2);
    check_reply(place >= 0 ? &proxy->waits[place] : &cancelled,
                (struct bytes){frame.data + pos, frame.len - pos});
    answers++;
    if (place >= 0)
        proxy->ids[place] = 0;
    else
        proxy->gone[gone] = 0;
}

static void on_proxy_frame(void *owner, struct bytes frame)
{
    struct proxy *proxy = owner;
    if (frame.data[0] == '>') {
        take_numbered(proxy, frame);
    } else if (strncmp(frame.data, "+PONG", 5) == 0 || frame.data[0] == '-') {
        CHECK(proxy->is_asked); /* an error: the reply waited for a batch whose commit failed */
        memset(proxy->gone, 0, sizeof proxy->gone);
        proxy->is_asked = false;
    } else {
        CHECK(strncmp(frame.data, "+OK", 3) == 0);
    }
}

/* Cancels a blocked command. */
static void proxy_cancel(struct proxy *proxy, int place)
{
    static const char *const ways[] = {"TIMEOUT", "ERROR", "GONE"};
    uint64_t way = sim_random(3);
    int gone = place_of(proxy->gone, GONE_MAX, 0);
    if (way == 2 && (gone < 0 || proxy->is_asked))
        return;
    out_printf(stream_out(proxy->connection.stream), "SCREE UNBLOCK %llu %s\r\n",
               (unsigned long long)proxy->ids[place], ways[way]);
    proxy->waits[place].is_unblocked = true;
    if (way < 2)
        return;
    proxy->gone[gone] = proxy->ids[place];
    proxy->ids[place] = 0;
    if (sim_random(4) == 0) {
        out_printf(stream_out(proxy->connection.stream), "PING\r\n");
        proxy->is_asked = true;
    }
}

static void proxy_wait(struct proxy *proxy, int place)
{
    int a = (int)sim_random(KEYS);
    int b = (int)sim_random(KEYS);
    int timeout_ms = sim_random(3) ? (int)sim_random(40) : 0;
    int resp = 2 + (int)sim_random(2);
    proxy->ids[place] = ++proxy->last_id;
    out_printf(stream_out(proxy->connection.stream),
               "SCREE WAIT %llu %d \"\" 0 tag %s k%d k%d %d.%03d\r\n",
               (unsigned long long)proxy->ids[place], resp, sim_random(2) ? "BLPOP" : "BRPOP", a, b,
               timeout_ms / 1000, timeout_ms % 1000);
    proxy->waits[place] = (struct request){
        .wanted = WANT_PAIR,
        .is_waiting = true,
        .keys = 1U << a | 1U << b,
        .until_us = timeout_ms ? sim_now_us() + (uint64_t)timeout_ms * 1000 : 0,
    };
}

static void on_proxy_connect(void *owner)
{
    struct proxy *proxy = owner;
    out_printf(stream_out(proxy->connection.stream), "SCREE AUTH secret\r\n");
}

static void on_proxy_turn(void *owner)
{
    struct proxy *proxy = owner;
    if (sim_chance(1000)) {
        sim_connection_drop(&proxy->connection);
        return;
    }
    int place = (int)sim_random(WAITS_MAX);
    if (!proxy->ids[place])
        proxy_wait(proxy, place);
    else if (sim_random(8) == 0 && !proxy->waits[place].is_unblocked)
        proxy_cancel(proxy, place);
}

static const struct sim_connection_events proxy_events = {.on_connect = on_proxy_connect,
                                                          .on_frame = on_proxy_frame,
                                                          .on_turn = on_proxy_turn,
                                                          .on_lost = on_proxy_lost};

/* ---- audit, when no request is in flight ---- */

/* The length of a list. Its acknowledged elements that no client has taken are added to *found. */
static uint64_t look_at(int key, uint64_t *found)
{
    struct call call;
    struct entry entry;
    struct sub_iter it;
    uint64_t size = 0;
    const char name[] = {'k', (char)('0' + key)};
    internal_call_begin(world.partition, &call);
    call.space = space_open(world.partition->spaces, BYTES(""), 0);
    CHECK(keyspace_open(&call, (struct bytes){name, 2}, OPEN_QUIET, &entry));
    if (entry.exists) {
        sub_iter_init(&call, &entry, CF_DATA, BYTES(""), &it);
        for (; sub_iter_next(&it); size++) {
            char copy[32] = "";
            memcpy(copy, it.value.data, it.value.len);
            uint64_t element = strtoull(copy, NULL, 10);
            CHECK(fates[element] != TAKEN);
            *found += fates[element] == ACKED;
        }
        CHECK(sub_iter_fini(&it));
        CHECK(size == entry.meta.size);
    }
    internal_call_end(world.partition, &call);
    return size;
}

/* Checks a proxy's blocked commands when no request is outstanding: only those without timeout may be left, for
 * empty lists. */
static uint32_t audit_proxy(const struct proxy *proxy, const uint64_t *sizes)
{
    uint32_t waiting = 0;
    for (int i = 0; i < WAITS_MAX; i++) {
        const struct request *wait = &proxy->waits[i];
        if (!proxy->ids[i])
            continue;
        CHECK(!wait->until_us && !wait->is_unblocked);
        for (int key = 0; key < KEYS; key++)
            CHECK(sizes[key] == 0 || !(wait->keys & 1U << key));
        waiting++;
    }
    return waiting;
}

/* Checks (4) and (6) when no request is outstanding. */
static void audit(void)
{
    uint64_t sizes[KEYS];
    uint64_t found = 0;
    uint64_t acked = 0;
    uint32_t waiting = 0;
    for (int i = 0; i < KEYS; i++)
        sizes[i] = look_at(i, &found);
    for (int i = 0; i < PROXIES; i++)
        waiting += audit_proxy(&proxies[i], sizes);
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &clients[i];
        if (!client->connection.stream || client->first == client->last)
            continue;
        struct request *front = &client->pending[client->first % PENDING_MAX];
        CHECK(front->is_waiting && !front->until_us);
        for (int key = 0; key < KEYS; key++)
            CHECK(sizes[key] == 0 || !(front->keys & 1U << key));
        waiting++;
    }
    CHECK(blocking_clients(world.partition->watchers.blocking) == waiting);
    for (uint64_t i = 0; i < elements; i++)
        acked += fates[i] == ACKED;
    CHECK(acked <= found + lost);
}

/* ---- the world ---- */

static void world_begin(uint64_t seed)
{
    memset(clients, 0, sizeof clients);
    memset(proxies, 0, sizeof proxies);
    memset(fates, UNKNOWN, sizeof fates);
    elements = taken = nulls = lost = answers = 0;
    sim_partition_init(&world, seed);
    sim_knobs_shuffle();
    world.config.durability = DURABILITY_ALWAYS;
    free(world.config.secret);
    world.config.secret = strdup("secret");
    bool is_tiny = sim_random(2);
    sim_partition_start(&world, true);
    if (is_tiny) /* less than the option allows: every effect fills the batch */
        world.process->snapshot->config.commit_batch_limit_bytes = 1;
    for (int i = 0; i < CLIENTS; i++)
        sim_connection_begin(&clients[i].connection, &world, &client_events, &clients[i]);
    for (int i = 0; i < PROXIES; i++)
        sim_connection_begin(&proxies[i].connection, &world, &proxy_events, &proxies[i]);
}

static void world_end(void)
{
    sim_partition_quiet(&world);
    sim_run_for(10 * 1000 * 1000);
    audit();
    sim_partition_stop(&world);
    sim_partition_fini(&world);
}

static void run_world(uint64_t seed)
{
    world_begin(seed);
    bool is_faulty = seed % 3 != 0;
    for (int round = 0; round < ROUNDS; round++) {
        sim_run_for(1 + sim_random(ROUND_US));
        if (is_faulty && sim_chance(40000))
            sim_partition_crash(&world);
        else if (is_faulty && sim_chance(60000))
            storage_mem_fail_next(world.partition->storage, 1 + sim_random(3),
                                  sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        else if (sim_chance(20000))
            sim_run_for(1500 * 1000); /* long enough to recover from a failed write */
    }
    if (is_faulty) { /* a commit fails that takes elements, and no push follows */
        sim_run_for(2000 * 1000);
        storage_mem_fail_next(world.partition->storage, 1, ERR_STORE);
        sim_run_for(1 + sim_random(ROUND_US));
    }
    world_end();
    CHECK(taken > 0 && answers > 0);
}

static void on_nothing(void *owner)
{
    (void)owner;
}

/* (5): an element is popped while a client is blocked, and the commit of the pop fails. */
static void run_give_back(uint64_t seed)
{
    struct client *client = &clients[0];
    world_begin(seed);
    sim_partition_quiet(&world);
    world.process->snapshot->config.commit_batch_limit_bytes = 1024 * 1024;
    struct timer *turns =
        /* turns of the loop send what is written here */
        timer_new(world.client_loop, on_nothing, NULL);
    timer_start(turns, 1, 1);
    struct request push = push_of(1);
    out_printf(stream_out(client->connection.stream), "RPUSH k0 %d\r\n", (int)push.first);
    add(client, push);
    stream_send(client->connection.stream);
    sim_run_for(5 * 1000 * 1000);
    CHECK(fates[push.first] == ACKED);
    storage_mem_fail_next(world.partition->storage, 1, ERR_DISK_FULL);
    out_printf(stream_out(client->connection.stream), "LPOP k0\r\nBLPOP k0 0\r\n");
    add(client, (struct request){.wanted = WANT_ELEMENT});
    add(client, (struct request){.wanted = WANT_PAIR, .is_waiting = true, .keys = 1});
    stream_send(client->connection.stream);
    sim_run_for(10 * 1000 * 1000);
    /* errors: LPOP, and also BLPOP when it was refused after the failure */
    CHECK(lost == 1 || lost == 2);
    CHECK(lost == 2 || fates[push.first] == TAKEN);
    CHECK(client->first == client->last);
    timer_free(turns);
    world_end();
}

static void run_both(uint64_t seed)
{
    run_world(seed);
    run_give_back(seed);
}

int main(int argc, char **argv)
{
    int code = sim_run_seeds(argc, argv, sized(SEEDS), run_both);
    if (argc > 1)
        printf("elements %llu taken %llu nulls %llu lost %llu, %llu answers to waits of proxies\n",
               (unsigned long long)elements, (unsigned long long)taken, (unsigned long long)nulls,
               (unsigned long long)lost, (unsigned long long)answers);
    return code;
}
