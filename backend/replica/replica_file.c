#include "backend/replica/replica_file.h"

#include "backend/replica/file_io.h"
#include "shared/check.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCKS = 2 };

struct replica_file {
    int fd;
    uint64_t number; /* of the newest save */
    char path[PATH_MAX];
};

static bool file_failed(const char *path, char *error, size_t size)
{
    (void)snprintf(error, size, "%s: %s", path, strerror(errno));
    return false;
}

static bool path_of(char path[PATH_MAX], const char *dir, const char *name)
{
    int len = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    errno = ENAMETOOLONG;
    return len > 0 && len < PATH_MAX;
}

/* ---- blocks ------------------------------------------------------------------------------------ */

static bool write_block(int fd, unsigned block, const char *data)
{
    return file_write_at(fd, (struct bytes){data, REPLICA_BLOCK_BYTES},
                         (uint64_t)block * REPLICA_BLOCK_BYTES);
}

/* A file that is too short has zeros in their place. */
static bool read_one_block(int fd, unsigned block, char *data)
{
    size_t len = REPLICA_BLOCK_BYTES;
    memset(data, 0, len);
    return file_read_at(fd, data, &len, (uint64_t)block * REPLICA_BLOCK_BYTES);
}

/* Each block is durable before the next one is touched. */
static bool write_blocks(int fd, uint64_t number, const struct replica_record *record)
{
    char block[REPLICA_BLOCK_BYTES];
    replica_record_write(record, number, block);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (!write_block(fd, i, block) || fdatasync(fd) != 0)
            return false;
    return true;
}

/* ---- open -------------------------------------------------------------------------------------- */

struct newest {
    struct replica_record record;
    uint64_t number; /* 0: no block could be read */
    unsigned equal;  /* blocks that have it */
    bool is_newer;
};

static void compare_block(struct newest *newest, const char *data)
{
    struct replica_record record;
    uint64_t number;
    enum replica_read found = replica_record_read(data, &record, &number);
    newest->is_newer |= found == REPLICA_NEWER;
    if (found != REPLICA_READ || number < newest->number)
        return;
    newest->equal = number == newest->number ? newest->equal + 1 : 1;
    newest->number = number;
    newest->record = record;
}

/* A block that the disk cannot read, or that has another format than the other one, is a damaged block. */
static enum replica_found read_newest(struct replica_file *file, struct newest *newest)
{
    char data[REPLICA_BLOCK_BYTES];
    bool is_read = false;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (read_one_block(file->fd, i, data)) {
            is_read = true;
            compare_block(newest, data);
        }
    if (!is_read)
        return REPLICA_FAILED;
    if (newest->number)
        return REPLICA_IS_OPEN;
    return newest->is_newer ? REPLICA_IS_NEWER : REPLICA_IS_LOST;
}

static enum replica_found load_file(struct replica_file *file, struct replica_record *record,
                                    char *error, size_t size)
{
    struct newest newest = {.number = 0};
    enum replica_found found = read_newest(file, &newest);
    if (found == REPLICA_IS_OPEN && newest.equal < BLOCKS &&
        !write_blocks(file->fd, newest.number, &newest.record))
        found = REPLICA_FAILED;
    if (found == REPLICA_FAILED)
        (void)file_failed(file->path, error, size);
    else if (found == REPLICA_IS_LOST)
        (void)snprintf(error, size, "%s: both blocks are damaged", file->path);
    else if (found == REPLICA_IS_NEWER)
        (void)snprintf(error, size, "%s: a newer program has written it", file->path);
    file->number = newest.number;
    *record = newest.record;
    return found;
}

enum replica_found replica_file_open(const char *dir, struct replica_file **file,
                                     struct replica_record *record, char *error, size_t size)
{
    struct replica_file *opened = calloc(1, sizeof *opened);
    CHECK(opened);
    enum replica_found found = REPLICA_FAILED;
    *file = NULL;
    opened->fd =
        path_of(opened->path, dir, "replica") ? open(opened->path, O_RDWR | O_CLOEXEC) : -1;
    if (opened->fd >= 0)
        found = load_file(opened, record, error, size);
    else if (errno == ENOENT)
        found = REPLICA_NONE;
    else
        (void)file_failed(opened->path, error, size);
    if (found == REPLICA_IS_OPEN)
        *file = opened;
    else
        replica_file_close(opened);
    return found;
}

/* ---- make, save -------------------------------------------------------------------------------- */

static bool make_at(struct replica_file *file, const char *dir, const char *new_path,
                    const struct replica_record *record)
{
    file->fd = open(new_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    return file->fd >= 0 && write_blocks(file->fd, file->number, record) &&
           rename(new_path, file->path) == 0 && path_sync(dir);
}

struct replica_file *replica_file_make(const char *dir, const struct replica_record *record,
                                       char *error, size_t size)
{
    char new_path[PATH_MAX];
    struct replica_file *file = calloc(1, sizeof *file);
    CHECK(file);
    file->fd = -1;
    file->number = 1;
    if (path_of(file->path, dir, "replica") && path_of(new_path, dir, "replica.new") &&
        make_at(file, dir, new_path, record))
        return file;
    (void)file_failed(file->path, error, size);
    replica_file_close(file);
    return NULL;
}

bool replica_file_save(struct replica_file *file, const struct replica_record *record, char *error,
                       size_t size)
{
    file->number++;
    return write_blocks(file->fd, file->number, record) || file_failed(file->path, error, size);
}

void replica_file_close(struct replica_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file);
}
