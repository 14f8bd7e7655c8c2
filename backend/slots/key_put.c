#include "backend/slots/key_put.h"

#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/peer/message.h"
#include "backend/peer/messages.h"
#include "backend/session/internal_call.h"
#include "backend/session/ticket_wait.h"
#include "backend/slots/key_message.h"
#include "backend/slots/key_receipt.h"
#include "shared/command/command.h"

#include <stdlib.h>

/* A request whose keys are not durable yet. */
struct key_put {
    struct peer_call call;
    struct ticket_wait wait;
    uint32_t count;
    char results[]; /* enum put_result of each key */
};

bool key_put_is_ready(const struct partition *partition, uint16_t slot)
{
    const struct moving_slots *moving = partition->shards.moving;
    return partition->shards.is_gated && slot_is_served(partition, slot) &&
           !(moving &&
             (slot_set_has(&moving->frozen, slot) || slot_set_has(&moving->arriving, slot)));
}

/* Has the open key this value? Its rows are compared, so that a key that was sent twice is recognised. */
static bool is_same_key(struct call *call, struct entry *entry, const struct put_key *put,
                        const struct metadata *meta)
{
    struct metadata own = entry->meta;
    struct message_reader rows = message_read(put->rows);
    struct put_row row;
    struct bytes value;
    own.version = meta->version;
    entry->hides_fields = false;
    bool is_same =
        bytes_equal(encode_metadata(call->arena, &own), encode_metadata(call->arena, meta));
    while (is_same && rows.rest.len)
        is_same = put_row_read(&rows, &row) &&
                  sub_get(call, entry, (enum cf)row.cf, row.sub, &value) == OK &&
                  bytes_equal(value, row.value);
    return is_same;
}

static void write_put_key(struct call *call, struct entry *entry, const struct put_key *put,
                          const struct metadata *meta)
{
    struct message_reader rows = message_read(put->rows);
    struct put_row row;
    if (type_is_inline(meta->type)) {
        entry_set_payload(call, entry, meta->type, meta->payload, meta->expire_ms);
    } else {
        entry_create(call, entry, meta->type);
        uint64_t version = entry->meta.version;
        entry->meta = *meta;
        entry->meta.version = version;
        while (rows.rest.len && put_row_read(&rows, &row))
            sub_put(call, entry, (enum cf)row.cf, row.sub, row.value);
        call->failed = !message_is_read(&rows);
        entry_save(call, entry);
    }
    entry_event(call, entry, NOTIFY_GENERIC, "restore");
}

static enum put_result put_key(struct call *call, enum put_mode mode, const struct put_key *put)
{
    struct entry entry;
    struct metadata meta;
    struct space *space = space_open(call->partition->spaces, put->space, put->database);
    if (!keyspace_open_row(call, space, put->slot, put->key, &entry))
        return PUT_LATER;
    if (mode == PUT_LOOK)
        return entry.exists ? PUT_EXISTS : PUT_ABSENT;
    if (!decode_metadata(put->metadata, &meta)) {
        call->failed = true;
        return PUT_LATER;
    }
    if (entry.exists && is_same_key(call, &entry, put, &meta))
        return PUT_DONE;
    if (entry.exists && mode == PUT_NEW)
        return PUT_EXISTS;
    write_put_key(call, &entry, put, &meta);
    return PUT_DONE;
}

/* Puts one key, or changes nothing. */
static enum put_result put_one(struct partition *partition, enum put_mode mode,
                               const struct put_key *put)
{
    struct call call;
    if (!key_put_is_ready(partition, put->slot))
        return PUT_LATER;
    internal_call_begin(partition, &call);
    call.command = command_of(mode == PUT_LOOK ? COMMAND_exists : COMMAND_restore);
    enum put_result result = put_key(&call, mode, put);
    bool has_failed = call.failed;
    internal_call_end(partition, &call);
    return has_failed ? PUT_LATER : result;
}

/* ---- the reply ---- */

