#include "backend/slots/key_message.h"

#include "backend/context/call.h"
#include "backend/format/encoding.h"
#include "backend/peer/message.h"
#include "shared/namespace.h"
#include "shared/out.h"
#include "shared/slot.h"

void put_head_write(struct out *out, uint64_t number, enum put_mode mode)
{
    message_put_u64(out, number);
    message_put_u8(out, (uint8_t)mode);
}

bool put_head_read(struct message_reader *reader, uint64_t *number, enum put_mode *mode)
{
    *number = message_u64(reader);
    *mode = (enum put_mode)message_u8(reader);
    return reader->is_good && *mode >= PUT_LOOK && *mode <= PUT_REPLACE &&
           (*number != 0) == (*mode != PUT_LOOK);
}

void put_row_write(struct out *rows, const struct put_row *row)
{
    message_put_u8(rows, row->cf);
    message_put_bytes(rows, row->sub);
    message_put_bytes(rows, row->value);
}

static void write_key_name(struct out *out, const struct put_key *key)
{
    message_put_bytes(out, key->space);
    message_put_u8(out, key->database);
    message_put_u32(out, key->slot);
    message_put_bytes(out, key->key);
}

void put_key_write(struct out *out, const struct put_key *key, struct out *rows)
{
    write_key_name(out, key);
    message_put_bytes(out, key->metadata);
    message_put_u32(out, (uint32_t)rows->bytes);
    out_move(out, rows);
}

/* Reads where a key is. False: it is not valid. */
static bool read_key_name(struct message_reader *reader, struct put_key *key)
{
    *key = (struct put_key){.space = message_bytes(reader)};
    key->database = message_u8(reader);
    uint32_t slot = message_u32(reader);
    key->slot = (uint16_t)slot;
    key->key = message_bytes(reader);
    return reader->is_good && slot < SLOT_COUNT && key->database < DATABASES_MAX &&
           (!key->space.len || namespace_name_valid(key->space));
}

bool put_key_read(struct message_reader *reader, struct put_key *key)
{
    bool is_named = read_key_name(reader, key);
    key->metadata = message_bytes(reader);
    key->rows = message_bytes(reader);
    return is_named && reader->is_good;
}

void key_part_write(struct out *out, const struct key_part *part)
{
    message_put_u64(out, part->number);
    message_put_u8(out, part->mode);
    write_key_name(out, &part->key);
    message_put_u64(out, part->offset);
    message_put_bytes(out, part->part);
}

bool key_part_read(struct bytes payload, struct key_part *part)
{
    struct message_reader reader = message_read(payload);
    part->number = message_u64(&reader);
    part->mode = message_u8(&reader);
    bool is_named = read_key_name(&reader, &part->key);
    part->offset = message_u64(&reader);
    part->part = message_bytes(&reader);
    return is_named && message_is_read(&reader) && part->part.len &&
           (part->mode == PUT_NEW || part->mode == PUT_REPLACE);
}

static void read_row(struct message_reader *rows, struct put_row *row)
{
    row->cf = message_u8(rows);
    row->sub = message_bytes(rows);
    row->value = message_bytes(rows);
}

bool put_row_read(struct message_reader *rows, struct put_row *row)
{
    read_row(rows, row);
    return rows->is_good && (row->cf == CF_DATA || row->cf == CF_ZSET_SCORE ||
                             row->cf == CF_STREAM || row->cf == CF_RANK);
}

bool part_row_read(struct message_reader *rows, struct put_row *row)
{
    struct message_reader start = *rows;
    if (put_row_read(rows, row))
        return true;
    bool is_last = rows->is_good && row->cf == CF_METADATA && !row->sub.len && !rows->rest.len;
    if (!is_last)
        *rows = start;
    return is_last;
}
