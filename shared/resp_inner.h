/*
 * resp_inner.h - what the scanner of requests and the skipper of replies share (resp.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHORTEST_BULK = 6 }; /* "$0\r\n\r\n" */

/* Reads the number of a header "<type>n\r\n" of one to three digits, the usual case. Reads at most 6 bytes and does
 * not check the '\n'. Returns the header's length; 0 when it has another form. */
static inline size_t resp_short_count(const char *at, uint32_t *count)
{
    uint32_t first = (uint32_t)(unsigned char)at[1] - '0';
    if (first > 9)
        return 0;
    *count = first;
    if (at[2] == '\r')
        return 4;
    uint32_t second = (uint32_t)(unsigned char)at[2] - '0';
    if (first == 0 || second > 9)
        return 0;
    *count = first * 10 + second;
    if (at[3] == '\r')
        return 5;
    uint32_t third = (uint32_t)(unsigned char)at[3] - '0';
    *count = *count * 10 + third;
    return third <= 9 && at[4] == '\r' ? 6 : 0;
}
