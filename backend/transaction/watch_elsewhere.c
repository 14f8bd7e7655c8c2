/*
 * watch_elsewhere.c - WATCH of keys of other shards: they are watched at their owners, and EXEC asks these.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "shared/byte_order.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

/* A shard that watches keys for the session. */
struct watching_shard {
    struct watching_shard *next;
    struct space *space; /* of its first key, … */
    uint16_t slot;
    struct bytes row_key; /* … which CHECK names; follows the struct */
    char shard[SHARD_NAME_MAX + 1];
};

struct watches_elsewhere {
    char name[8];       /* of the watcher, among those of this partition */
    struct table *keys; /* watched at other shards, by metadata row */
    struct watching_shard *shards;
};

static struct watches_elsewhere *watches_of(struct call *call)
{
    struct session *session = call->session;
    if (!session->pending.watches) {
        session->pending.watches = calloc(1, sizeof *session->pending.watches);
        CHECK(session->pending.watches);
        session->pending.watches->keys = table_new();
        put_le64(session->pending.watches->name,
                 ++call->partition->shards.coordinator->last_number);
    }
    return session->pending.watches;
}

static void add_watching_shard(struct watches_elsewhere *watches, struct space *space,
                               const char *name, uint16_t slot, struct bytes row_key)
{
    const struct watching_shard *at = watches->shards;
    while (at && strcmp(at->shard, name) != 0)
        at = at->next;
    if (at)
        return;
    struct watching_shard *shard = malloc(sizeof *shard + row_key.len);
    CHECK(shard);
    *shard = (struct watching_shard){.next = watches->shards, .space = space, .slot = slot};
    (void)snprintf(shard->shard, sizeof shard->shard, "%s", name);
    char *text = (char *)(shard + 1);
    shard->row_key = bytes_copy_to(&text, row_key);
    watches->shards = shard;
}

bool coordinator_watch(struct call *call, struct bytes key)
{
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    struct bytes row_key = encode_metadata_key(call->arena, call->space->name, slot, key);
    struct watches_elsewhere *watches = watches_of(call);
    if (borrow_watch(call, NEED_WATCH, call->space, slot, row_key,
                     (struct bytes){watches->name, sizeof watches->name}) != OK)
        return false;
    if (table_put(watches->keys, row_key, watches))
        return true;
    add_watching_shard(watches, call->space, coordinated_shard_of(call->partition, slot), slot,
                       row_key);
    return true;
}

/* Has the slot of a key that was watched elsewhere moved here since? */
static bool has_moved_here(const struct call *call, const struct watches_elsewhere *watches)
{
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    while (table_next(watches->keys, &cursor, &row_key, &value)) {
        struct bytes space;
        struct bytes key;
        uint16_t slot;
        CHECK(decode_metadata_key(row_key, &space, &slot, &key));
        if (slot_set_has(call->slots, slot))
            return true;
    }
    return false;
}

bool coordinator_ask_watches(struct call *call)
{
    const struct watches_elsewhere *watches = call->session->pending.watches;
    bool is_known = true;
    if (!watches || has_moved_here(call, watches))
        return true;
    for (const struct watching_shard *at = watches->shards; at; at = at->next)
        if (borrow_watch(call, NEED_CHECK, at->space, at->slot, at->row_key,
                         (struct bytes){watches->name, sizeof watches->name}) != OK)
            is_known = false;
    return is_known;
}

bool coordinator_watch_dirty(struct call *call)
{
    const struct watches_elsewhere *watches = call->session->pending.watches;
    if (!watches)
        return false;
    if (!call->borrow || has_moved_here(call, watches))
        return true; /* they cannot be checked */
    if (!coordinator_ask_watches(call))
        call_error(call, ERR_RETRY);
    return call->borrow->is_dirty;
}

static void send_unwatch(const struct partition *partition, const struct watches_elsewhere *watches,
                         const char *shard)
{
    struct peer_link *link =
        partition->shards.peers ? peer_set_find(partition->shards.peers, bytes_of(shard)) : NULL;
    if (link)
        peer_link_tell(link, PEER_UNWATCH, (struct bytes){watches->name, sizeof watches->name});
}

void session_unwatch(struct session *session)
{
    struct watches_elsewhere *watches = session->pending.watches;
    watch_clear(session->partition->watchers.watches, &session->watcher);
    lock_unreserve(session->partition->shards.locks, &session->watcher.reserver);
    if (!watches)
        return;
    session->pending.watches = NULL;
    while (watches->shards) {
        struct watching_shard *shard = watches->shards;
        watches->shards = shard->next;
        send_unwatch(session->partition, watches, shard->shard);
        free(shard);
    }
    table_free(watches->keys);
    free(watches);
}
