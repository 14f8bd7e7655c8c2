#include "backend/rdb/rdb_output.h"

#include "backend/backup/disk_file.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPCODE_FUNCTION = 245,
    OPCODE_AUX = 250,
    OPCODE_SIZES = 251,
    OPCODE_EXPIRE_MS = 252,
    OPCODE_SELECT_DB = 254,
    OPCODE_EOF = 255,
    HELD_MAX = 1024 * 1024, /* bytes that wait to be written */
};

static bool output_failed(struct rdb_output *output, const char *path, const char *reason)
{
    (void)snprintf(output->error, sizeof output->error, "%s: %s", path, reason);
    return false;
}

static void start_writer(struct rdb_output *output)
{
    arena_reset(&output->arena);
    rdb_writer_init(&output->writer, &output->arena);
}

/* A tool that gave the file its name by a link was killed before it removed this name: the file is whole, and is not written again. */
static void drop_second_name(const char *part)
{
    struct stat found;
    if (stat(part, &found) == 0 && found.st_nlink > 1)
        (void)unlink(part);
}

/* Not so if a tool that had the lock has renamed or removed it since it was opened. */
static bool is_part_there(const struct rdb_output *output)
{
    struct stat ours;
    struct stat there;
    return fstat(output->fd, &ours) == 0 && stat(output->part, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino && there.st_nlink == 1;
}

/* A second tool that writes the same file is noticed, and writes nothing. */
static bool lock_part(struct rdb_output *output)
{
    if (flock(output->fd, LOCK_EX | LOCK_NB) == 0 && is_part_there(output))
        return ftruncate(output->fd, 0) == 0 ||
               output_failed(output, output->part, strerror(errno));
    (void)close(output->fd);
    output->fd = -1;
    return output_failed(output, output->part, "another tool writes this file");
}

bool rdb_output_open(struct rdb_output *output, const char *path, uint64_t version)
{
    char header[16];
    *output = (struct rdb_output){.path = path, .fd = -1};
    arena_init(&output->arena);
    start_writer(output);
    if (snprintf(output->part, sizeof output->part, "%s.part", path) >= (int)sizeof output->part)
        return output_failed(output, path, "the path is too long");
    drop_second_name(output->part);
    output->fd = open(output->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (output->fd < 0)
        return output_failed(output, output->part, strerror(errno));
    (void)snprintf(header, sizeof header, "REDIS%04" PRIu64, version);
    rdb_write_raw(&output->writer, bytes_of(header));
    return lock_part(output);
}

static bool write_held(struct rdb_output *output)
{
    struct bytes held = {output->writer.data, output->writer.len};
    output->crc = crc64(output->crc, held);
    output->size += held.len;
    if (!disk_append(output->fd, held.data, held.len))
        return output_failed(output, output->part, strerror(errno));
    start_writer(output);
    return true;
}

bool rdb_output_go_on(struct rdb_output *output)
{
    return output->writer.len < HELD_MAX || write_held(output);
}

static bool sync_directory(struct rdb_output *output)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(output->path, '/');
    int len = slash ? (int)(slash - output->path) : 0;
    (void)snprintf(dir, sizeof dir, "%.*s%s", len, output->path, len ? "" : slash ? "/" : ".");
    return path_sync(dir) || output_failed(output, dir, strerror(errno));
}

/* A file that came while this one was written is kept, unless it may be replaced. Not every file system knows RENAME_NOREPLACE. */
static bool give_name(struct rdb_output *output, bool replaces)
{
    const char *part = output->part;
    const char *path = output->path;
    bool good = replaces ? rename(part, path) == 0
                         : renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (!good && !replaces && (errno == EINVAL || errno == ENOSYS)) {
        good = link(part, path) == 0;
        if (good)
            (void)unlink(part);
    }
    return good || output_failed(output, path, strerror(errno));
}

bool rdb_output_end(struct rdb_output *output, bool replaces)
{
    rdb_write_byte(&output->writer, OPCODE_EOF);
    if (!write_held(output))
        return false;
    rdb_write_ms(&output->writer, output->crc); /* 8 bytes, lowest first */
    if (!write_held(output))
        return false;
    if (fsync(output->fd) != 0)
        return output_failed(output, output->part, strerror(errno));
    if (!give_name(output, replaces))
        return false;
    (void)close(output->fd);
    output->fd = -1;
    return sync_directory(output);
}

void rdb_output_close(struct rdb_output *output)
{
    if (output->fd >= 0) {
        (void)unlink(output->part);
        (void)close(output->fd);
    }
    arena_fini(&output->arena);
}

/* ---- items ---- */

void rdb_output_aux(struct rdb_output *output, const char *name, struct bytes value)
{
    rdb_write_byte(&output->writer, OPCODE_AUX);
    rdb_write_string(&output->writer, bytes_of(name));
    rdb_write_string(&output->writer, value);
}

void rdb_output_function(struct rdb_output *output, struct bytes code)
{
    rdb_write_byte(&output->writer, OPCODE_FUNCTION);
    rdb_write_string(&output->writer, code);
}

void rdb_output_database(struct rdb_output *output, uint64_t db)
{
    rdb_write_byte(&output->writer, OPCODE_SELECT_DB);
    rdb_write_length(&output->writer, db);
}

void rdb_output_sizes(struct rdb_output *output, uint64_t keys, uint64_t expires)
{
    rdb_write_byte(&output->writer, OPCODE_SIZES);
    rdb_write_length(&output->writer, keys);
    rdb_write_length(&output->writer, expires);
}

void rdb_output_key(struct rdb_output *output, uint64_t expire_ms, uint8_t type, struct bytes key)
{
    if (expire_ms) {
        rdb_write_byte(&output->writer, OPCODE_EXPIRE_MS);
        rdb_write_ms(&output->writer, expire_ms);
    }
    rdb_write_byte(&output->writer, type);
    rdb_write_string(&output->writer, key);
}
