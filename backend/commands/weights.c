/*
 * weights.c - SCREE WEIGHTS FIRST: keys, approximate bytes and CPU time of the slots that the partition owns, for a plan of
 * which slots to move.
 *
 *   > SCREE WEIGHTS 0
 *   slots=0-255                         how far the reply goes: the next request begins with slot 256
 *   slot=17 keys=3 bytes=1200 load=80   slots without keys are left out
 *
 * Keys are exact. Bytes are those in files, by ranges; RocksDB estimates them from the index of each file. Bytes in memory
 * are divided among the slots by their keys. The load is microseconds of CPU time in the last minutes (slot_load.h). A reply ends after PAIRS_MAX pairs of a database and a slot with keys, so that
 * it delays other commands little.
 */
#include "backend/context/partition.h"
#include "backend/context/slot_load.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/encoding.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/session.h"
#include "backend/store/store.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS_MAX = 256, SLOTS_MAX = 2048, LINE_MAX_BYTES = 128 };

/* The rows of one slot of a storage namespace. */
struct slot_rows {
    uint16_t slot;
    struct bytes from, to;
};

struct weights {
    struct call *call;
    unsigned first, last; /* the slots of the reply */
    struct slot_rows pairs[PAIRS_MAX];
    uint32_t pairs_count;
    uint64_t keys[SLOTS_MAX]; /* by slot - first */
    uint64_t bytes[SLOTS_MAX];
};

/* Adds the slot's keys in all databases. False: there are too many pairs. */
static bool weigh_slot(struct weights *weights, uint16_t slot)
{
    struct space_set *spaces = weights->call->partition->spaces;
    uint32_t before = weights->pairs_count;
    size_t cursor = 0;
    struct space *space;
    uint64_t sum = 0;
    while ((space = space_next(spaces, &cursor))) {
        uint64_t keys = space->keys ? space_slot_keys(spaces, space, slot) : 0;
        sum += keys;
        if (!keys)
            continue;
        if (weights->pairs_count == PAIRS_MAX && before > 0) {
            weights->pairs_count = before;
            return false;
        }
        if (weights->pairs_count == PAIRS_MAX)
            continue; /* the only slot of the reply: the first PAIRS_MAX databases count */
        struct slot_rows *pair = &weights->pairs[weights->pairs_count++];
        pair->slot = slot;
        pair->from = encode_slot_prefix(weights->call->arena, space->name, slot);
        pair->to = encode_prefix_end(weights->call->arena, pair->from);
    }
    weights->keys[slot - weights->first] = sum;
    return true;
}

static void find_keys(struct weights *weights)
{
    unsigned end =
        weights->first + SLOTS_MAX < SLOT_COUNT ? weights->first + SLOTS_MAX : SLOT_COUNT;
    unsigned slot = weights->first;
    for (; slot < end; slot++)
        if (slot_set_has(session_slots(weights->call->session), (uint16_t)slot) &&
            !weigh_slot(weights, (uint16_t)slot))
            break;
    weights->last = slot - 1;
}

static void add_file_bytes(struct weights *weights, enum cf cf)
{
    struct bytes from[PAIRS_MAX], to[PAIRS_MAX];
    uint64_t bytes[PAIRS_MAX];
    for (uint32_t i = 0; i < weights->pairs_count; i++) {
        from[i] = weights->pairs[i].from;
        to[i] = weights->pairs[i].to;
    }
    store_range_bytes(storage_store(weights->call->partition->storage), cf, from, to,
                      weights->pairs_count, bytes);
    for (uint32_t i = 0; i < weights->pairs_count; i++)
        weights->bytes[weights->pairs[i].slot - weights->first] += bytes[i];
}

/* Adds each slot's share of the bytes that are not in files yet. */
static void add_memory_bytes(struct weights *weights)
{
    const struct partition *partition = weights->call->partition;
    uint64_t total = space_keys_total(partition->spaces);
    double in_memory = (double)store_figure(storage_store(partition->storage), "memtable_bytes") +
                       (double)overlay_memory(partition->overlay);
    for (unsigned i = 0; total && i <= weights->last - weights->first; i++)
        weights->bytes[i] += (uint64_t)(in_memory * (double)weights->keys[i] / (double)total);
}

static void reply_weights(const struct weights *weights, struct reply *reply)
{
    const struct slot_cost *slots = weights->call->partition->metrics.slot_load->slots;
    char line[LINE_MAX_BYTES];
    int64_t lines = 1;
    for (unsigned i = 0; i <= weights->last - weights->first; i++)
        lines += weights->keys[i] > 0;
    reply_array(reply, lines);
    (void)snprintf(line, sizeof line, "slots=%u-%u", weights->first, weights->last);
    reply_bulk_text(reply, line);
    for (unsigned i = 0; i <= weights->last - weights->first; i++) {
        if (!weights->keys[i])
            continue;
        (void)snprintf(line, sizeof line,
                       "slot=%u keys=%" PRIu64 " bytes=%" PRIu64 " load=%" PRIu64,
                       weights->first + i, weights->keys[i], weights->bytes[i],
                       slots[weights->first + i].recent);
        reply_bulk_text(reply, line);
    }
}

void cmd_scree_weights(struct call *call)
{
    static const enum cf families[] = {CF_METADATA, CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    int64_t first;
    if (!call_int64(call, 2, &first))
        return;
    if (first < 0 || first >= SLOT_COUNT) {
        call_errorf(call, "ERR expected a slot from 0 to %d", SLOT_COUNT - 1);
        return;
    }
    struct weights *weights = calloc(1, sizeof *weights);
    CHECK(weights);
    weights->call = call;
    weights->first = (unsigned)first;
    find_keys(weights);
    for (size_t i = 0; weights->pairs_count && i < sizeof families / sizeof families[0]; i++)
        add_file_bytes(weights, families[i]);
    add_memory_bytes(weights);
    slot_load_age(call->partition);
    reply_weights(weights, &call->reply);
    free(weights);
}
