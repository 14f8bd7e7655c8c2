/*
 * module_value.h - DUMP and RESTORE of types that are modules in Redis, such as Bloom filters: a head and rows, each as a string.
 *
 *   │ module, version │ mark and metadata │ row: sub key and value │ row │ … │ end │
 *
 * This format is Scree's own. The mark identifies it, so that a payload which Redis' module has written is refused.
 */
#pragma once

#include "backend/commands/types.h"
#include "backend/keyspace/keyspace.h"

/* Writes the head, and the rows whose sub key is below `end` (empty: all rows). */
bool module_save(struct call *call, struct entry *entry, struct rdb_writer *writer,
                 const char *module, const char *mark, struct bytes end);

/* Reads the head; `metadata` is borrowed from the reader. */
bool module_read_head(struct rdb_reader *reader, const char *mark, struct bytes *metadata);
/* Writes a row of the payload into the key. Returns false if the row is damaged or the call has failed. `object`: the open value. */
typedef bool module_row_fn(struct call *call, struct entry *entry, void *object, struct bytes row);
/* Reads the rows after the head and calls the function for each. */
bool module_read_rows(struct call *call, struct entry *entry, struct rdb_reader *reader,
                      module_row_fn *put, void *object);
/* Writes a row of CF_DATA and counts it in the entry's size. False: the key has it already, or the call has failed. */
bool module_put_row(struct call *call, struct entry *entry, struct bytes sub, struct bytes value);
