/*
 * stream_commands.h - the commands that make a long stream from its parts.
 *
 *   node   XADD k id field value …            for each entry that is not deleted
 *   tail   XSETID k last ENTRIESADDED n MAXDELETEDID id
 *          XGROUP CREATE k group last ENTRIESREAD n │ XGROUP CREATECONSUMER k group consumer
 *          XCLAIM k group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID
 *
 * No command makes a pending entry of a message that is deleted: such are counted (REQUEST_CLAIM). The groups are held whole.
 */
#pragma once

#include "backend/copy/commands.h"

/* Reads `count` nodes. False: they are damaged. */
bool stream_commands_nodes(const struct destination *to, struct rdb_reader *reader, uint64_t count);
bool stream_commands_tail(const struct destination *to, struct rdb_reader *reader, uint8_t type);
