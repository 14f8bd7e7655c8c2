/*
 * borrow.h - keys of other shards that a command uses: fetched from their owners, and present while the command runs.
 *
 *   keyspace_open(key of another shard) ─► needed ─► the command waits, and is rolled back (retry.h)
 *                                            │
 *                         the coordinator locks the key at its owner and fetches rows (coordinator.h)
 *                                            ▼
 *                         rows come ─► they are in the transaction's view (view.h), at the place that they have at their owner
 *                                            ▼
 *   the command runs again, inside the view ─► … ─► its effects are collected from the view, and dropped there
 *
 * A small collection is fetched as a whole. Of a big one the metadata row is fetched, and then the rows that commands read,
 * or the whole collection when a command iterates over it. Of a collection of which the commands name the members that they use
 * (named_members.h), these are fetched with its metadata row. Rows that do not exist are fetched as deleted rows.
 */
#pragma once

#include "backend/context/refusal.h"
#include "backend/context/tally.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/need.h"
#include "backend/keyspace/script_keys.h"

/* Refusals of LOCK. */
#define SLOT_IS_ELSEWHERE REFUSAL(ELSEWHERE, "it does not own the key's slot")
#define SLOT_IS_LEAVING   REFUSAL(LEAVING, "it is handing the key's slot over to another shard")

/* A command over shards locks the keys among its arguments some thousand at a time (lock_ahead.h): where the next slice begins. */
struct slice_ahead {
    uint32_t next; /* number of the first key that is not locked yet */
    uint32_t keys; /* in a slice; 0: no slice has begun, or all keys are locked */
};

struct borrow {
    struct table *keys;            /* borrowed, by metadata row: struct borrowed */
    struct borrowed_space *spaces; /* of which all keys are borrowed */
    struct need_set needs;         /* of this attempt */
    struct foretold *foretold; /* keys that a script will probably use; NULL: nothing is known */
    struct list wants;  /* the wait of the command's session, while something is needed (retry.h) */
    struct view *view;  /* rows that were fetched; NULL: none yet */
    size_t bytes;       /* of these rows, and of the names of keys */
    size_t row_bytes;   /* of these rows alone */
    struct tally tally; /* of all that the transaction holds at this shard, locks included */
    size_t held;        /* in the tally: what borrow_clear frees, besides needs */
    size_t foretold_held; /* in the tally: of `foretold` */
    bool is_dirty;        /* a watched key has changed */
    bool is_closed;       /* the command can no longer be rolled back */
    /* a script wrote one of the keys that it declares, so all of them are locked for writing */
    bool has_declared;
    bool has_guessed;                /* keys were guessed (script_keys.h) */
    bool is_without_guesses;         /* they have stopped the transaction before */
    const struct call *script;       /* the script that runs now, or the function; NULL: none */
    struct script_keys *script_keys; /* of the partition */
    struct slice_ahead ahead;
    /* takes part in the locking of this partition's own keys */
    struct lock_owner *owner;
};

/* `budget`: of the partition; `memory_max`: command-memory. */
struct borrow *borrow_new(struct lock_owner *owner, struct call_budget *budget, size_t memory_max);
/* NULL is allowed. */
void borrow_free(struct borrow *borrow);
/* Forgets all keys and rows. */
void borrow_clear(struct borrow *borrow);
/* Has a key of another shard been needed so far? */
static inline bool borrow_is_used(const struct borrow *borrow)
{
    return borrow && (borrow->keys || borrow->spaces);
}

/* An attempt begins. */
void borrow_begin(struct borrow *borrow);
/* The words of a script's call, from which it may make names of keys. */
struct script_words borrow_script_words(const struct space *space, const struct bytes *argv,
                                        uint32_t argc);
