#include "backend/wal/batch_log.h"

#include "backend/wal/batch_log_inner.h"
#include "backend/wal/path.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- trim ---- */

/* The oldest file, if it is not needed and not the newest; it is in the list no more. */
static struct batch_file *take_trimmed(struct batch_log *log)
{
    struct batch_file *file = NULL;
    pthread_mutex_lock(&log->lock);
    if (!list_empty(&log->files) && log->files.next != log->files.prev)
        file = batch_file_of(log->files.next);
    if (file && file->last > log->trimmed)
        file = NULL;
    if (file) {
        list_remove(&file->node);
        log->bytes -= file->bytes;
    }
    pthread_mutex_unlock(&log->lock);
    return file;
}

static void put_back(struct batch_log *log, struct batch_file *file)
{
    pthread_mutex_lock(&log->lock);
    list_push(log->files.next, &file->node);
    log->bytes += file->bytes;
    pthread_mutex_unlock(&log->lock);
}

/* The directory is synced before each removal: the name of the newest file and the removal before are on the disk. */
static bool remove_trimmed(struct batch_log *log)
{
    char path[PATH_MAX], reason[BATCH_LOG_REASON_MAX];
    for (struct batch_file *file; (file = take_trimmed(log));) {
        batch_file_path(path, log->path, file->first);
        if (!path_sync(log->path) || (unlink(path) != 0 && errno != ENOENT)) {
            (void)batch_file_failure(path, reason, sizeof reason);
            log_event(LOG_WARN, "log_trim_failed", "reason=" LOG_QUOTED, reason);
            put_back(log, file);
            return false;
        }
        batch_file_free(file);
    }
    return true;
}

void batch_log_trim(struct batch_log *log, uint64_t index)
{
    pthread_mutex_lock(&log->lock);
    if (log->trimmed < index)
        log->trimmed = index;
    pthread_mutex_unlock(&log->lock);
    pthread_mutex_lock(&log->trim_lock);
    (void)remove_trimmed(log);
    pthread_mutex_unlock(&log->trim_lock);
}

/* ---- sync ---- */

/* The descriptor of a file that was left and not synced yet, now the caller's; -1: there is none. */
static int take_unsynced(struct batch_log *log, uint64_t *first)
{
    int fd = -1;
    pthread_mutex_lock(&log->lock);
    for (struct list *node = log->files.next; fd < 0 && node != &log->files; node = node->next) {
        struct batch_file *file = batch_file_of(node);
        if (file == log->current || file->fd < 0)
            continue;
        fd = file->fd;
        file->fd = -1;
        *first = file->first;
    }
    pthread_mutex_unlock(&log->lock);
    return fd;
}

/* Everything up to `upto`, the last batch written, is on the disk. */
static int sync_all(struct batch_log *log, uint64_t upto, char *error, size_t size)
{
    char path[PATH_MAX];
    uint64_t first;
    for (int fd; (fd = take_unsynced(log, &first)) >= 0;) {
        bool good = sync_fd(fd);
        batch_file_path(path, log->path, first);
        int failure = good ? OK : batch_file_failure(path, error, size);
        (void)close(fd);
        if (failure)
            return failure;
    }
    if (log->is_name_new && !path_sync(log->path))
        return batch_file_failure(log->path, error, size);
    log->is_name_new = false;
    if (log->current && upto > log->durable && !sync_fd(log->current->fd)) {
        batch_file_path(path, log->path, log->current->first);
        return batch_file_failure(path, error, size);
    }
    log->durable = upto;
    pthread_mutex_lock(&log->lock);
    if (log->synced < upto)
        log->synced = upto;
    pthread_mutex_unlock(&log->lock);
    return OK;
}

/* ---- a new file ---- */

/* Copies the part's batches that the file does not have yet. */
static int carry_part(const struct batch_log *log, struct batch_file *file,
                      struct batch_reader *reader, const struct part *part, char *error,
                      size_t size)
{
    struct bytes batch;
    char path[PATH_MAX];
    batch_reader_begin(reader, part->fd, part->bytes);
    for (uint64_t index = part->first; index <= part->last; index++) {
        enum batch_read result = batch_reader_next(reader, index, &batch);
        if (result != BATCH_READ) {
            (void)snprintf(error, size, "%s: batch %" PRIu64 " cannot be read back: %s", log->path,
                           index, result == BATCH_READ_END ? "it is damaged" : strerror(errno));
            return ERR_STORE;
        }
        if (index <= file->last)
            continue;
        if (!batch_file_write(file, index, log->durable, batch)) {
            batch_file_path(path, log->path, file->first);
            return batch_file_failure(path, error, size);
        }
        batch_file_extend(file, batch.len);
    }
    return OK;
}

