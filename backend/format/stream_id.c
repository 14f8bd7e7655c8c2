#include "backend/format/stream_id.h"

#include "shared/byte_order.h"

#include <inttypes.h>
#include <stdio.h>

size_t stream_id_format(char *to, struct stream_id id)
{
    return (size_t)snprintf(to, STREAM_ID_TEXT_MAX, "%" PRIu64 "-%" PRIu64, id.ms, id.seq);
}

struct bytes stream_id_encode(char to[STREAM_ID_BYTES], struct stream_id id)
{
    put_be64(to, id.ms);
    put_be64(to + 8, id.seq);
    return (struct bytes){to, STREAM_ID_BYTES};
}

bool stream_id_decode(struct bytes row, struct stream_id *id)
{
    if (row.len != STREAM_ID_BYTES)
        return false;
    *id = (struct stream_id){get_be64(row.data), get_be64(row.data + 8)};
    return true;
}
