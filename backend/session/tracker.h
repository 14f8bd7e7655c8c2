/*
 * tracker.h - a session's options of CLIENT TRACKING (tracking.h).
 */
#pragma once

#include "shared/subscription_table.h"

struct session;

struct tracker {
    bool is_on;
    bool is_bcast;
    bool is_optin;
    bool is_optout;
    bool is_noloop;
    bool is_caching; /* CLIENT CACHING was given for the next command */
    bool is_broken;  /* the REDIRECT client was gone when an invalidation was due */
    /* heap; the same at all shards to which a proxy's client is connected; empty: none */
    struct bytes name;
    uint64_t redirect_id;      /* 0: none */
    struct session *redirect;  /* NULL: none, or closed */
    struct list redirect_link; /* in the list `redirectors` of the tracker of `redirect` */
    struct list redirectors;   /* of struct tracker, by redirect_link */
    struct list link;          /* in tracking->trackers while is_on */
    struct follower keys;      /* keys that the client has read */
    struct follower prefixes;  /* BCAST */
};
