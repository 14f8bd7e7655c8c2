/*
 * session.h - what is known of one client: its connection, user, namespace, and what it has asked for.
 *
 *   connection.h     requests in; opens and closes it          session_reply.h   replies out, in order
 *
 *     OPEN ──QUIT, error, end of input──► is_closing ──nothing held──► stream_close, freed
 *       └──killed, limit exceeded, connection broken──► stream_abort, freed
 *
 * A session that is running a command is never freed: closing it then only marks it.
 *
 * While `pending.waiter` is set the last request waits for a key (blocking.h): what comes behind it is kept unread, up
 * to client-query-limit, so that the end of the connection is noticed at once.
 *
 * A proxy's connection that carries the waits of many clients (waits.h) is read on while they wait.
 *
 * While rows are pending in `pending.row_wait` the next request waits for the disk (suspend.h): it is still in the
 * stream, which is paused.
 *
 * While `pending.streamed` is set the last reply is still being produced (reply_stream.h): nothing behind it is read,
 * and the session can only go on or be aborted.
 */
#pragma once

#include "backend/keyspace/watch.h"
#include "backend/partition/impersonation.h"
#include "backend/partition/tracker.h"
#include "backend/partition/transaction.h"
#include "backend/storage/reader.h"
#include "shared/channel.h"
#include "shared/namespace.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

enum { SESSION_MAGIC = 0x5e5510f1 };

struct acl_user;
struct partition;
struct slot_set;
struct space;
struct waiter;
struct waits;
struct reply_stream;
struct peer_identity;

/* CLIENT REPLY. */
enum reply_mode {
    REPLY_MODE_ON,
    REPLY_MODE_OFF,
    REPLY_MODE_SKIP_NEXT, /* the next command's reply is dropped */
    REPLY_MODE_SKIP,      /* this one's */
};

/* What its connection does for it (connection.c); see session_abort and the functions behind it. */
struct session_ops {
    void (*abort)(struct session *session);
    void (*end)(struct session *session);
    void (*resume)(struct session *session);
    void (*go_on)(struct session *session);
};

/* Which keys it means. */
struct session_scope {
    struct bytes namespace_name; /* heap; empty: the default namespace */
    uint8_t db;
    uint32_t moves;              /* how often namespace or database were changed */
    struct space *space;         /* cached; see session_space */
    uint64_t generation;         /* of the spaces, when it was cached */
    struct slot_rule *slot_rule; /* heap; NULL: the {tag} rule */
    struct slot_set *slots;      /* its proxy's map gives us these, with a reference; NULL: all */
};

/* Who it is. */
struct session_login {
    bool is_authenticated;
    bool
        is_untrusted; /* from another host, without a certificate that tls-auth-clients = yes asks for */
    bool is_internal;                   /* has shown the cluster's secret */
    char *name;                         /* of the user; heap, NULL: "default" */
    const struct acl_user *user;        /* cached; see session_user */
    uint64_t epoch;                     /* of the configuration snapshot it is from */
    struct impersonation impersonation; /* whose request a proxy passes on */
};

/* What it has said of itself: CLIENT SETNAME, SETINFO, NO-EVICT, NO-TOUCH, READONLY. Texts: heap, NULL: none. */
struct session_about {
    char *name;
    char *lib_name;
    char *lib_version;
    bool is_readonly;
    bool no_evict;
    bool no_touch;
};

/* Replies that were not handed to the stream (session_reply.h). */
struct session_replies {
    uint8_t mode;           /* enum reply_mode */
    bool are_dropped;       /* CLIENT REPLY OFF or SKIP, when the request began */
    struct out held[2];     /* that wait for a ticket, by its parity */
    uint32_t held_count[2]; /* how many those are, messages not counted */
    struct list waiting[2]; /* in partition->clients.waiting while something is held */
    struct list
        overdue; /* in partition->clients.overdue: owes too much, closed at the end of the turn */
    size_t last_bytes; /* of the last reply: one may be longer than client-output-limit */
    uint64_t soft_limit_since_ms; /* monotonic; output_limit_exceeded */
};

