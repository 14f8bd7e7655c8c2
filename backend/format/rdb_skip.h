/*
 * rdb_skip.h - finds where values end in RDB format, without decoding them.
 *
 *   stream:  count │ id, listpack │ … │ tail: ids, counts, groups with their pending entries and consumers
 *   module:  id │ opcode, part │ … │ END
 *
 * A function returns false for missing (reader->missing) or invalid bytes.
 */
#pragma once

#include "backend/format/rdb.h"

bool rdb_is_stream(uint8_t type);
/* Skips what stands behind the nodes of a stream. */
bool rdb_skip_stream_tail(struct rdb_reader *reader, uint8_t type);
/* Skips a module's parts, and their end; the id has been read. */
bool rdb_skip_module(struct rdb_reader *reader);
