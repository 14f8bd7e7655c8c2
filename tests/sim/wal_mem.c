/*
 * wal_mem.c - wal.h in memory, for simulations.
 *
 *   registry ─► disk (a path) ─► batches       outlive the logs
 *                 ▲
 *                wal
 */
#include "tests/sim/wal_mem.h"

#include "backend/format/effects.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/list.h"
#include "tests/sim/sim_break.h"
#include "tests/sim/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNSYNCED_MAX = 1024, /* older unsynced batches count as written back by the system */
    BATCH_BYTES = WAL_MEM_LIMIT / 20,
    SPARE_BYTES = 8000,
    SPARE_BATCH_BYTES = 400, /* at most */
    PROBE_BYTES = 500,       /* of wal_probe */
    SEGMENT_BATCHES = 4,     /* batches 1 to 4 are one segment, 5 to 8 the next ... */
};

struct record {
    size_t len;
    char data[];
};

/* The contents of a path. */
struct disk {
    struct disk *next;
    char *path;
    bool is_open;
    uint64_t first;          /* index of records[0], or of the next batch */
    struct record **records; /* oldest first */
    size_t count, cap;
    size_t unsynced;             /* number of newest records that are not synced */
    uint64_t room;               /* for bytes of batches */
    uint64_t spare;              /* … in the spare segment */
    uint64_t trimmed, committed; /* the files `filed` and `committed` of a real log */
};

struct wal {
    struct disk *disk; /* NULL after a crash */
    uint64_t last;
    size_t unshown; /* number of newest records that are not shown */
    struct list cursors;
    /* batch whose write failed and which may have reached the disk; NULL: none */
    struct record *doubtful;
    bool is_on_spare;
    int stopped; /* OK, or the error for every further batch */
    int fail_kind;
    uint64_t fail_in, fail_rotates;
    uint64_t writes;
};

struct wal_cursor {
    struct list node; /* in wal->cursors */
    struct wal *wal;
    uint64_t next;
    bool is_weak;
    bool is_truncated;
    char *batch; /* a copy of the one that was read last: it may be trimmed now */
};

void (*wal_mem_hear)(const char *path, uint64_t index, struct bytes batch);
static struct disk *disks;
static uint64_t chance_state = 1;

static uint64_t chance(uint64_t limit)
{
    chance_state += UINT64_C(0x9e3779b97f4a7c15);
    return row_mix(chance_state) % limit;
}

static int refuse(int err, char *error, size_t size)
{
    snprintf(error, size, "%s", err == ERR_DISK_FULL ? "no space left" : "input/output error");
    return err;
}

/* ---- disks ------------------------------------------------------------------------------- */

static struct record *record_new(struct bytes batch)
{
    struct record *record = malloc(sizeof *record + batch.len);
    CHECK(record);
    record->len = batch.len;
    memcpy(record->data, batch.data, batch.len);
    return record;
}

static struct bytes record_bytes(const struct record *record)
{
    return (struct bytes){record->data, record->len};
}

static struct disk *disk_find(const char *path)
{
    for (struct disk *disk = disks; disk; disk = disk->next)
        if (strcmp(disk->path, path) == 0)
            return disk;
    return NULL;
}

static struct disk *disk_new(const char *path)
{
    struct disk *disk = calloc(1, sizeof *disk);
    CHECK(disk);
    disk->path = strdup(path);
    CHECK(disk->path);
    disk->first = 1;
    disk->room = UINT64_MAX;
    disk->next = disks;
    disks = disk;
    return disk;
}

/* Adds the batch and takes ownership of it. */
static void disk_push(struct disk *disk, struct record *record)
{
    if (wal_mem_hear)
        wal_mem_hear(disk->path, disk->first + disk->count, record_bytes(record));
    if (disk->count == disk->cap) {
        disk->cap = disk->cap ? 2 * disk->cap : 64;
        disk->records = realloc(disk->records, disk->cap * sizeof *disk->records);
        CHECK(disk->records);
    }
    disk->records[disk->count++] = record;
    if (disk->unsynced < UNSYNCED_MAX)
        disk->unsynced++;
}

/* Removes the oldest `count` batches. */
static void disk_trim(struct disk *disk, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(disk->records[i]);
    if (count)
        memmove(disk->records, disk->records + count,
                (disk->count - count) * sizeof *disk->records);
    disk->first += count;
    disk->count -= count;
    if (disk->unsynced > disk->count)
        disk->unsynced = disk->count;
}

