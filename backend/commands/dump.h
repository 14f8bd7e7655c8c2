/*
 * dump.h - the types whose RDB form has a file of its own.
 */
#pragma once

#include "backend/keyspace.h"
#include "backend/rdb.h"

/* Writes type byte and value. False: an error was replied. */
bool dump_list(struct call *call, struct entry *entry, struct rdb_writer *writer);
/* Is this RDB type a list? */
bool restore_is_list(uint8_t type);
/* Puts the elements into the new, empty list. False: bad data, or a store error (already replied). */
bool restore_list(struct call *call, struct entry *entry, struct rdb_reader *reader, uint8_t type);
