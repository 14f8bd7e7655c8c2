/*
 * local_hotkeys.c - SCREE HOTKEYS: the keys that this proxy's clients request most often.
 *
 *   every worker: about one request in `hotkeys-sample` ─► its keys ─► sketch (hotkeys.h)
 *   HOTKEYS ──gather──► {name, rate} of all workers, added up, the highest first
 *
 * A name: u16 slot | u8 database | u8 length of the namespace | namespace | key
 */
#include "proxy/local/local.h"

#include "proxy/hotkeys.h"
#include "proxy/worker.h"
#include "shared/clock.h"
#include "shared/number.h"
#include "shared/table.h"

#include <stdlib.h>

enum { COUNT_DEFAULT = 10, HEAD_BYTES = 4, SPACE_MAX = 255 };

/* ---- sampling --------------------------------------------------------------------------------- */

void local_hotkeys_configure(struct proxy_worker *worker)
{
    worker->sampling.left = worker->snapshot->config.hotkeys_sample ? 1 : UINT32_MAX;
}

/* Number of requests until the next sample: `hotkeys-sample` on average, and random so that no pipeline is in step
 * with it. */
static uint32_t next_interval(const struct proxy_worker *worker)
{
    uint32_t average = (uint32_t)worker->snapshot->config.hotkeys_sample;
    return average ? 1 + (uint32_t)(clock_random() % (2 * average - 1)) : UINT32_MAX;
}

static void count_hot_key(struct client *client, struct bytes key)
{
    struct proxy_worker *worker = client->worker;
    const struct keyspace *keyspace = client->session.keyspace;
    struct route_rules rules = {.map = worker->snapshot->map, .entry = keyspace->entry};
    uint16_t slot = route_slot(&rules, key);
    char text[HOTKEYS_NAME_MAX];
    size_t space_len = keyspace->name.len < SPACE_MAX ? keyspace->name.len : SPACE_MAX;
    size_t room = sizeof text - HEAD_BYTES - space_len;
    size_t key_len = key.len < room ? key.len : room;
    text[0] = (char)(slot >> 8);
    text[1] = (char)slot;
    text[2] = (char)keyspace->db;
    text[3] = (char)space_len;
    memcpy(text + HEAD_BYTES, keyspace->name.data, space_len);
    memcpy(text + HEAD_BYTES + space_len, key.data, key_len);
    hotkeys_add(worker->sampling.hotkeys, (struct bytes){text, HEAD_BYTES + space_len + key_len},
                loop_mono_ms(worker->loop));
}

void local_hotkeys_sample(struct client *client, const struct frame *frame)
{
    struct proxy_worker *worker = client->worker;
    const struct bytes *argv = argv_of(worker, frame);
    const struct command *command = command_find_argv(argv, frame->argc);
    struct key_list keys;
    worker->sampling.left = next_interval(worker);
    if (!command || !command_arity_ok(command, frame->argc) || client->is_closed ||
        !client->session.is_authenticated)
        return;
    if (!worker->sampling.hotkeys)
        worker->sampling.hotkeys = hotkeys_new(loop_mono_ms(worker->loop));
    keys_list_init(&keys);
    if (keys_find(command, argv, frame->argc, &keys) != KEYS_INVALID)
        for (uint32_t i = 0; i < keys.count; i++)
            count_hot_key(client, argv[keys.refs[i].index]);
    keys_list_fini(&keys);
}

/* ---- samples of all workers ------------------------------------------------------------------- */

struct question {
    bool has_space;
    uint8_t space_len;
    char space[SPACE_MAX];
};

/* A name of one worker; the name follows. */
struct answer {
    double per_second;
    uint32_t name_len;
};

struct hot_key local_hotkeys_parse(struct bytes name)
{
    const unsigned char *head = (const unsigned char *)name.data;
    size_t key_at = HEAD_BYTES + head[3];
    return (struct hot_key){.space = {name.data + HEAD_BYTES, head[3]},
                            .key = {name.data + key_at, name.len - key_at},
                            .slot = (uint16_t)(head[0] << 8 | head[1]),
                            .db = head[2]};
}

void local_hotkeys_each(struct proxy_worker *worker, hot_key_fn *each, void *owner)
{
    struct hotkeys *hotkeys = worker->sampling.hotkeys;
    uint64_t now_ms = loop_mono_ms(worker->loop);
    double sample = worker->snapshot->config.hotkeys_sample;
    if (!hotkeys)
        return;
    hotkeys_close_windows(hotkeys, now_ms);
    uint64_t covered_ms = hotkeys_covered_ms(hotkeys, now_ms);
    for (uint32_t i = 0; i < hotkeys->name_count; i++) {
        struct bytes name = {hotkeys->names[i].text, hotkeys->names[i].len};
        double count = (double)hotkeys_estimate(hotkeys, name) * sample;
        each(owner, name, count * 1000 / (double)(covered_ms ? covered_ms : 1));
    }
}

struct listing {
    const struct question *question;
    struct out *out;
};

