/*
 * session.h - one client connection: requests in, replies out, in order.
 *
 *   on_data ─► resp_scan ─► dispatch ─► reply ─┬─ observed nothing uncommitted ──► stream_out
 *                                              └─ else: held[ticket's parity] ──on_commit──► stream_out
 *
 * Replies leave in the order of the requests, so a reply behind a held one is held too. Two tickets can be
 * open, the batch in flight and the one that collects, and the replies of the first are all older than those
 * of the second. When a batch fails, every reply held becomes one error. Messages (session_push) stand between
 * the replies; those that are held with a batch that fails are dropped.
 *
 *     OPEN ──QUIT, error, end of input──► is_closing ──nothing held──► stream_close, freed
 *       └──killed, limit exceeded, connection broken──► stream_abort, freed
 *
 * A session that is running a command is never freed: closing it then only marks it.
 *
 * While `waiter` is set the last request waits for a key (blocking.h): what comes behind it is kept unread, up to
 * client-query-limit, so that the end of the connection is noticed at once.
 *
 * While rows are pending in `cold` the next request waits for the disk (cold.h): it is still in the stream, which is
 * paused.
 *
 * While `walk` is set the last reply is still being produced (walk.h): nothing behind it is read, and the session can
 * only go on or be aborted.
 */
#pragma once

#include "backend/keyspace/watch.h"
#include "backend/partition/guest.h"
#include "backend/partition/pubsub.h"
#include "backend/partition/tracking.h"
#include "backend/partition/transaction.h"
#include "backend/storage/reader.h"
#include "shared/namespace.h"
#include "shared/net/stream.h"
#include "shared/resp.h"

enum { SESSION_MAGIC = 0x5e5510f1 };

struct acl_user;
struct partition;
struct slot_set;
struct space;
struct waiter;
struct walk;

/* CLIENT REPLY. */
enum reply_mode {
    REPLY_MODE_ON,
    REPLY_MODE_OFF,
    REPLY_MODE_SKIP_NEXT, /* the next command's reply is dropped */
    REPLY_MODE_SKIP,      /* this one's */
};

struct session {
    uint32_t magic;
    uint8_t resp; /* 2 or 3 */
    uint8_t db;
    uint8_t reply_mode; /* enum reply_mode */
    bool is_authenticated;
    bool
        is_stranger; /* from another host, without a certificate that tls-auth-clients = yes asks for */
    bool is_internal;  /* knows the cluster's secret */
    bool is_running;   /* a command of it is on the stack */
    bool is_closing;   /* reads no more; closed as soon as nothing is held */
    bool is_aborted;   /* with is_running: aborted when the command has ended */
    bool is_throttled; /* paused by CLIENT PAUSE or a full batch */
    bool is_readonly;  /* READONLY */
    bool is_paused;    /* its next request waits for the end of CLIENT PAUSE */
    bool drops_reply;  /* CLIENT REPLY OFF or SKIP, when the request began */
    bool no_evict;
    bool no_touch;
    uint8_t cold_tries; /* how often the next request was taken back for rows on the disk */
    struct partition *partition;
    struct stream *stream;
    struct list link;       /* in partition->clients.all */
    struct list waiting[2]; /* in partition->clients.waiting while something is held */
    struct out held[2];     /* replies that wait for a ticket, by its parity */
    uint32_t held_count[2]; /* how many replies that are, messages not counted */
    struct resp_scan scan;
    uint64_t id;
    uint64_t created_ms;           /* monotonic */
    uint64_t output_soft_since_ms; /* monotonic; output_limit_exceeded */
    const struct command *command; /* the last one; NULL: none yet */
    struct waiter *waiter;         /* it waits for a key; NULL: it does not */
    struct walk *walk;             /* the rest of the last reply; NULL: none */
    struct reader_wait cold;       /* rows the next request waits for (cold.h) */
    size_t reply_bytes;          /* of the last reply: one may be longer than client-output-limit */
    struct bytes namespace_name; /* heap; empty: the default namespace */
    struct space *space;         /* cached; see session_space */
    uint64_t space_generation;
    struct slot_rule *slot_rule; /* heap; NULL: the {tag} rule */
    struct slot_set *slots;      /* its proxy's map gives us these, with a reference; NULL: all */
    char *name;                  /* CLIENT SETNAME; heap, NULL: none */
    char *lib_name;
    char *lib_version;
    char *user_name;             /* heap; NULL: "default" */
    const struct acl_user *user; /* cached; see session_user */
    uint64_t user_epoch;         /* of the settings it is from */
    struct guest guest;          /* whose request a proxy passes on */
    struct transaction transaction;
    struct watcher watcher;
    struct subscriber subscriber;
    struct tracker tracker;
    struct list
        overdue; /* in partition->clients.overdue: owes too much, cut at the end of the turn */
    struct list monitor; /* in partition->clients.monitors */
};

