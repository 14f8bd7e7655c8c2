/*
 * parameter.h - the configuration parameters of Redis 7.0, which clients and tools read and set.
 *
 * Some are options of the backend (kind OWN), a few are read by name (config_snapshot_number), old names are aliases.
 * Others are about features that this server does not have, such as replication or snapshots on a schedule. Their only
 * allowed value describes this server (`only` is the reason), so CONFIG SET never replies OK without an effect.
 */
#pragma once

#include "shared/bytes.h"

enum parameter_kind {
    PARAMETER_INT,         /* min to max */
    PARAMETER_BYTES,       /* a size such as 64mb; shown as a number */
    PARAMETER_BOOL,        /* yes, no */
    PARAMETER_WORD,        /* one of `words` */
    PARAMETER_TEXT,        /* anything */
    PARAMETER_EVENTS,      /* classes of notify-keyspace-events */
    PARAMETER_PERCENTILES, /* numbers from 0 to 100, separated by spaces */
    PARAMETER_LIMITS,      /* output_limit.h; classes that are not named keep their limits */
    PARAMETER_FIXED,       /* cannot be changed */
    PARAMETER_ALIAS,       /* `initial` is the name of the parameter with the value */
    PARAMETER_OWN,         /* `initial` is the key of the backend's option */
};

enum { PARAMETER_MAX = 192 }; /* upper limit of the table's length */

struct parameter {
    const char *name;
    enum parameter_kind kind;
    const char *initial;
    int64_t min; /* INT, BYTES */
    int64_t max;
    bool takes_percent; /* BYTES: Redis also takes a percentage */
    const char *words;  /* WORD: "a, b, c" */
    const char *only; /* why `initial` is the only allowed value; NULL: other values are allowed */
};

/* The table, sorted by name. */
extern const struct parameter parameters[];
extern const size_t parameters_count;

/* Finds a parameter by name, in any case and with aliases; NULL: unknown. */
const struct parameter *parameter_find(struct bytes name);
static inline size_t parameter_index(const struct parameter *parameter)
{
    return (size_t)(parameter - parameters);
}
/* May clients inside a namespace read the parameter? False for paths, addresses, names and limits of the process. */
bool parameter_is_public(const struct parameter *parameter);
/* May a parameter (not an OWN one) have this value? False: Redis' reason is in error[size]. */
bool parameter_check(const struct parameter *parameter, struct bytes value, char *error,
                     size_t size);
