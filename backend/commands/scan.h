/*
 * scan.h - SCAN commands of collections: one page from a cursor, with COUNT and MATCH.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/format/encoding.h"
#include "backend/store/store.h"

/* SCAN of a collection of this type: argument 1 is the key, argument 2 the cursor. Replies sub keys, each followed
 * by its value when `with_values`. A small collection is replied in one page. */
void scan_collection(struct call *call, enum type type, enum cf cf, bool with_values);
/* Like scan_collection, but replies each value as converted by value_of (NULL: no values). */
typedef struct bytes scan_value_fn(struct call *call, struct bytes value);
void scan_collection_as(struct call *call, enum type type, enum cf cf, scan_value_fn *value_of);