/* What its last request waits for. */
struct session_pending {
    struct waiter *waiter; /* a key; NULL: none */
    size_t waiter_bytes;   /* of the waiter */
    struct waits *waits;   /* keys, of a proxy's clients; NULL: it never had any */
    struct reply_stream
        *streamed;               /* that the client takes the rest of the reply; NULL: it has all */
    struct reader_wait row_wait; /* rows from the disk (suspend.h) */
    uint8_t suspend_tries;       /* how often the request was rolled back for them */
};

struct session {
    const struct session_ops *ops;
    uint32_t magic;
    uint8_t resp;      /* 2 or 3 */
    bool is_running;   /* a command of it is on the stack */
    bool is_closing;   /* reads no more; closed as soon as nothing is held */
    bool is_aborted;   /* with is_running: aborted when the command has ended */
    bool is_throttled; /* paused by CLIENT PAUSE or a full batch */
    bool is_paused;    /* its next request waits for the end of CLIENT PAUSE */
    struct partition *partition;
    struct stream *stream;
    struct list link; /* in partition->clients.all */
    struct resp_scan scan;
    struct peer_identity
        *peer; /* heap: after this request the connection is this backend's; NULL: a client's */
    uint64_t id;
    uint64_t created_ms;           /* monotonic */
    const struct command *command; /* the last one; NULL: none yet */
    struct session_scope scope;
    struct session_login login;
    struct session_about about;
    struct session_replies replies;
    struct session_pending pending;
    struct transaction transaction;
    struct watcher watcher;
    struct subscriber subscriber;
    struct tracker tracker;
    struct list monitor; /* in partition->clients.monitors */
};

/* For one that runs a command: it is aborted when the command has ended. */
void session_abort_later(struct session *session);
/* Closes at once, drops what was not sent. The session is gone, or marked when it is running. */
static inline void session_abort(struct session *session)
{
    session->ops->abort(session);
}
/* Reads no more and closes after the replies that are owed; the caller does not use it any more. */
static inline void session_end(struct session *session)
{
    session->ops->end(session);
}
/* A throttled session reads on, unless its last reply is in progress. */
static inline void session_resume(struct session *session)
{
    session->ops->resume(session);
}
/* Its wait is over, and what was to be replied was: runs what came behind. It may be gone afterwards. */
static inline void session_go_on(struct session *session)
{
    session->ops->go_on(session);
}
/* Its next request waits for the end of CLIENT PAUSE, or does so no more; INFO counts it as blocked. */
void session_pause(struct session *session, bool is_paused);
/* In RESP2 with a subscription: few commands are allowed. */
bool session_is_subscriber(const struct session *session);

/* The storage namespace of its namespace and database. */
struct space *session_space(struct session *session);
/* The bytes of its namespace's name; empty for the default one. */
struct bytes session_namespace(const struct session *session);
/* How many databases SELECT knows. */
int session_databases(const struct session *session);
/* The storage namespace of a database of its namespace; NULL when there is no such database. */
struct space *session_database(struct session *session, uint8_t database);
void session_select(struct session *session, uint8_t db);
/* Its proxy's map gives these slots to this partition; takes the reference. NULL: all of them. */
void session_set_slots(struct session *session, struct slot_set *slots);
/* Switches the namespace and the database; the rule may be NULL. All are copied. */
void session_use(struct session *session, struct bytes name, uint8_t db,
                 const struct slot_rule *rule);
/* Has shown the cluster's secret and speaks for nobody else: no rules hold. */
static inline bool session_is_trusted(const struct session *session)
{
    return session->login.is_internal && !session->login.impersonation.is_here;
}

/* Who it is, as the users are now; NULL: the user was removed. */
const struct acl_user *session_user(struct session *session);
struct bytes session_user_name(const struct session *session);
/* protected-mode: while no password is set, untrusted peers may only authenticate with the cluster secret. */
bool session_is_protected(const struct session *session);
/* The client has shown that it is this user. */
void session_log_in(struct session *session, struct bytes name);
/* Sets one of the texts name, lib_name, lib_version; empty: none. */
void session_set_text(char **text, struct bytes value);
/* Bytes the partition keeps for it: queued commands, watched keys, subscriptions. */
size_t session_state_bytes(const struct session *session);
/* May it keep so many more (client-state-limit)? */
bool session_has_room(const struct session *session, size_t bytes);
