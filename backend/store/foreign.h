/*
 * foreign.h - reads a RocksDB directory of another program, such as Kvrocks. Nothing in the directory is changed.
 *
 *   foreign_open ─┬─ rows of the tables, and those that are in RocksDB's own log only
 *                 └─ a read lock on the file LOCK: a program that uses the directory is noticed, and none can start until foreign_close
 *
 * Options of the other program are not loaded, since a newer RocksDB may have written them.
 */
#pragma once

#include "shared/bytes.h"

enum { FOREIGN_FAMILIES_MAX = 8, FOREIGN_ERROR_MAX = 256 };

struct foreign;
struct foreign_rows;

/* Opens these column families; the directory may lack some. NULL: `error` has the reason. */
struct foreign *foreign_open(const char *path, const char *const *families, unsigned count,
                             char error[FOREIGN_ERROR_MAX]);
void foreign_close(struct foreign *foreign);
bool foreign_has(const struct foreign *foreign, unsigned family);
/* Why rows could not be read; empty: no read has failed. */
const char *foreign_error(const struct foreign *foreign);

/* Iterates over the rows of the family with this number, in ascending order. A family that the directory lacks has no rows. */
struct foreign_rows *foreign_rows_new(struct foreign *foreign, unsigned family);
void foreign_rows_free(struct foreign_rows *rows);
/* The next row will be the first one with a key >= `key`. */
void foreign_rows_seek(struct foreign_rows *rows, struct bytes key);
/* The next row, borrowed until the next call. False: there is none, or foreign_error() says why it cannot be read. */
bool foreign_rows_next(struct foreign_rows *rows, struct bytes *key, struct bytes *value);
