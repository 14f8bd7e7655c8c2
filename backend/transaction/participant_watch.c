/*
 * participant_watch.c - keys of this partition that sessions of other partitions watch.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/storage/overlay.h"
#include "shared/table.h"

#include <stdlib.h>

struct remote_watcher *participant_find_watcher(const struct participant *participant,
                                                const struct peer_incoming *incoming, uint64_t name)
{
    const struct list *all = &participant->watchers;
    for (struct list *at = all->next; at != all; at = at->next) {
        struct remote_watcher *remote = container_of(at, struct remote_watcher, link);
        if (remote->incoming == incoming && remote->name == name)
            return remote;
    }
    return NULL;
}

void participant_free_watcher(struct participant *participant, struct remote_watcher *remote)
{
    watch_clear(participant->partition->watchers.watches, &remote->watcher);
    lock_unreserve(participant->partition->shards.locks, &remote->watcher.reserver);
    table_free(remote->keys);
    list_remove(&remote->link);
    free(remote);
}

struct remote_watcher *participant_watcher(struct participant *participant,
                                           struct peer_incoming *incoming, uint64_t name)
{
    struct remote_watcher *remote = participant_find_watcher(participant, incoming, name);
    if (remote)
        return remote;
    remote = calloc(1, sizeof *remote);
    CHECK(remote);
    remote->incoming = incoming;
    remote->name = name;
    remote->keys = table_new();
    watcher_init(&remote->watcher);
    list_push(&participant->watchers, &remote->link);
    return remote;
}

bool remote_watcher_has(const struct remote_watcher *remote, struct bytes row_key)
{
    return table_get(remote->keys, row_key);
}

/* Watches a key; nothing happens if the watcher has it. */
void participant_watch(struct participant *participant, struct remote_watcher *remote,
                       struct bytes row_key)
{
    struct partition *partition = participant->partition;
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    if (table_put(remote->keys, row_key, remote))
        return;
    CHECK(decode_metadata_key(row_key, &space, &slot, &key));
    watch_add(partition->watchers.watches, &remote->watcher, space_find(partition->spaces, space),
              slot, key);
}

void participant_drop_watchers(struct participant *participant,
                               const struct peer_incoming *incoming)
{
    struct list *next;
    for (struct list *at = participant->watchers.next; at != &participant->watchers; at = next) {
        struct remote_watcher *remote = container_of(at, struct remote_watcher, link);
        next = at->next;
        if (remote->incoming == incoming)
            participant_free_watcher(participant, remote);
    }
}

/* Has the key, or perhaps a field, expired without being deleted so far? An unreadable row counts as expired. */
static bool has_expired(struct partition *partition, struct bytes row_key)
{
    struct slice slice;
    struct metadata meta;
    int err = overlay_get(partition->overlay, CF_METADATA, row_key, &slice);
    if (err != OK)
        return is_read_failure(err);
    bool is_over =
        !decode_metadata(slice_bytes(&slice), &meta) ||
        (metadata_due_ms(&meta) && metadata_due_ms(&meta) < loop_wall_ms(partition->loop));
    slice_release(&slice);
    return is_over;
}

/* Has a key of the watcher changed since it is watched? An unknown watcher has lost its watches with a connection. */
bool remote_watcher_is_dirty(struct partition *partition, const struct remote_watcher *remote)
{
    bool is_dirty = !remote || remote->watcher.dirty;
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    if (remote)
        overlay_observe(partition->overlay, remote->watcher.ticket);
    while (!is_dirty && table_next(remote->keys, &cursor, &row_key, &value))
        is_dirty = has_expired(partition, row_key);
    return is_dirty;
}
