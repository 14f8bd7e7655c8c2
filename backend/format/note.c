#include "backend/format/note.h"

#include "shared/byte_order.h"

enum {
    NEW_BYTES = 1,
    LIST_BYTES = 17,
    TRANSACTION_BYTES = 5,
};

struct bytes note_write(const struct note *note, char to[NOTE_BYTES_MAX])
{
    to[0] = (char)note->kind;
    switch (note->kind) {
    case NOTE_NEW:
        return (struct bytes){to, NEW_BYTES};
    case NOTE_LIST:
        put_le64(to + 1, note->head);
        put_le64(to + 9, note->tail);
        return (struct bytes){to, LIST_BYTES};
    case NOTE_TRANSACTION:
        put_le32(to + 1, note->shards);
        return (struct bytes){to, TRANSACTION_BYTES};
    }
    return (struct bytes){to, 0};
}

bool note_read(struct bytes value, struct note *note)
{
    *note = (struct note){.kind = value.len ? (enum note_kind)(uint8_t)value.data[0] : 0};
    switch (note->kind) {
    case NOTE_NEW:
        return value.len == NEW_BYTES;
    case NOTE_LIST:
        if (value.len != LIST_BYTES)
            return false;
        note->head = get_le64(value.data + 1);
        note->tail = get_le64(value.data + 9);
        return note->head <= note->tail;
    case NOTE_TRANSACTION:
        if (value.len != TRANSACTION_BYTES)
            return false;
        note->shards = get_le32(value.data + 1);
        return true;
    }
    return false;
}
