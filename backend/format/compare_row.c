#include "backend/format/compare_row.h"

#include "shared/byte_order.h"
#include "shared/slot.h"

enum { ROW_BYTES = 12 };

struct bytes compare_row_write(struct arena *arena, const struct compare_row *row)
{
    char *bytes = arena_alloc(arena, ROW_BYTES);
    put_be16(bytes, row->first);
    put_be16(bytes + 2, row->last);
    put_be64(bytes + 4, row->now_ms);
    return (struct bytes){bytes, ROW_BYTES};
}

bool compare_row_read(struct bytes value, struct compare_row *row)
{
    if (value.len != ROW_BYTES)
        return false;
    *row = (struct compare_row){
        .first = get_be16(value.data),
        .last = get_be16(value.data + 2),
        .now_ms = get_be64(value.data + 4),
    };
    return row->first <= row->last && row->last < SLOT_COUNT;
}
