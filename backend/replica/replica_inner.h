/*
 * replica_inner.h - the parts of a replica, for the files that implement replica.h.
 *
 *   replica.c         life, and what home says, as tasks
 *   replica_drive.c   events of the core, and its updates
 *   replica_tell.c    how far the log is committed, for home
 *   replica_append.c  records of this leader
 *   replica_adopt.c   connections of other copies, from home
 *   replica_restarts.c  learners whose disks were set back
 *   replica_stall.c   a leader whose disk or partition stands still
 *   replica_time.c    the time of the group
 *   replica_room.c    which copies have room for records
 *   replica_figures.c figures of the members, for any thread
 *   replica_group.c   which group: founding, joining, what it says of itself
 *   replica_change.c  how its members change, and which copies may vote and serve while they do
 */
#pragma once

#include "backend/replica/outbox.h"
#include "backend/replica/own_records.h"
#include "backend/replica/replica.h"
#include "backend/replica/replica_figures.h"
#include "backend/replica/replica_known.h"
#include "backend/replica/replica_log.h"
#include "backend/replica/replica_members.h"
#include "backend/replica/replica_notes.h"
#include "backend/replica/replica_peers.h"
#include "backend/replica/replica_save.h"
#include "shared/net/loop.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum replica_founding {
    REPLICA_NOT_FOUNDING,
    REPLICA_FOUND_SAVING,   /* its numbers */
    REPLICA_FOUND_SAVED,    /* they are durable; the proposal waits for the address of this copy */
    REPLICA_FOUND_PROPOSED, /* the record of the members is being written by home */
    REPLICA_FOUND_LOGGED,   /* its index is being saved */
};

/* What does not change while the process runs. */
struct replica_self {
    char dir[PATH_MAX], run_id[PEER_RUN_ID_MAX + 1], version[PEER_VERSION_MAX + 1];
    uint64_t run; /* random number of this process */
};

/* What other threads read. */
struct replica_shown {
    _Atomic uint64_t lease_us;  /* commands may be served until then */
    _Atomic uint64_t committed; /* as home was told last, or will be told soon */
    _Atomic uint64_t applied;   /* home's data have all records up to this one */
    /* 0: this copy does not serve; then `committed` may be about another leader's records */
    _Atomic uint64_t served_term;
    atomic_int phase;
    _Atomic uint64_t declines_us; /* it does not lead again unasked until then; clock_boot_us */
    atomic_int own_room;          /* enum replica_room: as home has said last */
    atomic_int room_of_most;      /* … of a leader's voters */
    atomic_bool is_awaited;       /* home is told when a copy has acknowledged more */
    pthread_mutex_t figures_lock;
    struct replica_figures figures; /* written by the replica's thread only */
};

struct replica_told {
    struct replica_role role; /* as home was told last */
    uint64_t committed;       /* likewise; a copy that follows shows more at times */
    uint64_t awaited;         /* up to here a client of home waits */
};

/* The newest record of the members in the log, and the one before it, for a tail that is cut. */
struct replica_membership {
    struct replica_members now, before;
    uint64_t index;       /* of the newest record */
    uint64_t proposed_us; /* when members were proposed last; 0: none are being written */
};

/* Of the shard map. */
struct replica_map {
    uint64_t epoch;
    char address[REPLICA_ADDRESS_MAX + 1]; /* of this copy; empty: not known yet */
    unsigned count;
    char addresses[REPLICA_ADDRESSES_MAX][REPLICA_ADDRESS_MAX + 1];
};

/* The start of a core. */
struct replica_start {
    struct replica_found_log found;
    uint64_t due_us;   /* when it may be started; 0: not at all, or it was */
    uint64_t greet_us; /* the only voter waits so long for the other copies' hello */
    bool must_force;   /* when the records that the log was given are on the disk */
};

/* Snapshots that this leader has announced. */
struct replica_announced {
    uint64_t id[MEMBERS_MAX], at_us[MEMBERS_MAX]; /* without an answer yet; 0: none */
    uint64_t lost[MEMBERS_MAX]; /* ids of those that were not heard, or were lost; 0: none */
};

/* What home appends. */
struct replica_appended {
    struct own_records newest;
    /* While leadership is handed over, the core takes no record. NULL: none. */
    struct own_record *waiting;
};

/* Announcements that this copy obeys. */
struct replica_fetch {
    struct consensus_message now;  /* kind 0: none */
    struct consensus_message next; /* a later one, which waits for the end of that */
    uint64_t due_us;               /* when the files are to be fetched; 0: they are being fetched */
    unsigned failed;               /* attempts in a row */
};

