/*
 * backup_moment.h - where a backup of one shard ends in its log, and whether a copy that follows can make the files for it.
 *
 *   leader   PREPARE ─────────── CUT: holds writes, names the moment: record 90 ── RELEASE ─► serves on
 *   copy     PREPARE: links its                                                  CONFIRM 90: waits until its data have
 *            tables, which have 80                                               record 90; log 81..90; copies the files
 *
 * Why this is the state of the whole cluster at one moment:
 * (1) The leaders of all shards name their moments while all of them hold their writes, as if each made its own cut (backup.h).
 * (2) The tables are linked before any leader is asked to cut. They have committed records only, and the leader has all of these: so they have none
 *     after its moment. A copy whose data are beyond the moment refuses it, because rows cannot be taken out of tables again.
 * (3) The log is written up to exactly the record of the moment, and not from before the links: so nothing is missing, and no later one is in it.
 * (4) The record is the same at all copies: the leader holds until it is committed, and what is committed has this index in the log of this
 *     name at every later leader. So it does not matter who leads afterwards. After FORCE the log has another name, and the copy refuses.
 * (5) Nothing has to be added to the records. A leader names its moment only when no transaction over shards is open there, so none is
 *     half in the backup. Which slots move is in rows, too; and the leaders check that all shards have the same map.
 * (6) A leader that does not lead in the term of its PREPARE, or whose lease is over, refuses to hold and to be released: so no other copy has
 *     served writes until then. With warm copies a record of the moment may never arrive: then the copy fails after a minute, and the leader
 *     makes the files in the next attempt.
 */
#pragma once

#include "shared/backup_name.h"
#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct partition;

struct backup_moment {
    uint64_t batch;     /* the last one; the manifest names it */
    uint64_t committed; /* the last record: that batch, or a later one that changes no key */
    uint64_t log_id;    /* name of the log; 0: it has none */
    uint64_t hybrid_us; /* time of the batch (hybrid_clock.h) */
    uint64_t taken_ms;  /* wall clock */
};

/* The present end of what is committed here. False: this copy follows, and its rows cannot be read. */
bool backup_moment_here(const struct partition *partition, struct backup_moment *moment);
/* Is this the log that the moment is of? */
bool backup_moment_is_of(const struct backup_moment *moment, const struct partition *partition);
/* Does a copy have everything up to the moment whose data have the records up to `committed`? */
bool backup_moment_is_reached(const struct backup_moment *moment, uint64_t committed);
void backup_moment_print(const struct backup_moment *moment, char text[BACKUP_MOMENT_MAX]);
/* False: it is no text of backup_moment_print. */
bool backup_moment_parse(struct bytes text, struct backup_moment *moment);
/* Why this partition cannot make the files of a backup for the copy that leads. NULL: it can; it follows closely. */
const char *backup_copy_refusal(const struct partition *partition);
/* The id of this copy among those of its shard; 0: there is one copy. */
uint64_t backup_copy_id(const struct partition *partition);
