/*
 * config_apply.h - applies sizes that were changed while the server runs.
 *
 *   snapshot (CONFIG SET, SIGHUP) ─► once a second: row cache, rank cache    here and now
 *                                                   memtables, compression   by maintenance.h: the engine may hold writes up
 *
 * The block cache belongs to the process: server.h gives it its size when a snapshot is published.
 */
#pragma once

struct partition;

/* Within no command: nothing may be borrowed from the caches. */
void config_apply(struct partition *partition);
