/*
 * backup.h - one backup of the whole cluster, led by one worker of one proxy.
 *
 *   PREPARE  every shard makes room and writes its memory to files                (seconds; nobody waits)
 *   CUT      every shard holds writes, lets what is in flight land, makes its cut  (milliseconds; writes wait)
 *   RELEASE  once ALL have cut: writes go on; every shard says whether its hold was unbroken until now
 *   CONFIRM  when all were: shards may put a manifest to their copy. Else CANCEL, and it is tried again.
 *   COPY     shards copy in the background; asked now and then how far they are
 *
 * The point of the backup is the moment at which the last answer to CUT had come: no shard executed a write between
 * its hold and its release, so all writes before that moment are in the cuts and none after it. This rests on the
 * shards alone and holds for writes through any proxy and for direct clients. A hold ends by itself after the lease, so
 * that a proxy that dies in between stops nobody for longer; its backup is never confirmed then. Two leaders at a time:
 * shards refuse the second one's PREPARE.
 *
 * Everything is said on connections of their own (LANE_CONTROL), where no held write is in front.
 */
#pragma once

#include "shared/backup_name.h"
#include "shared/net/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct proxy_worker;
struct reply;
struct request;

enum { BACKUP_LEASE_MS = 3000, BACKUP_LEASE_MAX_MS = 60000, BACKUP_REASON_MAX = 512 };

/* What is asked for. */
struct backup_wish {
    char name[BACKUP_NAME_MAX + 1];
    bool is_full;
    uint32_t keep;     /* complete backups that remain; 0: all */
    uint32_t lease_ms; /* how long shards may hold writes at most */
};

/* What a worker knows; workers tell each other by copies of it. */
struct backup_view {
    bool is_running;
    bool last_good;
    const char *step;
    char name[BACKUP_NAME_MAX + 1]; /* of the one that runs, or ran last; "": there was none */
    char reason[BACKUP_REASON_MAX]; /* why the last one failed */
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint32_t shards;
    uint32_t shards_done;
    uint64_t ended_ms; /* wall clock of the last one's end; 0: none has ended */
    uint64_t held_ms;  /* how long writes were held, at most */
};

struct cluster_backup;

/* Begins to lead: sends PREPARE for the client's request, and answers it when all shards have said what they think. */
void cluster_backup_lead(struct request *request, const struct backup_wish *wish);
/* False: this worker leads none. */
bool cluster_backup_stop(struct proxy_worker *worker, const char *reason);
void cluster_backup_look(const struct proxy_worker *worker, struct backup_view *view);
/* The worker is freed. */
void cluster_backup_free(struct proxy_worker *worker);
