#include "backend/format/members_row.h"

#include "backend/format/effects.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <string.h>

enum {
    ROW_FORMAT = 1,
    GENERATION_AT = 1,
    GROUP_AT = 5,
    EPOCH_AT = 13,
    COUNT_AT = 21,
    FIXED_BYTES = 22,
    MEMBER_BYTES = 10, /* without the address */
};

static char *put_member(char *to, const struct member *member)
{
    CHECK(member->address.len <= MEMBER_ADDRESS_MAX);
    put_be64(to, member->id);
    to[8] = (char)member->kind;
    to[9] = (char)member->address.len;
    to += MEMBER_BYTES;
    (void)bytes_copy_to(&to, member->address);
    return to;
}

struct bytes members_row_write(struct arena *arena, const struct members *members)
{
    char *row = arena_alloc(arena, FIXED_BYTES + MEMBERS_MAX * (MEMBER_BYTES + MEMBER_ADDRESS_MAX));
    CHECK(members->count <= MEMBERS_MAX);
    row[0] = ROW_FORMAT;
    put_be32(row + GENERATION_AT, members->generation);
    put_be64(row + GROUP_AT, members->group);
    put_be64(row + EPOCH_AT, members->epoch);
    row[COUNT_AT] = (char)members->count;
    char *to = row + FIXED_BYTES;
    for (unsigned i = 0; i < members->count; i++)
        to = put_member(to, &members->list[i]);
    return (struct bytes){row, (size_t)(to - row)};
}

static bool read_member(struct bytes *from, struct member *member)
{
    if (from->len < MEMBER_BYTES)
        return false;
    member->id = get_be64(from->data);
    member->kind = (enum member_kind)(uint8_t)from->data[8];
    size_t len = (uint8_t)from->data[9];
    from->data += MEMBER_BYTES;
    from->len -= MEMBER_BYTES;
    if (!len || from->len < len)
        return false;
    member->address = (struct bytes){from->data, len};
    from->data += len;
    from->len -= len;
    return member->id && member->kind >= MEMBER_VOTER && member->kind <= MEMBER_WITNESS;
}

static bool has_id(const struct members *members, unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < count; i++)
        if (members->list[i].id == id)
            return true;
    return false;
}

bool members_row_read(struct bytes row, struct members *members)
{
    if (row.len < FIXED_BYTES || row.data[0] != ROW_FORMAT)
        return false;
    memset(members, 0, sizeof *members);
    members->generation = get_be32(row.data + GENERATION_AT);
    members->group = get_be64(row.data + GROUP_AT);
    members->epoch = get_be64(row.data + EPOCH_AT);
    members->count = (uint8_t)row.data[COUNT_AT];
    if (!members->group || !members->count || members->count > MEMBERS_MAX)
        return false;
    row = (struct bytes){row.data + FIXED_BYTES, row.len - FIXED_BYTES};
    for (unsigned i = 0; i < members->count; i++)
        if (!read_member(&row, &members->list[i]) || has_id(members, i, members->list[i].id))
            return false;
    return row.len == 0;
}

bool members_of_record(struct bytes record, struct members *members)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    if (effects_open(record, &header, &reader) != EFFECTS_READ)
        return false;
    while (effects_next(&reader, &effect) == EFFECTS_READ)
        if (effect.kind == EFFECT_PUT && effect.cf == CF_SYSTEM &&
            bytes_equal(effect.key, BYTES(SYSTEM_MEMBERS)))
            return members_row_read(effect.value, members);
    return false;
}
