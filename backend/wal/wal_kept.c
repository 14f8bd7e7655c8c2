/*
 * wal_kept.c - segments that are not needed any more, kept for readers of changes while the limits allow it.
 *
 *   kept/01.batches  kept/06.batches │ 09.batches  12.batches
 *   ── wal_keep removes the oldest   │ wal_trim moves the oldest ──►  neither replayed, copied nor counted as the WAL
 *
 * A kept segment is durable: its batches are in the tables' files, and these never have what the WAL may lose. What is kept
 * has no gap. When a segment cannot be kept, all kept ones are removed, because they would not reach to the WAL any more.
 * After a power loss a gap may be there all the same; a cursor finds it at the end of a file that ends too early.
 */
#include "backend/wal/wal_inner.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPIED_MAX = 1024 }; /* a snapshot has a limited number of files */

void wal_kept_dir(const struct wal *wal, char dir[PATH_MAX])
{
    (void)snprintf(dir, PATH_MAX, "%s/kept", wal->path);
}

/* Sets bytes and time of the last change. */
static void measure(struct wal_segment *file, const struct stat *found)
{
    file->bytes = (uint64_t)found->st_size;
    file->changed_s = (uint64_t)found->st_mtim.tv_sec;
}

/* ---- at the start ---- */

/* Inserts the file into the list, which is sorted by name. */
static void list_kept(struct wal *wal, struct wal_segment *file)
{
    struct list *next = &wal->kept;
    while (next->prev != &wal->kept && wal_segment_of(next->prev)->first > file->first)
        next = next->prev;
    list_push(next, &file->node);
}

/* A file that the WAL has too was being moved. */
static void take_kept(struct wal *wal, uint64_t first)
{
    char dir[PATH_MAX], path[PATH_MAX];
    wal_kept_dir(wal, dir);
    wal_segment_path(path, dir, first);
    if (!list_empty(&wal->files) && first >= wal_segment_of(wal->files.next)->first) {
        (void)unlink(path);
        return;
    }
    struct stat found;
    if (stat(path, &found) != 0)
        return;
    struct wal_segment *file = wal_segment_new(first);
    measure(file, &found);
    wal->kept_bytes += file->bytes;
    list_kept(wal, file);
}

/* The batches of a kept file end before the next file. */
static void set_ends(struct wal *wal)
{
    uint64_t next =
        list_empty(&wal->files) ? wal->last + 1 : wal_segment_of(wal->files.next)->first;
    for (struct list *node = wal->kept.prev; node != &wal->kept; node = node->prev) {
        wal_segment_of(node)->last = next - 1;
        next = wal_segment_of(node)->first;
    }
}

/* Moves the segments that came with a copy of the files. If that fails they stay, and the next start tries again. */
static void take_copied(const struct wal *wal)
{
    char kept[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    DIR *dir = opendir(wal->path);
    wal_kept_dir(wal, kept);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        uint64_t first;
        if (!wal_segment_kept_name(entry->d_name, &first))
            continue;
        wal_segment_kept_path(from, wal->path, first);
        wal_segment_path(to, kept, first);
        if ((mkdir(kept, 0750) != 0 && errno != EEXIST) || rename(from, to) != 0)
            log_event(LOG_WARN, "wal_not_kept",
                      "path=" LOG_QUOTED " batch=%" PRIu64 " reason=" LOG_QUOTED, wal->path, first,
                      strerror(errno));
    }
    if (dir)
        (void)closedir(dir);
}

void wal_kept_open(struct wal *wal)
{
    take_copied(wal);
    char path[PATH_MAX];
    wal_kept_dir(wal, path);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    wal->keep.bytes = UINT64_MAX; /* until wal_keep sets the limits: an offline tool keeps all */
    for (struct dirent *entry; (entry = readdir(dir));) {
        uint64_t first;
        bool is_new;
        if (wal_segment_name(entry->d_name, &first, &is_new) && !is_new)
            take_kept(wal, first);
    }
    (void)closedir(dir);
    set_ends(wal);
}

