/*
 * config_apply.h - applies [store] options that were changed at run time.
 *
 *   snapshot (CONFIG SET, SIGHUP) ─► once a second: row cache, rank cache    at once
 *                                                   memtables, compression   by maintenance.h, as RocksDB may stall writes
 *
 * The block cache belongs to the process: server.h sets its size when a snapshot is published.
 */
#pragma once

struct partition;

/* Called outside of commands, because values borrowed from the caches become invalid. */
void config_apply(struct partition *partition);
