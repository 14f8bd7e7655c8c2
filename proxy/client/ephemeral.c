#include "proxy/client/ephemeral.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/log.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

/* A namespace whose last client has left this worker. */
struct leaving {
    struct list link; /* in worker->ephemeral.leaving */
    uint64_t due_ms;  /* monotonic */
    size_t len;
    char name[];
};

static struct bytes leaving_name(const struct leaving *leaving)
{
    return (struct bytes){leaving->name, leaving->len};
}

static void leaving_free(struct leaving *leaving)
{
    list_remove(&leaving->link);
    free(leaving);
}

static struct leaving *leaving_find(struct proxy_worker *worker, struct bytes name)
{
    for (struct list *node = worker->ephemeral.leaving.next; node != &worker->ephemeral.leaving;
         node = node->next) {
        struct leaving *leaving = container_of(node, struct leaving, link);
        if (bytes_equal(leaving_name(leaving), name))
            return leaving;
    }
    return NULL;
}

/* Sets the time after which the namespace is to be dropped. */
static void arm(struct proxy_worker *worker, struct bytes name, uint64_t after_ms)
{
    struct leaving *leaving = leaving_find(worker, name);
    if (!leaving) {
        leaving = malloc(sizeof *leaving + name.len);
        CHECK(leaving);
        leaving->len = name.len;
        memcpy(leaving->name, name.data, name.len);
        list_init(&leaving->link);
        list_push(&worker->ephemeral.leaving, &leaving->link);
    }
    leaving->due_ms = loop_mono_ms(worker->loop) + after_ms;
}

void ephemeral_left(struct proxy_worker *worker, struct keyspace *keyspace)
{
    if (keyspace->entry && keyspace->entry->ephemeral && !worker->thread.is_stopping)
        arm(worker, keyspace->name, keyspace->entry->ephemeral_after_ms);
}

/* ---- dropping ---- */

struct drop_state {
    size_t len;
    char name[NAMESPACE_NAME_MAX];
};

/* request_done_fn: done when every shard replied 1, else it is tried again. */
static void drop_done(struct client *client, struct request *request, struct reply *reply)
{
    struct proxy_worker *worker = request->worker;
    const struct drop_state *state = request_state(request, sizeof *state);
    struct bytes name = {state->name, state->len};
    bool dropped = true;
    (void)client;
    (void)reply;
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        dropped = dropped && bytes_equal(request_reply(request, i)->frame, BYTES(":1\r\n"));
    struct namespace_match match;
    if (dropped)
        log_event(LOG_INFO, "namespace_dropped", "name=\"%.*s\"", (int)name.len, name.data);
    else if (!worker->thread.is_stopping &&
             namespaces_find(worker->snapshot->namespaces, name, &match) && match.entry->ephemeral)
        arm(worker, name, match.entry->ephemeral_after_ms);
}

static void send_drop(struct proxy_worker *worker, struct bytes name, uint64_t idle_ms)
{
    char text[24];
    size_t len = (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)idle_ms);
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("DROP"), {text, len}};
    struct keyspace *keyspace = keyspaces_get(&worker->keyspaces, name, 0);
    struct request *request = request_internal(worker);
    struct drop_state *state = request_state(request, sizeof *state);
    state->len = name.len;
    memcpy(state->name, name.data, name.len);
    request_fan_out(request, keyspace, SHARDS_ALL, argv, 3, drop_done);
    keyspace_unref(&worker->keyspaces, keyspace);
}

/* Has the namespace a client of this worker, in any database? */
static bool has_clients(struct proxy_worker *worker, struct bytes name)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    while (table_next(worker->keyspaces.by_name, &cursor, &key, &value)) {
        const struct keyspace *keyspace = value;
        if (keyspace->clients && bytes_equal(keyspace->name, name))
            return true;
    }
    return false;
}

static void drop_due(struct proxy_worker *worker, uint64_t now_ms)
{
    struct list *next;
    for (struct list *node = worker->ephemeral.leaving.next; node != &worker->ephemeral.leaving;
         node = next) {
        struct leaving *leaving = container_of(node, struct leaving, link);
        struct namespace_match match;
        next = node->next;
        if (leaving->due_ms > now_ms)
            continue;
        if (!has_clients(worker, leaving_name(leaving)) &&
            namespaces_find(worker->snapshot->namespaces, leaving_name(leaving), &match) &&
            match.entry->ephemeral)
            send_drop(worker, leaving_name(leaving), match.entry->ephemeral_after_ms);
        leaving_free(leaving);
    }
}

/* ---- keeping alive ---- */

/* request_done_fn: if a shard was not reached, SCREE KEEP is sent again. */
static void kept(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        request->worker->ephemeral.keep_again |= request_reply(request, i)->is_failure;
}

static void send_keep(struct proxy_worker *worker, struct keyspace *keyspace)
{
    char text[24];
    size_t len = (size_t)snprintf(text, sizeof text, "%llu",
                                  (unsigned long long)keyspace->entry->ephemeral_after_ms);
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("KEEP"), {text, len}};
    request_fan_out(request_internal(worker), keyspace, SHARDS_ALL, argv, 3, kept);
}

static void keep_used(struct proxy_worker *worker, uint64_t now_ms)
{
    size_t cursor = 0;
    struct bytes key;
    void *value;
    bool again = worker->ephemeral.keep_again;
    worker->ephemeral.keep_again = false;
    while (table_next(worker->keyspaces.by_name, &cursor, &key, &value)) {
        struct keyspace *keyspace = value;
        if (!keyspace->clients || !keyspace->entry || !keyspace->entry->ephemeral)
            continue;
        bool is_due = again || keyspace->kept_ms == 0 ||
                      keyspace->kept_ms + keyspace->entry->ephemeral_after_ms / 3 <= now_ms;
        if (!is_due)
            continue;
        keyspace->kept_ms = now_ms;
        send_keep(worker, keyspace);
    }
}

void ephemeral_slow(struct proxy_worker *worker)
{
    uint64_t now_ms = loop_mono_ms(worker->loop);
    if (worker->thread.is_stopping)
        return;
    drop_due(worker, now_ms);
    keep_used(worker, now_ms);
}

void ephemeral_stop(struct proxy_worker *worker)
{
    while (!list_empty(&worker->ephemeral.leaving))
        leaving_free(container_of(worker->ephemeral.leaving.next, struct leaving, link));
}
