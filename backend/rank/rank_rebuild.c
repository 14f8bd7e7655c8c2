#include "backend/rank/rank_rebuild.h"

#include "backend/context/partition.h"
#include "backend/keyspace/lock.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/storage/partition_store.h"
#include "shared/check.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    DRAFTS_MAX = 8,   /* a further collection waits; commands iterate over its rows */
    LEAF_FILL = 96,   /* rows of a leaf */
    ROWS_NEAR = 1000, /* a rank below is found by iterating from the first row */
    ROWS_PER_CYCLE = 8192,
    ROOTS_PER_CYCLE = 64,
    RESTARTS_MAX = 3, /* then all rows are counted in one step */
};

static const struct bytes NOTHING = {"", 0};

struct draft {
    struct list link;
    struct bytes prefix; /* of the collection's rows; heap */
    enum cf cf;
    uint64_t version;
    uint64_t stamp;     /* of the collection, when the draft was begun */
    uint64_t ticket;    /* newest batch whose effects were counted */
    struct arena arena; /* of the separators */
    struct rank_block *leaves;
    size_t count, cap;
    char *last; /* the last row that was counted */
    size_t last_len, last_cap;
    bool is_begun, is_whole;
    unsigned restarts;
};

struct rank_rebuild {
    struct overlay *overlay;
    uint32_t partition; /* for the log */
    struct list drafts;
    struct rank_rebuild_figures figures;
    bool has_trees;  /* the walk has found a root row */
    bool has_logged; /* that stale trees are being replaced */
    char *position;  /* where the walk continues; heap */
    size_t position_len;
};

struct rank_rebuild *rank_rebuild_new(struct overlay *overlay, uint32_t partition)
{
    struct rank_rebuild *rebuild = calloc(1, sizeof *rebuild);
    struct slice value;
    CHECK(rebuild);
    rebuild->overlay = overlay;
    rebuild->partition = partition;
    list_init(&rebuild->drafts);
    if (overlay_get(overlay, CF_SYSTEM, BYTES(SYSTEM_RANKS), &value) == OK) {
        slice_release(&value);
        rebuild->figures.is_walked = true;
    }
    return rebuild;
}

/* ---- drafts ---- */

static void draft_free(struct rank_rebuild *rebuild, struct draft *draft)
{
    list_remove(&draft->link);
    rebuild->figures.drafts--;
    arena_fini(&draft->arena);
    free((char *)draft->prefix.data);
    free(draft->leaves);
    free(draft->last);
    free(draft);
}

void rank_rebuild_free(struct rank_rebuild *rebuild)
{
    if (!rebuild)
        return;
    while (!list_empty(&rebuild->drafts))
        draft_free(rebuild, container_of(rebuild->drafts.next, struct draft, link));
    free(rebuild->position);
    free(rebuild);
}

static struct rank_block *leaf_add(struct draft *draft, struct bytes separator)
{
    if (draft->count == draft->cap) {
        draft->cap = draft->cap ? 2 * draft->cap : 64;
        draft->leaves = realloc(draft->leaves, draft->cap * sizeof *draft->leaves);
        CHECK(draft->leaves);
    }
    struct rank_block *leaf = &draft->leaves[draft->count++];
    *leaf = (struct rank_block){.separator = separator};
    return leaf;
}

static void draft_reset(struct draft *draft, uint64_t stamp)
{
    arena_reset(&draft->arena);
    draft->stamp = stamp;
    draft->count = draft->last_len = 0;
    draft->is_begun = draft->is_whole = false;
    (void)leaf_add(draft, NOTHING);
}

static struct draft *draft_find(const struct rank_rebuild *rebuild, struct bytes prefix)
{
    for (struct list *link = rebuild->drafts.next; link != &rebuild->drafts; link = link->next) {
        struct draft *draft = container_of(link, struct draft, link);
        if (bytes_equal(draft->prefix, prefix))
            return draft;
    }
    return NULL;
}

/* The walk does not know the type of a collection whose tree it finds, so it begins the draft with any column family. */
static void draft_count_in(struct draft *draft, enum cf cf)
{
    if (draft->cf == cf)
        return;
    draft->cf = cf;
    draft_reset(draft, draft->stamp);
}

