/*
 * replica_save.h - saves the file `replica` (replica_file.h) on a thread of its own: term, vote, and what else a copy must not forget.
 *
 *   replica thread   save 5, vote 2      save 6            a vote leaves ◄─┐
 *                          │                │                              │
 *   save's thread          └─► both blocks ─┼──────────────► saved() ──────┘
 *                                           └─► both blocks ─► saved()
 *
 * It is not the thread of the log: a vote must not wait for a sync of records. Saves are done one after the other, in order; each is
 * reported, since the messages of a core's update wait for its own save and all before.
 */
#pragma once

#include "backend/replica/replica_file.h"

struct loop;
struct replica_save;

/* On the loop's thread. */
typedef void replica_saved_fn(void *owner);
/* A save failed. Which record the disk has is not known, so the caller ends the process. No save is done or reported any more. `reason` is
 * one line. */
typedef void replica_save_failed_fn(void *owner, const char *reason);

/* The file is used until replica_save_free, on another thread. */
struct replica_save *replica_save_new(struct loop *loop, struct replica_file *file,
                                      replica_save_failed_fn *on_failed, void *owner);
/* Waits until the saves that were begun are done, and reports none of them. NULL is allowed. */
void replica_save_free(struct replica_save *save);
/* Saves a copy of the record. `saved` is called with the owner of replica_save_new when it and all before are durable. */
void replica_save_begin(struct replica_save *save, const struct replica_record *record,
                        replica_saved_fn *saved);
