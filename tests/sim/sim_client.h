/*
 * sim_client.h - simulated clients: pipelines of random commands, and what their replies must be.
 *
 *   generator (command + operations of the history) ─► queue ─► sent ─► reply: shape, value, tag ─► history
 *                                                  first     sent          last
 *
 * A client lives on a loop of its own. It connects to an entrance (a proxy, or a partition whose keys alone
 * it uses then), in one place (namespace, database), and again when the connection was lost.
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

/* A key; its number is the history's. Twins are written together only; the second has the next number, and
 * always the value after the first one's. */
struct sim_key {
    enum sim_key_kind kind;
    bool is_second; /* of twins */
    unsigned place;
    unsigned shard;
    uint16_t slot;
    char text[SIM_NAMES_MAX];
};

/* What all clients of a world share. */
struct sim_workload {
    struct sim_cluster *cluster;
    struct history history;
    struct sim_key keys[SIM_KEYS_MAX];
    unsigned key_count;
    unsigned names;    /* given to keys so far */
    uint32_t commands; /* bit set of enum generate_kind that clients draw from */
    bool has_expiry;
    bool is_calm;      /* no fault will ever come: nothing needs to wait for a greeting's reply */
    unsigned pace_ms;  /* a client acts about so often */
    bool may_fail;     /* a fault has happened: errors and lost connections are no surprise */
    bool has_reloaded; /* a proxy got a new map: it may have lost what it watched */
    uint32_t connections; /* numbers of connections */
    uint32_t tags;
    uint64_t answered;
    uint64_t errors;
    uint64_t reconnects;
    FILE *trace;         /* NULL: quiet */
    char why[512];       /* first thing that was wrong; empty: nothing */
    bool are_twins_torn; /* half of an EXEC or a script that writes both failed */
};

/* What one reply, or one element of an EXEC's, must look like. */
enum sim_reply_kind {
    REPLY_TAG,    /* the tag of a PING or ECHO */
    REPLY_DONE,   /* +OK */
    REPLY_QUEUED, /* +QUEUED */
    REPLY_VALUES, /* GET, MGET: values of the steps */
    REPLY_NUMBER, /* INCR, EXPIRE, HSET */
    REPLY_COUNT,  /* DEL, EXISTS: a sum over the steps */
    REPLY_FIELD,  /* HGET */
    REPLY_FIELDS, /* HGETALL */
    REPLY_ANY,    /* no error */
    REPLY_EXEC,
    REPLY_DBSIZE, /* of an audit, as the next two */
    REPLY_KEYS,
    REPLY_IN_SLOT,
};

struct sim_wanted {
    enum sim_reply_kind kind;
    bool is_twin;   /* REPLY_VALUES of twins: they must match */
    bool is_script; /* of several commands: when one fails, what the others did stays */
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
    uint32_t operations[SIM_OPERATIONS_MAX]; /* operations of the history that this reply answers */
    unsigned operation_count;
    bool is_watch;   /* WATCH, or the EXEC after it */
    unsigned copies; /* replies to swallow (sim_break.h) */
};

/* What an audit has seen. */
struct sim_sight {
    bool is_done;
    uint64_t dbsize;
    unsigned keys; /* of KEYS */
    bool has_key[SIM_KEYS_MAX];
    unsigned in_slot[SIM_KEYS_MAX]; /* COUNTKEYSINSLOT of the key's slot */
};

enum sim_mode { SIM_LOAD, SIM_AUDIT };

struct sim_client {
    struct sim_workload *work;
    unsigned number;
    enum sim_mode mode;
    char name[SIM_NAMES_MAX]; /* of its host */
    struct loop *loop;
    struct timer *timer;
    struct stream *stream; /* NULL: not connected */
    bool is_open;
    bool is_greeted; /* it is in its place */
    bool must_leave; /* it did not get there */
    bool is_ending;  /* nothing new any more */
    bool wants_resp3;
    unsigned place;
    int proxy;      /* its entrance; -1: a partition */
    unsigned shard; /* of the partition */
    uint32_t connection;
    unsigned quota;                          /* requests it may still make */
    struct sim_request queue[SIM_QUEUE_MAX]; /* a ring */
    uint64_t first;                          /* oldest without a reply */
    uint64_t sent;                           /* next to be sent */
    uint64_t last;
    struct resp_skip skip;
    struct sim_sight sight;
};

/* Draws the keys and the kinds of commands. */
void sim_workload_init(struct sim_workload *work, struct sim_cluster *cluster, bool has_expiry);
void sim_workload_fini(struct sim_workload *work);

/* Something is wrong with what the client got: the world ends. The first one is kept. */
void sim_client_fail(struct sim_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void sim_client_start(struct sim_client *client, struct sim_workload *work, unsigned number,
                      unsigned quota);
/* Reads all keys of a place through an entrance, again and again until it has succeeded. */
void sim_client_start_audit(struct sim_client *client, struct sim_workload *work, unsigned number,
                            unsigned place, int proxy, unsigned shard);
/* Makes and connects no more, reads on. */
void sim_client_end(struct sim_client *client);
/* Nothing is owed to it and nothing will be asked. */
bool sim_client_is_idle(const struct sim_client *client);
/* Disconnects and frees. */
void sim_client_fini(struct sim_client *client);