/* Removes the newest `count` batches, as if they had not been written. */
static void disk_cut(struct disk *disk, size_t count)
{
    CHECK(count <= disk->count);
    for (size_t i = 0; i < count; i++)
        free(disk->records[--disk->count]);
    disk->unsynced -= count < disk->unsynced ? count : disk->unsynced;
}

static bool disk_replay(const struct disk *disk, uint64_t trimmed, wal_fn *read, void *owner,
                        char *error, size_t size)
{
    for (size_t i = 0; i < disk->count; i++)
        if (disk->first + i > trimmed &&
            !read(owner, disk->first + i, record_bytes(disk->records[i]), error, size))
            return false;
    return true;
}

/* ---- crashes ----------------------------------------------------------------------------- */

static void add_effect(struct effects *to, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_PUT:
        effects_put(to, effect->cf, effect->key, effect->value);
        break;
    case EFFECT_DELETE:
        effects_delete(to, effect->cf, effect->key);
        break;
    case EFFECT_DELETE_RANGE:
        effects_delete_range(to, effect->cf, effect->key, effect->to);
        break;
    case EFFECT_NOTE:
        effects_note(to, effect->cf, effect->key, effect->value);
        break;
    }
}

/* A batch with some of the effects of the record. */
static struct record *tear(const struct record *record)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    struct effects *part = effects_new();
    CHECK(effects_open(record_bytes(record), &header, &reader) == EFFECTS_READ);
    effects_begin(part, &header);
    for (uint64_t left = chance((uint64_t)header.count + 1); left > 0; left--) {
        CHECK(effects_next_or_note(&reader, &effect) == EFFECTS_READ);
        add_effect(part, &effect);
    }
    struct record *torn = record_new(effects_bytes(part));
    effects_free(part);
    return torn;
}

/* With a control of sim_break.h: loses the newest batch although it was synced, or a part of it. */
static void disk_break(struct disk *disk)
{
    if (disk->count == 0 || (sim_broken != BREAK_LOST_SYNC && sim_broken != BREAK_TORN_BATCH))
        return;
    struct record *torn =
        sim_broken == BREAK_TORN_BATCH ? tear(disk->records[disk->count - 1]) : NULL;
    disk_cut(disk, 1);
    if (torn)
        disk_push(disk, torn);
}

void wal_mem_crash(struct wal *wal)
{
    struct disk *disk = wal->disk;
    CHECK(disk);
    size_t lost = chance(disk->unsynced + 1);
    disk_cut(disk, lost);
    if (wal->doubtful && lost == 0 && chance(2)) {
        disk_push(disk, wal->doubtful);
        wal->doubtful = NULL;
    }
    disk_break(disk);
    if (row_mix(disk->trimmed) % 2) /* it is written without a sync */
        disk->trimmed = 0;
    disk->unsynced = 0;
    disk->is_open = false;
    wal->disk = NULL;
    wal->stopped = ERR_STORE;
}

/* ---- hooks ------------------------------------------------------------------------------- */

void wal_mem_reset(void)
{
    while (disks) {
        struct disk *disk = disks;
        CHECK(!disk->is_open);
        disks = disk->next;
        disk_trim(disk, disk->count);
        free(disk->records);
        free(disk->path);
        free(disk);
    }
}

void wal_mem_seed(uint64_t seed)
{
    chance_state = seed;
}

void wal_mem_fail_next(struct wal *wal, uint64_t n, int kind)
{
    CHECK(kind == ERR_DISK_FULL || kind == ERR_STORE);
    wal->fail_in = n;
    wal->fail_kind = kind;
}

void wal_mem_fail_rotate(struct wal *wal, uint64_t times)
{
    wal->fail_rotates = times;
}

void wal_mem_set_room(const char *path, uint64_t bytes)
{
    struct disk *disk = disk_find(path);
    if (disk)
        disk->room = bytes;
}

uint64_t wal_mem_writes(const struct wal *wal)
{
    return wal->writes;
}

/* ---- open and close ---------------------------------------------------------------------- */

