/*
 * sim_client.c - connects, sends the requests of sim_request_generator.c, and checks their replies.
 */
#include "tests/sim/sim_client.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "tests/sim/sim_break.h"
#include "tests/sim/sim_reply.h"
#include "tests/sim/sim_request_generator.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    CONNECT_TIMEOUT_MS = 1000,
    IN_FLIGHT_MAX = 60,
    BURST_MAX = 12,
    BREAK_ONE_IN = 40,
};

void sim_client_fail(struct sim_client *client, const char *format, ...)
{
    struct sim_workload *work = client->work;
    va_list args;
    if (work->why[0])
        return;
    int len = snprintf(work->why, sizeof(work->why), "client %u: ", client->number);
    va_start(args, format);
    (void)vsnprintf(work->why + len, sizeof(work->why) - (size_t)len, format, args);
    va_end(args);
}

static void trace(const struct sim_client *client, const char *what, struct bytes text)
{
    FILE *to = client->work->trace;
    if (!to)
        return;
    fprintf(to, "%10" PRIu64 " client %-2u %s ", sim_now_us() - 1000000000, client->number, what);
    for (size_t i = 0; i < text.len && i < 160; i++) {
        if (text.data[i] >= ' ')
            fputc(text.data[i], to);
        else if (text.data[i] == '\n')
            fputc(' ', to);
    }
    fputc('\n', to);
}

static uint64_t now_ms(void)
{
    return clock_wall_us() / 1000;
}

/* ---- the workload ----------------------------------------------------------------------------- */

/* Names the key: the next number with this prefix that belongs to the key's shard. */
static void name_key(struct sim_workload *work, struct sim_key *key, const char *name)
{
    do {
        (void)snprintf(key->text, sizeof(key->text), "%s:%u", name, work->names++);
        key->slot = slot_of(bytes_of(key->text));
    } while (sim_cluster_shard(work->cluster, key->slot) != key->shard);
}

static void add_key(struct sim_workload *work, enum sim_key_kind kind, unsigned place,
                    unsigned shard, const char *name)
{
    if (work->key_count == SIM_KEYS_MAX)
        return;
    struct sim_key *key = &work->keys[work->key_count++];
    char text[HISTORY_KEY_TEXT];
    *key = (struct sim_key){.kind = kind, .place = place, .shard = shard};
    name_key(work, key, name);
    (void)snprintf(text, sizeof(text), "%u/%.30s", place, key->text);
    (void)history_add_key(&work->history, text);
}

void sim_workload_init(struct sim_workload *work, struct sim_cluster *cluster, bool has_expiry)
{
    *work = (struct sim_workload){.cluster = cluster, .has_expiry = has_expiry};
    history_init(&work->history);
    unsigned registers = 1 + (unsigned)sim_random(3);
    for (unsigned place = 0; place < cluster->plan.places; place++) {
        for (unsigned shard = 0; shard < cluster->shard_count; shard++) {
            for (unsigned i = 0; i < registers; i++)
                add_key(work, SIM_REGISTER, place, shard, "register");
            add_key(work, SIM_COUNTER, place, shard, "counter");
            add_key(work, SIM_HASH, place, shard, "hash");
            if (work->key_count + 2 > SIM_KEYS_MAX)
                continue;
            add_key(work, SIM_TWIN, place, shard, "twin-a");
            add_key(work, SIM_TWIN, place, shard, "twin-b");
            work->keys[work->key_count - 1].is_second = true;
        }
    }
    static const unsigned paces_ms[] = {3, 3, 30, 1500};
    work->pace_ms = paces_ms[sim_random(4)];
    work->commands = 1u << DRAFT_PING;
    for (unsigned kind = 0; kind < DRAFT_KINDS; kind++) {
        if (sim_random(3))
            work->commands |= 1u << kind;
    }
}

void sim_workload_fini(struct sim_workload *work)
{
    history_fini(&work->history);
}

/* ---- the queue -------------------------------------------------------------------------------- */

static void request_fini(struct sim_request *request)
{
    out_clear(&request->frame);
    free(request->wanted);
    *request = (struct sim_request){0};
}

static void queue_clear(struct sim_client *client)
{
    while (client->first < client->last)
        request_fini(&client->queue[client->first++ % SIM_QUEUE_MAX]);
    client->sent = client->first;
}

