#include "backend/backup/backup_moment.h"

#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/partition/copy_pause.h"
#include "backend/replica/replica_figures.h"
#include "backend/storage/commit.h"
#include "backend/storage/overlay.h"
#include "backend/storage/partition_store.h"
#include "backend/storage/storage.h"
#include "shared/error.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOMENT_NUMBERS = 5 };

/* Of a copy that follows: partition_batch is of the time when it was opened. False: the rows cannot be read. */
static bool read_moment_rows(const struct partition *partition, struct backup_moment *moment)
{
    struct batch_header header = {0};
    struct slice value;
    static const struct bytes header_key = {SYSTEM_HEADER, 1};
    int err = overlay_get(partition->overlay, CF_SYSTEM, header_key, &value);
    if (err == OK && !decode_batch_header(slice_bytes(&value), &header))
        err = ERR_STORE;
    if (err == OK)
        slice_release(&value);
    moment->batch = header.index;
    moment->hybrid_us = header.hybrid;
    if (err == OK)
        err = overlay_get(partition->overlay, CF_SYSTEM, BYTES(SYSTEM_LOG_ID), &value);
    if (err != OK)
        return err == ERR_NOT_FOUND;
    bool good = decode_u64(slice_bytes(&value), &moment->log_id);
    slice_release(&value);
    return good;
}

bool backup_moment_here(const struct partition *partition, struct backup_moment *moment)
{
    *moment = (struct backup_moment){
        .batch = partition->batch.index,
        .committed = storage_committed(partition->storage),
        .log_id = partition->batch.log_id,
        .hybrid_us = partition->batch.hybrid.last,
        .taken_ms = loop_wall_ms(partition->loop),
    };
    return !partition->copies.is_closed || read_moment_rows(partition, moment);
}

bool backup_moment_is_of(const struct backup_moment *moment, const struct partition *partition)
{
    struct backup_moment here;
    return backup_moment_here(partition, &here) && here.log_id == moment->log_id;
}

bool backup_moment_is_reached(const struct backup_moment *moment, uint64_t committed)
{
    return committed >= moment->committed;
}

void backup_moment_print(const struct backup_moment *moment, char text[BACKUP_MOMENT_MAX])
{
    (void)snprintf(text, BACKUP_MOMENT_MAX,
                   "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, moment->batch,
                   moment->committed, moment->log_id, moment->hybrid_us, moment->taken_ms);
}

bool backup_moment_parse(struct bytes text, struct backup_moment *moment)
{
    uint64_t *const to[MOMENT_NUMBERS] = {&moment->batch, &moment->committed, &moment->log_id,
                                          &moment->hybrid_us, &moment->taken_ms};
    for (int i = 0; i < MOMENT_NUMBERS; i++) {
        const char *space = text.len ? memchr(text.data, ' ', text.len) : NULL;
        size_t len = space ? (size_t)(space - text.data) : text.len;
        bool is_last = i == MOMENT_NUMBERS - 1;
        if (!number_parse_uint64((struct bytes){text.data, len}, to[i]) || !space != is_last)
            return false;
        text = is_last ? text : (struct bytes){space + 1, text.len - len - 1};
    }
    return moment->batch <= moment->committed;
}

static bool hears_leader(const struct replica_figures *figures)
{
    for (unsigned i = 0; i < figures->count; i++)
        if (figures->of[i].id == figures->leader)
            return figures->of[i].is_up && figures->leader != figures->own;
    return false;
}

const char *backup_copy_refusal(const struct partition *partition)
{
    const struct partition_copies *copies = &partition->copies;
    struct replica_figures figures = {0};
    if (!copies->is_closed)
        return "ERR this copy leads";
    if (!copies->replica || !copies->is_in_group || !copies->is_following || !copies->may_read)
        return "ERR this copy of the shard does not lead, and does not follow either: make the "
               "backup of another one";
    replica_figures(copies->replica, &figures);
    if (copy_pause_left_ms(partition))
        return "ERR this copy is paused: SCREE REPLICAS RESUME ends that";
    if (!hears_leader(&figures) ||
        figures.committed > storage_committed(partition->storage) + REPLICA_BEHIND_RECORDS)
        return "ERR this copy is behind, or not connected to the copy that leads";
    return commit_is_disk_low(partition->commit) ? "ERR the disk has less than disk-free-min"
                                                 : NULL;
}

uint64_t backup_copy_id(const struct partition *partition)
{
    struct replica_figures figures = {0};
    if (partition->copies.replica)
        replica_figures(partition->copies.replica, &figures);
    return figures.own;
}
