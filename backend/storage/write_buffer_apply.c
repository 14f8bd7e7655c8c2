/*
 * write_buffer_apply.c - writes the rows of a buffer into RocksDB's tables, in order.
 *
 *   rows, newest first ─► (head, row) each ─► sorted by head, then by key ─► portions ─► store_apply
 *
 * Most of the cost is CPU cache misses, because rows lie in memory in the order in which they were written. So sorting
 * compares 8 bytes of each key (head) that are stored beside the row's address, and accesses rows only if heads are
 * equal. The bytes are taken from positions where keys differ: in name:000000012345 the digits after the zeroes.
 */
#include "backend/storage/write_buffer.h"
#include "shared/check.h"
#include "shared/error.h"

#include <stdlib.h>

enum {
    PORTION_BYTES = 64 * 1024, /* rows that are written to the tables together */
    HEAD_BYTES = 8,
    PLACES_MAX = 64, /* bytes of a key that are examined */
    DIGITS = 256,
    RADIX_MIN = 128, /* fewer rows are sorted by comparison */
    AHEAD = 16,      /* rows that are prefetched into the CPU's caches */
};

/* A row with distinguishing bytes of its key as a big-endian number; zeroes after a short key. */
struct sorted {
    uint64_t head;
    const struct row *row;
};

static int compare_rows(const void *a, const void *b)
{
    const struct sorted *one = a;
    const struct sorted *other = b;
    if (one->head != other->head)
        return one->head < other->head ? -1 : 1;
    return bytes_compare(one->row->key, other->row->key);
}

static size_t digit_of(uint64_t head, int byte)
{
    return head >> (8 * byte) & (DIGITS - 1);
}

/* Radix sort by head, from the lowest byte on; bytes that are equal in all heads are skipped. Both arrays have `count`
 * entries; returns the one with the result. */
static struct sorted *sort_by_head(struct sorted *from, struct sorted *to, size_t count)
{
    size_t places[HEAD_BYTES][DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        for (int byte = 0; byte < HEAD_BYTES; byte++)
            places[byte][digit_of(from[i].head, byte)]++;
    for (int byte = 0; byte < HEAD_BYTES; byte++) {
        size_t *place = places[byte];
        if (place[digit_of(from[0].head, byte)] == count)
            continue;
        for (size_t digit = 0, begin = 0; digit < DIGITS; digit++) {
            size_t has = place[digit];
            place[digit] = begin;
            begin += has;
        }
        for (size_t i = 0; i < count; i++)
            to[place[digit_of(from[i].head, byte)]++] = from[i];
        struct sorted *next = from;
        from = to;
        to = next;
    }
    return from;
}

/* Sorts rows with equal heads by their keys. */
static void sort_equal_heads(struct sorted *sorted, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && sorted[end].head == sorted[i].head)
            end++;
        if (end - i > 1)
            qsort(sorted + i, end - i, sizeof *sorted, compare_rows);
    }
}

/* Positions at which keys differ. */
struct places {
    uint8_t at[HEAD_BYTES]; /* the first positions that differ */
    int count;
};

/* Adds the positions at which two keys differ. Keys of different lengths differ at the positions after the shorter
 * one. */
static void note_differences(uint8_t differs[PLACES_MAX], struct bytes a, struct bytes b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    size_t either = a.len < b.len ? b.len : a.len;
    for (size_t i = 0; i < both && i < PLACES_MAX; i++)
        differs[i] |= (uint8_t)(a.data[i] ^ b.data[i]);
    for (size_t i = both; i < either && i < PLACES_MAX; i++)
        differs[i] = 1;
}

static struct places places_of(const struct rows *rows)
{
    uint8_t differs[PLACES_MAX] = {0};
    struct places places = {.count = 0};
    for (const struct row *row = rows->newest; row; row = row->older)
        note_differences(differs, rows->newest->key, row->key);
    for (int i = 0; i < PLACES_MAX && places.count < HEAD_BYTES; i++)
        if (differs[i])
            places.at[places.count++] = (uint8_t)i;
    return places;
}

