#include "tests/sim/sim_strays.h"

#include "backend/context/partition.h"
#include "backend/keyspace/keyspace.h"
#include "backend/keyspace/slot_gate.h"
#include "backend/keyspace/space.h"
#include "backend/session/internal_call.h"
#include "backend/slots/key_put.h"
#include "backend/slots/slot_moves.h"
#include "backend/slots/stray_moves.h"
#include "backend/slots/stray_scan.h"
#include "backend/storage/commit.h"
#include "shared/slot.h"

#include <stdio.h>
#include <string.h>

enum { MOVES_EVERY = 30, DELETES_EVERY = 2, LONG_EVERY = 8, LONG_BYTES = 100 * 1024, TRIES = 20 };

void sim_strays_init(struct sim_strays *strays, struct sim_cluster *cluster)
{
    *strays = (struct sim_strays){.cluster = cluster};
}

/* The shard's partition, if it executes commands; else NULL. */
static struct partition *running_partition(const struct sim_strays *strays, unsigned shard)
{
    const struct sim_backend *backend = &strays->cluster->backends[shard];
    struct partition *partition = backend->seats[0].partition;
    bool runs = backend->state == SIM_UP && !partition->thread.is_stopping &&
                !partition->running.busy_error && !commit_is_failed(partition->commit, NULL);
    return runs ? partition : NULL;
}

/* Opens the key of a stray. False: it is locked. */
static bool open_stray_key(struct call *call, const struct sim_stray *stray, struct entry *entry)
{
    struct space *space = space_open(call->partition->spaces, BYTES(""), 0);
    return keyspace_open_row(call, space, stray->slot, bytes_of(stray->key), entry);
}

/* Its value begins with its name; the rest is 0. */
static struct bytes value_of(const struct sim_stray *stray)
{
    static char value[LONG_BYTES];
    memset(value, 0, SIM_NAMES_MAX);
    memcpy(value, stray->key, strlen(stray->key));
    return (struct bytes){value, stray->is_long ? LONG_BYTES : strlen(stray->key)};
}

/* Has the shard the stray, with its value? */
static bool has_stray(struct partition *partition, const struct sim_stray *stray)
{
    struct call call;
    struct entry entry;
    internal_call_begin(partition, &call);
    bool is_here = open_stray_key(&call, stray, &entry) && entry.exists &&
                   bytes_equal(entry.meta.payload, value_of(stray));
    internal_call_end(partition, &call);
    return is_here;
}

/* A slot, and whether the shard begins to receive it. */
struct arriving {
    unsigned slot;
    bool is_coming;
};

/* on_line of slot_moves_list */
static void see_target(void *owner, const char *line)
{
    struct arriving *arriving = owner;
    const char *slots = strstr(line, " slots=");
    unsigned first;
    unsigned last;
    if (strstr(line, " role=target ") && sscanf(slots, " slots=%u-%u", &first, &last) == 2)
        arriving->is_coming |= first <= arriving->slot && arriving->slot <= last;
}

/* May a key be put there now? Real strays are older than moves: a shard that has some refuses to receive their slots. */
static bool may_have_strays(const struct partition *partition, uint16_t slot)
{
    struct arriving arriving = {.slot = slot};
    (void)slot_moves_list(partition->shards.moves, see_target, &arriving);
    return !arriving.is_coming && stray_is_slot(partition, slot);
}

/* Finds a slot in which the shard may have strays. */
static bool choose_slot(const struct sim_strays *strays, unsigned shard, struct sim_stray *stray)
{
    const struct partition *partition = running_partition(strays, shard);
    for (unsigned try = 0; partition && try < TRIES; try++) {
        (void)snprintf(stray->key, sizeof stray->key, "stray-%u-%u", strays->count, try);
        stray->slot = slot_of(bytes_of(stray->key));
        if (may_have_strays(partition, stray->slot))
            return true;
    }
    return false;
}

/* ticket_wait.on_end: what a client that has deleted the stray is told. With a batch that is rolled back its arrival may be, too: then
 * it comes again. */
static void deletion_has_ended(struct ticket_wait *wait, int err)
{
    struct sim_stray *stray = container_of(wait, struct sim_stray, deletion.wait);
    stray->deletion.is_durable = !err;
    stray->is_doubtful = err;
}

void sim_strays_add(struct sim_strays *strays)
{
    unsigned shard = (unsigned)sim_random(strays->cluster->shard_count);
    struct partition *partition = running_partition(strays, shard);
    struct sim_stray *stray = &strays->strays[strays->count];
    struct call call;
    struct entry entry;
    if (strays->count == SIM_STRAYS_MAX || !choose_slot(strays, shard, stray))
        return;
    stray->is_long = strays->has_long && sim_random(LONG_EVERY) == 0;
    internal_call_begin(partition, &call);
    bool is_open = open_stray_key(&call, stray, &entry);
    if (is_open)
        entry_set_payload(&call, &entry, TYPE_STRING, value_of(stray), 0);
    stray->ticket = overlay_ticket(partition->overlay);
    internal_call_end(partition, &call);
    if (!is_open)
        return;
    stray->shard = shard;
    stray->is_durable = stray->is_doubtful = false;
    stray->deletion = (struct sim_deletion){0};
    ticket_wait_init(&stray->deletion.wait, deletion_has_ended);
    strays->count++;
    sim_note("stray", stray->slot);
}

