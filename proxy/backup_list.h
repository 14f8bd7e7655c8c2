/*
 * backup_list.h - which backups of the cluster there are: LIST of every shard, put side by side.
 *
 *   shard a: b1 b2 b3 ┐
 *   shard b: b1    b3 ┴─►  b1 2/2   b2 1/2 (interrupted)   b3 2/2        same name and same id: the same backup
 */
#pragma once

#include "shared/backup_name.h"

#include <stddef.h>
#include <stdint.h>

struct client;
struct proxy_worker;
struct reply;
struct request;

struct listed_backup {
    char name[BACKUP_NAME_MAX + 1];
    char id[BACKUP_ID_LEN + 1];
    uint64_t taken_ms; /* the newest of its shards' */
    uint64_t bytes;
    uint32_t shards; /* that have it */
};

struct backup_list {
    struct listed_backup *items; /* oldest first */
    size_t count;
    uint32_t shards; /* of the map */
    uint32_t silent; /* that did not answer with a list */
};

/* Asks; then, in the request's `done`, backup_list_read takes the answers. */
typedef void backup_listed_fn(struct client *client, struct request *request, struct reply *reply);
void backup_list_ask(struct request *request, backup_listed_fn *done);
void backup_list_read(const struct request *request, struct backup_list *list);
void backup_list_free(struct backup_list *list);
/* Deletes what is older than the newest `keep` complete ones, then calls `done`. Deletes nothing when a shard is
 * silent. */
void backup_keep(struct proxy_worker *worker, uint32_t keep,
                 void (*done)(struct proxy_worker *worker));
