/*
 * bounce.h - the answer of a backend to a proxy that asks for a slot of another shard: who owns it, and the request itself.
 *
 *   proxy ── SET k v ──► shard a: the slot belongs to shard b
 *         ◄── !<len> BOUNCE … b … SET k v ── nothing was executed
 *         ── SET k v ──► shard b
 *
 * Proxies keep no bytes of requests, so the answer returns them: the command with the prefixes that it came with (SCREE AS …),
 * and for EXEC first MULTI and the queued commands. A bounce is an error of RESP3's type `!`:
 *
 *   !<len>\r\n
 *   BOUNCE 1 <slot> <first> <last> <epoch> <db> <count> <bytes of shard> <of address> <of namespace>[ <why>]\n
 *   <shard><address><namespace><count requests, each an array of bulk strings>\r\n
 *
 * No command replies with that type, neither in RESP2 nor in RESP3, so a bounce cannot be confused with a reply; values are
 * bulk strings. A backend sends it only on connections on which the proxy has sent SCREE BOUNCES.
 *
 * The slots first .. last have the same owner and epoch. The owner may be the shard that bounces: then the request must come
 * again behind an earlier one that it was sent behind, and that was bounced (backend/dispatch/bounce.h).
 *
 * A request also bounces when it must wait on a connection that clients share, and so do those behind it (backend/dispatch/line.h): then
 * the owner is the shard that bounces, and the proxy learns nothing. Only connections on which the proxy has sent SCREE BOUNCES WAITING
 * get such bounces.
 */
#pragma once

#include "shared/out.h"
#include "shared/slot.h"

#include <stdbool.h>
#include <stdint.h>

enum { BOUNCE_ADDRESS_MAX = 255, BOUNCE_REQUESTS_MAX = 1 << 24 };

/* Why a request bounces. */
enum bounce_why {
    BOUNCE_OWNER, /* because of the owner of the slot */
    BOUNCE_WAITS, /* it must wait, and is to be sent on a connection of its own */
    BOUNCE_BEHIND, /* it was sent behind one that must wait, and is to be sent on the same connection again */
};

struct bounce {
    uint16_t slot; /* of a key of the request */
    uint16_t first;
    uint16_t last;
    uint8_t db;
    uint8_t why;          /* enum bounce_why */
    uint64_t epoch;       /* since which the owner has the slots; at least 1 */
    struct bytes shard;   /* name of the owner */
    struct bytes address; /* of the owner; empty: the backend does not know it */
    struct bytes space;   /* the namespace in which the request runs; empty: none */
    /* requests; all but the last are replied before the client's reply: +OK, +QUEUED */
    uint32_t count;
    struct bytes requests;
    struct bytes command; /* the last of the requests; only set by bounce_read */
    uint32_t argc;        /* its number of arguments; likewise */
};

/* Writes the bounce, with `requests` as its requests, which is empty afterwards. */
void bounce_write(struct out *out, const struct bounce *bounce, struct out *requests);
/* Can the frame be a bounce? Only bounce_read says whether it is valid. */
static inline bool bounce_is(const char *data, size_t len)
{
    return len > 0 && *data == '!';
}
/* Reads a whole frame of a backend; the texts lie in it. False: it is no valid bounce. */
bool bounce_read(struct bytes frame, struct bounce *bounce);
