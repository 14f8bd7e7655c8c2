#include "backend/live/live_spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POSITION_DIGITS = 20, NAME_MAX_BYTES = 300 };

static bool spool_failed(struct spool *spool, const char *path)
{
    (void)snprintf(spool->error, sizeof spool->error, "the spool: %.400s: %s", path,
                   strerror(errno));
    return false;
}

/* ---- names ---- */

static void spool_path(const struct spool *spool, const char *end, char path[SPOOL_PATH_MAX])
{
    (void)snprintf(path, SPOOL_PATH_MAX, "%s/scree-copy.%s.%s", spool->folder, spool->session, end);
}

static void segment_path(const struct spool *spool, uint64_t start, char path[SPOOL_PATH_MAX])
{
    char digits[POSITION_DIGITS + 1];
    (void)snprintf(digits, sizeof digits, "%020" PRIu64, start);
    spool_path(spool, digits, path);
}

/* Is this the name of a segment? Then also where it starts. */
static bool is_segment(const struct spool *spool, const char *name, uint64_t *start)
{
    char prefix[NAME_MAX_BYTES];
    char *end;
    int len = snprintf(prefix, sizeof prefix, "scree-copy.%s.", spool->session);
    if (strncmp(name, prefix, (size_t)len) != 0 || strlen(name + len) != POSITION_DIGITS)
        return false;
    *start = strtoull(name + len, &end, 10);
    return *end == '\0';
}

/* Finds the segment with the greatest start up to `position`, and the start of the one after it. */
static bool find_spool_segment(const struct spool *spool, uint64_t position, uint64_t *found,
                               uint64_t *next)
{
    DIR *folder = opendir(spool->folder);
    const struct dirent *entry;
    uint64_t start;
    bool has_found = false;
    *next = UINT64_MAX;
    while (folder && (entry = readdir(folder))) {
        if (!is_segment(spool, entry->d_name, &start))
            continue;
        if (start > position) {
            *next = start < *next ? start : *next;
        } else if (!has_found || start > *found) {
            *found = start;
            has_found = true;
        }
    }
    if (folder)
        (void)closedir(folder);
    return has_found;
}

/* ---- open and close ---- */

bool spool_open(struct spool *spool, const char *folder, const char *session)
{
    char path[SPOOL_PATH_MAX];
    *spool = (struct spool){
        .folder = folder, .session = session, .lock = -1, .rdb = -1, .write = -1, .read = -1};
    spool->write_start = UINT64_MAX;
    spool_path(spool, "rdb", spool->path);
    spool_path(spool, "lock", path);
    (void)mkdir(folder, 0700); /* if it fails, so does open */
    spool->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (spool->lock < 0)
        return spool_failed(spool, path);
    if (flock(spool->lock, LOCK_EX | LOCK_NB) == 0)
        return true;
    (void)snprintf(spool->error, sizeof spool->error,
                   "another scree-copy uses the spool %.400s: one session has one tool", path);
    return false;
}

