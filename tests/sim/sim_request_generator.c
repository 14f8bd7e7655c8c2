#include "tests/sim/sim_request_generator.h"

#include "shared/check.h"

#include <stdlib.h>

enum { WORDS_MAX = 16, TEXTS_MAX = 8, BLOCK_COMMANDS_MAX = 4, SPREAD_KEYS_MAX = 4 };

/* A command under construction. */
struct request_generator {
    struct sim_client *client;
    struct sim_request *request; /* the request whose reply contains the command's reply */
    struct sim_wanted *wanted;
    unsigned shard; /* shard of its keys, or SIM_ANY_SHARD */
    /* group of its operations on shard 0; the next numbers are those of the next shards */
    uint32_t group;
    unsigned word_count;
    unsigned text_count;
    struct bytes words[WORDS_MAX];
};

/* Bytes of values; valid until the next command. */
static char texts[TEXTS_MAX][VALUE_TEXT_MAX];

/* ---- requests --------------------------------------------------------------------------------- */

static struct sim_request *queue_push(struct sim_client *client, enum sim_reply_kind kind)
{
    CHECK(client->last - client->first < SIM_QUEUE_MAX);
    struct sim_request *request = &client->queue[client->last++ % SIM_QUEUE_MAX];
    *request = (struct sim_request){.kind = kind};
    out_init(&request->frame);
    return request;
}

static struct sim_wanted *request_want(struct sim_request *request, enum sim_reply_kind kind)
{
    size_t size = (request->wanted_count + 1) * sizeof(struct sim_wanted);
    request->wanted = realloc(request->wanted, size);
    CHECK(request->wanted);
    struct sim_wanted *wanted = &request->wanted[request->wanted_count++];
    *wanted = (struct sim_wanted){.kind = kind};
    return wanted;
}

static void frame_write(struct out *out, const struct bytes *words, unsigned count)
{
    out_printf(out, "*%u\r\n", count);
    for (unsigned i = 0; i < count; i++) {
        out_printf(out, "$%zu\r\n", words[i].len);
        out_write(out, words[i].data, words[i].len);
        out_write(out, "\r\n", 2);
    }
}

/* A request that does nothing to keys, from words separated by a space. */
static struct sim_request *push_plain(struct sim_client *client, enum sim_reply_kind kind,
                                      const char *line)
{
    struct bytes words[WORDS_MAX];
    unsigned count = 0;
    struct sim_request *request = queue_push(client, kind);
    (void)request_want(request, kind);
    while (count < WORDS_MAX) {
        size_t len = strcspn(line, " ");
        words[count++] = (struct bytes){line, len};
        if (!line[len])
            break;
        line += len + 1;
    }
    frame_write(&request->frame, words, count);
    return request;
}

/* ---- arguments -------------------------------------------------------------------------------- */

static void word(struct request_generator *generator, const char *text)
{
    CHECK(generator->word_count < WORDS_MAX);
    generator->words[generator->word_count++] = bytes_of(text);
}

static void word_number(struct request_generator *generator, uint64_t number)
{
    CHECK(generator->text_count < TEXTS_MAX);
    char *text = texts[generator->text_count++];
    (void)snprintf(text, VALUE_TEXT_MAX, "%llu", (unsigned long long)number);
    word(generator, text);
}

static void word_value(struct request_generator *generator, uint32_t value)
{
    CHECK(generator->text_count < TEXTS_MAX);
    char *text = texts[generator->text_count++];
    CHECK(generator->word_count < WORDS_MAX);
    generator->words[generator->word_count++] = (struct bytes){text, value_format(value, text)};
}

static void word_field(struct request_generator *generator, unsigned field)
{
    static const char *const names[HISTORY_FIELDS] = {"f0", "f1", "f2", "f3"};
    word(generator, names[field]);
}

/* ---- keys and steps --------------------------------------------------------------------------- */

