/*
 * change.h - what a command did to keys, for those who learn of it: WATCH, client-side caching, blocked clients.
 *
 *   keyspace ─► add ─► list, in order, with messages ──the command is kept──► told: watchers, trackers, waiters
 *                            └─ the command failed or is rolled back: dropped
 *
 * The keyspace knows the interested parties through this interface only; partition/changes.c is behind it.
 */
#pragma once

#include "backend/context/notify_class.h"
#include "backend/format/encoding.h"

struct call;
struct partition;
struct space;

enum change_kind {
    CHANGE_TOUCHED,       /* the key has another value or time to live */
    CHANGE_WRITTEN,       /* likewise, and clients that wait for the key may find what they want */
    CHANGE_DELETED,       /* the key is gone */
    CHANGE_GROUP_DELETED, /* a consumer group of the stream is gone; WATCH and caches do not see it */
    CHANGE_WATCHED,       /* the key goes with its whole database: for WATCH only */
    CHANGE_FLUSHED,       /* all keys of the database are gone: for blocked clients only */
    CHANGE_FORGOTTEN,     /* all keys of the session's namespace may be gone: for caches only */
    CHANGE_READ, /* the call's client keeps a copy of the key from now on (CLIENT TRACKING) */
};

struct change {
    enum change_kind kind;
    enum type type;            /* of CHANGE_WRITTEN: what the key holds now */
    bool by_client;            /* by a command, not because its time to live is over */
    const struct space *space; /* NULL for CHANGE_FORGOTTEN and CHANGE_READ */
    struct bytes key;          /* empty when all keys are meant; copied */
};

struct change_events {
    /* Is there a party that has to be told of a change of this key? Cheap when there is none at all. */
    bool (*concerns)(const struct call *call, const struct space *space, struct bytes key);
    void (*add)(struct call *call, const struct change *change);
    /* A keyspace notification, see notify_in (notify.h). Called only for classes that are enabled. */
    void (*event)(struct call *call, const struct space *space, enum notify_class class,
                  const char *name, struct bytes key);
};
