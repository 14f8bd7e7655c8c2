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
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/due_rows.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/keyspace/lock_waiter.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/storage/reader.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

static const struct bytes NOTHING = {"", 0};

/* ---- borrowed values ---- */

static void pin(struct partition *partition, const struct slice *slice)
{
    if (!slice->pin)
        return;
    if (partition->running.pins_count == partition->running.pins_cap) {
        partition->running.pins_cap =
            partition->running.pins_cap ? partition->running.pins_cap * 2 : 16;
        partition->running.pins = realloc(
            partition->running.pins, partition->running.pins_cap * sizeof *partition->running.pins);
        CHECK(partition->running.pins);
    }
    partition->running.pins[partition->running.pins_count++] = *slice;
    budget_hold(&partition->running.budget, slice->len);
}

static bool holds(const char *data, size_t len, struct bytes value)
{
    return value.data >= data && value.data + value.len <= data + len;
}

static void release_shared(void *owner)
{
    struct slice *slice = owner;
    slice_release(slice);
    free(slice);
}

/* Creates a block that refers to a pinned value of RocksDB; freeing the block releases the pin. */
static struct block *share(struct partition *partition, struct slice *pin)
{
    struct slice *owner = malloc(sizeof *owner);
    CHECK(owner);
    *owner = *pin;
    pin->pin = NULL;
    struct block *block =
        block_new_borrowed((char *)owner->data, owner->len, release_shared, owner);
    block->next = partition->running.blocks;
    partition->running.blocks = block;
    return block;
}

struct block *keyspace_block(struct call *call, struct bytes value)
{
    struct partition *partition = call->partition;
    for (struct block *block = partition->running.blocks; block; block = block->next)
        if (holds(block->data, block->size, value))
            return block;
    for (size_t i = 0; i < partition->running.pins_count; i++) {
        struct slice *pin = &partition->running.pins[i];
        if (pin->pin && holds(pin->data, pin->len, value))
            return share(partition, pin);
    }
    return NULL;
}

/* Releases the pins from this one on. */
static void release_pins(struct partition *partition, size_t from)
{
    struct partition_running *running = &partition->running;
    size_t bytes = 0;
    for (size_t i = from; i < running->pins_count; i++) {
        bytes += running->pins[i].len;
        slice_release(&running->pins[i]);
    }
    running->pins_count = from;
    budget_give_back(&running->budget, bytes);
}

struct call_mark keyspace_mark(const struct call *call)
{
    return (struct call_mark){.arena = arena_mark(call->arena),
                              .pins = call->partition->running.pins_count};
}

void keyspace_release(struct call *call, const struct call_mark *mark)
{
    release_pins(call->partition, mark->pins);
    arena_release(call->arena, &mark->arena);
}

void keyspace_end(struct partition *partition)
{
    if (partition->running.pins_count)
        release_pins(partition, 0);
    while (partition->running.blocks) {
        struct block *block = partition->running.blocks;
        partition->running.blocks = block->next;
        block_unref(block);
    }
}

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
    pin(call->partition, &slice);
    *value = slice_bytes(&slice);
    return OK;
}

static int row_get(struct call *call, const struct entry *entry, enum cf cf, struct bytes key,
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
        borrow_wait(call);
}

/* Reports a change of the key. */
static void touch(struct call *call, const struct entry *entry, enum change_kind kind,
                  bool by_client)
{
    const struct partition *partition = call->partition;
    if (call->borrow && !overlay_has_uncached(partition->overlay))
        lock_changed(call, entry);
    if (overlay_has_uncached(partition->overlay))
        return; /* the command will be rolled back */
    space_change(partition->spaces);
    if (must_report(call, entry))
        add_change(call, entry, kind, by_client);
}

