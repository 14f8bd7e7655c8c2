#include "backend/slots/key_arrival.h"

#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/session/internal_call.h"
#include "backend/slots/key_message.h"
#include "backend/slots/key_put.h"
#include "backend/slots/key_receipt.h"
#include "backend/slots/slot_table.h"
#include "backend/storage/storage.h"
#include "shared/command/command.h"

#include <stdlib.h>

enum { SILENT_MS = 10 * 60 * 1000 }; /* after that a transfer counts as given up */

struct key_arrivals {
    struct partition *partition;
    struct list list;
    bool keeps_orphans;    /* compaction drops no rows */
    uint64_t ended_ticket; /* of the batch that was open when the last transfer ended */
    uint64_t ended_ms;     /* wall clock: when that batch was durable; 0: it is not */
};

/* A key of which parts have come. */
struct key_arrival {
    struct list link;
    const struct peer_incoming *incoming;
    uint64_t number;
    struct space *space;
    uint64_t flushes; /* of the space when the transfer began */
    uint16_t slot;
    uint64_t epoch;   /* of the slot's ownership then */
    struct bytes key; /* heap */
    uint64_t version; /* of the rows that are written; 0: they are compared with those of the key */
    uint64_t received; /* bytes */
    uint64_t heard_ms; /* monotonic: when the last part came */
    char *pending;     /* heap; of these: those of the row that is not complete */
    size_t pending_len;
};

/* ---- life ---- */

struct key_arrivals *key_arrivals_new(struct partition *partition)
{
    struct key_arrivals *arrivals = calloc(1, sizeof *arrivals);
    CHECK(arrivals);
    arrivals->partition = partition;
    list_init(&arrivals->list);
    return arrivals;
}

static void end_arrival(struct key_arrivals *arrivals, struct key_arrival *arrival)
{
    arrivals->ended_ticket = overlay_ticket(arrivals->partition->overlay);
    arrivals->ended_ms = 0;
    list_remove(&arrival->link);
    free((char *)arrival->key.data);
    free(arrival->pending);
    free(arrival);
}

static struct key_arrival *arrival_at(struct list *link)
{
    return container_of(link, struct key_arrival, link);
}

void key_arrivals_load(struct key_arrivals *arrivals)
{
    while (!list_empty(&arrivals->list))
        end_arrival(arrivals, arrival_at(arrivals->list.next));
}

void key_arrivals_free(struct key_arrivals *arrivals)
{
    if (!arrivals)
        return;
    key_arrivals_load(arrivals);
    free(arrivals);
}

static struct key_arrival *find_arrival(struct key_arrivals *arrivals,
                                        const struct peer_incoming *incoming)
{
    for (struct list *at = arrivals->list.next; at != &arrivals->list; at = at->next)
        if (arrival_at(at)->incoming == incoming)
            return arrival_at(at);
    return NULL;
}

void key_arrivals_closed(struct key_arrivals *arrivals, const struct peer_incoming *incoming)
{
    struct key_arrival *arrival = find_arrival(arrivals, incoming);
    if (arrival)
        end_arrival(arrivals, arrival);
}

/* ---- rows without a metadata row ---- */

static void keep_orphans(struct key_arrivals *arrivals, bool keeps)
{
    if (arrivals->keeps_orphans != keeps)
        store_set_keeps_orphans(storage_store(arrivals->partition->storage), keeps);
    arrivals->keeps_orphans = keeps;
}

static bool is_ticket_durable(const struct overlay *overlay, uint64_t ticket)
{
    uint64_t open = overlay_ticket(overlay);
    bool is_idle = !overlay_dirty(overlay) && !overlay_in_flight(overlay);
    return is_idle || ticket + 1 < open || (ticket < open && !overlay_in_flight(overlay));
}

static void end_silent_arrivals(struct key_arrivals *arrivals)
{
    uint64_t now_ms = loop_mono_ms(arrivals->partition->loop);
    struct list *next;
    for (struct list *at = arrivals->list.next; at != &arrivals->list; at = next) {
        next = at->next;
        if (now_ms > arrival_at(at)->heard_ms + SILENT_MS)
            end_arrival(arrivals, arrival_at(at));
    }
}

/* Compaction may drop orphans again when the metadata rows of all transfers are in the tables, where it looks for them. */
void key_arrivals_tick(struct key_arrivals *arrivals)
{
    const struct partition *partition = arrivals->partition;
    uint64_t since_ms = store_unapplied(storage_store(partition->storage));
    end_silent_arrivals(arrivals);
    if (!arrivals->keeps_orphans || !list_empty(&arrivals->list))
        return;
    if (!arrivals->ended_ms && is_ticket_durable(partition->overlay, arrivals->ended_ticket))
        arrivals->ended_ms = loop_wall_ms(partition->loop);
    if (arrivals->ended_ms && (!since_ms || since_ms > arrivals->ended_ms))
        keep_orphans(arrivals, false);
}

