/*
 * merge_sort.h - a stable sort that can be ended: for arrays whose length a client chooses.
 *
 * qsort cannot be ended, since its comparisons may not lie, and takes its memory from malloc. Here the buffer is in an arena, so it
 * counts, and the arena's meter is asked after each pass over a part of the array.
 *
 * An array of few parts that are in order each, such as the rows of several collections one after the other, takes a pass for each
 * doubling of their number; one that is in order takes as many comparisons as it has elements, and no memory.
 */
#pragma once

#include "shared/arena.h"

/* As that of qsort_r. */
typedef int merge_compare_fn(const void *a, const void *b, void *owner);

/* Sorts `count` elements of `size` bytes. False: the arena's meter is over, and the elements are in any order. */
bool merge_sort(struct arena *arena, void *elements, size_t count, size_t size,
                merge_compare_fn *compare, void *owner);
