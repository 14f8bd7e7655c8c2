/*
 * byte_order.h - integers as bytes: big-endian in keys and rows, so that they sort as numbers; little-endian in files,
 * which are never sorted.
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define BYTE_ORDER_PAIR(name, type, to_order, from_order)                                          \
    static inline void put_##name(char *to, type value)                                            \
    {                                                                                              \
        value = to_order(value);                                                                   \
        memcpy(to, &value, sizeof value);                                                          \
    }                                                                                              \
    static inline type get_##name(const char *from)                                                \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return from_order(value);                                                                  \
    }

BYTE_ORDER_PAIR(be16, uint16_t, htobe16, be16toh)
BYTE_ORDER_PAIR(be32, uint32_t, htobe32, be32toh)
BYTE_ORDER_PAIR(be64, uint64_t, htobe64, be64toh)
BYTE_ORDER_PAIR(le16, uint16_t, htole16, le16toh)
BYTE_ORDER_PAIR(le32, uint32_t, htole32, le32toh)
BYTE_ORDER_PAIR(le64, uint64_t, htole64, le64toh)
#undef BYTE_ORDER_PAIR
