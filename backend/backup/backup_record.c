#include "backend/backup/backup_record.h"

#include "backend/backup/disk_file.h"
#include "backend/backup/pushed.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/list.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/number.h"
#include "shared/path.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4096, CHECK_EVERY_MS = 60 * 1000 };

struct backup_record {
    struct job job; /* writes the file and checks the directory */
    struct partition *partition;
    struct worker *worker;
    char *path;
    struct backup_result result;
    bool is_working;
    bool is_closed; /* the worker ends */
    bool is_stale;  /* the file is older than the result */

    /* of the job */
    struct backup_result written;
    bool has_result;
    char *directory; /* to be checked; NULL: none */
    char *archive;   /* archive-dir; empty: none */
    uint64_t backups_pushed_s, archive_pushed_s;
    uint64_t free_bytes;
    bool is_writable;
    char reason[BACKUP_RECORD_REASON_MAX];

    uint64_t checked_ms;   /* monotonic; 0: never */
    bool is_directory_bad; /* the last check said so */
};

/* ---- the file ------------------------------------------------------------------------------------- */

static void read_field(struct backup_result *result, struct bytes name, struct bytes value)
{
    int64_t number = 0;
    (void)number_parse_int64(value, &number);
    if (bytes_is(name, "backup"))
        (void)snprintf(result->name, sizeof result->name, "%.*s", (int)value.len, value.data);
    else if (bytes_is(name, "reason"))
        (void)snprintf(result->reason, sizeof result->reason, "%.*s", (int)value.len, value.data);
    else if (bytes_is(name, "good"))
        result->is_good = number == 1;
    else if (bytes_is(name, "ended-ms"))
        result->ended_ms = (uint64_t)number;
    else if (bytes_is(name, "duration-ms"))
        result->duration_ms = (uint64_t)number;
    else if (bytes_is(name, "bytes"))
        result->bytes = (uint64_t)number;
    else if (bytes_is(name, "success-ms"))
        result->success_ms = (uint64_t)number;
}

/* Reads lines of a name, a space and a value; a file that is missing or damaged gives an empty result. */
static void read_record(const char *path, struct backup_result *result)
{
    char reason[BACKUP_RECORD_REASON_MAX];
    struct bytes text;
    if (!path_exists(path) || !disk_read(path, FILE_BYTES_MAX, &text, reason, sizeof reason))
        return;
    const char *at = text.data;
    const char *end = text.data + text.len;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            break;
        const char *space = memchr(at, ' ', (size_t)(line_end - at));
        if (space)
            read_field(result, (struct bytes){at, (size_t)(space - at)},
                       (struct bytes){space + 1, (size_t)(line_end - space - 1)});
        at = line_end + 1;
    }
    free((void *)text.data);
}

static void write_result(const struct backup_record *record)
{
    char text[FILE_BYTES_MAX];
    char reason[BACKUP_RECORD_REASON_MAX];
    const struct backup_result *result = &record->written;
    int len = snprintf(text, sizeof text,
                       "backup %s\ngood %d\nended-ms %" PRIu64 "\nduration-ms %" PRIu64
                       "\nbytes %" PRIu64 "\nsuccess-ms %" PRIu64 "\nreason %s\n",
                       result->name, result->is_good, result->ended_ms, result->duration_ms,
                       result->bytes, result->success_ms, result->reason);
    CHECK(len > 0 && (size_t)len < sizeof text);
    if (!disk_write(record->path, (struct bytes){text, (size_t)len}, reason, sizeof reason))
        log_event(LOG_WARN, "backup_status_not_written", "reason=" LOG_QUOTED, reason);
}

/* ---- the directory -------------------------------------------------------------------------------- */

/* Can a directory be made in `path`? Tries it, because permissions alone do not say so. */
static bool try_to_make(const char *path)
{
    char made[PATH_MAX];
    if (snprintf(made, sizeof made, "%s/.check-%d", path, (int)getpid()) >= (int)sizeof made) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdir(made, 0700) == 0 && rmdir(made) == 0;
}

/* Can backups be written to the directory, or, if it does not exist yet, to the parent in which it will be made? */
static void look_at_directory(struct backup_record *record)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", record->directory);
    for (char *slash; !path_exists(path) && (slash = strrchr(path, '/')); *slash = 0)
        if (slash == path) {
            path[1] = 0;
            break;
        }
    record->is_writable = try_to_make(path);
    if (!record->is_writable)
        (void)disk_failed(path, record->reason, sizeof record->reason);
    record->free_bytes = path_free_bytes(path);
}

