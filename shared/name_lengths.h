/*
 * name_lengths.h - which lengths the names of a set have, and how many names have each.
 *
 * Who looks for all names that a text begins with asks once for each of these lengths, however many names there are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: no names. */
struct name_lengths {
    struct name_length *items; /* ascending; heap */
    size_t count;
    size_t room;
};

struct name_length {
    size_t len;   /* in bytes */
    size_t names; /* at least 1 */
};

void name_lengths_free(struct name_lengths *lengths);
void name_lengths_add(struct name_lengths *lengths, size_t len);
/* One name of this length, which was added, is gone. */
void name_lengths_remove(struct name_lengths *lengths, size_t len);
bool name_lengths_have(const struct name_lengths *lengths, size_t len);