void entry_group_deleted(struct call *call, const struct entry *entry)
{
    const struct partition *partition = call->partition;
    if (!overlay_has_uncached(partition->overlay) && must_report(call, entry))
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

/* ---- locked keys ---- */

static bool call_writes(const struct call *call)
{
    return call->command && call->command->flags & (CMD_WRITE | CMD_MAY_REPLICATE);
}

/* Does the command open the key to write it? Sources of SUNIONSTORE, for example, are opened to be read. */
static bool opens_for_writing(const struct call *call, enum open_flag flags)
{
    bool is_source = (flags == OPEN_READ || flags == OPEN_LOOK) && call->command->made.has_sources;
    return call_writes(call) && !is_source;
}

/* Whose locks do not stop the call; NULL: it has none. */
static const struct lock_owner *own_locks(const struct call *call)
{
    if (call->borrow)
        return call->borrow->owner;
    return call->waiter ? &call->waiter->owner : NULL;
}

/* Has another transaction locked the key, in any way? */
static bool is_locked(const struct call *call, struct bytes row_key)
{
    const struct lock_set *locks = call->partition->shards.locks;
    return lock_set_count(locks) && lock_stops(locks, row_key, true, own_locks(call));
}

/* Replies that the key is locked. If the command can be rolled back, it is, with all commands of its EXEC or script. */
static void refuse_locked(struct call *call, struct reader_wait *wait, struct bytes row_key,
                          bool is_in_doubt)
{
    struct bytes space;
    struct bytes key;
    uint16_t slot;
    char *text;
    const char *reason = is_in_doubt ? ", whose deciding shard does not answer" : "";
    bool is_key = decode_metadata_key(row_key, &space, &slot, &key);
    int len = is_key
                  ? asprintf(&text,
                             "TRYAGAIN the key '%.*s' is locked by a transaction over several "
                             "shards%s",
                             (int)(key.len < 128 ? key.len : 128), key.data, reason)
                  : asprintf(&text,
                             "TRYAGAIN all keys of the database are locked by a transaction over "
                             "several shards%s",
                             reason);
    CHECK(len >= 0);
    if (!wait) {
        metric_add(call->partition->metrics.process, METRIC_BACKEND_LOCKED_REFUSED, 1);
        call_error_text(call, text);
        free(text);
        return;
    }
    free(wait->refusal);
    wait->refusal = text;
    call_error(call, ERR_UNCACHED);
}

/* The command waits for a lock, or is refused when it cannot wait, or has waited for too long. `owner` has the lock; NULL: older
 * owners have requested it. */
static void wait_for_lock(struct call *call, const struct lock_owner *owner, struct bytes row_key,
                          bool is_requested)
{
    struct partition *partition = call->partition;
    struct reader_wait *wait = overlay_wait(partition->overlay);
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t timeout_ms = partition->snapshot->config.lock_timeout_ms;
    bool is_over = wait && wait->lock_since_ms && now_ms >= wait->lock_since_ms + timeout_ms;
    bool is_in_doubt = owner && owner->is_in_doubt;
    if (!wait || is_over || is_in_doubt) {
        refuse_locked(call, wait, row_key, is_in_doubt);
        return;
    }
    if (!wait->lock_since_ms)
        wait->lock_since_ms = now_ms;
    if (is_requested)
        lock_waiter_wait(call->waiter, wait);
    else
        lock_wait(partition->shards.locks, row_key, wait, now_ms);
    call_error(call, ERR_UNCACHED);
}

/* A command that has waited before takes the lock by its age. */
static bool take_by_age(struct call *call, struct bytes row_key, enum lock_mode mode)
{
    if (lock_waiter_take(call, row_key, mode))
        return true;
    const struct lock_owner *owner =
        lock_stops(call->partition->shards.locks, row_key, true, own_locks(call));
    wait_for_lock(call, owner, row_key, true);
    return false;
}

/* May the command use this key of the partition? False: it waits for a lock, or an error was replied. A command that may
 * borrow keys takes its own ones by age from the first attempt on: that attempt requests locks of other shards already, and
 * a command that held these while it waited for a key as ordinary commands do could wait for ever. */
static bool lock_pass(struct call *call, struct bytes row_key, enum open_flag flags)
{
    struct lock_set *locks = call->partition->shards.locks;
    if (call->borrow) {
        enum lock_mode mode = opens_for_writing(call, flags) ? LOCK_WRITE : LOCK_READ;
        if (lock_take(locks, call->borrow->owner, row_key, mode))
            return true;
        borrow_wait(call);
        call_error(call, ERR_UNCACHED);
        return false;
    }
    if (!lock_set_count(locks))
        return true;
    if (call->waiter && call_writes(call))
        return take_by_age(call, row_key, opens_for_writing(call, flags) ? LOCK_WRITE : LOCK_READ);
    const struct lock_owner *owner = lock_stops(locks, row_key, call_writes(call), own_locks(call));
    if (owner)
        wait_for_lock(call, owner, row_key, false);
    return !owner;
}

/* The command waits for a lock, for half of lock-timeout at most. True: that is over, or it cannot wait. */
static bool await_lock(struct call *call, struct bytes row_key)
{
    struct partition *partition = call->partition;
    struct reader_wait *wait = overlay_wait(partition->overlay);
    uint64_t now_ms = loop_mono_ms(partition->loop);
    uint64_t timeout_ms = partition->snapshot->config.lock_timeout_ms;
    if (!wait || (wait->lock_since_ms && now_ms >= wait->lock_since_ms + timeout_ms / 2))
        return true;
    if (!wait->lock_since_ms)
        wait->lock_since_ms = now_ms;
    lock_wait(partition->shards.locks, row_key, wait, now_ms);
    call_error(call, ERR_UNCACHED);
    return false;
}

bool keyspace_await_writer(struct call *call, struct bytes row_key)
{
    const struct lock_set *locks = call->partition->shards.locks;
    return call->borrow || !lock_set_count(locks) || !lock_writer(locks, row_key) ||
           await_lock(call, row_key);
}

bool keyspace_await_prepared(struct call *call, const struct space *space)
{
    const struct lock_set *locks = call->partition->shards.locks;
    struct bytes row_key;
    if (call->borrow || !lock_set_count(locks))
        return true;
    const struct lock_owner *owner =
        lock_stops_any(locks, encode_space_prefix(call->arena, space->name), false, NULL, &row_key);
    return !owner || owner->is_in_doubt || await_lock(call, row_key);
}

bool keyspace_is_free(struct call *call, struct space *space)
{
    const struct lock_set *locks = call->partition->shards.locks;
    struct bytes row_key;
    if (call->borrow)
        return borrow_all(call, space, call_writes(call) ? LOCK_WRITE : LOCK_READ);
    if (call_writes(call) && !slots_pass(call))
        return false;
    if (!lock_set_count(locks))
        return true;
    struct bytes prefix = encode_space_prefix(call->arena, space->name);
    if (call->waiter && call_writes(call))
        return take_by_age(call, prefix, LOCK_WRITE);
    const struct lock_owner *owner =
        lock_stops_any(locks, prefix, call_writes(call), own_locks(call), &row_key);
    if (owner)
        wait_for_lock(call, owner, row_key, false);
    return !owner;
}

/* ---- opening ---- */

/* May what has expired be deleted? It is only hidden while the key is locked or its slot is frozen, or writes are refused or
 * paused. */
static bool may_expire(const struct call *call, const struct entry *entry)
{
    return !commit_is_failed(call->partition->commit, NULL) &&
           !partition_keeps_expired(call->partition) && !is_locked(call, entry->row_key) &&
           !slot_is_frozen(call->partition, entry->slot);
}

static void entry_hide(struct entry *entry)
{
    entry->exists = false;
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
    if (err == ERR_UNCACHED)
        call_error(call, ERR_UNCACHED);
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
                             : lock_pass(call, entry->row_key, flags)))
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
    struct bytes row = encode_metadata(call->arena, &entry->meta);
    if (!bytes_equal(row, entry->row))
        overlay_put_hashed(call->partition->overlay, CF_METADATA, entry->row_key,
                           row_key_hash(entry), row, NOTHING);
    entry->row = row;
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

