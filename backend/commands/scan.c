/*
 * scan.c - SCAN over keys, HSCAN and SSCAN over rows; a cursor (backend/keyspace/cursor.h) names the last element.
 *
 * A proxy limits a SCAN to slots of this shard (SCREE UNTIL): the cursor 0 then means that these have no more keys, and a third element
 * is the number of keys that were visited.
 *
 * As in Redis, COUNT limits the elements that are visited, not those that match. A collection that Redis would store in one piece
 * (a listpack, or a set of integers) is replied whole, whatever COUNT and the cursor.
 */
#include "backend/commands/scan.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/cursor.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "shared/glob.h"
#include "shared/number.h"

#include <stdio.h>

enum { DEFAULT_COUNT = 10 };

static const struct bytes NOTHING = {"", 0};
static const struct bytes NONE = {NULL, 0};

struct scan_options {
    uint64_t cursor;
    unsigned last;   /* the last slot that is scanned; SLOT_COUNT: all */
    bool ends_early; /* slots up to the wanted one follow, and are not here */
    int64_t count;
    struct glob *pattern; /* in the arena; NULL: matches all */
    struct bytes type;    /* data NULL: any type */
    bool no_values;       /* HSCAN NOVALUES, ZSCAN NOSCORES */
};

static bool cursor_argument(struct call *call, uint32_t index, struct scan_options *options)
{
    if (cursor_parse(call->argv[index], &options->cursor))
        return true;
    call_error(call, ERR_INVALID_CURSOR);
    return false;
}

/* HSCAN's NOVALUES and ZSCAN's NOSCORES: replies no values. `type`: of the collection, TYPE_NONE for SCAN. Any other word is
 * not this option. False: the word belongs to another command, and an error was replied. */
static bool no_values_parse(struct call *call, struct bytes word, enum type type,
                            struct scan_options *options)
{
    bool is_of_hash = bytes_is(word, "novalues");
    bool is_of_zset = bytes_is(word, "noscores");
    options->no_values |= (is_of_hash && type == TYPE_HASH) || (is_of_zset && type == TYPE_ZSET);
    if (is_of_hash && type != TYPE_HASH)
        call_error_text(call, "ERR NOVALUES option can only be used in HSCAN");
    else if (is_of_zset && type != TYPE_ZSET)
        call_error_text(call, "ERR NOSCORES option can only be used in ZSCAN");
    return !call->failed;
}

/* Parses the options from argument `from` on. `type`: of the collection, TYPE_NONE for SCAN. */
static bool scan_options_parse(struct call *call, uint32_t from, enum type type,
                               struct scan_options *options)
{
    bool may_type = type == TYPE_NONE;
    options->no_values = false;
    options->count = DEFAULT_COUNT;
    options->pattern = NULL;
    options->type = NONE;
    for (uint32_t i = from; i < call->argc; i += 2) {
        bool has_value = i + 1 < call->argc;
        if (bytes_is(call->argv[i], "novalues") || bytes_is(call->argv[i], "noscores")) {
            if (!no_values_parse(call, call->argv[i], type, options))
                return false;
            i--; /* this option has no value */
            continue;
        }
        if (has_value && bytes_is(call->argv[i], "count")) {
            if (!call_int64(call, i + 1, &options->count))
                return false;
            if (options->count >= 1)
                continue;
        } else if (has_value && bytes_is(call->argv[i], "match")) {
            if (!call_pattern(call, i + 1))
                return false;
            options->pattern = call_glob(call, call->argv[i + 1]);
            continue;
        } else if (has_value && may_type && bytes_is(call->argv[i], "type")) {
            options->type = call->argv[i + 1];
            continue;
        }
        call_error(call, ERR_SYNTAX);
        return false;
    }
    return true;
}

static bool matches_pattern(const struct scan_options *options, struct bytes name)
{
    return !options->pattern || glob_fits(options->pattern, name);
}

/* Elements are collected, because the array header comes before them. */
struct found {
    struct arena *arena;
    struct bytes *items;
    size_t count;
    size_t cap;
};

static void found_add(struct found *found, struct bytes item)
{
    if (found->count == found->cap) {
        size_t cap = found->cap ? found->cap * 2 : 32;
        struct bytes *items = arena_alloc(found->arena, cap * sizeof *items);
        if (found->count)
            memcpy(items, found->items, found->count * sizeof *items);
        found->items = items;
        found->cap = cap;
    }
    found->items[found->count++] = arena_copy(found->arena, item);
}

/* Replies the first two elements of an array of `count`. */
static void reply_page(struct call *call, int64_t count, uint64_t cursor, const struct found *found)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)cursor);
    reply_array(&call->reply, count);
    reply_bulk(&call->reply, (struct bytes){text, (size_t)len});
    reply_array(&call->reply, (int64_t)found->count);
    for (size_t i = 0; i < found->count; i++)
        reply_bulk(&call->reply, found->items[i]);
}

/* ---- SCAN ---- */

