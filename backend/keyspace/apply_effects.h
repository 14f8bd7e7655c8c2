/*
 * apply_effects.h - applies effects that a transaction over shards has computed, as if a command had made them here.
 *
 * Also updates what depends on the written rows: the counters of keys, and the time of the earliest expiry.
 */
#pragma once

#include "backend/format/effects.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct partition;
struct space;

/* Lets an import count keys without reading them: while one sender writes the keys of an empty slot in ascending order, a row
 * above `row` is new. All zero: no row has come. */
struct ascending_rows {
    const struct space *space; /* NULL: not known */
    uint16_t slot;
    char *row; /* heap; no metadata row of the slot is greater */
    size_t len, cap;
};

void ascending_rows_clear(struct ascending_rows *rows);

/* Writes the effects into the open batch. False: the bytes are not valid, or the store cannot be read; the caller rolls
 * back. */
bool apply_effects(struct partition *partition, struct bytes effects);
/* The same effect by effect: opens the reader for apply_next_effect. False: the bytes are not valid. */
bool apply_effects_open(struct partition *partition, struct bytes effects,
                        struct effects_reader *reader);
/* Writes the next effect into the open batch. *bytes: of its rows; 0: none is left. False: as apply_effects. */
bool apply_next_effect(struct partition *partition, struct effects_reader *reader, size_t *bytes);
/* As apply_effects, for slots that only effects with these `rows` change. After false `rows` is cleared. */
bool apply_ascending_effects(struct partition *partition, struct bytes effects,
                             struct ascending_rows *rows);
/* Reads the next effect, and the metadata row of the key that it changes, which is borrowed from the effects or in the arena; a key may
 * be named several times. If it deletes all keys of a database, *row_key is the prefix of these rows (lock.h). READ, END, or DAMAGED: no
 * command has such an effect. */
enum effects_read effects_next_key(struct effects_reader *reader, struct arena *arena,
                                   struct bytes *row_key);
/* Calls on_flush, perhaps several times, for each storage namespace of which the effects delete all keys. False: the bytes are not
 * valid. */
bool effects_each_flush(struct bytes effects, void (*on_flush)(void *owner, struct bytes space),
                        void *owner);