/* A random key of one of these kinds (a bit set) on the command's shard; -1: there is none. */
static int pick_key(const struct request_generator *generator, unsigned kinds)
{
    const struct sim_workload *work = generator->client->work;
    unsigned first = (unsigned)sim_random(work->key_count);
    for (unsigned i = 0; i < work->key_count; i++) {
        unsigned key = (first + i) % work->key_count;
        const struct sim_key *candidate = &work->keys[key];
        if (kinds & 1u << candidate->kind && candidate->place == generator->client->place &&
            (generator->shard == SIM_ANY_SHARD || generator->shard == candidate->shard) &&
            !candidate->is_second)
            return (int)key;
    }
    return -1;
}

/* The request's operation on the key; adds one if there is none. */
static uint32_t operation_of(struct request_generator *generator, unsigned key)
{
    struct sim_client *client = generator->client;
    struct sim_request *request = generator->request;
    struct history *history = &client->work->history;
    uint32_t group = generator->group + client->work->keys[key].shard;
    for (unsigned i = 0; i < request->operation_count; i++) {
        if (history_operation(history, request->operations[i])->key == key)
            return request->operations[i];
    }
    CHECK(request->operation_count < SIM_OPERATIONS_MAX);
    uint32_t index = history_begin(history, key, client->connection, group);
    request->operations[request->operation_count++] = index;
    return index;
}

/* Adds a step that the command does on the key; the reply contains its result. */
static struct step *add_step(struct request_generator *generator, unsigned key, enum step_kind kind)
{
    struct history *history = &generator->client->work->history;
    struct sim_wanted *wanted = generator->wanted;
    uint32_t index = operation_of(generator, key);
    struct step *step = history_step(history, index, kind);
    CHECK(step);
    CHECK(wanted->count < SIM_REFS_MAX);
    wanted->refs[wanted->count].operation = index;
    wanted->refs[wanted->count].step = (uint8_t)(history_operation(history, index)->step_count - 1);
    wanted->count++;
    return step;
}

static const char *text_of(const struct request_generator *generator, unsigned key)
{
    return generator->client->work->keys[key].text;
}

/* Adds a step that writes a new value, and adds the value to the command's words. */
static struct step *add_write(struct request_generator *generator, unsigned key,
                              enum step_kind kind, uint8_t field)
{
    struct history *history = &generator->client->work->history;
    struct step *step = add_step(generator, key, kind);
    uint32_t operation = generator->wanted->refs[generator->wanted->count - 1].operation;
    uint32_t value = history_value(history, operation, field);
    if (kind == STEP_SET)
        step->number = value;
    else
        step->values[field] = value;
    word_value(generator, value);
    return step;
}

/* ---- commands: each writes words, steps and what is wanted; false: there is no key for it ------ */

static bool generate_ping(struct request_generator *generator)
{
    generator->wanted->kind = REPLY_TAG;
    generator->wanted->tag = ++generator->client->work->tags;
    word(generator, sim_random(2) ? "PING" : "ECHO");
    word_number(generator, generator->wanted->tag);
    return true;
}

static bool generate_get(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_TWIN);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_VALUES;
    word(generator, "GET");
    word(generator, text_of(generator, (unsigned)key));
    (void)add_step(generator, (unsigned)key, STEP_GET);
    return true;
}

static bool generate_set(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_REGISTER);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_DONE;
    word(generator, "SET");
    word(generator, text_of(generator, (unsigned)key));
    struct step *step = add_write(generator, (unsigned)key, STEP_SET, 0);
    if (generator->client->work->has_expiry && sim_random(3) == 0) {
        step->ttl_ms = 1 + sim_random(sim_random(2) ? 20 : 2000);
        word(generator, "PX");
        word_number(generator, step->ttl_ms);
    }
    return true;
}

static bool generate_incr(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_COUNTER);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_NUMBER;
    if (sim_random(3) == 0) { /* a script that writes and lacks the flag no-writes */
        word(generator, "EVAL");
        word(generator, "return redis.call('INCR', KEYS[1])");
        word(generator, "1");
    } else {
        word(generator, "INCR");
    }
    word(generator, text_of(generator, (unsigned)key));
    (void)add_step(generator, (unsigned)key, STEP_INCR);
    return true;
}

