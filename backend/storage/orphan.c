#include "backend/storage/orphan.h"

#include "backend/format/encoding.h"
#include "shared/clock.h"
#include "shared/error.h"

#include <stdatomic.h>

enum { ORPHAN_GRACE_MS = 5 * 60 * 1000 }; /* an expired collection's rows stay this much longer */

static atomic_bool clock_is_trusted;

void orphan_trust_clock(void)
{
    atomic_store_explicit(&clock_is_trusted, true, memory_order_relaxed);
}

/* RocksDB's tables have all changes to metadata rows up to the returned wall clock time. A key that had expired by then
 * cannot have received another TTL since. */
static uint64_t tables_ms(const struct store *store)
{
    if (!atomic_load_explicit(&clock_is_trusted, memory_order_relaxed))
        return 0;
    uint64_t now_ms = clock_wall_us() / 1000;
    uint64_t since_ms = store_unapplied(store);
    return since_ms && since_ms < now_ms ? since_ms : now_ms;
}

bool orphan_check(void *owner, struct store *store, enum cf cf, struct bytes key)
{
    (void)owner;
    (void)cf;
    struct bytes space;
    struct bytes user_key;
    struct bytes sub;
    uint16_t slot;
    uint64_t version;
    if (!decode_collection_key(key, &space, &slot, &user_key, &version, &sub))
        return false;
    struct arena arena;
    arena_init(&arena);
    uint64_t known_ms = tables_ms(store); /* read before the row, which may change in between */
    struct slice value;
    bool orphan = false;
    int err =
        store_get(store, CF_METADATA, encode_metadata_key(&arena, space, slot, user_key), &value);
    if (err == ERR_NOT_FOUND) {
        orphan = true;
    } else if (err == OK) {
        struct metadata meta;
        if (decode_metadata(slice_bytes(&value), &meta))
            orphan = type_is_inline(meta.type) || meta.version != version ||
                     (meta.expire_ms && meta.expire_ms + ORPHAN_GRACE_MS < known_ms);
        slice_release(&value);
    }
    arena_fini(&arena);
    return orphan;
}
