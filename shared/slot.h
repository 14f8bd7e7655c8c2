/*
 * slot.h - key -> one of 16384 slots: CRC16 (XMODEM) of the key, or of its {tag}.
 * Redis Cluster specification: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
 */
#pragma once

#include "shared/bytes.h"

enum { SLOT_COUNT = 16384 };

/* CRC16-CCITT (XMODEM): polynomial 0x1021, initial 0; slice-by-8. */
uint16_t slot_crc16(struct bytes data);
/* The part of the key that is hashed: the content of the first non-empty {...}, or the whole key. */
struct bytes slot_tag(struct bytes key);
uint16_t slot_of(struct bytes key);
