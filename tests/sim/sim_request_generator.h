/*
 * sim_request_generator.h - makes requests: their bytes, their operations in the history, and the replies they must
 * get.
 */
#pragma once

#include "tests/sim/sim_client.h"

/* Kinds of commands; a workload uses some of them. */
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
    DRAFT_BROAD, /* answered by all shards, or by any one */
    DRAFT_MULTI,
    DRAFT_MOVE, /* changes the namespace or database */
    DRAFT_KINDS,
};

/* Puts a request, or a whole MULTI block, at the end of the queue. */
void generate_random(struct sim_client *client);
/* Adds the requests that select the client's namespace and database after connecting. */
void generate_greeting(struct sim_client *client);
void generate_hello(struct sim_client *client);
/* Adds all requests of an audit. */
void generate_audit(struct sim_client *client);
/* Upper bound of the requests that one call adds to the queue. */
enum { DRAFT_REQUESTS_MAX = 8 };
