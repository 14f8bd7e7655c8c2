/*
 * backup.h - one backup of one partition at a time, made while it serves.
 *
 *   IDLE ─ prepare ─► PREPARING ──► READY ─ cut ─► DRAINING ──► CUTTING ──► COPYING ──► COPIED ─ confirm ─► SEALING
 *     ▲               memory to                    what is in   hard links  to the      (held back)         manifest
 *     │               files                        flight lands             directory                          │
 *     └────── failed, cancelled, nobody came back in time, done ◄──────────────────────────────────────────────┘
 *
 * Alone (backup_start) a partition goes through all of it by itself and holds nobody up: the cut is consistent anyway.
 *
 * Over a cluster a proxy leads all shards (proxy/backup.h). `cut` with a lease holds every write of this partition from
 * before the cut until `release`, or until the lease is over: then the release says so, and the backup is not
 * confirmed. When all shards have cut and all releases found their hold unbroken, there was a moment at which every
 * shard was held and had cut: no write after it is in the backup, and none before it is missing, whoever's proxy it
 * went through.
 *
 * The files of the cut (links in `<data>/cut-partition-N`) are copied; unchanged ones become links to the newest
 * backup.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct backup;
struct partition;
struct reply;

struct backup_plan {
    struct bytes name;  /* of the backup */
    struct bytes shard; /* empty: the partition's name */
    struct bytes id;    /* empty: a new one */
    struct bytes map;   /* shards.ini; empty: alone */
    bool is_full;       /* every file is copied anew */
    int64_t keep;       /* alone: this many remain, older ones go; 0: all */
};

struct backup *backup_new(struct partition *partition);
/* Cancels and waits. NULL is allowed. */
void backup_free(struct backup *backup);
/* Backs this partition up, alone. This and the next four: NULL, or a reason to refuse. */
const char *backup_start(struct backup *backup, const struct backup_plan *plan);
const char *backup_prepare(struct backup *backup, const struct backup_plan *plan);
const char *backup_cut(struct backup *backup, struct bytes id, uint64_t lease_ms);
const char *backup_release(struct backup *backup, struct bytes id);
const char *backup_confirm(struct backup *backup, struct bytes id);
/* The one with this id, or (empty) whichever. False: it is not under way. */
bool backup_cancel(struct backup *backup, struct bytes id);
bool backup_is_running(const struct backup *backup);
/* A map of what is going on and what became of the last one. */
void backup_reply_status(const struct backup *backup, struct reply *reply);
void backup_reply_list(const struct backup *backup, struct bytes shard, struct reply *reply);
/* It is no backup any more; its files go in the background. NULL, or a reason to refuse. */
const char *backup_delete(struct backup *backup, struct bytes name, struct bytes shard);
/* The turn's end: the cut is made when nothing is in flight. */
void backup_turn_end(struct backup *backup);
/* Ten times a second: leases and patience end. */
void backup_tick(struct backup *backup);
