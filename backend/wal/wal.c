#include "backend/wal/wal.h"

#include "backend/wal/wal_inner.h"
#include "backend/wal/wal_number.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    /* files of kept batches that may not be on the disk, which a new file takes over at most */
    FILES_COPIED = 4,
    SMALL_BATCH_BYTES = 4096,
};

/* ---- trim ---- */

/* Batches up to this one may be trimmed. The lock is held. */
static uint64_t trimmable(const struct wal *wal)
{
    uint64_t upto = wal->trimmed;
    for (const struct list *node = wal->holds.next; node != &wal->holds; node = node->next) {
        const struct wal_hold *hold = container_of(node, const struct wal_hold, node);
        if (!hold->is_weak && hold->next <= upto)
            upto = hold->next - 1;
    }
    return upto;
}

/* The oldest file, if it is not needed and not the newest. No reader begins in it any more. */
static struct wal_segment *find_trimmed(struct wal *wal)
{
    struct wal_segment *file = NULL;
    pthread_mutex_lock(&wal->lock);
    if (!list_empty(&wal->files) && wal->files.next != wal->files.prev)
        file = wal_segment_of(wal->files.next);
    if (file && file->last > trimmable(wal))
        file = NULL;
    if (file)
        file->is_leaving = true;
    pthread_mutex_unlock(&wal->lock);
    return file;
}

static void detach(struct wal *wal, struct wal_segment *file)
{
    pthread_mutex_lock(&wal->lock);
    list_remove(&file->node);
    wal->bytes -= file->bytes;
    pthread_mutex_unlock(&wal->lock);
}

static void put_back(struct wal *wal, struct wal_segment *file)
{
    pthread_mutex_lock(&wal->lock);
    list_push(wal->files.next, &file->node);
    wal->bytes += file->bytes;
    pthread_mutex_unlock(&wal->lock);
}

/* Removes the oldest file. Kept ones would not reach to the WAL any more, so they go first. */
static bool remove_file(struct wal *wal, struct wal_segment *file)
{
    char path[PATH_MAX], reason[WAL_REASON_MAX];
    wal_kept_clear(wal);
    detach(wal, file);
    wal_segment_path(path, wal->path, file->first);
    if (unlink(path) == 0 || errno == ENOENT) {
        wal_segment_free(file);
        return true;
    }
    (void)wal_segment_failure(path, reason, sizeof reason);
    log_event(LOG_WARN, "wal_trim_failed", "reason=" LOG_QUOTED, reason);
    put_back(wal, file);
    return false;
}

/* Syncs the directory before each removal, so that the name of the newest file and the removal before are durable. */
static bool remove_trimmed(struct wal *wal, bool may_keep)
{
    char reason[WAL_REASON_MAX];
    for (struct wal_segment *file; (file = find_trimmed(wal));) {
        if (!path_sync(wal->path)) {
            (void)wal_segment_failure(wal->path, reason, sizeof reason);
            log_event(LOG_WARN, "wal_trim_failed", "reason=" LOG_QUOTED, reason);
            return false;
        }
        if (!(may_keep && wal_kept_take(wal, file)) && !remove_file(wal, file))
            return false;
    }
    return true;
}

void wal_trim(struct wal *wal, uint64_t index)
{
    pthread_mutex_lock(&wal->trim_lock);
    pthread_mutex_lock(&wal->lock);
    bool is_more = wal->trimmed < index;
    if (is_more)
        wal->trimmed = index;
    pthread_mutex_unlock(&wal->lock);
    if (is_more) /* if that fails, the next start replays more */
        (void)wal_number_write(wal->path, WAL_FILED, index, false);
    (void)remove_trimmed(wal, true);
    pthread_mutex_unlock(&wal->trim_lock);
}

/* ---- sync ---- */

/* The descriptor of a file that was completed without a sync; owned by the caller. -1: there is none. */
static int detach_unsynced(struct wal *wal, uint64_t *first)
{
    int fd = -1;
    pthread_mutex_lock(&wal->lock);
    for (struct list *node = wal->files.next; fd < 0 && node != &wal->files; node = node->next) {
        struct wal_segment *file = wal_segment_of(node);
        if (file == wal->current || file->fd < 0)
            continue;
        fd = file->fd;
        file->fd = -1;
        *first = file->first;
    }
    pthread_mutex_unlock(&wal->lock);
    return fd;
}

