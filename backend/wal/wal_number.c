#include "backend/wal/wal_number.h"

#include "backend/wal/wal_inner.h"
#include "shared/byte_order.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NUMBER_BYTES = 8, FILE_BYTES = 16 };

static void number_path(char *path, const char *dir, const char *name)
{
    (void)snprintf(path, PATH_MAX, "%s/%s", dir, name);
}

uint64_t wal_number_read(const char *dir, const char *name)
{
    char path[PATH_MAX], bytes[FILE_BYTES];
    number_path(path, dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool is_whole = pread(fd, bytes, sizeof bytes, 0) == sizeof bytes &&
                    get_le64(bytes + NUMBER_BYTES) == ~get_le64(bytes);
    (void)close(fd);
    return is_whole ? get_le64(bytes) : 0;
}

bool wal_number_write(const char *dir, const char *name, uint64_t number, bool is_synced)
{
    char path[PATH_MAX], bytes[FILE_BYTES];
    number_path(path, dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return false;
    put_le64(bytes, number);
    put_le64(bytes + NUMBER_BYTES, ~number);
    struct iovec part = {bytes, sizeof bytes};
    bool good = pwritev(fd, &part, 1, 0) == sizeof bytes && (!is_synced || sync_fd(fd));
    return close(fd) == 0 && good;
}

void wal_number_remove(const char *dir, const char *name)
{
    char path[PATH_MAX];
    number_path(path, dir, name);
    (void)unlink(path);
}
