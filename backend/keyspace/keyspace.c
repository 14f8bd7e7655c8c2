/*
 * keyspace.c - opens keys, and changes metadata row, expiry index and counters of a key in one batch.
 */
#include "backend/keyspace/keyspace.h"

#include "backend/context/change.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/keyspace/access_times.h"
#include "backend/keyspace/borrow.h"
#include "backend/keyspace/due_rows.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/keyspace_inner.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "shared/namespace.h"
#include "shared/table.h"

/* ---- reading rows ---- */

/* A row's value, borrowed until the command ends. A read failure is replied. `hash`: hash_bytes of the key. */
static int row_get_hashed(struct call *call, const struct entry *entry, enum cf cf,
                          struct bytes key, uint64_t hash, struct bytes *value)
{
    struct slice slice;
    if (!call_goes_on(call, BUDGET_ROW))
        return ERR_OVER;
    struct overlay *overlay = call->partition->overlay;
    int err;
    if (entry->is_borrowed)
        err = borrow_get(call, entry, cf, key, &slice);
    else if (entry->is_replaced && cf == CF_METADATA)
        err = overlay_get_replaced(overlay, key, hash, &slice);
    else
        err = overlay_get_hashed(overlay, cf, key, hash, &slice);
    if (is_read_failure(err))
        call_error(call, (enum error)err);
    if (err != OK)
        return err;
    if (slice.pin)
        pin_value(call->partition, &slice);
    *value = slice_bytes(&slice);
    if (value->len >= BUDGET_ROW * BUDGET_BYTES) /* less is part of BUDGET_ROW */
        call_count_work(call, value->len / BUDGET_BYTES);
    return OK;
}

int entry_row_get(struct call *call, const struct entry *entry, enum cf cf, struct bytes key,
                  struct bytes *value)
{
    return row_get_hashed(call, entry, cf, key, hash_bytes(key), value);
}

/* ---- reporting changes ---- */

void entry_event(struct call *call, const struct entry *entry, enum notify_class class,
                 const char *name)
{
    if (call->partition->snapshot->notify_classes & class)
        call->partition->watchers.changes->event(call, entry->space, class, name, entry->key);
}

static void add_change(struct call *call, const struct entry *entry, enum change_kind kind,
                       bool by_client)
{
    const struct change change = {.kind = kind,
                                  .type = entry->meta.type,
                                  .by_client = by_client,
                                  .space = entry->space,
                                  .key = entry->key};
    call->partition->watchers.changes->add(call, &change);
}

/* In a transaction over shards every change is reported: those of another shard concern its clients, and while shards prepare it, a
 * client may begin to watch the key here. */
static bool must_report(const struct call *call, const struct entry *entry)
{
    return borrow_is_used(call->borrow) ||
           call->partition->watchers.changes->concerns(call, entry->space, entry->key);
}

/* A command that may borrow keys has opened this one for reading, perhaps, and changes it: locks it for writing. If that must
 * be waited for, the command will be rolled back. */
static void lock_changed(struct call *call, const struct entry *entry)
{
    if (entry->is_borrowed)
        borrow_change(call, entry);
    else if (!lock_take(call->partition->shards.locks, call->borrow->owner, entry->row_key,
                        LOCK_WRITE))
        borrow_wait_for_lock(call, entry->row_key);
}

/* Reports a change of the key. */
static void touch(struct call *call, const struct entry *entry, enum change_kind kind,
                  bool by_client)
{
    const struct partition *partition = call->partition;
    if (call->borrow && !call_retries(call))
        lock_changed(call, entry);
    if (call_retries(call))
        return; /* the command will be rolled back */
    if (by_client)
        space_changes_add(partition->spaces, 1);
    if (must_report(call, entry))
        add_change(call, entry, kind, by_client);
}

void call_changes(struct call *call, int64_t more)
{
    space_changes_add(call->partition->spaces, more);
}

void entry_group_deleted(struct call *call, const struct entry *entry)
{
    if (!call_retries(call) && must_report(call, entry))
        add_change(call, entry, CHANGE_GROUP_DELETED, true);
}

static void count_lookup(struct call *call, enum open_flag flags, const struct entry *entry)
{
    if (flags != OPEN_READ && flags != OPEN_LOOK)
        return;
    metric_add(call->partition->metrics.process,
               entry->exists ? METRIC_BACKEND_HITS : METRIC_BACKEND_MISSES, 1);
    if (!entry->exists)
        entry_event(call, entry, NOTIFY_MISS, "keymiss");
}

/* ---- opening ---- */

