#include "tests/sim/sim_audit.h"

#include "backend/keyspace/count_rows.h"
#include "shared/arena.h"
#include "shared/check.h"
#include "shared/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The keys of a slot in a storage namespace: counted by the walk, or stored in a counter row. */
struct tally {
    struct tally *next;
    struct bytes space; /* in the arena */
    uint16_t slot;
    uint64_t keys, expires;
    uint64_t counted_keys, counted_expires;
};

struct audit {
    struct overlay *overlay;
    struct arena arena;
    struct tally *tallies;
    char *why;
    size_t size;
    bool holds;
};

static void fail(struct audit *audit, const char *what, struct bytes key, uint64_t is,
                 uint64_t should)
{
    if (audit->holds)
        (void)snprintf(audit->why, audit->size, "%s: %.*s: %" PRIu64 ", not %" PRIu64, what,
                       (int)key.len, key.data, is, should);
    audit->holds = false;
}

static struct tally *tally_of(struct audit *audit, struct bytes space, uint16_t slot)
{
    struct tally *tally = audit->tallies;
    while (tally && !(tally->slot == slot && bytes_equal(tally->space, space)))
        tally = tally->next;
    if (tally)
        return tally;
    tally = calloc(1, sizeof(*tally));
    CHECK(tally);
    tally->space = arena_copy(&audit->arena, space);
    tally->slot = slot;
    tally->next = audit->tallies;
    audit->tallies = tally;
    return tally;
}

typedef void row_fn(struct audit *audit, struct bytes key, struct bytes value);

static void walk(struct audit *audit, enum cf cf, struct bytes prefix, row_fn *row)
{
    struct bytes end =
        prefix.len ? encode_prefix_end(&audit->arena, prefix) : (struct bytes){"", 0};
    struct overlay_iter *iter = overlay_iter_new(audit->overlay, cf, prefix, end);
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter))
        row(audit, overlay_iter_key(iter), overlay_iter_value(iter));
    CHECK(overlay_iter_error(iter) == OK);
    overlay_iter_free(iter);
}

static uint64_t count_rows(struct audit *audit, enum cf cf, struct bytes prefix)
{
    struct overlay_iter *iter =
        overlay_iter_new(audit->overlay, cf, prefix, encode_prefix_end(&audit->arena, prefix));
    uint64_t count = 0;
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter))
        count++;
    overlay_iter_free(iter);
    return count;
}

static void metadata_row(struct audit *audit, struct bytes row, struct bytes value)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    struct metadata meta;
    if (!decode_metadata_key(row, &space, &slot, &key) || !decode_metadata(value, &meta)) {
        fail(audit, "metadata row that cannot be read", row, 0, 0);
        return;
    }
    struct tally *tally = tally_of(audit, space, slot);
    tally->keys++;
    uint64_t due_ms = metadata_due_ms(&meta);
    tally->expires += meta.expire_ms != 0;
    if (due_ms) {
        struct slice index;
        if (overlay_get(audit->overlay, CF_EXPIRE, encode_expire_key(&audit->arena, due_ms, row),
                        &index) == OK)
            slice_release(&index);
        else
            fail(audit, "key with a TTL that is not in the expiry index", key, 0, due_ms);
    }
    if (meta.type == TYPE_HASH) {
        struct bytes prefix =
            encode_collection_prefix(&audit->arena, space, slot, key, meta.version);
        uint64_t rows = count_rows(audit, CF_DATA, prefix);
        uint64_t ttls = count_rows(audit, CF_RANK, prefix);
        uint64_t times = count_rows(audit, CF_ZSET_SCORE, prefix);
        if (rows != meta.size)
            fail(audit, "rows of a hash", key, rows, meta.size);
        if (ttls != meta.field_ttls)
            fail(audit, "TTLs of fields", key, ttls, meta.field_ttls);
        if (times != meta.field_ttls)
            fail(audit, "TTLs of fields by time", key, times, meta.field_ttls);
    }
}

static void expire_row(struct audit *audit, struct bytes row, struct bytes value)
{
    struct bytes metadata_key = {0};
    uint64_t expire_ms = 0;
    struct slice found;
    struct metadata meta = {0};
    (void)value;
    if (decode_expire_key(row, &expire_ms, &metadata_key) &&
        overlay_get(audit->overlay, CF_METADATA, metadata_key, &found) == OK) {
        if (!decode_metadata(slice_bytes(&found), &meta))
            meta = (struct metadata){0};
        slice_release(&found);
    }
    if (metadata_due_ms(&meta) != expire_ms || !expire_ms)
        fail(audit, "expiry index row that its key does not confirm", metadata_key, expire_ms,
             metadata_due_ms(&meta));
}

/* stored_count_fn: the last count of a slot is the valid one. */
static bool stored_count(void *owner, struct bytes space, const struct slot_count *count,
                         uint64_t serial)
{
    struct tally *tally = tally_of(owner, space, count->slot);
    (void)serial;
    tally->counted_keys = count->keys;
    tally->counted_expires = count->expires;
    return true;
}

bool sim_audit_rows(struct overlay *overlay, char *why, size_t size)
{
    struct audit audit = {.overlay = overlay, .why = why, .size = size, .holds = true};
    arena_init(&audit.arena);
    walk(&audit, CF_METADATA, (struct bytes){"", 0}, metadata_row);
    walk(&audit, CF_EXPIRE, (struct bytes){"", 0}, expire_row);
    uint64_t serial;
    if (!count_rows_read(overlay, stored_count, &audit, &serial))
        fail(&audit, "counter rows that cannot be read", BYTES(""), 0, 0);
    while (audit.tallies) {
        struct tally *tally = audit.tallies;
        audit.tallies = tally->next;
        if (tally->keys != tally->counted_keys)
            fail(&audit, "counter of keys", tally->space, tally->counted_keys, tally->keys);
        if (tally->expires != tally->counted_expires)
            fail(&audit, "counter of keys with a TTL", tally->space, tally->counted_expires,
                 tally->expires);
        free(tally);
    }
    arena_fini(&audit.arena);
    return audit.holds;
}
