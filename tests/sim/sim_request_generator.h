/*
 * sim_request_generator.h - makes requests: the bytes to send, the operations they are, the replies they must get.
 */
#pragma once

#include "tests/sim/sim_client.h"

/* Kinds of commands; a workload draws from a set of them. */
enum generate_kind {
    DRAFT_PING,
    DRAFT_GET,
    DRAFT_SET,
    DRAFT_INCR,
    DRAFT_DEL,
    DRAFT_EXISTS,
    DRAFT_EXPIRE,
    DRAFT_MGET,
    DRAFT_MSET,
    DRAFT_HSET,
    DRAFT_HGET,
    DRAFT_HGETALL,
    DRAFT_TWIN_WRITE,
    DRAFT_TWIN_READ,
    DRAFT_TWIN_DEL,
    DRAFT_BROAD, /* answered by all shards, or by any */
    DRAFT_MULTI,
    DRAFT_MOVE, /* to another place */
    DRAFT_KINDS,
};

/* Puts a request, or a whole MULTI block, at the end of the queue. */
void generate_random(struct sim_client *client);
/* The way to its place, after connecting. */
void generate_greeting(struct sim_client *client);
void generate_hello(struct sim_client *client);
/* Everything an audit asks. */
void generate_audit(struct sim_client *client);
/* How much of the queue one generator may need. */
enum { DRAFT_REQUESTS_MAX = 8 };
