#include "tests/sim/sim_draft.h"

#include "shared/check.h"

#include <stdlib.h>

enum { WORDS_MAX = 16, TEXTS_MAX = 8, BLOCK_COMMANDS_MAX = 4, SPREAD_KEYS_MAX = 4 };

/* One command that is being made. */
struct draft {
    struct sim_client *client;
    struct sim_request *request; /* whose reply will answer it */
    struct sim_wanted *wanted;
    unsigned shard; /* its keys are there; SIM_ANY_SHARD */
    uint32_t group; /* of shard 0; others follow */
    unsigned word_count;
    unsigned text_count;
    struct bytes words[WORDS_MAX];
};

/* Bytes of values; good until the next command. */
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

/* A request without operations, from words separated by a space. */
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

/* ---- words ------------------------------------------------------------------------------------ */

static void word(struct draft *draft, const char *text)
{
    CHECK(draft->word_count < WORDS_MAX);
    draft->words[draft->word_count++] = bytes_of(text);
}

static void word_number(struct draft *draft, uint64_t number)
{
    CHECK(draft->text_count < TEXTS_MAX);
    char *text = texts[draft->text_count++];
    (void)snprintf(text, VALUE_TEXT_MAX, "%llu", (unsigned long long)number);
    word(draft, text);
}

static void word_value(struct draft *draft, uint32_t value)
{
    CHECK(draft->text_count < TEXTS_MAX);
    char *text = texts[draft->text_count++];
    CHECK(draft->word_count < WORDS_MAX);
    draft->words[draft->word_count++] = (struct bytes){text, value_format(value, text)};
}

static void word_field(struct draft *draft, unsigned field)
{
    static const char *const names[HISTORY_FIELDS] = {"f0", "f1", "f2", "f3"};
    word(draft, names[field]);
}

/* ---- keys and steps --------------------------------------------------------------------------- */

/* A key by chance of one of the kinds (a bit set) that the draft may use; -1: there is none. */
static int pick_key(const struct draft *draft, unsigned kinds)
{
    const struct sim_workload *work = draft->client->work;
    unsigned first = (unsigned)sim_random(work->key_count);
    for (unsigned i = 0; i < work->key_count; i++) {
        unsigned key = (first + i) % work->key_count;
        const struct sim_key *candidate = &work->keys[key];
        if (kinds & 1u << candidate->kind && candidate->place == draft->client->place &&
            (draft->shard == SIM_ANY_SHARD || draft->shard == candidate->shard) &&
            !candidate->is_second)
            return (int)key;
    }
    return -1;
}

/* The request's operation on the key, or a new one. */
static uint32_t operation_of(struct draft *draft, unsigned key)
{
    struct sim_client *client = draft->client;
    struct sim_request *request = draft->request;
    struct history *history = &client->work->history;
    uint32_t group = draft->group + client->work->keys[key].shard;
    for (unsigned i = 0; i < request->operation_count; i++) {
        if (history_operation(history, request->operations[i])->key == key)
            return request->operations[i];
    }
    CHECK(request->operation_count < SIM_OPERATIONS_MAX);
    uint32_t index = history_begin(history, key, client->connection, group);
    request->operations[request->operation_count++] = index;
    return index;
}

/* The command does this to the key; its reply tells the result. */
static struct step *add_step(struct draft *draft, unsigned key, enum step_kind kind)
{
    struct history *history = &draft->client->work->history;
    struct sim_wanted *wanted = draft->wanted;
    uint32_t index = operation_of(draft, key);
    struct step *step = history_step(history, index, kind);
    CHECK(step);
    CHECK(wanted->count < SIM_REFS_MAX);
    wanted->refs[wanted->count].operation = index;
    wanted->refs[wanted->count].step = (uint8_t)(history_operation(history, index)->step_count - 1);
    wanted->count++;
    return step;
}

static const char *text_of(const struct draft *draft, unsigned key)
{
    return draft->client->work->keys[key].text;
}