/* ---- the beginning ---- */

static uint64_t epoch_of(const struct partition *partition, uint16_t slot)
{
    return slot_table_get(partition->shards.slots, slot)->epoch;
}

/* Begins a transfer, which replaces an unfinished one of the connection. False: the key is locked. */
static bool begin_arrival(struct key_arrivals *arrivals, const struct peer_incoming *incoming,
                          const struct key_part *part)
{
    struct partition *partition = arrivals->partition;
    struct call call;
    struct entry entry;
    key_arrivals_closed(arrivals, incoming);
    internal_call_begin(partition, &call);
    call.command = command_of(COMMAND_restore);
    struct space *space = space_open(partition->spaces, part->key.space, part->key.database);
    bool is_open = keyspace_open_row(&call, space, part->key.slot, part->key.key, &entry);
    bool compares = is_open && entry.exists && part->mode == PUT_NEW;
    internal_call_end(partition, &call);
    if (!is_open)
        return false;
    struct key_arrival *arrival = calloc(1, sizeof *arrival);
    char *key = malloc(part->key.key.len + 1);
    CHECK(arrival && key);
    memcpy(key, part->key.key.data, part->key.key.len);
    *arrival = (struct key_arrival){
        .incoming = incoming,
        .number = part->number,
        .space = space,
        .flushes = space->flushes,
        .slot = part->key.slot,
        .epoch = epoch_of(partition, part->key.slot),
        .key = {key, part->key.key.len},
        .version = compares ? 0 : partition_version(partition, loop_wall_us(partition->loop)),
    };
    list_push(&arrivals->list, &arrival->link);
    keep_orphans(arrivals, true);
    return true;
}

/* Are all rows that have come here, and at the place of the key? */
static bool is_arrival_sound(const struct partition *partition, const struct key_arrival *arrival,
                             const struct key_part *part)
{
    return arrival->number == part->number && arrival->flushes == arrival->space->flushes &&
           arrival->epoch == epoch_of(partition, arrival->slot) &&
           arrival->space == space_open(partition->spaces, part->key.space, part->key.database);
}

/* Adds the part to the pending bytes, unless it has come before. False: a part before it is missing, or a row is too long. */
static bool add_part(struct key_arrival *arrival, const struct key_part *part)
{
    if (part->offset + part->part.len <= arrival->received)
        return true;
    if (part->offset != arrival->received ||
        part->part.len > MESSAGE_JOINED_MAX - arrival->pending_len)
        return false;
    arrival->pending = message_join(arrival->pending, arrival->pending_len, part->part);
    arrival->pending_len += part->part.len;
    arrival->received += part->part.len;
    return true;
}

/* ---- rows ---- */

static enum put_result put_arrived_row(struct call *call, const struct key_arrival *arrival,
                                       const struct put_row *row)
{
    struct bytes prefix = encode_collection_prefix(call->arena, arrival->space->name, arrival->slot,
                                                   arrival->key, arrival->version);
    overlay_moved_begin(call->partition->overlay); /* seen by orphan_hold.h at copies */
    overlay_put(call->partition->overlay, (enum cf)row->cf,
                encode_sub_key(call->arena, prefix, row->sub), row->value);
    overlay_moved_end(call->partition->overlay);
    return PUT_MORE;
}

/* Has the key this row? */
static enum put_result compare_row(struct call *call, struct entry *entry,
                                   const struct put_row *row)
{
    struct bytes value;
    entry->hides_fields = false;
    bool is_same = entry->exists && !type_is_inline(entry->meta.type) &&
                   sub_get(call, entry, (enum cf)row->cf, row->sub, &value) == OK &&
                   bytes_equal(value, row->value);
    return call->failed ? PUT_LATER : is_same ? PUT_MORE : PUT_EXISTS;
}

/* The metadata row has come, and with it the key. */
static enum put_result finish_key(struct call *call, const struct key_arrival *arrival,
                                  enum put_mode mode, struct entry *entry, struct bytes row)
{
    struct metadata meta;
    if (!decode_metadata(row, &meta)) {
        call->failed = true;
        return PUT_LATER;
    }
    if (!arrival->version) {
        struct metadata own = entry->meta;
        own.version = meta.version;
        bool is_same = entry->exists && bytes_equal(encode_metadata(call->arena, &own), row);
        return is_same ? PUT_DONE : PUT_EXISTS;
    }
    if (entry->exists && mode == PUT_NEW)
        return PUT_EXISTS;
    if (type_is_inline(meta.type)) {
        entry_set_payload(call, entry, meta.type, meta.payload, meta.expire_ms);
    } else {
        entry_create(call, entry, meta.type);
        entry->meta = meta;
        entry->meta.version = arrival->version;
        entry_save(call, entry);
    }
    entry_event(call, entry, NOTIFY_GENERIC, "restore");
    return PUT_DONE;
}

