/*
 * strays.c - SCREE STRAYS: keys that the partition stores although the shard map gives their slots to other shards. With CHECK
 * and MOVE, the operator brings them to the owners of their slots (stray_moves.h).
 *
 *   old map   slots 0-8191 ─► a             new map   slots 0-4095 ─► a
 *                                                     slots 4096-8191 ─► b: the keys of before are strays of a
 *
 * Clients look for these keys at the new shard, so they do not see them. A backend with a shard map knows which slots it
 * owns (slot_owners.h): its strays are keys of other slots. Without one, they are keys of slots that the proxy's map gives
 * to others (SCREE SLOTS).
 */
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/peer/peer_set.h"
#include "backend/session/session.h"
#include "backend/slots/peering.h"
#include "backend/slots/stray_moves.h"
#include "backend/slots/stray_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct strays {
    const struct call *call;
    /* of all namespaces and databases; 0 in slots that are not foreign */
    uint64_t keys[SLOT_COUNT];
};

/* Consecutive slots of one other shard, from the first to the last that has keys. */
struct stray_run {
    unsigned first, last;
    uint64_t keys;
    const char *owner; /* NULL: the backend does not know it */
};

static bool is_foreign_slot(const struct call *call, uint16_t slot)
{
    if (call->partition->shards.is_gated)
        return stray_is_slot(call->partition, slot);
    return !slot_set_has(session_slots(call->session), slot);
}

static const char *other_owner(const struct call *call, uint16_t slot)
{
    return call->partition->shards.is_gated
               ? call->partition->shards.slot_owner(call->partition, slot)
               : NULL;
}

/* space_slot_fn */
static void add_stray_slot(void *owner, uint16_t slot, uint64_t keys)
{
    struct strays *strays = owner;
    if (is_foreign_slot(strays->call, slot))
        strays->keys[slot] += keys;
}

static struct strays *find_strays(const struct call *call)
{
    struct strays *strays = calloc(1, sizeof *strays);
    CHECK(strays);
    strays->call = call;
    size_t cursor = 0;
    struct space *space;
    while ((space = space_next(call->partition->spaces, &cursor)))
        space_each_slot(space, add_stray_slot, strays);
    return strays;
}

/* Finds the first run from slot *from on, and moves *from behind it. False: there is none. */
static bool next_run(const struct strays *strays, unsigned *from, struct stray_run *run)
{
    unsigned slot = *from;
    while (slot < SLOT_COUNT && !strays->keys[slot])
        slot++;
    if (slot == SLOT_COUNT)
        return false;
    *run = (struct stray_run){.first = slot, .owner = other_owner(strays->call, (uint16_t)slot)};
    for (; slot < SLOT_COUNT && is_foreign_slot(strays->call, (uint16_t)slot) &&
           other_owner(strays->call, (uint16_t)slot) == run->owner;
         slot++) {
        run->keys += strays->keys[slot];
        run->last = strays->keys[slot] ? slot : run->last;
    }
    *from = slot;
    return true;
}

static void reply_run(struct call *call, const char *address, const struct stray_run *run)
{
    char line[PEER_ADDRESS_MAX + 2 * SHARD_NAME_MAX + 128];
    const char *shard = peer_set_shard(call->partition->shards.peers);
    (void)snprintf(line, sizeof line, "address=%s%s%s slots=%u-%u keys=%" PRIu64 "%s%s", address,
                   *shard ? " shard=" : "", shard, run->first, run->last, run->keys,
                   run->owner ? " owner=" : "", run->owner ? run->owner : "");
    reply_bulk_text(&call->reply, line);
}

/* SCREE STRAYS: a line for each run of slots. */
static void list_strays(struct call *call)
{
    struct strays *strays = find_strays(call);
    char address[PEER_ADDRESS_MAX + 1];
    struct stray_run run;
    uint32_t count = 0;
    peering_address(call->partition, address, sizeof address);
    for (unsigned slot = 0; next_run(strays, &slot, &run);)
        count++;
    reply_array(&call->reply, count);
    for (unsigned slot = 0; next_run(strays, &slot, &run);)
        reply_run(call, address, &run);
    free(strays);
}

static void skip_stray_line(void *owner, const char *line)
{
    (void)owner;
    (void)line;
}

static void reply_stray_line(void *owner, const char *line)
{
    reply_bulk_text(owner, line);
}

static void reply_stray_status(struct call *call)
{
    const struct stray_moves *moves = call->partition->shards.strays.moves;
    reply_array(&call->reply, stray_moves_list(moves, skip_stray_line, NULL));
    (void)stray_moves_list(moves, reply_stray_line, &call->reply);
}

/* Reads CHECK, MOVE, MOVE REPLACE or MOVE KEEP. False: it is none of them. */
static bool stray_wish_parse(const struct call *call, enum stray_wish *wish)
{
    bool is_move = bytes_is(call->argv[2], "move");
    bool has_more = call->argc == 4;
    *wish = !is_move                                         ? STRAYS_CHECK
            : has_more && bytes_is(call->argv[3], "replace") ? STRAYS_REPLACE
            : has_more                                       ? STRAYS_KEEP
                                                             : STRAYS_MOVE;
    if (has_more)
        return is_move && (*wish == STRAYS_REPLACE || bytes_is(call->argv[3], "keep"));
    return call->argc == 3 && (is_move || bytes_is(call->argv[2], "check"));
}

void cmd_scree_strays(struct call *call)
{
    struct stray_moves *moves = call->partition->shards.strays.moves;
    enum stray_wish wish;
    if (call->argc == 2) {
        list_strays(call);
    } else if (call->argc == 3 && bytes_is(call->argv[2], "status")) {
        reply_stray_status(call);
    } else if (call->argc == 3 && bytes_is(call->argv[2], "stop")) {
        stray_moves_stop(moves, "stopped by SCREE STRAYS STOP");
        reply_stray_status(call);
    } else if (stray_wish_parse(call, &wish)) {
        const char *refused = stray_moves_begin(moves, wish);
        if (refused)
            call_error_text(call, refused);
        else
            reply_stray_status(call);
    } else {
        call_error_text(call, "ERR expected SCREE STRAYS [CHECK|MOVE [REPLACE|KEEP]|STATUS|STOP]");
    }
}
