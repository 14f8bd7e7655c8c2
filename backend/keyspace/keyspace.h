/*
 * keyspace.h - the interface through which every command opens and changes keys: type, expiry, version, slot.
 *
 *   keyspace_open ─► entry ─┬─ string: entry_set_payload
 *                           ├─ collection: entry_create, sub_put / sub_delete, entry_save
 *                           └─ entry_delete, entry_set_expire
 *
 * Opening an expired key deletes it. Every change is reported to watchers, and updates expiry index, counters and metadata
 * row in one batch. A collection that is saved with size 0 is deleted.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/context/notify_class.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/watch.h"
#include "backend/storage/overlay.h"

/* An open key. Valid until the command ends; the payload is borrowed until the key is changed. */
struct entry {
    struct bytes key;     /* user key, borrowed from the arguments */
    struct bytes row_key; /* metadata key, in the call's arena */
    struct bytes row;     /* the metadata row of a collection; empty when there is none */
    struct bytes prefix;  /* collection prefix; computed when first needed */
    uint64_t prefix_version;
    uint64_t hash; /* of row_key */
    uint16_t slot;
    bool exists;
    bool has_expired;          /* opening the key deleted it, because it had expired */
    bool is_replaced;          /* opened by OPEN_REPLACE: the payload may be missing */
    bool is_untold;            /* changes are not reported to clients that watch, track or wait */
    bool is_borrowed;          /* of another shard (borrow.h) */
    bool fresh;                /* created by entry_create in this command: no rows on disk */
    bool hides_fields;         /* a hash that still has expired fields, which reads skip */
    bool is_ttl_hash;          /* as it is counted: a hash whose fields have TTLs */
    uint64_t stored_expire_ms; /* the key's TTL, as it is counted; 0: none */
    uint64_t stored_due_ms;    /* time of the key's row in the expiry index; 0: no row */
    struct space *space;
    struct metadata meta; /* type is TYPE_NONE when the key does not exist */
};

enum open_flag {
    OPEN_READ = 0,
    OPEN_WRITE = 1, /* not counted as hit or miss */
    OPEN_QUIET = 2, /* not counted as hit or miss; idle time is not reset */
    OPEN_LOOK = 3,  /* counted as hit or miss; idle time is not reset */
    OPEN_REPLACE =
        4, /* as OPEN_WRITE, by a command that uses existence, type and TTL only: `payload` may be empty */
};

/* Opens the key in call->space, or in another storage namespace. False: the store failed, and an error was replied. A
 * missing key has exists = false. */
bool keyspace_open(struct call *call, struct bytes key, enum open_flag flags, struct entry *entry);
bool keyspace_open_in(struct call *call, struct space *space, struct bytes key,
                      enum open_flag flags, struct entry *entry);
/* Opens a key by its slot instead of the call's slot rule; not counted as hit or miss. */
bool keyspace_open_row(struct call *call, struct space *space, uint16_t slot, struct bytes key,
                       struct entry *entry);
/* As keyspace_open; also false, with WRONGTYPE replied, when the key has another type. TYPE_STRING includes bitmaps. */
bool keyspace_open_type(struct call *call, struct bytes key, enum type type, enum open_flag flags,
                        struct entry *entry);

/* Seconds since the key was last opened for reading or writing, for OBJECT IDLETIME; access_times.h. */
uint64_t entry_idle_s(const struct call *call, const struct entry *entry);
/* Sets the idle time; the access time is at the earliest 1970. */
void entry_set_idle_s(struct call *call, const struct entry *entry, uint64_t idle_s);

/* Replaces the key, of any type, by a string or JSON value with this payload. expire_ms 0: no TTL. */
void entry_set_payload(struct call *call, struct entry *entry, enum type type, struct bytes payload,
                       uint64_t expire_ms);
