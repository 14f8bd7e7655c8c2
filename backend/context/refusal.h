/*
 * refusal.h - why this shard does not do what another shard asks for: a code, by which the other shard decides what to do, and a
 * sentence for people.
 *
 *   FAILED    payload: u8 code │ sentence      (backend/peer/frame.h)
 *
 * No program compares sentences, so they can be improved at any time. A new code raises PEER_PROTOCOL.
 */
#pragma once

#include "shared/bytes.h"

enum refusal_code {
    NOT_REFUSED = 0,
    REFUSED_OTHER = 1,     /* the same request will be refused again */
    REFUSED_WAIT = 2,      /* the reason will end by itself: the request may be sent again */
    REFUSED_BUSY = 3,      /* a slow script is running; the sentence is that of the error BUSY */
    REFUSED_STOPPING = 4,  /* the shard takes no new transactions, because it is about to stop */
    REFUSED_ELSEWHERE = 5, /* another shard owns the key's slot … */
    REFUSED_LEAVING = 6,   /* … or will own it soon */
    REFUSED_LOCKS_LOST =
        7, /* the shard does not have the locks that the coordinator takes for granted */
    REFUSED_MEMORY = 8, /* the request needs more memory than it may use there */
    REFUSED_END,
};

/* `code` NOT_REFUSED: there is no reason against the request. */
struct refusal {
    enum refusal_code code;
    const char *text; /* borrowed */
};

enum { REFUSAL_BYTES_MAX = 1024 };

#define NO_REFUSAL            ((struct refusal){NOT_REFUSED, ""})
#define REFUSAL(reason, said) ((struct refusal){REFUSED_##reason, said})
#define REQUEST_IS_NOT_VALID  REFUSAL(OTHER, "the request is not valid")

/* Of an error BUSY (partition_running.busy_error). */
struct refusal refusal_busy(const char *busy_error);
/* Encodes code and sentence, which is cut off if it is too long. Returns the length. */
size_t refusal_write(struct refusal refusal, char to[REFUSAL_BYTES_MAX]);
/* Reads the code at the front of the payload, and moves its begin to the sentence. A code of another version is REFUSED_OTHER. */
enum refusal_code refusal_read(struct bytes *payload);
/* The sentence as operators of the other shard see it: that of BUSY is for clients. */
struct bytes refusal_shown(enum refusal_code code, struct bytes sentence);
/* Will the reason end by itself? */
static inline bool refusal_is_temporary(enum refusal_code code)
{
    return code == REFUSED_WAIT || code == REFUSED_BUSY;
}
