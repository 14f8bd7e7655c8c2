/*
 * sim_client.c - connects, sends what sim_draft.c made, and judges what comes back.
 */
#include "tests/sim/sim_client.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/net/loop.h"
#include "tests/sim/sim_break.h"
#include "tests/sim/sim_draft.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    CONNECT_TIMEOUT_MS = 1000,
    IN_FLIGHT_MAX = 60,
    BURST_MAX = 12,
    BREAK_ONE_IN = 40,
};

static void fail(struct sim_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct sim_client *client, const char *format, ...)
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

/* The next text of this name that belongs to the shard. */
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

/* The next request leaves. */
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

/* ---- judging replies -------------------------------------------------------------------------- */

/* One reply and where its next part begins. */
struct answer {
    struct bytes frame;
    size_t pos;
};

static struct step *step_of(struct sim_client *client, const struct sim_wanted *wanted, unsigned i)
{
    struct operation *operation =
        history_operation(&client->work->history, wanted->refs[i].operation);
    return &operation->steps[wanted->refs[i].step];
}

static uint32_t key_of(struct sim_client *client, const struct sim_wanted *wanted, unsigned i)
{
    return history_operation(&client->work->history, wanted->refs[i].operation)->key;
}

static bool next_value(struct sim_client *client, struct answer *answer, struct resp_value *value)
{
    if (resp_value_next(answer->frame, &answer->pos, value))
        return true;
    fail(client, "a malformed reply");
    return false;
}

/* The header of an array, set or map; a map has twice as many elements. */
static bool next_array(struct sim_client *client, struct answer *answer, int64_t *count)
{
    struct resp_value value;
    if (!next_value(client, answer, &value))
        return false;
    if (value.type != '*' && value.type != '%' && value.type != '~') {
        fail(client, "expected an array, got '%c'", value.type);
        return false;
    }
    *count = value.type == '%' ? value.count * 2 : value.count;
    return true;
}

/* A value somebody wrote to this field of this key, or nothing. */
static void take_value(struct sim_client *client, uint32_t key, unsigned field,
                       const struct resp_value *value, uint32_t *number)
{
    char why[200] = "expected a bulk string";
    *number = 0;
    if (value->is_null)
        return;
    bool is_text = value->type == '$' && value_parse(value->text, number);
    if (!is_text ||
        !history_may_read(&client->work->history, key, field, *number, why, sizeof(why)))
        fail(client, "%s: got '%c%.*s': %s", client->work->keys[key].text, value->type,
             (int)(value->text.len < 40 ? value->text.len : 40), value->text.data, why);
}

static int64_t counter_of(struct sim_client *client, const struct resp_value *value)
{
    int64_t number = 0;
    if (value->is_null)
        return 0;
    if (value->type != '$' || value->text.len > 18 || value->text.len == 0)
        fail(client, "expected a counter's digits");
    for (size_t i = 0; !client->work->why[0] && i < value->text.len; i++) {
        if (value->text.data[i] < '0' || value->text.data[i] > '9')
            fail(client, "expected a counter's digits, got '%.*s'", (int)value->text.len,
                 value->text.data);
        number = number * 10 + value->text.data[i] - '0';
    }
    return number;
}

static void take_values(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    struct resp_value value;
    int64_t count = wanted->count;
    bool is_array = answer->frame.data[answer->pos] == '*';
    if (is_array && (!next_array(client, answer, &count) || count != (int64_t)wanted->count)) {
        fail(client, "expected %u values", wanted->count);
        return;
    }
    for (unsigned i = 0; i < wanted->count && next_value(client, answer, &value); i++) {
        struct step *step = step_of(client, wanted, i);
        uint32_t key = key_of(client, wanted, i);
        uint32_t number = 0;
        step->has_result = true;
        if (client->work->keys[key].kind == SIM_COUNTER) {
            step->number = counter_of(client, &value);
        } else {
            take_value(client, key, 0, &value, &number);
            step->number = number;
        }
    }
    if (!wanted->is_twin || client->work->why[0])
        return;
    int64_t one = step_of(client, wanted, 0)->number;
    int64_t other = step_of(client, wanted, 1)->number;
    if (one ? other != one + 1 : other != 0)
        fail(client, "twins differ: %s has %" PRId64 ", its twin %" PRId64,
             client->work->keys[key_of(client, wanted, 0)].text, one, other);
}

static void take_number(struct sim_client *client, const struct sim_wanted *wanted, int64_t number)
{
    struct step *step = step_of(client, wanted, 0);
    step->has_result = true;
    if (step->kind == STEP_INCR)
        step->number = number;
    else
        step->result = number;
}