/* Copies the batches from the file's first to the log's last into it, durably. */
static int carry_over(struct batch_log *log, struct batch_file *file, char *error, size_t size)
{
    struct batch_reader reader;
    size_t count;
    int failure = OK;
    struct part *parts = open_parts(log, file->first, &count);
    if (!parts)
        return batch_file_failure(log->path, error, size);
    batch_reader_init(&reader);
    for (size_t i = 0; i < count && !failure; i++)
        failure = carry_part(log, file, &reader, &parts[i], error, size);
    batch_reader_fini(&reader);
    close_parts(parts, count);
    CHECK(failure || file->last == log->last);
    if (!failure && !sync_fd(file->fd))
        failure = batch_file_failure(log->path, error, size);
    return failure;
}

/* The file is the newest. Those it has the batches of are replaced; the one of its own name is already. */
static void enlist(struct batch_log *log, struct batch_file *file)
{
    pthread_mutex_lock(&log->lock);
    for (struct batch_file *old; (old = batch_log_newest(log)) && old->first >= file->first;) {
        list_remove(&old->node);
        list_push(log->replaced.next, &old->node); /* in front */
        log->bytes -= old->bytes;
    }
    if (batch_log_newest(log) && batch_log_newest(log)->last >= file->first)
        batch_log_newest(log)->last = file->first - 1;
    list_push(&log->files, &file->node);
    log->bytes += file->bytes;
    pthread_mutex_unlock(&log->lock);
    for (struct list *node = log->replaced.next; node != &log->replaced;) {
        struct batch_file *old = batch_file_of(node);
        node = node->next;
        if (old->first == file->first) {
            list_remove(&old->node);
            batch_file_free(old);
        }
    }
}

/* Goes on in a new file that begins with batch `first`; where the log has that one and later ones, it has them. */
static int begin_file(struct batch_log *log, uint64_t first, char *error, size_t size)
{
    if (log->is_name_new && !path_sync(log->path)) { /* or this file could outlast the one before */
        log->is_sync_lost = true;
        return batch_file_failure(log->path, error, size);
    }
    struct batch_file *file = batch_file_new(first);
    int failure = batch_file_make(file, log->path, error, size);
    if (!failure && first <= log->last) {
        failure = carry_over(log, file, error, size);
        if (failure)
            batch_file_discard(file, log->path);
    }
    if (!failure)
        failure = batch_file_publish(file, log->path, error, size);
    if (failure) {
        batch_file_free(file);
        return failure;
    }
    if (log->current)
        batch_file_cut(log->current);
    log->is_name_new = true;
    log->current = file;
    enlist(log, file);
    return OK;
}

/* ---- go on in a new file ---- */

/* The batch that a new file begins with: one that is not known to be on the disk, but needed; else the next. */
static uint64_t first_lost(struct batch_log *log)
{
    pthread_mutex_lock(&log->lock);
    uint64_t known = log->durable > log->trimmed ? log->durable : log->trimmed;
    if (!list_empty(&log->files) && batch_file_of(log->files.next)->first > known)
        known = batch_file_of(log->files.next)->first - 1;
    if (known > log->last)
        known = log->last;
    pthread_mutex_unlock(&log->lock);
    return known + 1;
}

/* Removes the files whose batches the current one has, the oldest first and each durably before the next: what is left
 * of them follows, at any moment, what the current one has. */
static int remove_replaced(struct batch_log *log, char *error, size_t size)
{
    char path[PATH_MAX];
    while (path_sync(log->path)) {
        struct list *node = list_pop(&log->replaced);
        if (!node)
            return OK;
        struct batch_file *file = batch_file_of(node);
        batch_file_path(path, log->path, file->first);
        if (unlink(path) != 0 && errno != ENOENT) {
            list_push(log->replaced.next, node);
            return batch_file_failure(path, error, size);
        }
        batch_file_free(file);
    }
    return batch_file_failure(log->path, error, size);
}

/* The current file has what others may have lost. Where it begins behind what they have on the disk, they must go, or
 * there would be a gap; the batches between are not needed. */
static int leave_lost(struct batch_log *log, char *error, size_t size)
{
    if (log->current->first > log->durable + 1 && !remove_trimmed(log)) {
        (void)snprintf(error, size, "%s: files that may have lost batches cannot be removed",
                       log->path);
        return ERR_STORE;
    }
    int failure = remove_replaced(log, error, size);
    if (failure)
        return failure;
    uint64_t first;
    for (int fd; (fd = take_unsynced(log, &first)) >= 0;)
        (void)close(fd);
    log->durable = log->last;
    log->is_name_new = false;
    return OK;
}

