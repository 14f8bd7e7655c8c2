/*
 * transaction_record.h - rows of transactions over shards (CF_SYSTEM), and the id of such a transaction.
 *
 *   '2' 'd' | id   → u8 1 | per participant: u8 length, name of the shard     decision, at the coordinator: committed
 *   '2' 'p' | id   → u8 2 | u32 length, changes (change_list.h) | effects (effects.h)   prepared, at a participant
 *   '2' 'a' | id   → u8 1 | u32 reported   some of the prepared effects are applied, and the others must be, at a participant. The changes in
 *                                      the first `reported` bytes of the prepared ones were reported
 *   '2' 'f' | id   → u8 1 | u8 1 commit, 0 abort | u8 1: the decision differs forced by an operator, at a participant
 *
 * Older programs wrote prepared records without changes: u8 1 | effects. Their changes need not be reported after a start: a key is
 * locked until its effects are applied, so that no client of the new process has read it, watches it or waits for it.
 *
 *   id: u8 length | name of the coordinator's shard | u8 length | run id of its process | u64 number, big-endian
 *
 * A transaction whose coordinator has no decision is aborted, so no row says that.
 */
#pragma once

#include "shared/arena.h"
#include "shared/shard_map.h"

#include <stdbool.h>

enum {
    RUN_ID_MAX = 40,
    TRANSACTION_ID_BYTES_MAX = 2 + SHARD_NAME_MAX + RUN_ID_MAX + 8,
    TRANSACTION_ID_TEXT_MAX = SHARD_NAME_MAX + 1 + RUN_ID_MAX + 1 + 20 + 1,
};

struct transaction_id {
    char shard[SHARD_NAME_MAX + 1];
    char run_id[RUN_ID_MAX + 1];
    uint64_t number;
};

enum transaction_record {
    TRANSACTION_APPLYING = 'a',
    TRANSACTION_DECIDED = 'd',
    TRANSACTION_PREPARED = 'p',
    TRANSACTION_FORCED = 'f',
};

/* Writes the id; returns its length. */
size_t transaction_id_write(const struct transaction_id *id, char to[TRANSACTION_ID_BYTES_MAX]);
/* False: the bytes are no id. */
bool transaction_id_read(struct bytes bytes, struct transaction_id *id);

/* Writes the id as operators see it: shard/run id/number. */
void transaction_id_print(const struct transaction_id *id, char to[TRANSACTION_ID_TEXT_MAX]);

/* The key of a row. */
struct bytes encode_transaction_key(struct arena *arena, enum transaction_record record,
                                    const struct transaction_id *id);
/* False: the row is no such record. */
bool decode_transaction_key(struct bytes row, enum transaction_record *record,
                            struct transaction_id *id);
/* All these rows have from <= row < to. */
struct bytes transaction_rows_from(void);
struct bytes transaction_rows_to(void);

struct bytes encode_prepared(struct arena *arena, struct bytes effects, struct bytes changes);
/* Both are borrowed from the row; a record of an older program has no changes. */
bool decode_prepared(struct bytes value, struct bytes *effects, struct bytes *changes);
struct bytes encode_applying(struct arena *arena, uint32_t reported);
bool decode_applying(struct bytes value, uint32_t *reported);
struct bytes encode_forced(struct arena *arena, bool is_commit, bool differs);
bool decode_forced(struct bytes value, bool *is_commit, bool *differs);
/* Decisions are written in pieces: the head, then each name. */
struct bytes encode_decision(struct arena *arena, const char *const *shards, size_t count);
/* Begins to read a decision: *names are the names, for decode_next_name. */
bool decode_decision(struct bytes value, struct bytes *names);
/* False: no name is left. */
bool decode_next_name(struct bytes *names, struct bytes *name);
