/*
 * overlay_iter.c - merged iteration over two write buffers and the store.
 *
 * Three sources, newest first: active write buffer, immutable write buffer, store. Each is at its next row in the direction
 * of the iteration. The nearest key wins; at equal keys the newest source wins, and the others skip the key.
 *
 * When the iterator is detached, the buffers are copies, and reader threads deliver the store's rows. While these are
 * pending the next row is not known; afterwards it is found again from the positions of the sources.
 */
#include "backend/storage/cached_iter.h"
#include "backend/storage/overlay_inner.h"
#include "shared/check.h"

#include <stdlib.h>

struct overlay_iter {
    struct overlay *overlay;
    enum cf cf;
    bool reverse;
    bool is_attempt;                 /* over the rows of the present attempt only */
    struct write_buffer *buffers[2]; /* active, immutable (or NULL) */
    const struct row_list *lists[2]; /* their rows, sorted */
    struct row *rows[2];             /* current row in each buffer */
    struct write_buffer *own;        /* the two copies in buffers[] when detached; else NULL */
    struct cached_iter stored;
    struct bytes lower;
    struct bytes upper; /* empty: unbounded */
    int winner;         /* 0, 1: a buffer; 2: the store; -1: the end */
    size_t passed;      /* rows that are not there any more; see overlay_iter_passed */
    char bounds[];
};

struct overlay_iter *overlay_iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                      struct bytes upper)
{
    struct overlay_iter *iter = calloc(1, sizeof *iter + lower.len + upper.len);
    CHECK(iter);
    iter->overlay = overlay;
    iter->cf = cf;
    iter->buffers[0] = overlay->active;
    iter->buffers[1] = overlay->immutable;
    overlay->iterated[cf] = OVERLAY_ITERATED;
    for (int i = 0; i < 2; i++)
        if (iter->buffers[i])
            iter->lists[i] = write_buffer_order(iter->buffers[i], cf, lower, upper);
    if (lower.len)
        memcpy(iter->bounds, lower.data, lower.len);
    if (upper.len)
        memcpy(iter->bounds + lower.len, upper.data, upper.len);
    iter->lower = (struct bytes){iter->bounds, lower.len};
    iter->upper = (struct bytes){iter->bounds + lower.len, upper.len};
    cached_iter_init(&iter->stored, overlay, cf, iter->lower, iter->upper);
    iter->winner = -1;
    return iter;
}

struct overlay_iter *overlay_iter_new_attempt(struct overlay *overlay, enum cf cf,
                                              struct bytes lower, struct bytes upper)
{
    struct overlay_iter *iter = overlay_iter_new(overlay, cf, lower, upper);
    CHECK(overlay->attempt.is_on);
    iter->stored.is_through = iter->is_attempt = true;
    iter->buffers[1] = NULL; /* its rows are older */
    return iter;
}

/* Moves the store's iterator, unless the iteration is over rows of the attempt only. */
static void stored_seek(struct overlay_iter *iter, bool reverse, struct bytes key, bool has_from)
{
    if (!iter->is_attempt)
        cached_iter_seek(&iter->stored, reverse, key, has_from);
}

void overlay_iter_free(struct overlay_iter *iter)
{
    if (!iter)
        return;
    cached_iter_fini(&iter->stored);
    if (iter->own) {
        write_buffer_fini(&iter->own[0]);
        write_buffer_fini(&iter->own[1]);
        free(iter->own);
    }
    free(iter);
}

static bool in_iter_bounds(const struct overlay_iter *iter, struct bytes key)
{
    return bytes_compare(key, iter->lower) >= 0 &&
           (iter->upper.len == 0 || bytes_compare(key, iter->upper) < 0);
}

/* Copies the rows of a buffer from the current row on. */
static void copy_rows(struct overlay_iter *iter, int index, struct write_buffer *copy)
{
    struct row *at = iter->rows[index];
    struct row *last = iter->reverse ? at : NULL;
    struct row *row = iter->reverse ? rows_at_or_after(iter->lists[index], iter->lower) : at;
    for (; at && row && in_iter_bounds(iter, row->key); row = row->next[0]) {
        if (row->state != ROW_ABSENT) {
            struct row *own = write_buffer_append(copy, iter->cf, row->key);
            own->state = row->state; /* ticket 0: reading it observes no effect */
            overlay_observe_row(iter->overlay, row);
            own->value = arena_copy(&copy->arena, row->value);
            if (row == at)
                iter->rows[index] = own;
        }
        if (row == last)
            break;
    }
}

