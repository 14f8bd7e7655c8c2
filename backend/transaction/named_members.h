/*
 * named_members.h - finds which members or fields of its keys a command names, so that a shard need not send the others.
 *
 *   ZADD key NX 1 a 2 b ─► a, b        HDEL key f ─► f        EXPIRE key 60 ─► none        SMEMBERS key ─► any
 */
#pragma once

#include "shared/command/command.h"

/* The arguments first, first + step, … of the request are members. */
struct named_members {
    uint32_t first;
    uint32_t step;
};

/* Returns true if the command usually reads only the elements in *members; others that it reads are fetched when it runs. Returns
 * false if it may need any element. */
bool named_members_find(const struct command *command, const struct bytes *argv, uint32_t argc,
                        struct named_members *members);
