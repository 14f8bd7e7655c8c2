#include "backend/archive/archive.h"

#include "backend/archive/archive_writer.h"
#include "backend/archive/passed_time.h"
#include "backend/backup/disk_file.h"
#include "backend/context/backend_metrics.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/replica/replica.h"
#include "backend/replica/replica_figures.h"
#include "backend/slots/slot_owners.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/worker.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    EVERY_MS = 500,
    WORK_US = 1000 *
              1000, /* a job of a long backlog ends after this time, so that its figures are seen */
    REST_US = 5 * 1000 * 1000, /* after a failure */
    REASON_MAX = 512,
    COPY_NAME_MAX = sizeof "/0123456789abcdef",
};

/* What a job is told. */
struct archive_order {
    char dir[PATH_MAX]; /* of the log */
    uint64_t log_id;
    uint64_t index;   /* all batches with times up to time_us have indexes up to this one */
    uint64_t time_us; /* 0: not known, at a copy that does not lead */
    uint64_t upto;    /* later batches are not copied: the group may not have committed them */
    uint64_t seen_us; /* of a copy that follows: when `upto` was all it had */
    uint64_t file_bytes, close_us;
    bool syncs;          /* commits are not synced one by one: the job syncs what it copies */
    const char *refusal; /* why there is no archive of this partition; NULL: there is one */
};

/* What it tells. */
struct archive_figures {
    uint64_t last,
        time_us;    /* the newest archived batch, and up to which time the archive has all */
    uint64_t bytes; /* that were written by this process */
    uint64_t gaps;
    char reason[REASON_MAX]; /* why the archive cannot be written; empty: it can */
};

/* Batches that are missing, until the archive has gone on behind them. */
struct archive_gap {
    uint64_t first, last; /* first 0: there is none */
};

struct archive {
    struct job job;
    struct partition *partition;
    struct worker *worker;
    bool is_working;
    bool is_stopped; /* the last job said why it cannot go on */
    struct timer *timer;
    atomic_bool is_ending;
    struct archive_order order;
    struct archive_figures figures; /* of the job while it works */
    struct archive_figures shown;
    /* of the job */
    struct storage *storage;
    struct archive_writer *writer;
    struct wal_cursor *cursor;
    uint64_t writer_id; /* log id of the writer */
    struct archive_gap gap;
    uint64_t began_us; /* when the file that grows got its first batch; monotonic; 0: it has none */
    uint64_t retry_at_us; /* monotonic */
};

#define REASON(archive) (archive)->figures.reason, sizeof(archive)->figures.reason

/* ---- on the archive's thread ---- */

static void close_all(struct archive *archive)
{
    wal_cursor_free(archive->cursor);
    archive_writer_free(archive->writer);
    archive->cursor = NULL;
    archive->writer = NULL;
    archive->began_us = 0;
    archive->gap.first = 0; /* it is found again, and may have grown */
}

/* The oldest batch that the WAL has, or else its next one. */
static uint64_t oldest_batch(const struct archive *archive)
{
    struct wal *wal = storage_wal(archive->storage);
    uint64_t first;
    return wal_firsts(wal, &first, 1) ? first : wal_last(wal) + 1;
}

/* What the archive has is durable: a gap before it counts, and once. */
static void count_gap(struct archive *archive)
{
    if (!archive->gap.first)
        return;
    archive->figures.gaps++;
    log_event(LOG_ERROR, "archive_gap",
              "partition=%u first_missing=%" PRIu64 " last_missing=%" PRIu64,
              archive->partition->index, archive->gap.first, archive->gap.last);
    archive->gap.first = 0;
}

/* Batches are missing from here on: the next one is the oldest that the WAL has. */
static bool skip_gap(struct archive *archive)
{
    uint64_t last = archive_writer_last(archive->writer), next = oldest_batch(archive);
    if (last < archive->figures.last) /* its files were deleted */
        last = archive->figures.last;
    if (next <= last)
        next = last + 1;
    wal_cursor_free(archive->cursor);
    archive->cursor = wal_cursor_new_weak(storage_wal(archive->storage), next);
    if (!archive_writer_begin(archive->writer, next, REASON(archive)))
        return false;
    if (!last || next == last + 1)
        return true;
    if (archive->gap.last < last)
        count_gap(archive); /* the batches between the two gaps are in a closed file */
    if (!archive->gap.first)
        archive->gap.first = last + 1;
    archive->gap.last = next - 1;
    return true;
}

static bool is_put_back(struct archive *archive)
{
    (void)snprintf(REASON(archive),
                   "log %016" PRIx64 ": the archive has another batch %" PRIu64
                   " than the log: the data directory was put back by other means than --restore; "
                   "use another archive-dir",
                   archive->order.log_id, archive_writer_last(archive->writer));
    return false;
}

