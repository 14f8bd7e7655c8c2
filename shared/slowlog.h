/*
 * slowlog.h - the commands that took long, newest first, as SLOWLOG shows them.
 *
 *   newest ─► {id 7, µs, arguments cut, client} ─► {id 6 …} ─► … at most len_max
 *
 * Arguments are cut as Redis does: the first 32, of each the first 128 bytes, then a note. Both programs keep
 * one; not thread-safe.
 */
#pragma once

#include "shared/command.h"

#include <stdint.h>

/* One slow command; its texts lie behind it in the same allocation. */
struct slow_entry {
    struct slow_entry *next;
    uint64_t id;
    uint64_t at_s; /* wall clock */
    uint64_t usec;
    uint64_t shard_usec; /* of it, those a shard worked for it; the proxy's log only */
    struct bytes peer;
    struct bytes name;  /* of the client */
    struct bytes space; /* the client's namespace; empty: none */
    struct bytes shard; /* that answered last; empty: none did */
    uint32_t argc;
    struct bytes argv[];
};

struct slowlog {
    struct slow_entry *newest;
    uint64_t count;
    uint64_t next_id;
};

/* What goes into the log. */
struct slow_command {
    uint64_t at_s;
    uint64_t usec;
    uint64_t shard_usec;
    struct bytes peer;
    struct bytes name;
    struct bytes space;
    struct bytes shard;
    const struct command *command; /* its passwords are not shown; NULL: it has none */
    const struct bytes *argv;
    uint32_t argc;
    uint32_t missing; /* arguments behind argv[argc - 1] that are no longer known */
    size_t last_cut;  /* bytes at the end of argv[argc - 1] that are no longer known */
};

/* Whose entries are meant: those of one namespace, or all (NULL). */
typedef const struct bytes *slowlog_space;

/* Keeps the newest `len_max`. */
void slowlog_push(struct slowlog *log, const struct slow_command *slow, uint64_t len_max);
void slowlog_reset(struct slowlog *log, slowlog_space space);
uint64_t slowlog_count(const struct slowlog *log, slowlog_space space);
/* The next entry of that space from `entry` on; NULL at the end. */
const struct slow_entry *slowlog_next(const struct slow_entry *entry, slowlog_space space);

enum { SLOWLOG_ERROR_MAX = 256 };
/* The count of SLOWLOG GET [count], -1: all; false: Redis' error is in `error`. */
bool slowlog_parse_get(const struct bytes *argv, uint32_t argc, int64_t *count,
                       char error[SLOWLOG_ERROR_MAX]);
/* SLOWLOG GET with that count. */
void slowlog_reply(const struct slowlog *log, slowlog_space space, int64_t count,
                   struct reply *reply);
/* The six elements of an entry; the caller has written an array's header. */
void slowlog_reply_entry(const struct slow_entry *entry, struct reply *reply);
