/*
 * borrow_all.h - all keys of a database, also those of other shards, for a command, script or EXEC over shards: KEYS, SCAN,
 * DBSIZE, RANDOMKEY, FLUSHDB, FLUSHALL.
 *
 *   keyspace_is_free ─► ALL to every shard that owns slots ─► the database is locked there (lock.h), and its keys are counted
 *   key_iter_next    ─► NAMES, a page at a time            ─► the metadata rows, without values, are in the write buffer
 *   keyspace_random  ─► PLACE to one shard                 ─► the name of a key
 *
 * (1) Each shard is told the slots that it is expected to own, and refuses if it owns others. So together with the own ones
 *     they are all slots, each once; and no slot moves while the database is locked.
 * (2) What the attempt itself has written and deleted follows the rows in the write buffer, so the command sees it.
 * (3) Keys of the database may neither change nor appear at any shard until the transaction ends: it sees one moment.
 */
#pragma once

#include "backend/keyspace/borrow.h"

enum { ALL_NAMES = INT32_MAX }; /* a page without a limit */

/* Are all keys of the database locked, here and at the other shards? False: they will be, and the command runs again. */
bool borrow_all(struct call *call, struct space *space, enum lock_mode mode);
/* Was borrow_all true for this database in this attempt or an earlier one? */
bool borrow_has_all_keys(const struct call *call, const struct space *space);
/* The row before which names of all shards are here, from this row on; empty: all that follow are here. Borrowed. */
struct bytes borrow_names_end(const struct call *call, const struct space *space, struct bytes row);
/* The shards that have sent no names behind `end` send about so many, or ALL_NAMES. The command runs again. */
void borrow_names(struct call *call, const struct space *space, struct bytes row, uint32_t count);
/* Number of keys at other shards when they were locked. */
uint64_t borrow_keys_elsewhere(const struct call *call, const struct space *space);
/* The metadata row of the key at this place among those of other shards; empty: it has expired. False: it is fetched, and the command
 * runs again. */
bool borrow_key_at(struct call *call, const struct space *space, uint64_t place,
                   struct bytes *row_key);
/* Calls on_run for each run of slots that one shard owns. */
void borrow_each_run(const struct call *call,
                     void (*on_run)(void *owner, uint16_t first, uint16_t last), void *owner);

/* ---- for borrow.c ---- */

void borrow_clear_all(struct borrow *borrow);
bool borrow_install_all(struct borrow *borrow, struct partition *partition);

/* ---- for the coordinator ---- */

/* Takes the answer to ALL, NAMES or PLACE. *next: names follow from this row on, and are to be fetched; else empty. False: the answer
 * is not valid. */
bool borrow_add_answer(struct borrow *borrow, const struct need *need, struct bytes answer,
                       struct bytes *next);

/* ---- for a participant ---- */

/* Why the question cannot be answered; NULL: it can. */
const char *borrow_refuse_all(const struct partition *partition, enum need_kind kind,
                              struct bytes question);
/* Writes the answer about the locked database. False: rows could not be read, or are uncached. */
bool borrow_answer_all(struct call *call, struct space *space, enum need_kind kind,
                       struct bytes question, struct out *answer);
