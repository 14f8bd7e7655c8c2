/*
 * backup_copies.h - which copies of the shards take part in a backup: the one that leads holds, and one that follows may make the files.
 *
 *              asked: STATUS                 PREPARE            CONFIRM                    CONFIRM, when the copy has ended
 *   shard a   leader ── leads ─────────────► ELSEWHERE                                    ► bytes
 *             copy   ── follows closely ───► COPY               ► moment of the leader
 *             copy   ── is behind
 *   shard b   leader ── no copy can ───────► (makes the files)  ►
 *
 * Of several copies the one is chosen that has made a backup last, so that files that have not changed become links. One that has failed is
 * chosen again for the next backup, so that its record, which an alert watches, is good again when the reason is gone. If some refuse, fail or are
 * lost, their leaders make the files in the next attempt; if others do so in that, all leaders in the one after. One that has begun to lead after CONFIRM goes on.
 */
#pragma once

#include "proxy/client/fan_out.h"
#include "proxy/cluster/backup_status.h"
#include "shared/backup_name.h"
#include "shared/shard_map.h"

/* The part that copies which follow have in the backup of one shard. */
struct backup_copier {
    char address[SHARD_ADDRESS_MAX + 1]; /* that makes the files; empty: the copy that leads does */
    char moment[BACKUP_MOMENT_MAX];      /* as the leader named it */
    uint64_t bytes;
    uint64_t silent_ms; /* since when it does not answer; monotonic; 0: it does */
    uint64_t ended_s;   /* when the last backup of the chosen one ended, while it is chosen */
    bool is_known;      /* the leader can only hold: it is not of an older version */
    bool has_failed;    /* in this attempt */
};

struct backup_copies {
    struct backup_copier *of; /* by shard; NULL: the leaders do everything */
    uint32_t count;
    bool has_dropped; /* copies have failed in an attempt before */
};

/* Whom a command goes to. */
enum backup_role {
    BACKUP_ROLE_ALL, /* who takes part */
    BACKUP_ROLE_LEADERS,
    BACKUP_ROLE_FILES,   /* who makes files */
    BACKUP_ROLE_HOLDERS, /* leaders whose files another copy makes */
};

/* Sends the command to all copies of all shards: those of a shard one after the other, its leader first. argv[name_at], if not 0, becomes its name. */
void backup_ask_all_copies(struct request *request, const struct bytes *argv, uint32_t argc,
                           uint32_t name_at, request_done_fn *done);
/* Chooses from the replies of all copies to STATUS. */
void backup_copies_choose(struct backup_copies *copies, const struct request *request);
void backup_copies_free(struct backup_copies *copies);
bool backup_copies_any(const struct backup_copies *copies);
/* NULL: the leader of this shard makes its files. */
struct backup_copier *backup_copier_of(const struct backup_copies *copies, uint32_t shard);
/* Is it this copy that makes the files of its shard, and not the leader as such? */
bool backup_copier_is(const struct backup_copies *copies, const struct node *node);
/* Can the copy that makes the shard's files be reached at an address of the map? */
bool backup_copies_has_node(const struct backup_copies *copies, const struct proxy_worker *worker,
                            uint32_t shard);
/* Leaders make the files of shards whose copies have failed (has_failed) from now on; and those of all shards if copies have failed in an
 * attempt before: what they failed of may be of the whole backend, and each attempt costs all shards. */
void backup_copies_drop_failed(struct backup_copies *copies);
/* Sends PREPARE to who takes part, with its role added. */
void backup_copies_prepare(struct backup_copies *copies, struct request *request,
                           const struct bytes *argv, uint32_t argc, uint32_t name_at,
                           request_done_fn *done);
/* Sends a command to these. False: there are none, and the request, which no client has sent, is released. */
bool backup_copies_send(const struct backup_copies *copies, struct request *request,
                        enum backup_role role, const struct bytes *argv, uint32_t argc,
                        request_done_fn *done);
/* Sends CONFIRM with what each one needs for it; see BACKUP_ROLE_FILES and _HOLDERS. False likewise. */
bool backup_copies_confirm(const struct backup_copies *copies, struct request *request,
                           enum backup_role role, const char *id, request_done_fn *done);
/* "a=10.0.0.2:7401 …" for shards whose files copies make; empty: there are none. */
void backup_copies_print(const struct backup_copies *copies, const struct shard_map *map,
                         char *text, size_t size);
