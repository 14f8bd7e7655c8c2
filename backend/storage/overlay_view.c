/*
 * overlay_view.c - the attempt of a transaction over shards: its rows are above the overlay's buffers (view.h).
 */
#include "backend/storage/overlay_inner.h"
#include "shared/check.h"

#include <stdlib.h>

struct view *view_new(void)
{
    struct view *view = calloc(1, sizeof *view);
    CHECK(view);
    write_buffer_init(&view->written);
    write_buffer_init(&view->borrowed);
    return view;
}

void view_free(struct view *view)
{
    if (!view)
        return;
    write_buffer_fini(&view->written);
    write_buffer_fini(&view->borrowed);
    free(view);
}

void view_clear(struct view *view)
{
    write_buffer_reset(&view->written);
    write_buffer_reset(&view->borrowed);
    memset(view->lent, 0, sizeof view->lent);
}

void view_lend(struct view *view, enum cf cf, struct bytes key, const struct bytes *value)
{
    struct row *row = write_buffer_get_or_add(&view->borrowed, cf, key, hash_row(cf, key));
    size_t place;
    row->state = value ? ROW_VALUE : ROW_DELETED;
    row->value = value ? arena_copy(&view->borrowed.arena, *value) : (struct bytes){NULL, 0};
    if (stamps_place_of(cf, key, &place))
        view->lent[place / 64] |= 1ull << place % 64;
}

struct view *overlay_view(const struct overlay *overlay)
{
    return overlay->view;
}

void overlay_view_begin(struct overlay *overlay, struct view *view)
{
    CHECK(!overlay->view && !overlay->kept.attempt.is_on && !overlay->kept.script.is_on &&
          !overlay->kept.queue.is_on && !overlay->securing.is_on);
    overlay->view = view;
    view->effects = 0;
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

/* What was derived from rows of the view is wrong without them. */
static void stamp_rows(struct stamps *stamps, const struct view *view)
{
    const struct write_buffer *written = &view->written;
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = written->rows[cf].newest; row; row = row->older)
            stamps_row(stamps, cf, row->key);
    for (size_t i = 0; i < written->ranges_count; i++)
        stamps_range(stamps, written->ranges[i].cf, written->ranges[i].from, written->ranges[i].to);
    for (size_t word = 0; word < sizeof view->lent / sizeof view->lent[0]; word++)
        for (uint64_t bits = view->lent[word]; bits; bits &= bits - 1)
            stamps->of[word * 64 + (size_t)__builtin_ctzll(bits)]++;
}

void overlay_view_end(struct overlay *overlay)
{
    CHECK(overlay->view && !overlay->kept.script.is_on && !overlay->kept.queue.is_on);
    stamp_rows(&overlay->stamps, overlay->view);
    write_buffer_reset(&overlay->view->written);
    overlay->view = NULL;
    overlay_savepoint(overlay);
    overlay_space_marks(overlay);
}

/* By column family and key: the order may not depend on addresses, because it decides the bytes of a PREPARE. */
static int compare_written(const void *a, const void *b)
{
    const struct row *row_a = *(const struct row *const *)a;
    const struct row *row_b = *(const struct row *const *)b;
    return row_a->cf != row_b->cf ? (int)row_a->cf - (int)row_b->cf
                                  : bytes_compare(row_a->key, row_b->key);
}

void overlay_each_written(const struct overlay *overlay, const struct overlay_changes *changes)
{
    const struct write_buffer *written = &overlay->view->written;
    size_t count = 0;
    for (size_t i = 0; i < written->ranges_count; i++) {
        const struct range *range = &written->ranges[i];
        changes->on_range(changes->owner, range->cf, range->from, range->to);
    }
    const struct row **rows = malloc((written->rows_count + 1) * sizeof *rows);
    CHECK(rows);
    for (enum cf cf = 0; cf < CF_COUNT; cf++)
        for (const struct row *row = written->rows[cf].newest; row; row = row->older)
            if (row->state != ROW_ABSENT)
                rows[count++] = row;
    qsort(rows, count, sizeof *rows, compare_written);
    for (size_t i = 0; i < count; i++)
        changes->on_row(changes->owner, (enum cf)rows[i]->cf, rows[i]->key,
                        rows[i]->state == ROW_VALUE ? &rows[i]->value : NULL);
    free(rows);
}
