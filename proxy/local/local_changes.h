/*
 * local_changes.h - what the files of SCREE CHANGES share.
 *
 *   local_changes.c        the calls of a client, and rounds of READ at all shards
 *   local_changes_copy.c   keys that exist, listed slot by slot (READ 0)
 *   changes_token.c        the token as text
 */
#pragma once

#include "proxy/local/changes_token.h"
#include "proxy/local/local.h"
#include "shared/changes_options.h"

/* One call. Events are collected in the reply. */
struct changes {
    struct request *request;
    struct timer *timer; /* the next round; NULL: none */
    struct changes_options options;
    uint64_t until_ms; /* monotonic: end of BLOCK */
    uint32_t count;    /* events in the reply */
    int64_t lag_ms;    /* of the shard that is furthest behind */
    bool has_lost;     /* positions that are empty are to be set to that of now */
    bool is_again;     /* all keys are listed again, because changes were lost */
    bool is_token;     /* the reply is a token only */
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

/* Begins to list all keys. */
void changes_copy_begin(struct changes *changes);
/* A list of all keys goes on over several calls: has this call the filters with which the list began? */
bool changes_copy_fits(const struct changes *changes);
/* Lists some more keys, then replies. */
void changes_copy_step(struct client *client, struct request *request, struct reply *reply);
