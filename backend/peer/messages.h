/*
 * messages.h - what messages.def says of each kind of request, and the prototypes of the functions that execute them.
 *
 * A row without its function does not link. The functions lie in the rooms above; peering.c has their table.
 */
#pragma once

#include "backend/peer/incoming.h"

struct partition;

typedef void peer_handle_fn(struct partition *partition, struct peer_incoming *incoming,
                            const struct peer_frame *frame);

#define MESSAGE(id, name, handler, ...) peer_handle_fn handle_##handler;
#define MESSAGE_LINK(...)
#define MESSAGE_COPY(...)
#include "backend/peer/messages.def"
#undef MESSAGE
#undef MESSAGE_LINK
#undef MESSAGE_COPY

struct peer_message {
    const char *name;       /* NULL: there is no such kind */
    bool is_of_coordinator; /* begins with the id of a transaction that the sender coordinates */
    bool is_refused_busy;   /* a slow script must end first */
    bool is_silent;         /* has no reply */
};

const struct peer_message *peer_message(uint8_t kind);
/* Why a request with this payload may not be executed for this sender; `busy_error`: of the slow script that is running, or NULL. */
struct refusal peer_message_refuse(const struct peer_incoming *incoming,
                                   const struct peer_frame *frame, const char *busy_error);
