/*
 * backup_status.h - what a shard replies to SCREE BACKUP STATUS.
 *
 * Shards keep the result of their last backup, so every proxy can read it, whichever proxy has led the backup, and also after
 * a restart.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

/* State of one shard. Texts lie in the frame. */
struct shard_status {
    bool is_silent;
    bool is_held;
    struct bytes state;
    struct bytes backup; /* that runs; empty: none */
    struct bytes id;     /* of the backup that runs */
    struct bytes last_backup;
    struct bytes last_status;
    struct bytes last_error;
    struct bytes waits_for; /* why the shard is not quiet; empty: it is */
    struct bytes moment;    /* at which it has cut; empty: it has not */
    bool may_copy;          /* it follows closely, and can make the files of a backup */
    bool knows_copies;      /* its version can leave the files to such a copy */
    uint64_t last_s;        /* when its last backup ended, Unix time; 0: none has */
    uint64_t done;
    uint64_t total;
};

struct shard_status backup_status_read(struct bytes frame);

enum { CLUSTER_RESULT_REASON_MAX = 512 };

/* The last backup of the cluster, as its shards report it. */
struct cluster_result {
    const char *status;   /* "": there was none; "ok", "err", or "unknown" if a shard is silent */
    struct bytes running; /* name of a backup that runs; empty: none */
    struct bytes state;   /* of a shard that takes part in it */
    struct bytes name;    /* of the last backup; lies in the request's replies */
    uint64_t ended_s;     /* Unix time */
    uint32_t shards;      /* shards of the map */
    uint32_t good;        /* shards on which the last backup succeeded */
    uint64_t done;        /* bytes, over all shards */
    uint64_t total;
    char reason[CLUSTER_RESULT_REASON_MAX];
};

/* Merges the replies of all shards to STATUS. */
void backup_status_merge(const struct request *request, struct cluster_result *result);