/* NULL: there are too many. */
static struct draft *draft_new(struct rank_rebuild *rebuild, struct bytes prefix, enum cf cf,
                               uint64_t version)
{
    if (rebuild->figures.drafts == DRAFTS_MAX)
        return NULL;
    struct draft *draft = calloc(1, sizeof *draft);
    char *copy = malloc(prefix.len);
    CHECK(draft);
    CHECK(copy);
    memcpy(copy, prefix.data, prefix.len);
    draft->prefix = (struct bytes){copy, prefix.len};
    draft->cf = cf;
    draft->version = version;
    arena_init(&draft->arena);
    draft_reset(draft, overlay_stamp(rebuild->overlay, version));
    list_push(&rebuild->drafts, &draft->link);
    rebuild->figures.drafts++;
    if (!rebuild->has_logged)
        log_event(LOG_INFO, "ranks_checking", "partition=%" PRIu32, rebuild->partition);
    rebuild->has_logged = true;
    return draft;
}

static void keep_last(struct draft *draft, struct bytes sub)
{
    if (sub.len > draft->last_cap) {
        draft->last_cap = 2 * sub.len;
        draft->last = realloc(draft->last, draft->last_cap);
        CHECK(draft->last);
    }
    memcpy(draft->last, sub.data, sub.len);
    draft->last_len = sub.len;
    draft->is_begun = true;
}

static struct bytes last_counted(const struct draft *draft)
{
    return draft->is_begun ? (struct bytes){draft->last, draft->last_len} : NOTHING;
}

static void draft_count(struct draft *draft, struct bytes sub)
{
    struct rank_block *leaf = &draft->leaves[draft->count - 1];
    if (leaf->count >= LEAF_FILL)
        leaf = leaf_add(draft, rank_separator(&draft->arena, last_counted(draft), sub));
    leaf->count++;
    keep_last(draft, sub);
}

/* Counts at most so many further rows. False: the store failed (replied). */
static bool draft_advance(struct call *call, struct entry *entry, struct draft *draft,
                          uint64_t rows)
{
    struct sub_iter it;
    bool is_row = true;
    if (draft->is_whole)
        return true;
    sub_iter_init(call, entry, draft->cf, last_counted(draft), &it);
    while (rows > 0 && (is_row = sub_iter_next(&it))) {
        if (draft->is_begun && bytes_equal(it.sub, last_counted(draft)))
            continue;
        draft_count(draft, it.sub);
        rows--;
    }
    bool is_good = sub_iter_fini(&it);
    draft->is_whole = is_good && !is_row;
    draft->ticket = overlay_observed(call->partition->overlay);
    return is_good;
}

/* The last leaf whose separator is not greater than `sub`. */
static struct rank_block *leaf_of(const struct draft *draft, struct bytes sub)
{
    size_t low = 0;
    size_t high = draft->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (bytes_compare(draft->leaves[middle].separator, sub) <= 0)
            low = middle;
        else
            high = middle;
    }
    return &draft->leaves[low];
}

/* Divides a leaf to which handlers have added many rows. If a row cannot be read, the command is rolled back, and the draft begins
 * again. */
static void leaf_divide(struct call *call, struct entry *entry, struct draft *draft, size_t at)
{
    struct sub_iter it;
    struct bytes before = NOTHING;
    struct bytes middle = NOTHING;
    const uint64_t kept = draft->leaves[at].count / 2;
    sub_iter_init(call, entry, draft->cf, draft->leaves[at].separator, &it);
    for (uint64_t row = 0; row <= kept && sub_iter_next(&it); row++) {
        if (row == kept - 1)
            before = arena_copy(call->arena, it.sub);
        else if (row == kept)
            middle = rank_separator(&draft->arena, before, it.sub);
    }
    if (!sub_iter_fini(&it) || !middle.len)
        return;
    (void)leaf_add(draft, NOTHING); /* makes room */
    struct rank_block *leaf = &draft->leaves[at];
    memmove(leaf + 2, leaf + 1, (draft->count - at - 2) * sizeof *leaf);
    leaf[1] = (struct rank_block){.separator = middle, .count = leaf->count - kept};
    leaf->count = kept;
}

/* ---- for commands ---- */

/* The draft of the collection; NULL: it has none, and may have none. */
static struct draft *draft_for(struct call *call, struct entry *entry, enum cf cf)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    if (entry->is_borrowed)
        return NULL;
    uint64_t stamp = overlay_stamp(rebuild->overlay, entry->meta.version);
    struct bytes prefix = entry_prefix(call, entry);
    struct draft *draft = draft_find(rebuild, prefix);
    if (!draft)
        return draft_new(rebuild, prefix, cf, entry->meta.version);
    if (draft->stamp != stamp)
        draft_reset(draft, stamp);
    draft_count_in(draft, cf);
    return draft;
}

