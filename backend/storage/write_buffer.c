#include "backend/storage/write_buffer.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <stdlib.h>

enum {
    INDEX_MIN = 64,     /* initial number of entries of the index */
    INDEX_KEPT = 65536, /* a bigger index is freed after a buffer that used few entries */
    INDEX_DENSE = 8,    /* entries per row: with fewer, the whole index is cleared and kept */
};

static void index_add(struct write_buffer *buffer, const struct index_entry *entry)
{
    size_t mask = buffer->index_cap - 1;
    size_t i = entry->hash & mask;
    while (buffer->index[i].row)
        i = (i + 1) & mask;
    buffer->index[i] = *entry;
}

/* Makes a new index with `cap` entries. */
static void index_make(struct write_buffer *buffer, size_t cap)
{
    free(buffer->index);
    buffer->index_cap = cap;
    buffer->index = calloc(buffer->index_cap, sizeof *buffer->index);
    CHECK(buffer->index);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (struct row *row = buffer->rows[cf].newest; row; row = row->older)
            index_add(buffer, &(struct index_entry){row->hash, row});
}

/* Doubles the index. An entry stays at its place or moves by the old size, so both halves are written from their beginning to their end, and
 * no row is read. */
static void index_grow(struct write_buffer *buffer)
{
    struct index_entry *old = buffer->index;
    size_t old_cap = buffer->index_cap;
    buffer->index_cap = old_cap ? old_cap * 2 : INDEX_MIN;
    buffer->index = calloc(buffer->index_cap, sizeof *buffer->index);
    CHECK(buffer->index);
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].row)
            index_add(buffer, &old[i]);
    free(old);
}

static int random_height(struct write_buffer *buffer)
{
    buffer->random ^= buffer->random << 13;
    buffer->random ^= buffer->random >> 7;
    buffer->random ^= buffer->random << 17;
    int height = 1 + __builtin_ctzll(buffer->random | (1ULL << 62)) / 2; /* a quarter per level */
    return height < WRITE_BUFFER_HEIGHT_MAX ? height : WRITE_BUFFER_HEIGHT_MAX;
}

struct row *write_buffer_append(struct write_buffer *buffer, enum cf cf, struct bytes key)
{
    struct rows *rows = &buffer->rows[cf];
    int height = random_height(buffer);
    struct row *row =
        arena_alloc(&buffer->arena, sizeof *row + (size_t)height * sizeof row->next[0]);
    *row = (struct row){
        .key = arena_copy(&buffer->arena, key),
        .older = rows->newest,
        .state = ROW_ABSENT,
        .cf = (uint8_t)cf,
        .height = (uint8_t)height,
    };
    rows->newest = row;
    rows->count++;
    buffer->rows_count++;
    return row;
}

struct row *write_buffer_get_or_add(struct write_buffer *buffer, enum cf cf, struct bytes key,
                                    uint64_t hash)
{
    struct row *row = write_buffer_find(buffer, cf, key, hash);
    if (row)
        return row;
    if (buffer->rows_count * 2 >= buffer->index_cap)
        index_grow(buffer);
    row = write_buffer_append(buffer, cf, key);
    row->hash = hash;
    index_add(buffer, &(struct index_entry){hash, row});
    return row;
}

/* Forgets all rows. */
static void rows_clear(struct write_buffer *buffer)
{
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        buffer->rows[cf] = (struct rows){.is_whole = !cf_has_collections(cf)};
}

void write_buffer_init(struct write_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
    arena_init(&buffer->arena);
    rows_clear(buffer);
    buffer->random = clock_random() | 1;
}

/* Clears the index for the next buffer, which will need the same size: growing would add every row again. The index
 * may be much bigger than its content, e.g. a small buffer after a big one: then only the entries of the rows are
 * cleared, each in the contiguous run that begins at the row's hash. */
static void index_clear(struct write_buffer *buffer)
{
    size_t mask = buffer->index_cap - 1;
    if (buffer->rows_count * INDEX_DENSE >= buffer->index_cap) {
        if (buffer->index_cap)
            memset(buffer->index, 0, buffer->index_cap * sizeof *buffer->index);
        return;
    }
    if (buffer->index_cap > INDEX_KEPT) {
        free(buffer->index);
        buffer->index = NULL;
        buffer->index_cap = 0;
        return;
    }
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = buffer->rows[cf].newest; row; row = row->older)
            for (size_t i = row->hash & mask; buffer->index[i].row; i = (i + 1) & mask)
                buffer->index[i].row = NULL;
}

void write_buffer_reset(struct write_buffer *buffer)
{
    index_clear(buffer);
    arena_reset(&buffer->arena);
    buffer->big_bytes = 0;
    rows_clear(buffer);
    buffer->rows_count = 0;
    buffer->ranges_count = 0;
}

struct write_buffer_mark write_buffer_mark(const struct write_buffer *buffer)
{
    struct write_buffer_mark mark = {.arena = arena_mark(&buffer->arena),
                                     .big_bytes = buffer->big_bytes};
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        mark.newest[cf] = buffer->rows[cf].newest;
    return mark;
}

/* Forgets the rows of a column family that are newer than `newest`. The others will be sorted again: links to rows that are gone may be
 * in any list. */
static void rows_cut(struct write_buffer *buffer, struct rows *rows, struct row *newest)
{
    struct rows old = {.newest = newest, .count = rows->count, .is_whole = rows->is_whole};
    for (const struct row *row = rows->newest; row != newest; row = row->older) {
        old.count--;
        buffer->rows_count--;
    }
    *rows = old;
}

void write_buffer_release(struct write_buffer *buffer, const struct write_buffer_mark *mark)
{
    size_t cap = INDEX_MIN;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        rows_cut(buffer, &buffer->rows[cf], mark->newest[cf]);
    while (cap < buffer->rows_count * 2)
        cap *= 2;
    index_make(buffer, cap);
    arena_release(&buffer->arena, &mark->arena);
    buffer->big_bytes = mark->big_bytes;
}

void write_buffer_fini(struct write_buffer *buffer)
{
    arena_fini(&buffer->arena);
    free(buffer->index);
    free(buffer->ranges);
}

bool range_has(const struct range *range, enum cf cf, struct bytes key)
{
    return range->cf == cf && bytes_compare(key, range->from) >= 0 &&
           (range->to.len == 0 || bytes_compare(key, range->to) < 0);
}

void write_buffer_add_range(struct write_buffer *buffer, const struct range *range)
{
    if (buffer->ranges_count == buffer->ranges_cap) {
        buffer->ranges_cap = buffer->ranges_cap ? buffer->ranges_cap * 2 : 8;
        buffer->ranges = realloc(buffer->ranges, buffer->ranges_cap * sizeof *buffer->ranges);
        CHECK(buffer->ranges);
    }
    struct range *added = &buffer->ranges[buffer->ranges_count++];
    *added = *range;
    added->from = arena_copy(&buffer->arena, range->from);
    added->to = arena_copy(&buffer->arena, range->to);
}

const struct range *write_buffer_range_of(const struct write_buffer *buffer, enum cf cf,
                                          struct bytes key)
{
    for (size_t i = buffer->ranges_count; i > 0; i--)
        if (range_has(&buffer->ranges[i - 1], cf, key))
            return &buffer->ranges[i - 1];
    return NULL;
}