/* A sum tells about each key when it is all or nothing. */
static void take_count(struct sim_client *client, const struct sim_wanted *wanted, int64_t sum)
{
    if (sum < 0 || sum > (int64_t)wanted->count)
        fail(client, "expected 0..%u, got %" PRId64, wanted->count, sum);
    for (unsigned i = 0; i < wanted->count; i++) {
        struct step *step = step_of(client, wanted, i);
        step->has_result = sum == 0 || sum == (int64_t)wanted->count;
        step->result = sum > 0;
    }
}

static void take_integer(struct sim_client *client, const struct sim_wanted *wanted,
                         struct answer *answer)
{
    struct resp_value value;
    if (!next_value(client, answer, &value))
        return;
    if (value.type != ':') {
        fail(client, "expected an integer, got '%c'", value.type);
        return;
    }
    if (wanted->kind == REPLY_NUMBER)
        take_number(client, wanted, value.count);
    else if (wanted->kind == REPLY_COUNT)
        take_count(client, wanted, value.count);
    else if (wanted->kind == REPLY_DBSIZE)
        client->sight.dbsize = (uint64_t)value.count;
    else
        client->sight.in_slot[wanted->tag] = (unsigned)value.count;
}

static void take_field(struct sim_client *client, const struct sim_wanted *wanted,
                       struct answer *answer)
{
    struct resp_value value;
    struct step *step = step_of(client, wanted, 0);
    unsigned field = (unsigned)__builtin_ctz(step->fields);
    if (!next_value(client, answer, &value))
        return;
    step->has_result = true;
    take_value(client, key_of(client, wanted, 0), field, &value, &step->values[field]);
}

static void take_fields(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    struct resp_value name;
    struct resp_value value;
    struct step *step = step_of(client, wanted, 0);
    int64_t count;
    if (!next_array(client, answer, &count))
        return;
    step->has_result = true;
    for (int64_t i = 0; i < count; i += 2) {
        if (!next_value(client, answer, &name) || !next_value(client, answer, &value))
            return;
        unsigned field = name.text.len == 2 ? (unsigned)(name.text.data[1] - '0') : HISTORY_FIELDS;
        if (field >= HISTORY_FIELDS || step->values[field])
            fail(client, "field '%.*s' should not be there", (int)name.text.len, name.text.data);
        else
            take_value(client, key_of(client, wanted, 0), field, &value, &step->values[field]);
    }
}

static void take_keys(struct sim_client *client, struct answer *answer)
{
    struct resp_value value;
    int64_t count;
    if (!next_array(client, answer, &count))
        return;
    client->sight.keys = (unsigned)count;
    for (int64_t i = 0; i < count && next_value(client, answer, &value); i++) {
        const struct sim_workload *work = client->work;
        unsigned key = 0;
        while (key < work->key_count && (work->keys[key].place != client->place ||
                                         !bytes_equal(value.text, bytes_of(work->keys[key].text))))
            key++;
        if (key == work->key_count || client->sight.has_key[key])
            fail(client, "KEYS gives '%.*s'", (int)value.text.len, value.text.data);
        else
            client->sight.has_key[key] = true;
    }
}

static void take_text(struct sim_client *client, const char *expected, struct answer *answer)
{
    struct resp_value value;
    if (next_value(client, answer, &value) && !bytes_equal(value.text, bytes_of(expected)))
        fail(client, "expected '%s', got '%c%.*s'", expected, value.type,
             (int)(value.text.len < 60 ? value.text.len : 60), value.text.data);
}

static void take_answer(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    char tag[16];
    switch (wanted->kind) {
    case REPLY_TAG:
        (void)snprintf(tag, sizeof(tag), "%" PRIu32, wanted->tag);
        take_text(client, tag, answer);
        break;
    case REPLY_DONE:
        take_text(client, "OK", answer);
        break;
    case REPLY_QUEUED:
        take_text(client, "QUEUED", answer);
        break;
    case REPLY_VALUES:
        take_values(client, wanted, answer);
        break;
    case REPLY_NUMBER:
    case REPLY_COUNT:
    case REPLY_DBSIZE:
    case REPLY_IN_SLOT:
        take_integer(client, wanted, answer);
        break;
    case REPLY_FIELD:
        take_field(client, wanted, answer);
        break;
    case REPLY_FIELDS:
        take_fields(client, wanted, answer);
        break;
    case REPLY_KEYS:
        take_keys(client, answer);
        break;
    case REPLY_ANY:
    case REPLY_EXEC:
        (void)resp_value_skip(answer->frame, &answer->pos);
        break;
    }
}

/* ---- errors ----------------------------------------------------------------------------------- */

/* Errors that faults lead to. */
static bool is_fault(struct bytes text)
{
    static const char *const starts[] = {"MISCONF ", "EXECABORT ", "ERR shard '",
                                         "ERR the store could not"};
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        size_t len = strlen(starts[i]);
        if (text.len >= len && memcmp(text.data, starts[i], len) == 0)
            return true;
    }
    return false;
}