/* Is the archive's last batch the one of the WAL? *is_known: the WAL can say so. */
static bool compare_last(struct archive *archive, bool *is_known)
{
    uint64_t index, last = archive_writer_last(archive->writer);
    struct bytes record;
    char ignored[256];
    struct wal_cursor *cursor = wal_cursor_new_weak(storage_wal(archive->storage), last);
    int err = cursor ? wal_cursor_next(cursor, &index, &record, ignored, sizeof ignored) : ERR_GONE;
    *is_known = err == OK;
    bool is_same = err != OK || !archive_writer_last_sum(archive->writer) ||
                   archive_sum(record) == archive_writer_last_sum(archive->writer);
    wal_cursor_free(cursor);
    return is_same;
}

/* Opens the archive of the log, and a cursor that goes on behind its end. */
static bool open_archive(struct archive *archive)
{
    const struct archive_order *order = &archive->order;
    bool is_known;
    archive->writer = archive_writer_new(order->dir, order->log_id, DATA_FORMAT, REASON(archive));
    if (!archive->writer)
        return false;
    archive->writer_id = order->log_id;
    uint64_t last = archive_writer_last(archive->writer);
    if (last > wal_last(storage_wal(archive->storage)) ||
        (last && !compare_last(archive, &is_known)))
        return is_put_back(archive);
    archive->cursor = last ? wal_cursor_new_weak(storage_wal(archive->storage), last + 1) : NULL;
    return archive->cursor || skip_gap(archive);
}

/* Copies one batch. *is_at_end: there is none that is durable and committed. */
static bool copy_batch(struct archive *archive, bool *is_at_end)
{
    uint64_t index = archive_writer_last(archive->writer) + 1;
    struct bytes record;
    char error[REASON_MAX];
    *is_at_end = index > storage_committed(archive->storage) || index > archive->order.upto;
    if (*is_at_end)
        return true;
    int err = archive->cursor
                  ? wal_cursor_next(archive->cursor, &index, &record, error, sizeof error)
                  : ERR_GONE;
    *is_at_end = err == ERR_NOT_FOUND;
    if (err == ERR_GONE)
        return skip_gap(archive);
    if (err == ERR_NOT_FOUND)
        return true;
    if (err != OK) {
        (void)snprintf(REASON(archive), "%s", error);
        return false;
    }
    if (!archive->began_us)
        archive->began_us = clock_mono_us();
    archive->figures.bytes += record.len;
    return archive_writer_add(archive->writer, index, record, REASON(archive));
}

static bool close_archive_file(struct archive *archive)
{
    archive->began_us = 0;
    if (!archive_writer_close(archive->writer, REASON(archive)))
        return false;
    count_gap(archive);
    return true;
}

/* Copies what there is, for a limited time, into files that are not much longer than archive-file. */
static bool copy_batches(struct archive *archive)
{
    struct storage *storage = archive->storage;
    uint64_t end_us = clock_mono_us() + WORK_US;
    bool is_at_end = false;
    if (archive->order.syncs &&
        storage_sync_upto(storage, storage_committed(storage), REASON(archive)) != OK)
        return false;
    while (!is_at_end && clock_mono_us() < end_us && !atomic_load(&archive->is_ending))
        if (!copy_batch(archive, &is_at_end) ||
            (archive_writer_bytes(archive->writer) >= archive->order.file_bytes &&
             !close_archive_file(archive)))
            return false;
    return true;
}

/* Up to which time the archive has everything. At a copy that leads, it is the last time written to the files: a restore to a later moment
 * reads the files and is refused. A copy that does not lead writes no times, so it is when the archive last had all batches of this copy. */
static uint64_t reached_us(const struct archive *archive)
{
    const struct archive_order *order = &archive->order;
    uint64_t time_us = archive_writer_time_us(archive->writer);
    bool has_all = archive_writer_last(archive->writer) >= order->upto;
    return has_all && order->seen_us > time_us ? order->seen_us : time_us;
}

/* Makes it durable, and closes a file that is old. */
static bool finish_copying(struct archive *archive)
{
    const struct archive_order *order = &archive->order;
    bool is_whole = archive_writer_last(archive->writer) >= order->index;
    if (!archive_writer_sync(archive->writer, is_whole ? order->time_us : 0, REASON(archive)))
        return false;
    count_gap(archive);
    archive->figures.last = archive_writer_last(archive->writer);
    archive->figures.time_us = reached_us(archive);
    bool is_old = archive->began_us && clock_mono_us() >= archive->began_us + order->close_us;
    return !is_old || close_archive_file(archive);
}

static bool run_archive(struct archive *archive)
{
    if (archive->order.refusal) {
        (void)snprintf(REASON(archive), "%s", archive->order.refusal);
        return false;
    }
    if (archive->writer && archive->writer_id != archive->order.log_id) {
        (void)archive_writer_close(archive->writer, REASON(archive));
        close_all(archive);
        archive->figures.last = 0; /* indexes of another log */
    }
    /* the shard has got its name: it goes on behind figures.last, in another directory */
    if (archive->writer && !archive_writer_is_in(archive->writer, archive->order.dir)) {
        if (!archive_writer_close(archive->writer, REASON(archive)))
            return false;
        close_all(archive);
    }
    return (archive->writer || open_archive(archive)) && copy_batches(archive) &&
           finish_copying(archive);
}