bool rank_rebuild_find(struct call *call, struct entry *entry, enum cf cf, const struct bytes *sub,
                       uint64_t rank, struct bytes *separator, uint64_t *before)
{
    *separator = NOTHING;
    *before = 0;
    struct draft *draft = !sub && rank < ROWS_NEAR ? NULL : draft_for(call, entry, cf);
    if (!draft)
        return true;
    if (!draft_advance(call, entry, draft, UINT64_MAX))
        return false;
    overlay_observe(call->partition->overlay, draft->ticket);
    const struct rank_block *leaf = draft->leaves;
    const struct rank_block *last = sub ? leaf_of(draft, *sub) : leaf + draft->count - 1;
    while (leaf < last && (sub || *before + leaf->count <= rank))
        *before += leaf++->count;
    *separator = arena_copy(call->arena, leaf->separator);
    return true;
}

void rank_rebuild_note(struct call *call, struct entry *entry, struct bytes sub, int change)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    struct draft *draft =
        entry->is_borrowed ? NULL : draft_find(rebuild, entry_prefix(call, entry));
    if (!draft || draft->stamp != overlay_stamp(rebuild->overlay, draft->version))
        return;
    if (!draft->is_whole && (!draft->is_begun || bytes_compare(sub, last_counted(draft)) > 0))
        return; /* the iteration has not come to this row */
    struct rank_block *leaf = leaf_of(draft, sub);
    if (change < 0 && leaf->count == 0) { /* the deleted row was not there */
        draft_reset(draft, draft->stamp);
        return;
    }
    leaf->count += (uint64_t)(int64_t)change;
    draft->ticket = overlay_ticket(rebuild->overlay);
    if (leaf->count > RANK_LEAF_MAX)
        leaf_divide(call, entry, draft, (size_t)(leaf - draft->leaves));
}

/* ---- in the background ---- */

/* Whose collection is it? */
struct owner {
    struct bytes space, key, sub;
    uint16_t slot;
    uint64_t version;
};

static bool owner_decode(struct bytes row, struct owner *owner)
{
    return decode_collection_key(row, &owner->space, &owner->slot, &owner->key, &owner->version,
                                 &owner->sub);
}

static bool is_served(const struct partition *partition, uint16_t slot)
{
    return !partition->shards.is_gated || slot_is_served(partition, slot);
}

static bool is_unlocked(struct call *call, const struct owner *owner)
{
    const struct partition *partition = call->partition;
    const struct lock_set *locks = partition->shards.locks;
    struct bytes row_key = encode_metadata_key(call->arena, owner->space, owner->slot, owner->key);
    return !slot_is_frozen(partition, owner->slot) &&
           (!lock_set_count(locks) || !lock_stops(locks, row_key, true, NULL));
}

/* Column family whose rows the tree counts. */
static enum cf counted_by(enum type type)
{
    return type == TYPE_ZSET ? CF_ZSET_SCORE : CF_DATA;
}

/* No stale tree is known any more. */
static void log_end(struct rank_rebuild *rebuild)
{
    if (!rebuild->has_logged || !rebuild->figures.is_walked || !list_empty(&rebuild->drafts))
        return;
    log_event(LOG_INFO, "ranks_checked",
              "partition=%" PRIu32 " checked=%" PRIu64 " rebuilt=%" PRIu64, rebuild->partition,
              rebuild->figures.checked, rebuild->figures.rebuilt);
    rebuild->has_logged = false;
}

/* Counts further rows; writes the draft if they were the last ones. True: the draft is not needed any more. */
static bool draft_continue(struct call *call, struct entry *entry, struct draft *draft)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    uint64_t stamp = overlay_stamp(rebuild->overlay, draft->version);
    if (draft->stamp != stamp) {
        draft_reset(draft, stamp);
        draft->restarts++;
    }
    uint64_t rows = draft->restarts > RESTARTS_MAX ? UINT64_MAX : ROWS_PER_CYCLE;
    if (!draft_advance(call, entry, draft, rows) || !draft->is_whole)
        return false;
    if (!rank_replace(call, entry, draft->cf, draft->leaves, draft->count))
        return false;
    rebuild->figures.rebuilt++;
    metric_add(call->partition->metrics.process, METRIC_BACKEND_RANKS_REBUILT, 1);
    return true;
}

