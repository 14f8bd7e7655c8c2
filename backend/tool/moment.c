#include "backend/tool/moment.h"

#include "backend/context/hybrid_clock.h"
#include "backend/format/effects.h"
#include "backend/storage/partition_store.h"
#include "backend/storage/write_buffer.h"
#include "backend/tool/tool.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SECOND_US = 1000000, BUFFER_BYTES = 256 << 20 };

/* ---- times ---- */

/* The digits behind the point as µs; *end is behind them. */
static uint64_t parse_fraction(const char *text, const char **end)
{
    uint64_t us = 0, unit = SECOND_US;
    for (*end = text; **end >= '0' && **end <= '9'; (*end)++) {
        unit /= 10;
        us += (uint64_t)(**end - '0') * unit;
    }
    return us;
}

bool moment_parse(const char *text, uint64_t *time_us)
{
    struct tm utc = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    if (!rest)
        return false;
    uint64_t us = 0;
    if (*rest == '.')
        us = parse_fraction(rest + 1, &rest);
    time_t seconds = timegm(&utc);
    *time_us = (uint64_t)seconds * SECOND_US + us;
    return seconds >= 0 && strcmp(rest, "Z") == 0;
}

const char *moment_text(uint64_t time_us, char text[MOMENT_TEXT_MAX])
{
    struct tm utc;
    time_t seconds = (time_t)(time_us / SECOND_US);
    CHECK(gmtime_r(&seconds, &utc));
    size_t len = strftime(text, MOMENT_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + len, MOMENT_TEXT_MAX - len, ".%06dZ", (int)(time_us % SECOND_US));
    return text;
}

/* ---- which moments there are ---- */

static bool say(char *error, size_t size, const struct source *source, const char *what)
{
    (void)snprintf(error, size, "shard %s: %s", source->manifest->shard, what);
    return false;
}

bool moment_reach(const struct source *source, const char *archive, struct archive_reach *reach,
                  char *error, size_t size)
{
    const struct manifest *manifest = source->manifest;
    if (!manifest->log_id)
        return say(error, size, source,
                   "the backup does not tell the name of its log: its program was too old");
    struct archive_log *log = archive_log_new(archive, manifest->log_id, error, size);
    if (!log)
        return false;
    bool good = archive_log_walk(log, manifest->batch_index + 1, NULL, NULL, reach, error, size);
    if (reach->until_us < manifest->hybrid_us)
        reach->until_us = manifest->hybrid_us;
    if (!archive_log_files(log))
        (void)snprintf(reach->damage, sizeof reach->damage,
                       "there is no archive of its log %016" PRIx64, manifest->log_id);
    archive_log_free(log);
    return good;
}

bool moment_latest(const struct sources *sources, const char *archive, uint64_t *time_us,
                   char *error, size_t size)
{
    struct archive_reach reach;
    *time_us = HYBRID_MAX;
    for (size_t i = 0; i < sources->count; i++) {
        if (!moment_reach(&sources->items[i], archive, &reach, error, size))
            return false;
        if (reach.until_us < *time_us)
            *time_us = reach.until_us;
    }
    return true;
}

/* Says how far the archive of the shard goes. */
static bool too_late(const struct source *source, const struct archive_reach *reach, char *error,
                     size_t size)
{
    char until[MOMENT_TEXT_MAX];
    (void)snprintf(error, size, "shard %s: its archive goes to %s only%s%s%s",
                   source->manifest->shard, moment_text(reach->until_us, until),
                   reach->later ? ", where batches are missing" : "", *reach->damage ? ": " : "",
                   reach->damage);
    return false;
}

bool moment_check(const struct sources *sources, const char *archive, uint64_t time_us, char *error,
                  size_t size)
{
    struct archive_reach reach;
    for (size_t i = 0; i < sources->count; i++) {
        const struct source *source = &sources->items[i];
        if (!moment_reach(source, archive, &reach, error, size))
            return false;
        if (source->manifest->hybrid_us > time_us)
            return say(error, size, source,
                       "the backup is later than this moment: take an older one");
        if (reach.until_us < time_us)
            return too_late(source, &reach, error, size);
    }
    return true;
}

/* ---- replay ---- */