/* After an attempt that needed nothing more: which guesses were right? */
void borrow_judge_guesses(const struct borrow *borrow);
/* Does it still wait for a key that was guessed? */
bool borrow_misses_guesses(const struct borrow *borrow);
/* After an attempt that could not go on: guesses that have not come, or all if together they were too much, may be why. */
void borrow_blame_guesses(const struct borrow *borrow);
/* A script got this reply (RESP) to a command, or these arguments: keys that it needs later may have names of the list. */
void borrow_note_reply(struct borrow *borrow, struct bytes frame);
void borrow_note_words(struct borrow *borrow, const struct bytes *words, uint32_t count);

/* No key may be needed any more: the command can no longer be rolled back. */
void borrow_close(struct borrow *borrow);

/* ---- for keyspace.c ---- */

/* OK, or ERR_RETRY: the key must be fetched. ERR_STORE: it cannot be, and an error was replied. */
int borrow_key(struct call *call, const struct entry *entry, bool writes);
/* The command changes a key that it has opened for reading: it is locked for writing before the command runs again. */
void borrow_change(struct call *call, const struct entry *entry);

/* What is known of the use of a key before the command runs. */
struct borrow_use {
    bool writes;
    /* a script declares the key: when it writes one of these, all are locked for writing */
    bool may_write;
    bool is_bare; /* only the members are needed for which borrow_member is called */
};
/* Before the command runs: the key is needed, with all its elements if they are few, unless it is_bare in all its uses. */
void borrow_ahead(struct call *call, const struct entry *entry, const struct borrow_use *use);
void borrow_member(struct call *call, const struct entry *entry, struct bytes member);
/* Before a script runs: it will probably use this key, which it does not declare. `pattern`: of script_keys_judge. */
void borrow_guess(struct call *call, const struct entry *entry, bool writes, uint32_t pattern);
/* Reads a row of a borrowed key: OK, ERR_NOT_FOUND, or ERR_RETRY: it must be fetched. */
int borrow_get(struct call *call, const struct entry *entry, enum cf cf, struct bytes row,
               struct slice *value);
/* Watches a key of this space at its owner, or (CHECK) locks all keys that this watcher watches there, and sets is_dirty.
 * OK, or ERR_RETRY: not yet. */
int borrow_watch(struct call *call, enum need_kind kind, struct space *space, uint16_t slot,
                 struct bytes row_key, struct bytes watcher);
/* The command waits until the coordinator ends the wait. */
void borrow_wait(struct call *call);
/* Counts memory that borrow_clear will free. */
void borrow_hold(struct borrow *borrow, size_t bytes);
/* Memory of so many rows, and of so many bytes of them, while an attempt runs. */
size_t borrow_memory(size_t rows, size_t bytes);
/* Adds a need, unless the attempt has it. */
void borrow_need(struct call *call, const struct need *wanted);
/* Was the metadata row of the key fetched? Then its lock is held. */
bool borrow_has_key(const struct borrow *borrow, struct bytes row_key);
/* Are all rows of the key in this column family here? Else they must be fetched. */
bool borrow_has_all(struct call *call, const struct entry *entry, enum cf cf, struct bytes prefix);

/* ---- for the coordinator ---- */

/* Does each of these rows (effects.h) belong to the key of one of the needs, in their order? Else the shard that was asked for them sent
 * rows of keys that may be at other shards. */
bool borrow_rows_are_valid(const struct need *needs, struct bytes rows);
/* Rows that have arrived and are valid, which are copied. */
void borrow_add_rows(struct borrow *borrow, struct bytes effects);
/* The key is locked in this mode, and its metadata row has arrived; bit 1 << cf of `whole`: all rows of that column
 * family. */
void borrow_add_key(struct borrow *borrow, struct bytes row_key, enum lock_mode mode,
                    unsigned whole);
/* A NEED_WATCH or NEED_CHECK of this key was met. */
void borrow_add_watch(struct borrow *borrow, struct bytes row_key, enum need_kind kind);
/* All rows of the column family have arrived. */
void borrow_add_range(struct borrow *borrow, struct bytes row_key, enum cf cf);
/* The transaction's attempts run in it. Lives as long as `borrow`. */
struct view *borrow_view(struct borrow *borrow);
