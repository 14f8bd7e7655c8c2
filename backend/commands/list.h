/*
 * list.h - what the list commands share: rows at both ends of a list.
 *
 *            head                         tail            (of the metadata row)
 *             ▼                            ▼
 *   …  │     │ a │ b │ c │  …  │ y │ z │     │  …         row `index` → element, head <= index < tail
 *             ◄──────── size ─────────►
 *
 * A new list begins at UINT64_MAX / 2, so that both ends can grow for ever. Rows are contiguous: an element is found
 * by its index, and a walk begins at head and ends before tail, never in the remains of what was taken.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum list_end { LIST_HEAD, LIST_TAIL };

/* Reads LEFT or RIGHT; replies a syntax error. */
bool list_end_parse(struct call *call, uint32_t index, enum list_end *end);
/* A row's sub key, in the call's arena. */
struct bytes list_row(struct call *call, uint64_t index);
/* The element of a row that must be there. False: an error was replied. */
bool list_get(struct call *call, struct entry *entry, uint64_t index, struct bytes *value);
/* Adds an element; follow with entry_save. */
void list_push_end(struct call *call, struct entry *entry, enum list_end end, struct bytes value);
/* Removes `count` elements (<= size) at an end; follow with entry_save. */
void list_cut(struct call *call, struct entry *entry, enum list_end end, uint64_t count);
/* Removes the rows first, first + 1 … and nothing else. */
void list_drop_rows(struct call *call, struct entry *entry, uint64_t first, uint64_t count);
/* Replies `count` elements (<= size) from an end on, without the array's head. False: an error was replied. */
bool list_reply(struct call *call, struct entry *entry, enum list_end end, uint64_t count);
/* Elements were taken from an end: saves, and tells the event, and "del" when the list is empty now. */
void list_removed_from(struct call *call, struct entry *entry, enum list_end end);
