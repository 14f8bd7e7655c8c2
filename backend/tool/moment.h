/*
 * moment.h - restores to a point in time: which moments a backup and an archive have together, and the replay to one of them.
 *
 *   backup of a shard:  log id, batch 812 ──┐
 *   archive of the log: 1 … 812 │ 813 ... 901 │ TIME 12:00:00.4      moments of the shard: from the backup's time to 12:00:00.4
 *                                             └─ of all shards: to the earliest of these
 *
 * At a moment T each shard has its batches with times up to T. These times follow cause and effect over all shards
 * (hybrid_clock.h), so together they are what a crash of all shards at one time would have left, and the start of the shards ends
 * the transactions and slot moves that are under way in it, as after a crash.
 */
#pragma once

#include "backend/archive/archive_log.h"
#include "backend/tool/source.h"

struct storage;

/* Reads 2026-11-28T12:00:00[.123456]Z. False: it is no such time. */
bool moment_parse(const char *text, uint64_t *time_us);
enum { MOMENT_TEXT_MAX = 40 };
/* The same form, with six digits behind the point. */
const char *moment_text(uint64_t time_us, char text[MOMENT_TEXT_MAX]);

/* How far the archive goes on behind a shard's backup, without a gap. False and a reason: an archive directory cannot be read, or the
 * backup does not tell its log. */
bool moment_reach(const struct source *source, const char *archive, struct archive_reach *reach,
                  char *error, size_t size);
/* The latest moment of all shards of the backup. */
bool moment_latest(const struct sources *sources, const char *archive, uint64_t *time_us,
                   char *error, size_t size);
/* Can all shards of the backup be restored as of this moment? False and the reason, with the shard. */
bool moment_check(const struct sources *sources, const char *archive, uint64_t time_us, char *error,
                  size_t size);
/* Applies the batches behind those of the store, up to this moment. */
bool moment_replay(struct storage *storage, const struct source *source, const char *archive,
                   uint64_t time_us, uint64_t *batches, char *error, size_t size);
