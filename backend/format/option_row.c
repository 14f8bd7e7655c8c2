#include "backend/format/option_row.h"

#include "shared/byte_order.h"
#include "shared/check.h"

enum { VERSION_BYTES = 8 };

struct bytes option_row_key(struct arena *arena, struct bytes name)
{
    char *row = arena_alloc(arena, 1 + name.len);
    row[0] = 'p';
    memcpy(row + 1, name.data, name.len);
    return (struct bytes){row, 1 + name.len};
}

struct bytes option_row_value(struct arena *arena, uint64_t version, struct bytes value)
{
    char *row = arena_alloc(arena, VERSION_BYTES + value.len);
    put_be64(row, version);
    if (value.len)
        memcpy(row + VERSION_BYTES, value.data, value.len);
    return (struct bytes){row, VERSION_BYTES + value.len};
}

bool is_option_key(struct bytes row)
{
    return row.len > 1 && row.data[0] == 'p';
}

struct bytes option_row_name(struct bytes row)
{
    CHECK(is_option_key(row));
    return (struct bytes){row.data + 1, row.len - 1};
}

bool option_row_read(struct bytes row, uint64_t *version, struct bytes *value)
{
    if (row.len < VERSION_BYTES)
        return false;
    *version = get_be64(row.data);
    *value = (struct bytes){row.data + VERSION_BYTES, row.len - VERSION_BYTES};
    return true;
}

struct bytes option_rows_from(void)
{
    return BYTES("p");
}

struct bytes option_rows_to(void)
{
    return BYTES("q");
}