/* ticket_wait.on_end */
static void put_is_durable(struct ticket_wait *wait, int err)
{
    struct key_put *put = container_of(wait, struct key_put, wait);
    if (err)
        peer_call_refuse(&put->call, REFUSAL(WAIT, "a batch could not be written there"));
    else
        peer_call_done(&put->call, (struct bytes){put->results, put->count});
    free(put);
}

/* peer_call.on_abandoned */
static void put_is_abandoned(struct peer_call *call)
{
    struct key_put *put = container_of(call, struct key_put, call);
    ticket_wait_cancel(&put->wait);
    free(put);
}

/* ---- the request ---- */

struct put_request {
    uint64_t number;
    enum put_mode mode;
    struct message_reader keys;
    uint32_t count;
};

/* False: the payload is not valid. */
static bool read_put_request(struct bytes payload, struct put_request *request)
{
    struct message_reader reader = message_read(payload);
    struct put_key put;
    if (!put_head_read(&reader, &request->number, &request->mode))
        return false;
    request->keys = reader;
    for (request->count = 0; reader.rest.len; request->count++)
        if (!put_key_read(&reader, &put))
            return false;
    return true;
}

struct refusal key_put_refusal(const struct partition *partition)
{
    if (commit_is_failed(partition->commit, NULL))
        return REFUSAL(WAIT, "writes are refused there at present");
    if (partition->pause.is_held || partition->pause.until_ms)
        return REFUSAL(WAIT, "writes are paused there");
    return partition_is_full(partition) ? REFUSAL(WAIT, "its batch is full") : NO_REFUSAL;
}

void key_put_reply(struct partition *partition, struct peer_incoming *incoming,
                   const struct peer_frame *frame, struct bytes results)
{
    struct key_put *put = malloc(sizeof *put + results.len);
    CHECK(put);
    put->count = (uint32_t)results.len;
    memcpy(put->results, results.data, results.len);
    put->call.on_abandoned = put_is_abandoned;
    peer_call_open(&put->call, incoming, frame->id, frame->payload.len);
    ticket_wait_init(&put->wait, put_is_durable);
    ticket_wait_begin(partition, &put->wait);
}

/* Puts the keys of a request that is new. Returns their results, on the heap. */
static struct bytes put_keys(struct partition *partition, const char *shard,
                             struct put_request *request)
{
    char *results = malloc(request->count + 1);
    CHECK(results);
    for (uint32_t i = 0; i < request->count; i++) {
        struct put_key key;
        (void)put_key_read(&request->keys, &key);
        results[i] = (char)put_one(partition, request->mode, &key);
    }
    const struct bytes all = {results, request->count};
    if (request->number)
        key_receipt_keep(partition, shard, request->number, all);
    return all;
}

/* The results of a request that came before a later one: none of its keys is put now. */
static struct bytes put_none(uint32_t count)
{
    char *results = malloc(count + 1);
    CHECK(results);
    memset(results, PUT_LATER, count);
    return (struct bytes){results, count};
}

/* peer_handle_fn */
void handle_keys_put(struct partition *partition, struct peer_incoming *incoming,
                     const struct peer_frame *frame)
{
    struct put_request request;
    struct bytes results = {NULL, 0};
    enum key_receipt receipt = RECEIPT_NEW;
    const char *shard = incoming->peer.shard;
    struct refusal refused = read_put_request(frame->payload, &request) ? key_put_refusal(partition)
                                                                        : REQUEST_IS_NOT_VALID;
    overlay_observe_begin(partition->overlay);
    if (!refused.code && request.number)
        receipt = key_receipt_find(partition, shard, request.number, &results);
    if (receipt == RECEIPT_FAILED)
        refused = REFUSAL(WAIT, "the store cannot be read there");
    if (refused.code) {
        peer_incoming_refuse(incoming, frame->id, refused);
        return;
    }
    if (receipt == RECEIPT_NEW)
        results = put_keys(partition, shard, &request);
    else if (!results.data)
        results = put_none(request.count);
    key_put_reply(partition, incoming, frame, results);
    free((char *)results.data);
}
