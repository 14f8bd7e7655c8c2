/*
 * archive.h - copies the batches of a partition into its archive, on a thread of its own.
 *
 *   WAL ──durable and committed──► every half second, on the archive's thread ──► <archive-dir>/<shard>/<log id>/ (archive_writer.h),
 *                                  │                                             of a shard with several copies …/<log id>/<copy's id>/
 *                                                                  │
 *                                  metrics, log ◄──────────────────── figures
 *
 * It holds nothing back: its cursor is a weak one. If the archive cannot be written, it stops, says so, and tries again; batches
 * that the WAL has no more by then are a gap, over which no restore goes. The thread reads the WAL and atomics only; all else is
 * given to it with the job.
 *
 * Of a shard with several copies each one archives what its group has committed: with one name of a log an index means one batch, so
 * readers take the files of all copies together. A leader alone knows up to which time there is no other batch. When an operator forces a copy
 * to go on alone, its log gets another name (founding.c), because batches that others have archived may be gone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct archive;
struct out;
struct partition;

/* NULL: archive-dir is empty. */
struct archive *archive_new(struct partition *partition);
/* Waits for the job, and leaves the file open for the next start. NULL is allowed. To be called before the storage is closed. */
void archive_free(struct archive *archive);
/* Appends lines for INFO persistence. NULL is allowed. */
void archive_info(const struct archive *archive, struct out *out);
