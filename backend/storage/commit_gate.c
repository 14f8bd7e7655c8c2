/*
 * commit_gate.c - which writes may run now, by the state of commit.c, the disk, and the size of what is not applied; and figures of
 * batches.
 */
#include "backend/storage/commit_inner.h"
#include "shared/clock.h"
#include "shared/command/command.h"
#include "shared/error.h"
#include "shared/log.h"

#include <inttypes.h>

enum { STALL_US = 5000000 };

#define STALLED     "not enough copies take the last batch"
#define COPIES_FULL "the disks of most copies are full"

static bool is_full_to(const struct commit *commit, uint64_t limit, unsigned percent)
{
    if (commit->state == COMMIT_FOLLOWING && apply_result(commit->apply) != OK)
        return false;
    return commit->state != COMMIT_FAILED &&
           !commit->current.is_stalled && /* writes are refused then, so the batch does not grow */
           ((overlay_bytes(commit->overlay) > limit &&
             overlay_common_bytes(commit->overlay) > limit) ||
            overlay_is_behind(commit->overlay, apply_bytes(commit->apply), percent));
}

bool commit_is_full(const struct commit *commit, uint64_t limit)
{
    return is_full_to(commit, limit, 100);
}

bool commit_is_half_full(const struct commit *commit, uint64_t limit)
{
    return is_full_to(commit, limit / 2, 50);
}

bool commit_is_full_of_big(const struct commit *commit, uint64_t limit)
{
    return commit->state != COMMIT_FAILED && !commit->current.is_stalled &&
           overlay_has_big(commit->overlay, limit);
}

static const char *stalled_by(const struct commit *commit)
{
    return commit->disk.copies == COMMIT_ROOM_NONE ? COPIES_FULL : STALLED;
}

bool commit_is_failed(const struct commit *commit, const char **reason)
{
    if (reason)
        *reason = commit->current.is_stalled ? stalled_by(commit) : commit->current.reason;
    return commit->current.is_stalled || commit->state == COMMIT_FAILED ||
           commit->state == COMMIT_FOLLOWING;
}

bool commit_refuses_writes(const struct commit *commit, const char **reason)
{
    bool is_failed = commit_is_failed(commit, reason);
    if (!is_failed && reason)
        *reason = COPIES_FULL;
    return is_failed || commit->disk.copies == COMMIT_ROOM_NONE;
}

int commit_error(const struct commit *commit)
{
    if (commit->state == COMMIT_FOLLOWING)
        return ERR_READONLY;
    if (commit->current.is_stalled)
        return commit->disk.copies == COMMIT_ROOM_NONE ? ERR_DISK_FULL : ERR_STALLED;
    return commit->current.result == ERR_DISK_FULL ? ERR_DISK_FULL : ERR_READONLY_DISK;
}

int commit_gate(const struct commit *commit, uint32_t command_flags)
{
    if (!(command_flags & CMD_WRITE))
        return OK;
    if (commit_is_failed(commit, NULL))
        return commit_error(commit);
    if (commit->disk.copies == COMMIT_ROOM_NONE)
        return ERR_DISK_FULL;
    bool is_low = commit->disk.is_low || commit->disk.copies == COMMIT_ROOM_LOW;
    return is_low && command_flags & CMD_DENYOOM ? ERR_DISK_LOW : OK;
}

bool commit_is_stalled(const struct commit *commit)
{
    return commit->current.is_stalled;
}

bool commit_watch_log(struct commit *commit)
{
    const struct commit_job *current = &commit->current;
    bool waits = commit->state == COMMIT_WRITING && current->has_log;
    if (commit->current.is_stalled || !waits || clock_mono_us() < current->closed_us + STALL_US)
        return commit->current.is_stalled;
    log_event(LOG_ERROR, "commit_stalled", "index=%" PRIu64 " ticket=%" PRIu64, current->index,
              current->ticket);
    commit->current.is_stalled = true;
    return true;
}

void commit_watch_disk(struct commit *commit, uint64_t free_bytes_min)
{
    uint64_t limit = free_bytes_min + (commit->disk.is_low ? free_bytes_min / 4 : 0);
    uint64_t free_bytes = storage_figure(commit->storage, "disk_free_bytes");
    bool is_low = free_bytes < limit;
    if (is_low != commit->disk.is_low)
        log_event(LOG_WARN, is_low ? "disk_low" : "disk_has_room", "free_bytes=%llu",
                  (unsigned long long)free_bytes);
    commit->disk.is_low = is_low;
    commit->disk.room = !limit ? UINT64_MAX : is_low ? 0 : free_bytes - limit;
}

bool commit_is_disk_low(const struct commit *commit)
{
    return commit->disk.is_low;
}

void commit_watch_copies(struct commit *commit, enum commit_room room)
{
    if (room != commit->disk.copies)
        log_event(LOG_WARN,
                  room == COMMIT_ROOM_NONE  ? "copies_full"
                  : room == COMMIT_ROOM_LOW ? "copies_low"
                                            : "copies_have_room",
                  "disk_is_low=%d", commit->disk.is_low);
    commit->disk.copies = room;
}

uint64_t commit_disk_room(const struct commit *commit)
{
    return commit->disk.copies != COMMIT_ROOM ? 0 : commit->disk.room;
}

/* ---- figures of the last batch ---- */

uint64_t commit_rows(const struct commit *commit)
{
    return commit->current.count;
}

uint64_t commit_bytes(const struct commit *commit)
{
    return commit->current.bytes;
}

uint64_t commit_sync_us(const struct commit *commit)
{
    return commit->current.sync_us;
}
