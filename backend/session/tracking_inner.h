/*
 * tracking_inner.h - what the two files of CLIENT TRACKING share: tracking.c, of keys that clients have read and of all invalidations,
 * and tracking_bcast.c, of the prefixes that clients follow.
 */
#pragma once

#include "backend/session/tracking.h"
#include "shared/slot.h"

enum { GROUP_SLOTS = 64, GROUPS = SLOT_COUNT / GROUP_SLOTS };

struct block;
struct table;

/* Tracked keys of one namespace. Never freed: namespaces are few. */
struct tracked {
    struct subscription_table *keys;
    struct list groups[GROUPS]; /* `keys` by slot: struct topic, linked by its group */
    struct subscription_table *prefixes;
    /* keys changed in this turn, if there are prefixes → struct turn_change */
    struct table *changed;
};

/* An invalidation for several clients, formatted once for each protocol. */
struct news {
    struct partition *partition;
    struct session *current;  /* the client whose command caused it; NULL: none */
    const struct bytes *keys; /* NULL: all keys */
    size_t count;
    struct block *frames[2]; /* RESP2 and RESP3; of `keys` */
};

/* Sends the invalidation to a client, or to that of its REDIRECT. */
void tracking_send(struct news *news, struct session *session);
void news_fini(struct news *news);

/* A key has changed in this turn. `by`: id of the client that has changed it; 0: none. False: no prefix is followed. */
bool tracked_note(struct tracked *tracked, struct bytes key, uint64_t by);
/* Sends every client the keys with its prefixes that have changed in this turn, and forgets them. */
void tracked_tell(struct partition *partition, struct tracked *tracked);
void tracked_forget_changes(struct tracked *tracked);
