/*
 * replica_file.h - the file `replica` of a copy's directory: its id and what it has promised, above all its term and its vote.
 *
 *     block 0 │ block 1          two equal blocks (backend/format/replica_record.h)
 *
 *     save:  block 0 ─► sync ─► block 1 ─► sync ─► the caller may send what depends on it
 *
 * A save overwrites both blocks, one after the other. A loss of power damages at most one of them, and what the other one has is the save
 * before, which is the newest that was reported as durable, or this one. A block that the disk has damaged costs nothing either: the other
 * one is never older than the newest save that was reported. With blocks written in turn, losing the newer one would lose a vote.
 *
 * Saves need no free space. The file is created whole, beside its name, and then renamed. To be called by one thread at a time.
 */
#pragma once

#include "backend/format/replica_record.h"

#include <stddef.h>

struct replica_file;

enum replica_found {
    REPLICA_IS_OPEN,
    REPLICA_NONE,    /* the directory has no such file: this copy has promised nothing */
    REPLICA_IS_LOST, /* neither block can be read: what this copy has promised is lost, so it must not vote under its id */
    REPLICA_IS_NEWER, /* a newer program has written it */
    REPLICA_FAILED,   /* the disk failed */
};

/* Opens the file of the directory and reads its newest record. Blocks that differ are made equal again, durably. *file is NULL unless
 * REPLICA_IS_OPEN; then, and not for REPLICA_NONE, error[size] has one line that says why. */
enum replica_found replica_file_open(const char *dir, struct replica_file **file,
                                     struct replica_record *record, char *error, size_t size);
/* Creates the file durably, with this record; one that exists is replaced. NULL: error[size] says why; whether the new file, the one
 * before or none is found by the next open is not known. */
struct replica_file *replica_file_make(const char *dir, const struct replica_record *record,
                                       char *error, size_t size);
/* Saves the record durably. False: error[size] says why, and the caller must end the process: it is not known which record is on the disk. */
bool replica_file_save(struct replica_file *file, const struct replica_record *record, char *error,
                       size_t size);
/* NULL is allowed. */
void replica_file_close(struct replica_file *file);