/* May what has expired be deleted? It is only hidden while the key is locked or its slot is frozen, or writes are refused or
 * paused. */
static bool may_expire(const struct call *call, const struct entry *entry)
{
    return !commit_is_failed(call->partition->commit, NULL) &&
           !partition_keeps_expired(call->partition) && !key_is_locked(call, entry->row_key) &&
           !slot_is_frozen(call->partition, entry->slot);
}

static void entry_hide(struct entry *entry)
{
    entry->exists = entry->is_ttl_hash = false;
    entry->stored_expire_ms = 0;
    entry->stored_due_ms = 0;
    entry->meta = (struct metadata){0};
}

/* The key has expired: deletes it, or only hides it. */
static void entry_expire(struct call *call, struct entry *entry)
{
    if (may_expire(call, entry)) {
        entry_delete(call, entry);
        entry->has_expired = true;
        metric_add(call->partition->metrics.process, METRIC_BACKEND_EXPIRED, 1);
        entry_event(call, entry, NOTIFY_EXPIRED, "expired");
    }
    entry_hide(entry);
}

/* Fields of the hash may have expired: deletes some of them, and hides the others. False: the store failed. */
static bool entry_expire_fields(struct call *call, struct entry *entry)
{
    bool is_gone;
    bool may_delete = may_expire(call, entry);
    if (!field_expiry_open(call, entry, may_delete, &is_gone))
        return false;
    if (is_gone)
        entry_hide(entry);
    return true;
}

uint64_t entry_idle_s(const struct call *call, const struct entry *entry)
{
    return access_times_idle(call->partition->caches.accesses, entry->hash, call->now_ms / 1000);
}

void entry_set_idle_s(struct call *call, const struct entry *entry, uint64_t idle_s)
{
    uint64_t now_s = call->now_ms / 1000;
    access_times_touch(call->partition->caches.accesses, entry->hash,
                       idle_s < now_s ? now_s - idle_s : 1);
}

/* Is the key of another shard here? False: it will be fetched, and the command runs again. */
static bool borrow_pass(struct call *call, const struct entry *entry, enum open_flag flags)
{
    int err = borrow_key(call, entry, opens_for_writing(call, flags));
    if (err == ERR_RETRY)
        call_error(call, ERR_RETRY);
    return err == OK;
}

/* Opens the entry, whose key, space and slot are set. */
static bool open_entry(struct call *call, enum open_flag flags, struct entry *entry)
{
    struct space *space = entry->space;
    struct bytes key = entry->key;
    entry->row_key = encode_metadata_key(call->arena, space->name, entry->slot, key);
    if (call->partition->shards.moving &&
        !slot_pass(call, entry->slot, entry->row_key, call_writes(call)))
        return false;
    entry->is_borrowed = call->slots && !slot_set_has(call->slots, entry->slot);
    if (entry->is_borrowed && !call->borrow) {
        const char *refusal = call->partition->shards.slot_refusal(call, entry->slot, key);
        if (refusal)
            call_error_text(call, refusal);
        else
            call_error_again(call, "TRYAGAIN the slot is not here"); /* a bounce replaces it */
        return false;
    }
    entry->hash = hash_bytes(entry->row_key);
    if (!(entry->is_borrowed ? borrow_pass(call, entry, flags)
                             : key_lock_pass(call, entry->row_key, flags)))
        return false;
    bool is_access = flags == OPEN_READ || flags == OPEN_WRITE || flags == OPEN_REPLACE;
    if (flags != OPEN_READ && !call_may_write_more(call))
        return false;
    entry->is_replaced = flags == OPEN_REPLACE;
    if (is_access)
        access_times_prefetch(call->partition->caches.accesses, entry->hash);
    struct bytes value;
    int err = row_get_hashed(call, entry, CF_METADATA, entry->row_key, entry->hash, &value);
    if (is_access)
        entry_set_idle_s(call, entry, 0);
    if (is_read_failure(err))
        return false;
    if (err == OK) {
        if (!decode_metadata(value, &entry->meta)) {
            call_error(call, ERR_STORE);
            return false;
        }
        entry->exists = true;
        entry->row = value;
        entry->is_ttl_hash = entry->meta.field_ttls != 0;
        entry->stored_expire_ms = entry->meta.expire_ms;
        entry->stored_due_ms = metadata_due_ms(&entry->meta);
        if (keyspace_expired(call, entry->meta.expire_ms))
            entry_expire(call, entry);
        else if (keyspace_expired(call, entry->meta.field_expire_ms) &&
                 !entry_expire_fields(call, entry))
            return false;
    }
    count_lookup(call, flags, entry);
    return true;
}

