/*
 * cbor.h - JSON text of a value in CBOR (RFC 8949), the form in which Kvrocks can store JSON.
 *
 *   a2 61 61 01 61 62 f5  ──►  {"a":1,"b":true}
 *
 * Integers beyond 64 bits, which are in CBOR as tagged bytes, become texts, as Kvrocks shows them. Refused is what JSON does not have:
 * bytes, dates, undefined, NaN and infinity, and names of members that are no texts.
 */
#pragma once

#include "shared/arena.h"

enum { CBOR_DEPTH_MAX = 1024, CBOR_BIG_BYTES_MAX = 128 };

/* False: the bytes are damaged, or have no form in JSON. */
bool cbor_to_json(struct arena *arena, struct bytes cbor, struct bytes *json);