struct wal *wal_open(const struct wal_options *options, wal_fn *read, void *owner, char *error,
                     size_t size)
{
    struct disk *disk = disk_find(options->path);
    if (!disk)
        disk = disk_new(options->path);
    CHECK(!disk->is_open && (!options->trimmed || !disk->count));
    if (options->trimmed > disk->trimmed) {
        disk->trimmed = options->trimmed;
        disk->first = options->trimmed + 1;
    }
    if (!disk_replay(disk, disk->trimmed, read, owner, error, size))
        return NULL;
    struct wal *wal = calloc(1, sizeof *wal);
    CHECK(wal);
    disk->is_open = true;
    wal->disk = disk;
    wal->last = disk->first + disk->count - 1;
    list_init(&wal->cursors);
    return wal;
}

bool wal_read_only(const char *path, wal_fn *read, void *owner, char *error, size_t size)
{
    const struct disk *disk = disk_find(path);
    return !disk || disk_replay(disk, 0, read, owner, error, size);
}

static void drop_doubtful(struct wal *wal)
{
    free(wal->doubtful);
    wal->doubtful = NULL;
}

static void drop_unshown(struct wal *wal)
{
    disk_cut(wal->disk, wal->unshown);
    wal->unshown = 0;
}

/* Keeps unsynced batches, which only a crash loses. */
void wal_close(struct wal *wal)
{
    if (!wal)
        return;
    CHECK(list_empty(&wal->cursors));
    if (wal->disk) {
        drop_unshown(wal);
        wal->disk->is_open = false;
    }
    drop_doubtful(wal);
    free(wal);
}

/* ---- append and sync --------------------------------------------------------------------- */

static bool take(uint64_t *room, uint64_t bytes)
{
    bool has_room = *room >= bytes;
    if (has_room && *room != UINT64_MAX)
        *room -= bytes;
    return has_room;
}

static bool take_room(struct wal *wal, size_t bytes)
{
    if (wal->is_on_spare && bytes <= SPARE_BATCH_BYTES)
        return take(&wal->disk->spare, bytes);
    wal->is_on_spare &= bytes == 0;
    return take(&wal->disk->room, bytes);
}

/* OK, or the error for this write of so many bytes. */
static int write_gate(struct wal *wal, size_t bytes)
{
    wal->writes++;
    if (!wal->stopped && !take_room(wal, bytes))
        wal->stopped = ERR_DISK_FULL;
    if (!wal->stopped && wal->fail_in && --wal->fail_in == 0)
        wal->stopped = wal->fail_kind;
    return wal->stopped;
}

int wal_append(struct wal *wal, struct bytes batch, bool sync, char *error, size_t size)
{
    bool was_stopped = wal->stopped != OK;
    int err = write_gate(wal, batch.len);
    if (err == ERR_STORE && !was_stopped)
        wal->doubtful = record_new(batch);
    if (err != OK)
        return refuse(err, error, size);
    disk_push(wal->disk, record_new(batch));
    wal->last += wal->unshown + 1;
    wal->unshown = 0;
    if (sync)
        wal->disk->unsynced = 0;
    return OK;
}

int wal_write(struct wal *wal, struct bytes batch, uint64_t *index, char *error, size_t size)
{
    int err = write_gate(wal, batch.len);
    if (err != OK) {
        if (wal->disk)
            drop_unshown(wal);
        return refuse(err, error, size);
    }
    disk_push(wal->disk, record_new(batch));
    *index = wal->last + ++wal->unshown;
    return OK;
}

void wal_show(struct wal *wal)
{
    wal->last += wal->unshown;
    wal->unshown = 0;
}

/* Of the batches that are not shown, the first one may have reached a disk that fails. */
int wal_sync(struct wal *wal, char *error, size_t size)
{
    bool was_stopped = wal->stopped != OK;
    int err = write_gate(wal, 0);
    if (err != OK) {
        struct disk *disk = wal->disk;
        if (err == ERR_STORE && !was_stopped && wal->unshown)
            wal->doubtful = record_new(record_bytes(disk->records[disk->count - wal->unshown]));
        if (disk)
            drop_unshown(wal);
        return refuse(err, error, size);
    }
    wal->disk->unsynced = 0;
    wal_show(wal);
    return OK;
}

int wal_sync_upto(struct wal *wal, uint64_t index, char *error, size_t size)
{
    if (wal->stopped)
        return refuse(wal->stopped, error, size);
    CHECK(index <= wal->last);
    wal->disk->unsynced = 0;
    return OK;
}

