/*
 * session.h - state of one client: connection, user, namespace, transaction, subscriptions.
 *
 *   connection.h     requests in; opens and closes it          session_reply.h   replies out, in order
 *
 *     OPEN ──QUIT, error, end of input──► is_closing ──nothing held──► stream_close, freed
 *       └──killed, limit exceeded, connection broken──► stream_abort, freed
 *
 * A session that is running a command is never freed: closing it then only marks it.
 *
 * While `pending.waiter` is set, the last request waits for a key (blocking.h). The stream is still read, to notice that
 * the client closes it; later requests are kept unparsed, up to client-query-limit.
 *
 * A proxy's connection that carries waits of many clients (waits.h) runs further requests while they wait.
 *
 * While rows are pending in `pending.retry`, the next request waits for the disk (suspend.h): its bytes stay in the
 * stream, which is paused.
 *
 * While `pending.streamed` is set, the last reply is still being produced (reply_stream.h): no request after it is read.
 */
#pragma once

#include "backend/keyspace/watch.h"
#include "backend/session/impersonation.h"
#include "backend/session/tracker.h"
#include "backend/session/transaction_queue.h"
#include "backend/storage/retry.h"
#include "shared/acl/channel.h"
#include "shared/namespace.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

enum { SESSION_MAGIC = 0x5e5510f1 };

struct acl_user;
struct bounced_slots;
struct coordinated;
struct partition;
struct slot_set;
struct space;
struct waiter;
struct waits;
struct watches_elsewhere;
struct reply_stream;
struct peer_identity;

/* CLIENT REPLY. */
enum reply_mode {
    REPLY_MODE_ON,
    REPLY_MODE_OFF,
    REPLY_MODE_SKIP_NEXT, /* discard the reply of the next command */
    REPLY_MODE_SKIP,      /* discard the reply of this command */
};

/* Functions of connection.c; see session_abort and the functions after it. */
struct session_ops {
    void (*abort)(struct session *session);
    void (*end)(struct session *session);
    void (*resume)(struct session *session);
    void (*go_on)(struct session *session);
    void (*close_if_done)(struct session *session);
};

/* The keys that the client can access. */
struct session_scope {
    struct bytes namespace_name; /* heap; empty: the default namespace */
    uint8_t db;
    uint32_t moves;              /* how often namespace or database changed */
    struct space *space;         /* cached by session_space */
    uint64_t generation;         /* of the spaces, when it was cached */
    struct slot_rule *slot_rule; /* heap; NULL: the {tag} rule */
    uint64_t command_memory;     /* of one command in the namespace; 0: as for all */
    uint64_t command_time_ms;    /* likewise */
    /* slots that the proxy's map gives to this partition, with a reference; NULL: all */
    struct slot_set *slots;
};

/* Login. */
struct session_login {
    bool is_authenticated;
    /* the peer is on another host, and has not sent the certificate that tls-auth-clients requires */
    bool is_untrusted;
    bool is_internal;     /* authenticated with the cluster secret */
    bool follows_bounces; /* SCREE BOUNCES: the proxy sends requests that bounce to the owner */
    bool shares_line;     /* SCREE BOUNCES WAITING: no request may wait for long (line.h) */
    /* SCREE BOUNCES SEEN: the proxy says which bounces have come (bounce.h) */
    bool counts_bounces;
    bool hears_stop;   /* SCREE STOPS: the proxy closes it after STOPPING_FRAME (stopping.h) */
    bool was_told;     /* STOPPING_FRAME was sent */
    bool follows;      /* SCREE FOLLOW: it becomes the line of another copy of the shard */
    bool hears_leader; /* SCREE SELF LEADS: LEADER_FRAME is sent when another copy leads */
    char *name;        /* name of the user; heap, NULL: "default" */
    const struct acl_user *user; /* cached by session_user */
    uint64_t epoch;              /* of the configuration snapshot in which `user` was found */
    struct impersonation impersonation; /* user for which a proxy runs a request */
};

/* Properties that the client has set: CLIENT SETNAME, SETINFO, NO-EVICT, NO-TOUCH, READONLY. Texts: heap, NULL: none. */
struct session_about {
    char *name;
    char *lib_name;
    char *lib_version;
    bool is_readonly;
    /* SCREE SELF FRESH, with is_readonly: a proxy, whose clients have not sent READONLY */
    bool wants_fresh;
    bool no_evict;
    bool no_touch;
    uint64_t created_ms; /* monotonic */
};

