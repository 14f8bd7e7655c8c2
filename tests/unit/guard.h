/*
 * guard.h - a copy of bytes whose end is the end of readable memory: one byte too far is a crash.
 *
 *   [ readable pages ......... copied bytes|][ PROT_NONE page ]
 */
#pragma once

#include <stddef.h>

struct guard {
    char *map;
    size_t map_len;
    char *data; /* the copy */
    size_t len;
};

void guard_init(struct guard *guard, const void *data, size_t len);
void guard_fini(struct guard *guard);
