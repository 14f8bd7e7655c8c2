/*
 * wal_spare.c - the spare segment: a file whose space was allocated while there was some.
 *
 *   spare ── no other segment finds space ──► <index>.batches ── a batch that is not small ──► the next segment, if it finds space
 *
 * So a copy whose disk is full can still take the record with which a leader begins. Without that no copy could lead, and nothing could be
 * read. When there is space again, the next spare segment is made.
 */
#include "backend/wal/wal_inner.h"
#include "shared/check.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum { SPARE_BYTES = 1 << 20 };

static const char spare_name[] = "spare";

/* That of an earlier process has its space already. */
static bool make_spare(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    bool is_made = fd >= 0 && wal_segment_allocate(fd, SPARE_BYTES) && sync_fd(fd);
    if (fd >= 0)
        (void)close(fd);
    return is_made;
}

void wal_make_spare(struct wal *wal)
{
    char path[PATH_MAX];
    if (wal->has_spare)
        return;
    int len = snprintf(path, sizeof path, "%s/%s", wal->path, spare_name);
    CHECK(len > 0 && len < PATH_MAX);
    wal->has_spare = make_spare(path);
    if (!wal->has_spare)
        (void)unlink(path);
}

bool wal_use_spare(struct wal *wal, struct wal_segment *file)
{
    if (!wal->has_spare)
        return false;
    wal->has_spare = false;
    wal_segment_close(file);
    if (!wal_segment_make_of(file, wal->path, spare_name))
        return false;
    file->spare_bytes = file->reserved = SPARE_BYTES;
    return true;
}

bool wal_is_on_spare(const struct wal *wal)
{
    return wal->current && wal->current->spare_bytes;
}