static void keep_result(struct partition *partition, const struct key_arrival *arrival,
                        enum put_result result)
{
    const char kept = (char)result;
    key_receipt_keep(partition, arrival->incoming->peer.shard, arrival->number,
                     (struct bytes){&kept, 1});
}

/* Uses the rows that are complete. MORE: all of them were good; LATER: the key is locked, and the same part may come again. */
static enum put_result use_arrived_rows(struct partition *partition, struct key_arrival *arrival,
                                        enum put_mode mode)
{
    struct call call;
    struct entry entry;
    struct put_row row;
    struct message_reader rows =
        message_read((struct bytes){arrival->pending, arrival->pending_len});
    enum put_result result = PUT_MORE;
    internal_call_begin(partition, &call);
    call.command = command_of(COMMAND_restore);
    bool is_open = keyspace_open_row(&call, arrival->space, arrival->slot, arrival->key, &entry);
    if (!is_open)
        result = PUT_LATER;
    while (result == PUT_MORE && part_row_read(&rows, &row)) {
        if (row.cf == CF_METADATA)
            result = finish_key(&call, arrival, mode, &entry, row.value);
        else if (arrival->version)
            result = put_arrived_row(&call, arrival, &row);
        else
            result = compare_row(&call, &entry, &row);
    }
    bool has_failed = call.failed;
    internal_call_end(partition, &call);
    if (!has_failed && (result == PUT_DONE || result == PUT_EXISTS))
        keep_result(partition, arrival, result);
    if (result == PUT_MORE) {
        memmove(arrival->pending, rows.rest.data, rows.rest.len);
        arrival->pending_len = rows.rest.len;
    }
    return has_failed ? PUT_LATER : result;
}

/* ---- requests ---- */

/* Has the transfer of the part ended before? *result: how. */
static enum key_receipt find_result(struct partition *partition,
                                    const struct peer_incoming *incoming,
                                    const struct key_part *part, enum put_result *result)
{
    struct bytes results;
    enum key_receipt receipt =
        key_receipt_find(partition, incoming->peer.shard, part->number, &results);
    if (receipt == RECEIPT_HAD)
        *result = results.len ? (enum put_result)results.data[0] : PUT_AGAIN;
    free((char *)results.data);
    return receipt;
}

/* No refusal: *result is the reply. */
static struct refusal take_part(struct key_arrivals *arrivals, const struct peer_incoming *incoming,
                                const struct key_part *part, enum put_result *result)
{
    struct partition *partition = arrivals->partition;
    const struct refusal locked = REFUSAL(WAIT, "a transaction uses the key there");
    enum key_receipt receipt = find_result(partition, incoming, part, result);
    if (receipt != RECEIPT_NEW)
        return receipt == RECEIPT_HAD ? NO_REFUSAL
                                      : REFUSAL(WAIT, "the store cannot be read there");
    *result = PUT_LATER;
    if (!key_put_is_ready(partition, part->key.slot)) {
        key_arrivals_closed(arrivals, incoming);
        return NO_REFUSAL;
    }
    if (!part->offset && !begin_arrival(arrivals, incoming, part))
        return locked;
    struct key_arrival *arrival = find_arrival(arrivals, incoming);
    if (!arrival || !is_arrival_sound(partition, arrival, part) || !add_part(arrival, part)) {
        *result = PUT_AGAIN;
    } else {
        arrival->heard_ms = loop_mono_ms(partition->loop);
        *result = use_arrived_rows(partition, arrival, (enum put_mode)part->mode);
        if (*result == PUT_LATER)
            return locked;
    }
    if (arrival && *result != PUT_MORE)
        end_arrival(arrivals, arrival);
    return NO_REFUSAL;
}

/* peer_handle_fn */
void handle_key_part(struct partition *partition, struct peer_incoming *incoming,
                     const struct peer_frame *frame)
{
    struct key_part part;
    enum put_result result;
    struct refusal refused =
        key_part_read(frame->payload, &part) ? key_put_refusal(partition) : REQUEST_IS_NOT_VALID;
    overlay_observe_begin(partition->overlay);
    if (!refused.code)
        refused = take_part(partition->shards.strays.arrivals, incoming, &part, &result);
    if (refused.code) {
        peer_incoming_refuse(incoming, frame->id, refused);
    } else {
        char reply = (char)result;
        key_put_reply(partition, incoming, frame, (struct bytes){&reply, 1});
    }
}
