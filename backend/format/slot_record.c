#include "backend/format/slot_record.h"

#include "shared/byte_order.h"
#include "shared/check.h"

#include <stdio.h>
#include <string.h>

enum {
    PAGE_FORMAT = 2,
    PAGE_FORMAT_OLD = 1, /* without wishes */
    PAGE_KEY_BYTES = 2,
    RUN_HEAD_BYTES = 2,
    WISH_AT = 16,                     /* after epoch and migration */
    RUN_FIELDS_BYTES = 8 + 8 + 8 + 1, /* epoch, migration, wish, length of the peer's name */
    RUN_BYTES_MAX = RUN_HEAD_BYTES + RUN_FIELDS_BYTES + SHARD_NAME_MAX,
};

bool slot_record_equal(const struct slot_record *a, const struct slot_record *b)
{
    return a->state == b->state && a->epoch == b->epoch && a->migration == b->migration &&
           a->wish == b->wish && strcmp(a->peer, b->peer) == 0;
}

const char *slot_state_name(enum slot_state state)
{
    static const char *const names[SLOT_STATES] = {
        [SLOT_NONE] = "none",           [SLOT_OWNED] = "owned",   [SLOT_RELEASED] = "released",
        [SLOT_EXPORTING] = "exporting", [SLOT_FROZEN] = "frozen", [SLOT_IMPORTING] = "importing",
        [SLOT_STAGED] = "staged"};
    CHECK(state < SLOT_STATES);
    return names[state];
}

/* ---- keys ---- */

struct bytes encode_slot_page_key(struct arena *arena, unsigned page)
{
    char *key = arena_alloc(arena, PAGE_KEY_BYTES);
    CHECK(page < SLOT_PAGES);
    key[0] = 's';
    key[1] = (char)page;
    return (struct bytes){key, PAGE_KEY_BYTES};
}

bool decode_slot_page_key(struct bytes row, unsigned *page)
{
    if (row.len != PAGE_KEY_BYTES || row.data[0] != 's' || (uint8_t)row.data[1] >= SLOT_PAGES)
        return false;
    *page = (uint8_t)row.data[1];
    return true;
}

struct bytes slot_pages_from(void)
{
    return BYTES("s");
}

struct bytes slot_pages_to(void)
{
    return BYTES("t");
}

struct bytes shard_name_key(void)
{
    return BYTES("n");
}

struct bytes slot_owners_key(void)
{
    return BYTES("o");
}

struct bytes moves_paused_key(void)
{
    return BYTES("m");
}

struct bytes stray_page_key(void)
{
    return BYTES("K");
}

struct bytes encode_key_receipt_key(struct arena *arena, struct bytes shard)
{
    char *key = arena_alloc(arena, 1 + shard.len);
    key[0] = 'k';
    memcpy(key + 1, shard.data, shard.len);
    return (struct bytes){key, 1 + shard.len};
}

/* ---- values ---- */

/* Number of slots from `first` on whose records equal that of `first`. */
static unsigned run_length(const struct slot_record records[SLOT_PAGE_SLOTS], unsigned first)
{
    unsigned end = first + 1;
    while (end < SLOT_PAGE_SLOTS && slot_record_equal(&records[first], &records[end]))
        end++;
    return end - first;
}

static char *put_run(char *to, unsigned slots, const struct slot_record *record)
{
    size_t len = strlen(record->peer);
    CHECK(record->state < SLOT_STATES);
    *to++ = (char)(slots - 1);
    *to++ = (char)record->state;
    if (record->state == SLOT_NONE)
        return to;
    put_be64(to, record->epoch);
    put_be64(to + 8, record->migration);
    put_be64(to + WISH_AT, record->wish);
    to[RUN_FIELDS_BYTES - 1] = (char)len;
    memcpy(to + RUN_FIELDS_BYTES, record->peer, len);
    return to + RUN_FIELDS_BYTES + len;
}

struct bytes encode_slot_page(struct arena *arena,
                              const struct slot_record records[SLOT_PAGE_SLOTS])
{
    unsigned runs = 0;
    for (unsigned slot = 0; slot < SLOT_PAGE_SLOTS; slot += run_length(records, slot))
        runs++;
    if (runs == 1 && records[0].state == SLOT_NONE)
        return BYTES("");
    char *value = arena_alloc(arena, 1 + (size_t)runs * RUN_BYTES_MAX);
    char *end = value;
    *end++ = PAGE_FORMAT;
    for (unsigned slot = 0; slot < SLOT_PAGE_SLOTS; slot += run_length(records, slot))
        end = put_run(end, run_length(records, slot), &records[slot]);
    return (struct bytes){value, (size_t)(end - value)};
}

/* Reads the record of a run after its state from the front of *rest. */
static bool take_fields(struct bytes *rest, bool has_wish, struct slot_record *record)
{
    size_t fields = has_wish ? RUN_FIELDS_BYTES : RUN_FIELDS_BYTES - 8;
    if (rest->len < fields)
        return false;
    size_t len = (uint8_t)rest->data[fields - 1];
    if (len > SHARD_NAME_MAX || rest->len < fields + len)
        return false;
    record->epoch = get_be64(rest->data);
    record->migration = get_be64(rest->data + 8);
    record->wish = has_wish ? get_be64(rest->data + WISH_AT) : 0;
    memcpy(record->peer, rest->data + fields, len);
    if (record->epoch == 0 || memchr(record->peer, 0, len))
        return false;
    *rest = (struct bytes){rest->data + fields + len, rest->len - fields - len};
    return true;
}

