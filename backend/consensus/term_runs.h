/*
 * term_runs.h - the terms of all records of a log: runs of records with the same term.
 *
 *     index   7      8  9  10    11  12    13 …          base 7 of term 3: the log begins behind it
 *     term    3   ┃  3  3  4      4   6     6            runs: (7, 3) (10, 4) (12, 6)
 *
 * The number of runs is bounded. At the limit the oldest run is forgotten if it is committed. From then on the log begins later for
 * members that lag, and they get a snapshot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TERM_RUNS_MAX = 128 };

struct term_run {
    uint64_t first; /* index of its first record */
    uint64_t term;
};

struct term_runs {
    unsigned count; /* at least 1 */
    struct term_run run[TERM_RUNS_MAX];
};

void term_runs_init(struct term_runs *runs, uint64_t base, uint64_t term);
/* Index of the record behind which the log begins: its term is known, but the log need not have it. */
uint64_t term_runs_base(const struct term_runs *runs);
/* The term of the record; 0: it lies before the base. It must not lie behind the end of the log. */
uint64_t term_runs_at(const struct term_runs *runs, uint64_t index);
/* The term of the last record. */
uint64_t term_runs_last(const struct term_runs *runs);
/* The first record of the run of `index`, which is not before the base. */
uint64_t term_runs_first_of(const struct term_runs *runs, uint64_t index);
/* The last record of the run of `index` in a log that ends with `last`. */
uint64_t term_runs_last_of(const struct term_runs *runs, uint64_t index, uint64_t last);
/* Can records of the term be appended? Not if they need one more run, the limit is reached and the oldest run is not committed. */
bool term_runs_has_room(const struct term_runs *runs, uint64_t term, uint64_t committed);
/* Appends records of the term from `first` on; there must be room. */
void term_runs_append(struct term_runs *runs, uint64_t first, uint64_t term);
/* Forgets all records behind `after`, which is not before the base. */
void term_runs_cut(struct term_runs *runs, uint64_t after);
/* Forgets all records before `base`. */
void term_runs_trim(struct term_runs *runs, uint64_t base);