/* Makes everything up to `upto`, the last written batch, durable. */
static int sync_all(struct wal *wal, uint64_t upto, char *error, size_t size)
{
    char path[PATH_MAX];
    uint64_t first;
    for (int fd; (fd = detach_unsynced(wal, &first)) >= 0;) {
        bool good = sync_fd(fd);
        wal_segment_path(path, wal->path, first);
        int failure = good ? OK : wal_segment_failure(path, error, size);
        (void)close(fd);
        if (failure)
            return failure;
    }
    if (wal->is_name_new && !path_sync(wal->path))
        return wal_segment_failure(wal->path, error, size);
    wal->is_name_new = false;
    if (wal->current && upto > wal->durable && !sync_fd(wal->current->fd)) {
        wal_segment_path(path, wal->path, wal->current->first);
        return wal_segment_failure(path, error, size);
    }
    wal->durable = upto;
    pthread_mutex_lock(&wal->lock);
    if (wal->synced < upto)
        wal->synced = upto;
    pthread_mutex_unlock(&wal->lock);
    return OK;
}

/* ---- begin a new file ---- */

/* Copies the batches of an existing file (`part`) into the new `file`, except those that it already has. */
static int carry_part(const struct wal *wal, struct wal_segment *file, struct wal_reader *reader,
                      const struct part *part, char *error, size_t size)
{
    struct bytes batch;
    char path[PATH_MAX];
    wal_reader_begin(reader, part->fd, part->bytes);
    for (uint64_t index = part->first; index <= part->last; index++) {
        enum wal_read result = wal_reader_next(reader, index, &batch);
        if (result != WAL_READ) {
            (void)snprintf(error, size, "%s: batch %" PRIu64 " cannot be read back: %s", wal->path,
                           index, result == WAL_READ_END ? "it is damaged" : strerror(errno));
            return ERR_STORE;
        }
        if (index <= file->last)
            continue;
        if (!wal_segment_write(file, index, wal->durable, batch)) {
            wal_segment_path(path, wal->path, file->first);
            return wal_segment_failure(path, error, size);
        }
        (void)wal_segment_show(file);
    }
    return OK;
}

/* Copies the batches from file->first to the last one of the WAL into the new `file`, durably. */
static int carry_over(struct wal *wal, struct wal_segment *file, char *error, size_t size)
{
    struct wal_reader reader;
    size_t count;
    int failure = OK;
    struct part *parts = open_parts(wal, file->first, &count);
    if (!parts)
        return wal_segment_failure(wal->path, error, size);
    wal_reader_init(&reader);
    for (size_t i = 0; i < count && !failure; i++)
        failure = carry_part(wal, file, &reader, &parts[i], error, size);
    wal_reader_fini(&reader);
    close_parts(parts, count);
    CHECK(failure || file->last == wal->last);
    if (!failure && !sync_fd(file->fd))
        failure = wal_segment_failure(wal->path, error, size);
    return failure;
}

/* Adds `file` to the list as the newest one, and takes the files whose batches it contains out of the list. On the
 * disk its rename has already replaced a file with the same name. */
static void enlist(struct wal *wal, struct wal_segment *file)
{
    pthread_mutex_lock(&wal->lock);
    for (struct wal_segment *old; (old = wal_newest(wal)) && old->first >= file->first;) {
        list_remove(&old->node);
        list_push(wal->replaced.next, &old->node); /* before the older ones */
        wal->bytes -= old->bytes;
    }
    if (wal_newest(wal) && wal_newest(wal)->last >= file->first)
        wal_newest(wal)->last = file->first - 1;
    list_push(&wal->files, &file->node);
    wal->bytes += file->bytes;
    pthread_mutex_unlock(&wal->lock);
    for (struct list *node = wal->replaced.next; node != &wal->replaced;) {
        struct wal_segment *old = wal_segment_of(node);
        node = node->next;
        if (old->first == file->first) {
            list_remove(&old->node);
            wal_segment_free(old);
        }
    }
}

/* Continues in a new file that begins with batch `first`. If the WAL has that batch and later ones, they are copied. */
static int begin_file(struct wal *wal, uint64_t first, char *error, size_t size)
{
    /* else a power loss might keep this file and lose the file before it */
    if (wal->is_name_new && !path_sync(wal->path)) {
        wal->is_sync_lost = true;
        return wal_segment_failure(wal->path, error, size);
    }
    struct wal_segment *file = wal_segment_new(first);
    int failure = wal_segment_make(file, wal->path, error, size);
    if (failure == ERR_DISK_FULL && wal_use_spare(wal, file))
        failure = OK;
    if (!failure && first <= wal->last) {
        failure = carry_over(wal, file, error, size);
        if (failure)
            wal_segment_discard(file, wal->path);
    }
    if (!failure)
        failure = wal_segment_publish(file, wal->path, error, size);
    if (failure) {
        wal_segment_free(file);
        return failure;
    }
    if (wal->current) {
        wal->current->spare_bytes = 0;
        wal_segment_truncate(wal->current);
    }
    wal->is_name_new = true;
    wal->current = file;
    enlist(wal, file);
    return OK;
}