/* In a new file, with what may not reach the disk in others. */
static int go_on(struct batch_log *log, char *error, size_t size)
{
    pthread_mutex_lock(&log->trim_lock);
    uint64_t first = log->is_sync_lost ? first_lost(log) : log->last + 1;
    int failure = begin_file(log, first, error, size);
    if (!failure && log->is_sync_lost)
        failure = leave_lost(log, error, size);
    pthread_mutex_unlock(&log->trim_lock);
    log->is_sync_lost &= failure != OK;
    return failure;
}

/* ---- append ---- */

/* Nothing more is accepted; what was written behind the last batch goes, if the disk can do that. */
static void note_failure(struct batch_log *log, int failure, const char *reason)
{
    log->failed = failure;
    (void)snprintf(log->reason, sizeof log->reason, "%s", reason);
    if (log->current)
        batch_file_cut(log->current);
}

static int refuse(const struct batch_log *log, char *error, size_t size)
{
    (void)snprintf(error, size, "%s", log->reason);
    return log->failed;
}

static int write_batch(struct batch_log *log, struct bytes batch, char *error, size_t size)
{
    uint64_t index = log->last + 1;
    char path[PATH_MAX];
    if (batch.len > BATCH_BYTES_MAX) {
        (void)snprintf(error, size, "a batch of %zu bytes is longer than a log can have",
                       batch.len);
        return ERR_STORE;
    }
    if (!log->current || log->current->bytes >= log->file_bytes) {
        int failure = begin_file(log, index, error, size);
        if (failure)
            return failure;
    }
    batch_file_reserve(log->current, batch.len, log->file_bytes);
    if (batch_file_write(log->current, index, log->durable, batch))
        return OK;
    batch_file_path(path, log->path, log->current->first);
    return batch_file_failure(path, error, size);
}

/* What another thread's sync has shown. */
static void learn(struct batch_log *log)
{
    if (log->late_failure) {
        pthread_mutex_lock(&log->lock);
        note_failure(log, log->late_failure, log->late_reason);
        log->late_failure = OK;
        pthread_mutex_unlock(&log->lock);
        log->is_sync_lost = true;
    } else if (!log->is_sync_lost && log->durable < log->synced) {
        log->durable = log->synced;
    }
}

int batch_log_append(struct batch_log *log, struct bytes batch, bool sync, char *error, size_t size)
{
    learn(log);
    if (log->failed)
        return refuse(log, error, size);
    int failure = sync && log->is_sync_lost ? go_on(log, error, size) : OK;
    if (!failure)
        failure = write_batch(log, batch, error, size);
    if (!failure && sync) {
        batch_file_zero_ahead(log->current, batch.len, log->file_bytes);
        failure = sync_all(log, log->last + 1, error, size);
        log->is_sync_lost = failure != OK;
    }
    if (failure) {
        note_failure(log, failure, error);
        return failure;
    }
    pthread_mutex_lock(&log->lock);
    batch_file_extend(log->current, batch.len);
    log->bytes += batch_file_record_bytes(batch.len);
    log->last++;
    pthread_mutex_unlock(&log->lock);
    return OK;
}

int batch_log_sync(struct batch_log *log, char *error, size_t size)
{
    learn(log);
    if (log->failed)
        return refuse(log, error, size);
    int failure = log->is_sync_lost ? go_on(log, error, size) : OK;
    if (!failure) {
        failure = sync_all(log, log->last, error, size);
        log->is_sync_lost = failure != OK;
    }
    if (failure)
        note_failure(log, failure, error);
    return failure;
}

int batch_log_renew(struct batch_log *log, char *error, size_t size)
{
    learn(log);
    int failure = go_on(log, error, size);
    if (failure)
        note_failure(log, failure, error);
    else
        log->failed = OK;
    return failure;
}

/* ---- figures ---- */

uint64_t batch_log_last(const struct batch_log *log)
{
    return log->last;
}

uint64_t batch_log_damaged(const struct batch_log *log)
{
    return log->damaged_batches;
}

uint64_t batch_log_bytes(const struct batch_log *log)
{
    return log->bytes;
}

void batch_log_close(struct batch_log *log)
{
    if (!log)
        return;
    if (log->current)
        batch_file_cut(log->current);
    for (struct list *node; (node = list_pop(&log->files));)
        batch_file_free(batch_file_of(node));
    for (struct list *node; (node = list_pop(&log->replaced));)
        batch_file_free(batch_file_of(node));
    pthread_mutex_destroy(&log->lock);
    pthread_mutex_destroy(&log->trim_lock);
    free(log->path);
    free(log);
}