/* Searches the slot for the key of the cursor, and copies it to the arena. False: the key no longer exists. */
static bool find_key(struct call *call, uint64_t cursor, struct bytes *last)
{
    struct key_iter it;
    bool found = false;
    key_iter_init(call, call->space, cursor_slot(cursor), NONE, &it);
    while (!found && key_iter_next(&it) && it.slot == cursor_slot(cursor))
        if (cursor_matches(call->space->name, cursor, it.key)) {
            *last = arena_copy(call->arena, it.key);
            found = true;
        }
    return key_iter_fini(&it) && found;
}

/* Where the scan continues: after *last; from the start of the slot (NONE) when the last key no longer exists. */
static void resume_key(struct call *call, uint64_t cursor, struct bytes *last)
{
    *last = NONE;
    if (cursor_fingerprint(cursor) == 0)
        return;
    if (!cursor_recall(call->partition->caches.cursors, call->space->name, cursor, last) &&
        !find_key(call, cursor, last))
        *last = NONE;
}

static bool type_wanted(const struct scan_options *options, enum type type)
{
    return !options->type.data || bytes_is(options->type, type_name(type));
}

/* Limits the scan to the slots that a proxy wants, from the cursor's on, and to those of them that are here. False: the first one is
 * not here, and the error was replied. */
static bool limit_slots(struct call *call, struct scan_options *options)
{
    unsigned end = call->session->request.scan_end;
    uint16_t first = cursor_slot(options->cursor);
    options->last = SLOT_COUNT;
    if (!end)
        return true;
    if (call->partition->shards.moving && !slot_pass(call, first, NOTHING, false))
        return false;
    if (!slot_set_has(session_slots(call->session), first)) {
        const char *refusal = call->partition->shards.slot_refusal(call, first, NOTHING);
        if (refusal)
            call_error_text(call, refusal);
        else
            call_error_again(call, "TRYAGAIN the slot is not here"); /* a bounce replaces it */
        return false;
    }
    options->last = first;
    while (options->last + 1 < end &&
           slot_set_has(session_slots(call->session), (uint16_t)(options->last + 1)))
        options->last++;
    options->ends_early = options->last + 1 < end;
    return true;
}

/* Collects a page of keys after *last, and sets *last to its last key. Returns the cursor that follows; *visited: number of keys. */
static uint64_t scan_keys(struct call *call, struct scan_options *options, struct bytes *last,
                          struct found *found, int64_t *visited)
{
    struct key_iter it;
    bool has_more = false;
    uint16_t slot = cursor_slot(options->cursor);
    key_iter_init(call, call->space, slot, *last, &it);
    it.wanted = options->count < ALL_NAMES ? (uint32_t)options->count + 1 : ALL_NAMES;
    while (key_iter_next(&it) && it.slot <= options->last) {
        has_more = *visited == options->count;
        if (has_more)
            break;
        ++*visited;
        *last = arena_copy(call->arena, it.key);
        slot = it.slot;
        if (matches_pattern(options, it.key) && type_wanted(options, it.meta.type))
            found_add(found, it.key);
    }
    if (!key_iter_fini(&it))
        return 0;
    if (has_more)
        return cursor_after(call->partition->caches.cursors, call->space->name, slot, *last);
    return options->ends_early ? cursor_at_slot((uint16_t)(options->last + 1)) : 0;
}

void cmd_scan(struct call *call)
{
    struct scan_options options = {0};
    struct found found = {.arena = call->arena};
    struct bytes last;
    int64_t visited = 0;
    bool is_limited = call->session->request.scan_end > 0;
    if (!cursor_argument(call, 1, &options) || !scan_options_parse(call, 2, TYPE_NONE, &options) ||
        !keyspace_is_free(call, call->space) || !limit_slots(call, &options))
        return;
    resume_key(call, options.cursor, &last);
    if (call->failed)
        return;
    uint64_t cursor = scan_keys(call, &options, &last, &found, &visited);
    if (call->failed)
        return;
    reply_page(call, is_limited ? 3 : 2, cursor, &found);
    if (is_limited)
        reply_int(&call->reply, visited);
}

/* ---- collections ---- */

/* Distinguishes the cursors of different collections, and of earlier collections under this key. */
static struct bytes collection_scope(struct call *call, const struct entry *entry)
{
    char *scope = arena_alloc(call->arena, sizeof(uint64_t) + entry->row_key.len);
    put_be64(scope, entry->meta.version);
    memcpy(scope + sizeof(uint64_t), entry->row_key.data, entry->row_key.len);
    return (struct bytes){scope, sizeof(uint64_t) + entry->row_key.len};
}

static bool find_sub(struct call *call, struct entry *entry, enum cf cf, struct bytes scope,
                     uint64_t cursor, struct bytes *last)
{
    struct sub_iter it;
    bool found = false;
    sub_iter_init(call, entry, cf, NOTHING, &it);
    while (!found && sub_iter_next(&it))
        if (cursor_matches(scope, cursor, it.sub)) {
            *last = arena_copy(call->arena, it.sub);
            found = true;
        }
    return sub_iter_fini(&it) && found;
}