/* Takes an accepted stream. */
struct session *session_new(struct partition *partition, struct stream *stream, uint64_t id);
/* Closes at once, drops what was not sent. The session is gone, or marked when it is running. */
void session_abort(struct session *session);
/* Answers with an error; takes no more requests. */
void session_refuse(struct session *session, const char *error);
/* Reads no more and closes after the replies that are owed; the caller does not use it any more. */
void session_end(struct session *session);
/* The ticket of this parity is durable (OK): its replies leave. Otherwise every held reply becomes `err`. */
void session_release(struct session *session, unsigned parity, int err);
/* Its next request waits for the end of CLIENT PAUSE, or does so no more; INFO counts it as blocked. */
void session_pause(struct session *session, bool is_paused);
/* A throttled session reads on, unless its last reply is in progress. */
void session_resume(struct session *session);

/* A reply begins: where to write it. `is_write`: the command will probably have effects. */
struct out *session_reply_begin(struct session *session, bool is_write);
/* It is complete. `begun` is out->bytes as it was then (nothing was written: no reply), `observed` the newest
 * ticket it observed, 0 = none. `out` may be another one than session_reply_begin gave, when it has the reply alone. */
void session_reply_end(struct session *session, struct out *out, size_t begun, uint64_t observed);

/* In place of session_reply_end: the reply comes when the command has run again. */
void session_reply_later(struct session *session);
/* Its wait is over, and what was to be replied was: runs what came behind. It may be gone afterwards. */
void session_go_on(struct session *session);
/* A message (message.h): whole frames that leave when the ticket is durable (0: at once), behind everything owed,
 * and are dropped when its batch fails. */
void session_push(struct session *session, struct block *frames, uint64_t ticket);
/* In RESP2 with a subscription: few commands are allowed. */
bool session_is_subscriber(const struct session *session);

/* The storage namespace of its namespace and database. */
struct space *session_space(struct session *session);
/* The bytes of its namespace's name; empty for the default one. */
struct bytes session_namespace(const struct session *session);
/* How many databases SELECT knows. */
int session_databases(const struct session *session);
void session_select(struct session *session, uint8_t db);
/* Its proxy's map gives these slots to this partition; takes the reference. NULL: all of them. */
void session_set_slots(struct session *session, struct slot_set *slots);
/* Switches the namespace and the database; the rule may be NULL. All are copied. */
void session_use(struct session *session, struct bytes name, uint8_t db,
                 const struct slot_rule *rule);
/* Has shown the cluster's secret and speaks for nobody else: no rules hold. */
static inline bool session_is_trusted(const struct session *session)
{
    return session->is_internal && !session->guest.is_here;
}

/* Who it is, as the users are now; NULL: the user was removed. */
const struct acl_user *session_user(struct session *session);
struct bytes session_user_name(const struct session *session);
/* protected-mode: while nobody needs a password, strangers may only show the cluster secret. */
bool session_is_protected(const struct session *session);
/* The client has shown that it is this user. */
void session_log_in(struct session *session, struct bytes name);
/* Sets one of the texts name, lib_name, lib_version; empty: none. */
void session_set_text(char **text, struct bytes value);
/* RESET and a new session: everything a client can change is as at the beginning. */
void session_reset(struct session *session);
/* Bytes the partition keeps for it: queued commands, watched keys, subscriptions. */
size_t session_state_bytes(const struct session *session);
/* May it keep so many more (client-state-limit)? */
bool session_has_room(const struct session *session, size_t bytes);
/* Bytes of replies not sent yet, held ones included. */
size_t session_owed_bytes(const struct session *session);
