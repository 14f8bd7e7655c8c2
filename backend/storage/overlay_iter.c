/*
 * overlay_iter.c - merged iteration over write buffers and the store.
 *
 * Sources, newest first: in a view (view.h) its two buffers; active write buffer, immutable write buffer; the store. Each is at its next
 * row in the direction of the iteration. The nearest key wins; at equal keys the newest source wins, and the others skip the key.
 *
 * When the iterator is detached, the buffers are copies, and reader threads deliver the store's rows. While these are
 * pending the next row is not known; afterwards it is found again from the positions of the sources.
 */
#include "backend/storage/cached_iter.h"
#include "backend/storage/overlay_inner.h"
#include "shared/check.h"

#include <stdlib.h>

enum { BUFFERS_MAX = 4 };

struct overlay_iter {
    struct overlay *overlay;
    enum cf cf;
    bool reverse;
    bool is_borrowed;                          /* over the view's rows only */
    int count;                                 /* of buffers */
    struct write_buffer *buffers[BUFFERS_MAX]; /* newest first */
    const struct row_list *lists[BUFFERS_MAX]; /* their rows, sorted */
    struct row *rows[BUFFERS_MAX];             /* current row in each buffer */
    struct write_buffer *own; /* the copies in buffers[] when detached; else NULL */
    struct cached_iter stored;
    struct bytes lower;
    struct bytes upper; /* empty: unbounded */
    int winner;         /* number of a buffer; `count`: the store; -1: the end */
    size_t passed;      /* rows that are not there any more; see overlay_iter_passed */
    char bounds[];
};

static void add_buffer(struct overlay_iter *iter, struct write_buffer *buffer)
{
    if (!buffer)
        return;
    iter->buffers[iter->count] = buffer;
    iter->lists[iter->count++] = write_buffer_order(buffer, iter->cf, iter->lower, iter->upper);
}

/* Has no sources but those of a view. */
static struct overlay_iter *iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                     struct bytes upper)
{
    struct overlay_iter *iter = calloc(1, sizeof *iter + lower.len + upper.len);
    CHECK(iter);
    iter->overlay = overlay;
    iter->cf = cf;
    if (lower.len)
        memcpy(iter->bounds, lower.data, lower.len);
    if (upper.len)
        memcpy(iter->bounds + lower.len, upper.data, upper.len);
    iter->lower = (struct bytes){iter->bounds, lower.len};
    iter->upper = (struct bytes){iter->bounds + lower.len, upper.len};
    cached_iter_init(&iter->stored, overlay, cf, iter->lower, iter->upper);
    iter->winner = -1;
    if (overlay->view) {
        add_buffer(iter, &overlay->view->written);
        add_buffer(iter, &overlay->view->borrowed);
    }
    return iter;
}

struct overlay_iter *overlay_iter_new(struct overlay *overlay, enum cf cf, struct bytes lower,
                                      struct bytes upper)
{
    struct overlay_iter *iter = iter_new(overlay, cf, lower, upper);
    overlay->iterated[cf] = OVERLAY_ITERATED;
    add_buffer(iter, overlay->active);
    add_buffer(iter, overlay->immutable);
    return iter;
}

struct overlay_iter *overlay_iter_new_borrowed(struct overlay *overlay, enum cf cf,
                                               struct bytes lower, struct bytes upper)
{
    CHECK(overlay->view);
    struct overlay_iter *iter = iter_new(overlay, cf, lower, upper);
    iter->stored.is_through = iter->is_borrowed = true;
    return iter;
}

/* Moves the store's iterator, unless the iteration is over the view's rows only. */
static void stored_seek(struct overlay_iter *iter, bool reverse, struct bytes key, bool has_from)
{
    if (!iter->is_borrowed)
        cached_iter_seek(&iter->stored, reverse, key, has_from);
}

void overlay_iter_free(struct overlay_iter *iter)
{
    if (!iter)
        return;
    cached_iter_fini(&iter->stored);
    for (int i = 0; iter->own && i < iter->count; i++)
        write_buffer_fini(&iter->own[i]);
    free(iter->own);
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
    iter->own = malloc((size_t)iter->count * sizeof *iter->own);
    CHECK(iter->own);
    cached_iter_detach(&iter->stored, rows, on_rows, owner);
    for (int i = 0; i < iter->count; i++) {
        struct write_buffer *copy = &iter->own[i];
        write_buffer_init(copy);
        copy_rows(iter, i, copy);
        copy_ranges(iter, iter->buffers[i], copy);
        iter->lists[i] = write_buffer_order(copy, iter->cf, BYTES(""), BYTES(""));
        iter->buffers[i] = copy;
    }
}

/* The row that follows `row` in a write buffer, in the direction of the iteration; NULL: there is none. */
static struct row *row_after(const struct overlay_iter *iter, int index, const struct row *row)
{
    return iter->reverse ? rows_before(iter->lists[index], row->key, false, false) : row->next[0];
}

/* The first row from `row` on in this direction that is not absent and is within the bounds. */
static struct row *buffer_skip_absent(struct overlay_iter *iter, int index, struct row *row)
{
    for (; row && row->state == ROW_ABSENT; iter->passed++)
        row = row_after(iter, index, row);
    return row && in_iter_bounds(iter, row->key) ? row : NULL;
}

static void buffer_step(struct overlay_iter *iter, int index)
{
    iter->rows[index] = buffer_skip_absent(iter, index, row_after(iter, index, iter->rows[index]));
}

static struct bytes source_key(const struct overlay_iter *iter, int source)
{
    return source < iter->count ? iter->rows[source]->key : cached_iter_key(&iter->stored);
}

static bool source_valid(const struct overlay_iter *iter, int source)
{
    return source < iter->count ? iter->rows[source] != NULL : cached_iter_valid(&iter->stored);
}

static void source_step(struct overlay_iter *iter, int source)
{
    if (source < iter->count)
        buffer_step(iter, source);
    else
        cached_iter_step(&iter->stored);
}

/* The nearest source, the newest among equal keys, or -1; older sources skip the same key. */
static int nearest_source(struct overlay_iter *iter)
{
    int winner = -1;
    for (int source = 0; source <= iter->count; source++) {
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
    for (int newer = 0; newer < source && newer < iter->count; newer++) {
        const struct write_buffer *buffer = iter->buffers[newer];
        const struct range *range =
            buffer->ranges_count ? write_buffer_range_of(buffer, iter->cf, key) : NULL;
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
        bool is_stored = winner == iter->count;
        if (!is_stored)
            overlay_observe_row(iter->overlay, iter->rows[winner]);
        const struct range *range = covered(iter, winner, source_key(iter, winner));
        if (!range && (is_stored || iter->rows[winner]->state == ROW_VALUE))
            return;
        iter->passed++;
        if (range && is_stored)
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
    for (int i = 0; i < iter->count; i++)
        iter->rows[i] = buffer_skip_absent(iter, i, rows_at_or_after(iter->lists[i], key));
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
    for (int i = 0; i < iter->count; i++)
        iter->rows[i] =
            buffer_skip_absent(iter, i, rows_before(iter->lists[i], key, or_equal, unbounded));
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
    return iter->winner < iter->count ? iter->rows[iter->winner]->value
                                      : cached_iter_value(&iter->stored);
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