/* Adds up to `max` different keys. */
static bool add_keys(struct request_generator *generator, unsigned kinds, enum step_kind kind,
                     unsigned max)
{
    unsigned wanted = 1 + (unsigned)sim_random(max);
    unsigned taken[SPREAD_KEYS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < wanted; i++) {
        int key = pick_key(generator, kinds);
        bool is_new = key >= 0;
        for (unsigned j = 0; j < count; j++)
            is_new &= taken[j] != (unsigned)key;
        if (!is_new)
            continue;
        taken[count++] = (unsigned)key;
        word(generator, text_of(generator, (unsigned)key));
        if (kind == STEP_SET)
            (void)add_write(generator, (unsigned)key, kind, 0);
        else
            (void)add_step(generator, (unsigned)key, kind);
    }
    return count > 0;
}

static bool generate_del(struct request_generator *generator)
{
    unsigned kinds = 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_HASH;
    generator->wanted->kind = REPLY_COUNT;
    word(generator, sim_random(2) ? "DEL" : "UNLINK");
    return add_keys(generator, kinds, STEP_DEL, sim_random(2) ? 1 : SPREAD_KEYS_MAX);
}

static bool generate_exists(struct request_generator *generator)
{
    generator->wanted->kind = REPLY_COUNT;
    word(generator, "EXISTS");
    return add_keys(generator, ~0u, STEP_EXISTS, SPREAD_KEYS_MAX);
}

static bool generate_expire(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_HASH);
    bool in_seconds = sim_random(4) == 0;
    if (key < 0 || !generator->client->work->has_expiry)
        return false;
    generator->wanted->kind = REPLY_NUMBER;
    word(generator, in_seconds ? "EXPIRE" : "PEXPIRE");
    word(generator, text_of(generator, (unsigned)key));
    struct step *step = add_step(generator, (unsigned)key, STEP_EXPIRE);
    step->ttl_ms = in_seconds ? 1000 : 1 + sim_random(sim_random(2) ? 20 : 2000);
    word_number(generator, in_seconds ? 1 : step->ttl_ms);
    return true;
}

static bool generate_mget(struct request_generator *generator)
{
    generator->wanted->kind = REPLY_VALUES;
    word(generator, "MGET");
    return add_keys(generator, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_TWIN, STEP_GET,
                    SPREAD_KEYS_MAX);
}

static bool generate_mset(struct request_generator *generator)
{
    generator->wanted->kind = REPLY_DONE;
    word(generator, "MSET");
    return add_keys(generator, 1 << SIM_REGISTER, STEP_SET, SPREAD_KEYS_MAX);
}

static bool generate_hset(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_HASH);
    unsigned field = (unsigned)sim_random(HISTORY_FIELDS);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_NUMBER;
    word(generator, "HSET");
    word(generator, text_of(generator, (unsigned)key));
    word_field(generator, field);
    struct step *step = add_write(generator, (unsigned)key, STEP_HSET, (uint8_t)field);
    step->fields = (uint8_t)(1u << field);
    if (sim_random(2) && field + 1 < HISTORY_FIELDS) {
        uint32_t operation = generator->wanted->refs[0].operation;
        step->values[field + 1] =
            history_value(&generator->client->work->history, operation, (uint8_t)(field + 1));
        step->fields |= (uint8_t)(2u << field);
        word_field(generator, field + 1);
        word_value(generator, step->values[field + 1]);
    }
    return true;
}

static bool generate_hget(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_HASH);
    unsigned field = (unsigned)sim_random(HISTORY_FIELDS);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_FIELD;
    word(generator, "HGET");
    word(generator, text_of(generator, (unsigned)key));
    word_field(generator, field);
    add_step(generator, (unsigned)key, STEP_HGET)->fields = (uint8_t)(1u << field);
    return true;
}

static bool generate_hgetall(struct request_generator *generator)
{
    int key = pick_key(generator, 1 << SIM_HASH);
    if (key < 0)
        return false;
    generator->wanted->kind = REPLY_FIELDS;
    word(generator, "HGETALL");
    word(generator, text_of(generator, (unsigned)key));
    (void)add_step(generator, (unsigned)key, STEP_HGETALL);
    return true;
}

