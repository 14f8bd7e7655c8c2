/*
 * borrow_all.h - gives a script, EXEC or command over shards all keys of a database, with those of other shards: for KEYS, SCAN,
 * DBSIZE, RANDOMKEY, FLUSHDB, FLUSHALL.
 *
 *   keyspace_is_free ─► ALL to every shard that owns slots ─► the database is locked there (lock.h), and its keys are counted
 *   key_iter_next    ─► NAMES, a page at a time            ─► the metadata rows, without values, are in the view (view.h)
 *   keyspace_random  ─► PLACE to one shard                 ─► the name of a key
 *
 * (1) ALL names the slots that the shard is expected to own, and the shard refuses if it owns others. So every slot is counted once, at
 *     one shard; and no slot moves while the database is locked.
 * (2) In the view the attempt's own writes and deletions are above the rows from other shards, so the command sees these.
 * (3) The keys of the database cannot change at any shard until the transaction ends, so the command sees one state of all of them.
 */
#pragma once

#include "backend/keyspace/borrow.h"

enum { ALL_NAMES = INT32_MAX }; /* a page without a limit */

/* Are all keys of the database locked, here and at the other shards? False: the locks were requested, and the command runs again. */
bool borrow_all(struct call *call, struct space *space, enum lock_mode mode);
/* Was borrow_all true for this database in this attempt or an earlier one? */
bool borrow_has_all_keys(const struct call *call, const struct space *space);
/* From `row` up to the returned row, the names of all shards have been fetched; empty: up to the end. Borrowed. */
struct bytes borrow_names_end(const struct call *call, const struct space *space, struct bytes row);
/* Requests about `count` further names, or ALL_NAMES, from the shards whose fetched names from `row` on end first. The command runs
 * again. */
void borrow_names(struct call *call, const struct space *space, struct bytes row, uint32_t count);
/* Number of keys at the other shards when the database was locked there. */
uint64_t borrow_keys_elsewhere(const struct call *call, const struct space *space);
/* Finds the metadata row of key number `place` of those at other shards; empty: this key has expired. Returns false if the row was
 * requested and the command runs again. */
bool borrow_key_at(struct call *call, const struct space *space, uint64_t place,
                   struct bytes *row_key);
/* borrow_key_at has requested a place that was drawn at random, and the command runs again with the same numbers: the places of so many
 * further draws are worth a request (borrow_key_ahead), because a script that draws many keys would run once for each. The more,
 * the more of those of the last time it has used. */
uint32_t borrow_draws_ahead(const struct call *call, const struct space *space);
/* Requests the row at the place, unless it is here, or no shard has such a place. */
void borrow_key_ahead(struct call *call, const struct space *space, uint64_t place);
/* Calls on_run for each run of slots that one shard owns. */
void borrow_each_run(const struct call *call,
                     void (*on_run)(void *owner, uint16_t first, uint16_t last), void *owner);

/* ---- for borrow.c ---- */

void borrow_clear_all(struct borrow *borrow);
/* An attempt begins. */
void borrow_begin_all(const struct borrow *borrow);
/* Adds the names that were fetched for SCAN, if there are new ones, because a script uses the keys that it will get next as it used the
 * last ones. */
void borrow_foretell_scanned(const struct borrow *borrow, struct foretold *foretold);

/* ---- for the coordinator ---- */

/* An attempt has begun, or goes on: the keys at other shards count (space_count_elsewhere), of each database once in an attempt. */
void borrow_count_elsewhere(const struct borrow *borrow, struct partition *partition);
/* Adds the answer to ALL, NAMES or PLACE. *next: the row from which further names must be fetched; empty: none. Returns false if the
 * answer is not valid. */
bool borrow_add_answer(struct borrow *borrow, const struct need *need, struct bytes answer,
                       struct bytes *next);

/* ---- for a participant ---- */

/* Returns why the question cannot be answered, or NULL if it can. */
struct refusal borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                                 struct bytes question);
/* Writes the answer about the database, which is locked. Returns false if rows could not be read, or are uncached. */
bool borrow_answer_all(struct call *call, struct space *space, enum need_kind kind,
                       struct bytes question, struct out *answer);