static void frame_copy(struct sim_client *client, struct sim_request *request, struct out *to)
{
    char *bytes = malloc(request->frame.bytes);
    CHECK(bytes);
    out_copy(&request->frame, bytes);
    trace(client, "->", (struct bytes){bytes, request->frame.bytes});
    out_write(to, bytes, request->frame.bytes);
    free(bytes);
}

/* Sends the next request. */
static void send_one(struct sim_client *client)
{
    struct sim_request *request = &client->queue[client->sent++ % SIM_QUEUE_MAX];
    struct out *out = stream_out(client->stream);
    for (unsigned i = 0; i < request->operation_count; i++)
        history_sent(&client->work->history, request->operations[i], now_ms());
    if (sim_broken == BREAK_DOUBLE_SEND && request->kind == REPLY_NUMBER &&
        sim_random(BREAK_ONE_IN) == 0) {
        frame_copy(client, request, out);
        request->copies = 1;
    }
    if (client->work->trace)
        frame_copy(client, request, out);
    else
        out_move(out, &request->frame);
    out_clear(&request->frame);
    stream_send(client->stream);
}

/* ---- one reply -------------------------------------------------------------------------------- */

static void take_reply(struct sim_client *client, struct bytes frame)
{
    trace(client, "<-", frame);
    if (client->first == client->sent) {
        sim_client_fail(client, "received a reply without a request: %.*s",
                        (int)(frame.len < 60 ? frame.len : 60), frame.data);
        return;
    }
    struct sim_request *request = &client->queue[client->first % SIM_QUEUE_MAX];
    if (request->copies > 0) {
        request->copies--;
        return;
    }
    client->work->answered++;
    sim_note("reply", frame.len);
    if (!sim_reply_judge(client, request, frame))
        client->must_leave |= !client->is_greeted || client->mode == SIM_AUDIT;
    request_fini(request);
    client->first++;
}

/* ---- the network, by sim_break.h -------------------------------------------------------------- */

static void deliver(struct sim_client *client, struct bytes frame)
{
    if (sim_broken == BREAK_LOST_REPLY && sim_random(BREAK_ONE_IN) == 0)
        return;
    take_reply(client, frame);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct sim_client *client = owner;
    struct bytes late = {0};
    size_t used = 0;
    (void)block;
    while (used < len && !client->work->why[0]) {
        enum resp_result result = resp_skip(&client->skip, data + used, len - used);
        if (result == RESP_BAD)
            sim_client_fail(client, "bytes that are no reply");
        if (result == RESP_MORE)
            *need = client->skip.need;
        if (result != RESP_FRAME)
            break;
        struct bytes frame = {data + used, client->skip.size};
        used += frame.len;
        if (sim_broken == BREAK_SWAPPED_REPLY && !late.len && sim_random(BREAK_ONE_IN) == 0) {
            late = frame;
            continue;
        }
        deliver(client, frame);
        if (late.len)
            deliver(client, late);
        late = (struct bytes){0};
    }
    if (late.len)
        deliver(client, late);
    return used;
}

/* ---- connections ------------------------------------------------------------------------------ */

static void disconnect(struct sim_client *client, bool at_once)
{
    if (!client->stream)
        return;
    if (at_once)
        stream_abort(client->stream);
    else
        stream_close(client->stream);
    client->stream = NULL;
    client->is_open = false;
    queue_clear(client);
}

static void on_end(void *owner, int err)
{
    struct sim_client *client = owner;
    trace(client, "**", BYTES("connection lost"));
    if (!client->work->may_fail)
        sim_client_fail(client, "the connection ended without a fault (%d)", err);
    disconnect(client, err != 0);
}

static void on_open(void *owner, int err)
{
    struct sim_client *client = owner;
    if (err) {
        if (!client->work->may_fail)
            sim_client_fail(client, "cannot connect without a fault (%d)", err);
        disconnect(client, true);
        return;
    }
    client->is_open = true;
    client->is_greeted = client->must_leave = false;
    client->skip = (struct resp_skip){0};
    client->connection = ++client->work->connections;
    client->sight = (struct sim_sight){0};
    generate_greeting(client);
    if (client->wants_resp3)
        generate_hello(client);
    client->is_greeted = client->work->is_calm && client->mode == SIM_LOAD;
}