/* Both twins, in one command. */
static bool generate_twins(struct request_generator *generator, const char *name,
                           enum sim_reply_kind reply, enum step_kind kind)
{
    int first = pick_key(generator, 1 << SIM_TWIN);
    if (first < 0)
        return false;
    generator->wanted->kind = reply;
    generator->wanted->is_twin = kind == STEP_GET;
    word(generator, name);
    for (unsigned key = (unsigned)first; key < (unsigned)first + 2; key++) {
        word(generator, text_of(generator, key));
        if (kind == STEP_SET)
            (void)add_write(generator, key, kind, 0);
        else
            (void)add_step(generator, key, kind);
    }
    return true;
}

/* Both twins, in a script. If the second key is uncached, the script is rolled back and runs again. */
static bool generate_script(struct request_generator *generator, enum step_kind kind)
{
    static const char *const writers[] = {
        "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('SET', KEYS[2], ARGV[2])",
        "redis.call('SET', KEYS[1], ARGV[1]) "
        "local good, reply = pcall(redis.call, 'SET', KEYS[2], ARGV[2]) "
        "return good and reply or redis.error_reply(reply)",
        "local set = coroutine.wrap(function(i) while true do "
        "i = coroutine.yield(redis.call('SET', KEYS[i], ARGV[i])) end end) "
        "set(1) return set(2)",
    };
    static const char *const reader =
        "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}";
    int first = pick_key(generator, 1 << SIM_TWIN);
    bool is_write = kind == STEP_SET;
    if (first < 0)
        return false;
    generator->wanted->kind = is_write ? REPLY_DONE : REPLY_VALUES;
    generator->wanted->is_twin = !is_write;
    generator->wanted->is_script = is_write;
    word(generator, "EVAL");
    word(generator, is_write ? writers[sim_random(3)] : reader);
    word(generator, "2");
    word(generator, text_of(generator, (unsigned)first));
    word(generator, text_of(generator, (unsigned)first + 1));
    for (unsigned key = (unsigned)first; key < (unsigned)first + 2; key++) {
        if (is_write)
            (void)add_write(generator, key, kind, 0);
        else
            (void)add_step(generator, key, kind);
    }
    return true;
}

static bool generate_broad(struct request_generator *generator)
{
    static const char *const names[] = {"DBSIZE", "KEYS", "SCAN", "RANDOMKEY", "TIME"};
    size_t which = sim_random(sizeof(names) / sizeof(*names));
    generator->wanted->kind = REPLY_ANY;
    word(generator, names[which]);
    if (which == 1)
        word(generator, "*");
    if (which == 2)
        word(generator, "0");
    return true;
}

static bool generate_command(struct request_generator *generator, enum generate_kind kind)
{
    switch (kind) {
    case DRAFT_PING:
        return generate_ping(generator);
    case DRAFT_GET:
        return generate_get(generator);
    case DRAFT_SET:
        return generate_set(generator);
    case DRAFT_INCR:
        return generate_incr(generator);
    case DRAFT_DEL:
        return generate_del(generator);
    case DRAFT_EXISTS:
        return generate_exists(generator);
    case DRAFT_EXPIRE:
        return generate_expire(generator);
    case DRAFT_MGET:
        return generate_mget(generator);
    case DRAFT_MSET:
        return generate_mset(generator);
    case DRAFT_HSET:
        return generate_hset(generator);
    case DRAFT_HGET:
        return generate_hget(generator);
    case DRAFT_HGETALL:
        return generate_hgetall(generator);
    case DRAFT_TWIN_WRITE:
        return sim_random(2) ? generate_script(generator, STEP_SET)
                             : generate_twins(generator, "MSET", REPLY_DONE, STEP_SET);
    case DRAFT_TWIN_READ:
        return sim_random(2) ? generate_script(generator, STEP_GET)
                             : generate_twins(generator, "MGET", REPLY_VALUES, STEP_GET);
    case DRAFT_TWIN_DEL:
        return generate_twins(generator, "DEL", REPLY_COUNT, STEP_DEL);
    case DRAFT_BROAD:
        return generate_broad(generator);
    case DRAFT_MULTI:
    case DRAFT_MOVE:
    case DRAFT_KINDS:
        break;
    }
    return false;
}

