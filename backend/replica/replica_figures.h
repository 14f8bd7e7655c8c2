/*
 * replica_figures.h - what a copy shows of its group: its members, and how far each of them is as far as this copy has heard.
 *
 *   replica thread ─ 10 times a second ─► figures ◄─ any thread, under a lock
 */
#pragma once

#include "backend/replica/replica.h"

enum { REPLICA_FIGURES_MAX = 8 };

struct replica_figure {
    uint64_t id;
    bool is_voter, is_up;                  /* is_up: its link is; of this copy: always */
    char address[REPLICA_ADDRESS_MAX + 1]; /* as the newest record of the members has it */
    uint64_t match;    /* a leader's: its log is durable and equal up to here; else 0 */
    uint64_t applied;  /* its data have all records up to here, by its last message */
    uint64_t heard_us; /* when that came, by clock_mono_us; 0: not yet */
};

struct replica_figures {
    enum replica_phase phase;
    uint64_t term, leader, last, committed;
    unsigned count;
    struct replica_figure of[REPLICA_FIGURES_MAX]; /* members, this copy among them */
};

/* Any thread, until replica_free. */
void replica_figures(struct replica *replica, struct replica_figures *to);