static void copy_ranges(const struct overlay_iter *iter, const struct write_buffer *buffer,
                        struct write_buffer *copy)
{
    for (size_t i = 0; i < buffer->ranges_count; i++) {
        struct range range = buffer->ranges[i];
        if (range.cf != iter->cf)
            continue;
        overlay_observe_effect(iter->overlay, range.ticket);
        range.ticket = 0;
        write_buffer_add_range(copy, &range);
    }
}

void overlay_iter_detach(struct overlay_iter *iter, uint64_t rows, void (*on_rows)(void *owner),
                         void *owner)
{
    CHECK(!iter->own);
    iter->own = malloc(2 * sizeof *iter->own);
    CHECK(iter->own);
    cached_iter_detach(&iter->stored, rows, on_rows, owner);
    for (int i = 0; i < 2; i++) {
        struct write_buffer *copy = &iter->own[i];
        write_buffer_init(copy);
        if (!iter->buffers[i])
            continue;
        copy_rows(iter, i, copy);
        copy_ranges(iter, iter->buffers[i], copy);
        iter->lists[i] = write_buffer_order(copy, iter->cf, BYTES(""), BYTES(""));
        iter->buffers[i] = copy;
    }
}

/* Does the iteration pass over the row? */
static bool is_hidden(const struct overlay_iter *iter, const struct row *row)
{
    return row->state == ROW_ABSENT ||
           (iter->is_attempt && row->attempt != iter->overlay->attempt.number);
}

/* The row that follows `row` in a write buffer, in the direction of the iteration; NULL: there is none. */
static struct row *row_after(const struct overlay_iter *iter, int index, const struct row *row)
{
    return iter->reverse ? rows_before(iter->lists[index], row->key, false, false) : row->next[0];
}

/* The first row from `row` on in this direction that is not hidden and is within the bounds. */
static struct row *buffer_skip_hidden(struct overlay_iter *iter, int index, struct row *row)
{
    for (; row && is_hidden(iter, row); iter->passed++)
        row = row_after(iter, index, row);
    return row && in_iter_bounds(iter, row->key) ? row : NULL;
}

static void buffer_step(struct overlay_iter *iter, int index)
{
    iter->rows[index] = buffer_skip_hidden(iter, index, row_after(iter, index, iter->rows[index]));
}

static struct bytes source_key(const struct overlay_iter *iter, int source)
{
    return source < 2 ? iter->rows[source]->key : cached_iter_key(&iter->stored);
}

static bool source_valid(const struct overlay_iter *iter, int source)
{
    return source < 2 ? iter->rows[source] != NULL : cached_iter_valid(&iter->stored);
}

static void source_step(struct overlay_iter *iter, int source)
{
    if (source < 2)
        buffer_step(iter, source);
    else
        cached_iter_step(&iter->stored);
}

/* The nearest source, the newest among equal keys, or -1; older sources skip the same key. */
static int nearest_source(struct overlay_iter *iter)
{
    int winner = -1;
    for (int source = 0; source < 3; source++) {
        if (!source_valid(iter, source))
            continue;
        int order =
            winner < 0 ? -1 : bytes_compare(source_key(iter, source), source_key(iter, winner));
        if (winner >= 0 && order == 0)
            source_step(iter, source);
        else if (winner < 0 || (iter->reverse ? order > 0 : order < 0))
            winner = source;
    }
    return winner;
}

/* The deleted range of a buffer newer than `source` that contains this key; NULL: none. */
static const struct range *covered(struct overlay_iter *iter, int source, struct bytes key)
{
    for (int newer = 0; newer < source && newer < 2; newer++) {
        const struct write_buffer *buffer = iter->buffers[newer];
        const struct range *range =
            buffer && buffer->ranges_count ? write_buffer_range_of(buffer, iter->cf, key) : NULL;
        if (range) {
            overlay_observe_effect(iter->overlay, range->ticket);
            return range;
        }
    }
    return NULL;
}