/* ---- continue in a new file ---- */

/* Index with which a new file begins: that of the first needed batch that may not be on the disk; if there is none,
 * that of the next batch. For readers of changes, trimmed batches are needed too. */
static uint64_t first_lost(struct wal *wal, bool is_kept)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t trimmed = is_kept ? 0 : trimmable(wal);
    uint64_t known = wal->durable > trimmed ? wal->durable : trimmed;
    if (!list_empty(&wal->files) && wal_segment_of(wal->files.next)->first > known)
        known = wal_segment_of(wal->files.next)->first - 1;
    if (known > wal->last)
        known = wal->last;
    pthread_mutex_unlock(&wal->lock);
    return known + 1;
}

/* Removes the files whose batches the current one has too, oldest first and each durably before the next, so that the
 * remaining files have no gap at any moment. */
static int remove_replaced(struct wal *wal, char *error, size_t size)
{
    char path[PATH_MAX];
    while (path_sync(wal->path)) {
        struct list *node = list_pop(&wal->replaced);
        if (!node)
            return OK;
        struct wal_segment *file = wal_segment_of(node);
        wal_segment_path(path, wal->path, file->first);
        if (unlink(path) != 0 && errno != ENOENT) {
            list_push(wal->replaced.next, node);
            return wal_segment_failure(path, error, size);
        }
        wal_segment_free(file);
    }
    return wal_segment_failure(wal->path, error, size);
}

/* The current file has the batches that other files may have lost. If there is a gap between their durable batches and
 * the current file, the other files are removed: the batches in the gap are not needed. */
static int leave_lost(struct wal *wal, char *error, size_t size)
{
    if (wal->current->first > wal->durable + 1 && !remove_trimmed(wal, false)) {
        (void)snprintf(error, size,
                       "%s: files that may lack batches after a failed sync cannot be removed",
                       wal->path);
        return ERR_STORE;
    }
    int failure = remove_replaced(wal, error, size);
    if (failure)
        return failure;
    uint64_t first;
    for (int fd; (fd = detach_unsynced(wal, &first)) >= 0;)
        (void)close(fd);
    wal->durable = wal->last;
    wal->is_name_new = false;
    return OK;
}

/* Removes completely truncated files, newest first and each durably before the next, so that the remaining files have
 * no gap at any moment. */
static int remove_truncated(struct wal *wal, char *error, size_t size)
{
    char path[PATH_MAX];
    for (struct wal_segment *file; (file = wal_newest(wal)) && file->first > wal->last + 1;) {
        wal_segment_path(path, wal->path, file->first);
        if (unlink(path) != 0 && errno != ENOENT)
            return wal_segment_failure(path, error, size);
        if (!path_sync(wal->path))
            return wal_segment_failure(wal->path, error, size);
        pthread_mutex_lock(&wal->lock);
        list_remove(&file->node);
        wal->bytes -= file->bytes;
        pthread_mutex_unlock(&wal->lock);
        if (wal->current == file)
            wal->current = NULL;
        wal_segment_free(file);
    }
    return OK;
}

/* Bytes of the files that have batches from this one on. */
static uint64_t bytes_from(struct wal *wal, uint64_t index)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&wal->lock);
    for (struct list *node = wal->files.next; node != &wal->files; node = node->next)
        if (wal_segment_of(node)->last >= index)
            bytes += wal_segment_of(node)->bytes;
    pthread_mutex_unlock(&wal->lock);
    return bytes;
}

/* Begins a new file, with the batches that may never reach the disk in older files. If readers of changes need trimmed ones too, these
 * are copied, so that what is kept has no gap; unless that fails or they are many: no reader holds back a writer. */
static int begin_file_after_lost(struct wal *wal, char *error, size_t size)
{
    uint64_t first = first_lost(wal, false), first_kept = first_lost(wal, true);
    bool are_few = bytes_from(wal, first_kept) <= FILES_COPIED * wal->file_bytes;
    if (wal->keep.bytes && first_kept < first && are_few &&
        !begin_file(wal, first_kept, error, size))
        return OK;
    return begin_file(wal, first, error, size);
}