/* A step that writes a value, and the value's word. */
static struct step *add_write(struct draft *draft, unsigned key, enum step_kind kind, uint8_t field)
{
    struct history *history = &draft->client->work->history;
    struct step *step = add_step(draft, key, kind);
    uint32_t operation = draft->wanted->refs[draft->wanted->count - 1].operation;
    uint32_t value = history_value(history, operation, field);
    if (kind == STEP_SET)
        step->number = value;
    else
        step->values[field] = value;
    word_value(draft, value);
    return step;
}

/* ---- commands: each writes words, steps and what is wanted; false: there is no key for it ------ */

static bool draft_ping(struct draft *draft)
{
    draft->wanted->kind = REPLY_TAG;
    draft->wanted->tag = ++draft->client->work->tags;
    word(draft, sim_random(2) ? "PING" : "ECHO");
    word_number(draft, draft->wanted->tag);
    return true;
}

static bool draft_get(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_TWIN);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_VALUES;
    word(draft, "GET");
    word(draft, text_of(draft, (unsigned)key));
    (void)add_step(draft, (unsigned)key, STEP_GET);
    return true;
}

static bool draft_set(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_REGISTER);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_DONE;
    word(draft, "SET");
    word(draft, text_of(draft, (unsigned)key));
    struct step *step = add_write(draft, (unsigned)key, STEP_SET, 0);
    if (draft->client->work->has_expiry && sim_random(3) == 0) {
        step->ttl_ms = 1 + sim_random(sim_random(2) ? 20 : 2000);
        word(draft, "PX");
        word_number(draft, step->ttl_ms);
    }
    return true;
}

static bool draft_incr(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_COUNTER);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_NUMBER;
    if (sim_random(3) == 0) { /* a script: it writes, and has not the flag */
        word(draft, "EVAL");
        word(draft, "return redis.call('INCR', KEYS[1])");
        word(draft, "1");
    } else {
        word(draft, "INCR");
    }
    word(draft, text_of(draft, (unsigned)key));
    (void)add_step(draft, (unsigned)key, STEP_INCR);
    return true;
}

/* Several different keys; at most `max`. */
static bool add_keys(struct draft *draft, unsigned kinds, enum step_kind kind, unsigned max)
{
    unsigned wanted = 1 + (unsigned)sim_random(max);
    unsigned taken[SPREAD_KEYS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < wanted; i++) {
        int key = pick_key(draft, kinds);
        bool is_new = key >= 0;
        for (unsigned j = 0; j < count; j++)
            is_new &= taken[j] != (unsigned)key;
        if (!is_new)
            continue;
        taken[count++] = (unsigned)key;
        word(draft, text_of(draft, (unsigned)key));
        if (kind == STEP_SET)
            (void)add_write(draft, (unsigned)key, kind, 0);
        else
            (void)add_step(draft, (unsigned)key, kind);
    }
    return count > 0;
}

static bool draft_del(struct draft *draft)
{
    unsigned kinds = 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_HASH;
    draft->wanted->kind = REPLY_COUNT;
    word(draft, sim_random(2) ? "DEL" : "UNLINK");
    return add_keys(draft, kinds, STEP_DEL, sim_random(2) ? 1 : SPREAD_KEYS_MAX);
}

static bool draft_exists(struct draft *draft)
{
    draft->wanted->kind = REPLY_COUNT;
    word(draft, "EXISTS");
    return add_keys(draft, ~0u, STEP_EXISTS, SPREAD_KEYS_MAX);
}

static bool draft_expire(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_HASH);
    bool in_seconds = sim_random(4) == 0;
    if (key < 0 || !draft->client->work->has_expiry)
        return false;
    draft->wanted->kind = REPLY_NUMBER;
    word(draft, in_seconds ? "EXPIRE" : "PEXPIRE");
    word(draft, text_of(draft, (unsigned)key));
    struct step *step = add_step(draft, (unsigned)key, STEP_EXPIRE);
    step->ttl_ms = in_seconds ? 1000 : 1 + sim_random(sim_random(2) ? 20 : 2000);
    word_number(draft, in_seconds ? 1 : step->ttl_ms);
    return true;
}

