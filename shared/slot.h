/*
 * slot.h - key -> one of 16384 slots: CRC16 (XMODEM) of the key, or of its {tag}.
 * Redis Cluster specification: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
 */
#pragma once

#include "shared/bytes.h"

enum { SLOT_COUNT = 16384 };

/* The sum of slot_term over a set of slots, limited to SLOT_SUM_MASK, identifies the set: two different sets have almost certainly
 * different sums. */
#define SLOT_SUM_MASK (UINT64_MAX >> 1)
#define SLOT_SUM_ALL  UINT64_C(0x1752558d629f1fd0) /* of all slots, each once */
uint64_t slot_term(uint16_t slot);

/* CRC16-CCITT (XMODEM): polynomial 0x1021, initial 0; slice-by-8. */
uint16_t slot_crc16(struct bytes data);
/* The part of the key that is hashed: the content of the first non-empty {...}, or the whole key. */
struct bytes slot_tag(struct bytes key);
uint16_t slot_of(struct bytes key);