/* Reads a run from the front of *rest. */
static bool take_run(struct bytes *rest, bool has_wish, unsigned *slots, struct slot_record *record)
{
    if (rest->len < RUN_HEAD_BYTES)
        return false;
    *slots = (unsigned)(uint8_t)rest->data[0] + 1;
    *record = (struct slot_record){.state = (uint8_t)rest->data[1]};
    *rest = (struct bytes){rest->data + RUN_HEAD_BYTES, rest->len - RUN_HEAD_BYTES};
    return record->state == SLOT_NONE ||
           (record->state < SLOT_STATES && take_fields(rest, has_wish, record));
}

bool decode_slot_page(struct bytes value, struct slot_record records[SLOT_PAGE_SLOTS])
{
    unsigned slot = 0;
    if (!value.len || (value.data[0] != PAGE_FORMAT && value.data[0] != PAGE_FORMAT_OLD))
        return false;
    bool has_wish = value.data[0] == PAGE_FORMAT;
    struct bytes rest = {value.data + 1, value.len - 1};
    while (slot < SLOT_PAGE_SLOTS) {
        struct slot_record record;
        unsigned slots;
        if (!take_run(&rest, has_wish, &slots, &record) || slots > SLOT_PAGE_SLOTS - slot)
            return false;
        while (slots--)
            records[slot++] = record;
    }
    return rest.len == 0;
}

/* ---- from which shards slots have come ---- */

enum {
    ORIGINS_FORMAT = 2,
    ORIGINS_FORMAT_WITHOUT_LOGS = 1,
    ORIGINS_HEAD_BYTES = 1 + 3 * 8,
    ORIGIN_BYTES = 8 + 8 + 1,
    ORIGIN_BYTES_WITHOUT_LOG = 8 + 1,
};

static struct slot_origin *find_origin(struct slot_origins *origins, const char *shard,
                                       uint64_t log_id)
{
    for (uint32_t i = 0; i < origins->count; i++)
        if (origins->items[i].log_id == log_id && strcmp(origins->items[i].shard, shard) == 0)
            return &origins->items[i];
    return NULL;
}

/* There is no room for another shard: the one from which slots came longest ago is left out. From then on the row is complete for later times only. */
static void leave_out_earliest(struct slot_origins *origins)
{
    struct slot_origin *earliest = &origins->items[0];
    for (uint32_t i = 1; i < origins->count; i++)
        if (origins->items[i].until_us < earliest->until_us)
            earliest = &origins->items[i];
    if (earliest->until_us > origins->since_us)
        origins->since_us = earliest->until_us;
    *earliest = origins->items[--origins->count];
}

void slot_origins_note(struct slot_origins *origins, const char *shard, uint64_t log_id,
                       uint64_t until_us)
{
    struct slot_origin *origin = find_origin(origins, shard, log_id);
    if (origin) {
        if (until_us > origin->until_us)
            origin->until_us = until_us;
        return;
    }
    if (origins->count == SLOT_ORIGINS_MAX)
        leave_out_earliest(origins);
    origin = &origins->items[origins->count++];
    origin->until_us = until_us;
    origin->log_id = log_id;
    (void)snprintf(origin->shard, sizeof origin->shard, "%s", shard);
}

struct bytes slot_origins_key(void)
{
    return BYTES("a");
}

struct bytes encode_slot_origins(struct arena *arena, const struct slot_origins *origins)
{
    char *value = arena_alloc(arena, ORIGINS_HEAD_BYTES +
                                         (size_t)origins->count * (ORIGIN_BYTES + SHARD_NAME_MAX));
    char *end = value + ORIGINS_HEAD_BYTES;
    value[0] = ORIGINS_FORMAT;
    put_be64(value + 1, origins->log_id);
    put_be64(value + 9, origins->since_us);
    put_be64(value + 17, origins->owned);
    for (uint32_t i = 0; i < origins->count; i++) {
        const struct slot_origin *origin = &origins->items[i];
        struct bytes name = bytes_of(origin->shard);
        put_be64(end, origin->until_us);
        put_be64(end + 8, origin->log_id);
        end[16] = (char)name.len;
        end += ORIGIN_BYTES;
        (void)bytes_copy_to(&end, name);
    }
    return (struct bytes){value, (size_t)(end - value)};
}

/* Reads a shard from the beginning of the bytes. False: they are damaged. */
static bool take_origin(struct bytes *rest, bool has_log, struct slot_origins *origins)
{
    size_t head = has_log ? ORIGIN_BYTES : ORIGIN_BYTES_WITHOUT_LOG;
    if (rest->len < head || origins->count == SLOT_ORIGINS_MAX)
        return false;
    struct slot_origin *origin = &origins->items[origins->count++];
    size_t len = (uint8_t)rest->data[head - 1];
    if (len > SHARD_NAME_MAX || rest->len < head + len)
        return false;
    origin->until_us = get_be64(rest->data);
    origin->log_id = has_log ? get_be64(rest->data + 8) : 0;
    memcpy(origin->shard, rest->data + head, len);
    origin->shard[len] = 0;
    *rest = (struct bytes){rest->data + head + len, rest->len - head - len};
    return true;
}

bool decode_slot_origins(struct bytes value, struct slot_origins *origins)
{
    *origins = (struct slot_origins){0};
    bool has_logs = value.len && value.data[0] == ORIGINS_FORMAT;
    if (value.len < ORIGINS_HEAD_BYTES ||
        (!has_logs && value.data[0] != ORIGINS_FORMAT_WITHOUT_LOGS))
        return false;
    origins->log_id = get_be64(value.data + 1);
    origins->since_us = get_be64(value.data + 9);
    origins->owned = get_be64(value.data + 17);
    struct bytes rest = {value.data + ORIGINS_HEAD_BYTES, value.len - ORIGINS_HEAD_BYTES};
    while (rest.len)
        if (!take_origin(&rest, has_logs, origins))
            return false;
    return true;
}
