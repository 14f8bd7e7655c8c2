/*
 * big_memory.h - memory for values of many megabytes.
 *
 *   big_alloc ─┬─ few bytes ─► malloc
 *              └─ many ──────► a mapping of its own: it grows without a copy, and goes back to the system when it is freed
 *
 * Its pages are small. Huge ones would save page faults, but the system may have to move much other memory for each.
 */
#pragma once

#include <stddef.h>

/* Not zeroed; NULL: there is no memory. */
void *big_alloc(size_t bytes);
/* `bytes`: as they were asked for last. NULL is allowed. */
void big_free(void *memory, size_t bytes);
/* The same bytes with room for `more`, at another place. NULL: that takes a copy, which the caller makes; `memory` stays. */
void *big_grow(void *memory, size_t bytes, size_t more);
/* As memcpy, for memory that may be new: the system maps all pages of a big copy at once, which takes half of the time of a fault
 * for each. */
void big_copy(void *to, const void *from, size_t bytes);