/* Replaces the key, of any type, by an empty collection with a new version and no TTL. To be followed by entry_save. */
void entry_create(struct call *call, struct entry *entry, enum type type);
/* Writes the metadata row after a change of `meta`; size 0 deletes the key, except streams. */
void entry_save(struct call *call, struct entry *entry);
/* As entry_save, when fields have expired: the change was made by no client. */
void entry_save_expired(struct call *call, struct entry *entry);
/* Writes the metadata row without reporting a change, because the value is the same. */
void entry_save_untold(struct call *call, struct entry *entry);
/* Reports a keyspace event, in any room. */
void entry_event(struct call *call, const struct entry *entry, enum notify_class class,
                 const char *name);
/* Reports a change when only rows of the collection changed, and not its metadata row. */
void entry_touch(struct call *call, struct entry *entry);
/* Adds to the changes in INFO. An entry that a client's command saves or deletes counts as one change; redis-server counts elements in
 * many commands, and a key that moves as one. The command adds the difference, which may be negative. */
void call_changes(struct call *call, int64_t more);
/* Reports that a consumer group of the stream was deleted. */
void entry_group_deleted(struct call *call, const struct entry *entry);
/* Deletes the key in O(1); the rows of a collection are dropped by compaction. */
void entry_delete(struct call *call, struct entry *entry);
/* Changes only the expiry time; 0 removes it. */
void entry_set_expire(struct call *call, struct entry *entry, uint64_t expire_ms);

/* The prefix of all rows of the collection, in the call's arena. It is unique: no collection of any partition ever has
 * the same prefix. */
struct bytes entry_prefix(struct call *call, struct entry *entry);
/* A hash of entry_prefix() that needs no pass over its bytes. */
static inline uint64_t entry_hash(const struct entry *entry)
{
    return entry->hash ^ entry->meta.version * 0x9e3779b97f4a7c15;
}
/* Read and change rows of a collection. `sub` is a field or member; `cf` is the column family of the rows. sub_get: 0,
 * ERR_NOT_FOUND, or a read failure (is_read_failure; the error was replied). The value is borrowed until the command
 * ends. */
int sub_get(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
            struct bytes *value);
void sub_put(struct call *call, struct entry *entry, enum cf cf, struct bytes sub,
             struct bytes value);
/* sub_put for many rows, as long as the call goes on; values NULL: they are empty. A row costs less, because its place in memory is on its
 * way to the CPU while the rows before are put. */
void sub_put_rows(struct call *call, struct entry *entry, enum cf cf, const struct bytes *subs,
                  const struct bytes *values, size_t count);
void sub_delete(struct call *call, struct entry *entry, enum cf cf, struct bytes sub);
/* Deletes all rows with from <= sub < to by one range delete; meant for many rows. */
void sub_delete_range(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                      struct bytes to);

/* Iterates over a collection's rows from `from` (empty: the first), forwards or backwards; fields of a hash that have expired
 * are skipped.
 *     struct sub_iter it;
 *     for (sub_iter_init(call, entry, CF_DATA, from, &it); sub_iter_next(&it);) use(it.sub, it.value);
 *     sub_iter_fini(&it);     false: the store failed (error replied)
 * sub and value are borrowed until the next step. No effects may be made while it is open. */
struct sub_iter {
    struct call *call;
    struct entry *entry;
    struct overlay_iter *iter;
    size_t prefix_len;
    bool is_missing; /* rows of another shard must be fetched first; `iter` is NULL */
    bool reverse;
    bool started;
    struct bytes sub;
    struct bytes value;
    struct overlay_iter *ttls; /* TTLs of a hash, in the order of the fields; NULL: none are read */
    uint64_t expire_ms;        /* of the field, if `ttls` are read; 0: none */
};
void sub_iter_init(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                   struct sub_iter *it);
void sub_iter_init_reverse(struct call *call, struct entry *entry, enum cf cf, struct bytes from,
                           struct sub_iter *it);
/* Over the fields of a hash, forwards, with their TTLs. */
void sub_iter_init_ttls(struct call *call, struct entry *entry, struct bytes from,
                        struct sub_iter *it);