static bool draft_mget(struct draft *draft)
{
    draft->wanted->kind = REPLY_VALUES;
    word(draft, "MGET");
    return add_keys(draft, 1 << SIM_REGISTER | 1 << SIM_COUNTER | 1 << SIM_TWIN, STEP_GET,
                    SPREAD_KEYS_MAX);
}

static bool draft_mset(struct draft *draft)
{
    draft->wanted->kind = REPLY_DONE;
    word(draft, "MSET");
    return add_keys(draft, 1 << SIM_REGISTER, STEP_SET, SPREAD_KEYS_MAX);
}

static bool draft_hset(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_HASH);
    unsigned field = (unsigned)sim_random(HISTORY_FIELDS);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_NUMBER;
    word(draft, "HSET");
    word(draft, text_of(draft, (unsigned)key));
    word_field(draft, field);
    struct step *step = add_write(draft, (unsigned)key, STEP_HSET, (uint8_t)field);
    step->fields = (uint8_t)(1u << field);
    if (sim_random(2) && field + 1 < HISTORY_FIELDS) {
        uint32_t operation = draft->wanted->refs[0].operation;
        step->values[field + 1] =
            history_value(&draft->client->work->history, operation, (uint8_t)(field + 1));
        step->fields |= (uint8_t)(2u << field);
        word_field(draft, field + 1);
        word_value(draft, step->values[field + 1]);
    }
    return true;
}

static bool draft_hget(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_HASH);
    unsigned field = (unsigned)sim_random(HISTORY_FIELDS);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_FIELD;
    word(draft, "HGET");
    word(draft, text_of(draft, (unsigned)key));
    word_field(draft, field);
    add_step(draft, (unsigned)key, STEP_HGET)->fields = (uint8_t)(1u << field);
    return true;
}

static bool draft_hgetall(struct draft *draft)
{
    int key = pick_key(draft, 1 << SIM_HASH);
    if (key < 0)
        return false;
    draft->wanted->kind = REPLY_FIELDS;
    word(draft, "HGETALL");
    word(draft, text_of(draft, (unsigned)key));
    (void)add_step(draft, (unsigned)key, STEP_HGETALL);
    return true;
}

/* Both twins in one command. */
static bool draft_twins(struct draft *draft, const char *name, enum sim_reply_kind reply,
                        enum step_kind kind)
{
    int first = pick_key(draft, 1 << SIM_TWIN);
    if (first < 0)
        return false;
    draft->wanted->kind = reply;
    draft->wanted->is_twin = kind == STEP_GET;
    word(draft, name);
    for (unsigned key = (unsigned)first; key < (unsigned)first + 2; key++) {
        word(draft, text_of(draft, key));
        if (kind == STEP_SET)
            (void)add_write(draft, key, kind, 0);
        else
            (void)add_step(draft, key, kind);
    }
    return true;
}

/* The same by a script: what it has done when the second key is on the disk is undone, and done again. */
static bool draft_script(struct draft *draft, enum step_kind kind)
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
    int first = pick_key(draft, 1 << SIM_TWIN);
    bool is_write = kind == STEP_SET;
    if (first < 0)
        return false;
    draft->wanted->kind = is_write ? REPLY_DONE : REPLY_VALUES;
    draft->wanted->is_twin = !is_write;
    draft->wanted->is_script = is_write;
    word(draft, "EVAL");
    word(draft, is_write ? writers[sim_random(3)] : reader);
    word(draft, "2");
    word(draft, text_of(draft, (unsigned)first));
    word(draft, text_of(draft, (unsigned)first + 1));
    for (unsigned key = (unsigned)first; key < (unsigned)first + 2; key++) {
        if (is_write)
            (void)add_write(draft, key, kind, 0);
        else
            (void)add_step(draft, key, kind);
    }
    return true;
}

