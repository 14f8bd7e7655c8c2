/*
 * sub_rows.c - rows of a collection: reading, changing, and iterating over them.
 *
 *   row key = prefix of the collection (entry_prefix: namespace, slot, key, version) | sub: field, member or index
 *
 * Fields of a hash that have expired are skipped. Their TTLs are rows of their own in the same order, so an iterator over fields
 * reads both side by side.
 */
#include "backend/keyspace/keyspace_inner.h"

#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/space.h"
#include "shared/table.h"

struct bytes entry_prefix(struct call *call, struct entry *entry)
{
    if (!entry->prefix.data || entry->prefix_version != entry->meta.version) {
        entry->prefix = encode_collection_prefix(call->arena, entry->space->name, entry->slot,
                                                 entry->key, entry->meta.version);
        entry->prefix_version = entry->meta.version;
    }
    return entry->prefix;
}

static struct bytes sub_key(struct call *call, struct entry *entry, struct bytes sub)
{
    return encode_sub_key(call->arena, entry_prefix(call, entry), sub);
}

/* Reads a field of a hash that hides fields. */
static __attribute__((noinline)) int field_get_visible(struct call *call, struct entry *entry,
                                                       struct bytes field, struct bytes *value)
{
    uint64_t expire_ms;
    int err = entry_row_get(call, entry, CF_DATA, sub_key(call, entry, field), value);
    if (err != OK)
        return err;
    err = field_expiry_get(call, entry, field, &expire_ms);
    return err == OK && keyspace_expired(call, expire_ms) ? ERR_NOT_FOUND : err;
}

int sub_get(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
            struct bytes *value)
{
    if (entry->hides_fields && cf == CF_DATA)
        return field_get_visible(call, entry, sub, value);
    return entry_row_get(call, entry, cf, sub_key(call, entry, sub), value);
}

enum { SUB_KEY_ROOM = 256 };

/* As sub_key, for a key that is not needed after the row was put: a short one is in `room`. */
static struct bytes sub_key_in(struct call *call, struct entry *entry, struct bytes sub,
                               char room[SUB_KEY_ROOM])
{
    struct bytes prefix = entry_prefix(call, entry);
    if (prefix.len + sub.len > SUB_KEY_ROOM)
        return encode_sub_key(call->arena, prefix, sub);
    memcpy(room, prefix.data, prefix.len);
    if (sub.len)
        memcpy(room + prefix.len, sub.data, sub.len);
    return (struct bytes){room, prefix.len + sub.len};
}

/* The call has written much or worked for long. The fragments of a string are one value, which may be longer than batch-limit. */
static bool may_put_much(struct call *call, const struct entry *entry, size_t work)
{
    bool may =
        (entry->meta.type == TYPE_BITMAP || call_may_write_more(call)) && call_goes_on(call, work);
    if (!may)
        overlay_stamp_all(call->partition->overlay);
    return may;
}

/* False: the call will be rolled back. Handlers may have changed caches as if the row were put. */
static inline bool may_put_row(struct call *call, const struct entry *entry, size_t bytes)
{
    size_t work = BUDGET_ROW + bytes / BUDGET_BYTES;
    return call_does_little(call, work) || may_put_much(call, entry, work);
}

void sub_put(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
             struct bytes value)
{
    char room[SUB_KEY_ROOM];
    if (may_put_row(call, entry, value.len))
        overlay_put_own(call->partition->overlay, cf, sub_key_in(call, entry, sub, room), value);
}

enum { PUTS_AHEAD = 8 };

/* A row that will be put soon. */
struct awaited_row {
    struct bytes key;
    uint64_t hash;
    char room[SUB_KEY_ROOM];
};

static void await_row(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
                      struct awaited_row *row)
{
    row->key = sub_key_in(call, entry, sub, row->room);
    row->hash = hash_bytes(row->key);
    overlay_await_put(call->partition->overlay, cf, row->hash);
}

static void put_awaited(struct call *call, const struct entry *entry, enum cf cf,
                        const struct awaited_row *row, struct bytes value)
{
    if (may_put_row(call, entry, value.len))
        overlay_put_hashed(call->partition->overlay, cf, row->key, row->hash, value, NOTHING);
}

void sub_put_rows(struct call *call, struct entry *entry, enum cf cf, const struct bytes *subs,
                  const struct bytes *values, size_t count)
{
    struct awaited_row rows[PUTS_AHEAD];
    for (size_t i = 0; i < count + PUTS_AHEAD && !call->failed; i++) {
        struct awaited_row *row = &rows[i % PUTS_AHEAD];
        if (i >= PUTS_AHEAD && i - PUTS_AHEAD < count)
            put_awaited(call, entry, cf, row, values ? values[i - PUTS_AHEAD] : NOTHING);
        if (i < count)
            await_row(call, entry, cf, subs[i], row);
    }
}

void sub_delete(struct call *call, struct entry *entry, enum cf cf, struct bytes sub)
{
    char room[SUB_KEY_ROOM];
    if (may_put_row(call, entry, 0))
        overlay_delete_own(call->partition->overlay, cf, sub_key_in(call, entry, sub, room));
}

void sub_delete_range(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                      struct bytes to)
{
    overlay_delete_range(call->partition->overlay, cf, sub_key(call, entry, from),
                         sub_key(call, entry, to));
}

/* ---- iterating ---- */