struct replayer {
    struct storage *storage;
    struct write_buffer rows; /* of the batches that are not in the tables yet */
    struct store_batch *batch;
    uint64_t until_us, last_us;
    uint64_t batches, bytes;
    _Atomic size_t written; /* of these into the tables */
    uint64_t last;          /* index of the last batch */
    int err;
};

/* Writes what was collected into the tables. */
static bool apply_collected(struct replayer *replayer, char *error, size_t size)
{
    struct storage *storage = replayer->storage;
    wal_show(storage_wal(storage));
    storage_commit(storage, replayer->last);
    if (write_buffer_apply(&replayer->rows, storage_store(storage), replayer->batch,
                           &replayer->written, error, size) != OK)
        return false;
    write_buffer_reset(&replayer->rows);
    storage_applied(storage, replayer->last);
    tool_progress("%" PRIu64 " batches of the archive, %" PRIu64 " bytes", replayer->batches,
                  replayer->bytes);
    return !storage_wal_is_long(storage) || storage_flush(storage, error, size) == OK;
}

/* The batch keeps its index. */
static bool append_record(struct replayer *replayer, uint64_t index, struct bytes record,
                          char *error, size_t size)
{
    uint64_t given;
    if (storage_append(replayer->storage, record, &given, error, size) != OK)
        return false;
    CHECK(given == index);
    if (!write_buffer_add_effects(&replayer->rows, record, error, size))
        return false;
    replayer->last = index;
    replayer->batches++;
    replayer->bytes += record.len;
    return write_buffer_memory(&replayer->rows) < BUFFER_BYTES ||
           apply_collected(replayer, error, size);
}

/* archive_record_fn */
static enum archive_go replay_record(void *owner, uint64_t index, struct bytes record, char *error,
                                     size_t size)
{
    struct replayer *replayer = owner;
    struct effects_header header;
    struct effects_reader reader;
    enum effects_read read = effects_open(record, &header, &reader);
    if (read != EFFECTS_READ) {
        (void)snprintf(error, size, "batch %" PRIu64 ": %s", index, effects_refusal(read));
        return ARCHIVE_FAIL;
    }
    if (header.hybrid)
        replayer->last_us = header.hybrid;
    if (replayer->last_us > replayer->until_us)
        return ARCHIVE_STOP;
    return append_record(replayer, index, record, error, size) ? ARCHIVE_GO_ON : ARCHIVE_FAIL;
}

/* The time of the last batch in the store. */
static bool read_store_time(struct store *store, uint64_t *time_us)
{
    struct slice value;
    struct batch_header header = {0};
    int err = store_get(store, CF_SYSTEM, BYTES(SYSTEM_HEADER), &value);
    bool good =
        err == ERR_NOT_FOUND || (err == OK && decode_batch_header(slice_bytes(&value), &header));
    if (err == OK)
        slice_release(&value);
    *time_us = header.hybrid;
    return good;
}

static bool replay_log(struct replayer *replayer, const struct archive_log *log,
                       const struct source *source, char *error, size_t size)
{
    struct archive_reach reach = {0};
    if (!archive_log_walk(log, storage_logged(replayer->storage) + 1, replay_record, replayer,
                          &reach, error, size) ||
        (replayer->batches && !apply_collected(replayer, error, size)))
        return false;
    bool is_there = replayer->last_us > replayer->until_us ||
                    reach.until_us >= replayer->until_us ||
                    source->manifest->hybrid_us >= replayer->until_us;
    return is_there || too_late(source, &reach, error, size);
}

bool moment_replay(struct storage *storage, const struct source *source, const char *archive,
                   uint64_t time_us, uint64_t *batches, char *error, size_t size)
{
    struct replayer replayer = {.storage = storage, .until_us = time_us};
    if (!read_store_time(storage_store(storage), &replayer.last_us))
        return say(error, size, source, "the batch header cannot be read");
    if (replayer.last_us > time_us)
        return say(error, size, source, "the backup is later than this moment: take an older one");
    struct archive_log *log = archive_log_new(archive, source->manifest->log_id, error, size);
    if (!log)
        return false;
    replayer.batch = store_batch_new();
    write_buffer_init(&replayer.rows);
    bool good = replay_log(&replayer, log, source, error, size);
    write_buffer_fini(&replayer.rows);
    store_batch_free(replayer.batch);
    archive_log_free(log);
    *batches = replayer.batches;
    return good;
}
