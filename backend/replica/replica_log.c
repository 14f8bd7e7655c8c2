#include "backend/replica/replica_log.h"

#include "backend/format/effects.h"
#include "backend/replica/own_records.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS = 1000,
    LENGTH_BYTES = 4,
    SMALL_BYTES = 4096, /* of all records of a job that the spare segment of the WAL takes */
};

/* The end of the log is cut, or records are appended. */
struct change {
    struct change *next;
    bool is_cut;
    uint64_t index; /* the last record that stays, or the first new one */
    size_t bytes;
    struct own_record *own; /* NULL: `records` */
    char records[];         /* u32 length, bytes … */
};

/* Of one job, in order. */
struct changes {
    struct change *first, **end;
    size_t bytes;  /* of all records */
    bool has_sync; /* on_synced is wanted */
    uint32_t cuts; /* for on_synced */
};

/* What the job's thread has found out. */
struct outcome {
    int err;
    /* all records up to here are durable; after an error: the last one that the core still has */
    uint64_t upto;
    char reason[256];
};

struct replica_log {
    struct job job;
    struct storage *storage;
    struct replica_log_events events;
    void *owner;
    struct loop *loop;
    struct worker *worker;
    struct timer *timer;    /* the next attempt */
    struct last_step begin; /* so all updates of a turn share a job */
    struct changes waiting, running;
    struct outcome outcome; /* of the last job */
    uint64_t begun_us;      /* when the last job began */
    bool is_running;
    bool is_failed;
    bool is_paused;
    bool keeps_spare;
    bool is_ending;
    void (*paused)(void *owner); /* NULL: no pause is about to begin */
    void *paused_owner;
};

/* ---- changes ----------------------------------------------------------------------------------- */

static void changes_init(struct changes *changes)
{
    *changes = (struct changes){.first = NULL};
    changes->end = &changes->first;
}

static void changes_move(struct changes *to, struct changes *from)
{
    *to = *from;
    if (!to->first)
        to->end = &to->first;
    changes_init(from);
}

static void changes_free(struct changes *changes)
{
    while (changes->first) {
        struct change *change = changes->first;
        changes->first = change->next;
        own_record_end(change->own);
        free(change);
    }
    changes_init(changes);
}

static struct change *push_change(struct changes *changes, bool is_cut, uint64_t index,
                                  size_t bytes)
{
    struct change *change = malloc(sizeof *change + bytes);
    CHECK(change);
    *change = (struct change){.is_cut = is_cut, .index = index, .bytes = bytes};
    *changes->end = change;
    changes->end = &change->next;
    changes->bytes += bytes;
    return change;
}

/* The number of the last record that stays when `change` and all changes behind it have cut off theirs; at most `last`. */
static uint64_t least_cut(const struct change *change, uint64_t last)
{
    for (; change; change = change->next)
        if (change->is_cut && change->index < last)
            last = change->index;
    return last;
}

/* ---- the job, on its thread -------------------------------------------------------------------- */

static int append_own(struct storage *storage, const struct change *change, char *error,
                      size_t size)
{
    uint64_t index;
    int err = storage_append(storage, change->own->bytes, &index, error, size);
    CHECK(err != OK || index == change->index);
    return err;
}

static int append_records(struct storage *storage, const struct change *change, char *error,
                          size_t size)
{
    struct bytes rest = {change->records, change->bytes}, record;
    uint64_t next = change->index, index;
    bool is_in_parts;
    while (replica_record_next(&rest, &record, &is_in_parts)) {
        int err = storage_append(storage, record, &index, error, size);
        if (err != OK)
            return err;
        CHECK(index == next++);
    }
    return OK;
}

static int cut(struct storage *storage, uint64_t after, char *error, size_t size)
{
    CHECK(after >= storage_committed(storage));
    return storage_truncate(storage, after, error, size);
}

/* After a failure the log continues behind the last record that the core still has; and the disk takes data, or the records that wait are those
 * that a full one takes. If the cut fails too, the records are not shown any more all the same. */
static int renew(struct storage *storage, const struct outcome *failed, size_t bytes, char *error,
                 size_t size)
{
    struct wal *wal = storage_wal(storage);
    if (failed->err == ERR_DISK_FULL)
        wal_keep_none(wal);
    int err = cut(storage, failed->upto, error, size);
    if (err != OK || (wal_is_on_spare(wal) && bytes <= SMALL_BYTES))
        return err;
    return wal_probe(wal, error, size);
}

