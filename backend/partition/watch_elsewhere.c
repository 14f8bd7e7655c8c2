/*
 * watch_elsewhere.c - WATCH of keys of other shards: they are watched at their owners, and EXEC asks these.
 */
#include "backend/partition/coordinator_inner.h"

#include "backend/context/partition.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/partition/session.h"
#include "backend/peer/peer_set.h"
#include "shared/byte_order.h"

#include <stdio.h>
#include <stdlib.h>

/* A key that the session watches at another shard. */
struct watch_elsewhere {
    struct watch_elsewhere *next;
    uint16_t slot;
    bool is_first; /* the first one at its shard, which CHECK names */
    char shard[SHARD_NAME_MAX + 1];
    struct bytes row_key; /* follows the struct */
};

struct watches_elsewhere {
    char name[8]; /* of the watcher, among those of this partition */
    struct watch_elsewhere *first;
    size_t bytes;
};

static struct watches_elsewhere *watches_of(struct call *call)
{
    struct session *session = call->session;
    if (!session->pending.watches) {
        session->pending.watches = calloc(1, sizeof *session->pending.watches);
        CHECK(session->pending.watches);
        put_le64(session->pending.watches->name,
                 ++call->partition->shards.coordinator->last_number);
    }
    return session->pending.watches;
}

static void add_watch(struct call *call, uint16_t slot, struct bytes row_key)
{
    struct watches_elsewhere *watches = call->session->pending.watches;
    const char *shard = coordinated_shard_of(call->partition, slot);
    bool is_first = true;
    for (const struct watch_elsewhere *watch = watches->first; watch; watch = watch->next) {
        if (bytes_equal(watch->row_key, row_key))
            return;
        is_first = is_first && strcmp(watch->shard, shard) != 0;
    }
    struct watch_elsewhere *watch = calloc(1, sizeof *watch + row_key.len);
    CHECK(watch);
    watch->slot = slot;
    watch->is_first = is_first;
    (void)snprintf(watch->shard, sizeof watch->shard, "%s", shard);
    memcpy(watch + 1, row_key.data, row_key.len);
    watch->row_key = (struct bytes){(char *)(watch + 1), row_key.len};
    watch->next = watches->first;
    watches->first = watch;
}

bool coordinator_watch(struct call *call, struct bytes key)
{
    uint16_t slot = slot_rule_slot(call->slot_rule, key);
    struct bytes row_key = encode_metadata_key(call->arena, call->space->name, slot, key);
    struct watches_elsewhere *watches = watches_of(call);
    if (borrow_watch(call, NEED_WATCH, slot, row_key,
                     (struct bytes){watches->name, sizeof watches->name}) == OK) {
        add_watch(call, slot, row_key);
        return true;
    }
    call_error(call, ERR_UNCACHED);
    return false;
}

/* Has the slot of a key that was watched elsewhere moved here since? */
static bool has_moved_here(const struct call *call, const struct watches_elsewhere *watches)
{
    const struct watch_elsewhere *watch = watches->first;
    while (watch && !slot_set_has(call->slots, watch->slot))
        watch = watch->next;
    return watch;
}

bool coordinator_ask_watches(struct call *call)
{
    const struct watches_elsewhere *watches = call->session->pending.watches;
    bool is_known = true;
    if (!watches || has_moved_here(call, watches))
        return true;
    for (const struct watch_elsewhere *watch = watches->first; watch; watch = watch->next)
        if (watch->is_first &&
            borrow_watch(call, NEED_CHECK, watch->slot, watch->row_key,
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
        call_error(call, ERR_UNCACHED);
    return call->borrow->is_dirty;
}

static void send_unwatch(const struct partition *partition, const struct watches_elsewhere *watches,
                         const char *shard)
{
    struct peer_link *link =
        partition->shards.peers ? peer_set_find(partition->shards.peers, bytes_of(shard)) : NULL;
    if (!link)
        return;
    struct peer_request *request = malloc(sizeof *request);
    CHECK(request);
    *request = (struct peer_request){.on_reply = peer_request_forget};
    if (peer_link_send(link, request, PEER_UNWATCH,
                       (struct bytes){watches->name, sizeof watches->name}) != PEER_SENT)
        free(request);
}

void session_unwatch(struct session *session)
{
    struct watches_elsewhere *watches = session->pending.watches;
    watch_clear(session->partition->watchers.watches, &session->watcher);
    lock_unreserve(session->partition->shards.locks, &session->watcher.reserver);
    if (!watches)
        return;
    session->pending.watches = NULL;
    while (watches->first) {
        struct watch_elsewhere *watch = watches->first;
        watches->first = watch->next;
        if (watch->is_first)
            send_unwatch(session->partition, watches, watch->shard);
        free(watch);
    }
    free(watches);
}
