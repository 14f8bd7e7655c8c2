/*
 * plain_read.h - which commands a copy that follows may answer with fresh data: those that read keys that they name, and reply at once.
 *
 *   GET, MGET, HGETALL, ZRANGE …   yes      EVAL_RO, XREAD, SORT_RO, SCAN, DBSIZE, KEYS   no: the copy that leads has what they need
 */
#pragma once

#include "shared/command/command.h"
#include "shared/command/keys.h"

static inline bool command_is_plain_read(const struct command *command)
{
    enum {
        OTHERS = CMD_WRITE | CMD_MAY_REPLICATE | CMD_PUBSUB | CMD_SCRIPT | CMD_BLOCKING |
                 CMD_ADMIN | CMD_TOUCHES_ARBITRARY_KEYS
    };
    return (command->flags & (CMD_READONLY | OTHERS)) == CMD_READONLY &&
           !(command->traits & (TRAIT_UNNAMED_KEYS | TRAIT_WHOLE)) && keys_possible(command);
}
