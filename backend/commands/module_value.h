/*
 * module_value.h - values of a module's type in DUMP and RESTORE: a head and rows, each as a string.
 *
 *   │ module, version │ mark and metadata │ row: sub key and value │ row │ … │ end │
 *
 * It is a form of our own. The mark says so: payloads of the module itself are refused.
 */
#pragma once

#include "backend/commands/types.h"
#include "backend/keyspace/keyspace.h"

/* Writes everything; of the rows those whose sub key is below `end` (empty: all). */
bool module_save(struct call *call, struct entry *entry, struct rdb_writer *writer,
                 const char *module, const char *mark, struct bytes end);

/* Reads the head; `metadata` is borrowed from the reader. */
bool module_read_head(struct rdb_reader *reader, const char *mark, struct bytes *metadata);
/* Puts a row into the key. False: the row is damaged, or the call has failed. `object`: the open value. */
typedef bool module_row_fn(struct call *call, struct entry *entry, void *object, struct bytes row);
/* Reads all rows after the head. */
bool module_read_rows(struct call *call, struct entry *entry, struct rdb_reader *reader,
                      module_row_fn *put, void *object);
/* Writes a row of CF_DATA and counts it in the entry's size. False: the key has it already, or the call has failed. */
bool module_put_row(struct call *call, struct entry *entry, struct bytes sub, struct bytes value);
