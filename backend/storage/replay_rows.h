/*
 * replay_rows.h - the rows of batches that are replayed at a start, on their way into the tables.
 *
 *   batches of the WAL ─► write buffer, up to BYTES_MAX ─► tables, in the order of their keys
 *
 * A row that many batches changed is written once, and rows in order cost the tables less than those of one batch after the other. A batch
 * is in the tables only after replay_rows_apply. The log says once a second how far the replay is.
 */
#pragma once

#include "shared/bytes.h"

struct replay_rows;
struct store;

/* The WAL lies in the directory `path`, which is borrowed. */
struct replay_rows *replay_rows_new(struct store *store, const char *path);
void replay_rows_free(struct replay_rows *rows); /* NULL is allowed */
/* Adds the effects of a batch, and writes the rows if these are many. OK, or an error with a one-line reason: ERR_STORE if the effects cannot
 * be read; then the rows are of no use any more. */
int replay_rows_add(struct replay_rows *rows, struct bytes effects, char *error, size_t size);
/* Writes all rows. */
int replay_rows_apply(struct replay_rows *rows, char *error, size_t size);

/* A batch of so many bytes was read. */
void replay_rows_count(struct replay_rows *rows, size_t bytes);
/* All were. */
void replay_rows_end(const struct replay_rows *rows);
