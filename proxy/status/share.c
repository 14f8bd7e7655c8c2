#include "proxy/status/share.h"

#include "proxy/client/client_line.h"
#include "proxy/client/users.h"
#include "proxy/core/client.h"
#include "proxy/core/hot_keys.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

enum { TEXT_MAX = 1024 }; /* longest text that a client chose */

struct share *share_new(void)
{
    struct share *share = calloc(1, sizeof *share);
    CHECK(share);
    arena_init(&share->arena);
    return share;
}

void share_free(struct share *share)
{
    shard_map_unref(share->map);
    arena_fini(&share->arena);
    free(share);
}

static struct bytes copy_share_text(struct share *share, struct bytes text)
{
    return arena_copy(&share->arena,
                      (struct bytes){text.data, text.len < TEXT_MAX ? text.len : TEXT_MAX});
}

static struct bytes keep_text(struct share *share, const char *text)
{
    return copy_share_text(share, bytes_of(text ? text : ""));
}

/* ---- shards ------------------------------------------------------------------------------------ */

static void add_upstream(struct share *share, const struct upstream *upstream)
{
    struct share_shard *to = &share->shards[upstream->node->index];
    bool is_broken = upstream->state == UPSTREAM_DOWN || upstream->state == UPSTREAM_RETRYING ||
                     upstream->life.is_holding;
    to->in_flight += upstream->queue.in_flight;
    to->queued_bytes += upstream->out ? upstream->out->bytes : 0;
    to->open += upstream->state == UPSTREAM_UP;
    to->broken += is_broken;
    if (is_broken)
        to->reason = keep_text(share, upstream->failure.reason);
}

static void fill_shards(struct share *share, const struct proxy_worker *worker)
{
    const struct pool *pool = worker->pool;
    struct shard_map *map = shard_map_ref(worker->snapshot->map);
    size_t size = map->shard_count * sizeof *share->shards;
    shard_map_unref(share->map);
    share->map = map;
    share->shards = arena_alloc(&share->arena, size);
    memset(share->shards, 0, size);
    for (const struct list *link = pool->upstreams.next; pool->nodes && link != &pool->upstreams;
         link = link->next) {
        const struct upstream *upstream = container_of(link, struct upstream, links.pool);
        if (!upstream->life.is_closed && !upstream->node->is_removed && !upstream->use.is_copy)
            add_upstream(share, upstream);
    }
}

/* ---- clients ----------------------------------------------------------------------------------- */

struct candidate {
    const struct client *client;
    size_t output_bytes;
};

static bool ranks_before(const struct candidate *a, const struct candidate *b)
{
    if (a->output_bytes != b->output_bytes)
        return a->output_bytes > b->output_bytes;
    return a->client->id < b->client->id;
}

/* Inserts a candidate into the list of the first SHARE_CLIENTS_MAX; returns the new count. */
static uint32_t insert(struct candidate *list, uint32_t count, struct candidate one)
{
    uint32_t at = count;
    if (count == SHARE_CLIENTS_MAX && !ranks_before(&one, &list[count - 1]))
        return count;
    if (count == SHARE_CLIENTS_MAX)
        at--;
    else
        count++;
    for (; at > 0 && ranks_before(&one, &list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = one;
    return count;
}

static struct share_client describe_client(struct share *share, const struct candidate *one)
{
    const struct client *client = one->client;
    const struct client_session *session = &client->session;
    uint64_t now_ms = loop_mono_ms(client->worker->loop);
    const char *command = client->last_command ? command_full_name(client->last_command) : "";
    char flags[CLIENT_FLAGS_MAX];
    client_flags(client, flags);
    return (struct share_client){
        .id = client->id,
        .age_s = (now_ms - client->created_ms) / 1000,
        .idle_s = (now_ms - stream_active_ms(client->stream)) / 1000,
        .output_bytes = one->output_bytes,
        .input_bytes = stream_held(client->stream),
        .in_flight = client->pipeline.count,
        .db = session->keyspace->db,
        .address = keep_text(share, stream_peer(client->stream)),
        .name = keep_text(share, session->name),
        .user = copy_share_text(share, users_name(client)),
        .space = copy_share_text(share, session->keyspace->name),
        .library = keep_text(share, session->lib_name),
        .command = keep_text(share, command),
        .flags = keep_text(share, flags),
    };
}

static void fill_clients(struct share *share, const struct proxy_worker *worker)
{
    struct candidate list[SHARE_CLIENTS_MAX];
    uint32_t count = 0;
    for (const struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = link->next) {
        const struct client *client = container_of(link, struct client, links.all);
        if (!client->is_closed && client->session.keyspace)
            count = insert(list, count, (struct candidate){client, client_owed_bytes(client)});
    }
    for (uint32_t i = 0; i < count; i++)
        share->clients[i] = describe_client(share, &list[i]);
    share->client_count = count;
}

/* ---- keys and keyspaces --------------------------------------------------------------------------- */

/* hot_key_fn: keeps the hottest keys. */
static void add_hot_key(void *owner, struct bytes name, double per_second)
{
    struct share *share = owner;
    uint32_t at = 0;
    if (share->key_count < SHARE_KEYS_MAX) {
        at = share->key_count++;
    } else {
        for (uint32_t i = 1; i < SHARE_KEYS_MAX; i++)
            if (share->keys[i].per_second < share->keys[at].per_second)
                at = i;
        if (share->keys[at].per_second >= per_second)
            return;
    }
    share->keys[at] = (struct share_key){per_second, copy_share_text(share, name)};
}

static void fill_keyspaces(struct share *share, const struct proxy_worker *worker)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    share->keyspace_count = 0;
    while (share->keyspace_count < SHARE_KEYSPACES_MAX &&
           table_next(worker->keyspaces.by_name, &cursor, &key, &value)) {
        const struct keyspace *keyspace = value;
        if (keyspace->is_gone)
            continue;
        share->keyspaces[share->keyspace_count++] =
            (struct share_keyspace){.clients = keyspace->clients,
                                    .is_ephemeral = keyspace->entry && keyspace->entry->ephemeral,
                                    .name = copy_share_text(share, keyspace->name)};
    }
}

/* Counts of namespaces that are in the configuration, also of those without clients now. */
static void fill_namespace_counts(struct share *share, const struct proxy_worker *worker)
{
    size_t cursor = 0;
    struct bytes name;
    void *counts;
    struct namespace_match match;
    share->counted = 0;
    while (share->counted < SHARE_KEYSPACES_MAX &&
           table_next(worker->keyspaces.counts, &cursor, &name, &counts))
        if (!name.len || namespaces_find(worker->keyspaces.namespaces, name, &match))
            share->counts[share->counted++] = (struct share_counts){
                copy_share_text(share, name), *(struct namespace_counts *)counts};
}

void share_fill(struct share *share, struct proxy_worker *worker)
{
    arena_reset(&share->arena);
    memcpy(share->slot_hits, worker->sampling.slot_hits, sizeof share->slot_hits);
    fill_shards(share, worker);
    fill_clients(share, worker);
    share->key_count = 0;
    hot_keys_each(worker, add_hot_key, share);
    fill_keyspaces(share, worker);
    fill_namespace_counts(share, worker);
    share->at_us = loop_mono_us(worker->loop);
}