int wal_rotate(struct wal *wal, char *error, size_t size)
{
    if (!wal->disk)
        return refuse(ERR_STORE, error, size);
    if (wal->stopped && wal->fail_rotates) {
        wal->fail_rotates--;
        return refuse(wal->stopped, error, size);
    }
    bool is_full = wal->disk->room < SPARE_BATCH_BYTES;
    if (is_full && !wal->disk->spare)
        return refuse(ERR_DISK_FULL, error, size);
    wal->is_on_spare = is_full;
    wal->stopped = OK;
    drop_unshown(wal);
    wal->disk->unsynced = 0;
    drop_doubtful(wal);
    return OK;
}

void wal_make_spare(struct wal *wal)
{
    if (wal->disk && !wal->disk->spare && wal->disk->room > SPARE_BYTES)
        wal->disk->spare = SPARE_BYTES;
}

bool wal_is_on_spare(const struct wal *wal)
{
    return wal->is_on_spare;
}

int wal_probe(struct wal *wal, char *error, size_t size)
{
    if (!wal->stopped && wal->disk && wal->disk->room < PROBE_BYTES)
        wal->stopped = ERR_DISK_FULL;
    return wal_sync(wal, error, size);
}

struct wal_copy {
    struct record **records;
    size_t count;
    uint64_t first;
};

struct wal_copy *wal_copy_begin(struct wal *wal, char *error, size_t size)
{
    (void)error, (void)size;
    struct wal_copy *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    copy->first = wal->disk->first;
    copy->count = wal->disk->count - wal->unshown;
    copy->records = calloc(copy->count + 1, sizeof *copy->records);
    CHECK(copy->records);
    for (size_t i = 0; i < copy->count; i++)
        copy->records[i] = record_new(record_bytes(wal->disk->records[i]));
    return copy;
}

void wal_copy_free(struct wal_copy *copy)
{
    if (!copy)
        return;
    for (size_t i = 0; i < copy->count; i++)
        free(copy->records[i]);
    free(copy->records);
    free(copy);
}

int wal_copy_end(struct wal_copy *copy, uint64_t index, char *error, size_t size)
{
    if (index + 1 < copy->first || index >= copy->first + copy->count) {
        snprintf(error, size, "the log does not have batch %" PRIu64, index);
        return ERR_STORE;
    }
    while (copy->first + copy->count > index + 1)
        free(copy->records[--copy->count]);
    return OK;
}

int wal_copy_write(const struct wal_copy *copy, const char *path, uint64_t committed, char *error,
                   size_t size)
{
    if (disk_find(path)) {
        snprintf(error, size, "%s: exists", path);
        return ERR_STORE;
    }
    struct disk *disk = disk_new(path);
    disk->first = copy->first;
    disk->committed = committed;
    for (size_t i = 0; i < copy->count; i++)
        disk_push(disk, record_new(record_bytes(copy->records[i])));
    disk->unsynced = 0;
    return OK;
}

int wal_copy(struct wal *wal, const char *path, uint64_t committed, char *error, size_t size)
{
    struct wal_copy *copy = wal_copy_begin(wal, error, size);
    int failure = wal_copy_write(copy, path, committed, error, size);
    wal_copy_free(copy);
    return failure;
}

uint64_t wal_committed_at(const char *path)
{
    const struct disk *disk = disk_find(path);
    return disk ? disk->committed : 0;
}

int wal_copy_ends(struct wal *wal, char *error, size_t size)
{
    (void)error, (void)size;
    wal->disk->committed = 0;
    return OK;
}

/* ---- trim and truncate ------------------------------------------------------------------- */

void wal_trim(struct wal *wal, uint64_t index)
{
    CHECK(index <= wal->last);
    if (!wal->disk)
        return;
    if (wal->disk->trimmed < index)
        wal->disk->trimmed = index;
    for (struct list *node = wal->cursors.next; node != &wal->cursors; node = node->next) {
        const struct wal_cursor *cursor = container_of(node, struct wal_cursor, node);
        if (!cursor->is_weak && cursor->next <= index)
            index = cursor->next - 1;
    }
    if (index >= wal->disk->first)
        disk_trim(wal->disk, (size_t)(index + 1 - wal->disk->first));
}