/* Of leadership, which home has asked for. */
struct replica_hand_over {
    uint64_t id, until_us; /* to this member; 0: none */
};

/* Does this copy stand still (replica_stall.c)? */
struct replica_stall {
    uint64_t progress; /* of home, at the last tick */
    unsigned ticks;    /* without progress of home, in a row */
};

/* What lets this copy vote, and serve (replica_change.c). */
struct replica_voting {
    bool is_start_saved; /* the number of this start is durable, so it may be said */
    bool has_greeted;    /* most copies have said hello since the start, so it may vote */
    bool has_left;       /* home was told on_lost */
    /* the map does not name this copy, which serves: it hands over without home then; 0: it does name it */
    uint64_t gone_due_us;
    bool has_had_most; /* most addresses of the map were those of voters */
    struct replica_known known;
    struct replica_hand_over hand_over;
    struct replica_stall stall;
};

/* Processes of the copies that have said hello last (replica_restarts.c). */
struct replica_runs {
    struct replica_run {
        uint64_t id, run;
    } of[MEMBERS_MAX];
    unsigned next;
};

struct replica_disk {
    struct replica_file *file; /* NULL: there is none yet */
    struct replica_log *log;
    struct replica_save *save; /* NULL: there is no file */
    bool is_full;              /* the log has found no space */
};

struct replica_net {
    struct replica_links *links;
    struct replica_peers *peers; /* NULL: no core has run */
    bool must_free_peers;
    bool has_refused;     /* a frame of another copy, which was logged */
    uint64_t gone_before; /* the log begins here, as a sender has found out; 0: nothing new */
    struct replica_runs runs;
};

struct replica_timing {
    struct timer *core; /* the next TICK */
    struct timer *tick;
    struct timer *tell;        /* of a copy that follows: when home is told what is committed */
    bool is_telling;           /* it runs */
    struct last_step turn_end; /* what must not be done inside an event */
};

/* Of home, and between home and the replica. */
struct replica_home {
    struct replica_mail mail;
    struct peer_identity self; /* as other copies are told; address empty: not known yet */
    bool is_stopping;
};

/* All but `shown` and `home` is used by the replica's thread only, from its first task on. */
struct replica {
    struct replica_options options;
    struct replica_home home;
    struct replica_notes notes;
    struct replica_self self;
    struct replica_shown shown;

    bool has_begun, has_ended;
    enum replica_phase phase;
    enum replica_founding founding;
    struct replica_record record; /* as it was saved, or is being saved, last */
    /* that of the record; JOINING: that of the leader, once it is heard */
    struct replica_group group;
    struct replica_start start;

    bool has_core;
    struct consensus core;
    struct replica_told told;
    struct outbox outbox;
    struct replica_membership membership;
    struct replica_appended appended;
    struct replica_voting voting;
    struct replica_announced announced;
    struct replica_fetch fetch;

    struct replica_net net;
    struct replica_disk disk;
    struct replica_timing timing;
    struct replica_map map;
};

static inline bool replica_is_leading(const struct replica *replica)
{
    return replica->phase == REPLICA_PHASE_LEADING || replica->phase == REPLICA_PHASE_SERVING;
}

/* ---- replica_drive.c ---- */

/* A core runs from now on; its start was saved. */
void replica_drive_start(struct replica *replica, const struct consensus_start *start);
/* The core is gone, and nothing is served. */
void replica_drive_stop(struct replica *replica);
/* Gives an event to the core, if there is one, and obeys the update; sets the event's time. */
void replica_step(struct replica *replica, struct consensus_event event);
/* Gives the core a record of this leader, with its members (NULL: none of these), and appends it. False: the core does not take it. */
bool replica_step_record(struct replica *replica, struct consensus_event event,
                         struct own_record *record, const struct members *named);
/* … that home has written already, durably (replica_logged). */
void replica_step_logged(struct replica *replica, uint64_t index, uint64_t term,
                         const struct members *members);
/* Something is to be done at the end of this turn. */
void replica_plan_turn_end(struct replica *replica);
/* The link to the copy broke. */
void replica_step_down(struct replica *replica, uint64_t id);
/* Announcements without an answer are made again. */
void replica_check_announced(struct replica *replica);
/* Begins to fetch what was announced, when it is due. */
void replica_fetch_when_due(struct replica *replica);
/* The process must end. */
void replica_fail(struct replica *replica, const char *reason);
/* events of replica_log.h, and of replica_save.h */
extern const struct replica_log_events replica_log_handlers;
void replica_save_has_failed(void *owner, const char *reason);
/* last_step */
void replica_end_turn(struct last_step *step);
/* timer_fn */
void replica_core_is_due(void *owner);

/* ---- replica_tell.c ---------------------------------------------------------------------------- */

