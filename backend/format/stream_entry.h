/*
 * stream_entry.h - an entry of a stream as a row: per string, varint length | bytes (field, value, field, value ...).
 */
#pragma once

#include "shared/arena.h"

struct bytes stream_entry_encode(struct arena *arena, const struct bytes *strings, uint32_t count);
/* Counts the strings. False: the row is damaged. */
bool stream_entry_count(struct bytes row, uint32_t *count);
/* Takes the next string from the front of a row that is not empty. */
bool stream_entry_next(struct bytes *row, struct bytes *string);
