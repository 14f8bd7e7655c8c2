/*
 * sim_client.h - simulated clients: pipelines of random commands, and what their replies must be.
 *
 *   generator (command + operations of the history) ─► queue ─► sent ─► reply: shape, value, tag ─► history
 *                                                  first     sent          last
 *
 * A client has a loop of its own. It connects to a proxy, or to a partition and then uses only keys of that partition.
 * It works in one place (namespace, database), and connects again when it lost the connection.
 */
#pragma once

#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_history.h"

enum {
    SIM_CLIENTS_MAX = 40,
    SIM_KEYS_MAX = 56,
    SIM_QUEUE_MAX = 128,
    SIM_REFS_MAX = 6,
    SIM_OPERATIONS_MAX = 24,
    SIM_ANY_SHARD = 99,
};

enum sim_key_kind { SIM_REGISTER, SIM_COUNTER, SIM_HASH, SIM_TWIN, SIM_KEY_KINDS };

/* A key and its number in the history. Twins are two keys that are only written together: the second has the next
 * number, and its value is always one higher than the first one's. */
struct sim_key {
    enum sim_key_kind kind;
    bool is_second; /* the second one of twins */
    unsigned place;
    unsigned shard;
    uint16_t slot;
    char text[SIM_NAMES_MAX];
};

/* State that all clients of a world share. */
struct sim_workload {
    struct sim_cluster *cluster;
    struct history history;
    struct sim_key keys[SIM_KEYS_MAX];
    unsigned key_count;
    unsigned names;    /* number of key names so far */
    uint32_t commands; /* bit set of enum generate_kind: the commands that clients send */
    bool has_expiry;
    bool is_calm; /* there are no faults, so a client need not wait for the reply to its greeting */
    unsigned pace_ms;     /* average time between two actions of a client */
    bool may_fail;        /* a fault has happened: errors and lost connections are allowed */
    bool has_reloaded;    /* a proxy got a new map: it may have lost its watched keys */
    uint32_t connections; /* connections so far */
    uint32_t tags;
    uint64_t answered;
    uint64_t errors;
    uint64_t reconnects;
    FILE *trace;         /* NULL: no trace */
    char why[512];       /* the first failure; empty: none */
    bool are_twins_torn; /* one of two writes of an EXEC or a script failed, so twins may differ */
};

/* What one reply, or one element of EXEC's reply, must look like. */
enum sim_reply_kind {
    REPLY_TAG,    /* the tag of a PING or ECHO */
    REPLY_DONE,   /* +OK */
    REPLY_QUEUED, /* +QUEUED */
    REPLY_VALUES, /* GET, MGET: the values of the steps */
    REPLY_NUMBER, /* INCR, EXPIRE, HSET */
    REPLY_COUNT,  /* DEL, EXISTS: the sum over the steps */
    REPLY_FIELD,  /* HGET */
    REPLY_FIELDS, /* HGETALL */
    REPLY_ANY,    /* no error */
    REPLY_EXEC,
    REPLY_DBSIZE, /* of an audit, like the next two */
    REPLY_KEYS,
    REPLY_IN_SLOT,
};

struct sim_wanted {
    enum sim_reply_kind kind;
    bool is_twin;   /* REPLY_VALUES of twins: the values must fit together */
    bool is_script; /* several commands: when one fails, the effects of the others stay */
    unsigned count;
    struct {
        uint32_t operation;
        uint8_t step;
    } refs[SIM_REFS_MAX];
    uint32_t tag;
};

struct sim_request {
    struct out frame;
    struct sim_wanted *wanted; /* EXEC: one for each queued command */
    unsigned wanted_count;
    enum sim_reply_kind kind;
    /* operations of the history that this reply completes */
    uint32_t operations[SIM_OPERATIONS_MAX];
    unsigned operation_count;
    bool is_watch;   /* WATCH, or the EXEC after a WATCH */
    unsigned copies; /* further replies to drop (sim_break.h) */
};

/* The results of an audit. */
struct sim_sight {
    bool is_done;
    uint64_t dbsize;
    unsigned keys; /* keys in the reply to KEYS */
    bool has_key[SIM_KEYS_MAX];
    unsigned in_slot[SIM_KEYS_MAX]; /* COUNTKEYSINSLOT of the key's slot */
};

enum sim_mode { SIM_LOAD, SIM_AUDIT };

struct sim_client {
    struct sim_workload *work;
    unsigned number;
    enum sim_mode mode;
    char name[SIM_NAMES_MAX]; /* the name of its host */
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    bool is_open;
    bool is_greeted; /* it is in its namespace and database */
    bool must_leave; /* selecting its namespace or database failed */
    bool is_ending;  /* it sends no new requests */
    bool wants_resp3;
    unsigned place;
    int proxy;      /* number of the proxy it connects to; -1: it connects to a partition */
    unsigned shard; /* the partition's shard */
    uint32_t connection;
    unsigned quota;                          /* requests that it may still make */
    struct sim_request queue[SIM_QUEUE_MAX]; /* a ring buffer */
    uint64_t first;                          /* the oldest request without a reply */
    uint64_t sent;                           /* the next request to send */
    uint64_t last;
    struct resp_skip skip;
    struct sim_sight sight;
};

/* Chooses the keys and the kinds of commands at random. */
void sim_workload_init(struct sim_workload *work, struct sim_cluster *cluster, bool has_expiry);
void sim_workload_fini(struct sim_workload *work);

/* Records that the client got something wrong, which ends the world. Only the first failure is kept. */
void sim_client_fail(struct sim_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void sim_client_start(struct sim_client *client, struct sim_workload *work, unsigned number,
                      unsigned quota);
/* Reads all keys of a place through a proxy or partition, repeatedly until it has succeeded. */
void sim_client_start_audit(struct sim_client *client, struct sim_workload *work, unsigned number,
                            unsigned place, int proxy, unsigned shard);
/* The client makes no more requests and connections, and still reads replies. */
void sim_client_end(struct sim_client *client);
/* No reply is outstanding and no request is queued. */
bool sim_client_is_idle(const struct sim_client *client);
/* Disconnects and frees. */
void sim_client_fini(struct sim_client *client);
