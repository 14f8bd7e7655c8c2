/*
 * change_list.h - changes of keys that a transaction over shards makes at a participant, as they are sent with its effects and
 * stored beside them (transaction_record.h).
 *
 *   u8 length | name of the client's tracking (tracking_name.h), empty: none
 *   per change: u8 kind | u8 type | u8 1: by a command, 0: by expiry | u32 length | metadata row of the key
 *
 * The numbers of kinds (change.h) and types (types.def) are stored, so they never change. Integers are big-endian.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/tracking_name.h"

#include <stdbool.h>
#include <stdint.h>

struct out;

struct listed_change {
    uint8_t kind; /* enum change_kind */
    uint8_t type; /* enum type */
    bool by_client;
    struct bytes row_key; /* of the key; when it is read: borrowed from the list */
};

/* Begins a list in `out`, which is empty; `client` has at most TRACKING_NAME_MAX bytes. */
void change_list_begin(struct out *out, struct bytes client);
void change_list_put(struct out *out, const struct listed_change *change);

struct change_list {
    struct bytes client;
    struct bytes rest; /* changes that were not read yet */
};

/* Begins to read; no bytes at all are a list without changes. False: the bytes are not valid. */
bool change_list_open(struct bytes bytes, struct change_list *list);
/* Reads the next change. False: there is none, and the rest is empty; or the rest is not valid. */
bool change_list_next(struct change_list *list, struct listed_change *change);
