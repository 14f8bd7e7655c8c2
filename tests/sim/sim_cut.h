/*
 * sim_cut.h - snapshots of a storage in memory as real files (backend/replica/snapshot_join.h): a cut has a name, which is in its file CURRENT,
 * beside files that all cuts have, and some that only this one has.
 *
 *   storage_checkpoint(path) ─► storage in memory "cut.000000000007" │ path/CURRENT "cut.000000000007", path/000000.sst …
 *   a copy has fetched them  ─► sim_cut_name(dir) ─► it goes on with the storage of that name
 *
 * Linked with --wrap of storage_checkpoint, wal_committed_at and path_free_bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct storage;

enum { SIM_CUT_NAME_BYTES = 16 };

/* Before the first world and behind the last one, in the process of all worlds: the directory for their files. */
void sim_cuts_begin(void);
void sim_cuts_end(void);
/* A new world: the directory is empty. */
void sim_cuts_reset(void);
const char *sim_cuts_root(void);
/* Cuts of this world. */
unsigned sim_cuts_count(void);
/* Whether disks have room for files. */
void sim_cuts_set_room(bool has_room);
/* A cut without files, under this name. */
void sim_cut_storage(struct storage *storage, const char *name);
/* The name of the cut in the directory, with all its files; false: there is none. */
bool sim_cut_name(const char *dir, char name[SIM_CUT_NAME_BYTES + 1]);