/* ---- limits ---- */

/* Takes the oldest kept file out of the list; NULL: there is none. */
static struct wal_segment *detach_oldest(struct wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    struct list *node = list_pop(&wal->kept);
    struct wal_segment *file = node ? wal_segment_of(node) : NULL;
    if (file)
        wal->kept_bytes -= file->bytes;
    pthread_mutex_unlock(&wal->lock);
    return file;
}

static void remove_oldest(struct wal *wal)
{
    char dir[PATH_MAX], path[PATH_MAX];
    struct wal_segment *file = detach_oldest(wal);
    if (!file)
        return;
    wal_kept_dir(wal, dir);
    wal_segment_path(path, dir, file->first);
    if (unlink(path) != 0 && errno != ENOENT)
        log_event(LOG_WARN, "wal_kept_not_removed", "file=" LOG_QUOTED " reason=" LOG_QUOTED, path,
                  strerror(errno));
    wal_segment_free(file);
}

/* Is the oldest kept file beyond a limit? */
static bool is_beyond(struct wal *wal)
{
    bool is_low = wal->keep.free_bytes_min && path_free_bytes(wal->path) < wal->keep.free_bytes_min;
    pthread_mutex_lock(&wal->lock);
    bool is_beyond = false;
    if (!list_empty(&wal->kept)) {
        const struct wal_segment *oldest = wal_segment_of(wal->kept.next);
        uint64_t now_s = clock_wall_us() / 1000000, age_s = wal->keep.age_ms / 1000;
        bool is_old = wal->keep.age_ms && oldest->changed_s + age_s < now_s;
        is_beyond = !wal->keep.bytes || wal->kept_bytes > wal->keep.bytes || is_old || is_low;
    }
    pthread_mutex_unlock(&wal->lock);
    return is_beyond;
}

static void remove_beyond(struct wal *wal)
{
    while (is_beyond(wal))
        remove_oldest(wal);
}

/* The directory exists while segments are kept, also when there is none yet: a start trims before it has the limits. */
static void show_limits(const struct wal *wal)
{
    char dir[PATH_MAX];
    wal_kept_dir(wal, dir);
    if (!wal->keep.bytes)
        (void)rmdir(dir);
    else if (mkdir(dir, 0750) == 0)
        (void)path_sync(wal->path);
}

/* If it cannot be made, segments that the opening does not need are removed. */
void wal_keep_at(const char *path)
{
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof dir, "%s/kept", path) < (int)sizeof dir && mkdir(dir, 0750) == 0)
        (void)path_sync(path);
}

void wal_keep(struct wal *wal, const struct wal_keep *keep)
{
    pthread_mutex_lock(&wal->trim_lock);
    wal->keep = *keep;
    remove_beyond(wal);
    show_limits(wal);
    pthread_mutex_unlock(&wal->trim_lock);
}

void wal_keep_none(struct wal *wal)
{
    pthread_mutex_lock(&wal->trim_lock);
    wal_kept_clear(wal);
    pthread_mutex_unlock(&wal->trim_lock);
}

void wal_kept_clear(struct wal *wal)
{
    while (wal->kept.next != &wal->kept)
        remove_oldest(wal);
}

/* ---- moving ---- */

