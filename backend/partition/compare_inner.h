/*
 * compare_inner.h - shared by compare.c, in which a copy sums up its rows, and compare_judge.c, in which the leader compares sums.
 */
#pragma once

#include "backend/partition/compare.h"
#include "backend/partition/row_sums.h"
#include "backend/replica/replica_figures.h"
#include "shared/net/worker.h"
#include "shared/out.h"

enum { COMPARE_WORDS = SLOT_COUNT / 64 };

enum compare_state {
    COMPARE_IDLE,
    COMPARE_WANTED,  /* a leader: the row is written as soon as it may be */
    COMPARE_CUTTING, /* the record is on its way into the tables */
    COMPARE_SUMMING,
};

/* What a leader knows of a copy, itself too. */
struct compare_copy {
    uint64_t id;          /* 0: the place is free */
    struct row_sums *got; /* came before the leader's own; NULL: none */
    uint64_t got_index;
    uint64_t index; /* of the last comparison; 0: none */
    bool is_unreadable, is_system_different;
    uint64_t slots[COMPARE_WORDS]; /* bits: different, or unreadable */
};

struct compare {
    struct partition *partition;
    enum compare_state state;
    struct compare_row row;
    uint64_t index; /* of its record */
    struct row_sums *sums;
    struct worker *worker; /* NULL: none was needed yet */
    struct job job;
    struct bytes answer; /* to the leader, comes from malloc; data NULL: there is none */
    /* of a leader */
    struct row_sums *own; /* as of `own_index`; NULL: none */
    uint64_t own_index;
    uint64_t due_ms; /* monotonic: the next part of the slots is compared then; 0: to be set */
    unsigned part;   /* which */
    struct compare_copy copies[REPLICA_FIGURES_MAX];
};

/* The leader has its own sums. */
void compare_judge_all(struct compare *compare);
void compare_forget_all(struct compare *compare);
/* Number of members that are different, or unreadable. */
unsigned compare_count_different(const struct compare *compare);
/* The payload of SUMS. */
void compare_sums_write(const struct row_sums *sums, uint64_t index, uint64_t id, struct out *to);
