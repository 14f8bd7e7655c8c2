/*
 * outbox.h - messages of a copy's core that wait until the saves are durable which they depend on.
 *
 *   update        save 7, VOTE b, VOTE c     heartbeat    save 8, VOTE_REPLY b
 *   waits for     7       7       7          7            8
 *                 └─ 7 is durable: four may leave ─────┘  └─ 8 is durable
 *
 * The messages of an update leave when its save and all saves before are durable: a message may depend on a vote or a term of an earlier
 * update. They leave in order.
 */
#pragma once

#include "backend/consensus/message.h"

#include <stddef.h>

/* Messages that wait at most: those of several updates. */
enum { OUTBOX_MAX = 128 };

struct outbox_mail {
    struct consensus_message message;
    uint64_t after_saves; /* leaves when so many are durable */
};

/* Zeros: empty, no save has begun. */
struct outbox {
    uint64_t begun, durable; /* saves since the start */
    size_t first, count;
    struct outbox_mail mail[OUTBOX_MAX]; /* a ring */
};

/* The core wants a save; messages from now on depend on it. */
void outbox_save_begun(struct outbox *outbox);
/* The oldest save that was not durable is durable. */
void outbox_saved(struct outbox *outbox);
/* Puts a message behind the others. False: there is no room, so it is lost, as the network may lose it. */
bool outbox_put(struct outbox *outbox, const struct consensus_message *message);
/* Takes the first message. False: none may leave. */
bool outbox_take(struct outbox *outbox, struct consensus_message *message);
