/*
 * write_history.h - how many of the bytes in memory, which are in no file yet, belong to each storage namespace.
 *
 *   bytes written by all:  ──┼──────┼──────┼──────┼──────┼──── now        marks: what each namespace had written by then
 *                                   └──────── memory ────────┘
 *
 * Rows go to files in the order in which they were written. So what is in memory was written last, and as much was written since as
 * memory has: a namespace has there what it has written since that mark itself, whatever others write.
 */
#pragma once

#include "backend/keyspace/space.h"

struct overlay;
struct write_history;

struct write_history *write_history_new(void);
void write_history_free(struct write_history *history); /* NULL is allowed */
/* Counts the rows of the open batch, which is about to be closed. `memory`: bytes of rows that are in no file. */
void write_history_note(struct write_history *history, const struct overlay *overlay,
                        struct space_set *spaces, uint64_t memory);
/* Bytes of keys and values of the storage namespace in `memory` bytes of rows that are in no file. */
uint64_t write_history_bytes(const struct write_history *history, const struct space *space,
                             uint64_t memory);