/* ---- requests by chance ----------------------------------------------------------------------- */

static enum generate_kind pick_kind(const struct sim_workload *work)
{
    for (;;) {
        unsigned kind = (unsigned)sim_random(DRAFT_KINDS);
        if (work->commands & 1u << kind)
            return (enum generate_kind)kind;
    }
}

static struct request_generator generate_begin(struct sim_client *client,
                                               struct sim_request *request, unsigned shard,
                                               uint32_t group)
{
    return (struct request_generator){.client = client,
                                      .request = request,
                                      .wanted = request_want(request, REPLY_ANY),
                                      .shard = shard,
                                      .group = group};
}

/* Reserves group numbers, one for each shard. */
static uint32_t new_group(struct sim_client *client)
{
    struct history *history = &client->work->history;
    uint32_t group = history->groups;
    history->groups += SIM_SHARDS_MAX;
    return group;
}

static void request_drop_last(struct sim_client *client)
{
    struct sim_request *request = &client->queue[--client->last % SIM_QUEUE_MAX];
    out_clear(&request->frame);
    free(request->wanted);
    *request = (struct sim_request){0};
}

static void generate_single(struct sim_client *client, enum generate_kind kind)
{
    unsigned shard = client->proxy < 0 ? client->shard : SIM_ANY_SHARD;
    struct sim_request *request = queue_push(client, REPLY_ANY);
    struct request_generator generator = generate_begin(client, request, shard, new_group(client));
    if (!generate_command(&generator, kind)) {
        request_drop_last(client);
        return;
    }
    request->kind = generator.wanted->kind;
    frame_write(&request->frame, generator.words, generator.word_count);
}

/* Queues a command of a block; its reply is a part of EXEC's. */
static void push_queued(struct sim_client *client, const struct request_generator *generator)
{
    struct sim_request *queued = queue_push(client, REPLY_QUEUED);
    (void)request_want(queued, REPLY_QUEUED);
    frame_write(&queued->frame, generator->words, generator->word_count);
}

/* Both twins, in two commands of a block. */
static unsigned generate_twins_apart(struct sim_client *client, struct sim_request *exec,
                                     unsigned shard, uint32_t group)
{
    for (unsigned i = 0, first = 0; i < 2; i++) {
        struct request_generator generator = generate_begin(client, exec, shard, group);
        int key = i ? (int)first + 1 : pick_key(&generator, 1 << SIM_TWIN);
        if (key < 0) {
            exec->wanted_count--;
            return 0;
        }
        first = (unsigned)key;
        generator.wanted->kind = REPLY_DONE;
        word(&generator, "SET");
        word(&generator, text_of(&generator, (unsigned)key));
        (void)add_write(&generator, (unsigned)key, STEP_SET, 0);
        push_queued(client, &generator);
    }
    return 2;
}

static unsigned generate_queued(struct sim_client *client, struct sim_request *exec, unsigned shard,
                                uint32_t group)
{
    enum generate_kind kind = pick_kind(client->work);
    if (kind == DRAFT_TWIN_WRITE)
        return generate_twins_apart(client, exec, shard, group);
    struct request_generator generator = generate_begin(client, exec, shard, group);
    if (kind == DRAFT_BROAD || !generate_command(&generator, kind)) {
        exec->wanted_count--;
        return 0;
    }
    push_queued(client, &generator);
    return 1;
}

/* Adds a WATCH before MULTI; false: there is no key to watch. */
static bool generate_watch(struct sim_client *client, unsigned shard)
{
    struct request_generator generator = {.client = client, .shard = shard};
    char line[SIM_NAMES_MAX * 2];
    int key = pick_key(&generator, ~0u);
    if (key < 0)
        return false;
    (void)snprintf(line, sizeof(line), "WATCH %s", text_of(&generator, (unsigned)key));
    push_plain(client, REPLY_DONE, line)->is_watch = true;
    return true;
}

