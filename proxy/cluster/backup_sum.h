/*
 * backup_sum.h - how far a backup is, from the replies of the shards to STATUS, and of the copies that make files in place of their leaders.
 */
#pragma once

#include "proxy/cluster/backup.h"
#include "proxy/cluster/backup_copies.h"
#include "proxy/core/request.h"

/* The backup that is asked for. */
struct backup_watch {
    const struct proxy_worker *worker;
    struct backup_copies *copies;
    const char *id;
    const char *name;
    bool is_confirmed; /* the holds are over: leaders that made only these do not count */
};

/* Sum over all shards. */
struct backup_sum {
    uint32_t ready;    /* shards that are prepared */
    uint32_t quiet;    /* shards without open transactions */
    uint32_t have_cut; /* shards that have cut and hold writes */
    uint32_t done;     /* shards that have written their manifest */
    uint32_t silent;
    uint32_t copies;      /* that make files */
    uint32_t holding;     /* leaders that only hold, and have not ended */
    bool has_failed_copy; /* copies that make files have failed (backup_copier.has_failed) */
    bool has_failed;
    char reason[BACKUP_REASON_MAX];
    char unquiet[BACKUP_REASON_MAX]; /* a shard that is not quiet, and why */
};

/* Adds one reply. */
void backup_sum_add(const struct backup_watch *watch, const struct shard_reply *answer,
                    const struct shard_status *status, struct backup_sum *sum);
/* After all replies: finds a copy that is no longer in the map. */
void backup_sum_end(const struct backup_watch *watch, struct backup_sum *sum);
