#include "proxy/client/scripts.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/digest.h"
#include "shared/table.h"

#include <ctype.h>
#include <stdlib.h>

/* State of a search, kept in an internal request. */
struct body_search {
    struct script_search search; /* first: scripts_leave */
    int shard;                   /* the shard that needs the script; SHARDS_ALL: all of them */
    char sha[SHA1_HEX_LEN];
};

/* ---- notes ----------------------------------------------------------------------------------- */

static uint64_t note_of(const struct client *client, uint32_t shard, const char *sha)
{
    uint64_t hash = hash_bytes(client->session.keyspace->name) + shard;
    hash = hash * 0x9e3779b97f4a7c15 ^ hash_bytes((struct bytes){sha, SHA1_HEX_LEN});
    return hash ? hash : 1;
}

/* The worker's notes; empty after SCRIPT FLUSH. */
static struct script_notes *current_notes(struct proxy_worker *worker)
{
    uint64_t epoch = atomic_load_explicit(&worker->proxy->scripts_epoch, memory_order_relaxed);
    if (worker->script_notes.epoch != epoch) {
        script_notes_clear(&worker->script_notes);
        worker->script_notes.epoch = epoch;
    }
    return &worker->script_notes;
}

static bool is_noted(struct client *client, uint32_t shard, const char *sha)
{
    uint64_t note = note_of(client, shard, sha);
    return current_notes(client->worker)->known[note % SCRIPT_NOTES] == note;
}

static void note_known(struct client *client, uint32_t shard, const char *sha)
{
    uint64_t note = note_of(client, shard, sha);
    current_notes(client->worker)->known[note % SCRIPT_NOTES] = note;
}

/* ---- the search ------------------------------------------------------------------------------ */

static bool is_target(const struct body_search *search, uint32_t shard)
{
    return search->shard == SHARDS_ALL || (uint32_t)search->shard == shard;
}

/* Resumes the client; its frame is dispatched without another search. */
static void end_search(struct body_search *search)
{
    struct client *client = search->search.client;
    search->search.client = NULL;
    client->script.search = NULL;
    client->script.is_sought = true;
    client_unhold(client, HOLD_SCRIPT);
}

/* Did the shard reply 1 to SCRIPT EXISTS of one script? */
static bool has_script(const struct shard_reply *answer)
{
    return !answer->is_failure && bytes_equal(answer->frame, BYTES("*1\r\n:1\r\n"));
}

static void ask_shard(struct request *request, const struct body_search *search, int shard,
                      const char *container, const char *word, struct bytes argument,
                      request_done_fn *done)
{
    const struct bytes words[] = {bytes_of(container), bytes_of(word), argument};
    request_fan_out(request, search->search.client->session.keyspace, shard, words, 3, done);
}

static void loaded(struct client *none, struct request *request, struct reply *reply)
{
    struct body_search *search = request_state(request, sizeof *search);
    (void)none;
    (void)reply;
    if (search->search.client)
        end_search(search);
}

/* SCREE SOURCE was answered: with the script, or null if the shard has evicted it since. */
static void found_body(struct client *none, struct request *request, struct reply *reply)
{
    struct body_search *search = request_state(request, sizeof *search);
    const struct shard_reply *answer = request_reply(request, 0);
    struct resp_value value;
    size_t pos = 0;
    (void)none;
    (void)reply;
    if (!search->search.client)
        return;
    if (!answer->is_failure && resp_value_next(answer->frame, &pos, &value) && value.type == '$' &&
        !value.is_null && search->shard < (int)request->worker->pool->count)
        ask_shard(request, search, search->shard, "SCRIPT", "LOAD", value.text, loaded);
    else
        end_search(search);
}

/* All shards have replied to SCRIPT EXISTS. */
static void asked_all(struct client *none, struct request *request, struct reply *reply)
{
    struct body_search *search = request_state(request, sizeof *search);
    int teacher = -1;
    bool is_missing = false;
    (void)none;
    (void)reply;
    if (!search->search.client)
        return;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        if (has_script(request_reply(request, i)))
            teacher = (int)i;
        else
            is_missing |= is_target(search, i);
    }
    if (is_missing && teacher >= 0 && teacher < (int)request->worker->pool->count)
        ask_shard(request, search, teacher, "SCREE", "SOURCE",
                  (struct bytes){search->sha, SHA1_HEX_LEN}, found_body);
    else
        end_search(search);
}

/* The shards that need the script have replied to SCRIPT EXISTS. */
static void asked_targets(struct client *none, struct request *request, struct reply *reply)
{
    struct body_search *search = request_state(request, sizeof *search);
    bool all_know = true;
    (void)none;
    (void)reply;
    if (!search->search.client)
        return;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        bool does = has_script(request_reply(request, i));
        if (does)
            note_known(search->search.client,
                       search->shard == SHARDS_ALL ? i : (uint32_t)search->shard, search->sha);
        all_know &= does;
    }
    if (all_know)
        end_search(search);
    else
        ask_shard(request, search, SHARDS_ALL, "SCRIPT", "EXISTS",
                  (struct bytes){search->sha, SHA1_HEX_LEN}, asked_all);
}

static void begin_search(struct client *client, int shard, const char *sha)
{
    struct request *request = request_internal(client->worker);
    struct body_search *search = request_state(request, sizeof *search);
    *search = (struct body_search){.search.client = client, .shard = shard};
    memcpy(search->sha, sha, SHA1_HEX_LEN);
    client->script.search = &search->search;
    client_hold(client, HOLD_SCRIPT);
    ask_shard(request, search, shard, "SCRIPT", "EXISTS", (struct bytes){search->sha, SHA1_HEX_LEN},
              asked_targets);
}

void scripts_leave(struct client *client)
{
    if (client->script.search)
        client->script.search->client = NULL;
    client->script.search = NULL;
}

/* ---- before EVALSHA is sent ------------------------------------------------------------------ */

/* Reads argument 1 as a SHA-1, in lower case. False: the argument is no SHA-1. */
static bool read_sha(const struct frame *frame, char sha[SHA1_HEX_LEN])
{
    struct bytes text = frame_arg(frame, 1);
    if (text.len != SHA1_HEX_LEN)
        return false;
    for (size_t i = 0; i < SHA1_HEX_LEN; i++)
        sha[i] = (char)tolower((unsigned char)text.data[i]);
    return true;
}

bool scripts_ready(struct client *client, const struct frame *frame, const struct command *command,
                   const struct route *route)
{
    struct proxy_worker *worker = client->worker;
    char sha[SHA1_HEX_LEN];
    if (command->parent) { /* SCRIPT FLUSH */
        atomic_fetch_add_explicit(&worker->proxy->scripts_epoch, 1, memory_order_relaxed);
        return true;
    }
    bool is_sought = client->script.is_sought;
    client->script.is_sought = false;
    bool is_one = route->kind == ROUTE_KIND_ONE || route->kind == ROUTE_KIND_ACROSS;
    bool goes = is_one || route->kind == ROUTE_KIND_ANY;
    if (is_sought || !goes || worker->pool->count == 1 || !read_sha(frame, sha))
        return true;
    uint32_t first = is_one ? route->shard : 0;
    uint32_t end = is_one ? first + 1u : (uint32_t)worker->pool->count;
    bool all_noted = true;
    for (uint32_t shard = first; shard < end; shard++)
        all_noted &= is_noted(client, shard, sha);
    if (all_noted)
        return true;
    begin_search(client, is_one ? (int)first : SHARDS_ALL, sha);
    if (client->script.search)
        return false;
    client->script.is_sought = false; /* the search has ended at once: no shard was reachable */
    return true;
}
