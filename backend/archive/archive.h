/*
 * archive.h - copies the batches of a partition into its archive, on a thread of its own.
 *
 *   WAL ──durable and committed──► every half second, on the archive's thread ──► <archive-dir>/<shard>/<log id>/ (archive_writer.h)
 *                                                                  │
 *                                  metrics, log ◄──────────────────── figures
 *
 * It holds nothing back: its cursor is a weak one. If the archive cannot be written, it stops, says so, and tries again; batches
 * that the WAL has no more by then are a gap, over which no restore goes. The thread reads the WAL and atomics only; all else is
 * given to it with the job.
 *
 * An archive of a shard with several copies would need the batches of all its leaders: such a partition writes none, and says so.
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
