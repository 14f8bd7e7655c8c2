/*
 * compare.h - the copies of a shard compare their rows: a bug, or a disk that lies, may have changed rows at one of them.
 *
 *   leader:  writes the row '=' ─► batch ────────── log ──────────► copy: adds the record
 *                                   └► cut ─► row_sums                     └► cut ─► row_sums
 *                                                  └► equal? ─► verdicts ◄── SUMS ◄───┘
 *
 * All copies sum up their rows as of the same record (commit_cut, row_sums.h): a leader while its clients go on, and a copy before it adds the next
 * record. A copy that is behind answers when it gets there. What is found out is forgotten when another copy leads.
 *
 * With the option compare-rows, a leader has a part of the slots compared every so often, so that all are within this time.
 */
#pragma once

#include "backend/format/compare_row.h"

struct partition;

enum compare_verdict {
    COMPARE_UNKNOWN, /* not compared since this copy leads */
    COMPARE_SAME,
    COMPARE_DIFFER,
    COMPARE_UNREADABLE, /* some rows, of the slots that count as different */
};

struct compare_found {
    enum compare_verdict verdict;
    uint64_t index; /* the last record as of which the copy was compared */
    unsigned slots; /* that were different, or unreadable, when they were compared last */
};

/* At the copy that serves: compares these slots soon. NULL, or why not. */
const char *compare_begin(struct partition *partition, uint16_t first, uint16_t last);
bool compare_is_running(const struct partition *partition);
/* What the copy that serves has found out about this member, itself too. */
struct compare_found compare_found(const struct partition *partition, uint64_t id);
/* Of a copy that follows: it has just added the record with this row. */
void compare_follow(struct partition *partition, const struct compare_row *row, uint64_t index);
/* No record may be added now. */
bool compare_holds(const struct partition *partition);
/* Ten times a second, while no command runs. */
void compare_tick(struct partition *partition);
/* The store may be shut next: what is under way here ends. Waits for the disk. */
void compare_stop(struct partition *partition);
/* The role has changed: what is under way here ends soon, and what was found out is forgotten. */
void compare_forget(struct partition *partition);
/* To be called before the partition's loop and store end. */
void compare_free(struct partition *partition);