/* hot_key_fn */
static void list_hot_key(void *owner, struct bytes name, double per_second)
{
    const struct listing *listing = owner;
    const struct question *question = listing->question;
    const struct bytes space = {question->space, question->space_len};
    struct answer answer = {per_second, (uint32_t)name.len};
    if (question->has_space && !bytes_equal(space, local_hotkeys_parse(name).space))
        return;
    out_write(listing->out, &answer, sizeof answer);
    out_write(listing->out, name.data, name.len);
}

/* gather_visit_fn */
static void list_worker_hotkeys(struct proxy_worker *worker, const void *data, struct out *out)
{
    struct listing listing = {data, out};
    local_hotkeys_each(worker, list_hot_key, &listing);
}

/* gather_visit_fn */
static void reset_visit(struct proxy_worker *worker, const void *data, struct out *out)
{
    (void)data;
    (void)out;
    if (worker->sampling.hotkeys)
        hotkeys_reset(worker->sampling.hotkeys, loop_mono_ms(worker->loop));
}

/* ---- merging the samples ---------------------------------------------------------------------- */

struct found {
    double per_second;
    struct bytes name;
};

static int by_rate(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    return (left->per_second < right->per_second) - (left->per_second > right->per_second);
}

/* Adds the names of one worker, in text[0..len). */
static void add_answers(struct table *found, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct answer answer;
        memcpy(&answer, text + at, sizeof answer);
        struct bytes name = {text + at + sizeof answer, answer.name_len};
        struct found *one = table_get(found, name);
        if (!one) {
            one = calloc(1, sizeof *one);
            CHECK(one);
            one->name = name;
            (void)table_put(found, name, one);
        }
        one->per_second += answer.per_second;
        at += sizeof answer + answer.name_len;
    }
}

static void reply_found(const struct shard_map *map, const struct found *found, struct reply *reply)
{
    struct hot_key hot = local_hotkeys_parse(found->name);
    char rate[32];
    reply_map(reply, 5);
    reply_bulk_text(reply, "key");
    reply_bulk(reply, hot.key);
    reply_bulk_text(reply, "per-second");
    (void)snprintf(rate, sizeof rate, "%.1f", found->per_second);
    reply_bulk_text(reply, rate);
    reply_bulk_text(reply, "shard");
    reply_bulk_text(reply, map->shards[shard_map_find(map, hot.slot)].name);
    reply_bulk_text(reply, "database");
    reply_int(reply, hot.db);
    reply_bulk_text(reply, "namespace");
    reply_bulk(reply, hot.space);
}

static void hotkeys_done(struct client *client, struct request *request, struct reply *reply)
{
    const int64_t *wanted = request_state(request, sizeof *wanted);
    uint32_t workers = request_gathered_count(request);
    char **texts = calloc(workers, sizeof *texts);
    struct table *by_name = table_new();
    CHECK(texts);
    for (uint32_t i = 0; i < workers; i++) {
        const struct out *out = request_gathered(request, i);
        texts[i] = malloc(out->bytes + 1);
        CHECK(texts[i]);
        out_copy(out, texts[i]);
        add_answers(by_name, texts[i], out->bytes);
    }
    size_t count = table_count(by_name);
    struct found *found = calloc(count + 1, sizeof *found);
    CHECK(found);
    struct bytes name;
    void *one;
    for (size_t cursor = 0, i = 0; table_next(by_name, &cursor, &name, &one); i++) {
        found[i] = *(struct found *)one;
        free(one);
    }
    qsort(found, count, sizeof *found, by_rate);
    size_t shown = count < (size_t)*wanted ? count : (size_t)*wanted;
    reply_array(reply, (int64_t)shown);
    for (size_t i = 0; i < shown; i++)
        reply_found(client->worker->snapshot->map, &found[i], reply);
    free(found);
    for (uint32_t i = 0; i < workers; i++)
        free(texts[i]);
    free(texts);
    table_free(by_name);
}

static void hotkeys_reset_done(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
}

void local_scree_hotkeys(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    struct bytes space = client->session.keyspace->name;
    struct question question = {.has_space = space.len > 0,
                                .space_len =
                                    (uint8_t)(space.len < SPACE_MAX ? space.len : SPACE_MAX)};
    int64_t count = COUNT_DEFAULT;
    bool is_reset = argc == 3 && bytes_is(argv[2], "RESET");
    if (is_reset && question.has_space) {
        reply_error(reply, "NOPERM SCREE HOTKEYS RESET is not allowed inside a namespace");
    } else if (is_reset) {
        request_gather(request, reset_visit, NULL, 0, hotkeys_reset_done);
    } else if (argc != 2 && (argc != 4 || !bytes_is(argv[2], "COUNT"))) {
        reply_code(reply, ERR_SYNTAX);
    } else if (argc == 4 && (!number_parse_int64(argv[3], &count) || count < 1)) {
        reply_error(reply, "ERR COUNT must be a number above 0");
    } else {
        memcpy(question.space, space.data, question.space_len);
        *(int64_t *)request_state(request, sizeof count) = count;
        request_gather(request, list_worker_hotkeys, &question, sizeof question, hotkeys_done);
    }
}
