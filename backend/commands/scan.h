/*
 * scan.h - SCAN, HSCAN and their sisters: one walk from a cursor, with COUNT and MATCH.
 */
#pragma once

#include "backend/context/call.h"
#include "backend/format/encoding.h"
#include "backend/store/store.h"

/* SCAN of a collection of this type: argument 1 the key, argument 2 the cursor. Replies sub keys, each followed by
 * its value when `with_values`. A small collection comes whole. */
void scan_collection(struct call *call, enum type type, enum cf cf, bool with_values);
/* The same; a row's value is replied as value_of makes it (NULL: without values). */
typedef struct bytes scan_value_fn(struct call *call, struct bytes value);
void scan_collection_as(struct call *call, enum type type, enum cf cf, scan_value_fn *value_of);
