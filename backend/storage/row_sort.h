/*
 * row_sort.h - sorts rows of a write buffer by their keys.
 *
 *   rows ─► (head, row) each ─► in order already, or backwards? ─► else sorted by head, then by key
 *
 * Most of the cost is CPU cache misses, because rows lie in memory in the order in which they were written. So sorting
 * compares 8 bytes of each key (head) that are stored beside the row's address, and accesses rows only if heads are
 * equal. The bytes are taken from positions where keys differ: in name:000000012345 the digits after the zeroes.
 */
#pragma once

#include "backend/storage/write_buffer.h"

/* A row with distinguishing bytes of its key as a big-endian number; zeroes after a short key. */
struct sorted_row {
    uint64_t head;
    struct row *row;
};

/* Sorts `count` rows with different keys, whose heads need not be set; `room` is for twice as many. Returns where the result begins in
 * it. */
struct sorted_row *row_sort(struct sorted_row *room, size_t count);