static void connect_now(struct sim_client *client)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    const struct sim_cluster *cluster = client->work->cluster;
    if (client->mode == SIM_LOAD) {
        bool is_direct = cluster->plan.proxies == 0 || sim_random(5) == 0;
        client->proxy = is_direct ? -1 : (int)sim_random(cluster->plan.proxies);
        client->shard = (unsigned)sim_random(cluster->shard_count);
        client->place = (unsigned)sim_random(cluster->plan.places);
        client->wants_resp3 = sim_random(3) == 0;
    }
    const char *address = client->proxy >= 0
                              ? cluster->proxies[client->proxy].address
                              : cluster->shards[client->shard].addresses[sim_random(2)];
    client->stream =
        stream_connect(client->loop, address, CONNECT_TIMEOUT_MS, &events, on_open, client);
}

/* ---- actions of the client -------------------------------------------------------------------- */

static void make_requests(struct sim_client *client)
{
    uint64_t burst = 1 + sim_random(BURST_MAX);
    while (client->quota > 0 && burst > 0 && client->last - client->first < IN_FLIGHT_MAX) {
        generate_random(client);
        client->quota--;
        burst--;
    }
}

/* Sends all queued requests, or some: a transaction may be interrupted anywhere. */
static void send_requests(struct sim_client *client)
{
    uint64_t count = client->last - client->sent;
    if (count > 0 && !client->is_ending && sim_random(3) == 0)
        count = sim_random(count);
    while (count-- > 0)
        send_one(client);
}

/* Faults that clients cause themselves. */
static bool misbehave(struct sim_client *client)
{
    if (client->is_ending || client->mode == SIM_AUDIT)
        return false;
    if (sim_random(400) == 0) {
        trace(client, "**", BYTES("leaves"));
        disconnect(client, sim_random(2));
        return true;
    }
    if (sim_random(100) == 0)
        stream_pause(client->stream);
    else if (sim_random(20) == 0)
        stream_resume(client->stream);
    return false;
}

static bool wants_more(const struct sim_client *client)
{
    if (client->mode == SIM_AUDIT)
        return !client->sight.is_done;
    return !client->is_ending && client->quota > 0;
}

/* The greeting was answered. Requests sent before might have run in another namespace or database. */
static void arrive(struct sim_client *client)
{
    client->is_greeted = true;
    if (client->mode == SIM_AUDIT)
        generate_audit(client);
}

static void go_on(struct sim_client *client)
{
    bool is_answered = client->first == client->last;
    if (client->must_leave) {
        disconnect(client, false);
        return;
    }
    if (client->is_ending)
        stream_resume(client->stream);
    if (!client->is_greeted && is_answered)
        arrive(client);
    else if (client->mode == SIM_AUDIT && is_answered)
        client->sight.is_done = true;
    else if (client->mode == SIM_LOAD && client->is_greeted && !client->is_ending)
        make_requests(client);
    send_requests(client);
}

static void on_act(void *owner)
{
    struct sim_client *client = owner;
    uint64_t pace_ms = client->is_ending || client->mode == SIM_AUDIT ? 3 : client->work->pace_ms;
    timer_start(client->timer, sim_random(pace_ms + 1), 0);
    if (!client->stream && wants_more(client)) {
        client->work->reconnects++;
        connect_now(client);
    }
    if (client->is_open && !misbehave(client))
        go_on(client);
}

static void start(struct sim_client *client, struct sim_workload *work, unsigned number,
                  enum sim_mode mode)
{
    *client = (struct sim_client){.work = work, .number = number, .mode = mode};
    (void)snprintf(client->name, sizeof(client->name), "client-%u", number);
    sim_set_host(client->name);
    client->loop = loop_new();
    client->timer = timer_new(client->loop, on_act, client);
    timer_start(client->timer, sim_random(4), 0);
}

void sim_client_start(struct sim_client *client, struct sim_workload *work, unsigned number,
                      unsigned quota)
{
    start(client, work, number, SIM_LOAD);
    client->quota = quota;
}

void sim_client_start_audit(struct sim_client *client, struct sim_workload *work, unsigned number,
                            unsigned place, int proxy, unsigned shard)
{
    start(client, work, number, SIM_AUDIT);
    client->place = place;
    client->proxy = proxy;
    client->shard = shard;
}

void sim_client_end(struct sim_client *client)
{
    client->is_ending = true;
}

bool sim_client_is_idle(const struct sim_client *client)
{
    return !wants_more(client) && client->first == client->last;
}

void sim_client_fini(struct sim_client *client)
{
    disconnect(client, false);
    queue_clear(client);
    timer_free(client->timer);
    loop_free(client->loop);
}