static bool draft_broad(struct draft *draft)
{
    static const char *const names[] = {"DBSIZE", "KEYS", "SCAN", "RANDOMKEY", "TIME"};
    size_t which = sim_random(sizeof(names) / sizeof(*names));
    draft->wanted->kind = REPLY_ANY;
    word(draft, names[which]);
    if (which == 1)
        word(draft, "*");
    if (which == 2)
        word(draft, "0");
    return true;
}

static bool draft_command(struct draft *draft, enum draft_kind kind)
{
    switch (kind) {
    case DRAFT_PING:
        return draft_ping(draft);
    case DRAFT_GET:
        return draft_get(draft);
    case DRAFT_SET:
        return draft_set(draft);
    case DRAFT_INCR:
        return draft_incr(draft);
    case DRAFT_DEL:
        return draft_del(draft);
    case DRAFT_EXISTS:
        return draft_exists(draft);
    case DRAFT_EXPIRE:
        return draft_expire(draft);
    case DRAFT_MGET:
        return draft_mget(draft);
    case DRAFT_MSET:
        return draft_mset(draft);
    case DRAFT_HSET:
        return draft_hset(draft);
    case DRAFT_HGET:
        return draft_hget(draft);
    case DRAFT_HGETALL:
        return draft_hgetall(draft);
    case DRAFT_TWIN_WRITE:
        return sim_random(2) ? draft_script(draft, STEP_SET)
                             : draft_twins(draft, "MSET", REPLY_DONE, STEP_SET);
    case DRAFT_TWIN_READ:
        return sim_random(2) ? draft_script(draft, STEP_GET)
                             : draft_twins(draft, "MGET", REPLY_VALUES, STEP_GET);
    case DRAFT_TWIN_DEL:
        return draft_twins(draft, "DEL", REPLY_COUNT, STEP_DEL);
    case DRAFT_BROAD:
        return draft_broad(draft);
    case DRAFT_MULTI:
    case DRAFT_MOVE:
    case DRAFT_KINDS:
        break;
    }
    return false;
}

/* ---- requests by chance ----------------------------------------------------------------------- */

static enum draft_kind pick_kind(const struct sim_workload *work)
{
    for (;;) {
        unsigned kind = (unsigned)sim_random(DRAFT_KINDS);
        if (work->commands & 1u << kind)
            return (enum draft_kind)kind;
    }
}

static struct draft draft_begin(struct sim_client *client, struct sim_request *request,
                                unsigned shard, uint32_t group)
{
    return (struct draft){.client = client,
                          .request = request,
                          .wanted = request_want(request, REPLY_ANY),
                          .shard = shard,
                          .group = group};
}

/* Numbers of groups, one for each shard. */
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

static void draft_single(struct sim_client *client, enum draft_kind kind)
{
    unsigned shard = client->proxy < 0 ? client->shard : SIM_ANY_SHARD;
    struct sim_request *request = queue_push(client, REPLY_ANY);
    struct draft draft = draft_begin(client, request, shard, new_group(client));
    if (!draft_command(&draft, kind)) {
        request_drop_last(client);
        return;
    }
    request->kind = draft.wanted->kind;
    frame_write(&request->frame, draft.words, draft.word_count);
}

/* The command of a block; its reply is part of EXEC's. */
static void push_queued(struct sim_client *client, const struct draft *draft)
{
    struct sim_request *queued = queue_push(client, REPLY_QUEUED);
    (void)request_want(queued, REPLY_QUEUED);
    frame_write(&queued->frame, draft->words, draft->word_count);
}

