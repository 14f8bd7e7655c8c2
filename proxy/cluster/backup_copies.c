#include "proxy/cluster/backup_copies.h"

#include "proxy/core/node.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/pool.h"
#include "shared/check.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 18 };

/* Commands that are being collected, one for each copy. */
struct sending {
    struct fan_part *parts;
    struct bytes (*words)[WORDS_MAX];
    uint32_t count;
};

static void begin_copy_parts(struct sending *sending, const struct pool *pool)
{
    size_t room = 0;
    for (size_t i = 0; i < pool->count; i++)
        room += 1 + pool->nodes[i]->copies.count;
    *sending = (struct sending){.parts = calloc(room, sizeof sending->parts[0]),
                                .words = calloc(room, sizeof sending->words[0])};
    CHECK(sending->parts && sending->words);
}

/* Adds the command for this copy, and returns its words; there is room for `argc` + 1. */
static struct bytes *add_copy_part(struct sending *sending, struct node *node,
                                   const struct bytes *argv, uint32_t argc)
{
    CHECK(argc < WORDS_MAX);
    struct bytes *words = sending->words[sending->count];
    memcpy(words, argv, argc * sizeof argv[0]);
    sending->parts[sending->count++] = (struct fan_part){node, words, argc};
    return words;
}

static void add_role_word(struct sending *sending, struct bytes word)
{
    struct fan_part *part = &sending->parts[sending->count - 1];
    sending->words[sending->count - 1][part->argc++] = word;
}

static bool send_copy_parts(struct sending *sending, struct request *request, request_done_fn *done)
{
    bool has_any = sending->count > 0;
    if (has_any)
        request_fan_out_to(request, sending->parts, sending->count, done);
    else
        request_release(request);
    free(sending->parts);
    free(sending->words);
    return has_any;
}

void backup_ask_all_copies(struct request *request, const struct bytes *argv, uint32_t argc,
                           uint32_t name_at, request_done_fn *done)
{
    const struct pool *pool = request->worker->pool;
    struct sending sending;
    if (!pool->nodes) { /* the worker is stopping */
        request_release(request);
        return;
    }
    begin_copy_parts(&sending, pool);
    for (size_t i = 0; i < pool->count; i++) {
        struct node *leader = pool->nodes[i];
        for (uint32_t copy = 0; copy <= leader->copies.count; copy++) {
            struct node *node = copy ? leader->copies.nodes[copy - 1] : leader;
            struct bytes *words = add_copy_part(&sending, node, argv, argc);
            if (name_at)
                words[name_at] = bytes_of(node->name);
        }
    }
    (void)send_copy_parts(&sending, request, done);
}

/* ---- choosing ---- */

static void consider(struct backup_copier *copier, const struct node *node,
                     const struct shard_status *status)
{
    bool is_better = !*copier->address || status->last_s > copier->ended_s;
    bool is_free = status->may_copy && bytes_is(status->state, "idle");
    if (status->is_silent || !is_free || !is_better || !copier->is_known)
        return;
    (void)snprintf(copier->address, sizeof copier->address, "%s", node->address);
    copier->ended_s = status->last_s;
}

void backup_copies_choose(struct backup_copies *copies, const struct request *request)
{
    backup_copies_free(copies);
    copies->count = (uint32_t)request->worker->pool->count;
    copies->of = calloc(copies->count, sizeof copies->of[0]);
    CHECK(copies->of);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct shard_status status = backup_status_read(answer->frame);
        if (answer->node->is_removed || answer->node->index >= copies->count)
            continue;
        struct backup_copier *copier = &copies->of[answer->node->index];
        if (answer->node->is_copy)
            consider(copier, answer->node, &status);
        else
            copier->is_known = status.knows_copies;
    }
}

void backup_copies_free(struct backup_copies *copies)
{
    free(copies->of);
    *copies = (struct backup_copies){0};
}

struct backup_copier *backup_copier_of(const struct backup_copies *copies, uint32_t shard)
{
    return shard < copies->count && *copies->of[shard].address ? &copies->of[shard] : NULL;
}

bool backup_copies_any(const struct backup_copies *copies)
{
    for (uint32_t i = 0; i < copies->count; i++)
        if (backup_copier_of(copies, i))
            return true;
    return false;
}

bool backup_copier_is(const struct backup_copies *copies, const struct node *node)
{
    const struct backup_copier *copier =
        node->is_removed ? NULL : backup_copier_of(copies, node->index);
    return copier && strcmp(copier->address, node->address) == 0;
}

void backup_copies_drop_failed(struct backup_copies *copies)
{
    for (uint32_t i = 0; i < copies->count; i++)
        if (copies->of[i].has_failed || copies->has_dropped)
            *copies->of[i].address = 0;
    copies->has_dropped = true;
}