/* What is committed and durable here: at once, or soon. */
void replica_tell_committed(struct replica *replica);
/* At once what is left to tell. */
void replica_tell_rest(struct replica *replica);
/* timer_fn */
void replica_telling_is_due(void *owner);

/* ---- replica_append.c ---- */

/* A record of home, for the core. Uses it. */
void replica_append_own(struct replica *replica, struct own_record *record);
/* At the end of a turn: appends what has waited. */
void replica_append_go_on(struct replica *replica);
/* This copy leads no more: what it has appended is not sent from memory any more, and what waits is not appended. */
void replica_append_drop(struct replica *replica);

/* ---- replica_figures.c ---- */

void replica_note_figures(struct replica *replica);
/* A message, which the core has heard, says how far the data of its sender are. */
void replica_note_heard(struct replica *replica, const struct replica_heard *heard);

/* ---- replica_restarts.c ---- */

/* A copy has said hello. */
void replica_hear_run(struct replica *replica, const struct replica_hello *hello);

/* ---- replica_stall.c ---- */

void replica_stall_tick(struct replica *replica);
/* Notes whether this copy has much to apply. */
void replica_behind_tick(struct replica *replica);
/* If so, this copy does not stand: its records would not be committed, or nothing would be served. */
bool replica_stands_still(const struct replica *replica);

void replica_declines_tick(struct replica *replica);

/* ---- replica_time.c ---- */

/* At the start: the time that the process before has kept. */
void replica_time_go_on(struct replica *replica);
/* Notes the group's time in a message: a leader sends it, and a voter sends back what an earlier leader has sent. */
void replica_time_hear(struct replica *replica, const struct replica_heard *heard,
                       bool is_of_leader);
/* Notes it in replica->record. True: it has moved, so the record must be saved. */
bool replica_time_keep(struct replica *replica, bool is_elected);
/* A leader saves its time when it has moved. */
void replica_time_tick(struct replica *replica);

/* ---- replica_room.c ---- */

void replica_room_tick(struct replica *replica);
/* Before home is told of a role: what it reads of the copies is of this role. */
void replica_room_note(struct replica *replica);
/* The log has found no space, or it has some again. */
void replica_log_is_full(struct replica *replica, bool is_full);
/* What a leader has heard of the member at this place of its core; nothing yet: that of the leader itself. */
enum replica_room replica_room_at(const struct consensus *core, unsigned at);
/* This copy reports the bit (enum consensus_state) from now on, or no more. */
void replica_report(struct replica *replica, enum consensus_state bit, bool is_set);

/* ---- replica_adopt.c ---- */

/* Home thread: who this copy is. */
void replica_note_settings(struct replica *replica, const struct replica_settings *settings);

/* ---- replica_group.c ---- */

/* On the home thread: what the copy is, by its file and its log. */
bool replica_group_read(struct replica *replica, char *error, size_t size);
/* On the replica's thread: the group is known, or waits for one. */
void replica_group_begin(struct replica *replica);
void replica_group_tick(struct replica *replica);
/* Says anew what this copy is, to the other copies. */
void replica_group_say(struct replica *replica);
void replica_group_set_phase(struct replica *replica, enum replica_phase phase);
void replica_group_hear(struct replica *replica, const struct replica_hello *hello);
void replica_group_found(struct replica *replica, bool is_forced);
/* A record of the members was written while the group is founded. */
void replica_group_logged(struct replica *replica, uint64_t index, uint64_t term,
                          const struct members *members);
/* Saves replica->record; not as a save of the core. `saved` may be NULL. */
void replica_group_save(struct replica *replica, replica_saved_fn *saved);

/* ---- replica_change.c ---- */

void replica_change_tick(struct replica *replica);
/* To the member at the address; empty: to the one that is best. Within two E, as soon as it has the whole log and all is committed. */
void replica_change_hand_over(struct replica *replica, struct bytes address);
/* At the end of a turn, with a core. */
void replica_change_turn(struct replica *replica);
/* A copy has said its hello, of which group ever; this one is a member. */
void replica_change_hear(struct replica *replica, const struct replica_hello *hello);
/* Neither the map nor the members of this copy name that one: is it heard all the same? */
bool replica_change_welcomes(const struct replica *replica, const struct replica_hello *hello);
/* A REPLICA_KNOWN of the copy with this id: dropped unless it leads. False: it is not valid. */
bool replica_change_take_known(struct replica *replica, uint64_t from, struct bytes payload);
/* May this copy stand, and vote for others? */
bool replica_may_vote(struct replica *replica);
/* Is nothing served yet, because too few copies vote? */
bool replica_waits_for_voters(struct replica *replica);
