#include "backend/replica/replica_receive.h"

#include "backend/format/effects.h"
#include "backend/format/members_row.h"
#include "backend/peer/message.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <stdlib.h>

enum { LENGTH_BYTES = 4 };

struct replica_receive {
    struct replica_receive_options options;
    struct replica_part part; /* the last one; total 0: no record is being joined */
    char *joined;             /* its record so far, behind LENGTH_BYTES for its length */
    size_t joined_bytes;      /* without LENGTH_BYTES */
};

struct replica_receive *replica_receive_new(const struct replica_receive_options *options)
{
    struct replica_receive *receive = calloc(1, sizeof *receive);
    CHECK(receive);
    receive->options = *options;
    return receive;
}

static void forget_parts(struct replica_receive *receive)
{
    free(receive->joined);
    receive->joined = NULL;
    receive->joined_bytes = 0;
    receive->part = (struct replica_part){0};
}

void replica_receive_free(struct replica_receive *receive)
{
    if (!receive)
        return;
    forget_parts(receive);
    free(receive);
}

static bool is_of_our_group(const struct replica_receive *receive,
                            const struct replica_group *group)
{
    const struct replica_group *own = &receive->options.group;
    return group->generation == own->generation && group->group == own->group;
}

/* ---- parts ------------------------------------------------------------------------------------- */

static bool is_next_part(const struct replica_receive *receive, const struct replica_part *part)
{
    const struct replica_part *last = &receive->part;
    return last->total == part->total && last->index == part->index && last->term == part->term &&
           last->from == part->from && receive->joined_bytes == part->offset;
}

static void join_part(struct replica_receive *receive, const struct replica_part *part)
{
    static const char no_length[LENGTH_BYTES];
    if (!part->offset)
        receive->joined = message_join(receive->joined, 0, (struct bytes){no_length, LENGTH_BYTES});
    receive->joined =
        message_join(receive->joined, LENGTH_BYTES + receive->joined_bytes, part->bytes);
    receive->joined_bytes += part->bytes.len;
    receive->part = *part;
}

/* The first part of a record may come at any time: the leader has begun again. */
enum replica_received replica_receive_part(struct replica_receive *receive, struct bytes payload)
{
    struct replica_part part;
    if (!replica_part_read(payload, &part))
        return REPLICA_NONSENSE;
    if (!is_of_our_group(receive, &part.group))
        return REPLICA_RECEIVED;
    if (!part.offset)
        forget_parts(receive);
    else if (!is_next_part(receive, &part))
        return REPLICA_NONSENSE;
    join_part(receive, &part);
    receive->options.on_part(receive->options.owner, part.from, part.term);
    return REPLICA_RECEIVED;
}

/* ---- messages ---------------------------------------------------------------------------------- */

struct consensus_members replica_core_members(const struct members *members, uint64_t index)
{
    struct consensus_members core = {
        .index = index, .epoch = members->epoch, .count = members->count};
    for (unsigned i = 0; i < members->count; i++)
        core.list[i] = (struct consensus_member){members->list[i].id,
                                                 (enum consensus_kind)members->list[i].kind};
    return core;
}

/* Is the record what its message says? Fills *members if it is one of the members; else their count is 0. */
static enum replica_received read_heard_record(struct bytes record, uint64_t index, uint64_t term,
                                               struct consensus_members *members)
{
    struct effects_header header;
    struct effects_reader reader;
    struct members row;
    members->count = 0;
    enum effects_read read = effects_open(record, &header, &reader);
    if (read != EFFECTS_READ)
        return read == EFFECTS_NEWER ? REPLICA_NEWER_DATA : REPLICA_NONSENSE;
    if (header.index != index || header.term != term)
        return REPLICA_NONSENSE;
    if (header.type != EFFECTS_MEMBERS)
        return REPLICA_RECEIVED;
    if (!members_of_record(record, &row))
        return REPLICA_NONSENSE;
    *members = replica_core_members(&row, index);
    return REPLICA_RECEIVED;
}

/* One event: the message up to its end, or to a record of the members. Moves *message and *rest behind it. */
static enum replica_received hear_part(struct replica_receive *receive,
                                       const struct replica_core *core,
                                       struct consensus_message *message, struct bytes *rest,
                                       uint32_t *left)
{
    struct consensus_members members = {0};
    struct bytes record, records = *rest;
    bool is_in_parts;
    message->count = 0;
    while (*left && !members.count) {
        if (!replica_record_next(rest, &record, &is_in_parts))
            return REPLICA_NONSENSE;
        enum replica_received read = read_heard_record(record, message->index + message->count + 1,
                                                       message->records_term, &members);
        if (read != REPLICA_RECEIVED)
            return read;
        message->count++;
        (*left)--;
    }
    records.len -= rest->len;
    const struct replica_heard heard = {.message = message,
                                        .members = members.count ? &members : NULL,
                                        .records = records,
                                        .time_us = core->time_us,
                                        .applied = core->applied};
    receive->options.on_heard(receive->options.owner, &heard);
    message->index += message->count;
    message->index_term = message->records_term;
    return REPLICA_RECEIVED;
}

static enum replica_received hear(struct replica_receive *receive, const struct replica_core *core)
{
    struct consensus_message message = core->message;
    struct bytes rest = core->records;
    uint32_t left = message.count;
    enum replica_received result;
    do {
        result = hear_part(receive, core, &message, &rest, &left);
    } while (left && result == REPLICA_RECEIVED);
    return result;
}

static bool is_in_parts(const struct replica_core *core)
{
    struct bytes rest = core->records, record;
    bool result = false;
    return core->message.count == 1 && replica_record_next(&rest, &record, &result) && result;
}

/* The record of the message is the one that was joined. */
static enum replica_received hear_joined(struct replica_receive *receive, struct replica_core *core)
{
    const struct replica_part *part = &receive->part;
    bool is_whole = part->total && receive->joined_bytes == part->total &&
                    part->index == core->message.index + 1 && part->term == core->message.term &&
                    part->from == core->message.from;
    if (!is_whole)
        return REPLICA_NONSENSE;
    put_le32(receive->joined, (uint32_t)receive->joined_bytes);
    core->records = (struct bytes){receive->joined, LENGTH_BYTES + receive->joined_bytes};
    enum replica_received result = hear(receive, core);
    forget_parts(receive);
    return result;
}

enum replica_received replica_receive_core(struct replica_receive *receive, struct bytes payload)
{
    struct replica_core core;
    if (!replica_core_read(payload, &core))
        return REPLICA_NONSENSE;
    if (!is_of_our_group(receive, &core.group) || core.message.to != receive->options.id)
        return REPLICA_RECEIVED;
    return is_in_parts(&core) ? hear_joined(receive, &core) : hear(receive, &core);
}
