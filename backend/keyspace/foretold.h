/*
 * foretold.h - keys that a script will probably use next, so that those of other shards are fetched together.
 *
 *   SMEMBERS replied a b c d e f … ─► items        the script opens job:b:lock, which is not here
 *                                       └────────► job: + b + :lock ─► job:c:lock, and next time 4, 16, 64 … further ones
 *   it opened n:1, and opens n:2 ────────────────► n:3, and next time 4, 16, 64 … further ones
 *
 * A guess that is wrong costs a lock and a row that are not used; there are at most three times as many as keys that were used, or fifteen
 * times after 256 items of a list. A missing key costs a run of the script, so there are few runs: 7 for 10 000 keys, and 7 for 69 000.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct foretold;

struct foretold *foretold_new(void);
/* NULL is allowed. */
void foretold_free(struct foretold *foretold);
/* Memory of the items. */
size_t foretold_memory(const struct foretold *foretold);
/* The script runs again: forgets the items, but not how far ahead each kind of key was foretold. */
void foretold_begin(struct foretold *foretold);
/* Items of a reply that the script got (RESP), or its arguments; they are copied, up to some megabytes. */
void foretold_add_reply(struct foretold *foretold, struct bytes frame);
void foretold_add_words(struct foretold *foretold, const struct bytes *words, uint32_t count);
/* An item whose text is not copied: it stays where it is until foretold_begin. */
void foretold_add_item(struct foretold *foretold, struct bytes item);
/* A key that is foretold. False: it is not counted, because it is here. */
typedef bool foretold_fn(void *owner, struct bytes key);
/* Calls the function with keys that probably follow this one, at most until it has counted `max`. */
void foretold_next(struct foretold *foretold, struct bytes key, uint32_t max, foretold_fn *on_key,
                   void *owner);
