/*
 * sim_copy.h - one copy of a simulated group: the core of backend/consensus with a log, a disk and an outbox.
 *
 *     event ─► core ─► update ─┬─► written ──sync──► durable       written: in the page cache; a kill keeps it, power loss does not
 *                              ├─► saves ───save───► term, vote
 *                              └─► outbox ──when all saves before are durable──► network
 *
 * The world says when a save or a sync ends and when a message leaves. A copy is copied by assignment.
 */
#pragma once

#include "backend/consensus/consensus.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_RECORDS_MAX = 200,
    SIM_PARTS_MAX = 8, /* records of one message */
    SIM_QUEUE_MAX = 32,
    SIM_OUTBOX_MAX = 32,
};

struct sim_record {
    uint32_t term;
    uint32_t batch_term; /* the term in which the batch was closed */
    uint32_t value;      /* 0: a PROBE */
    uint32_t members;    /* number of the members record (sim_members_get); 0: it is none */
};

struct sim_log {
    uint64_t last;
    struct sim_record record[SIM_RECORDS_MAX]; /* of index 1 … */
};

struct sim_mail {
    struct consensus_message message;
    unsigned after_saves; /* leaves when so many saves are durable */
    struct sim_record record[SIM_PARTS_MAX];
};

struct sim_save {
    uint64_t term, vote;
};

struct sim_sync {
    uint64_t upto;
    uint32_t cuts;
};

struct sim_copy {
    uint64_t id; /* 0: there is none */
    bool is_up;
    struct consensus core;
    struct consensus_update update; /* the last one */
    struct sim_log written, durable;
    uint64_t base;       /* the log begins behind it */
    uint64_t term, vote; /* durable */
    uint64_t filed;      /* a commit index that is durable */
    unsigned saves_begun, saves_done, save_count, sync_count, mail_count;
    struct sim_save saves[SIM_QUEUE_MAX];
    struct sim_sync syncs[SIM_QUEUE_MAX];
    struct sim_mail outbox[SIM_OUTBOX_MAX];
};

struct sim_copy_options {
    uint64_t election_us;
    uint32_t window;
    uint64_t random;
};

/* The number of this record, whatever its index; equal records have equal numbers, from 1. */
uint32_t sim_members_number(const struct consensus_members *members);
const struct consensus_members *sim_members_get(uint32_t number);

/* Forgets all numbers: a new world begins. */
void sim_members_reset(void);

/* A new copy with an empty disk; its log begins with the record of the members, if it has any. */
void sim_copy_new(struct sim_copy *copy, uint64_t id, const struct consensus_members *members);
/* Starts the process with what is on its disk. */
void sim_copy_start(struct sim_copy *copy, const struct sim_copy_options *options, uint64_t now_us);
/* Ends the process. The first saves of the queue are durable before, as many as `saved`; without power the log is what is durable. */
void sim_copy_stop(struct sim_copy *copy, unsigned saved, bool has_power);
/* Gives the event to the core and obeys the update. `value` is that of an APPENDED batch, closed in the event's term. */
void sim_copy_step(struct sim_copy *copy, struct consensus_event event, uint32_t value);
/* Takes a message with its records. */
void sim_copy_hear(struct sim_copy *copy, const struct sim_mail *mail, uint64_t now_us);
/* The oldest save or sync ends. */
void sim_copy_save(struct sim_copy *copy, uint64_t now_us);
void sim_copy_sync(struct sim_copy *copy, uint64_t now_us);
/* The records behind the index, not synced, could not be written. */
void sim_copy_lose_tail(struct sim_copy *copy, uint64_t index, uint64_t now_us);
/* Takes the first message from the outbox. False: none may leave. */
bool sim_copy_take_mail(struct sim_copy *copy, struct sim_mail *mail);
/* The log becomes that of a snapshot with the records 1 … index of `from`, and begins behind them; the process has ended. */
void sim_copy_install(struct sim_copy *copy, const struct sim_log *from, uint64_t index,
                      uint64_t term, uint64_t vote);
/* The newest members record of the log up to the index; count 0: there is none. */
struct consensus_members sim_log_members(const struct sim_log *log, uint64_t upto);