static void report_directory(struct backup_record *record)
{
    struct metrics *metrics = record->partition->metrics.process;
    metric_set(metrics, METRIC_BACKEND_BACKUP_FREE, record->free_bytes);
    metric_set(metrics, METRIC_BACKEND_BACKUP_WRITABLE, record->is_writable);
    metric_set(metrics, METRIC_BACKEND_BACKUP_PUSHED, record->backups_pushed_s);
    metric_set(metrics, METRIC_BACKEND_ARCHIVE_PUSHED, record->archive_pushed_s);
    if (record->is_writable == record->is_directory_bad)
        log_event(record->is_writable ? LOG_INFO : LOG_ERROR,
                  record->is_writable ? "backup_dir_writable" : "backup_dir_unusable",
                  "directory=%s reason=" LOG_QUOTED, record->directory,
                  record->is_writable ? "" : record->reason);
    record->is_directory_bad = !record->is_writable;
}

/* ---- the job -------------------------------------------------------------------------------------- */

static void run_record_job(struct job *job)
{
    struct backup_record *record = container_of(job, struct backup_record, job);
    if (record->has_result)
        write_result(record);
    if (!record->directory)
        return;
    look_at_directory(record);
    record->backups_pushed_s = pushed_until_s(record->directory);
    record->archive_pushed_s = pushed_until_s(record->archive);
}

static void submit_record_job(struct backup_record *record)
{
    record->is_working = true;
    record->has_result = record->is_stale;
    record->written = record->result;
    record->is_stale = false;
    worker_submit(record->worker, &record->job);
}

static void forget_directories(struct backup_record *record)
{
    free(record->directory);
    free(record->archive);
    record->directory = record->archive = NULL;
}

static void record_job_ended(struct job *job)
{
    struct backup_record *record = container_of(job, struct backup_record, job);
    record->is_working = false;
    if (record->directory)
        report_directory(record);
    forget_directories(record);
    if (record->is_stale && !record->is_closed)
        submit_record_job(record);
}

/* ---- on the partition's thread -------------------------------------------------------------------- */

static void set_gauges_of(const struct backup_record *record)
{
    struct metric_cell *cell = record->partition->metrics.cell;
    const struct backup_result *result = &record->result;
    cell_set(cell, PARTITION_BACKUP_SUCCESS_MS, result->success_ms);
    cell_set(cell, PARTITION_BACKUP_FAILED, result->ended_ms && !result->is_good);
    cell_set(cell, PARTITION_BACKUP_DURATION_MS, result->duration_ms);
    cell_set(cell, PARTITION_BACKUP_BYTES, result->bytes);
}

struct backup_record *backup_record_new(struct partition *partition, struct worker *worker)
{
    struct backup_record *record = calloc(1, sizeof *record);
    CHECK(record);
    record->job = (struct job){.work = run_record_job, .done = record_job_ended};
    record->partition = partition;
    record->worker = worker;
    CHECK(asprintf(&record->path, "%s/backup-%s.status", partition->snapshot->config.data,
                   partition->name) > 0);
    read_record(record->path, &record->result);
    set_gauges_of(record);
    return record;
}

void backup_record_close(struct backup_record *record)
{
    record->is_closed = true;
}

void backup_record_free(struct backup_record *record)
{
    if (!record)
        return;
    record->written = record->result;
    if (record->is_stale && !record->is_working) /* a simulated crash drops jobs */
        write_result(record);
    free(record->path);
    forget_directories(record);
    free(record);
}

const struct backup_result *backup_record_result(const struct backup_record *record)
{
    return &record->result;
}

void backup_record_ended(struct backup_record *record, const struct backup_result *result)
{
    struct backup_result older = record->result;
    record->result = *result;
    if (!result->is_good) {
        record->result.bytes = older.bytes;
        record->result.success_ms = older.success_ms;
    }
    for (char *at = record->result.reason; *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = ' ';
    set_gauges_of(record);
    record->is_stale = true;
    if (!record->is_working && !record->is_closed)
        submit_record_job(record);
}

bool backup_record_wants_check(const struct backup_record *record)
{
    uint64_t now_ms = loop_mono_ms(record->partition->loop);
    return record->partition->index == 0 && !record->is_working && !record->is_closed &&
           (!record->checked_ms || now_ms >= record->checked_ms + CHECK_EVERY_MS);
}

void backup_record_check(struct backup_record *record, const char *directory, const char *archive)
{
    record->checked_ms = loop_mono_ms(record->partition->loop);
    record->directory = strdup(directory);
    record->archive = strdup(archive);
    CHECK(record->directory && record->archive);
    submit_record_job(record);
}