static void cut_after(struct wal *wal, uint64_t index)
{
    for (struct list *node = wal->cursors.next; node != &wal->cursors; node = node->next) {
        struct wal_cursor *cursor = container_of(node, struct wal_cursor, node);
        cursor->is_truncated |= cursor->next > index + 1;
    }
    disk_cut(wal->disk, (size_t)(wal->last - index));
    wal->disk->unsynced = 0;
    wal->last = index;
    drop_doubtful(wal);
}

int wal_truncate(struct wal *wal, uint64_t index, char *error, size_t size)
{
    if (!wal->disk || index + 1 < wal->disk->first || index < wal->disk->trimmed)
        return refuse(ERR_STORE, error, size);
    wal_show(wal);
    if (index < wal->last)
        cut_after(wal, index);
    return wal->stopped ? wal_rotate(wal, error, size) : OK;
}

/* ---- cursors ----------------------------------------------------------------------------- */

struct wal_cursor *wal_cursor_new(struct wal *wal, uint64_t from)
{
    if (!wal->disk || from < wal->disk->first || from > wal->last + 1)
        return NULL;
    struct wal_cursor *cursor = calloc(1, sizeof *cursor);
    CHECK(cursor);
    cursor->wal = wal;
    cursor->next = from;
    list_push(&wal->cursors, &cursor->node);
    return cursor;
}

struct wal_cursor *wal_cursor_new_weak(struct wal *wal, uint64_t from)
{
    struct wal_cursor *cursor = wal_cursor_new(wal, from);
    if (cursor)
        cursor->is_weak = true;
    return cursor;
}

void wal_cursor_free(struct wal_cursor *cursor)
{
    if (!cursor)
        return;
    list_remove(&cursor->node);
    free(cursor->batch);
    free(cursor);
}

int wal_cursor_next(struct wal_cursor *cursor, uint64_t *index, struct bytes *batch, char *error,
                    size_t size)
{
    const struct disk *disk = cursor->wal->disk;
    if (!disk || cursor->is_truncated)
        return refuse(ERR_STORE, error, size);
    uint64_t end = disk->first + disk->count - disk->unsynced;
    if (cursor->next > cursor->wal->last || (cursor->is_weak && cursor->next >= end))
        return ERR_NOT_FOUND;
    if (cursor->next < disk->first)
        return ERR_GONE;
    *index = cursor->next++;
    *batch = record_bytes(disk->records[*index - disk->first]);
    cursor->batch = realloc(cursor->batch, batch->len + 1);
    CHECK(cursor->batch);
    memcpy(cursor->batch, batch->data, batch->len);
    batch->data = cursor->batch;
    return OK;
}

/* ---- kept batches: there are none ---- */

void wal_keep(struct wal *wal, const struct wal_keep *keep)
{
    (void)wal, (void)keep;
}

void wal_keep_at(const char *path)
{
    (void)path;
}

void wal_copy_kept(struct wal *wal, const char *path)
{
    (void)wal, (void)path;
}

void wal_keep_none(struct wal *wal)
{
    (void)wal;
}

struct wal_kept wal_kept(struct wal *wal)
{
    (void)wal;
    return (struct wal_kept){0};
}

/* ---- figures ----------------------------------------------------------------------------- */

uint64_t wal_first(struct wal *wal)
{
    return wal->disk ? wal->disk->first : wal->last + 1;
}

uint64_t wal_trimmed(struct wal *wal)
{
    return wal->disk ? wal->disk->trimmed : 0;
}

uint64_t wal_last(const struct wal *wal)
{
    return wal->last;
}

uint64_t wal_written(const struct wal *wal)
{
    return wal->last + wal->unshown;
}

size_t wal_firsts(struct wal *wal, uint64_t *firsts, size_t max)
{
    size_t count = 0;
    for (uint64_t index = wal_first(wal); index <= wal->last; index++) {
        if (index != wal_first(wal) && index % SEGMENT_BATCHES != 1)
            continue;
        if (count < max)
            firsts[count] = index;
        count++;
    }
    return count;
}

uint64_t wal_bytes_at(const char *path)
{
    (void)path;
    return 0;
}

uint64_t wal_bytes(const struct wal *wal)
{
    return wal->disk ? wal->disk->count * BATCH_BYTES : 0;
}

bool wal_has_lost(const struct wal *wal)
{
    (void)wal;
    return false;
}

bool wal_has_lost_durable(const struct wal *wal)
{
    (void)wal;
    return false;
}

uint64_t wal_damaged(const struct wal *wal)
{
    (void)wal;
    return 0;
}