static int make_change(struct storage *storage, const struct change *change, char *error,
                       size_t size)
{
    if (change->is_cut)
        return cut(storage, change->index, error, size);
    return change->own ? append_own(storage, change, error, size)
                       : append_records(storage, change, error, size);
}

/* The changes in order, up to an error: *change is the one that was not made. */
static int make_changes(struct replica_log *log, const struct change **change)
{
    char *error = log->outcome.reason;
    size_t size = sizeof log->outcome.reason;
    int err =
        log->is_failed ? renew(log->storage, &log->outcome, log->running.bytes, error, size) : OK;
    while (*change && err == OK) {
        err = make_change(log->storage, *change, error, size);
        if (err == OK)
            *change = (*change)->next;
    }
    return err == OK ? storage_sync(log->storage, error, size) : err;
}

/* After an error, records that were written and not synced are void. */
static void run_job(struct job *job)
{
    struct replica_log *log = container_of(job, struct replica_log, job);
    const struct change *change = log->running.first;
    if (log->keeps_spare && !log->is_failed)
        wal_make_spare(storage_wal(log->storage));
    log->outcome.err = make_changes(log, &change);
    log->outcome.upto = least_cut(change, storage_logged(log->storage));
}

/* ---- jobs, on the loop's thread ---------------------------------------------------------------- */

static void start_job(struct replica_log *log)
{
    list_remove(&log->begin.link);
    timer_stop(log->timer);
    changes_move(&log->running, &log->waiting);
    log->is_running = true;
    log->begun_us = clock_boot_us();
    worker_submit(log->worker, &log->job);
}

static bool has_work(const struct replica_log *log)
{
    return log->waiting.first || log->waiting.has_sync;
}

static bool is_worker_free(const struct replica_log *log)
{
    return !log->is_running && !log->is_paused;
}

/* last_step */
static void begin_disk_job(struct last_step *step)
{
    struct replica_log *log = container_of(step, struct replica_log, begin);
    if (is_worker_free(log) && !log->is_failed && has_work(log))
        start_job(log);
}

static void plan_job(struct replica_log *log)
{
    if (list_empty(&log->begin.link))
        loop_at_last(log->loop, &log->begin);
}

/* timer_fn */
static void retry_job(void *owner)
{
    struct replica_log *log = owner;
    if (is_worker_free(log) && log->is_failed)
        start_job(log);
}

/* Nothing of what waits can follow the records that were lost. */
static void fail_job(struct replica_log *log)
{
    struct outcome *outcome = &log->outcome;
    outcome->upto = least_cut(log->waiting.first, outcome->upto);
    changes_free(&log->waiting);
    if (!log->is_failed)
        log_event(LOG_ERROR, "replica_log_failed", "last=%" PRIu64 " reason=" LOG_QUOTED,
                  outcome->upto, outcome->reason);
    log->is_failed = true;
    timer_start(log->timer, RETRY_MS, 0);
    log->events.on_not_written(log->owner, outcome->upto, outcome->err == ERR_DISK_FULL);
}

static void succeed(struct replica_log *log, bool has_sync, uint32_t cuts)
{
    uint64_t upto = log->outcome.upto;
    if (log->is_failed) {
        log->is_failed = false;
        log_event(LOG_WARN, "replica_log_recovered", "last=%" PRIu64, upto);
        log->events.on_room(log->owner);
    }
    if (has_sync)
        log->events.on_synced(log->owner, upto, cuts);
    if (has_work(log))
        plan_job(log);
}

static void pause_now(struct replica_log *log)
{
    void (*paused)(void *owner) = log->paused;
    log->paused = NULL;
    log->is_paused = true;
    paused(log->paused_owner);
}

static void job_done(struct job *job)
{
    struct replica_log *log = container_of(job, struct replica_log, job);
    bool has_sync = log->running.has_sync;
    uint32_t cuts = log->running.cuts;
    changes_free(&log->running);
    log->is_running = false;
    if (log->is_ending)
        return;
    if (log->outcome.err == OK)
        succeed(log, has_sync, cuts);
    else
        fail_job(log);
    if (log->paused)
        pause_now(log);
}

/* ---- interface --------------------------------------------------------------------------------- */

