/*
 * backup_list.h - the backups of the cluster, made of the LIST replies of all shards.
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
    char slots[BACKUP_SLOTS_MAX + 1]; /* empty: all */
    uint64_t taken_ms;                /* the newest time of its shards */
    uint64_t bytes;
    uint32_t shards;   /* number of shards that have it */
    uint32_t parts;    /* of some slots: number of shards that must have it */
    uint32_t found_in; /* number of the last shard that has it, while replies are merged */
};

struct backup_list {
    struct listed_backup *items; /* oldest first */
    size_t count;
    uint32_t shards; /* shards of the map */
    uint32_t silent; /* shards whose leader did not answer with a list */
};

/* Sends LIST to all copies of all shards, because each may have made files; in the request's `done`, backup_list_read reads the replies. */
typedef void backup_listed_fn(struct client *client, struct request *request, struct reply *reply);
void backup_list_ask(struct request *request, backup_listed_fn *done);
void backup_list_read(const struct request *request, struct backup_list *list);
void backup_list_free(struct backup_list *list);
/* Deletes the backups that are neither among the newest `keep` complete ones nor younger than `days`, then calls `done`.
 * `keep` 0 counts as 1, so one complete backup always stays; `days` 0: none is kept for its age. Backups of some slots only are not
 * counted, and never deleted. Deletes nothing when a shard did not answer. */
void backup_keep(struct proxy_worker *worker, uint32_t keep, uint32_t days,
                 void (*done)(struct proxy_worker *worker));