bool keyspace_open_in(struct call *call, struct space *space, struct bytes key,
                      enum open_flag flags, struct entry *entry)
{
    struct partition *partition = call->partition;
    *entry =
        (struct entry){.key = key, .space = space, .slot = slot_rule_slot(call->slot_rule, key)};
    if (--partition->running.load_countdown == 0)
        slot_load_choose(partition, entry->slot);
    return open_entry(call, flags, entry);
}

bool keyspace_open_row(struct call *call, struct space *space, uint16_t slot, struct bytes key,
                       struct entry *entry)
{
    *entry = (struct entry){.key = key, .space = space, .slot = slot};
    return open_entry(call, OPEN_QUIET, entry);
}

bool keyspace_open(struct call *call, struct bytes key, enum open_flag flags, struct entry *entry)
{
    return keyspace_open_in(call, call->space, key, flags, entry);
}

static bool type_fits(enum type wanted, enum type found)
{
    return wanted == found || (wanted != TYPE_NONE && wanted == type_rows[found].opens_as);
}

bool keyspace_open_type(struct call *call, struct bytes key, enum type type, enum open_flag flags,
                        struct entry *entry)
{
    if (!keyspace_open_in(call, call->space, key, flags, entry))
        return false;
    if (!entry->exists || type_fits(type, entry->meta.type))
        return true;
    call_error(call, ERR_WRONGTYPE);
    return false;
}

/* ---- changing keys ---- */

static void index_expiry(struct call *call, struct entry *entry, uint64_t due_ms)
{
    struct overlay *overlay = call->partition->overlay;
    if (entry->stored_due_ms == due_ms)
        return;
    if (entry->stored_due_ms)
        overlay_delete(overlay, CF_EXPIRE,
                       encode_expire_key(call->arena, entry->stored_due_ms, entry->row_key));
    if (due_ms) {
        char type = (char)entry->meta.type;
        due_rows_note(call->partition->expiry.index, due_ms, entry->row_key);
        overlay_put(overlay, CF_EXPIRE, encode_expire_key(call->arena, due_ms, entry->row_key),
                    (struct bytes){&type, 1});
    }
    entry->stored_due_ms = due_ms;
}

/* The hash of the key's metadata row. An entry that keyspace_open did not make has none yet. */
static uint64_t row_key_hash(const struct entry *entry)
{
    return entry->hash ? entry->hash : hash_bytes(entry->row_key);
}

static void inline_put(struct call *call, struct entry *entry)
{
    struct metadata head = entry->meta;
    head.payload = NOTHING;
    overlay_put_hashed(call->partition->overlay, CF_METADATA, entry->row_key, row_key_hash(entry),
                       encode_metadata(call->arena, &head), entry->meta.payload);
    entry->row = NOTHING;
}

/* Writes the metadata row unless it is unchanged: many changes of a collection keep its size. */
static void collection_put(struct call *call, struct entry *entry)
{
    if (!metadata_is_sound(&entry->meta)) { /* more was removed than the stored size */
        call_error(call, ERR_STORE);
        return;
    }
    struct bytes row = encode_metadata(call->arena, &entry->meta);
    if (!bytes_equal(row, entry->row))
        overlay_put_hashed(call->partition->overlay, CF_METADATA, entry->row_key,
                           row_key_hash(entry), row, NOTHING);
    entry->row = row;
}

/* Counts the key among the hashes whose fields have TTLs, or not. */
static void count_ttl_hash(struct call *call, struct entry *entry, bool is_ttl_hash)
{
    if (entry->is_ttl_hash != is_ttl_hash && !entry->is_borrowed)
        space_count_ttl_hash(call->partition->spaces, entry->space, entry->row_key,
                             is_ttl_hash ? 1 : -1);
    entry->is_ttl_hash = is_ttl_hash;
}

/* Writes the metadata row and counts the key. */
static void row_write(struct call *call, struct entry *entry)
{
    if (type_is_inline(entry->meta.type))
        inline_put(call, entry);
    else
        collection_put(call, entry);
    index_expiry(call, entry, metadata_due_ms(&entry->meta));
    int keys = entry->exists ? 0 : 1;
    int expires = (entry->meta.expire_ms != 0) - (entry->stored_expire_ms != 0);
    if ((keys || expires) && !entry->is_borrowed)
        space_count(call->partition->spaces, entry->space, entry->slot, keys, expires);
    else if (keys)
        space_count_elsewhere(call->partition->spaces, entry->space, keys);
    count_ttl_hash(call, entry, entry->meta.field_ttls != 0);
    entry->exists = true;
    entry->stored_expire_ms = entry->meta.expire_ms;
}