bool spool_number(struct spool *spool, char number[33])
{
    uint64_t random[2];
    ssize_t got = pread(spool->lock, number, 32, 0);
    number[32] = '\0';
    if (got == 32)
        return true;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return spool_failed(spool, "a random number");
    (void)snprintf(number, 33, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return pwrite(spool->lock, number, 32, 0) == 32 || spool_failed(spool, spool->folder);
}

static void close_file(int *file)
{
    if (*file >= 0)
        (void)close(*file);
    *file = -1;
}

void spool_close(struct spool *spool)
{
    close_file(&spool->lock);
    close_file(&spool->rdb);
    close_file(&spool->write);
    close_file(&spool->read);
}

void spool_clear(struct spool *spool)
{
    char path[SPOOL_PATH_MAX];
    spool_drop(spool, UINT64_MAX);
    (void)unlink(spool->path);
    spool_path(spool, "rdb.part", path);
    (void)unlink(path);
}

/* ---- the full copy ---- */

static bool write_to_spool(struct spool *spool, int file, struct bytes data)
{
    while (data.len > 0) {
        ssize_t written = write(file, data.data, data.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return spool_failed(spool, spool->folder);
        data = (struct bytes){data.data + written, data.len - (size_t)written};
    }
    return true;
}

bool spool_rdb_begin(struct spool *spool)
{
    char path[SPOOL_PATH_MAX];
    spool_path(spool, "rdb.part", path);
    close_file(&spool->rdb);
    spool->rdb = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return spool->rdb >= 0 || spool_failed(spool, path);
}

bool spool_rdb_add(struct spool *spool, struct bytes data)
{
    return write_to_spool(spool, spool->rdb, data);
}

bool spool_rdb_end(struct spool *spool)
{
    char path[SPOOL_PATH_MAX];
    spool_path(spool, "rdb.part", path);
    if (fsync(spool->rdb) != 0 || rename(path, spool->path) != 0)
        return spool_failed(spool, path);
    close_file(&spool->rdb);
    return true;
}

bool spool_has_rdb(const struct spool *spool)
{
    return access(spool->path, R_OK) == 0;
}

/* ---- rules ---- */

/* Makes new names durable. */
static bool sync_spool_folder(const struct spool *spool)
{
    int folder = open(spool->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = folder >= 0 && fsync(folder) == 0;
    close_file(&folder);
    return is_synced;
}

/* Writes the file anew, so that a crash leaves the one before or this one. */
static bool replace_in_spool(struct spool *spool, const char *end, struct bytes text)
{
    char path[SPOOL_PATH_MAX];
    char part[SPOOL_PATH_MAX];
    char part_end[NAME_MAX_BYTES];
    (void)snprintf(part_end, sizeof part_end, "%s.part", end);
    spool_path(spool, end, path);
    spool_path(spool, part_end, part);
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_written = file >= 0 && write_to_spool(spool, file, text) && fsync(file) == 0 &&
                      rename(part, path) == 0 && sync_spool_folder(spool);
    if (!is_written)
        (void)spool_failed(spool, path);
    close_file(&file);
    return is_written;
}

/* "acl", or "HOST:PORT.acl" */
static void rules_end(const char *server, const char *kind, char end[NAME_MAX_BYTES])
{
    (void)snprintf(end, NAME_MAX_BYTES, "%.250s%s%s", server, *server ? "." : "", kind);
}

static void fence_path(const struct spool *spool, const char *server, char path[SPOOL_PATH_MAX])
{
    char end[NAME_MAX_BYTES];
    rules_end(server, "fence", end);
    spool_path(spool, end, path);
}

void spool_rules_path(const struct spool *spool, const char *server, char path[SPOOL_PATH_MAX])
{
    char end[NAME_MAX_BYTES];
    rules_end(server, "acl", end);
    spool_path(spool, end, path);
}

bool spool_keep_rules(struct spool *spool, const char *server, const char *text)
{
    char rules[NAME_MAX_BYTES];
    char fence[NAME_MAX_BYTES];
    rules_end(server, "acl", rules);
    rules_end(server, "fence", fence);
    return replace_in_spool(spool, rules, bytes_of(text)) &&
           replace_in_spool(spool, fence, BYTES(""));
}

/* Is this the name of a fence? Then also of its server. */
static bool is_fence_name(const struct spool *spool, const char *name, char server[NAME_MAX_BYTES])
{
    static const char end[] = "fence";
    int head = snprintf(server, NAME_MAX_BYTES, "scree-copy.%s.", spool->session);
    size_t len = strlen(name);
    if (strncmp(name, server, (size_t)head) != 0 || len < (size_t)head + strlen(end) ||
        strcmp(name + len - strlen(end), end) != 0)
        return false;
    size_t middle = len - (size_t)head - strlen(end);
    (void)snprintf(server, NAME_MAX_BYTES, "%.*s", middle ? (int)middle - 1 : 0, name + head);
    return middle == 0 || name[(size_t)head + middle - 1] == '.';
}

bool spool_is_fenced(const struct spool *spool, char rules[SPOOL_PATH_MAX])
{
    DIR *folder = opendir(spool->folder);
    char server[NAME_MAX_BYTES];
    const struct dirent *entry;
    bool is_fenced = false;
    while (folder && !is_fenced && (entry = readdir(folder)))
        is_fenced = is_fence_name(spool, entry->d_name, server);
    if (folder)
        (void)closedir(folder);
    if (is_fenced)
        spool_rules_path(spool, server, rules);
    return is_fenced;
}

char *spool_rules(const struct spool *spool, const char *server)
{
    char path[SPOOL_PATH_MAX];
    fence_path(spool, server, path);
    bool is_fenced = access(path, F_OK) == 0;
    spool_rules_path(spool, server, path);
    int file = is_fenced ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat stat_of;
    char *text = NULL;
    if (file >= 0 && fstat(file, &stat_of) == 0 && stat_of.st_size > 0) {
        size_t size = (size_t)stat_of.st_size;
        text = calloc(1, size + 1);
        if (text && read(file, text, size) != (ssize_t)size) {
            free(text);
            text = NULL;
        }
    }
    close_file(&file);
    return text;
}

void spool_end_rules(const struct spool *spool, const char *server)
{
    char fence[SPOOL_PATH_MAX];
    fence_path(spool, server, fence);
    (void)unlink(fence);
}

void spool_drop_rules(const struct spool *spool, const char *server)
{
    char rules[SPOOL_PATH_MAX];
    spool_end_rules(spool, server);
    spool_rules_path(spool, server, rules);
    (void)unlink(rules);
}

/* ---- segments ---- */

static bool segment_new(struct spool *spool)
{
    char path[SPOOL_PATH_MAX];
    segment_path(spool, spool->write_at, path);
    close_file(&spool->write);
    spool->write_start = spool->write_at;
    spool->write = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return spool->write >= 0 || spool_failed(spool, path);
}

void spool_begin(struct spool *spool, uint64_t position)
{
    close_file(&spool->write);
    spool->write_start = UINT64_MAX;
    spool->write_at = position;
}

bool spool_add(struct spool *spool, struct bytes data)
{
    bool is_full = spool->write_at - spool->write_start >= SPOOL_SEGMENT_BYTES;
    if ((spool->write < 0 || is_full) && !segment_new(spool))
        return false;
    spool->write_at += data.len;
    return write_to_spool(spool, spool->write, data);
}

static uint64_t segment_size(const struct spool *spool, uint64_t start)
{
    char path[SPOOL_PATH_MAX];
    struct stat stat_of;
    segment_path(spool, start, path);
    return stat(path, &stat_of) == 0 ? (uint64_t)stat_of.st_size : 0;
}

uint64_t spool_end(struct spool *spool, uint64_t position)
{
    uint64_t start;
    uint64_t next;
    bool is_there = find_spool_segment(spool, UINT64_MAX - 1, &start, &next);
    return is_there ? start + segment_size(spool, start) : position;
}

/* Opens the segment that has the byte behind the position. */
static bool open_spool_segment(struct spool *spool, uint64_t position)
{
    char path[SPOOL_PATH_MAX];
    uint64_t next;
    close_file(&spool->read);
    if (!find_spool_segment(spool, position, &spool->read_start, &next))
        return false;
    segment_path(spool, spool->read_start, path);
    spool->read = open(path, O_RDONLY | O_CLOEXEC);
    return spool->read >= 0;
}

static ssize_t read_spool_segment(struct spool *spool, uint64_t position, char *to, size_t room)
{
    ssize_t got;
    do
        got = pread(spool->read, to, room, (off_t)(position - spool->read_start));
    while (got < 0 && errno == EINTR);
    return got;
}

ssize_t spool_read(struct spool *spool, uint64_t position, char *to, size_t room)
{
    bool is_open = spool->read >= 0 && position >= spool->read_start;
    ssize_t got = is_open ? read_spool_segment(spool, position, to, room) : 0;
    if (got == 0 &&
        open_spool_segment(spool, position)) /* behind the end of a segment begins the next */
        got = read_spool_segment(spool, position, to, room);
    if (got < 0)
        (void)spool_failed(spool, spool->folder);
    return got;
}

/* False: there is no segment. */
static bool oldest_segment(const struct spool *spool, uint64_t *start)
{
    uint64_t next;
    if (!find_spool_segment(spool, 0, start, &next))
        *start = next;
    return *start != UINT64_MAX;
}

void spool_drop(struct spool *spool, uint64_t position)
{
    char path[SPOOL_PATH_MAX];
    uint64_t start;
    while (oldest_segment(spool, &start)) {
        if (start + segment_size(spool, start) > position || start == spool->write_start)
            return;
        segment_path(spool, start, path);
        if (unlink(path) != 0)
            return;
    }
}
