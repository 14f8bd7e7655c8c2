/*
 * fuzz_kvrocks.c - damaged rows of Kvrocks: whatever the bytes, each row is decoded or refused without reading beyond its bytes.
 * The same for JSON in CBOR.
 */
#include "backend/format/cbor.h"
#include "backend/format/kvrocks.h"

#include <stdlib.h>

static volatile unsigned sum; /* uses every result, so that the compiler keeps the reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct bytes text)
{
    if (text.len)
        sum += (uint8_t)text.data[0] + (uint8_t)text.data[text.len - 1];
}

static void read_metadata(struct arena *arena, struct bytes input)
{
    struct kvrocks_value value;
    struct kvrocks_key key;
    if (kvrocks_value_read(input, &value))
        use(value.payload);
    for (int has_slots = 0; has_slots < 2; has_slots++) {
        if (!kvrocks_key_read(input, has_slots, &key))
            continue;
        use(key.space);
        use(key.key);
        use(kvrocks_rows_prefix(arena, &key, 1));
    }
    sum += kvrocks_key_fits_slot(input);
}

static void read_groups(struct bytes sub, struct bytes row)
{
    struct kvrocks_group group;
    struct kvrocks_consumer consumer;
    struct kvrocks_pending pending;
    if (kvrocks_group_read(sub, row, &group))
        use(group.name);
    if (kvrocks_consumer_read(sub, row, &consumer))
        use(consumer.name);
    if (kvrocks_pending_read(sub, row, &pending))
        use(pending.consumer);
}

static void read_cbor(struct arena *arena, struct bytes input)
{
    struct bytes json;
    if (cbor_to_json(arena, input, &json))
        use(json);
}

/* The first byte says where the sub key ends. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = {(const char *)data, size};
    struct arena arena;
    uint64_t offset;
    double score;
    arena_init(&arena);
    read_metadata(&arena, input);
    read_cbor(&arena, input);
    sum += kvrocks_entry_is_good(input) + kvrocks_part_read(input, &offset) +
           kvrocks_score_read(input, &score);
    if (size > 1 && data[0] < size) {
        struct bytes sub = {input.data + 1, data[0]};
        read_groups(sub, (struct bytes){sub.data + sub.len, size - 1 - sub.len});
    }
    arena_fini(&arena);
    return 0;
}
