/*
 * local_hotkeys.c - SCREE HOTKEYS: the keys that this proxy's clients request most often.
 *
 *   HOTKEYS ──gather──► {name, rate} of all workers (hot_keys.h), added up, the highest first
 */
#include "proxy/local/local.h"

#include "proxy/core/hot_keys.h"
#include "proxy/core/hotkeys.h"
#include "proxy/core/worker.h"
#include "shared/number.h"
#include "shared/table.h"

#include <stdlib.h>

enum { COUNT_DEFAULT = 10, SPACE_MAX = 255 };

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
    if (question->has_space && !bytes_equal(space, hot_key_parse(name).space))
        return;
    out_write(listing->out, &answer, sizeof answer);
    out_write(listing->out, name.data, name.len);
}

/* gather_visit_fn */
static void list_worker_hotkeys(struct proxy_worker *worker, const void *data, struct out *out)
{
    struct listing listing = {data, out};
    hot_keys_each(worker, list_hot_key, &listing);
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
    struct hot_key hot = hot_key_parse(found->name);
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