static void run_archive_job(struct job *job)
{
    struct archive *archive = container_of(job, struct archive, job);
    uint64_t now_us = clock_mono_us();
    if (now_us < archive->retry_at_us)
        return;
    if (run_archive(archive)) {
        archive->retry_at_us = 0;
        archive->figures.reason[0] = 0;
        return;
    }
    close_all(archive);
    archive->retry_at_us = now_us + REST_US;
}

/* ---- on the partition's thread ---- */

/* Logs when the archive stops, and when it goes on. */
static void log_archive_state(struct archive *archive)
{
    bool is_stopped = *archive->shown.reason != 0;
    if (is_stopped == archive->is_stopped)
        return;
    archive->is_stopped = is_stopped;
    if (is_stopped)
        log_event(LOG_ERROR, "archive_stopped", "partition=%u reason=" LOG_QUOTED,
                  archive->partition->index, archive->shown.reason);
    else
        log_event(LOG_INFO, "archive_goes_on", "partition=%u batch=%" PRIu64,
                  archive->partition->index, archive->shown.last);
}

static void archive_job_ended(struct job *job)
{
    struct archive *archive = container_of(job, struct archive, job);
    struct metric_cell *cell = archive->partition->metrics.cell;
    archive->is_working = false;
    archive->shown = archive->figures;
    cell_set(cell, PARTITION_ARCHIVE_MS, archive->shown.time_us / 1000);
    cell_set(cell, PARTITION_ARCHIVE_STOPPED, *archive->shown.reason != 0);
    cell_set(cell, PARTITION_ARCHIVE_BYTES, archive->shown.bytes);
    cell_set(cell, PARTITION_ARCHIVE_GAPS, archive->shown.gaps);
    log_archive_state(archive);
}

/* False: it is of no group yet, or its group is being replaced by another one. */
static bool order_copy(struct archive *archive, char copy[COPY_NAME_MAX])
{
    struct partition *partition = archive->partition;
    struct archive_order *order = &archive->order;
    struct replica_figures figures;
    replica_figures(partition->copies.replica, &figures);
    if (!partition->copies.is_in_group || !figures.own)
        return false;
    order->upto = storage_committed(archive->storage);
    order->seen_us = partition->copies.is_closed ? clock_wall_us() : 0;
    order->refusal =
        order->log_id ? NULL : "its log has no name: an older program has founded the group";
    (void)snprintf(copy, COPY_NAME_MAX, "/%016" PRIx64, figures.own);
    return true;
}

/* False: nothing can be archived now. */
static bool give_order(struct archive *archive)
{
    struct partition *partition = archive->partition;
    const struct backend_config *config = &partition->snapshot->config;
    struct archive_order *order = &archive->order;
    const char *name = slot_owners_name(partition->shards.owners);
    char copy[COPY_NAME_MAX] = "";
    const struct passed_time passed = passed_time_now(partition);
    order->log_id = partition->batch.log_id;
    order->index = passed.index;
    order->time_us = passed.us;
    order->file_bytes = config->archive_file_bytes;
    order->close_us = config->archive_close_ms * 1000;
    order->syncs = config->durability != DURABILITY_ALWAYS;
    if (!partition->copies.replica)
        order->upto = UINT64_MAX;
    else if (!*name || !order_copy(archive, copy))
        return false;
    int len = snprintf(order->dir, sizeof order->dir, "%s/%s/%016" PRIx64 "%s", config->archive_dir,
                       *name ? name : partition->name, order->log_id, copy);
    return len < (int)sizeof order->dir;
}

/* Not while a slow call runs the loop: the next batch is not closed before it has ended. */
static void on_archive_timer(void *owner)
{
    struct archive *archive = owner;
    if (archive->is_working || archive->partition->running.aside || !give_order(archive))
        return;
    archive->is_working = true;
    worker_submit(archive->worker, &archive->job);
}

struct archive *archive_new(struct partition *partition)
{
    if (!*partition->snapshot->config.archive_dir)
        return NULL;
    struct archive *archive = calloc(1, sizeof *archive);
    CHECK(archive);
    archive->job = (struct job){.work = run_archive_job, .done = archive_job_ended};
    archive->partition = partition;
    archive->storage = partition->storage;
    archive->worker = worker_new(partition->loop, "archive");
    archive->timer = timer_new(partition->loop, on_archive_timer, archive);
    timer_start(archive->timer, EVERY_MS, EVERY_MS);
    return archive;
}

void archive_free(struct archive *archive)
{
    if (!archive)
        return;
    timer_free(archive->timer);
    atomic_store(&archive->is_ending, true);
    worker_free(archive->worker);
    close_all(archive);
    free(archive);
}

void archive_info(const struct archive *archive, struct out *out)
{
    if (!archive)
        return;
    out_printf(out,
               "archive_last_index:%" PRIu64 "\r\narchive_until_us:%" PRIu64
               "\r\narchive_gaps:%" PRIu64 "\r\narchive_error:%s\r\n",
               archive->shown.last, archive->shown.time_us, archive->shown.gaps,
               archive->shown.reason);
}