static void remove_key(struct call *call, struct entry *entry, bool by_client)
{
    CHECK(entry->exists);
    index_expiry(call, entry, 0);
    overlay_delete(call->partition->overlay, CF_METADATA, entry->row_key);
    if (entry->is_borrowed)
        space_count_elsewhere(call->partition->spaces, entry->space, -1);
    else
        space_count(call->partition->spaces, entry->space, entry->slot, -1,
                    entry->stored_expire_ms ? -1 : 0);
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

/* ---- rows of a collection ---- */

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
    int err = row_get(call, entry, CF_DATA, sub_key(call, entry, field), value);
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
    return row_get(call, entry, cf, sub_key(call, entry, sub), value);
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

/* False: the call will be rolled back. Handlers may have changed caches as if the row were put. The fragments of a string are one value,
 * which may be longer than batch-limit. */
static bool may_put_row(struct call *call, const struct entry *entry, size_t bytes)
{
    bool may = (entry->meta.type == TYPE_BITMAP || call_may_write_more(call)) &&
               call_goes_on(call, BUDGET_ROW + bytes / 64);
    if (!may)
        overlay_stamp_all(call->partition->overlay);
    return may;
}

void sub_put(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
             struct bytes value)
{
    char room[SUB_KEY_ROOM];
    if (may_put_row(call, entry, value.len))
        overlay_put_own(call->partition->overlay, cf, sub_key_in(call, entry, sub, room), value);
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
               ? overlay_iter_new_attempt(overlay, cf, lower, end)
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
    if (!overlay_iter_valid(it->iter) || !call_goes_on(it->call, BUDGET_ROW))
        return false;
    struct bytes key = overlay_iter_key(it->iter);
    it->sub = (struct bytes){key.data + it->prefix_len, key.len - it->prefix_len};
    it->value = overlay_iter_value(it->iter);
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

static bool iter_close(struct call *call, struct overlay_iter *iter)
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
    bool is_good = !it->ttls || iter_close(it->call, it->ttls);
    if (!it->is_missing)
        return iter_close(it->call, it->iter) && is_good;
    overlay_iter_free(it->iter);
    call_error(it->call, ERR_UNCACHED);
    return false;
}

/* ---- iterating over keys ---- */

enum { NAMES_WANTED = 512 };

void key_iter_init(struct call *call, struct space *space, uint16_t slot_from, struct bytes after,
                   struct key_iter *it)
{
    *it = (struct key_iter){.call = call, .space = space, .wanted = NAMES_WANTED};
    struct bytes prefix = encode_space_prefix(call->arena, space->name);
    it->iter = overlay_iter_new(call->partition->overlay, CF_METADATA, prefix,
                                encode_prefix_end(call->arena, prefix));
    struct bytes from =
        encode_metadata_key(call->arena, space->name, slot_from, after.data ? after : NOTHING);
    it->is_over_shards = call->borrow && borrow_has_all_keys(call, space);
    if (it->is_over_shards)
        it->end = borrow_names_end(call, space, from);
    overlay_iter_seek(it->iter, from);
    if (after.data && overlay_iter_valid(it->iter) && bytes_equal(overlay_iter_key(it->iter), from))
        overlay_iter_next(it->iter);
}

/* Moves to the first key of the next slot that the partition serves. */
static void skip_slot(struct key_iter *it)
{
    unsigned from = it->slot;
    uint16_t first;
    uint16_t last;
    bool is_any = slot_set_next_run(slots_served(it->call->partition), &from, &first, &last);
    overlay_iter_seek(it->iter, encode_metadata_key(it->call->arena, it->space->name,
                                                    is_any ? first : SLOT_COUNT, NOTHING));
}

/* Is the row one of this partition's keys, or was it borrowed? It may also be left from a slot that has moved. */
static bool is_present(const struct key_iter *it)
{
    struct slice value;
    struct overlay *overlay = it->call->partition->overlay;
    return slot_is_served(it->call->partition, it->slot) ||
           overlay_get_borrowed(overlay, CF_METADATA, overlay_iter_key(it->iter), &value) == OK;
}

/* Has the iterator come to names that are missing? They are fetched, and the command runs again. */
static bool is_at_end(struct key_iter *it)
{
    if (!it->is_over_shards || !it->end.len ||
        (overlay_iter_valid(it->iter) && bytes_compare(overlay_iter_key(it->iter), it->end) < 0))
        return false;
    if (overlay_iter_error(it->iter) == OK)
        borrow_names(it->call, it->space, it->end, it->wanted);
    return true;
}

bool key_iter_next(struct key_iter *it)
{
    struct bytes space;
    if (it->started)
        overlay_iter_next(it->iter);
    it->started = true;
    while (!is_at_end(it) && overlay_iter_valid(it->iter) && call_goes_on(it->call, BUDGET_ROW)) {
        bool is_good =
            decode_metadata_key(overlay_iter_key(it->iter), &space, &it->slot, &it->key) &&
            decode_metadata(overlay_iter_value(it->iter), &it->meta);
        if (is_good && !it->is_over_shards && !slot_is_served(it->call->partition, it->slot)) {
            skip_slot(it);
            continue;
        }
        if (is_good && !keyspace_expired(it->call, it->meta.expire_ms) &&
            (!it->is_over_shards || is_present(it)))
            return true;
        overlay_iter_next(it->iter);
    }
    return false;
}

bool key_iter_fini(struct key_iter *it)
{
    return iter_close(it->call, it->iter) && !it->call->failed;
}

bool keyspace_key_at(struct call *call, struct space *space, uint64_t place, struct bytes *row_key)
{
    struct key_iter it;
    bool found = false;
    uint16_t slot = space_slot_at(call->partition->spaces, space, &place);
    key_iter_init(call, space, slot, (struct bytes){NULL, 0}, &it);
    it.is_over_shards = false;
    while (!found && key_iter_next(&it))
        if (place-- == 0) {
            *row_key = arena_copy(call->arena, overlay_iter_key(it.iter));
            found = true;
        }
    return key_iter_fini(&it) && found;
}

/* ---- whole namespaces ---- */

/* A SWAPDB or FLUSHDB, for the watched keys of one database. */
struct replaced {
    struct call *call;
    struct space *space;
    struct space *by; /* the database that replaces `space`; NULL: FLUSHDB */
};

/* A row that cannot be read counts as a key. The caller may use all keys of the database. */
static bool key_exists(struct call *call, const struct space *space, uint16_t slot,
                       struct bytes key)
{
    struct slice slice;
    struct metadata meta;
    int err = overlay_get(call->partition->overlay, CF_METADATA,
                          encode_metadata_key(call->arena, space->name, slot, key), &slice);
    if (err != OK)
        return is_read_failure(err);
    bool exists =
        !decode_metadata(slice_bytes(&slice), &meta) || !keyspace_expired(call, meta.expire_ms);
    slice_release(&slice);
    return exists;
}

/* watch_key_fn: reports the key if it exists before or after the change. */
static void replace_watched(void *owner, uint16_t slot, struct bytes key)
{
    const struct replaced *replaced = owner;
    struct call *call = replaced->call;
    if (key_exists(call, replaced->space, slot, key) ||
        (replaced->by && key_exists(call, replaced->by, slot, key))) {
        const struct change change = {.kind = CHANGE_WATCHED, .space = replaced->space, .key = key};
        call->partition->watchers.changes->add(call, &change);
    }
}

/* Deletes all rows of these slots. */
static void flush_slots(struct call *call, const struct space *space, uint16_t first, uint16_t last)
{
    static const enum cf FLUSHED[] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    struct bytes from = encode_slot_prefix(call->arena, space->name, first);
    struct bytes end =
        encode_prefix_end(call->arena, encode_slot_prefix(call->arena, space->name, last));
    for (size_t i = 0; i < sizeof FLUSHED / sizeof FLUSHED[0]; i++)
        overlay_delete_range(call->partition->overlay, FLUSHED[i], from, end);
}

void keyspace_tell_flush(struct call *call, struct space *space)
{
    struct replaced replaced = {.call = call, .space = space};
    watch_each_of(call->partition->watchers.watches, space, replace_watched, &replaced);
    const struct change change = {.kind = CHANGE_FLUSHED, .space = space};
    call->partition->watchers.changes->add(call, &change);
}

/* For borrow_each_run. */
struct flushing {
    struct call *call;
    const struct space *space;
};

static void flush_run(void *owner, uint16_t first, uint16_t last)
{
    const struct flushing *flushing = owner;
    flush_slots(flushing->call, flushing->space, first, last);
}

/* Removes the keys of all shards; the effects are collected by shard. */
static void flush_all_shards(struct call *call, struct space *space)
{
    struct flushing flushing = {call, space};
    borrow_each_run(call, flush_run, &flushing);
    space_count_elsewhere(call->partition->spaces, space, -space->elsewhere);
}

void keyspace_flush(struct call *call, struct space *space)
{
    const struct slot_set *served = slots_served(call->partition);
    unsigned slot = 0;
    uint16_t first;
    uint16_t last;
    overlay_nonblocking_end(call->partition->overlay);
    keyspace_tell_flush(call, space);
    if (call->borrow)
        flush_all_shards(call, space);
    else
        while (slot_set_next_run(served, &slot, &first, &last))
            flush_slots(call, space, first, last);
    space_clear(call->partition->spaces, space);
}

void keyspace_observe_size(struct call *call, const struct space *space)
{
    overlay_observe(call->partition->overlay, space->ticket);
}

uint64_t keyspace_size(const struct space *space)
{
    return space->keys + (uint64_t)space->elsewhere;
}

void keyspace_swap(struct call *call, struct bytes name, uint8_t a, uint8_t b)
{
    struct partition *partition = call->partition;
    struct space *space_a = space_open(partition->spaces, name, a);
    struct space *space_b = space_open(partition->spaces, name, b);
    if (a == b)
        return;
    overlay_nonblocking_end(partition->overlay);
    struct replaced first = {call, space_a, space_b};
    struct replaced second = {call, space_b, space_a};
    watch_each_of(partition->watchers.watches, space_a, replace_watched, &first);
    watch_each_of(partition->watchers.watches, space_b, replace_watched, &second);
    space_swap(partition->spaces, name, a, b); /* calls on_swap of partition_new.c */
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
    if (!watcher->dirty)
        watch_each(watcher, notice_expiry, &check);
    if (watcher->dirty)
        overlay_observe(call->partition->overlay, watcher->ticket);
    return watcher->dirty || check.has_expired;
}
