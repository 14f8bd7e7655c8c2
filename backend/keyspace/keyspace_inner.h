/*
 * keyspace_inner.h - what the files of the keyspace share (keyspace.h).
 *
 *   keyspace.c ───────► opens keys and changes them
 *   key_lock.c ───────► waits for keys that a transaction over shards has locked
 *   sub_rows.c ───────► rows of a collection
 *   pinned.c ─────────► values borrowed from the store, until the command ends
 *   keyspace_all.c ───► all keys of a storage namespace: iterating, FLUSHDB, SWAPDB, size
 */
#pragma once

#include "backend/keyspace/keyspace.h"

struct overlay_iter;
struct slice;

static const struct bytes NOTHING = {"", 0};

/* ---- keyspace.c ---- */

/* A row's value, borrowed until the command ends. A read failure is replied. */
int entry_row_get(struct call *call, const struct entry *entry, enum cf cf, struct bytes key,
                  struct bytes *value);

/* ---- key_lock.c ---- */

bool call_writes(const struct call *call);
/* Does the command open the key to write it? Sources of SUNIONSTORE, for example, are opened to be read. */
bool opens_for_writing(const struct call *call, enum open_flag flags);
/* Has another transaction locked the key, in any way? */
bool key_is_locked(const struct call *call, struct bytes row_key);
/* May the command use this key of the partition? False: it waits for a lock, or an error was replied. A command that may
 * borrow keys takes its own ones by age from the first attempt on: that attempt requests locks of other shards already, and
 * a command that held these while it waited for a key as ordinary commands do could wait for ever. */
bool key_lock_pass(struct call *call, struct bytes row_key, enum open_flag flags);
/* A command that may borrow keys has requested the lock of an own one: it waits, and will run again. If it cannot, because it is a slow
 * script whose effects stay, it is refused. */
void borrow_wait_for_lock(struct call *call, struct bytes row_key);

/* ---- pinned.c ---- */

/* Keeps the value, whose `pin` is not NULL, until the command ends. */
void pin_value(struct partition *partition, const struct slice *slice);

/* ---- sub_rows.c ---- */

/* Frees the iterator. False: the store failed, which is replied, or the command must end (goes_on.h). */
bool close_iter(struct call *call, struct overlay_iter *iter);
