/*
 * sim_truth.h - what must hold in a simulated group of copies, whatever fails, looked at after each step of a copy.
 *
 *   one leader a term · one vote a term · records of one name are equal, with all before them · what was committed anywhere is
 *   committed everywhere, and a later leader has it · leases never overlap, and who has one knows all acknowledged writes ·
 *   a batch is of the term it was closed in · members change by one, by no older map
 */
#pragma once

#include "tests/sim/sim_copy.h"

enum { TRUTH_TERMS_MAX = 400, TRUTH_NAMES_MAX = 12, TRUTH_IDS_MAX = 40 };

struct sim_truth {
    char why[200]; /* empty: all is well */
    uint64_t leader_of[TRUTH_TERMS_MAX];
    uint8_t vote_of[TRUTH_IDS_MAX][TRUTH_TERMS_MAX];
    /* The records that were ever written at an index, and the term of the record before. */
    struct {
        unsigned count;
        struct sim_record record[TRUTH_NAMES_MAX];
        uint32_t term_before[TRUTH_NAMES_MAX];
    } written[SIM_RECORDS_MAX];
    struct sim_log committed;
    uint32_t committed_in[SIM_RECORDS_MAX]; /* the term of the copy that first showed it */
    uint64_t acknowledged;                  /* a leader has shown it as committed */
};

/* Looks at a copy that has made a step; `before` is its core before. */
void sim_truth_look(struct sim_truth *truth, const struct sim_copy *copy,
                    const struct consensus *before);
/* Looks at a message that leaves. */
void sim_truth_look_at(struct sim_truth *truth, const struct consensus_message *message);
/* The copy may serve now. `other`: another one that may, or NULL. */
void sim_truth_lease(struct sim_truth *truth, const struct sim_copy *copy,
                     const struct sim_copy *other);
void sim_truth_fail(struct sim_truth *truth, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
