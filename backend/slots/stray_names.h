/*
 * stray_names.h - lines of SCREE STRAYS STATUS that name keys which their owner has too: the first ones of a pass.
 */
#pragma once

#include <stdint.h>

struct partition;
struct sent_key;

enum { STRAY_NAMES_MAX = 100 };

struct stray_names {
    char *lines[STRAY_NAMES_MAX]; /* heap */
    uint32_t count;
};

void stray_names_clear(struct stray_names *names);
/* Adds a line for the key, unless there are enough. */
void stray_names_add(struct stray_names *names, struct partition *partition,
                     const struct sent_key *key);
void stray_names_each(const struct stray_names *names,
                      void (*on_line)(void *owner, const char *line), void *owner);
