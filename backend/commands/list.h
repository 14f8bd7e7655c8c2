/*
 * list.h - shared by the list commands: rows at both ends of a list.
 *
 *            head                         tail            (of the metadata row)
 *             ▼                            ▼
 *   …  │     │ a │ b │ c │  …  │ y │ z │     │  …         row `index` → element, head <= index < tail
 *             ◄──────── size ─────────►
 *
 * A new list begins at UINT64_MAX / 2, so that both ends can grow practically without limit. Rows are contiguous: an
 * element is found by its index, and iterators begin at head and end before tail, so that they do not pass the
 * tombstones of popped elements.
 */
#pragma once

#include "backend/keyspace/keyspace.h"

enum list_end { LIST_HEAD, LIST_TAIL };

/* Parses LEFT or RIGHT; false: a syntax error was replied. */
bool list_end_parse(struct call *call, uint32_t index, enum list_end *end);
/* The sub key of a row, in the call's arena. */
struct bytes list_row(struct call *call, uint64_t index);
/* Reads the element of a row that must exist. False: an error was replied. */
bool list_get(struct call *call, struct entry *entry, uint64_t index, struct bytes *value);
/* Adds an element; the caller must call entry_save afterwards. */
void list_push_end(struct call *call, struct entry *entry, enum list_end end, struct bytes value);
/* Adds elements behind the last one, as long as the call goes on; the caller must call entry_save afterwards. */
void list_push_tails(struct call *call, struct entry *entry, const struct bytes *values,
                     uint64_t count);
/* Removes `count` elements (<= size) at an end; the caller must call entry_save afterwards. */
void list_cut(struct call *call, struct entry *entry, enum list_end end, uint64_t count);
/* Deletes the rows first, first + 1 …; changes no metadata. */
void list_drop_rows(struct call *call, struct entry *entry, uint64_t first, uint64_t count);
/* Replies `count` elements (<= size) from an end on, without the array header. False: an error was replied. */
bool list_reply(struct call *call, struct entry *entry, enum list_end end, uint64_t count);
/* Call after elements were removed from an end: saves the entry and notifies, also "del" when the list is empty. */
void list_removed_from(struct call *call, struct entry *entry, enum list_end end);