struct replica_log *replica_log_new(struct loop *loop, struct storage *storage,
                                    const struct replica_log_events *events, void *owner)
{
    struct replica_log *log = calloc(1, sizeof *log);
    CHECK(log);
    log->job = (struct job){.work = run_job, .done = job_done};
    log->storage = storage;
    log->events = *events;
    log->owner = owner;
    log->loop = loop;
    log->worker = worker_new(loop, "replica log");
    log->timer = timer_new(loop, retry_job, log);
    log->begin.run = begin_disk_job;
    list_init(&log->begin.link);
    changes_init(&log->waiting);
    changes_init(&log->running);
    return log;
}

void replica_log_free(struct replica_log *log)
{
    if (!log)
        return;
    log->is_ending = true;
    worker_free(log->worker);
    timer_free(log->timer);
    list_remove(&log->begin.link);
    changes_free(&log->waiting);
    changes_free(&log->running); /* its process has ended in a simulation */
    free(log);
}

/* `records`: u32 length, bytes … */
static void add_records(struct replica_log *log, uint64_t first, struct bytes records)
{
    struct change *change = push_change(&log->waiting, false, first, records.len);
    memcpy(change->records, records.data, records.len);
}

/* Without a time: readers take that of the record before. */
static void add_probe(struct replica_log *log, const struct consensus_update *update)
{
    char record[LENGTH_BYTES + EFFECTS_HEADER_BYTES];
    struct effects *effects = effects_new();
    effects_begin(effects, &(struct effects_header){.type = EFFECTS_PROBE});
    effects_set_numbers(effects, update->append_first, update->term, update->committed);
    struct bytes bytes = effects_bytes(effects);
    CHECK(bytes.len == EFFECTS_HEADER_BYTES);
    put_le32(record, EFFECTS_HEADER_BYTES);
    memcpy(record + LENGTH_BYTES, bytes.data, bytes.len);
    effects_free(effects);
    add_records(log, update->append_first, (struct bytes){record, sizeof record});
}

/* Those records that the core appends are the last ones of what it was given. */
static void add_heard(struct replica_log *log, const struct consensus_update *update,
                      const struct replica_heard *heard)
{
    CHECK(heard);
    struct bytes rest = heard->records, record;
    bool is_in_parts;
    for (uint64_t i = heard->message->index + 1; i < update->append_first; i++)
        CHECK(replica_record_next(&rest, &record, &is_in_parts));
    add_records(log, update->append_first, rest);
}

void replica_log_sync(struct replica_log *log, uint32_t cuts)
{
    log->waiting.has_sync = true;
    log->waiting.cuts = cuts;
    plan_job(log);
}

void replica_log_obey(struct replica_log *log, const struct consensus_update *update,
                      const struct replica_heard *heard)
{
    if (update->has_truncate)
        (void)push_change(&log->waiting, true, update->truncate_after, 0);
    if (update->append == CONSENSUS_APPEND_PROBE)
        add_probe(log, update);
    else if (update->append == CONSENSUS_APPEND_RECORDS)
        add_heard(log, update, heard);
    if (update->has_truncate || update->append != CONSENSUS_APPEND_NONE)
        replica_log_sync(log, update->cuts);
}

void replica_log_keep_spare(struct replica_log *log)
{
    log->keeps_spare = true;
}

bool replica_log_is_idle(const struct replica_log *log)
{
    return !log->is_running && !log->is_failed && !has_work(log);
}

void replica_log_append(struct replica_log *log, uint64_t index, struct own_record *record,
                        uint32_t cuts)
{
    struct change *change = push_change(&log->waiting, false, index, 0);
    change->own = own_record_use(record);
    change->bytes = record->bytes.len;
    log->waiting.bytes += change->bytes;
    replica_log_sync(log, cuts);
}

uint64_t replica_log_running_us(const struct replica_log *log)
{
    return log->is_running ? clock_boot_us() - log->begun_us : 0;
}

size_t replica_log_waiting(const struct replica_log *log)
{
    return log->running.bytes + log->waiting.bytes;
}

void replica_log_pause(struct replica_log *log, void (*paused)(void *owner), void *owner)
{
    CHECK(!log->is_paused && !log->paused);
    log->paused = paused;
    log->paused_owner = owner;
    if (!log->is_running)
        pause_now(log);
}

void replica_log_go_on(struct replica_log *log)
{
    CHECK(log->is_paused);
    log->is_paused = false;
    if (log->is_failed)
        retry_job(log);
    else if (has_work(log))
        plan_job(log);
}
