/*
 * replica.h - a copy's part in its group: drives the core (backend/consensus/consensus.h) on a thread of its own.
 *
 *   home: the partition's thread                    the replica's thread
 *   replica_logged, _append, _serves, _applied ──►  core ─► update ─┬─ lease word ──────────────────► replica_may_serve
 *                                                                   ├─ save        replica_save.h
 *                                                                   ├─ cut, append replica_log.h
 *                                                                   └─ messages    outbox.h ─► replica_peers.h ─► other copies
 *   replica_events ◄── one queue, in order ───────  role · committed · proposal · install
 *
 *   NONE ─found─► FOLLOWING ⇄ LEADING ─own PROBE committed─► SERVING       LOST, OVERTAKEN: it takes part in nothing
 *   JOINING ─a snapshot is installed─► (a new replica) FOLLOWING
 *
 * Two ways lead a record of a serving copy into the log. With one voter the partition writes and syncs it, then says so: it is
 * committed (replica_logged). With several, it gives the record to the replica, whose log writes it while it is on its way to the
 * others (replica_append). So only one thread at a time writes: before SERVING, and with several voters always, it is the replica's.
 *
 * Home's indexes are exact: at SERVING the log ends with the index `committed` of the role, and from then on only home adds to it. If the
 * role has changed on the way, a record of the old term is refused; whether one before it is committed, the next leader decides.
 */
#pragma once

#include "backend/replica/replica_file.h"
#include "backend/replica/replica_links.h"

#include <stdbool.h>
#include <stddef.h>

enum { REPLICA_HAND_OVER_MS = 2000 }; /* at most */

struct consensus;
struct group_clock;
struct members;
struct replica;
struct storage;
struct stream;

/* What the disk of a copy takes; each one less than the one before. */
enum replica_room {
    REPLICA_ROOM,      /* all records */
    REPLICA_ROOM_LOW,  /* those of commands that add no data */
    REPLICA_ROOM_NONE, /* those with which leaders begin */
};

enum replica_phase {
    REPLICA_PHASE_NONE,      /* of no group: it is founded, or stays alone */
    REPLICA_PHASE_JOINING,   /* its data may be overwritten: it waits for a leader's snapshot */
    REPLICA_PHASE_FOLLOWING, /* a member that does not lead */
    REPLICA_PHASE_LEADING,   /* elected, but records of earlier terms may not be committed yet */
    REPLICA_PHASE_SERVING,
    REPLICA_PHASE_LOST,      /* what it had promised is lost */
    REPLICA_PHASE_OVERTAKEN, /* survivors were made a group of a higher generation */
};

struct replica_role {
    enum replica_phase phase;
    uint32_t generation; /* of its group; 0: it is of none */
    uint64_t term;
    uint64_t leader;                              /* its id; 0: not known */
    char leader_address[REPLICA_ADDRESS_MAX + 1]; /* empty: not known */
    /* SERVING: the log ends here, and everything up to it is to be applied before anything is served */
    uint64_t committed;
};

/* Called on the home loop, in the order in which they happened, never inside loop_poll. */
struct replica_events {
    void (*on_role)(void *owner, const struct replica_role *role);
    /* Records up to the index are committed, and durable here. */
    void (*on_committed)(void *owner, uint64_t index);
    /* Write these members as a record of type MEMBERS and of this term, and report it by replica_logged or replica_append. When a group is
     * founded: after storage_join_group, and by replica_logged. */
    void (*on_propose)(void *owner, uint64_t term, const struct members *members);
    /* The files in `dir` take the place of this copy's, with this file `replica`. The replica takes part in nothing any more: stop it,
     * exchange the directories, make a new one. */
    void (*on_install)(void *owner, const char *dir, const struct replica_record *record);
    /* A disk or a bug has broken a promise: the process must end. The replica takes part in nothing any more. */
    void (*on_failed)(void *owner, const char *reason);
    /* What this copy had promised is lost, or of a group that others have overtaken, and another copy serves: stop the replica, keep the
     * directory under another name, and go on with an empty one. Groups with several voters. NULL: nothing is done. */
    void (*on_lost)(void *owner);
    /* A copy may have acknowledged more; once after each replica_await_acknowledged. NULL: home does not count them. */
    void (*on_acknowledged)(void *owner);
};

/* The files of snapshots; replica's thread. All NULL: there are none. */
struct replica_snapshots {
    /* The leader has announced its state as of message->index; ends with replica_fetched, which is not called in here. `link` is not up yet;
     * NULL: none can be made. */
    void (*fetch)(void *owner, struct peer_link *link, const struct consensus_message *message);
    /* The link of `fetch` is about to be freed: it is used no more, and replica_fetched follows as after any other failure. */
    void (*cancel)(void *owner);
    /* Are files being sent to the copy? If not, it is announced the snapshot again after a while: it may not have heard it. */
    bool (*is_sending)(void *owner, uint64_t id);
    /* A frame of another kind than the replica's own, of the copy `from`, 0: not known; false: of no kind that is known. */
    bool (*handle)(void *owner, struct peer_incoming *incoming, const struct peer_frame *frame,
                   uint64_t from);
    void (*closed)(void *owner, struct peer_incoming *incoming);
    void *owner;
};

