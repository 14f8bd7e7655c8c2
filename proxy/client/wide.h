/*
 * wide.h - a request with many arguments is prepared in turns, so that other clients of the worker are served between them.
 *
 *   dispatch_frame ─► wide_is_ready? ──no──► the client is held (HOLD_PORTIONS), and the frame stays in its stream
 *        ▲              │yes                   │ next_turn.h
 *        │              ▼                      ▼
 *        │          as every request       arguments ─► permissions ─► keys ─► slots and shards ─► one frame for each shard
 *        └───────────────────────────────────── dispatched again ◄──────────────────────────────────────────┘
 *
 * (1) Everything is sent at once, when it is prepared: requests of other clients on the same connections come before or behind it.
 * (2) The client's next frame is read when this one is done, so its requests keep their order.
 * (3) If the map, the namespaces or the users change in between, the preparation begins again; after some times it is left out.
 * (4) Between wide_lend() and wide_take_back() the dispatcher finds the arguments and keys in worker->scratch, where it would have put
 *     them itself.
 */
#pragma once

#include "proxy/core/split.h"
#include "shared/acl/acl.h"

struct client;
struct frame;
struct wide;

enum { WIDE_ARGS_MIN = 64 }; /* a request with fewer arguments is never prepared in turns */

/* May the request be dispatched now? It is prepared, or needs no preparation. False: the client is held. The arity was not checked. */
bool wide_is_ready(struct client *client, const struct frame *frame, const struct command *command);
/* NULL: nothing is prepared. */
struct wide *wide_lend(struct client *client);
/* is_done: the frame was consumed, so `wide` is freed. The client may have left. */
void wide_take_back(struct wide *wide, bool is_done);
void wide_leave(struct client *client);

/* acl_check() of the request, for the client's user. False: it was not prepared. */
bool wide_denied(const struct client *client, enum acl_denied *denied, uint32_t *index);
/* The parts of the request. NULL: they were not prepared. */
const struct split_parts *wide_parts(const struct client *client);
/* Moves the arguments of part i to `out`, behind the array header. */
void wide_move_part(struct client *client, uint32_t i, struct out *out);