/* Continues in a new file, and copies into it the batches that may never reach the disk in older files. */
static int resume_writing(struct wal *wal, char *error, size_t size)
{
    pthread_mutex_lock(&wal->trim_lock);
    int failure = remove_truncated(wal, error, size);
    if (!failure)
        failure = wal->is_sync_lost ? begin_file_after_lost(wal, error, size)
                                    : begin_file(wal, wal->last + 1, error, size);
    if (!failure && wal->is_sync_lost)
        failure = leave_lost(wal, error, size);
    pthread_mutex_unlock(&wal->trim_lock);
    wal->is_sync_lost &= failure != OK;
    return failure;
}

/* ---- append ---- */

/* Accepts no further batches, and removes the bytes after the last batch if the disk allows it. */
static void note_failure(struct wal *wal, int failure, const char *reason)
{
    wal->failed = failure;
    (void)snprintf(wal->reason, sizeof wal->reason, "%s", reason);
    if (wal->current)
        wal_segment_truncate(wal->current);
}

static int copy_failure(const struct wal *wal, char *error, size_t size)
{
    (void)snprintf(error, size, "%s", wal->reason);
    return wal->failed;
}

/* Is there a batch that was written and is not shown? Such batches are in the newest file. */
static bool has_unshown(const struct wal *wal)
{
    return wal_written(wal) != wal->last;
}

/* The spare segment keeps its space for small batches. If no other one can be made the batch is refused, and the WAL stays as it is. */
static int leave_spare(struct wal *wal, struct bytes batch, char *error, size_t size)
{
    if (!wal_is_on_spare(wal) || batch.len <= SMALL_BATCH_BYTES || has_unshown(wal) ||
        wal->is_sync_lost)
        return OK;
    return begin_file(wal, wal->last + 1, error, size);
}

static int write_batch(struct wal *wal, struct bytes batch, char *error, size_t size)
{
    uint64_t index = wal_written(wal) + 1;
    char path[PATH_MAX];
    if (batch.len > BATCH_BYTES_MAX) {
        (void)snprintf(error, size, "a batch of %zu bytes exceeds the maximum of 4 GiB", batch.len);
        return ERR_STORE;
    }
    if (!wal->current || (wal->current->bytes >= wal->file_bytes && !has_unshown(wal))) {
        int failure = begin_file(wal, index, error, size);
        if (failure)
            return failure;
    }
    wal_segment_reserve(wal->current, batch.len, wal->file_bytes);
    if (wal_segment_write(wal->current, index, wal->durable, batch))
        return OK;
    wal_segment_path(path, wal->path, wal->current->first);
    return wal_segment_failure(path, error, size);
}

/* Takes over the results of other threads' syncs. */
static void collect_sync_results(struct wal *wal)
{
    if (wal->late_failure) {
        pthread_mutex_lock(&wal->lock);
        note_failure(wal, wal->late_failure, wal->late_reason);
        wal->late_failure = OK;
        pthread_mutex_unlock(&wal->lock);
        wal->is_sync_lost = true;
    } else if (!wal->is_sync_lost && wal->durable < wal->synced) {
        wal->durable = wal->synced;
    }
}

int wal_write(struct wal *wal, struct bytes batch, uint64_t *index, char *error, size_t size)
{
    collect_sync_results(wal);
    if (wal->failed)
        return copy_failure(wal, error, size);
    int failure = leave_spare(wal, batch, error, size);
    if (failure)
        return failure;
    failure = wal->is_sync_lost ? resume_writing(wal, error, size) : OK;
    if (!failure)
        failure = write_batch(wal, batch, error, size);
    if (failure)
        note_failure(wal, failure, error);
    else
        *index = wal->current->written;
    return failure;
}

void wal_show(struct wal *wal)
{
    if (!has_unshown(wal))
        return;
    pthread_mutex_lock(&wal->lock);
    wal->bytes += wal_segment_show(wal->current);
    wal->last = wal->current->last;
    pthread_mutex_unlock(&wal->lock);
}

int wal_sync(struct wal *wal, char *error, size_t size)
{
    collect_sync_results(wal);
    if (wal->failed)
        return copy_failure(wal, error, size);
    int failure = wal->is_sync_lost ? resume_writing(wal, error, size) : OK;
    if (!failure) {
        if (has_unshown(wal))
            wal_segment_zero_ahead(wal->current, wal->file_bytes);
        failure = sync_all(wal, wal_written(wal), error, size);
        wal->is_sync_lost = failure != OK;
    }
    if (failure)
        note_failure(wal, failure, error);
    else
        wal_show(wal);
    return failure;
}

int wal_append(struct wal *wal, struct bytes batch, bool sync, char *error, size_t size)
{
    uint64_t index;
    int failure = wal_write(wal, batch, &index, error, size);
    if (!failure && sync)
        return wal_sync(wal, error, size);
    if (!failure)
        wal_show(wal);
    return failure;
}

