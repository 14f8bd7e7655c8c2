/*
 * tune.h - sizes that were changed while the server runs, taken over where they are used.
 *
 *   settings (CONFIG SET, SIGHUP) ─► once a second: row cache, rank cache    here and now
 *                                                   memtables, compression   by upkeep.h: the engine may hold writes up
 *
 * The block cache belongs to the process: server.h gives it its size when settings are published.
 */
#pragma once

struct partition;

/* Within no command: nothing may be borrowed from the caches. */
void tune_partition(struct partition *partition);