/* Moves the store's iterator past a deleted range instead of through its rows. */
static void store_jump(struct overlay_iter *iter, const struct range *range)
{
    const struct bytes to = range->to;
    bool is_rest = to.len == 0 || (iter->upper.len && bytes_compare(to, iter->upper) >= 0);
    if (iter->reverse)
        cached_iter_skip(&iter->stored, range->from);
    else if (is_rest)
        cached_iter_end(&iter->stored);
    else
        cached_iter_skip(&iter->stored, to);
}

/* Finds the next visible row from the positions of the sources. */
static void iter_find_visible(struct overlay_iter *iter)
{
    for (;;) {
        int winner = iter->stored.is_stuck ? -1 : nearest_source(iter);
        if (iter->stored.is_stuck) /* an older source has skipped a key */
            winner = -1;
        iter->winner = winner;
        if (winner < 0)
            return;
        if (winner < 2)
            overlay_observe_row(iter->overlay, iter->rows[winner]);
        const struct range *range = covered(iter, winner, source_key(iter, winner));
        if (!range && (winner == 2 || iter->rows[winner]->state == ROW_VALUE))
            return;
        iter->passed++;
        if (range && winner == 2)
            store_jump(iter, range);
        else
            source_step(iter, winner);
    }
}

void overlay_iter_seek(struct overlay_iter *iter, struct bytes key)
{
    if (bytes_compare(key, iter->lower) < 0)
        key = iter->lower;
    iter->reverse = false;
    for (int i = 0; i < 2; i++)
        if (iter->buffers[i])
            iter->rows[i] = buffer_skip_hidden(iter, i, rows_at_or_after(iter->lists[i], key));
    stored_seek(iter, false, key, true);
    iter_find_visible(iter);
}

void overlay_iter_seek_first(struct overlay_iter *iter)
{
    overlay_iter_seek(iter, iter->lower);
}

static void seek_back(struct overlay_iter *iter, struct bytes key, bool or_equal, bool unbounded)
{
    iter->reverse = true;
    for (int i = 0; i < 2; i++)
        if (iter->buffers[i])
            iter->rows[i] =
                buffer_skip_hidden(iter, i, rows_before(iter->lists[i], key, or_equal, unbounded));
}

void overlay_iter_seek_last(struct overlay_iter *iter)
{
    seek_back(iter, iter->upper, false, iter->upper.len == 0);
    stored_seek(iter, true, iter->upper, false);
    iter_find_visible(iter);
}

void overlay_iter_seek_for_prev(struct overlay_iter *iter, struct bytes key)
{
    if (iter->upper.len && bytes_compare(key, iter->upper) >= 0) {
        overlay_iter_seek_last(iter);
        return;
    }
    seek_back(iter, key, true, false);
    stored_seek(iter, true, key, true);
    iter_find_visible(iter);
}

void overlay_iter_next(struct overlay_iter *iter)
{
    CHECK(!iter->reverse);
    source_step(iter, iter->winner);
    iter_find_visible(iter);
}

void overlay_iter_prev(struct overlay_iter *iter)
{
    CHECK(iter->reverse);
    source_step(iter, iter->winner);
    iter_find_visible(iter);
}

bool overlay_iter_valid(const struct overlay_iter *iter)
{
    return iter->winner >= 0;
}

struct bytes overlay_iter_key(const struct overlay_iter *iter)
{
    return source_key(iter, iter->winner);
}

struct bytes overlay_iter_value(const struct overlay_iter *iter)
{
    return iter->winner < 2 ? iter->rows[iter->winner]->value : cached_iter_value(&iter->stored);
}

size_t overlay_iter_passed(struct overlay_iter *iter)
{
    size_t passed = iter->passed;
    iter->passed = 0;
    return passed;
}

bool overlay_iter_waits(const struct overlay_iter *iter)
{
    return cached_iter_is_pending(&iter->stored);
}

void overlay_iter_go_on(struct overlay_iter *iter)
{
    if (!iter->stored.is_stuck)
        return;
    cached_iter_look(&iter->stored);
    iter_find_visible(iter);
}

int overlay_iter_error(const struct overlay_iter *iter)
{
    return cached_iter_error(&iter->stored);
}