/* Continues at another position, in the same direction. */
void sub_iter_seek(struct sub_iter *it, struct bytes from);
bool sub_iter_next(struct sub_iter *it);
bool sub_iter_fini(struct sub_iter *it);

/* Iterates over the metadata rows of a storage namespace in (slot, key) order, from the row after (slot, key) or from the
 * beginning; expired keys, and slots that the partition does not serve, are skipped. If all keys are borrowed (borrow_all.h), those of
 * other shards are included. Borrowed until the next step; no effects may be made while it is open. */
struct key_iter {
    struct call *call;
    struct space *space;
    struct overlay_iter *iter;
    struct bytes key;
    uint16_t slot;
    struct metadata meta;
    bool started;
    bool is_over_shards;
    /* over shards: so many names are fetched if they are missing; the default fits a slot */
    uint32_t wanted;
    /* over shards: the row before which names of all shards are here; empty: all are */
    struct bytes end;
};
/* Begins at `slot_from`; in that slot, after the key `after` (data NULL: at the first key). */
void key_iter_init(struct call *call, struct space *space, uint16_t slot_from, struct bytes after,
                   struct key_iter *it);
bool key_iter_next(struct key_iter *it);
bool key_iter_fini(struct key_iter *it);

/* For commands that concern all keys of a storage namespace: false: a transaction over shards has locked one, or the
 * command writes and a slot is frozen; it waits, or an error was replied. If the command may borrow keys, it borrows all of them. */
bool keyspace_is_free(struct call *call, struct space *space);

/* For WATCH: false: a transaction over shards that may change the key has locked it, and the command waits for its end, but
 * for half of lock-timeout at most. */
bool keyspace_await_writer(struct call *call, struct bytes row_key);
/* For INFO: false: transactions over shards are prepared here, whose effects are about to be counted, and the command waits for their
 * end, but for half of lock-timeout at most, and not if one is in doubt. */
bool keyspace_await_prepared(struct call *call, const struct space *space);
/* The command shows how many keys the storage namespace has: its reply waits until they are durable. */
void keyspace_observe_size(struct call *call, const struct space *space);
/* Number of keys of a storage namespace; with those of other shards if they are borrowed. */
uint64_t keyspace_size(const struct space *space);
/* The metadata row of the key at this place (< space->keys) among those of the partition, in the arena; expired keys are counted but
 * skipped. False: there is none, or the store failed. */
bool keyspace_key_at(struct call *call, struct space *space, uint64_t place, struct bytes *row_key);
/* Removes all keys of a storage namespace, in the slots that the partition serves and in those that are borrowed, in O(runs of these
 * slots). */
void keyspace_flush(struct call *call, struct space *space);
/* Reports that all keys of the storage namespace are about to be removed. */
void keyspace_tell_flush(struct call *call, struct space *space);
/* SWAPDB of two databases of a namespace. */
void keyspace_swap(struct call *call, struct bytes name, uint8_t a, uint8_t b);
/* For EXEC: was a watched key changed, or has it expired? */
bool keyspace_watch_dirty(struct call *call, struct watcher *watcher);
/* The block that holds a value borrowed from the store, or a big one of a buffer, so that a reply can refer to it after the
 * command without a copy; borrowed until the command ends. NULL: the value is in no block. */
struct block *keyspace_block(struct call *call, struct bytes value);
/* Releases the values borrowed by a command; dispatch calls it after every handler. */
void keyspace_end(struct partition *partition);
/* A loop over keys, paths or items frees what it has allocated in the call's arena, and the values that it has read, after each of
 * them: mark, work, release. What was read or allocated before the mark stays. Values that were put stay in any case. */
struct call_mark {
    struct arena_mark arena;
    size_t pins;
};
struct call_mark keyspace_mark(const struct call *call);
void keyspace_release(struct call *call, const struct call_mark *mark);

/* True when the expiry time is before call->now_ms. A key still exists in the millisecond of its expiry. */
static inline bool keyspace_expired(const struct call *call, uint64_t expire_ms)
{
    return expire_ms != 0 && call->now_ms > expire_ms;
}
