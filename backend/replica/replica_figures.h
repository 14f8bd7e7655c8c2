/*
 * replica_figures.h - what a copy shows of its group: its members, how far each of them is as far as this copy has heard, and which
 * copies are at the addresses of the map.
 *
 *   replica thread ─ 10 times a second ─► figures ◄─ any thread, under a lock
 *                  ─ with each message  ─► applied, match, heard_us, said_us of its copy
 */
#pragma once

#include "backend/replica/replica.h"

enum {
    REPLICA_FIGURES_MAX = 8,
    REPLICA_BEHIND_RECORDS = 1000, /* a copy is behind that has more to apply */
};

/* The first record that a copy is known to lack, and since when: taken anew each time that the copy has it. */
struct replica_lag {
    uint64_t index, since_us;
};

/* How long the messages of a leader take at least. Its clock and the one here count from different moments, so the least difference that was seen
 * between a message's time and its arrival is taken for none. */
struct replica_delay {
    uint64_t term, sent_us; /* of its newest message, by its clock */
    uint64_t least_us;      /* modulo 2^64, because its clock may be ahead */
};

struct replica_figure {
    uint64_t id;
    bool is_voter, is_up;   /* is_up: its link is; of this copy: always */
    enum replica_room room; /* a leader's: of its disk, as it has said last */
    bool declines; /* a leader's: it does not want to lead again unasked (replica_decline) */
    bool is_log_unreadable; /* a leader's: it lacks a record that cannot be read here */
    char address[REPLICA_ADDRESS_MAX + 1]; /* as the newest record of the members has it */
    uint64_t match;    /* a leader's: its log is durable and equal up to here; else 0 */
    uint64_t applied;  /* its data have all records up to here, by its last message */
    uint64_t heard_us; /* when that came, by clock_boot_us; 0: not yet */
    struct replica_delay delay;
    /* of the copy that leads: when it sent that, by clock_boot_us of this one; 0: not known */
    uint64_t said_us;
    struct replica_lag lag;
    uint64_t lag_us; /* its data have lacked a committed record for so long; 0: they lack none */
};

/* An address of the shard in the map of this copy, and what the copy there has said of itself last. */
struct replica_place {
    char address[REPLICA_ADDRESS_MAX + 1];
    bool is_own;
    bool is_heard;            /* it has said so on the present connection; else it may be old */
    enum replica_state state; /* 0: it has said nothing yet */
    struct replica_group group;
    uint64_t id, map_epoch;
    bool has_lost; /* a directory with lost promises is kept there */
};

struct replica_figures {
    enum replica_phase phase;
    uint64_t own, term, leader, last, committed; /* own, leader: ids */
    uint64_t map_epoch, members_epoch; /* of the map here, and of the one that the members follow */
    unsigned count;
    struct replica_figure of[REPLICA_FIGURES_MAX]; /* members, this copy among them */
    unsigned place_count;
    struct replica_place places[REPLICA_FIGURES_MAX];
};

/* How long a copy has lacked a record of those up to `committed`, when its data have those up to `applied`. To be called several times a
 * second: a copy that follows records which come all the time lags for no longer than that and its own delay. */
uint64_t replica_lag_note(struct replica_lag *lag, uint64_t applied, uint64_t committed,
                          uint64_t now_us);
/* When a copy that follows was known to have all that its leader had. */
struct replica_age {
    uint64_t leader; /* id */
    /* the leader said then that its data have all records up to this one; taken anew when the copy has them */
    uint64_t index, said_us;
    uint64_t fresh_us; /* the copy has all that the leader had then; 0: not known yet */
};

/* When a message that came at now_us was sent, by the clock here: earlier by as much as it took longer than the fastest one of its term, of which the
 * first counts as the fastest. The leader sent it at sent_us by its own clock. So what waits here, while this process stands still, gets no younger. */
uint64_t replica_delay_note(struct replica_delay *delay, uint64_t term, uint64_t sent_us,
                            uint64_t now_us);
/* How old the data of this copy may be, if they have all records up to `applied`: since when it may lack something that its leader had. UINT64_MAX: not
 * known. To be called several times a second. */
uint64_t replica_age_note(struct replica_age *age, const struct replica_figures *figures,
                          uint64_t applied, uint64_t now_us);
/* Does another copy lead, or may one be elected, as far as this one has heard? The leader is there, or most voters are: a copy that has just
 * started has not heard yet which of them leads. */
bool replica_is_led(const struct replica_figures *figures, uint64_t now_us);
/* The copy that leads, if it is another one and has said how far it is; else NULL. */
const struct replica_figure *replica_leader_heard(const struct replica_figures *figures);
/* Any thread, until replica_free. */
void replica_figures(struct replica *replica, struct replica_figures *to);

/* Number of other copies whose logs have the record of this leader's, which it wrote in this term or before, on their disks; 0: it leads in
 * another term. Any thread, until replica_free. */
unsigned replica_acknowledged(struct replica *replica, uint64_t term, uint64_t index);
/* Home waits for copies: replica_events.on_acknowledged is called once, soon. To be called before they are counted. Home's thread. */
void replica_await_acknowledged(struct replica *replica);