/* Is the batch with this ticket durable, or was it rolled back? */
static bool has_ended(const struct partition *partition, uint64_t ticket)
{
    uint64_t open = overlay_ticket(partition->overlay);
    return ticket + 1 < open || (ticket < open && !overlay_in_flight(partition->overlay));
}

/* Is the stray durable at its shard? It becomes doubtful if it was rolled back, or has moved already. */
static void see_durable(const struct sim_strays *strays, struct sim_stray *stray)
{
    struct partition *partition = running_partition(strays, stray->shard);
    if (!partition || stray->is_durable || stray->is_doubtful || stray->deletion.is_begun)
        return;
    if (!has_ended(partition, stray->ticket))
        return;
    stray->is_durable = has_stray(partition, stray);
    stray->is_doubtful = !stray->is_durable;
}

/* Deletes the stray at this shard as a client would. */
static void delete_at_owner(struct partition *partition, unsigned shard, struct sim_stray *stray)
{
    struct call call;
    struct entry entry;
    struct sim_deletion *deletion = &stray->deletion;
    uint64_t ticket = overlay_ticket(partition->overlay);
    internal_call_begin(partition, &call);
    if (open_stray_key(&call, stray, &entry) && entry.exists) {
        entry_delete(&call, &entry);
        deletion->is_begun = true;
        deletion->shard = shard;
        stray->is_durable = false;
    }
    internal_call_end(partition, &call);
    if (deletion->is_begun)
        ticket_wait_begin_at(partition, &deletion->wait, ticket);
}

/* Deletes the stray, perhaps, if it has come to an owner. */
static void delete_perhaps(const struct sim_strays *strays, struct sim_stray *stray)
{
    for (unsigned shard = 0; shard < strays->cluster->shard_count; shard++) {
        struct partition *partition = running_partition(strays, shard);
        if (partition && !stray->deletion.is_begun && shard != stray->shard &&
            key_put_is_ready(partition, stray->slot) && has_stray(partition, stray) &&
            sim_random(DELETES_EVERY) == 0)
            delete_at_owner(partition, shard, stray);
    }
}

void sim_strays_tend(struct sim_strays *strays, bool at_once)
{
    for (unsigned i = 0; i < strays->count; i++) {
        struct sim_stray *stray = &strays->strays[i];
        struct partition *partition = running_partition(strays, stray->shard);
        see_durable(strays, stray);
        delete_perhaps(strays, stray);
        if (partition && (at_once || (stray->is_durable && sim_random(MOVES_EVERY) == 0)) &&
            stray_is_slot(partition, stray->slot) && has_stray(partition, stray))
            (void)stray_moves_begin(partition->shards.strays.moves, STRAYS_MOVE);
    }
}

void sim_strays_crashed(struct sim_strays *strays, unsigned shard)
{
    for (unsigned i = 0; i < strays->count; i++) {
        struct sim_stray *stray = &strays->strays[i];
        bool was_added = stray->shard == shard && !stray->is_durable && !stray->deletion.is_begun;
        bool is_awaited = stray->deletion.is_begun && stray->deletion.shard == shard;
        if (was_added || (is_awaited && !stray->deletion.is_durable))
            stray->is_doubtful = true;
        if (is_awaited)
            ticket_wait_cancel(&stray->deletion.wait);
    }
}

/* At how many shards is the stray, and at how many of these are its slot's keys served? */
static unsigned count_copies(const struct sim_strays *strays, const struct sim_stray *stray,
                             unsigned *served)
{
    unsigned copies = 0;
    *served = 0;
    for (unsigned shard = 0; shard < strays->cluster->shard_count; shard++) {
        struct partition *partition = running_partition(strays, shard);
        bool is_here = partition && has_stray(partition, stray);
        copies += is_here;
        *served += is_here && slot_is_served(partition, stray->slot);
    }
    return copies;
}

bool sim_strays_are_home(struct sim_strays *strays)
{
    for (unsigned i = 0; i < strays->count; i++) {
        unsigned served;
        if (count_copies(strays, &strays->strays[i], &served) != served)
            return false;
    }
    return true;
}

void sim_strays_check(struct sim_strays *strays)
{
    for (unsigned i = 0; i < strays->count && !strays->why[0]; i++) {
        const struct sim_stray *stray = &strays->strays[i];
        unsigned served;
        unsigned copies = count_copies(strays, stray, &served);
        bool is_back = copies && stray->deletion.is_durable;
        if (copies > 1 || is_back || (copies == 0 && stray->is_durable))
            (void)snprintf(strays->why, sizeof strays->why,
                           "the stray %s of slot %u was added at shard %u, %sand is at %u shards",
                           stray->key, stray->slot, stray->shard,
                           stray->deletion.is_durable ? "was deleted by a client, " : "", copies);
    }
}
