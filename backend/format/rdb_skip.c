#include "backend/format/rdb_skip.h"

enum { ID_BYTES = 16, TIME_BYTES = 8 };

bool rdb_is_stream(uint8_t type)
{
    return type == RDB_TYPE_STREAM_LISTPACKS || type == RDB_TYPE_STREAM_LISTPACKS_2 ||
           type == RDB_TYPE_STREAM_LISTPACKS_3;
}

static bool skip_lengths(struct rdb_reader *reader, unsigned count)
{
    uint64_t length;
    for (; count > 0; count--)
        if (!rdb_read_length(reader, &length))
            return false;
    return true;
}

static bool skip_raw(struct rdb_reader *reader, size_t len)
{
    struct bytes raw;
    return rdb_read_raw(reader, len, &raw);
}

/* Skips the pending entries of a group: id, time, deliveries. */
static bool skip_pending(struct rdb_reader *reader)
{
    uint64_t count;
    if (!rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!skip_raw(reader, ID_BYTES + TIME_BYTES) || !skip_lengths(reader, 1))
            return false;
    return true;
}

static bool skip_consumer(struct rdb_reader *reader, uint8_t type)
{
    size_t times = type == RDB_TYPE_STREAM_LISTPACKS_3 ? 2 : 1;
    uint64_t count;
    if (!rdb_skip_string(reader) || !skip_raw(reader, times * TIME_BYTES) ||
        !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!skip_raw(reader, ID_BYTES))
            return false;
    return true;
}

static bool skip_group(struct rdb_reader *reader, uint8_t type)
{
    uint64_t count;
    if (!rdb_skip_string(reader) ||
        !skip_lengths(reader, type == RDB_TYPE_STREAM_LISTPACKS ? 2 : 3) || !skip_pending(reader) ||
        !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!skip_consumer(reader, type))
            return false;
    return true;
}

bool rdb_skip_stream_tail(struct rdb_reader *reader, uint8_t type)
{
    uint64_t count;
    if (!skip_lengths(reader, type == RDB_TYPE_STREAM_LISTPACKS ? 3 : 8) ||
        !rdb_read_length(reader, &count))
        return false;
    for (; count > 0; count--)
        if (!skip_group(reader, type))
            return false;
    return true;
}

bool rdb_skip_module(struct rdb_reader *reader)
{
    uint64_t opcode;
    while (rdb_read_length(reader, &opcode)) {
        bool is_good = opcode == RDB_OPCODE_END      ? true
                       : opcode == RDB_OPCODE_INT    ? skip_lengths(reader, 1)
                       : opcode == RDB_OPCODE_UINT   ? skip_lengths(reader, 1)
                       : opcode == RDB_OPCODE_FLOAT  ? skip_raw(reader, 4)
                       : opcode == RDB_OPCODE_DOUBLE ? skip_raw(reader, 8)
                       : opcode == RDB_OPCODE_STRING ? rdb_skip_string(reader)
                                                     : false;
        if (!is_good || opcode == RDB_OPCODE_END)
            return is_good;
    }
    return false;
}
