/*
 * move_message.h - the requests by which a shard moves slots to another shard (slot_moves.h).
 *
 *   source                                                                      target
 *     MOVE_BEGIN    the slots, epoch, wish, maps, new libraries       ─►   record IMPORTING is durable    ─► DONE
 *     MOVE_ROWS     number 1, 2, 3 …: rows, or effects of batches     ─►   they are in its open batch     ─► DONE
 *                   in parts, if they are long                        ─►   all but the last are in memory ─► DONE
 *     MOVE_END      number of the last MOVE_ROWS, counts of keys      ─►   rows and STAGED are durable    ─► DONE
 *     MOVE_ACTIVATE the source has released the slots                 ─►   record OWNED is durable        ─► DONE
 *     MOVE_ABORT    the source keeps the slots                        ─►   the rows will be deleted       ─► DONE
 *
 *     enum move_news: has the source ended the move?   ◄─ DONE ─   MOVE_ASK  a target has heard nothing for a while
 *
 * All begin with the id of the move and its slots. At most one request of a move is outstanding. A request whose reply was
 * lost may be sent again: the target recognises what it has done.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>

struct message_reader;
struct out;

enum { MOVE_SLOTS_MAX = 1024 };

struct move_slots {
    uint64_t id; /* unique at the source */
    uint16_t first, last;
};

struct move_begin {
    struct move_slots slots;
    uint64_t epoch; /* of the source's ownership: the target will own the slots with the next one */
    uint64_t wish;  /* epoch of the shard map that gives the slots to the target */
    uint64_t version;  /* newest version of a collection at the source */
    struct bytes maps; /* of databases: space_maps_write; borrowed */
    /* rows of function libraries and stored options, as effects (effects.h); borrowed */
    struct bytes libraries;
};

struct move_rows {
    struct move_slots slots;
    uint64_t number;
    uint64_t total; /* bytes of the effects (effects.h) */
    /* of the part in them: parts follow each other, and the first one begins anew */
    uint64_t offset;
    struct bytes part; /* borrowed */
};

struct move_end {
    struct move_slots slots;
    uint64_t number;  /* of the last MOVE_ROWS; 0: there was none */
    uint64_t keys;    /* in the slots, of all namespaces */
    uint64_t expires; /* of these: keys with a TTL */
    struct bytes maps;
};

struct move_activate {
    struct move_slots slots;
    uint64_t epoch; /* of the target's ownership */
};

/* The reply to MOVE_ASK, which has the epoch of the source's ownership. */
enum move_news {
    MOVE_GOES_ON = 1,
    MOVE_HAS_ENDED = 2, /* the source has kept the slots: the target deletes its rows */
};

void move_put_slots(struct out *out, const struct move_slots *slots);
void move_put_begin(struct out *out, const struct move_begin *begin);
void move_put_rows(struct out *out, const struct move_rows *rows);
void move_put_end(struct out *out, const struct move_end *end);
void move_put_activate(struct out *out, const struct move_activate *activate);

/* Read a whole payload. False: it is not valid. */
bool move_get_slots(struct bytes payload, struct move_slots *slots);
bool move_get_begin(struct bytes payload, struct move_begin *begin);
bool move_get_rows(struct bytes payload, struct move_rows *rows);
bool move_get_end(struct bytes payload, struct move_end *end);
bool move_get_activate(struct bytes payload, struct move_activate *activate);