/* Twins that are written by two commands of a block. */
static unsigned draft_twins_apart(struct sim_client *client, struct sim_request *exec,
                                  unsigned shard, uint32_t group)
{
    for (unsigned i = 0, first = 0; i < 2; i++) {
        struct draft draft = draft_begin(client, exec, shard, group);
        int key = i ? (int)first + 1 : pick_key(&draft, 1 << SIM_TWIN);
        if (key < 0) {
            exec->wanted_count--;
            return 0;
        }
        first = (unsigned)key;
        draft.wanted->kind = REPLY_DONE;
        word(&draft, "SET");
        word(&draft, text_of(&draft, (unsigned)key));
        (void)add_write(&draft, (unsigned)key, STEP_SET, 0);
        push_queued(client, &draft);
    }
    return 2;
}

static unsigned draft_queued(struct sim_client *client, struct sim_request *exec, unsigned shard,
                             uint32_t group)
{
    enum draft_kind kind = pick_kind(client->work);
    if (kind == DRAFT_TWIN_WRITE)
        return draft_twins_apart(client, exec, shard, group);
    struct draft draft = draft_begin(client, exec, shard, group);
    if (kind == DRAFT_BROAD || !draft_command(&draft, kind)) {
        exec->wanted_count--;
        return 0;
    }
    push_queued(client, &draft);
    return 1;
}

/* A key to watch, before MULTI; false: there is none. */
static bool draft_watch(struct sim_client *client, unsigned shard)
{
    struct draft draft = {.client = client, .shard = shard};
    char line[SIM_NAMES_MAX * 2];
    int key = pick_key(&draft, ~0u);
    if (key < 0)
        return false;
    (void)snprintf(line, sizeof(line), "WATCH %s", text_of(&draft, (unsigned)key));
    push_plain(client, REPLY_DONE, line)->is_watch = true;
    return true;
}

static void draft_block(struct sim_client *client)
{
    unsigned shard = client->proxy < 0 ? client->shard
                                       : (unsigned)sim_random(client->work->cluster->shard_count);
    struct sim_request exec = {.kind = REPLY_EXEC};
    uint32_t group = new_group(client);
    unsigned wanted = 1 + (unsigned)sim_random(BLOCK_COMMANDS_MAX - 1);
    unsigned count = 0;
    exec.is_watch = sim_random(3) == 0 && draft_watch(client, shard);
    (void)push_plain(client, REPLY_DONE, "MULTI");
    for (unsigned i = 0; i < wanted && count < wanted; i++)
        count += draft_queued(client, &exec, shard, group);
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

void draft_greeting(struct sim_client *client)
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

void draft_hello(struct sim_client *client)
{
    (void)push_plain(client, REPLY_ANY, "HELLO 3");
}

/* What follows belongs to another place. */
static void draft_move(struct sim_client *client)
{
    const struct sim_workload *work = client->work;
    if (!work->is_calm || sim_random(4))
        return;
    client->place = (unsigned)sim_random(work->cluster->plan.places);
    draft_greeting(client);
}

void draft_random(struct sim_client *client)
{
    enum draft_kind kind = pick_kind(client->work);
    if (kind == DRAFT_MULTI)
        draft_block(client);
    else if (kind == DRAFT_MOVE)
        draft_move(client);
    else
        draft_single(client, kind);
}

static void audit_key(struct sim_client *client, unsigned key)
{
    bool is_hash = client->work->keys[key].kind == SIM_HASH;
    struct sim_request *request = queue_push(client, is_hash ? REPLY_FIELDS : REPLY_VALUES);
    struct draft draft = draft_begin(client, request, SIM_ANY_SHARD, new_group(client));
    draft.wanted->kind = request->kind;
    word(&draft, is_hash ? "HGETALL" : "GET");
    word(&draft, text_of(&draft, key));
    (void)add_step(&draft, key, is_hash ? STEP_HGETALL : STEP_GET);
    frame_write(&request->frame, draft.words, draft.word_count);
}

/* The values first: a key whose time has come is deleted by being read. */
void draft_audit(struct sim_client *client)
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
