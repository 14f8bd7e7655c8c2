#include "backend/replica/replica_message.h"

#include "backend/peer/message.h"
#include "backend/storage/copied_batch.h"
#include "shared/check.h"
#include "shared/out.h"

_Static_assert(COPIED_BATCH_MAX <= MESSAGE_JOINED_MAX, "each record can be sent");

/* ---- fields ------------------------------------------------------------------------------------ */

static void put_group(struct out *out, const struct replica_group *group)
{
    message_put_u32(out, group->generation);
    message_put_u64(out, group->group);
}

static struct replica_group group_of(struct message_reader *reader)
{
    uint32_t generation = message_u32(reader);
    return (struct replica_group){generation, message_u64(reader)};
}

static void put_known_copy(struct out *out, const struct replica_known_copy *copy)
{
    message_put_u64(out, copy->id);
    message_put_u64(out, copy->starts);
    message_put_u64(out, copy->run);
    message_put_u64(out, copy->last);
}

static struct replica_known_copy known_copy_of(struct message_reader *reader)
{
    uint64_t id = message_u64(reader), starts = message_u64(reader), run = message_u64(reader);
    return (struct replica_known_copy){id, starts, run, message_u64(reader)};
}

/* ---- HELLO ------------------------------------------------------------------------------------- */

void replica_hello_write(const struct replica_hello *hello, struct out *out)
{
    const uint64_t numbers[] = {hello->id,   hello->starts, hello->run,      hello->number,
                                hello->term, hello->last,   hello->last_term};
    put_group(out, &hello->group);
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        message_put_u64(out, numbers[i]);
    message_put_u8(out, (uint8_t)hello->state);
    message_put_u8(out, hello->data_format);
    message_put_u8(out, hello->flags);
    message_put_u64(out, hello->map_epoch);
    put_known_copy(out, &hello->known);
    message_put_bytes(out, hello->address);
}

bool replica_hello_read(struct bytes payload, struct replica_hello *hello)
{
    struct message_reader reader = message_read(payload);
    hello->group = group_of(&reader);
    hello->id = message_u64(&reader);
    hello->starts = message_u64(&reader);
    hello->run = message_u64(&reader);
    hello->number = message_u64(&reader);
    hello->term = message_u64(&reader);
    hello->last = message_u64(&reader);
    hello->last_term = message_u64(&reader);
    hello->state = (enum replica_state)message_u8(&reader);
    hello->data_format = message_u8(&reader);
    hello->flags = message_u8(&reader);
    hello->map_epoch = message_u64(&reader);
    hello->known = known_copy_of(&reader);
    hello->address = message_bytes(&reader);
    return message_is_read(&reader) && hello->state >= REPLICA_STATE_NONE &&
           hello->state <= REPLICA_STATE_DATA && hello->last_term <= hello->term &&
           hello->flags <= REPLICA_FLAGS_ALL && hello->address.len &&
           hello->address.len <= REPLICA_ADDRESS_MAX;
}

/* ---- KNOWN ------------------------------------------------------------------------------------- */

void replica_known_write(const struct replica_known_list *list, struct out *out)
{
    put_group(out, &list->group);
    message_put_u8(out, (uint8_t)list->count);
    for (unsigned i = 0; i < list->count; i++)
        put_known_copy(out, &list->copies[i]);
}

bool replica_known_read(struct bytes payload, struct replica_known_list *list)
{
    struct message_reader reader = message_read(payload);
    list->group = group_of(&reader);
    list->count = message_u8(&reader);
    if (list->count > REPLICA_KNOWN_MAX)
        return false;
    for (unsigned i = 0; i < list->count; i++)
        list->copies[i] = known_copy_of(&reader);
    return message_is_read(&reader);
}

/* ---- CORE -------------------------------------------------------------------------------------- */

void replica_core_write(const struct replica_core *core, struct out *out)
{
    char message[CONSENSUS_MESSAGE_BYTES_MAX];
    put_group(out, &core->group);
    message_put_u64(out, core->time_us);
    message_put_u64(out, core->applied);
    out_write(out, message, consensus_message_write(&core->message, message));
    out_write(out, core->records.data, core->records.len);
}

bool replica_record_next(struct bytes *records, struct bytes *record, bool *is_in_parts)
{
    struct message_reader reader = message_read(*records);
    uint32_t len = message_u32(&reader);
    *is_in_parts = reader.is_good && len == REPLICA_IN_PARTS;
    *record = (struct bytes){reader.rest.data, *is_in_parts ? 0 : len};
    if (!reader.is_good || record->len > reader.rest.len)
        return false;
    *records = (struct bytes){reader.rest.data + record->len, reader.rest.len - record->len};
    return true;
}

/* Are the records as many as the message says, and is one in parts alone? */
static bool are_records_whole(const struct replica_core *core)
{
    struct bytes rest = core->records, record;
    bool is_in_parts;
    for (uint32_t i = 0; i < core->message.count; i++)
        if (!replica_record_next(&rest, &record, &is_in_parts) ||
            (is_in_parts && core->message.count > 1))
            return false;
    return rest.len == 0;
}

bool replica_core_read(struct bytes payload, struct replica_core *core)
{
    struct message_reader reader = message_read(payload);
    core->group = group_of(&reader);
    core->time_us = message_u64(&reader);
    core->applied = message_u64(&reader);
    if (!reader.is_good || !consensus_message_read(&reader.rest, &core->message))
        return false;
    core->records = reader.rest;
    return are_records_whole(core);
}

/* ---- PART -------------------------------------------------------------------------------------- */

void replica_part_write(const struct replica_part *part, struct out *out)
{
    CHECK(part->bytes.len && part->bytes.len <= REPLICA_RECORDS_BYTES);
    put_group(out, &part->group);
    message_put_u64(out, part->from);
    message_put_u64(out, part->term);
    message_put_u64(out, part->index);
    message_put_u64(out, part->total);
    message_put_u64(out, part->offset);
    out_write(out, part->bytes.data, part->bytes.len);
}

bool replica_part_read(struct bytes payload, struct replica_part *part)
{
    struct message_reader reader = message_read(payload);
    part->group = group_of(&reader);
    part->from = message_u64(&reader);
    part->term = message_u64(&reader);
    part->index = message_u64(&reader);
    part->total = message_u64(&reader);
    part->offset = message_u64(&reader);
    part->bytes = reader.rest;
    return reader.is_good && part->from && part->term && part->index && part->bytes.len &&
           part->bytes.len <= REPLICA_RECORDS_BYTES && part->total <= MESSAGE_JOINED_MAX &&
           part->offset < part->total && part->bytes.len <= part->total - part->offset;
}
