/*
 * stray_moves.h - moves strays, keys that lie here in slots that another shard owns, to the owners of their slots.
 *
 *   slots with strays ─► keys with all rows ─► a page ─ KEYS_PUT ─► the owner writes them ─ durable ─┐
 *    (stray_scan.h)                        (stray_page.h)          deleted here ◄────────────────────┘
 *
 * (1) A key is deleted here when its owner has replied that it has the key durably. So a failure at any moment leaves the key
 *     here, or at both; then the command can simply be given again. It asks first what the owner has taken, and no key is put twice:
 *     what a client has deleted or changed at the owner stays so.
 * (2) Strays do not change: no command sees them. Slots that arrive here, or that are being deleted after a move, have no
 *     strays.
 * (3) A key that the owner has with another value stays here, unless the operator has said which one is to be kept.
 * (4) One page is on its way at a time, with at most migration-rate bytes a second.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;
struct stray_moves;

enum stray_wish {
    STRAYS_CHECK,   /* move nothing: count, and list the keys that the owners have */
    STRAYS_MOVE,    /* leave keys here that the owners have */
    STRAYS_REPLACE, /* replace the owners' keys */
    STRAYS_KEEP,    /* keep the owners' keys, and delete those here */
};

struct stray_moves *stray_moves_new(struct partition *partition);
/* NULL is allowed. */
void stray_moves_free(struct stray_moves *strays);
/* The store was recovered: what is running ends. */
void stray_moves_load(struct stray_moves *strays);
/* Begins. NULL, or the reason of a refusal. */
const char *stray_moves_begin(struct stray_moves *strays, enum stray_wish wish);
/* Ends it. If the owner of a page that was sent is not in the map, the page is given up soon after: its keys may be sent again. */
void stray_moves_stop(struct stray_moves *strays, const char *reason);
/* A line for the partition, then one for each key that its owner has, for SCREE STRAYS STATUS: calls on_line. Returns the number of
 * lines. */
uint32_t stray_moves_list(const struct stray_moves *strays,
                          void (*on_line)(void *owner, const char *line), void *owner);
