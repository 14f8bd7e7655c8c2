#include "backend/partition/key_message.h"

#include "backend/context/call.h"
#include "backend/format/encoding.h"
#include "backend/peer/message.h"
#include "shared/namespace.h"
#include "shared/out.h"
#include "shared/slot.h"

void put_row_write(struct out *rows, const struct put_row *row)
{
    message_put_u8(rows, row->cf);
    message_put_bytes(rows, row->sub);
    message_put_bytes(rows, row->value);
}

void put_key_write(struct out *out, const struct put_key *key, struct out *rows)
{
    message_put_bytes(out, key->space);
    message_put_u8(out, key->database);
    message_put_u32(out, key->slot);
    message_put_bytes(out, key->key);
    message_put_bytes(out, key->metadata);
    message_put_u32(out, (uint32_t)rows->bytes);
    out_move(out, rows);
}

bool put_key_read(struct message_reader *reader, struct put_key *key)
{
    *key = (struct put_key){.space = message_bytes(reader)};
    key->database = message_u8(reader);
    uint32_t slot = message_u32(reader);
    key->slot = (uint16_t)slot;
    key->key = message_bytes(reader);
    key->metadata = message_bytes(reader);
    key->rows = message_bytes(reader);
    return reader->is_good && slot < SLOT_COUNT && key->database < DATABASES_MAX &&
           (!key->space.len || namespace_name_valid(key->space));
}

bool put_row_read(struct message_reader *rows, struct put_row *row)
{
    row->cf = message_u8(rows);
    row->sub = message_bytes(rows);
    row->value = message_bytes(rows);
    return rows->is_good && (row->cf == CF_DATA || row->cf == CF_ZSET_SCORE ||
                             row->cf == CF_STREAM || row->cf == CF_RANK);
}
