/*
 * wal_probe.c - does the disk take data again? A file beside the WAL is written, synced and removed. It is no record of
 * the WAL, so a partition that only follows another one may probe its disk too.
 */
#include "backend/wal/wal_inner.h"
#include "shared/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PROBE_BYTES = 64 << 10 };

static bool write_probe(int fd)
{
    static char zeros[PROBE_BYTES]; /* never written, so it takes no memory */
    size_t at = 0;
    while (at < sizeof zeros) {
        struct iovec rest = {zeros + at, sizeof zeros - at};
        ssize_t put = pwritev(fd, &rest, 1, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return false;
        at += (size_t)put;
    }
    return true;
}

int wal_probe(struct wal *wal, char *error, size_t size)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/probe.batches", wal->path); /* no segment has this name */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    int failure =
        fd >= 0 && write_probe(fd) && sync_fd(fd) ? OK : wal_segment_failure(path, error, size);
    if (fd >= 0)
        (void)close(fd);
    (void)unlink(path);
    return failure ? failure : wal_sync(wal, error, size);
}