/* A number with the order of the keys; different keys may have equal heads. */
static uint64_t head_of(struct bytes key, const struct places *places)
{
    uint64_t head = 0;
    for (int i = 0; i < places->count; i++) {
        size_t at = places->at[i];
        head = head << 8 | (at < key.len ? (uint8_t)key.data[at] : 0);
    }
    return head;
}

/* Sorts the rows of a column family that are not ABSENT; `room` is for twice as many. Returns where the result begins
 * in it. */
static struct sorted *sort_rows(const struct rows *rows, struct sorted *room, size_t *count)
{
    const struct places places = places_of(rows);
    *count = 0;
    for (const struct row *row = rows->newest; row; row = row->older)
        if (row->state != ROW_ABSENT)
            room[(*count)++] = (struct sorted){head_of(row->key, &places), row};
    if (*count < RADIX_MIN) {
        qsort(room, *count, sizeof *room, compare_rows);
        return room;
    }
    struct sorted *sorted = sort_by_head(room, room + *count, *count);
    sort_equal_heads(sorted, *count);
    return sorted;
}

/* The store and the batch to which a buffer is written. */
struct target {
    struct store *store;
    struct store_batch *batch;
    _Atomic size_t *written;
    char *error;
    size_t size;
};

static int apply_portion(const struct target *to)
{
    int err = store_apply(to->store, to->batch, to->error, to->size);
    atomic_fetch_add_explicit(to->written, store_batch_bytes(to->batch), memory_order_relaxed);
    store_batch_clear(to->batch);
    return err;
}

/* Prefetches the row that is AHEAD rows later, and the bytes of the row half as far, which is in the cache by then. */
static void prefetch_rows(const struct sorted *sorted, size_t i, size_t count)
{
    if (i + AHEAD >= count)
        return;
    const struct row *half = sorted[i + AHEAD / 2].row;
    __builtin_prefetch(sorted[i + AHEAD].row);
    __builtin_prefetch(half->key.data);
    __builtin_prefetch(half->value.data);
}

static int apply_rows(const struct rows *rows, enum cf cf, const struct target *to)
{
    struct sorted *room = malloc((2 * rows->count + 1) * sizeof *room);
    CHECK(room);
    size_t count;
    const struct sorted *sorted = sort_rows(rows, room, &count);
    int err = OK;
    for (size_t i = 0; i < count && err == OK; i++) {
        const struct row *row = sorted[i].row;
        prefetch_rows(sorted, i, count);
        if (row->state == ROW_VALUE)
            store_batch_put(to->batch, to->store, cf, row->key, row->value);
        else
            store_batch_delete(to->batch, to->store, cf, row->key);
        if (store_batch_bytes(to->batch) >= PORTION_BYTES || i + 1 == count)
            err = apply_portion(to);
    }
    free(room);
    return err;
}

/* The metadata row of a collection is written before its rows: a row without metadata is an orphan, which compaction
 * may drop. */
int write_buffer_apply(const struct write_buffer *buffer, struct store *store,
                       struct store_batch *batch, _Atomic size_t *written, char *error, size_t size)
{
    _Static_assert(CF_METADATA < CF_DATA && CF_METADATA < CF_ZSET_SCORE &&
                       CF_METADATA < CF_STREAM && CF_METADATA < CF_RANK,
                   "metadata goes first");
    const struct target to = {store, batch, written, error, size};
    for (size_t i = 0; i < buffer->ranges_count; i++)
        store_batch_delete_range(batch, store, buffer->ranges[i].cf, buffer->ranges[i].from,
                                 buffer->ranges[i].to);
    int err = buffer->ranges_count ? apply_portion(&to) : OK;
    for (enum cf cf = 0; cf < CF_COUNT && err == OK; cf++)
        err = apply_rows(&buffer->rows[cf], cf, &to);
    return err;
}