/* Opens an iterator over the rows that begin with `first`. NULL: rows of another shard must be fetched first. */
static struct overlay_iter *sub_rows_open(struct call *call, struct entry *entry, enum cf cf,
                                          struct bytes first)
{
    struct overlay *overlay = call->partition->overlay;
    struct bytes lower = sub_key(call, entry, first);
    struct bytes end = encode_prefix_end(call->arena, lower);
    if (!entry->is_borrowed)
        return overlay_iter_new(overlay, cf, lower, end);
    return borrow_has_all(call, entry, cf, entry_prefix(call, entry))
               ? overlay_iter_new_borrowed(overlay, cf, lower, end)
               : NULL;
}

enum { ITER_BYTES = 8192 }; /* memory of an iterator, about */

static void sub_iter_open(struct call *call, struct entry *entry, enum cf cf, bool with_ttls,
                          struct sub_iter *it)
{
    *it = (struct sub_iter){
        .call = call, .entry = entry, .prefix_len = entry_prefix(call, entry).len};
    it->iter = sub_rows_open(call, entry, cf, NOTHING);
    it->is_missing = !it->iter;
    budget_hold(&call->partition->running.budget, ITER_BYTES);
    call_count_work(call, BUDGET_ITERATOR);
    if (!with_ttls)
        return;
    it->ttls = sub_rows_open(call, entry, CF_RANK, encode_field_ttl(call->arena, NOTHING));
    it->is_missing |= !it->ttls;
}

static void seek_ttls(struct sub_iter *it, struct bytes from)
{
    if (it->ttls)
        overlay_iter_seek(it->ttls,
                          sub_key(it->call, it->entry, encode_field_ttl(it->call->arena, from)));
}

static void iter_begin(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                       bool with_ttls, struct sub_iter *it)
{
    sub_iter_open(call, entry, cf, with_ttls, it);
    if (it->is_missing)
        return;
    overlay_iter_seek(it->iter, sub_key(call, entry, from));
    seek_ttls(it, from);
}

void sub_iter_init(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                   struct sub_iter *it)
{
    iter_begin(call, entry, cf, from, entry->hides_fields && cf == CF_DATA, it);
}

void sub_iter_init_ttls(struct call *call, struct entry *entry, struct bytes from,
                        struct sub_iter *it)
{
    iter_begin(call, entry, CF_DATA, from, entry->meta.field_ttls != 0, it);
}

void sub_iter_init_reverse(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                           struct sub_iter *it)
{
    CHECK(!(entry->hides_fields && cf == CF_DATA));
    sub_iter_open(call, entry, cf, false, it);
    it->reverse = true;
    if (it->is_missing)
        return;
    if (from.len)
        overlay_iter_seek_for_prev(it->iter, sub_key(call, entry, from));
    else
        overlay_iter_seek_last(it->iter);
}

void sub_iter_seek(struct sub_iter *it, struct bytes from)
{
    struct bytes key = sub_key(it->call, it->entry, from);
    it->started = false;
    if (it->is_missing)
        return;
    if (it->reverse)
        overlay_iter_seek_for_prev(it->iter, key);
    else
        overlay_iter_seek(it->iter, key);
    seek_ttls(it, from);
}

/* Reads the TTL of the field at the iterator: `ttls` follows `iter` in the same order. */
static uint64_t ttl_here(struct sub_iter *it)
{
    for (; overlay_iter_valid(it->ttls); overlay_iter_next(it->ttls)) {
        struct bytes key = overlay_iter_key(it->ttls);
        struct bytes field;
        uint64_t expire_ms;
        if (!decode_field_ttl((struct bytes){key.data + it->prefix_len, key.len - it->prefix_len},
                              &field))
            continue;
        int order = bytes_compare(field, it->sub);
        if (order >= 0)
            return order == 0 && decode_u64(overlay_iter_value(it->ttls), &expire_ms) ? expire_ms
                                                                                      : 0;
    }
    return 0;
}

/* Moves to the next row, of any kind. */
static bool iter_step(struct sub_iter *it)
{
    if (it->is_missing)
        return false;
    if (it->started && it->reverse)
        overlay_iter_prev(it->iter);
    else if (it->started)
        overlay_iter_next(it->iter);
    it->started = true;
    if (!call_goes_on(it->call, BUDGET_ROW + BUDGET_PASSED * overlay_iter_passed(it->iter)) ||
        !overlay_iter_valid(it->iter))
        return false;
    struct bytes key = overlay_iter_key(it->iter);
    it->sub = (struct bytes){key.data + it->prefix_len, key.len - it->prefix_len};
    it->value = overlay_iter_value(it->iter);
    call_count_work(it->call, it->value.len / BUDGET_BYTES);
    return true;
}

bool sub_iter_next(struct sub_iter *it)
{
    while (iter_step(it)) {
        if (!it->ttls)
            return true;
        it->expire_ms = ttl_here(it);
        if (!keyspace_expired(it->call, it->expire_ms))
            return true;
    }
    return false;
}

bool close_iter(struct call *call, struct overlay_iter *iter)
{
    int err = overlay_iter_error(iter);
    overlay_iter_free(iter);
    if (err != OK)
        call_error(call, (enum error)err);
    return err == OK && !call->partition->running.budget.end;
}

bool sub_iter_fini(struct sub_iter *it)
{
    budget_give_back(&it->call->partition->running.budget, ITER_BYTES);
    bool is_good = !it->ttls || close_iter(it->call, it->ttls);
    if (!it->is_missing)
        return close_iter(it->call, it->iter) && is_good;
    overlay_iter_free(it->iter);
    call_error(it->call, ERR_RETRY);
    return false;
}