/* ---- sending ---- */

/* The node of the copy that makes the shard's files; NULL: the leader does, or that copy does not follow any more. */
static struct node *node_of_copier(const struct backup_copies *copies, const struct pool *pool,
                                   uint32_t shard)
{
    const struct node *leader = pool->nodes[shard];
    for (uint32_t i = 0; i < leader->copies.count; i++)
        if (backup_copier_is(copies, leader->copies.nodes[i]))
            return leader->copies.nodes[i];
    return NULL;
}

bool backup_copies_has_node(const struct backup_copies *copies, const struct proxy_worker *worker,
                            uint32_t shard)
{
    return node_of_copier(copies, worker->pool, shard) ||
           backup_copier_is(copies, worker->pool->nodes[shard]);
}

void backup_copies_prepare(struct backup_copies *copies, struct request *request,
                           const struct bytes *argv, uint32_t argc, uint32_t name_at,
                           request_done_fn *done)
{
    const struct pool *pool = request->worker->pool;
    struct sending sending;
    begin_copy_parts(&sending, pool);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct node *copy = node_of_copier(copies, pool, i);
        if (!copy && i < copies->count)
            *copies->of[i].address = 0; /* it follows no more */
        add_copy_part(&sending, pool->nodes[i], argv, argc)[name_at] =
            bytes_of(pool->nodes[i]->name);
        if (!copy)
            continue;
        add_role_word(&sending, BYTES("ELSEWHERE"));
        add_copy_part(&sending, copy, argv, argc)[name_at] = bytes_of(copy->name);
        add_role_word(&sending, BYTES("COPY"));
    }
    (void)send_copy_parts(&sending, request, done);
}

/* Adds the command for the leader, or the copy, that has this role in the backup of the shard. */
static void add_role(struct sending *sending, const struct backup_copies *copies,
                     const struct pool *pool, uint32_t shard, enum backup_role role,
                     const struct bytes *argv, uint32_t argc)
{
    struct node *copy = node_of_copier(copies, pool, shard);
    bool is_elsewhere =
        backup_copier_of(copies, shard) && !backup_copier_is(copies, pool->nodes[shard]);
    if (role == BACKUP_ROLE_ALL || role == BACKUP_ROLE_LEADERS ||
        is_elsewhere == (role == BACKUP_ROLE_HOLDERS))
        (void)add_copy_part(sending, pool->nodes[shard], argv, argc);
    if (copy && role != BACKUP_ROLE_HOLDERS && role != BACKUP_ROLE_LEADERS)
        (void)add_copy_part(sending, copy, argv, argc);
}

bool backup_copies_send(const struct backup_copies *copies, struct request *request,
                        enum backup_role role, const struct bytes *argv, uint32_t argc,
                        request_done_fn *done)
{
    const struct pool *pool = request->worker->pool;
    struct sending sending;
    begin_copy_parts(&sending, pool);
    for (uint32_t i = 0; i < pool->count; i++)
        add_role(&sending, copies, pool, i, role, argv, argc);
    return send_copy_parts(&sending, request, done);
}

bool backup_copies_confirm(const struct backup_copies *copies, struct request *request,
                           enum backup_role role, const char *id, request_done_fn *done)
{
    const struct pool *pool = request->worker->pool;
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("BACKUP"), BYTES("CONFIRM"), bytes_of(id)};
    char(*bytes)[24] = calloc(pool->count, sizeof bytes[0]);
    CHECK(bytes);
    struct sending sending;
    begin_copy_parts(&sending, pool);
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct backup_copier *copier = backup_copier_of(copies, i);
        uint32_t before = sending.count;
        add_role(&sending, copies, pool, i, role, argv, 4);
        if (!copier || sending.count == before)
            continue;
        (void)snprintf(bytes[i], sizeof bytes[i], "%" PRIu64, copier->bytes);
        add_role_word(&sending, bytes_of(role == BACKUP_ROLE_HOLDERS ? bytes[i] : copier->moment));
    }
    bool has_any = send_copy_parts(&sending, request, done);
    free(bytes);
    return has_any;
}

void backup_copies_print(const struct backup_copies *copies, const struct shard_map *map,
                         char *text, size_t size)
{
    size_t len = 0;
    *text = 0;
    for (uint32_t i = 0; i < copies->count && i < map->shard_count && len < size; i++)
        if (backup_copier_of(copies, i))
            len += (size_t)snprintf(text + len, size - len, "%s%s=%s", len ? " " : "",
                                    map->shards[i].name, copies->of[i].address);
}
