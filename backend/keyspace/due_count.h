/*
 * due_count.h - counts the keys that are due and were not deleted yet, in the background, while active expiry is behind.
 *
 *   index:  ── deleted ──┬──── counted in passes ────┬── not due ──►
 *                     `from`                        now
 *
 * Between two passes the count falls with every row that is taken from the index. A pass ends after COUNT_MAX rows: then the count is
 * as many as there would be if the rest of the time had as many as the part that was counted.
 */
#pragma once

#include "backend/keyspace/range_rows.h"

struct due_count {
    struct range_rows rows;
    uint64_t from_ms, last_ms, to_ms; /* of the pass: its begin, the last row, its end */
    uint64_t counted;
    uint64_t taken_before; /* rows that had been taken when the pass began */
    uint64_t keys;         /* found by the last pass … */
    uint64_t keys_taken;   /* … when so many rows had been taken */
    uint64_t next_ms;      /* when the next pass may begin */
};

void due_count_init(struct due_count *count, struct partition *partition,
                    void (*on_rows)(void *owner), void *owner);
void due_count_fini(struct due_count *count);
void due_count_restart(struct due_count *count);
/* Goes on counting, or begins a pass at `from_ms`. `taken`: rows that have been taken from the index since the start. To be called
 * between commands. */
void due_count_step(struct due_count *count, uint64_t from_ms, uint64_t now_ms, uint64_t taken);
/* The keys that are due and were not taken yet. */
uint64_t due_count_keys(const struct due_count *count, uint64_t taken);
