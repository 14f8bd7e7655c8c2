#include "backend/format/transaction_record.h"

#include "shared/byte_order.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    KEY_HEAD = 2,
    RECORD_FORMAT = 1,
    PREPARED_FORMAT = 2, /* 1: without changes */
    PREPARED_HEAD = 5,
};

static const char RECORDS[] = {TRANSACTION_DECIDED, TRANSACTION_PREPARED, TRANSACTION_APPLYING,
                               TRANSACTION_FORCED, 0};

static char *put_short(char *to, const char *text)
{
    size_t len = strlen(text);
    *to++ = (char)len;
    memcpy(to, text, len);
    return to + len;
}

/* Reads a text after its length from the front of *rest. */
static bool take_short(struct bytes *rest, char *to, size_t max)
{
    size_t len = rest->len ? (uint8_t)rest->data[0] : SIZE_MAX;
    if (len > max || rest->len < 1 + len)
        return false;
    memcpy(to, rest->data + 1, len);
    to[len] = 0;
    *rest = (struct bytes){rest->data + 1 + len, rest->len - 1 - len};
    return true;
}

size_t transaction_id_write(const struct transaction_id *id, char to[TRANSACTION_ID_BYTES_MAX])
{
    char *end = put_short(put_short(to, id->shard), id->run_id);
    put_be64(end, id->number);
    return (size_t)(end + 8 - to);
}

bool transaction_id_read(struct bytes bytes, struct transaction_id *id)
{
    if (!take_short(&bytes, id->shard, SHARD_NAME_MAX) ||
        !take_short(&bytes, id->run_id, RUN_ID_MAX) || bytes.len != 8)
        return false;
    id->number = get_be64(bytes.data);
    return true;
}

void transaction_id_print(const struct transaction_id *id, char to[TRANSACTION_ID_TEXT_MAX])
{
    (void)snprintf(to, TRANSACTION_ID_TEXT_MAX, "%s/%s/%" PRIu64, id->shard, id->run_id,
                   id->number);
}

struct bytes encode_transaction_key(struct arena *arena, enum transaction_record record,
                                    const struct transaction_id *id)
{
    char *key = arena_alloc(arena, KEY_HEAD + TRANSACTION_ID_BYTES_MAX);
    key[0] = '2';
    key[1] = (char)record;
    return (struct bytes){key, KEY_HEAD + transaction_id_write(id, key + KEY_HEAD)};
}

bool decode_transaction_key(struct bytes row, enum transaction_record *record,
                            struct transaction_id *id)
{
    if (row.len < KEY_HEAD || row.data[0] != '2' || !strchr(RECORDS, row.data[1]) || !row.data[1])
        return false;
    *record = (enum transaction_record)row.data[1];
    return transaction_id_read((struct bytes){row.data + KEY_HEAD, row.len - KEY_HEAD}, id);
}

struct bytes transaction_rows_from(void)
{
    return BYTES("2");
}

struct bytes transaction_rows_to(void)
{
    return BYTES("3");
}

struct bytes encode_prepared(struct arena *arena, struct bytes effects, struct bytes changes)
{
    char *value = arena_alloc(arena, PREPARED_HEAD + changes.len + effects.len);
    value[0] = PREPARED_FORMAT;
    put_be32(value + 1, (uint32_t)changes.len);
    char *end = value + PREPARED_HEAD;
    (void)bytes_copy_to(&end, changes);
    (void)bytes_copy_to(&end, effects);
    return (struct bytes){value, (size_t)(end - value)};
}

static bool decode_head(struct bytes value, struct bytes *rest)
{
    if (!value.len || value.data[0] != RECORD_FORMAT)
        return false;
    *rest = (struct bytes){value.data + 1, value.len - 1};
    return true;
}

bool decode_prepared(struct bytes value, struct bytes *effects, struct bytes *changes)
{
    *changes = (struct bytes){"", 0};
    if (decode_head(value, effects))
        return true;
    if (value.len < PREPARED_HEAD || value.data[0] != PREPARED_FORMAT)
        return false;
    size_t len = get_be32(value.data + 1);
    if (len > value.len - PREPARED_HEAD)
        return false;
    *changes = (struct bytes){value.data + PREPARED_HEAD, len};
    *effects = (struct bytes){value.data + PREPARED_HEAD + len, value.len - PREPARED_HEAD - len};
    return true;
}

struct bytes encode_applying(struct arena *arena, uint32_t reported)
{
    char *value = arena_alloc(arena, 1 + sizeof reported);
    value[0] = RECORD_FORMAT;
    put_be32(value + 1, reported);
    return (struct bytes){value, 1 + sizeof reported};
}

bool decode_applying(struct bytes value, uint32_t *reported)
{
    struct bytes rest;
    if (!decode_head(value, &rest) || rest.len != sizeof *reported)
        return false;
    *reported = get_be32(rest.data);
    return true;
}

struct bytes encode_forced(struct arena *arena, bool is_commit, bool differs)
{
    char *value = arena_alloc(arena, 3);
    value[0] = RECORD_FORMAT;
    value[1] = (char)is_commit;
    value[2] = (char)differs;
    return (struct bytes){value, 3};
}

bool decode_forced(struct bytes value, bool *is_commit, bool *differs)
{
    struct bytes rest;
    if (!decode_head(value, &rest) || rest.len != 2)
        return false;
    *is_commit = rest.data[0];
    *differs = rest.data[1];
    return true;
}

struct bytes encode_decision(struct arena *arena, const char *const *shards, size_t count)
{
    char *value = arena_alloc(arena, 1 + count * (1 + SHARD_NAME_MAX));
    char *end = value;
    *end++ = RECORD_FORMAT;
    for (size_t i = 0; i < count; i++)
        end = put_short(end, shards[i]);
    return (struct bytes){value, (size_t)(end - value)};
}

bool decode_decision(struct bytes value, struct bytes *names)
{
    return decode_head(value, names);
}

bool decode_next_name(struct bytes *names, struct bytes *name)
{
    size_t len = names->len ? (uint8_t)names->data[0] : SIZE_MAX;
    if (len > SHARD_NAME_MAX || names->len < 1 + len)
        return false;
    *name = (struct bytes){names->data + 1, len};
    *names = (struct bytes){names->data + 1 + len, names->len - 1 - len};
    return true;
}
