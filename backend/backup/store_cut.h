/*
 * store_cut.h - a copy of a store whose last batch is chosen when the slow part is done.
 *
 *   cut_begin    hard links to the tables' files; the WAL is not trimmed any more          any thread, waits for the disk
 *   cut_end      opens the WAL's files: the copy ends with the last batch that is committed    the partition's thread, at once
 *   cut_write    copies the WAL up to there                                                any thread, waits for the disk
 *
 * So writes need to be held for cut_end only, to have many stores end at one moment. The tables have rows of no batch after cut_begin, so
 * none after cut_end, and the WAL has all batches that they lack.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cut;
struct storage;

/* Makes the folder `path`, which must not exist, with hard links to the tables' files. After an error it returns NULL and a one-line reason in
 * error[size], and the caller removes the folder. The WAL is not trimmed until cut_end, so the caller bounds that time. */
struct cut *cut_begin(struct storage *storage, const char *path, char *error, size_t size);
/* The copy has every batch that is committed now. Batches behind it may be copied too; with several copies of the data they are dropped when
 * the copy is opened. OK, or ERR_STORE and a reason. */
int cut_end(struct cut *cut, char *error, size_t size);
/* As cut_end, of a copy that follows: the last batch is `index`, which the leader has named after cut_begin, and which is committed here, perhaps
 * with later ones. Those are left out, because the rows of a batch in the log cannot be told from those of an earlier moment once they are in tables. */
int cut_end_at(struct cut *cut, uint64_t index, char *error, size_t size);
/* Completes the copy at `path`, and closes the WAL's files, so that trimmed ones take no space any more; to be called once, after cut_end. Errors
 * likewise. */
int cut_write(struct cut *cut, const char *path, char *error, size_t size);
/* On any thread, before storage_close. NULL is allowed. */
void cut_free(struct cut *cut);