static void generate_block(struct sim_client *client)
{
    unsigned shard = client->proxy < 0 ? client->shard
                                       : (unsigned)sim_random(client->work->cluster->shard_count);
    struct sim_request exec = {.kind = REPLY_EXEC};
    uint32_t group = new_group(client);
    unsigned wanted = 1 + (unsigned)sim_random(BLOCK_COMMANDS_MAX - 1);
    unsigned count = 0;
    exec.is_watch = sim_random(3) == 0 && generate_watch(client, shard);
    (void)push_plain(client, REPLY_DONE, "MULTI");
    for (unsigned i = 0; i < wanted && count < wanted; i++)
        count += generate_queued(client, &exec, shard, group);
    if (sim_random(10) == 0) {
        (void)push_plain(client, REPLY_DONE, "DISCARD");
        free(exec.wanted);
        return;
    }
    struct sim_request *request = queue_push(client, REPLY_EXEC);
    *request = exec;
    out_init(&request->frame);
    out_printf(&request->frame, "*1\r\n$4\r\nEXEC\r\n");
}

/* ---- greetings and audits --------------------------------------------------------------------- */

void generate_greeting(struct sim_client *client)
{
    const struct sim_cluster *cluster = client->work->cluster;
    const struct sim_place *place = &cluster->places[client->place];
    bool has_secret = cluster->plan.has_secret;
    char line[SIM_NAMES_MAX * 3];
    if (client->proxy < 0 && has_secret) {
        (void)push_plain(client, REPLY_DONE, "SCREE AUTH secret");
        (void)snprintf(line, sizeof(line), "SCREE USE %s %u tag", place->name, place->db);
    } else {
        const char *name = place->name[0] ? place->name : "default";
        (void)snprintf(line, sizeof(line), "AUTH %s %s", name, name);
        if (has_secret)
            (void)push_plain(client, REPLY_DONE, line);
        (void)snprintf(line, sizeof(line), "SELECT %u", place->db);
    }
    (void)push_plain(client, REPLY_DONE, line);
}

void generate_hello(struct sim_client *client)
{
    (void)push_plain(client, REPLY_ANY, "HELLO 3");
}

/* Changes the namespace or database for the requests after this one. */
static void generate_move(struct sim_client *client)
{
    const struct sim_workload *work = client->work;
    if (!work->is_calm || sim_random(4))
        return;
    client->place = (unsigned)sim_random(work->cluster->plan.places);
    generate_greeting(client);
}

void generate_random(struct sim_client *client)
{
    enum generate_kind kind = pick_kind(client->work);
    if (kind == DRAFT_MULTI)
        generate_block(client);
    else if (kind == DRAFT_MOVE)
        generate_move(client);
    else
        generate_single(client, kind);
}

static void audit_key(struct sim_client *client, unsigned key)
{
    bool is_hash = client->work->keys[key].kind == SIM_HASH;
    struct sim_request *request = queue_push(client, is_hash ? REPLY_FIELDS : REPLY_VALUES);
    struct request_generator generator =
        generate_begin(client, request, SIM_ANY_SHARD, new_group(client));
    generator.wanted->kind = request->kind;
    word(&generator, is_hash ? "HGETALL" : "GET");
    word(&generator, text_of(&generator, key));
    (void)add_step(&generator, key, is_hash ? STEP_HGETALL : STEP_GET);
    frame_write(&request->frame, generator.words, generator.word_count);
}

/* Reads the values first, because reading an expired key deletes it. */
void generate_audit(struct sim_client *client)
{
    const struct sim_workload *work = client->work;
    char line[SIM_NAMES_MAX];
    for (unsigned key = 0; key < work->key_count; key++) {
        if (work->keys[key].place == client->place &&
            (client->proxy >= 0 || work->keys[key].shard == client->shard))
            audit_key(client, key);
    }
    (void)push_plain(client, REPLY_DBSIZE, "DBSIZE");
    (void)push_plain(client, REPLY_KEYS, "KEYS *");
    for (unsigned key = 0; key < work->key_count && client->proxy < 0; key++) {
        if (work->keys[key].place != client->place || work->keys[key].shard != client->shard)
            continue;
        (void)snprintf(line, sizeof(line), "CLUSTER COUNTKEYSINSLOT %u", work->keys[key].slot);
        push_plain(client, REPLY_IN_SLOT, line)->wanted->tag = key;
    }
}
