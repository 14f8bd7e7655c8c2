#include "backend/slots/move_message.h"

#include "backend/peer/message.h"
#include "shared/slot.h"

void move_put_slots(struct out *out, const struct move_slots *slots)
{
    message_put_u64(out, slots->id);
    message_put_u32(out, slots->first);
    message_put_u32(out, slots->last);
}

void move_put_begin(struct out *out, const struct move_begin *begin)
{
    move_put_slots(out, &begin->slots);
    message_put_u64(out, begin->epoch);
    message_put_u64(out, begin->wish);
    message_put_u64(out, begin->version);
    message_put_bytes(out, begin->maps);
    message_put_bytes(out, begin->libraries);
}

void move_put_rows(struct out *out, const struct move_rows *rows)
{
    move_put_slots(out, &rows->slots);
    message_put_u64(out, rows->number);
    message_put_u64(out, rows->total);
    message_put_u64(out, rows->offset);
    message_put_bytes(out, rows->part);
}

void move_put_end(struct out *out, const struct move_end *end)
{
    move_put_slots(out, &end->slots);
    message_put_u64(out, end->number);
    message_put_u64(out, end->keys);
    message_put_u64(out, end->expires);
    message_put_bytes(out, end->maps);
}

void move_put_activate(struct out *out, const struct move_activate *activate)
{
    move_put_slots(out, &activate->slots);
    message_put_u64(out, activate->epoch);
}

static struct move_slots read_slots(struct message_reader *reader)
{
    struct move_slots slots = {.id = message_u64(reader)};
    uint32_t first = message_u32(reader);
    uint32_t last = message_u32(reader);
    if (!slots.id || first > last || last >= SLOT_COUNT || last - first >= MOVE_SLOTS_MAX)
        reader->is_good = false;
    slots.first = (uint16_t)first;
    slots.last = (uint16_t)last;
    return slots;
}

bool move_get_slots(struct bytes payload, struct move_slots *slots)
{
    struct message_reader reader = message_read(payload);
    *slots = read_slots(&reader);
    return message_is_read(&reader);
}

bool move_get_begin(struct bytes payload, struct move_begin *begin)
{
    struct message_reader reader = message_read(payload);
    begin->slots = read_slots(&reader);
    begin->epoch = message_u64(&reader);
    begin->wish = message_u64(&reader);
    begin->version = message_u64(&reader);
    begin->maps = message_bytes(&reader);
    begin->libraries = message_bytes(&reader);
    return message_is_read(&reader) && begin->epoch && begin->epoch < UINT64_MAX;
}

bool move_get_rows(struct bytes payload, struct move_rows *rows)
{
    struct message_reader reader = message_read(payload);
    rows->slots = read_slots(&reader);
    rows->number = message_u64(&reader);
    rows->total = message_u64(&reader);
    rows->offset = message_u64(&reader);
    rows->part = message_bytes(&reader);
    return message_is_read(&reader) && rows->part.len && rows->total <= MESSAGE_JOINED_MAX &&
           rows->offset <= rows->total && rows->part.len <= rows->total - rows->offset;
}

bool move_get_end(struct bytes payload, struct move_end *end)
{
    struct message_reader reader = message_read(payload);
    end->slots = read_slots(&reader);
    end->number = message_u64(&reader);
    end->keys = message_u64(&reader);
    end->expires = message_u64(&reader);
    end->maps = message_bytes(&reader);
    return message_is_read(&reader);
}

bool move_get_activate(struct bytes payload, struct move_activate *activate)
{
    struct message_reader reader = message_read(payload);
    activate->slots = read_slots(&reader);
    activate->epoch = message_u64(&reader);
    return message_is_read(&reader) && activate->epoch;
}