/* True: the reply is an error, which had to be expected or is a failure. */
static bool take_error(struct sim_client *client, const struct sim_request *request,
                       struct bytes frame, size_t pos)
{
    struct sim_workload *work = client->work;
    struct resp_value value;
    if (frame.data[pos] != '-')
        return false;
    work->errors++;
    bool may_fail = work->may_fail || (request->is_watch && work->has_reloaded);
    if (resp_value_next(frame, &pos, &value) && may_fail && is_fault(value.text))
        return true;
    fail(client, "got an error without a fault: %.*s", (int)value.text.len, value.text.data);
    return true;
}

/* ---- one reply -------------------------------------------------------------------------------- */

static void answered(struct sim_client *client, const struct sim_request *request)
{
    for (unsigned i = 0; i < request->operation_count; i++)
        history_answered(&client->work->history, request->operations[i], now_ms());
}

/* The block did not run: what it would have written must never be seen. */
static void unsend(struct sim_client *client, const struct sim_request *request)
{
    for (unsigned i = 0; i < request->operation_count; i++)
        history_operation(&client->work->history, request->operations[i])->is_sent = false;
}

/* A command of a block failed: it did nothing, the others did. */
static void forget_steps(struct sim_client *client, const struct sim_wanted *wanted)
{
    for (unsigned i = 0; i < wanted->count; i++)
        step_of(client, wanted, i)->kind = STEP_NOTHING;
}

static void take_exec(struct sim_client *client, const struct sim_request *request,
                      struct bytes frame)
{
    struct answer answer = {.frame = frame};
    struct resp_value header;
    if (!next_value(client, &answer, &header))
        return;
    if (header.is_null) {
        unsend(client, request);
        return;
    }
    if (header.type != '*' || header.count != (int64_t)request->wanted_count) {
        fail(client, "EXEC of %u commands answered '%c%" PRId64 "'", request->wanted_count,
             header.type, header.count);
        return;
    }
    for (unsigned i = 0; i < request->wanted_count && !client->work->why[0]; i++) {
        if (take_error(client, request, frame, answer.pos)) {
            forget_steps(client, &request->wanted[i]);
            (void)resp_value_skip(frame, &answer.pos);
        } else {
            take_answer(client, &request->wanted[i], &answer);
        }
    }
    answered(client, request);
}

static void take_reply(struct sim_client *client, struct bytes frame)
{
    trace(client, "<-", frame);
    if (client->first == client->sent) {
        fail(client, "a reply nobody asked for: %.*s", (int)(frame.len < 60 ? frame.len : 60),
             frame.data);
        return;
    }
    struct sim_request *request = &client->queue[client->first % SIM_QUEUE_MAX];
    if (request->copies > 0) {
        request->copies--;
        return;
    }
    client->work->answered++;
    sim_note("reply", frame.len);
    if (take_error(client, request, frame, 0)) {
        client->must_leave |= !client->is_greeted || client->mode == SIM_AUDIT;
    } else if (request->kind == REPLY_EXEC) {
        take_exec(client, request, frame);
    } else {
        struct answer answer = {.frame = frame};
        take_answer(client, &request->wanted[0], &answer);
        if (!client->work->why[0])
            answered(client, request);
    }
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
            fail(client, "bytes that are no reply");
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
        fail(client, "the connection ended without a fault (%d)", err);
    disconnect(client, err != 0);
}

static void on_open(void *owner, int err)
{
    struct sim_client *client = owner;
    if (err) {
        if (!client->work->may_fail)
            fail(client, "cannot connect without a fault (%d)", err);
        disconnect(client, true);
        return;
    }
    client->is_open = true;
    client->is_greeted = client->must_leave = false;
    client->skip = (struct resp_skip){0};
    client->connection = ++client->work->connections;
    client->sight = (struct sim_sight){0};
    draft_greeting(client);
    if (client->wants_resp3)
        draft_hello(client);
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

/* ---- what it does ----------------------------------------------------------------------------- */

static void make_requests(struct sim_client *client)
{
    uint64_t burst = 1 + sim_random(BURST_MAX);
    while (client->quota > 0 && burst > 0 && client->last - client->first < IN_FLIGHT_MAX) {
        draft_random(client);
        client->quota--;
        burst--;
    }
}

/* All, or some: a block may be cut anywhere. */
static void send_requests(struct sim_client *client)
{
    uint64_t count = client->last - client->sent;
    if (count > 0 && !client->is_ending && sim_random(3) == 0)
        count = sim_random(count);
    while (count-- > 0)
        send_one(client);
}

/* Things clients do to themselves. */
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

/* The greeting was answered; requests sent with it could end up in another place. */
static void arrive(struct sim_client *client)
{
    client->is_greeted = true;
    if (client->mode == SIM_AUDIT)
        draft_audit(client);
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
