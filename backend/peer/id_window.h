/*
 * id_window.h - the ids of the requests received on a connection, to detect duplicates.
 *
 *   0 … ─── too old ───┤ highest - 1023 … highest ├─── new …
 *                        one bit each: 1 = received
 *
 * Ids of a connection grow by one. Requests may be delivered in another order within the window.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PEER_ID_WINDOW = 1024 };

/* Empty when it is all zero. */
struct peer_id_window {
    uint64_t highest;
    uint64_t bits[PEER_ID_WINDOW / 64]; /* of id: bit id % PEER_ID_WINDOW */
    bool has_ids;
};

enum peer_id_seen {
    PEER_ID_NEW,
    PEER_ID_SEEN,
    PEER_ID_TOO_OLD, /* unknown whether the id was received before */
};

/* Adds the id. */
enum peer_id_seen peer_id_window_add(struct peer_id_window *window, uint64_t id);
