/*
 * local_changes.h - what the files of SCREE CHANGES share.
 *
 *   local_changes.c        the calls of a client, and rounds of READ at all shards
 *   local_changes_time.c   positions of a time (TOKEN AT)
 *   local_changes_order.c  which shards must be read before which
 *   local_changes_copy.c   keys that exist, listed slot by slot (READ 0)
 *   local_changes_lost.c   which slots are listed again after a loss
 *   changes_token.c        the token as text
 */
#pragma once

#include "proxy/local/changes_token.h"
#include "proxy/local/local.h"
#include "shared/changes_options.h"

enum {
    CHANGES_PAUSE_MS = 20, /* between two rounds of a call */
    NOW_TRIES_MAX = 100,   /* to find positions between which no slot moves */
};

/* Shards whose changes were lost. */
struct changes_loss {
    bool is_any;
    bool is_checked;        /* the owners of slots were compared once */
    bool is_in[SLOT_COUNT]; /* slots of these shards */
};

/* How far a shard was read in this round. */
struct changes_reach {
    uint64_t reached_us; /* all its batches with times up to this one */
    /* Its next batch has this time, and takes slots over from others; 0: not so. */
    uint64_t early_us;
    int64_t lag_ms;
};

/* One call. Events are collected in the reply. */
struct changes {
    struct request *request;
    struct timer *timer; /* the next round; NULL: none */
    struct changes_options options;
    uint64_t until_ms;           /* monotonic: end of BLOCK */
    uint32_t count;              /* events in the reply */
    int64_t lag_ms;              /* of the shard that is furthest behind */
    struct changes_reach *reach; /* of each shard */
    uint32_t *late;              /* shards that are read once more in this round … */
    uint32_t late_count;         /* … so many */
    uint32_t now_tries;          /* rounds that asked for the positions of now */
    struct changes_loss loss;
    uint32_t owned;     /* slots that the shards own, as this round says */
    uint64_t owned_sum; /* of these slots (slot_table.h) */
    bool is_token;      /* the reply is a token only … */
    struct bytes at_ms; /* … of this time; empty: of now */
    uint32_t copy_steps;
    unsigned copy_end; /* the last slot that was asked for */
    struct changes_token token;
};

/* The state of the request, which local_scree_changes has made. */
struct changes *changes_of(struct request *request);
/* May the client read the key? Events of other keys are left out. */
bool changes_may_read(struct client *client, struct request *request, struct bytes key);
/* Puts token and lag around the events, and ends the request. */
void changes_reply(struct changes *changes, struct reply *reply);
/* Replies the error of a shard, with the shard's name. */
void changes_reply_error(const struct shard_reply *answer, struct reply *reply);

/* Sets the positions that are empty to that of now, and replies. TRYAGAIN if the map has changed since the call began. */
void changes_ask_now(struct request *request, struct reply *reply);
/* As changes_ask_now, for the time of TOKEN AT. */
void changes_ask_time(struct request *request, struct reply *reply);
/* Is the map the one with which the call began? If not, replies an error. */
bool changes_check_map(const struct changes *changes, struct reply *reply);
/* Goes on after some milliseconds. */
void changes_pause(struct changes *changes, uint64_t ms, request_done_fn *done);
/* Reads from the positions of the token. */
void changes_send_reads(struct request *request);

/* Finds the shards that stand before slots which come from others, and may go on: these were read far enough in this round. */
void changes_find_late(struct changes *changes);
/* Up to which time all other shards were read. */
uint64_t changes_past_us(const struct changes *changes, uint32_t shard);

/* Counts the slots that a shard says it owns. False: the text is none. */
bool changes_count_owned(struct changes *changes, struct bytes text);
/* A round has ended, with all events up to the end of all logs. */
void changes_note_owners(struct changes *changes);
/* Changes of shards were lost, and their positions are those of now: goes on, lists keys again, or replies an error. */
void changes_settle_loss(struct changes *changes, struct reply *reply);

/* Begins to list all keys. */
void changes_copy_begin(struct changes *changes);
/* Is the slot to be listed? */
bool changes_copy_wants(const struct changes *changes, unsigned slot);
/* A list of all keys goes on over several calls: has this call the filters with which the list began? */
bool changes_copy_fits(const struct changes *changes);
/* Lists some more keys, then replies. */
void changes_copy_step(struct client *client, struct request *request, struct reply *reply);
