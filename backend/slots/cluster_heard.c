#include "backend/slots/cluster_heard.h"

#include "backend/peer/message.h"
#include "shared/check.h"
#include "shared/out.h"
#include "shared/table.h"

#include <stdlib.h>
#include <string.h>

struct cluster_heard {
    struct table *shards; /* of struct heard_shard */
};

void cluster_heard_free(struct cluster_heard *heard)
{
    if (heard)
        table_free_values(heard->shards);
    free(heard);
}

const struct heard_shard *cluster_heard_of(const struct cluster_heard *heard, const char *shard)
{
    return heard ? table_get(heard->shards, bytes_of(shard)) : NULL;
}

/* ---- messages ---- */

void cluster_heard_write(const char *name, const struct heard_shard *shard, struct out *out)
{
    message_put_bytes(out, bytes_of(name));
    message_put_bytes(out, bytes_of(shard->leader));
    message_put_u8(out, shard->is_lost);
    message_put_u64(out, shard->offset);
    message_put_u64(out, shard->heard_ms);
    message_put_u8(out, shard->copies.count);
    for (unsigned i = 0; i < shard->copies.count; i++) {
        message_put_u64(out, shard->copies.of[i].address);
        message_put_u8(out, shard->copies.of[i].is_up);
        message_put_u64(out, shard->copies.of[i].applied);
    }
}

static bool read_heard_copies(struct message_reader *reader, struct peer_copies *copies)
{
    copies->count = message_u8(reader);
    if (copies->count > PEER_COPIES_MAX)
        return false;
    for (unsigned i = 0; i < copies->count; i++) {
        copies->of[i].address = message_u64(reader);
        copies->of[i].is_up = message_u8(reader) == 1;
        copies->of[i].applied = message_u64(reader);
    }
    return reader->is_good;
}

static bool read_shard(struct message_reader *reader, struct table *shards)
{
    struct bytes name = message_bytes(reader);
    struct bytes leader = message_bytes(reader);
    struct heard_shard shard = {.is_lost = message_u8(reader) == 1};
    shard.offset = message_u64(reader);
    shard.heard_ms = message_u64(reader);
    if (!read_heard_copies(reader, &shard.copies) || !name.len || leader.len > PEER_ADDRESS_MAX)
        return false;
    memcpy(shard.leader, leader.data, leader.len);
    struct heard_shard *kept = malloc(sizeof *kept);
    CHECK(kept);
    *kept = shard;
    free(table_put(shards, name, kept));
    return true;
}

bool cluster_heard_read(struct bytes payload, struct cluster_heard **heard)
{
    struct message_reader reader = message_read(payload);
    struct cluster_heard *fresh = calloc(1, sizeof *fresh);
    CHECK(fresh);
    fresh->shards = table_new();
    while (reader.rest.len && read_shard(&reader, fresh->shards))
        ;
    bool is_good = message_is_read(&reader);
    if (!is_good) {
        cluster_heard_free(fresh);
        return false;
    }
    cluster_heard_free(*heard);
    *heard = fresh;
    return true;
}