struct replica_options {
    struct loop *loop; /* of the replica's thread, which need not run yet */
    struct loop *home;
    struct storage *storage; /* open; used until replica_free */
    const char *dir;         /* has the file `replica`, or will have it */
    const char *run_id, *version;
    uint32_t thread; /* index of the partition */
    struct metrics *metrics;
    struct labels *labels;    /* metrics by link */
    uint64_t election_us;     /* E */
    uint32_t window;          /* records that are sent before they are acknowledged */
    enum replica_state state; /* what it is as long as it is in no group: NONE, EMPTY or DATA */
    /* Learners that are caught up become voters, and home gives all its records to replica_append. */
    bool has_voters;
    /* State NONE: it has nothing, so it joins a group that another copy serves; with has_voters. */
    bool may_join;
    /* It serves only when most addresses of the map are those of voters: there is nothing to be read yet. */
    bool waits_for_voters;
    /* A directory with lost promises is kept beside this one: no group is founded with this copy. */
    bool has_lost;
    struct replica_snapshots snapshots;
    /* Any number that changes while the home thread does anything; called on the replica's thread. NULL: it is not watched. */
    uint64_t (*home_progress)(void *owner);
    void *home_owner;
    struct group_clock *time; /* of the group; outlives the replica. NULL: it is not kept */
};

struct replica_settings {
    struct replica_links_config links;
    uint64_t epoch; /* of the map */
};

/* ---- on the home thread ------------------------------------------------------------------------ */

/* Reads the file `replica` and the log, and begins. NULL and a one-line reason: they cannot be read. */
struct replica *replica_new(const struct replica_options *options,
                            const struct replica_events *events, void *owner, char *error,
                            size_t size);
/* Copied. Until the first call it has no links. */
void replica_configure(struct replica *replica, const struct replica_settings *settings);
/* Makes this copy, which is in no group, a group of one; or, if forced, this member of one, whose data have all committed records, the
 * group of one of a higher generation. on_propose follows. NULL, or why not. */
const char *replica_make_group(struct replica *replica, bool is_forced);
/* The partition has written the record, durably; members NULL: it is none of the members. Groups with one voter. */
void replica_logged(struct replica *replica, uint64_t index, uint64_t term,
                    const struct members *members);
/* Adds a record with its index and term in its header; copied; any thread. It is committed when on_committed says so, or is given up with
 * the role: if it is refused, on_role has the reason. While leadership is being handed over it waits. */
void replica_append(struct replica *replica, struct bytes record);
/* The partition has applied role->committed and serves in this term. */
void replica_serves(struct replica *replica, uint64_t term);
/* The data have all records up to the index. An atomic store: other copies hear it with the next message. */
void replica_applied(struct replica *replica, uint64_t index);
/* The leader of the term has said that the records up to the index are committed, and a client waits for them here: on_committed comes as soon
 * as the log has them, and not some time later. */
void replica_await_committed(struct replica *replica, uint64_t term, uint64_t index);
/* The room of this copy's disk from now on, of which the other copies hear. */
void replica_note_room(struct replica *replica, enum replica_room room);
/* Of a leader: the room that most voters have, or more. Any thread: an atomic load. */
enum replica_room replica_room_of_most(const struct replica *replica);
/* This copy gives its lead up for a reason that may last: others hear that it should not be given it back unasked for an hour. With
 * false: it may be. Any thread: an atomic store. */
void replica_decline(struct replica *replica, bool is_declining);
/* Hands leadership over to the voter at the address, or, if that is empty, to the one with most room and most of the log: as soon as all that was
 * appended is committed and the voter has it, within two E and REPLICA_HAND_OVER_MS. on_role follows; a record that comes behind is refused. */
void replica_hand_over(struct replica *replica, const char *address);
/* May commands be served at this time, by clock_boot_us? An atomic load. */
bool replica_may_serve(const struct replica *replica, uint64_t now_us);
/* Does this copy serve in this term, and is the record with this index committed? Any thread; on_committed may come later. */
bool replica_has_committed(const struct replica *replica, uint64_t term, uint64_t index);
/* The word that it reads: the time until which commands may be served, 0: none may. Valid until replica_free. */
const _Atomic uint64_t *replica_lease(const struct replica *replica);
/* Checks the words of SCREE REPLICA, with which another copy connects; else *error is an error reply without its '-'. */
bool replica_admit(const struct replica *replica, struct bytes protocol, struct bytes shard,
                   struct bytes identity, struct peer_identity *peer, const char **error);
/* Is this copy of the shard, by the map? */
bool replica_is_of_shard(const struct replica *replica, const char *shard);
/* The reply to it. */
size_t replica_identity(const struct replica *replica, char to[PEER_IDENTITY_MAX]);
/* Takes ownership of the stream of an admitted copy: it moves to the replica's loop. May be called inside the stream's on_data. */
void replica_adopt(struct replica *replica, struct stream *stream,
                   const struct peer_identity *peer);
/* Ends all it does; on_stopped is the last call on the home loop. Then the replica's loop may end. */
void replica_stop(struct replica *replica, void (*on_stopped)(void *owner), void *owner);
/* After its loop has ended. Waits for the disk. NULL is allowed. */
void replica_free(struct replica *replica);

/* ---- on the replica's thread ------------------------------------------------------------------- */

/* Takes ownership of the stream of another copy that was admitted (peer_admit_copy); before the first task and after the end it is closed. */
void replica_take_stream(struct replica *replica, struct stream *stream,
                         const struct peer_identity *peer);
/* The files in `dir`, durably there, have all records up to `index`, which is of `index_term`, and may have rows up to `whole_at`; `dir`
 * NULL: the snapshot was not fetched. Unless it leads to on_install, the copy waits for the next announcement. */
void replica_fetched(struct replica *replica, const char *dir, uint64_t index, uint64_t index_term,
                     uint64_t whole_at);
/* The copy `id` has fetched a snapshot as of `index`; 0: it has not. */
void replica_snapshot_sent(struct replica *replica, uint64_t id, uint64_t index);
/* NULL: this copy takes part in nothing. */
const struct consensus *replica_core(const struct replica *replica);
/* The file `replica` as it was saved, or is being saved, last. */
const struct replica_record *replica_newest_record(const struct replica *replica);
