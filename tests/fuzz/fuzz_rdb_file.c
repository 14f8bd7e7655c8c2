/*
 * fuzz_rdb_file.c - damaged RDB files: whatever the bytes, each item is found or refused, values in one and in parts are decoded without
 * reading beyond their bytes, and the file ends with a result.
 */
#include "backend/format/rdb_file.h"
#include "backend/format/rdb_stream.h"

#include <stdint.h>

static volatile unsigned sum; /* uses every element, so that the compiler keeps the reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct bytes text)
{
    if (text.len)
        sum += (uint8_t)text.data[0] + (uint8_t)text.data[text.len - 1];
}

static void use_elements(struct rdb_elements *elements)
{
    struct rdb_element element;
    while (rdb_elements_next(elements, &element) == RDB_PACK_ELEMENT) {
        use(element.name);
        use(element.value);
    }
}

static void use_nodes(struct rdb_reader *reader, uint64_t count)
{
    struct rdb_node node;
    struct rdb_entry entry;
    for (; count > 0 && rdb_node_open(&node, reader); count--)
        while (rdb_node_next(&node, &entry) == RDB_PACK_ELEMENT)
            for (uint32_t i = 0; i < entry.count; i++)
                use(entry.strings[i]);
}

static void use_tail(struct rdb_reader *reader, uint8_t type)
{
    struct rdb_tail tail;
    struct rdb_group group;
    struct rdb_pending pending;
    struct rdb_consumer consumer;
    uint64_t count;
    if (!rdb_read_tail(reader, type, &tail) || !rdb_read_length(reader, &count))
        return;
    while (rdb_read_group(reader, type, &group) && rdb_read_length(reader, &count)) {
        for (; count > 0 && rdb_read_pending(reader, &pending); count--)
            sum += (unsigned)pending.deliveries;
        if (!rdb_read_length(reader, &count) || !rdb_read_consumer(reader, type, &consumer))
            return;
        use(consumer.name);
    }
}

static void use_item(const struct rdb_file *file, const struct rdb_item *item)
{
    struct rdb_reader reader = {
        .arena = file->arena, .rest = item->value, .version = file->version};
    const struct rdb_form *form = rdb_form_of(file->type, file->version);
    struct rdb_elements elements;
    use(item->key);
    if (item->kind == RDB_KEY && form && rdb_elements_begin(&elements, &reader, form))
        use_elements(&elements);
    if (item->kind != RDB_KEY_PART)
        return;
    if (file->type == RDB_TYPE_STRING) {
        use(item->value);
    } else if (item->is_tail) {
        use_tail(&reader, file->type);
    } else if (!form) {
        use_nodes(&reader, item->units);
    } else {
        rdb_elements_part(&elements, &reader, &file->parts, item->units);
        use_elements(&elements);
    }
}

static void read_file(struct arena *arena, struct bytes rest, size_t part_max)
{
    struct rdb_file file;
    struct rdb_item item;
    rdb_file_init(&file, arena, part_max);
    file.version = rest.len && rest.data[0] != 'R' && rest.data[0] != 'V' ? 10 : 0;
    while (rdb_file_next(&file, rest, &item) == RDB_ITEM) {
        use_item(&file, &item);
        rest = (struct bytes){rest.data + item.size, rest.len - item.size};
        arena_reset(arena);
        if (item.kind == RDB_END)
            break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = {(const char *)data, size};
    struct arena arena;
    arena_init(&arena);
    read_file(&arena, input, 1 << 20);
    read_file(&arena, input, 16);
    arena_fini(&arena);
    return 0;
}