/* Collects a page after *last (data NULL: from the start), and sets *last to the last row of the page. True: more
 * rows follow. */
static bool scan_rows(struct call *call, struct entry *entry, enum cf cf,
                      const struct scan_options *options, scan_value_fn *value_of,
                      struct bytes *last, struct found *found)
{
    struct sub_iter it;
    bool more = false;
    int64_t looked = 0;
    struct bytes behind = *last;
    sub_iter_init(call, entry, cf, behind.data ? behind : NOTHING, &it);
    while (sub_iter_next(&it)) {
        if (behind.data && bytes_equal(it.sub, behind))
            continue;
        more = looked++ == options->count;
        if (more)
            break;
        *last = arena_copy(call->arena, it.sub);
        if (!matches_pattern(options, it.sub))
            continue;
        found_add(found, it.sub);
        if (value_of)
            found_add(found, value_of(call, it.value));
    }
    return sub_iter_fini(&it) && more;
}

/* What Redis stores in one piece: up to so many elements, each of so many bytes. */
struct packing {
    enum type type;
    const char *entries_max;
    const char *value_max; /* NULL: integers only */
};

static const struct packing packings[] = {
    {TYPE_HASH, "hash-max-listpack-entries", "hash-max-listpack-value"},
    {TYPE_SET, "set-max-intset-entries", NULL},
    {TYPE_SET, "set-max-listpack-entries", "set-max-listpack-value"},
    {TYPE_ZSET, "zset-max-listpack-entries", "zset-max-listpack-value"},
};

static bool packs_element(const struct packing *packing, uint64_t value_max, struct bytes name,
                          struct bytes value)
{
    int64_t number;
    if (!packing->value_max)
        return number_parse_int64(name, &number);
    return name.len <= value_max && value.len <= value_max;
}

/* Collects all elements if Redis would store the collection in this way. False: it would not, and none was collected. Reads at most one
 * element that is too long. */
static bool collect_packed(struct call *call, struct entry *entry, const struct packing *packing,
                           const struct scan_options *options, scan_value_fn *value_of,
                           struct found *found)
{
    const struct config_snapshot *snapshot = call->partition->snapshot;
    struct sub_iter it;
    bool is_packed = true;
    if (entry->meta.size > (uint64_t)config_snapshot_number(snapshot, packing->entries_max))
        return false;
    uint64_t value_max =
        packing->value_max ? (uint64_t)config_snapshot_number(snapshot, packing->value_max) : 0;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    while (is_packed && sub_iter_next(&it)) {
        is_packed = packs_element(packing, value_max, it.sub, it.value);
        if (!is_packed || !matches_pattern(options, it.sub))
            continue;
        found_add(found, it.sub);
        if (value_of)
            found_add(found, value_of(call, it.value));
    }
    is_packed = sub_iter_fini(&it) && is_packed;
    if (!is_packed)
        found->count = 0;
    return is_packed;
}

static bool collect_whole(struct call *call, struct entry *entry, enum type type,
                          const struct scan_options *options, scan_value_fn *value_of,
                          struct found *found)
{
    for (size_t i = 0; i < sizeof packings / sizeof packings[0] && !call->failed; i++)
        if (packings[i].type == type &&
            collect_packed(call, entry, &packings[i], options, value_of, found))
            return true;
    return false;
}

static struct bytes value_as_is(struct call *call, struct bytes value)
{
    (void)call;
    return value;
}

/* Replies a page from the cursor on. */
static void scan_part(struct call *call, struct entry *entry, enum cf cf,
                      const struct scan_options *options, scan_value_fn *value_of,
                      struct found *found)
{
    struct cursor_cache *cursors = call->partition->caches.cursors;
    struct bytes scope = collection_scope(call, entry);
    struct bytes last = NONE;
    if (options->cursor && !cursor_recall(cursors, scope, options->cursor, &last) &&
        !find_sub(call, entry, cf, scope, options->cursor, &last))
        last = NONE;
    if (call->failed)
        return;
    bool more = scan_rows(call, entry, cf, options, value_of, &last, found);
    if (!call->failed)
        reply_page(call, 2, more ? cursor_after(cursors, scope, 0, last) : 0, found);
}

void scan_collection(struct call *call, enum type type, enum cf cf, bool with_values)
{
    scan_collection_as(call, type, cf, with_values ? value_as_is : NULL);
}

void scan_collection_as(struct call *call, enum type type, enum cf cf, scan_value_fn *value_of)
{
    struct scan_options options;
    struct entry entry;
    struct found found = {.arena = call->arena};
    if (!cursor_argument(call, 2, &options) ||
        !keyspace_open_type(call, call->argv[1], type, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_page(call, 2, 0, &found);
        return;
    }
    if (!scan_options_parse(call, 3, type, &options))
        return;
    if (options.no_values)
        value_of = NULL;
    if (collect_whole(call, &entry, type, &options, value_of, &found))
        reply_page(call, 2, 0, &found);
    else if (!call->failed)
        scan_part(call, &entry, cf, &options, value_of, &found);
}