void entry_save_untold(struct call *call, struct entry *entry)
{
    row_write(call, entry);
}

/* Writes the metadata row and reports the change. */
static void entry_write(struct call *call, struct entry *entry)
{
    bool is_new = !entry->exists;
    row_write(call, entry);
    if (!entry->is_untold)
        touch(call, entry, CHANGE_WRITTEN, true);
    if (is_new)
        entry_event(call, entry, NOTIFY_NEW, "new");
}

void entry_set_payload(struct call *call, struct entry *entry, enum type type, struct bytes payload,
                       uint64_t expire_ms)
{
    CHECK(type_is_inline(type));
    entry->meta = (struct metadata){.type = type, .expire_ms = expire_ms, .payload = payload};
    entry_write(call, entry);
}

void entry_create(struct call *call, struct entry *entry, enum type type)
{
    CHECK(!type_is_inline(type));
    entry->meta = (struct metadata){
        .type = type,
        .version = partition_version(call->partition, call->now_us),
        .head = UINT64_MAX / 2,
        .tail = UINT64_MAX / 2,
    };
    entry->fresh = true;
    entry->hides_fields = false;
}

void entry_save(struct call *call, struct entry *entry)
{
    CHECK(!type_is_inline(entry->meta.type));
    if (entry->meta.size > 0 || type_rows[entry->meta.type].exists_empty)
        entry_write(call, entry);
    else if (entry->exists)
        entry_delete(call, entry);
}

void entry_touch(struct call *call, struct entry *entry)
{
    CHECK(entry->exists);
    touch(call, entry, CHANGE_TOUCHED, true);
}

/* Does redis-server free such a value in the background? */
static bool is_freed_later(const struct metadata *meta)
{
    enum { FEW_ELEMENTS = 64 };
    return meta->size > FEW_ELEMENTS && meta->type != TYPE_STRING && meta->type != TYPE_BITMAP;
}

static void remove_key(struct call *call, struct entry *entry, bool by_client)
{
    CHECK(entry->exists);
    if (is_freed_later(&entry->meta))
        metric_add(call->partition->metrics.process, METRIC_BACKEND_LAZYFREED, 1);
    index_expiry(call, entry, 0);
    overlay_delete(call->partition->overlay, CF_METADATA, entry->row_key);
    if (entry->is_borrowed)
        space_count_elsewhere(call->partition->spaces, entry->space, -1);
    else
        space_count(call->partition->spaces, entry->space, entry->slot, -1,
                    entry->stored_expire_ms ? -1 : 0);
    count_ttl_hash(call, entry, false);
    entry->exists = false;
    entry->row = NOTHING;
    entry->hides_fields = false;
    entry->stored_expire_ms = 0;
    entry->meta = (struct metadata){0};
    touch(call, entry, CHANGE_DELETED, by_client);
}

void entry_delete(struct call *call, struct entry *entry)
{
    remove_key(call, entry, !keyspace_expired(call, entry->stored_expire_ms));
}

void entry_save_expired(struct call *call, struct entry *entry)
{
    if (!entry->meta.size) {
        remove_key(call, entry, false);
        return;
    }
    row_write(call, entry);
    touch(call, entry, CHANGE_TOUCHED, false);
}

void entry_set_expire(struct call *call, struct entry *entry, uint64_t expire_ms)
{
    CHECK(entry->exists);
    entry->meta.expire_ms = expire_ms;
    entry_write(call, entry);
}

struct expiry_check {
    struct call *call;
    bool has_expired;
};

/* Opens the key, which deletes it if it has expired. */
static void notice_expiry(void *owner, struct space *space, struct bytes key)
{
    struct expiry_check *check = owner;
    struct entry entry;
    if (check->call->failed)
        return; /* the store failed for an earlier key */
    if (keyspace_open_in(check->call, space, key, OPEN_QUIET, &entry))
        check->has_expired |= entry.has_expired;
}

bool keyspace_watch_dirty(struct call *call, struct watcher *watcher)
{
    struct expiry_check check = {.call = call};
    if (!watcher->dirty && !call->aside) /* its time stands still while it waits */
        watch_each(watcher, notice_expiry, &check);
    if (watcher->dirty)
        overlay_observe(call->partition->overlay, watcher->ticket);
    return watcher->dirty || check.has_expired;
}