int wal_rotate(struct wal *wal, char *error, size_t size)
{
    collect_sync_results(wal);
    int failure = resume_writing(wal, error, size);
    if (failure)
        note_failure(wal, failure, error);
    else
        wal->failed = OK;
    return failure;
}

/* ---- truncate ---- */

static void at_most(_Atomic uint64_t *number, uint64_t limit)
{
    if (*number > limit)
        *number = limit;
}

/* Drops the batches after the index from the state. False: the index was trimmed. */
static bool drop_batches_after(struct wal *wal, uint64_t index)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t first =
        list_empty(&wal->files) ? wal->last + 1 : wal_segment_of(wal->files.next)->first;
    bool is_there = index + 1 >= first && index >= wal->trimmed;
    for (struct list *node = wal->files.prev; is_there && node != &wal->files; node = node->prev) {
        struct wal_segment *file = wal_segment_of(node);
        if (file->first <= index + 1 && file->last > index)
            file->last = file->written = index;
    }
    for (struct list *node = wal->holds.next; is_there && node != &wal->holds; node = node->next) {
        struct wal_hold *hold = container_of(node, struct wal_hold, node);
        hold->is_truncated |= hold->next > index + 1;
    }
    if (is_there) {
        at_most(&wal->last, index);
        at_most(&wal->synced, index);
    }
    pthread_mutex_unlock(&wal->lock);
    if (is_there && wal->durable > index)
        wal->durable = index;
    return is_there;
}

/* Begins a new, empty file after `index`, which makes the batches after `index` void. */
int wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size)
{
    collect_sync_results(wal);
    wal_show(wal);
    if (!wal->failed && index >= wal->last)
        return OK;
    if (!drop_batches_after(wal, index)) {
        (void)snprintf(error, size, "%s: batch %" PRIu64 " is not in the log any more", wal->path,
                       index);
        return ERR_STORE;
    }
    int failure = wal_rotate(wal, error, size);
    if (!failure && wal->is_name_new && !path_sync(wal->path)) {
        failure = wal_segment_failure(wal->path, error, size);
        note_failure(wal, failure, error);
    }
    if (!failure)
        wal->is_name_new = false;
    return failure;
}

/* ---- figures ---- */

uint64_t wal_last(const struct wal *wal)
{
    return wal->last;
}

uint64_t wal_written(const struct wal *wal)
{
    return wal->current ? wal->current->written : wal->last;
}

/* Adds those of a list to `count` that were found before. The lock is held. */
static size_t add_firsts(const struct list *files, uint64_t *firsts, size_t count, size_t max)
{
    for (const struct list *node = files->next; node != files; node = node->next) {
        const struct wal_segment *file = container_of(node, const struct wal_segment, node);
        if (file->last < file->first)
            continue;
        if (count < max)
            firsts[count] = file->first;
        count++;
    }
    return count;
}

size_t wal_firsts(struct wal *wal, uint64_t *firsts, size_t max)
{
    pthread_mutex_lock(&wal->lock);
    size_t count = add_firsts(&wal->kept, firsts, 0, max);
    count = add_firsts(&wal->files, firsts, count, max);
    pthread_mutex_unlock(&wal->lock);
    return count;
}

uint64_t wal_first(struct wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t first = wal_oldest(wal);
    pthread_mutex_unlock(&wal->lock);
    return first;
}

uint64_t wal_trimmed(struct wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t trimmed = wal->trimmed;
    pthread_mutex_unlock(&wal->lock);
    return trimmed;
}

uint64_t wal_damaged(const struct wal *wal)
{
    return wal->lost.damaged_batches;
}

bool wal_has_lost(const struct wal *wal)
{
    return wal->lost.damaged_batches || wal->lost.has_durable;
}

bool wal_has_lost_durable(const struct wal *wal)
{
    return wal->lost.has_durable;
}

uint64_t wal_bytes(const struct wal *wal)
{
    return wal->bytes;
}

void wal_close(struct wal *wal)
{
    if (!wal)
        return;
    if (wal->current)
        wal_segment_truncate(wal->current);
    for (struct list *node; (node = list_pop(&wal->files));)
        wal_segment_free(wal_segment_of(node));
    for (struct list *node; (node = list_pop(&wal->replaced));)
        wal_segment_free(wal_segment_of(node));
    for (struct list *node; (node = list_pop(&wal->kept));)
        wal_segment_free(wal_segment_of(node));
    pthread_mutex_destroy(&wal->lock);
    pthread_mutex_destroy(&wal->trim_lock);
    free(wal->path);
    free(wal);
}
