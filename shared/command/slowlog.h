/*
 * slowlog.h - the entries of SLOWLOG and COMMANDLOG: slow commands, large requests and large replies, newest first.
 *
 *   newest ─► {id 7, µs or bytes, arguments cut, client} ◄─► {id 6 …} ◄─► … at most len_max ◄─ oldest
 *
 * Arguments are cut as in Redis: the first 32, the first 128 bytes of each, then a note. If the command ran on several
 * shards, a further argument says so: "(on 3 shards)". Used by both programs; not thread-safe.
 */
#pragma once

#include "shared/command/command.h"

#include <stdint.h>

/* Valkey's COMMANDLOG has a log of each kind; SLOWLOG is the first. */
enum slowlog_kind { SLOWLOG_SLOW, SLOWLOG_LARGE_REQUEST, SLOWLOG_LARGE_REPLY, SLOWLOG_KINDS };

/* One slow command; its texts follow it in the same allocation. */
struct slow_entry {
    struct slow_entry *next;  /* the next older entry */
    struct slow_entry *newer; /* NULL: this is the newest */
    uint64_t id;
    uint64_t at_s;       /* wall clock time */
    uint64_t usec;       /* bytes, in the logs of large requests and replies */
    uint64_t shard_usec; /* part of the time that shards worked on the command; only in the proxy */
    struct bytes peer;
    struct bytes name;  /* the client's name */
    struct bytes space; /* the client's namespace; empty: none */
    struct bytes shard; /* the shard that replied last; empty: no shard replied */
    uint32_t argc;
    struct bytes argv[];
};

struct slowlog {
    struct slow_entry *newest;
    struct slow_entry *oldest;
    uint64_t count;
    uint64_t next_id;
};

/* Input of slowlog_push. */
struct slow_command {
    uint64_t at_s;
    uint64_t usec;
    uint64_t shard_usec;
    struct bytes peer;
    struct bytes name;
    struct bytes space;
    struct bytes shard;
    const struct command *command; /* defines which arguments are secret; NULL: none are */
    const struct bytes *argv;
    uint32_t argc;
    uint32_t shards;  /* on which the command ran; 0: not known */
    uint32_t missing; /* number of arguments after argv[argc - 1] that are no longer in memory */
    /* number of bytes at the end of argv[argc - 1] that are no longer in memory */
    size_t last_cut;
};

/* Selects the entries of one namespace, or all (NULL). */
typedef const struct bytes *slowlog_space;

/* Adds an entry; keeps the newest `len_max`. */
void slowlog_push(struct slowlog *log, const struct slow_command *slow, uint64_t len_max);
/* Moves all entries of `from`, as if they were pushed now. */
void slowlog_take(struct slowlog *log, struct slowlog *from, uint64_t len_max);
void slowlog_reset(struct slowlog *log, slowlog_space space);
uint64_t slowlog_count(const struct slowlog *log, slowlog_space space);
/* The first entry of this namespace from `entry` on; NULL at the end. */
const struct slow_entry *slowlog_next(const struct slow_entry *entry, slowlog_space space);

enum { SLOWLOG_ERROR_MAX = 256 };
/* Parses the count of SLOWLOG GET [count]; -1 means all. False: Redis' error is in `error`. */
bool slowlog_parse_get(const struct bytes *argv, uint32_t argc, int64_t *count,
                       char error[SLOWLOG_ERROR_MAX]);
/* Parses the kind in argument `at` of COMMANDLOG, and for GET the count before it. False: Valkey's error is in `error`. */
bool commandlog_parse(const struct bytes *argv, uint32_t at, enum slowlog_kind *kind,
                      int64_t *count, char error[SLOWLOG_ERROR_MAX]);
/* Replies SLOWLOG GET with this count. */
void slowlog_reply(const struct slowlog *log, slowlog_space space, int64_t count,
                   struct reply *reply);
/* Writes the six elements of an entry; the caller has written the array's header. */
void slowlog_reply_entry(const struct slow_entry *entry, struct reply *reply);