/* Replies that are not in the stream yet (session_reply.h). */
struct session_replies {
    uint8_t mode;           /* enum reply_mode */
    bool are_dropped;       /* CLIENT REPLY OFF or SKIP was in force when the request began */
    struct out held[2];     /* replies that wait for a ticket, by its parity */
    uint32_t held_count[2]; /* number of these replies, without messages */
    struct list waiting[2]; /* in partition->clients.waiting while replies are held */
    /* in partition->clients.overdue: has too many unread replies and is closed at the end of the turn */
    struct list overdue;
    uint64_t count;    /* of all replies of the session, also those that are held */
    size_t last_bytes; /* of the last reply: a single reply may exceed client-output-limit */
    uint64_t soft_limit_since_ms; /* since when the soft limit is exceeded; monotonic */
};

/* What the next read waits for at a copy that follows: dispatch/fresh_reads.h. */
struct session_fresh {
    enum session_fresh_state {
        SESSION_FRESH_NONE,
        SESSION_FRESH_WAITING, /* for the next question */
        SESSION_FRESH_ASKING,
        SESSION_FRESH_APPLYING, /* the data must have the record `index` */
    } state;
    struct list link;
    bool is_used;     /* bytes, or a wait */
    bool is_refused;  /* requests in `bytes` are the leader's */
    size_t bytes;     /* of requests at the front that the answer covers */
    uint64_t index;   /* of the answer */
    uint64_t time_us; /* likewise */
    uint64_t since_ms;
};

/* Requests of many clients on one connection; line.h */
struct session_line {
    struct list link; /* in the partition's struct line: the first request waits */
    uint64_t due_ms;  /* when it leaves the line; monotonic */
    uint64_t left_ms; /* when the last request has left it */
    bool leaves;      /* the first request bounces when it runs again */
    bool is_left;     /* requests behind one that has left bounce, until the proxy has seen that */
};

/* Requests of the connection that were sent back; bounce.h */
struct session_bounces {
    struct bounced_slots *slots; /* bounced_slots.h; NULL: none */
    /* the first one that makes requests behind it bounce, and that the proxy is not known to have seen: its number among the replies; 0: none */
    uint64_t unseen;
};

/* Reasons for which the next request does not run yet. */
struct session_pending {
    struct waiter *waiter;         /* NULL: does not wait for a key */
    size_t waiter_bytes;           /* of the waiter */
    struct waits *waits;           /* waits of a proxy's clients; NULL: there was no wait so far */
    struct reply_stream *streamed; /* the reply that is being produced; NULL: none */
    struct retry retry;            /* of rows from the disk (suspend.h) */
    struct watches_elsewhere *watches; /* of keys of other shards (coordinator.h); NULL: none */
    struct coordinated *across;        /* the request's transaction over shards; NULL: none */
    struct session_bounces bounces;
    struct lock_waiter *lock_waiter; /* of the request, which has waited for a lock; NULL */
    struct session_line line;
    struct last_step next_turn; /* its requests have taken too much of this turn */
    struct session_fresh fresh;
    uint8_t suspend_tries; /* how often the request was suspended */
    /* the request was rolled back because it is slow, and runs again (slow_call.h) */
    bool was_slow;
};

/* The request that runs, or ran last. */
struct session_request {
    const struct command *command; /* NULL: no request so far */
    /* SCREE SHOW: the proxy requested MONITOR lines about commands of scripts */
    bool shows_scripts;
    uint32_t shown_bytes; /* bytes of these lines */
    bool must_not_wait;   /* SCREE TRY: a blocking command replies null at once */
    bool is_across;       /* SCREE ACROSS: the command may reach keys of other shards */
    /* SCREE UNTIL: the slot behind the last one that SCAN visits; 0: all slots */
    uint16_t scan_end;
    bool shows_owned;     /* SCREE OWNED: the reply has a sum over the slots that are owned here */
    uint8_t owned_bytes;  /* of the reply's beginning with that sum; a bounce has none */
    bool is_uncounted;    /* SCREE PART: another shard counts it as a call of the proxy's client */
    bool is_misled;       /* it names a key that is not here, and will bounce (bounce.h) */
    uint16_t misled_slot; /* of this key */
    uint64_t number;      /* how many requests of the connection came before it */
    uint32_t prefixes;    /* arguments before the command, such as SCREE AS name rules */
};

