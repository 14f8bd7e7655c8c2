/*
 * replica_file_mem.h - the file `replica` of copies in memory: contents belong to the directory's path and outlive replica_file_close.
 *
 * A save is durable when it returns. With BREAK_VOTE_UNSAVED it changes nothing.
 */
#pragma once

#include "backend/replica/replica_file.h"

/* Forgets all files; every one must be closed. */
void replica_file_mem_reset(void);
/* The record of the directory; NULL: there is no file. */
const struct replica_record *replica_file_mem_record(const char *dir);
