/*
 * change.h - changes of keys, as they are reported to WATCH, client-side caching and blocked clients.
 *
 *   keyspace ─► add ─► ordered list of changes and push messages ──the command succeeds──► watchers, trackers, waiters
 *                            └─ the command failed or is rolled back: dropped
 *
 * The keyspace uses this interface only; session/changes.c implements it.
 */
#pragma once

#include "backend/context/notify_class.h"
#include "backend/format/encoding.h"

struct call;
struct partition;
struct space;

enum change_kind {
    CHANGE_TOUCHED,       /* the key has another value or time to live */
    CHANGE_WRITTEN,       /* as TOUCHED; also clients that wait for the key may be served */
    CHANGE_DELETED,       /* the key was deleted */
    CHANGE_GROUP_DELETED, /* a consumer group of the stream was deleted; WATCH and caches ignore it */
    CHANGE_WATCHED,       /* the key was replaced with its whole database: for WATCH only */
    CHANGE_FLUSHED,       /* all keys of the database were removed: for blocked clients only */
    CHANGE_FORGOTTEN, /* all keys of the database's namespace may have been removed: for caches only */
    CHANGE_READ,      /* the call's client caches the key from now on (CLIENT TRACKING) */
};

struct change {
    enum change_kind kind;
    enum type type;            /* of CHANGE_WRITTEN: the key's type now */
    bool by_client;            /* by a command, not by expiry */
    const struct space *space; /* NULL for CHANGE_READ */
    struct bytes key;          /* empty: all keys; copied */
};

struct change_events {
    /* Must a change of this key be reported? Cheap when there is no watcher, tracker or waiter at all. */
    bool (*concerns)(const struct call *call, const struct space *space, struct bytes key);
    void (*add)(struct call *call, const struct change *change);
    /* Sends a keyspace notification (notify_in in notify.h). Only called for enabled classes. */
    void (*event)(struct call *call, const struct space *space, enum notify_class class,
                  const char *name, struct bytes key);
};
