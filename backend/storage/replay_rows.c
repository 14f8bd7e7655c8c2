#include "backend/storage/replay_rows.h"

#include "backend/storage/write_buffer.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    BYTES_MAX = 16 << 20, /* of memory, for each partition that starts */
    PROGRESS_EVERY_US = 1000 * 1000,
};

struct replay_rows {
    struct store *store;
    struct store_batch *batch;
    struct write_buffer buffer;
    _Atomic size_t written; /* for write_buffer_apply */
    /* how far the replay is */
    const char *path;
    uint64_t begun_us; /* monotonic time */
    uint64_t logged_us;
    uint64_t batches;
    uint64_t bytes;
    uint64_t bytes_max; /* of the WAL's files, with zeros at their ends */
};

struct replay_rows *replay_rows_new(struct store *store, const char *path)
{
    struct replay_rows *rows = calloc(1, sizeof *rows);
    CHECK(rows);
    rows->store = store;
    rows->path = path;
    rows->bytes_max = wal_bytes_at(path);
    rows->begun_us = rows->logged_us = clock_mono_us();
    rows->batch = store_batch_new();
    write_buffer_init(&rows->buffer);
    return rows;
}

void replay_rows_free(struct replay_rows *rows)
{
    if (!rows)
        return;
    write_buffer_fini(&rows->buffer);
    store_batch_free(rows->batch);
    free(rows);
}

int replay_rows_apply(struct replay_rows *rows, char *error, size_t size)
{
    int err =
        write_buffer_apply(&rows->buffer, rows->store, rows->batch, &rows->written, error, size);
    write_buffer_reset(&rows->buffer);
    return err;
}

int replay_rows_add(struct replay_rows *rows, struct bytes effects, char *error, size_t size)
{
    if (!write_buffer_add_effects(&rows->buffer, effects, error, size))
        return ERR_STORE;
    return write_buffer_memory(&rows->buffer) < BYTES_MAX ? OK
                                                          : replay_rows_apply(rows, error, size);
}

void replay_rows_count(struct replay_rows *rows, size_t bytes)
{
    uint64_t now_us = clock_mono_us();
    rows->batches++;
    rows->bytes += bytes;
    if (now_us - rows->logged_us < PROGRESS_EVERY_US)
        return;
    rows->logged_us = now_us;
    log_event(LOG_INFO, "wal_replaying", "path=%s bytes=%" PRIu64 " of=%" PRIu64, rows->path,
              rows->bytes, rows->bytes_max);
}

void replay_rows_end(const struct replay_rows *rows)
{
    if (rows->batches)
        log_event(LOG_INFO, "wal_replayed",
                  "path=%s batches=%" PRIu64 " bytes=%" PRIu64 " ms=%" PRIu64, rows->path,
                  rows->batches, rows->bytes, (clock_mono_us() - rows->begun_us) / 1000);
}
