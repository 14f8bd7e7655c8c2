/*
 * stream_node.c - size of Redis' stream node when an entry is added.
 *
 * The sizes are those of a listpack: each element is followed by its encoded length.
 */
#include "backend/commands/stream_node.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "shared/number.h"

enum {
    LISTPACK_BYTES = 7, /* header and end */
    SMALL_INT_BYTES = 2,
    INT_TEXT_MAX = 20,
    NODE_BYTES_MAX = 1 << 30,
    ENTRY_INTS = 3, /* flags, and the id as two differences to the master entry's */
};

static uint64_t element_bytes(uint64_t encoding)
{
    return encoding + (encoding <= 127        ? 1
                       : encoding < 16383     ? 2
                       : encoding < 2097151   ? 3
                       : encoding < 268435455 ? 4
                                              : 5);
}

static uint64_t int_bytes(int64_t value)
{
    if (value >= 0 && value <= 127)
        return SMALL_INT_BYTES;
    return element_bytes(value >= -4096 && value <= 4095            ? 2
                         : value >= INT16_MIN && value <= INT16_MAX ? 3
                         : value >= -8388608 && value <= 8388607    ? 4
                         : value >= INT32_MIN && value <= INT32_MAX ? 5
                                                                    : 9);
}

static uint64_t text_bytes(struct bytes text)
{
    int64_t value;
    if (text.len <= INT_TEXT_MAX && number_parse_int64(text, &value))
        return int_bytes(value);
    return element_bytes(text.len + (text.len < 64 ? 1 : text.len < 4096 ? 2 : 5));
}

/* Sizes of an entry's strings: number of fields, bytes as text and as listpack elements, hash of the field names. */
struct measure {
    uint32_t fields;
    uint32_t fields_hash;
    uint64_t raw_bytes;
    uint64_t names_bytes, values_bytes;
};

static uint32_t hash_bytes(uint32_t hash, const void *data, size_t len)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 16777619U;
    return hash;
}

static void measure_row(struct bytes row, struct measure *measure)
{
    struct bytes string;
    *measure = (struct measure){.fields_hash = 2166136261U};
    for (bool is_name = true; row.len && stream_entry_next(&row, &string); is_name = !is_name) {
        uint64_t len = string.len;
        measure->raw_bytes += len;
        if (!is_name) {
            measure->values_bytes += text_bytes(string);
            continue;
        }
        measure->names_bytes += text_bytes(string);
        measure->fields_hash = hash_bytes(measure->fields_hash, &len, sizeof len);
        measure->fields_hash = hash_bytes(measure->fields_hash, string.data, string.len);
        measure->fields++;
    }
}

struct stream_node_limits stream_node_limits(const struct call *call)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    uint64_t bytes = (uint64_t)snapshot->stream_node_bytes;
    return (struct stream_node_limits){
        .entries = (uint64_t)snapshot->stream_node_entries,
        .bytes = bytes == 0 || bytes > NODE_BYTES_MAX ? NODE_BYTES_MAX : bytes,
    };
}

static bool node_has_room(const struct stream_node *node, const struct stream_node_limits *limits,
                          const struct measure *measure)
{
    uint64_t bytes = node->bytes + int_bytes(node->entries) + SMALL_INT_BYTES; /* none deleted */
    return node->entries && bytes + measure->raw_bytes < limits->bytes &&
           (limits->entries == 0 || node->entries < limits->entries);
}

bool stream_node_add(struct stream_node *node, const struct stream_node_limits *limits,
                     struct stream_id id, struct bytes row)
{
    struct measure measure;
    measure_row(row, &measure);
    bool is_new = !node_has_room(node, limits, &measure);
    if (is_new) /* the master entry of a node has the field names of its first entry */
        *node = (struct stream_node){
            .master = id,
            .fields_hash = measure.fields_hash,
            .bytes =
                LISTPACK_BYTES + int_bytes(measure.fields) + measure.names_bytes + SMALL_INT_BYTES,
        };
    bool is_same = node->fields_hash == measure.fields_hash;
    uint32_t elements = ENTRY_INTS + measure.fields + (is_same ? 0 : 1 + measure.fields);
    node->bytes += SMALL_INT_BYTES + int_bytes((int64_t)(id.ms - node->master.ms)) +
                   int_bytes((int64_t)(id.seq - node->master.seq)) + measure.values_bytes +
                   (is_same ? 0 : int_bytes(measure.fields) + measure.names_bytes) +
                   int_bytes(elements);
    node->entries++;
    return is_new;
}