struct session {
    const struct session_ops *ops;
    uint32_t magic;
    uint8_t resp;      /* 2 or 3 */
    bool is_running;   /* a command of the session is on the stack */
    bool is_closing;   /* reads no more requests; closed as soon as no reply is held */
    bool is_aborted;   /* set while is_running: aborted when the command has ended */
    bool is_throttled; /* paused by CLIENT PAUSE or a full batch, or until the next turn */
    bool is_paused;    /* its next request waits for the end of CLIENT PAUSE */
    struct partition *partition;
    struct stream *stream;
    struct list link; /* in partition->clients.all */
    struct resp_scan scan;
    /* heap: after this request the connection becomes a peer link to this backend; NULL: it is a client's */
    struct peer_identity *peer;
    uint64_t id;
    struct session_request request;
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

/* Aborts a session that runs a command, after the command has ended. */
void session_abort_later(struct session *session);
/* Closes the session and drops unsent replies. The session is freed, or marked if it runs a command. */
static inline void session_abort(struct session *session)
{
    session->ops->abort(session);
}
/* Stops reading requests, and closes the session after its replies; the caller must not use the session afterwards. */
static inline void session_end(struct session *session)
{
    session->ops->end(session);
}
/* Resumes a throttled session, unless its last reply is still being produced. */
static inline void session_resume(struct session *session)
{
    session->ops->resume(session);
}
/* Runs the requests that follow a blocking command, after its reply. The session may be freed. */
static inline void session_go_on(struct session *session)
{
    session->ops->go_on(session);
}
/* True: the next request of the session waits for the end of CLIENT PAUSE; INFO counts the session as blocked. */
void session_pause(struct session *session, bool is_paused);
/* True in RESP2 with a subscription: few commands are allowed. */
bool session_is_subscriber(const struct session *session);

/* The struct space that stores the session's namespace and database. */
struct space *session_space(struct session *session);
/* Name of the session's namespace; empty: the default namespace. */
struct bytes session_namespace(const struct session *session);
/* Number of databases that SELECT accepts. */
int session_databases(const struct session *session);
/* The storage namespace of a database of the session's namespace; NULL when there is no such database. */
struct space *session_database(struct session *session, uint8_t database);
void session_select(struct session *session, uint8_t db);
/* The slots whose keys are here: those that the partition owns (slot_owners.h), without those that have bounced; or, without a
 * map of its own, those that the proxy's map gives to it. NULL: all. */
const struct slot_set *session_slots(const struct session *session);
/* Sets the slots that the proxy's map gives to this partition; takes the reference. NULL: all slots. */
void session_set_slots(struct session *session, struct slot_set *slots);
/* The proxy has seen the bounces: requests that come from now on need not bounce because of them (bounce.h). */
void session_end_bounces(struct session *session);
/* SCREE OWNED: writes what comes before the reply of a command that has seen these slots. */
void session_write_owned(struct session *session, const struct slot_set *served, struct out *out);
/* Limits the request, a SCAN, to slots up to this one. False: the text is no slot. */
bool session_scan_until(struct session *session, struct bytes slot);
/* Switches namespace and database; the slot rule may be NULL. All are copied. */
void session_use(struct session *session, struct bytes name, uint8_t db,
                 const struct slot_rule *rule);
/* Do no ACL rules apply, because the client authenticated with the cluster secret and impersonates no user? */
static inline bool session_is_trusted(const struct session *session)
{
    return session->login.is_internal && !session->login.impersonation.is_here;
}

/* The session's user in the current snapshot; NULL: the user was removed. */
const struct acl_user *session_user(struct session *session);
struct bytes session_user_name(const struct session *session);
/* protected-mode: while no password is set, untrusted peers may only authenticate with the cluster secret. */
bool session_is_protected(const struct session *session);
/* Logs the client in as this user. */
void session_log_in(struct session *session, struct bytes name);
/* Sets one of the texts name, lib_name, lib_version; empty: none. */
void session_set_text(char **text, struct bytes value);
/* Bytes of the session's queued commands, watched keys and subscriptions. */
size_t session_state_bytes(const struct session *session);
/* May the session's state grow by `bytes` (client-state-limit)? */
bool session_has_room(const struct session *session, size_t bytes);