/* The collection may have been deleted, created again or changed since the draft was begun. */
static bool draft_step(struct call *call, struct draft *draft)
{
    struct partition *partition = call->partition;
    struct owner owner;
    struct entry entry;
    bool is_stale = false;
    if (!owner_decode(draft->prefix, &owner) || !is_served(partition, owner.slot))
        return true;
    if (!is_unlocked(call, &owner) ||
        !keyspace_open_row(call, space_find(partition->spaces, owner.space), owner.slot, owner.key,
                           &entry))
        return false;
    if (!entry.exists || entry.meta.version != owner.version)
        return true;
    draft_count_in(draft, counted_by(entry.meta.type));
    if (!rank_is_stale(call, &entry, &is_stale))
        return false;
    return !is_stale || draft_continue(call, &entry, draft);
}

static void walk_to(struct rank_rebuild *rebuild, struct bytes position)
{
    char *copy = malloc(position.len + 1);
    CHECK(copy);
    if (position.len)
        memcpy(copy, position.data, position.len);
    free(rebuild->position); /* `position` may be in it */
    rebuild->position = copy;
    rebuild->position_len = position.len;
}

/* A root row, or the first of the TTLs of a hash. False: the collection has to wait. */
static bool look_at(struct call *call, struct bytes row, struct bytes value)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    struct owner owner;
    uint64_t levels;
    uint64_t blocks;
    bool is_stale;
    if (!owner_decode(row, &owner) || owner.sub.len != 1 || owner.sub.data[0] != 0 ||
        !is_served(call->partition, owner.slot))
        return true;
    rebuild->has_trees = true;
    if (!decode_rank_root(value, &levels, &blocks, &is_stale) || !is_stale) {
        rebuild->figures.checked++;
        return true;
    }
    struct bytes prefix = {row.data, row.len - 1};
    if (!draft_find(rebuild, prefix) && !draft_new(rebuild, prefix, CF_DATA, owner.version))
        return false;
    rebuild->figures.checked++;
    return true;
}

static void walk_end(struct call *call)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    rebuild->figures.is_walked = true;
    if (rebuild->has_trees)
        overlay_put(rebuild->overlay, CF_SYSTEM, BYTES(SYSTEM_RANKS), NOTHING);
    log_end(rebuild);
}

/* Looks at the root rows of some collections. */
static void walk(struct call *call)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    struct bytes from = {rebuild->position, rebuild->position_len};
    struct bytes prefix;
    struct overlay_iter *iter = overlay_iter_new(rebuild->overlay, CF_RANK, NOTHING, NOTHING);
    int left = ROOTS_PER_CYCLE;
    overlay_iter_seek(iter, from.len ? from : NOTHING);
    bool is_last = false; /* no key may follow the row */
    for (; left > 0 && !is_last && overlay_iter_valid(iter); left--) {
        struct bytes row = overlay_iter_key(iter);
        bool is_row = decode_collection_prefix(row, &prefix);
        from =
            is_row ? encode_prefix_end(call->arena, prefix) : encode_prefix_end(call->arena, row);
        if (!look_at(call, row, overlay_iter_value(iter))) {
            from = arena_copy(call->arena, row);
            break;
        }
        is_last = !from.len;
        overlay_iter_seek(iter, from);
    }
    bool is_end =
        left > 0 && (is_last || !overlay_iter_valid(iter)) && overlay_iter_error(iter) == OK &&
        list_empty(&rebuild->drafts); /* else it is looked at again when they are written */
    overlay_iter_free(iter);
    walk_to(rebuild, from);
    if (is_end)
        walk_end(call);
}

void rank_rebuild_cycle(struct call *call)
{
    struct rank_rebuild *rebuild = call->partition->caches.rebuild;
    if (list_empty(&rebuild->drafts)) {
        if (!rebuild->figures.is_walked)
            walk(call);
        return;
    }
    struct draft *draft = container_of(rebuild->drafts.next, struct draft, link);
    list_remove(&draft->link); /* others have their turn when this one has to wait */
    list_push(&rebuild->drafts, &draft->link);
    if (!draft_step(call, draft))
        return;
    draft_free(rebuild, draft);
    log_end(rebuild);
}

struct rank_rebuild_figures rank_rebuild_figures(const struct rank_rebuild *rebuild)
{
    return rebuild->figures;
}
