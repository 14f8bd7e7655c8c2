/*
 * commands.h - the commands that make a key in the target.
 *
 *   a value that came whole:  SET k text PXAT ms │ RESTORE k ms payload REPLACE ABSTTL
 *   a value in parts:         DEL k │ RPUSH k 1000 elements │ … │ PEXPIREAT k ms │ EXISTS k
 *   a long string:            DEL k │ SETRANGE k offset 64 KiB, where they are not zeros │ … likewise
 *
 * RESTORE's payload is the value as it stands in the file, between its type byte and a footer: nothing is decoded. A command for a
 * part has at most COMMAND_WORDS_MAX words and about COMMAND_BYTES_MAX bytes.
 */
#pragma once

#include "backend/copy/lanes.h"
#include "backend/format/rdb_file.h"

enum { COMMAND_WORDS_MAX = 1024, COMMAND_BYTES_MAX = 512 * 1024 };

/* Where a key goes. */
struct destination {
    struct lane *lane;
    uint64_t db;
    struct bytes key;
    bool replaces; /* a key that exists; else it is kept */
};

/* Sends a key that came whole. False: the value is damaged. */
bool commands_key(const struct destination *to, const struct rdb_file *file,
                  const struct rdb_item *item);
/* Sends a part and the end of a key in parts. */
bool commands_part(const struct destination *to, const struct rdb_file *file,
                   const struct rdb_item *item);
void commands_end(const struct destination *to, const struct rdb_file *file);
/* Deletes a key that has expired at the source. */
void commands_delete(const struct destination *to);
/* Sends one command; the words are copied. */
struct request *commands_send(const struct destination *to, enum request_kind kind,
                              const struct bytes *words, uint32_t count);
