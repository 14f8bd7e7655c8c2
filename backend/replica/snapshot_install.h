/*
 * snapshot_install.h - puts fetched files in the place of a copy's data, between the end of one process' part and the next.
 *
 *     partition-0             the copy's data                partition-0             the fetched files, with the promises
 *     partition-0.incoming    the fetched files       ─►     partition-0.incoming    the data before, to be removed
 *
 *   file `replica` ─► no .origin ─► sync ─► one renameat2(EXCHANGE) ─► sync of the parent ─► opened ─► snapshot_install_clean
 *
 * The names change in one step, so whenever the process ends, the next one finds either the data before or the fetched files under the
 * copy's name. The file `replica` is written last: what this copy promises until then is in it. Without `.origin` (snapshot_target.h) nothing
 * takes the files for parts of an unfinished snapshot, neither the new data once they are written to, nor the old ones.
 */
#pragma once

#include "backend/format/replica_record.h"

#include <stddef.h>

/* Where the files for the data at `dir` are fetched to. */
#define SNAPSHOT_INCOMING ".incoming"
/* Where a copy gathers files for another one. */
#define SNAPSHOT_OUTGOING ".outgoing"

/* Exchanges the closed data at `dir` and the fetched files beside it, with this file `replica`. False and a one-line reason: the data
 * before are in place; or, if only the last sync failed, the fetched files are, and a loss of power may exchange them back. */
bool snapshot_install(const char *dir, const struct replica_record *record, char *error,
                      size_t size);
/* Where the data of a copy are kept that has lost its promises. */
#define SNAPSHOT_LOST ".lost"

/* Gives the closed data at `dir` the name with SNAPSHOT_LOST, durably, so that none are at `dir`. False and a one-line reason: they stay, for
 * instance because there are such data already. */
bool snapshot_set_aside(const char *dir, char *error, size_t size);
/* Are there data that were set aside? */
bool snapshot_is_set_aside(const char *dir);
/* When the data at `dir` are open: removes what is left beside them. Fetched files of an unfinished snapshot stay, if the data are those of
 * a copy: the next attempt needs only what is missing. */
void snapshot_install_clean(const char *dir);
