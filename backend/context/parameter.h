/*
 * parameter.h - Redis 7.0's configuration parameters, which clients and tools ask for and set.
 *
 * Some stand for an option of our own (kind OWN), a few are read by name (config_snapshot_number), old names are
 * aliases. Others tune what this storage does not have (sizes of buffers, of encodings, of replication): they are
 * checked, remembered and shown. What would promise something that does not happen, such as a limit or a snapshot, can
 * have one value only (`only`).
 */
#pragma once

#include "shared/bytes.h"

enum parameter_kind {
    PARAMETER_INT,    /* min to max */
    PARAMETER_BYTES,  /* a size such as 64mb; shown as a number */
    PARAMETER_BOOL,   /* yes, no */
    PARAMETER_WORD,   /* one of `words` */
    PARAMETER_TEXT,   /* anything */
    PARAMETER_EVENTS, /* classes of notify-keyspace-events */
    PARAMETER_LIMITS, /* output_limit.h; the classes that are not named stay */
    PARAMETER_FIXED,  /* cannot be changed */
    PARAMETER_ALIAS,  /* `initial` is the name that has the value */
    PARAMETER_OWN,    /* `initial` is the key of our own option */
};

enum { PARAMETER_MAX = 192 }; /* rows of the table, at most */

struct parameter {
    const char *name;
    enum parameter_kind kind;
    const char *initial;
    int64_t min; /* INT */
    int64_t max;
    const char *words; /* WORD: "a, b, c" */
    const char *
        only; /* why `initial` (of BYTES: 0) is the only value, since another one would have no effect; NULL: is not */
};

/* The table, sorted by name. */
extern const struct parameter parameters[];
extern const size_t parameters_count;

/* By name in any case, aliases resolved; NULL when unknown. */
const struct parameter *parameter_find(struct bytes name);
static inline size_t parameter_index(const struct parameter *parameter)
{
    return (size_t)(parameter - parameters);
}
/* May clients inside a namespace read the parameter? False for paths, addresses, names and limits of the process. */
bool parameter_is_public(const struct parameter *parameter);
/* May the parameter, not an OWN one, have this value? false: Redis' reason in error[size]. */
bool parameter_check(const struct parameter *parameter, struct bytes value, char *error,
                     size_t size);
