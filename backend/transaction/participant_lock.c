/*
 * participant_lock.c - checks the items of a LOCK request and takes their locks.
 */
#include "backend/transaction/participant_inner.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "shared/byte_order.h"
#include "shared/table.h"

#define SWAP_RUNS REFUSAL(OTHER, "SWAPDB has not reached all shards: run it again")

struct refusal part_refuse_memory(const struct part *part)
{
    const struct config_snapshot *snapshot = part->participant->partition->snapshot;
    if (part->tally.is_over)
        return REFUSAL(MEMORY, "it needs more memory than command-memory");
    size_t held = part->incoming ? part->incoming->held : 0;
    if (held + *participant_left(part->participant, part->id.shard) >
        memory_plan_calls(&snapshot->memory))
        return REFUSAL(WAIT, "transactions of this shard hold too much memory there");
    return NO_REFUSAL;
}

/* refuse_item for a question about all keys of a database */
static struct refusal refuse_question(struct partition *partition, const struct lock_item *item)
{
    const struct space *space = space_open(partition->spaces, item->namespace_name, item->db);
    struct bytes prefix = encode_space_prefix(&partition->running.arena, space->name);
    if (item->mode < LOCK_READ)
        return REQUEST_IS_NOT_VALID;
    if (!bytes_equal(item->row_key, prefix))
        return SWAP_RUNS;
    return borrow_refuse_all(partition, item->kind, item->row);
}

static struct refusal refuse_item(struct partition *partition, const struct lock_item *item)
{
    struct bytes space, other, key, other_key, prefix;
    uint16_t slot, other_slot;
    uint64_t version;
    struct bytes sub;
    if (item->kind < NEED_KEY || item->kind > NEED_MODE || item->mode > LOCK_WRITE ||
        item->cf >= CF_COUNT || item->db >= DATABASES_MAX ||
        item->namespace_name.len > NAMESPACE_BYTES_MAX)
        return REQUEST_IS_NOT_VALID;
    if (lock_item_is_question(item))
        return refuse_question(partition, item);
    if (!decode_metadata_key(item->row_key, &space, &slot, &key))
        return REQUEST_IS_NOT_VALID;
    if (partition->shards.is_gated && !slot_set_has(partition->shards.here, slot))
        return SLOT_IS_ELSEWHERE;
    if (slot_is_frozen(partition, slot))
        return SLOT_IS_LEAVING;
    if (!bytes_equal(space_open(partition->spaces, item->namespace_name, item->db)->name, space))
        return SWAP_RUNS;
    bool is_watch = item->kind == NEED_WATCH || item->kind == NEED_CHECK;
    if (need_locks(item->kind) || item->kind == NEED_MEMBER || (is_watch && item->row.len == 8))
        return NO_REFUSAL;
    bool is_row =
        item->kind == NEED_RANGE && decode_collection_prefix(item->row, &prefix)
            ? decode_collection_key(item->row, &other, &other_slot, &other_key, &version, &sub)
            : item->kind == NEED_ROW &&
                  decode_collection_key(item->row, &other, &other_slot, &other_key, &version, &sub);
    return is_row && other_slot == slot && bytes_equal(other, space) && bytes_equal(other_key, key)
               ? NO_REFUSAL
               : REQUEST_IS_NOT_VALID;
}

/* Locks the watched keys. */
static struct refusal lock_watched(struct part *part, const struct remote_watcher *remote)
{
    struct partition *partition = part->participant->partition;
    size_t cursor = 0;
    struct bytes row_key;
    void *value;
    while (remote && table_next(remote->keys, &cursor, &row_key, &value)) {
        struct bytes space;
        struct bytes key;
        uint16_t slot;
        CHECK(decode_metadata_key(row_key, &space, &slot, &key));
        if (slot_is_frozen(partition, slot))
            return SLOT_IS_LEAVING;
        (void)lock_take(partition->shards.locks, &part->owner, row_key, LOCK_READ);
    }
    return NO_REFUSAL;
}

/* The request of an EXEC whose session watches keys here names its watcher, which may have reserved them. */
static void find_reserver(struct part *part)
{
    struct message_reader reader = message_read(part->request);
    uint32_t count = message_u32(&reader);
    for (uint32_t i = 0; i < count && reader.is_good; i++) {
        struct lock_item item = lock_item_next(&reader);
        const struct remote_watcher *remote =
            reader.is_good && item.kind == NEED_CHECK && item.row.len == 8
                ? participant_find_watcher(part->participant, part->incoming,
                                           get_le64(item.row.data))
                : NULL;
        if (remote)
            part->owner.reserver = &remote->watcher.reserver;
    }
}

/* Checks the items of the request and takes their locks. */
struct refusal part_lock_items(struct part *part)
{
    struct partition *partition = part->participant->partition;
    struct message_reader reader = message_read(part->request);
    uint32_t count = message_u32(&reader);
    if (!list_empty(&part->participant->watchers))
        find_reserver(part);
    for (uint32_t i = 0; i < count && reader.is_good; i++) {
        struct lock_item item = lock_item_next(&reader);
        struct refusal refused = reader.is_good ? refuse_item(partition, &item) : NO_REFUSAL;
        if (!refused.code)
            refused = part_refuse_memory(part);
        if (refused.code)
            return refused;
        if (reader.is_good && (need_locks(item.kind) || lock_item_is_question(&item)))
            (void)lock_take(partition->shards.locks, &part->owner, item.row_key, item.mode);
        if (reader.is_good && item.kind == NEED_CHECK)
            refused = lock_watched(part, participant_find_watcher(part->participant, part->incoming,
                                                                  get_le64(item.row.data)));
        if (refused.code)
            return refused;
    }
    return message_is_read(&reader) ? part_refuse_memory(part) : REQUEST_IS_NOT_VALID;
}