/* Moves the file into the directory, durably. A cursor that opens it at this moment tries both paths. */
static bool move_file(const struct wal *wal, const struct wal_segment *file, struct stat *found)
{
    char dir[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    wal_kept_dir(wal, dir);
    wal_segment_path(from, wal->path, file->first);
    wal_segment_path(to, dir, file->first);
    if (mkdir(dir, 0750) != 0 && errno != EEXIST)
        return false;
    return stat(from, found) == 0 && rename(from, to) == 0 && path_sync(dir);
}

static uint64_t size_on_disk(const struct wal *wal, const struct wal_segment *file)
{
    char path[PATH_MAX];
    struct stat found;
    wal_segment_path(path, wal->path, file->first);
    return stat(path, &found) == 0 ? (uint64_t)found.st_size : file->bytes;
}

/* Moves the file from the WAL's list to that of the kept ones. Returns its descriptor, which nothing needs any more. */
static int move_in_lists(struct wal *wal, struct wal_segment *file, const struct stat *found)
{
    pthread_mutex_lock(&wal->lock);
    int fd = file->fd;
    file->fd = -1;
    list_remove(&file->node);
    wal->bytes -= file->bytes;
    measure(file, found);
    list_push(&wal->kept, &file->node);
    wal->kept_bytes += file->bytes;
    pthread_mutex_unlock(&wal->lock);
    return fd;
}

/* Removes the oldest files until one more of this size is within the limits. False: it is too big alone. */
static bool make_room(struct wal *wal, uint64_t bytes)
{
    if (bytes > wal->keep.bytes)
        return false;
    while (wal_kept(wal).bytes > wal->keep.bytes - bytes)
        remove_oldest(wal);
    return true;
}

bool wal_kept_take(struct wal *wal, struct wal_segment *file)
{
    struct stat found;
    if (!wal->keep.bytes || !make_room(wal, size_on_disk(wal, file)))
        return false;
    if (!move_file(wal, file, &found)) {
        log_event(LOG_WARN, "wal_not_kept",
                  "path=" LOG_QUOTED " batch=%" PRIu64 " reason=" LOG_QUOTED, wal->path,
                  file->first, strerror(errno));
        return false;
    }
    int fd = move_in_lists(wal, file, &found);
    if (fd >= 0)
        (void)close(fd);
    remove_beyond(wal);
    return true;
}

/* ---- copying ---- */

/* The first batches of the kept files, oldest first; to be freed. */
static uint64_t *kept_firsts(struct wal *wal, size_t *count)
{
    size_t room = 0;
    *count = 0;
    pthread_mutex_lock(&wal->lock);
    for (struct list *node = wal->kept.next; node != &wal->kept; node = node->next)
        room++;
    uint64_t *firsts = calloc(room + 1, sizeof *firsts);
    CHECK(firsts);
    for (struct list *node = wal->kept.next; node != &wal->kept; node = node->next)
        firsts[(*count)++] = wal_segment_of(node)->first;
    pthread_mutex_unlock(&wal->lock);
    return firsts;
}

static bool link_kept(const struct wal *wal, uint64_t first, const char *path)
{
    char dir[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    wal_kept_dir(wal, dir);
    wal_segment_path(from, dir, first);
    wal_segment_kept_path(to, path, first);
    return link(from, to) == 0;
}

void wal_copy_kept(struct wal *wal, const char *path)
{
    size_t count;
    pthread_mutex_lock(&wal->trim_lock);
    uint64_t *firsts = kept_firsts(wal, &count);
    size_t end = count > COPIED_MAX ? count - COPIED_MAX : 0;
    while (count > end && link_kept(wal, firsts[count - 1], path))
        count--;
    pthread_mutex_unlock(&wal->trim_lock);
    if (count > end)
        log_event(LOG_WARN, "wal_kept_not_copied",
                  "path=" LOG_QUOTED " batch=%" PRIu64 " reason=" LOG_QUOTED, wal->path,
                  firsts[count - 1], strerror(errno));
    free(firsts);
}

/* ---- figures ---- */

struct wal_kept wal_kept(struct wal *wal)
{
    struct wal_kept kept = {0};
    pthread_mutex_lock(&wal->lock);
    kept.bytes = wal->kept_bytes;
    if (!list_empty(&wal->kept)) {
        kept.first = wal_segment_of(wal->kept.next)->first;
        kept.oldest_s = wal_segment_of(wal->kept.next)->changed_s;
    }
    pthread_mutex_unlock(&wal->lock);
    return kept;
}
